//! What `interlink-mcp doctor` finds besides what is broken on its own: two places that contradict
//! each other.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::http::Bus;
use crate::mcp_support::friends;

/// A home with a key and a folder to work in.
struct Place {
    dir: tempfile::TempDir,
    bus: Bus,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            dir: tempfile::tempdir().unwrap(),
            bus: Bus::start(),
        };
        std::fs::create_dir_all(place.work()).unwrap();
        place
    }

    fn home(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn work(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("project/sub")
    }

    fn run(&self, arguments: &[&str]) -> Value {
        let url = format!("http://{}", self.bus.addr);
        let output = Command::new(env!("CARGO_BIN_EXE_interlink-mcp"))
            .env_clear()
            .env("HOME", self.home())
            .current_dir(self.work())
            .args(arguments)
            .args(["--url", &url])
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn checks(&self, name: &str) -> Vec<Value> {
        checks(&self.run(&["doctor", "--json"]), name)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn checks(report: &Value, name: &str) -> Vec<Value> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.filter(|c| c["name"] == name).cloned().collect()
}

/// That a finding of a verdict says all of this.
#[track_caller]
fn says(check: &Value, verdict: &str, words: &[&str]) {
    assert_eq!(check["verdict"], verdict, "{check}");
    let text = format!("{} {}", check["found"], check["mend"]);
    for word in words {
        assert!(text.contains(word), "{word}: {check}");
    }
}

#[test]
fn a_server_in_a_nearer_scope_of_claude_code_is_found() {
    let place = Place::new();
    place.run(&["setup", "claude"]);
    assert_eq!(place.checks("claude").len(), 1);
    let other = json!({ "mcpServers": { "interlink": {
        "command": "/opt/interlink-mcp", "args": [], "env": { "INTERLINK_KEY": "/b/id.key", "INTERLINK_PEERS": "/b/my peers" },
    }}});
    // The shared file of a folder above.
    place.write("project/.mcp.json", &other.to_string());
    let found = place.checks("claude");
    assert_eq!(found.len(), 3, "{found:?}");
    let words = [
        "about",
        "id.key",
        "doctor --key /b/id.key --peers '/b/my peers'",
    ];
    says(&found[2], "hint", &words);
    let words = [
        "project scope",
        ".mcp.json",
        "user scope",
        "/b/id.key",
        "mcp remove interlink -s project",
    ];
    says(&found[1], "hint", &words);
    // The private list of the repository.
    let path = place.home().join(".claude.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let project = place.home().join("project");
    config["projects"] = json!({ project.to_str().unwrap(): {
        "mcpServers": { "interlink": { "command": "npx", "args": ["other"] } },
    }});
    std::fs::write(&path, config.to_string()).unwrap();
    let found = place.checks("claude");
    assert_eq!(found.len(), 4, "{found:?}");
    says(
        &found[1],
        "hint",
        &["local scope", "hides", "project scope", "npx other"],
    );
    says(
        &found[2],
        "hint",
        &["local scope", "hides", "user scope", "-s local"],
    );
    says(&found[3], "hint", &["not this program", "npx other"]);
    // The same entry in two scopes hides nothing.
    let ours = config["mcpServers"].clone();
    config["projects"][project.to_str().unwrap()]["mcpServers"] = ours.clone();
    std::fs::write(&path, config.to_string()).unwrap();
    place.write(
        "project/.mcp.json",
        &json!({ "mcpServers": ours }).to_string(),
    );
    assert_eq!(place.checks("claude").len(), 1);
}

#[test]
fn a_second_table_of_codex_is_found() {
    let place = Place::new();
    place.run(&["setup", "codex"]);
    assert_eq!(place.checks("codex").len(), 1);
    place.write(
        "project/.codex/config.toml",
        "[ mcp_servers.interlink ]\ncommand = \"x\"\n",
    );
    let found = place.checks("codex");
    assert_eq!(found.len(), 2, "{found:?}");
    says(
        &found[1],
        "hint",
        &[
            "project/.codex/config.toml",
            "goes before",
            "take the table out",
        ],
    );
    let config = place.home().join(".codex/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        format!("{text}\n[mcp_servers.\"interlink\"]\ncommand = \"y\"\n"),
    )
    .unwrap();
    let found = place.checks("codex");
    says(&found[2], "broken", &["twice", "keep one"]);
}

#[test]
fn the_peers_file_is_compared_with_the_log() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, _) = friends();
    let mut alice = a.start(&url, "sa");
    alice.call("list_peers", &json!({}));
    alice.close_stdin();
    alice.wait();
    let doctor = |peers: &Path| -> Vec<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_interlink-mcp"))
            .env_clear()
            .env("HOME", a.path())
            .env("XDG_STATE_HOME", a.path().join("state"))
            .current_dir(a.path())
            .args(["doctor", "--json", "--url", &url, "--key"])
            .arg(a.path().join("id.key"))
            .arg("--peers")
            .arg(peers)
            .output()
            .unwrap();
        checks(&serde_json::from_slice(&output.stdout).unwrap(), "peers")
    };
    let peers = a.path().join("peers.json");
    let found = doctor(&peers);
    assert_eq!(found.len(), 1, "{found:?}");
    says(&found[0], "ok", &["admits 1"]);
    let other = a.path().join("other.json");
    std::fs::copy(&peers, &other).unwrap();
    let found = doctor(&other);
    says(
        &found[1],
        "broken",
        &["peers.json", "other.json is refused", "--adopt-peers"],
    );
    let kept = std::fs::read_to_string(&peers).unwrap();
    let key = "A".repeat(43);
    std::fs::write(&peers, json!({ "new": { "key": key } }).to_string()).unwrap();
    let found = doctor(&peers);
    says(
        &found[1],
        "hint",
        &["1 entries of the file", "1 who are admitted", "edited"],
    );
    std::fs::write(&peers, "{}").unwrap();
    says(
        &doctor(&peers)[1],
        "hint",
        &["0 entries of the file", "1 who are admitted"],
    );
    std::fs::remove_file(&peers).unwrap();
    says(
        &doctor(&peers)[1],
        "broken",
        &["cannot be read", "from a copy"],
    );
    std::fs::write(&peers, kept).unwrap();
    assert_eq!(doctor(&peers).len(), 1);
}
