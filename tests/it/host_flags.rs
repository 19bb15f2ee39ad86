//! Flags and variables of the four programs: what counts as said, what help shows, what `setup`
//! writes down.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const MCP: &str = env!("CARGO_BIN_EXE_interlink-mcp");
const BUS: &str = env!("CARGO_BIN_EXE_interlink-bus");
const ADMIN: &str = env!("CARGO_BIN_EXE_interlink-admin");
const KEYGEN: &str = env!("CARGO_BIN_EXE_interlink-keygen");

fn program(path: &str, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(path);
    command
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::null())
        .args(arguments);
    command
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn run(path: &str, home: &Path, arguments: &[&str]) -> String {
    said(&program(path, home, arguments).output().unwrap())
}

/// The variables that a help text names.
fn variables(help: &str) -> Vec<String> {
    // Lines of a help text are broken anywhere.
    let help: Vec<&str> = help.split_whitespace().collect();
    let help = help.join(" ");
    let found = help.split("[env: ").skip(1);
    found
        .filter_map(|rest| Some(rest.split_once('=')?.0.to_owned()))
        .collect()
}

#[test]
fn an_empty_variable_counts_as_unset_in_every_program() {
    for (path, help, arguments, least) in [
        (
            BUS,
            &["--help"] as &[&str],
            &["--memory", "--addr", "127.0.0.1:0", "--end-with-stdin"] as &[&str],
            12,
        ),
        (MCP, &["--help"], &["setup", "claude"], 18),
        (MCP, &["--help"], &["wait"], 18),
        (ADMIN, &["pair", "accept", "--help"], &["pair", "list"], 5),
        (KEYGEN, &["--help"], &[], 1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let mut names = variables(&run(path, home, help));
        assert!(names.len() >= least, "{path}: {names:?}");
        names.extend(
            [
                "INTERLINK_CHANNELS",
                "INTERLINK_CLAUDE_DELIVERY",
                "INTERLINK_PROGRESS_INTERVAL",
                "CLAUDE_CODE_MESSAGING_SOCKET",
                "CLAUDE_CODE_SESSION_ID",
                "CLAUDE_CONFIG_DIR",
                "CODEX_HOME",
                "XDG_STATE_HOME",
                "RUST_LOG",
                "NO_COLOR",
            ]
            .map(str::to_owned),
        );
        std::fs::create_dir_all(home.join(".local/state/interlink")).unwrap();
        let mut command = program(path, home, arguments);
        let all = command.envs(names.iter().map(|name| (name, "")));
        let together = all.output().unwrap();
        if path == ADMIN {
            let text = String::from_utf8_lossy(&together.stderr).into_owned();
            assert!(text.contains(".config/interlink/id.key"), "{together:?}");
        } else if arguments != ["wait"] {
            assert!(together.status.success(), "{path}: {together:?}");
        }
        for name in names {
            let output = program(path, home, arguments)
                .env(&name, "")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.code() != Some(2) && !text.contains("invalid value"),
                "{path} {name}: {output:?}"
            );
        }
        if path == MCP && arguments == ["setup", "claude"] {
            let text = std::fs::read_to_string(home.join(".claude.json")).unwrap();
            let wired: Value = serde_json::from_str(&text).unwrap();
            let env = wired["mcpServers"]["interlink"]["env"].as_object().unwrap();
            assert_eq!(env.len(), 1, "only what setup itself says: {env:?}");
        }
        if path == KEYGEN {
            assert!(home.join(".config/interlink/id.key").exists());
        }
    }
}

#[test]
fn help_of_a_subcommand_shows_what_it_heeds_and_every_flag_is_still_taken() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    for (command, shows, hides) in [
        (
            &["wait"] as &[&str],
            &["--key", "--db", "--session", "--renew"] as &[&str],
            &["--share-cwd", "--peers", "--consent"] as &[&str],
        ),
        (
            &["hook"],
            &["--key", "stop"],
            &["--url", "--max-age", "--codex-bin"],
        ),
        (
            &["hook", "stop"],
            &["--key", "--session"],
            &["--url", "--max-age", "--codex-bin"],
        ),
        (
            &["doctor"],
            &["--json", "--peers", "--url"],
            &["--notice-patience", "--name", "--session"],
        ),
        (
            &["setup"],
            &["--max-age", "--allow", "--consent"],
            &["--adopt-peers", "--session"],
        ),
        (
            &[],
            &["--share-cwd", "--session", "Trust:", "Host:"],
            &["--channels"],
        ),
    ] {
        let help = run(MCP, home, &[command, &["--help"]].concat());
        let flag = |name: &str| {
            help.lines().any(|line| {
                line.split([' ', ',', '['])
                    .any(|word| word == name || word.starts_with(&format!("{name}-after")))
            })
        };
        for name in shows {
            assert!(flag(name), "{command:?} {name}: {help}");
        }
        for name in hides {
            assert!(!flag(name), "{command:?} {name}: {help}");
        }
    }
    run(
        MCP,
        home,
        &["hook", "stop", "--share-cwd", "none", "--max-age", "3d"],
    );
    run(
        MCP,
        home,
        &[
            "--url",
            "http://127.0.0.1:1",
            "hook",
            "progress",
            "--consent",
            "tool",
        ],
    );
}

