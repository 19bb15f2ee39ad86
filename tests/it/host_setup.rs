//! Wiring a host, and looking at what is wrong; hooks that are commands.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::http::Bus;
use crate::mcp_support::{Home, eventually, friends};

fn interlink(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-mcp"));
    command
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .args(arguments);
    command
}

fn ran(home: &Path, arguments: &[&str]) -> String {
    let output = interlink(home, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn setup_wires_claude_code_beside_what_was_there_and_a_second_time_changes_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let server = home.join(".claude.json");
    let settings = home.join(".claude/settings.json");
    std::fs::create_dir(home.join(".claude")).unwrap();
    let old =
        "{\"zeta\": 1.50, \"mcpServers\": {\"other\": {\"command\": \"x\"}}, \"a\": [1,\n 2]}";
    std::fs::write(&server, old).unwrap();
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o640)).unwrap();
    let foreign = json!({ "hooks": {
        "Stop": [{ "hooks": [{ "type": "command", "command": "say done" }] }],
        "Notification": [{ "hooks": [] }],
    }});
    std::fs::write(&settings, foreign.to_string()).unwrap();
    let said = ran(home, &["setup", "claude", "--url", "http://127.0.0.1:7777"]);
    assert!(said.contains("public key: "), "{said}");
    assert!(home.join(".config/interlink/id.key").exists());
    let text = read(&server);
    assert!(
        text.contains("\"zeta\": 1.50") && text.contains("[1,\n 2]"),
        "{text}"
    );
    let wired: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(wired["mcpServers"]["other"]["command"], "x");
    let entry = &wired["mcpServers"]["interlink"];
    assert_eq!(entry["env"]["INTERLINK_URL"], "http://127.0.0.1:7777");
    assert_eq!(entry["env"]["INTERLINK_CLAUDE_SESSION_HOOKS"], "true");
    let program = entry["command"].as_str().unwrap();
    assert!(Path::new(program).is_absolute() && Path::new(program).exists());
    let mode = std::fs::metadata(&server).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(read(&home.join(".claude.json.before-interlink")), old);
    let hooks: Value = serde_json::from_str(&read(&settings)).unwrap();
    let stop = hooks["hooks"]["Stop"].as_array().unwrap();
    assert_eq!(stop[0]["hooks"][0]["command"], "say done");
    assert_eq!(stop.len(), 2);
    assert_eq!(hooks["hooks"]["Notification"], json!([{ "hooks": [] }]));
    for event in [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "SessionEnd",
    ] {
        assert_eq!(
            hooks["hooks"][event].as_array().unwrap().len(),
            1,
            "{event}"
        );
    }
    let (before, key) = (
        (read(&server), read(&settings)),
        read(&home.join(".config/interlink/id.key")),
    );
    let said = ran(home, &["setup", "claude", "--url", "http://127.0.0.1:7777"]);
    assert_eq!(said.matches("unchanged").count(), 2, "{said}");
    assert_eq!((read(&server), read(&settings)), before);
    assert_eq!(read(&home.join(".config/interlink/id.key")), key);
    // Another address takes the place of the old one.
    ran(home, &["setup", "claude"]);
    assert!(!read(&server).contains("7777"));
    let hooks: Value = serde_json::from_str(&read(&settings)).unwrap();
    assert_eq!(hooks["hooks"]["Stop"].as_array().unwrap().len(), 2);
}

#[test]
fn setup_carries_what_decides_about_privacy_consent_and_the_store() {
    let dir = tempfile::tempdir().unwrap();
    for host in ["claude", "codex"] {
        let flags = [
            "--share-cwd",
            "none",
            "--consent",
            "tool",
            "--store-mode",
            "exclusive",
        ];
        let mut command = interlink(dir.path(), &["setup", host, "--print"]);
        command.args(flags).env("XDG_STATE_HOME", "/elsewhere");
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        for (name, value) in [
            ("INTERLINK_SHARE_CWD", "none"),
            ("INTERLINK_CONSENT", "tool"),
            ("INTERLINK_STORE_MODE", "exclusive"),
            ("XDG_STATE_HOME", "/elsewhere"),
        ] {
            let line = said.lines().find(|line| line.contains(name));
            assert!(
                line.is_some_and(|line| line.contains(value)),
                "{name}: {said}"
            );
        }
    }
}

