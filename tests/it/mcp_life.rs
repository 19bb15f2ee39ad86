//! How a channel server starts and ends.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::mcp_support::{Agent, FakeRelay, Home, eventually, friends, signal};

/// The hosts' patience, times the slowness of a loaded machine.
const AT_ONCE: Duration = Duration::from_secs(5);

#[test]
fn it_ends_at_once_whoever_asks_although_a_relay_hangs_and_input_stays_open() {
    let relay = FakeRelay::start(|_| None);
    for ask in ["TERM", "INT", "HUP", "eof"] {
        let home = Home::new(1);
        let mut agent = home.start(&relay.url(), "s");
        agent.send("self", "other", "never taken");
        let asked = Instant::now();
        if ask == "eof" {
            agent.close_stdin();
        } else {
            agent.signal(ask);
        }
        let status = agent.wait();
        assert!(asked.elapsed() < AT_ONCE, "{ask}: {:?}", asked.elapsed());
        assert_eq!(status.code(), Some(0), "{ask}: {}", agent.stderr());
    }
}

#[test]
fn it_ends_when_its_parent_dies_although_input_stays_open() {
    let home = Home::new(1);
    let server = home.command("http://127.0.0.1:9", "s");
    let mut shell = Command::new("sh");
    shell
        .args([
            "-c",
            r#"exec 3<&0; "$@" <&3 >/dev/null 2>&1 & echo $!; wait"#,
            "sh",
        ])
        .arg(server.get_program())
        .args(server.get_args())
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", std::env::var_os("PATH").unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let held_open = shell.stdin.take();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(shell.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    // Its store exists: it is past its start, and knows its parent.
    eventually("the start", || {
        let state = home.path().join(".local/state/interlink/agent");
        state.exists().then_some(())
    });
    signal(shell.id(), "KILL");
    shell.wait().unwrap();
    eventually("the end of the orphan", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |s| s.contains(") Z ")).then_some(())
    });
    drop(held_open);
}

#[test]
fn input_that_ends_before_initialize_is_a_failure() {
    let home = Home::new(1);
    let mut agent = Agent::raw(home.command("http://127.0.0.1:9", "s"));
    agent.close_stdin();
    assert_eq!(agent.wait().code(), Some(1));
}

fn refused(home: &Home, change: impl FnOnce(&mut Command)) -> (Option<i32>, String) {
    let mut command = home.command("http://127.0.0.1:9", "s");
    change(&mut command);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.stdout.is_empty());
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn what_cannot_work_is_refused_at_the_start_with_what_to_do() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new(1);
    for bad in ["", ",", "ftp://a", "127.0.0.1:9440", "http://a/b"] {
        let mut command = home.command(bad, "s");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
    }
    let mut command = home.command("http://127.0.0.1:9", "a#b");
    assert_eq!(
        command.stdin(Stdio::null()).output().unwrap().status.code(),
        Some(2)
    );
    let key = home.path().join("id.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, text) = refused(&home, |_| {});
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("chmod 600"), "{text}");
    let (code, text) = refused(&home, |c| {
        c.arg("--insecure-key-permissions");
    });
    assert!(
        code == Some(1) && text.contains("before initialize"),
        "{text}"
    );
}

#[test]
fn a_missing_peers_file_is_written_private_and_empty() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new(1);
    std::fs::remove_file(home.peers_path()).unwrap();
    let agent = home.start("http://127.0.0.1:9", "s");
    let meta = eventually("the file", || std::fs::metadata(home.peers_path()).ok());
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    assert_eq!(home.peers(), serde_json::json!({}));
    eventually("the report", || {
        agent.stderr().contains("no peers file").then_some(())
    });
}

#[test]
fn a_sibling_that_freezes_is_named_and_nobody_waits_for_it_forever() {
    let nowhere = "http://127.0.0.1:9";
    let home = Home::new(1);
    let (mut busy, mut other) = (home.start(nowhere, "busy"), home.start(nowhere, "other"));
    other.inbox();
    let send = serde_json::json!({ "to": "self", "session": "x", "text": "y" });
    let none = serde_json::json!({});
    let mut held = 0;
    for round in 0..3 {
        for n in 0..30 {
            let text = "x".repeat(20_000);
            let call = serde_json::json!({
                "jsonrpc": "2.0", "id": 1_000_000 + round * 100 + n, "method": "tools/call",
                "params": { "name": "send_message", "arguments": {
                    "to": "self", "session": "y", "text": text,
                }},
            });
            busy.write(&call.to_string());
        }
        busy.signal("STOP");
        // Whether it was inside a write is chance: either a call succeeds, or it says who holds the
        // store. It always answers; reading too waits for one that is in the last step of its commit.
        let calls = [("send_message", &send), ("receive_messages", &none)];
        for (tool, arguments) in calls {
            let answer = other.call_raw(tool, arguments);
            if let Some(error) = answer.get("error") {
                held += 1;
                let text = error["message"].as_str().unwrap();
                assert!(text.contains(") holds the store"), "{text}");
            }
        }
        busy.signal("CONT");
        eventually("the store is free again", || {
            let answer = other.call_raw("send_message", &send);
            answer.get("result").is_some().then_some(())
        });
    }
    println!("kept out of {held} of 6 calls");
    busy.signal("STOP");
    let asked = Instant::now();
    other.close_stdin();
    assert_eq!(other.wait().code(), Some(0));
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_an_answer_and_what_was_stored_stays() {
    let (a, _b) = friends();
    let plain = a.command("http://127.0.0.1:9", "sa");
    // A limit of the file's size fails like a full disk, once its signal is ignored.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 8192; exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(plain.get_args())
        .env_clear()
        .envs(plain.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .current_dir(a.path());
    let mut alice = Agent::start(command);
    let first = alice.send("b", "sb", "small");
    let text = "x".repeat(900_000);
    let send = json!({ "to": "b", "session": "sb", "text": text });
    let error = eventually("a full disk", || {
        alice.call_raw("send_message", &send).get("error").cloned()
    });
    assert_eq!(error["code"], -32603, "{error}");
    let said = error["message"].as_str().unwrap();
    assert!(said.starts_with("local state: "), "{said}");
    // Not one of the bounds of the outbox.
    assert!(!said.contains("wait"), "{said}");
    alice.call("get_my_session_id", &json!({}));
    let state = eventually("the store again", || {
        let answer = alice.call_raw("message_status", &json!({ "msg_id": first }));
        let state = answer["result"]["structuredContent"]["sent"].clone();
        state.is_object().then_some(state)
    });
    assert_eq!(state["state"], "pending");
}

#[test]
fn a_store_that_cannot_be_opened_is_an_answer() {
    let (a, _b) = friends();
    std::fs::write(a.path().join("file"), "").unwrap();
    let mut command = a.command("http://127.0.0.1:9", "sa");
    command.arg("--db").arg(a.path().join("file/agent.redb"));
    let mut alice = Agent::start(command);
    let send = json!({ "to": "b", "session": "sb", "text": "x" });
    let error = alice.call_raw("send_message", &send)["error"].clone();
    assert_eq!(error["code"], -32603, "{error}");
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("agent.redb"), "{said}");
    assert_eq!(
        alice.call("get_my_session_id", &json!({}))["session_id"],
        "sa"
    );
}