#[test]
fn history_is_kept_for_at_least_a_day() {
    let dir = tempfile::tempdir().unwrap();
    for kept in ["23h", "0", "x"] {
        let mut program = std::process::Command::new(MCP);
        let program = program.env_clear().env("HOME", dir.path());
        let refused = program.args(["--keep-history", kept]).output().unwrap();
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains("keep-history"), "{text}");
        assert!(kept == "x" || text.contains("at least a day"), "{text}");
    }
}

#[test]
fn setup_writes_down_every_flag_that_a_server_can_be_started_with() {
    let flags = [
        ("--max-age", "3d", "INTERLINK_MAX_AGE"),
        ("--max-age-stranger", "2h", "INTERLINK_MAX_AGE_STRANGER"),
        ("--max-ahead", "30s", "INTERLINK_MAX_AHEAD"),
        ("--resign-after", "6h", "INTERLINK_RESIGN_AFTER"),
        ("--notice-patience", "90s", "INTERLINK_NOTICE_PATIENCE"),
        ("--retain", "30d", "INTERLINK_RETAIN"),
        ("--retain-bytes", "1GiB", "INTERLINK_RETAIN_BYTES"),
        ("--keep-history", "365d", "INTERLINK_KEEP_HISTORY"),
        ("--share-cwd", "none", "INTERLINK_SHARE_CWD"),
        ("--consent", "tool", "INTERLINK_CONSENT"),
        ("--store-mode", "exclusive", "INTERLINK_STORE_MODE"),
        ("--name", "me", "INTERLINK_NAME"),
        ("--url", "http://127.0.0.1:7", "INTERLINK_URL"),
        ("--key", "k", "INTERLINK_KEY"),
        ("--peers", "p", "INTERLINK_PEERS"),
        ("--db", "d", "INTERLINK_AGENT_DB"),
        ("--codex-bin", "./c", "INTERLINK_CODEX_BIN"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let arguments: Vec<&str> = flags
        .iter()
        .flat_map(|(flag, value, _)| [*flag, *value])
        .collect();
    for host in ["claude", "codex"] {
        let mut command = program(
            MCP,
            home,
            &["setup", host, "--print", "--insecure-key-permissions"],
        );
        command
            .args(&arguments)
            .env("INTERLINK_CHANNELS", "1")
            .env("INTERLINK_CLAUDE_DELIVERY", "inbox")
            .env("CODEX_HOME", home.join("codex"));
        let text = said(&command.output().unwrap());
        let line = |name: &str| {
            text.lines().find(|line| {
                line.trim_start()
                    .trim_start_matches('"')
                    .split(['"', ' '])
                    .next()
                    == Some(name)
            })
        };
        for (_, value, name) in flags {
            if host == "claude" && name == "INTERLINK_CODEX_BIN" {
                assert!(line(name).is_none());
                continue;
            }
            let line = line(name).unwrap_or_else(|| panic!("{host}: {name}: {text}"));
            if name.ends_with("KEY")
                || name.ends_with("PEERS")
                || name.ends_with("DB")
                || name.ends_with("BIN")
            {
                let at = home
                    .canonicalize()
                    .unwrap()
                    .join(value.trim_start_matches("./"));
                assert!(line.contains(at.to_str().unwrap()), "{line}");
            } else {
                assert!(line.contains(value), "{line}");
            }
        }
        assert!(line("INTERLINK_INSECURE_KEY_PERMISSIONS").is_some());
        assert_eq!(line("INTERLINK_CHANNELS").is_some(), host == "claude");
        assert_eq!(
            line("INTERLINK_CLAUDE_DELIVERY").is_some(),
            host == "claude"
        );
        assert_eq!(line("CODEX_HOME").is_some(), host == "codex");
        if host == "claude" {
            // The hooks find the same store.
            let listener = text
                .lines()
                .find(|line| line.contains("wait --fallback"))
                .unwrap();
            for word in [
                "--key",
                "--db",
                "--store-mode exclusive",
                "--insecure-key-permissions",
            ] {
                assert!(listener.contains(word), "{listener}");
            }
        }
    }
    let said = run(
        MCP,
        home,
        &["setup", "claude", "--session", "s", "--adopt-peers"],
    );
    for flag in ["--session is not written", "--adopt-peers is not written"] {
        assert!(said.contains(flag), "{said}");
    }
    let text = std::fs::read_to_string(home.join(".claude.json")).unwrap();
    assert!(
        !text.contains("INTERLINK_SESSION") && !text.contains("ADOPT"),
        "{text}"
    );
}

#[test]
fn hooks_look_where_the_server_keeps_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(MCP, dir.path(), &["setup", "claude", "--print"]);
    let text = said(
        &command
            .env("XDG_STATE_HOME", "/else where")
            .output()
            .unwrap(),
    );
    assert!(text.contains("XDG_STATE_HOME='/else where' "), "{text}");
}

#[test]
fn setup_allows_what_it_is_told_to_and_says_what_would_have_to_be_added() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let settings = home.join(".claude/settings.json");
    std::fs::create_dir(home.join(".claude")).unwrap();
    let foreign = r#"{"permissions": {"deny": ["Bash(rm *)"], "allow": ["WebSearch", "mcp__interlink__discover"]}}"#;
    std::fs::write(&settings, foreign).unwrap();
    let allowed = || -> Vec<String> {
        let text = std::fs::read_to_string(&settings).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(settings["permissions"]["deny"][0], "Bash(rm *)");
        serde_json::from_value(settings["permissions"]["allow"].clone()).unwrap()
    };
    let text = run(MCP, home, &["setup", "claude"]);
    assert!(
        text.contains("\"mcp__interlink__receive_messages\""),
        "{text}"
    );
    assert_eq!(allowed().len(), 2, "unasked");
    let text = run(MCP, home, &["setup", "claude", "--allow", "read"]);
    assert!(!text.contains("mcp__interlink__"), "{text}");
    let reading = allowed();
    let has = |rules: &[String], tool: &str| rules.contains(&format!("mcp__interlink__{tool}"));
    assert_eq!(reading[0], "WebSearch");
    assert!(has(&reading, "receive_messages") && has(&reading, "acknowledge_messages"));
    assert!(!has(&reading, "send_message"));
    assert_eq!(
        reading
            .iter()
            .filter(|rule| rule.ends_with("__discover"))
            .count(),
        1
    );
    run(MCP, home, &["setup", "claude", "--allow", "answer"]);
    assert!(has(&allowed(), "send_message") && !has(&allowed(), "accept_pair"));
    let all = allowed();
    run(MCP, home, &["setup", "claude"]);
    assert_eq!(allowed(), all, "nothing is taken away");

    let table = "[mcp_servers.interlink.tools.send_message]\napproval_mode = \"approve\"";
    let config = home.join(".codex/config.toml");
    let text = run(MCP, home, &["setup", "codex"]);
    assert!(text.contains("tools.send_message]"), "{text}");
    assert!(!std::fs::read_to_string(&config).unwrap().contains(table));
    run(MCP, home, &["setup", "codex", "--allow", "answer"]);
    assert!(std::fs::read_to_string(&config).unwrap().contains(table));
}