#[test]
fn setup_prints_and_changes_nothing_and_leaves_alone_what_it_does_not_understand() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    for host in ["claude", "codex"] {
        let said = ran(home, &["setup", host, "--print"]);
        assert!(said.contains("interlink-mcp"), "{said}");
    }
    assert!(is_empty(home));
    std::fs::write(home.join(".claude.json"), "{ // mine\n}").unwrap();
    std::fs::create_dir(home.join(".codex")).unwrap();
    let by_hand = "[mcp_servers.interlink]\ncommand = \"x\"\n";
    std::fs::write(home.join(".codex/config.toml"), by_hand).unwrap();
    for host in ["claude", "codex"] {
        let output = interlink(home, &["setup", host]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("--print"), "{said}");
    }
    assert_eq!(read(&home.join(".claude.json")), "{ // mine\n}");
    assert_eq!(read(&home.join(".codex/config.toml")), by_hand);
}

#[test]
fn setup_wires_codex_and_follows_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    std::fs::create_dir(home.join(".codex")).unwrap();
    let real = home.join("dotfile.toml");
    std::fs::write(&real, "model = \"m\"\n").unwrap();
    let config = home.join(".codex/config.toml");
    std::os::unix::fs::symlink(&real, &config).unwrap();
    ran(home, &["setup", "codex"]);
    assert!(config.symlink_metadata().unwrap().is_symlink());
    let text = read(&real);
    assert!(text.starts_with("model = \"m\"\n"), "{text}");
    for word in ["bind_codex_session", "check_codex_inbox", "--host"] {
        assert!(text.contains(word), "{word}");
    }
    ran(home, &["setup", "codex"]);
    assert_eq!(read(&real), text);
}

fn doctor(home: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let mut command = interlink(home, &["doctor", "--json"]);
    let output = command.args(more).output().unwrap();
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (output.status.code(), report)
}

fn verdicts(report: &Value, name: &str) -> Vec<String> {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().filter(|c| c["name"] == name);
    found
        .map(|c| c["verdict"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_doctor_finds_what_is_broken_and_says_how_to_mend_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (code, report) = doctor(home, &["--url", &url]);
    assert_eq!((code, &report["ok"]), (Some(1), &json!(false)));
    assert_eq!(verdicts(&report, "key"), ["broken"]);
    assert!(is_empty(home), "it only looks");
    ran(home, &["setup", "claude", "--url", &url]);
    let (code, report) = doctor(home, &["--url", &url]);
    assert_eq!((code, &report["ok"]), (Some(0), &json!(true)), "{report}");
    assert_eq!(verdicts(&report, "relay"), ["ok"]);
    assert_eq!(verdicts(&report, "claude"), ["ok"]);
    assert_eq!(verdicts(&report, "codex"), ["hint"]);
    let dead = format!("{url},http://127.0.0.1:9");
    let (code, report) = doctor(home, &["--url", &dead]);
    assert_eq!(code, Some(1));
    assert_eq!(verdicts(&report, "relay"), ["ok", "broken"]);
    let peers = home.join(".config/interlink/peers.json");
    std::fs::write(&peers, "[]").unwrap();
    let key = home.join(".config/interlink/id.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, report) = doctor(home, &["--url", &url]);
    assert_eq!(code, Some(1));
    assert_eq!(verdicts(&report, "peers"), ["broken"]);
    let text = report.to_string();
    assert!(text.contains("chmod 600"), "{text}");
    let plain = interlink(home, &["doctor", "--url", &url])
        .output()
        .unwrap();
    let text = String::from_utf8(plain.stdout).unwrap();
    assert!(
        text.contains("BROKEN key") && text.contains("ok     relay"),
        "{text}"
    );
}

#[test]
fn the_doctor_reads_the_relays_clock() {
    use std::io::{BufRead as _, BufReader};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            let body = "{\"roster\":[]}";
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let (code, report) = doctor(dir.path(), &["--url", &format!("http://{addr}")]);
    assert_eq!(code, Some(1));
    assert_eq!(verdicts(&report, "relay"), ["broken"]);
    assert!(
        report.to_string().contains("ahead of its clock"),
        "{report}"
    );
}

fn stop_hook(home: &Home, program: &Path, input: &Value) -> Output {
    answer(home, Command::new(program), input)
}

fn answer(home: &Home, mut command: Command, input: &Value) -> Output {
    let kept: Vec<_> = command
        .get_envs()
        .filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned())))
        .collect();
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("INTERLINK_MCP", env!("CARGO_BIN_EXE_interlink-mcp"))
        .env("HOME", home.path())
        .env("XDG_STATE_HOME", home.path().join("state"))
        .env("INTERLINK_KEY", home.path().join("id.key"))
        .envs(kept)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.to_string().as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn a_stop_hook_holds_a_turn_up_once_and_never_gets_in_the_way() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/stop-hook.sh");
    let input = |session: &str, active: bool| json!({ "session_id": session, "stop_hook_active": active, "hook_event_name": "Stop" });
    // No store yet.
    let output = stop_hook(&b, &script, &input("sb", false));
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    let (mut alice, mut bob) = (a.start(&url, "sa"), b.start(&url, "sb"));
    alice.send("b", "sb", "look here");
    let mail = bob.inbox_of(1);
    let output = stop_hook(&b, &script, &input("sb", false));
    let held: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(held["decision"], "block", "{held}");
    assert!(!held.to_string().contains("look here"));
    let output = stop_hook(&b, &script, &input("sb", true));
    let passed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(passed["systemMessage"].is_string(), "{passed}");
    for odd in [
        json!("x"),
        json!({}),
        input("other", false),
        input("a#b", false),
    ] {
        let output = stop_hook(&b, &script, &odd);
        assert!(
            output.status.success() && output.stdout.is_empty(),
            "{odd}: {output:?}"
        );
    }
    bob.acknowledge(&mail);
    let output = stop_hook(&b, &script, &input("sb", false));
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn a_model_that_works_on_a_task_is_reminded_of_a_report_and_nobody_else_is() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url, "sa"), b.start(&url, "sb"));
    let progress = |session: &str, interval: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-mcp"));
        command
            .args(["hook", "progress"])
            .env("INTERLINK_PROGRESS_INTERVAL", interval);
        let input = json!({ "session_id": session, "tool_name": "Bash", "tool_response": "x" });
        let output = answer(&b, command, &input);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let ask = |task: &str| json!({ "to": "b", "session": "sb", "text": "do", "task_id": task });
    alice.call("send_message", &ask("t-1"));
    let mail = bob.inbox_of(1);
    bob.acknowledge(&mail);
    assert_eq!(progress("sb", "3600"), "", "not yet");
    for never in ["0", "-1", "NaN", "soon"] {
        assert_eq!(progress("sb", never), "", "{never}");
    }
    assert_eq!(progress("other", "0.001"), "");
    let said = eventually("a reminder", || {
        Some(progress("sb", "0.001")).filter(|said| !said.is_empty())
    });
    let said: Value = serde_json::from_str(&said).unwrap();
    let output = &said["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "PostToolUse");
    let text = output["additionalContext"].as_str().unwrap();
    assert!(text.contains("\"t-1\""), "{text}");
    assert_eq!(progress("sb", "3600"), "", "once an interval");
    let sender = mail[0]["reply_session"].as_str().unwrap();
    let done = json!({
        "to": "a", "session": sender, "text": "done", "task_id": "t-1", "status": "result",
    });
    bob.call("send_message", &done);
    // The server writes it down a moment later.
    eventually("it ended", || {
        let quiet = || progress("sb", "0.001").is_empty();
        (quiet() && quiet()).then_some(())
    });
}