#[test]
fn the_plugin_passes_on_what_a_user_may_have_set_and_a_default_stays_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/claude-plugin");
    let text = std::fs::read_to_string(root.join("plugin/.mcp.json")).unwrap();
    let wired: Value = serde_json::from_str(&text).unwrap();
    let passed = wired["mcpServers"]["interlink"]["env"].as_object().unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut names = variables(&run(MCP, dir.path(), &["--help"]));
    names.extend(["INTERLINK_CHANNELS", "INTERLINK_CLAUDE_DELIVERY"].map(str::to_owned));
    for name in names {
        match name.as_str() {
            // The host is known, and so is the conversation; the rest is for a single start.
            "INTERLINK_HOST"
            | "INTERLINK_CODEX_BIN"
            | "INTERLINK_SESSION"
            | "INTERLINK_MEMORY"
            | "INTERLINK_ADOPT_PEERS" => assert!(!passed.contains_key(&name), "{name}"),
            "INTERLINK_CLAUDE_SESSION_HOOKS" => assert_eq!(passed[&name], "true"),
            _ => {
                let given = passed
                    .get(&name)
                    .unwrap_or_else(|| panic!("{name} is missing"));
                assert_eq!(*given, format!("${{{name}:-}}"));
                assert!(readme.contains(&name), "{name}");
            }
        }
    }
}