#[test]
fn the_plugin_wires_only_what_the_server_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/claude-plugin");
    let parse = |path: &str| -> Value { serde_json::from_str(&read(&root.join(path))).unwrap() };
    let market = parse(".claude-plugin/marketplace.json");
    assert_eq!(market["plugins"][0]["source"], "./plugin");
    let plugin = parse("plugin/.claude-plugin/plugin.json");
    assert_eq!(plugin["name"], market["plugins"][0]["name"]);
    assert_eq!(plugin["version"], env!("CARGO_PKG_VERSION"));
    let server = parse("plugin/.mcp.json");
    assert!(server["mcpServers"]["interlink"]["command"].is_string());
    let tools: Vec<String> = interlink::agent::mcp::catalog::tools()
        .iter()
        .map(|t| t.name.to_string())
        .collect();
    let hooks = parse("plugin/hooks/hooks.json");
    let mut named = 0;
    for groups in hooks["hooks"].as_object().unwrap().values() {
        for group in groups.as_array().unwrap() {
            for handler in group["hooks"].as_array().unwrap() {
                if handler["type"] == "mcp_tool" {
                    named += 1;
                    let tool = handler["tool"].as_str().unwrap().to_owned();
                    assert!(tools.contains(&tool), "{tool}");
                    assert_eq!(handler["server"], "plugin:interlink:interlink");
                } else {
                    let command = handler["command"].as_str().unwrap();
                    let mut words = command.split_whitespace();
                    assert_eq!(words.next(), Some("interlink-mcp"));
                    let help = interlink(&root, &words.chain(["--help"]).collect::<Vec<_>>());
                    let mut help = help;
                    assert!(help.output().unwrap().status.success(), "{command}");
                }
            }
        }
    }
    assert_eq!(named, 4);
    let skill = read(&root.join("plugin/skills/interlink/SKILL.md"));
    assert!(skill.starts_with("---\nname: interlink\ndescription: "));
}
