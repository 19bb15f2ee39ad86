//! With everything logged that can be, no log holds a secret key, a message or a token.

use std::path::Path;
use std::process::Command;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER};
use serde_json::json;

use crate::kill::process::BusPlace;
use crate::kill::stores::agent_store;
use crate::mcp_support::{Home, eventually, friends};

const NEEDLE: &str = "needle-in-the-body";
const FILTER: &str = "trace,hyper=trace,hyper_util=trace,reqwest=trace,rmcp=trace,axum=trace";

/// Every spelling of a key file's seed.
fn spellings(key: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(key).unwrap();
    let seed = BASE64URL_NOPAD.decode(text.trim().as_bytes()).unwrap();
    vec![
        text.trim().to_owned(),
        BASE64.encode(&seed),
        BASE64_NOPAD.encode(&seed),
        HEXLOWER.encode(&seed),
        format!("{seed:?}"),
    ]
}

fn traced(home: &Home, relays: &str, session: &str) -> Command {
    let mut command = home.command(relays, session);
    command.env("RUST_LOG", FILTER).env("RUST_BACKTRACE", "1");
    command
}

/// A message in which one member is not what it should be.
fn forged(a: &Home, b: &Home, member: &str) -> serde_json::Value {
    let mut message = json!({
        "from": a.key, "to": b.key, "text": NEEDLE, "ts": 1, "msg_id": "m", "kind": "message",
        "sig": "x",
    });
    message[member] = json!(NEEDLE);
    message
}

/// What the admin tool says of a store that is in use, on both outputs.
fn inspect(store: &Path, command: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_interlink-admin"))
        .env_clear()
        .env("RUST_LOG", FILTER)
        .arg("--store")
        .arg(store)
        .arg(command)
        .output()
        .unwrap();
    let said = [output.stderr, output.stdout].map(|o| String::from_utf8_lossy(&o).into_owned());
    println!("admin {command}: {}, {}", output.status, said[0]);
    said.concat()
}

#[test]
fn no_log_holds_a_key_a_message_or_a_token_whatever_is_traced() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = friends();
    let mut bus = BusPlace::new(dir.path(), &[]);
    bus.rust_log = Some(FILTER);
    bus.start();
    bus.ready();
    let admin = std::fs::read(dir.path().join("bus.redb.admin")).unwrap();
    let admin: serde_json::Value = serde_json::from_slice(&admin).unwrap();
    let token = admin["token"].as_str().unwrap().to_owned();
    let mut alice = crate::mcp_support::Agent::start(traced(&a, &bus.url(), "sa"));
    let mut bob = crate::mcp_support::Agent::start(traced(&b, &bus.url(), "sb"));

    // Both ways, with an answer, history, a refusal and a forged post.
    let text = format!("{NEEDLE}\nand more");
    let send = json!({ "to": "b", "session": "sb", "text": text });
    let id = eventually("a send", || {
        let answer = alice.call_raw("send_message", &send);
        let id = &answer["result"]["structuredContent"]["msg_id"];
        id.as_str().map(str::to_owned)
    });
    alice.wait_state(&id, "bus_accepted");
    let mail = bob.inbox_of(1);
    bob.send("a", "sa", &format!("{NEEDLE} again"));
    alice.inbox_of(1);
    bob.call("conversation_history", &json!({ "peer": "a" }));
    bob.acknowledge(&mail);
    alice.call("set_summary", &json!({ "summary": "at work" }));
    let huge = NEEDLE.repeat(200_000);
    let refused = json!({ "to": "b", "session": "sb", "text": huge });
    assert!(alice.call_raw("send_message", &refused)["error"].is_object());
    alice.call_raw(
        "send_message",
        &json!({ "to": NEEDLE.len(), "text": NEEDLE }),
    );
    let mut conn = crate::http::Conn::open(bus.addr);
    let to = format!("{}#sb", b.key);
    conn.send(&to, json!({ "from": "nobody", "text": NEEDLE }));
    conn.send(&to, json!(NEEDLE));
    conn.send(&to, forged(&a, &b, "kind"));
    conn.send(&to, forged(&a, &b, "sig"));
    conn.post("/send", &format!("{{\"to\": \"{NEEDLE}"))
        .is_problem(400);
    for (route, body) in [
        ("/send", json!({ "to": [NEEDLE], "payload": NEEDLE })),
        ("/ack", json!({ "me": NEEDLE, "acks": NEEDLE })),
        (
            "/announce",
            json!({ "pubkey": [NEEDLE], "session": NEEDLE }),
        ),
    ] {
        let status = conn.post(route, &body.to_string()).status;
        assert!((400..500).contains(&status), "{route}: {status}");
    }
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let status = conn.request("GET", "/admin/v1/status", &headers, None);
    assert_eq!(status.status, 200);
    eventually("the end of the forged ones", || {
        (conn.get("/status").json()["messages"] == 0).then_some(())
    });

    let mut wait = traced(&b, &bus.url(), "sb");
    let waited = wait.args(["wait", "--renew-after-secs", "1"]).output();
    let waited = waited.unwrap();
    let mut inspected = String::new();
    for store in [bus.db.clone(), agent_store(&a)] {
        for command in ["status", "log", "queue", "outbox", "verify"] {
            inspected.push_str(&inspect(&store, command));
        }
    }
    for agent in [&mut alice, &mut bob] {
        agent.signal("TERM");
        agent.wait();
    }
    bus.slot.terminate();
    let new_key = dir.path().join("new.key");
    let made = Command::new(env!("CARGO_BIN_EXE_interlink-keygen"))
        .env_clear()
        .env("RUST_LOG", FILTER)
        .arg("--out")
        .arg(&new_key)
        .output()
        .unwrap();
    assert!(made.status.success());

    let mut secrets = vec![NEEDLE.to_owned(), token, "\u{1b}[".to_owned()];
    for key in [a.path().join("id.key"), b.path().join("id.key"), new_key] {
        secrets.extend(spellings(&key));
    }
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let logs = [
        ("admin", inspected),
        ("bus", bus.slot.log()),
        ("a", alice.stderr()),
        ("b", bob.stderr()),
        ("wait", lossy(&waited.stderr) + &lossy(&waited.stdout)),
        ("keygen", lossy(&made.stderr) + &lossy(&made.stdout)),
    ];
    for (who, log) in &logs {
        for secret in &secrets {
            let at = log.find(secret.as_str());
            let line = at.and_then(|at| log[..at].lines().chain([""]).last());
            let around = at.map(|at| &log[at - line.map_or(0, str::len)..at]);
            assert_eq!(around, None, "{secret:?} in the log of {who}");
        }
    }
    // They did log.
    assert!(logs[0].1.contains("received"), "{}", logs[0].1);
    assert!(logs[1].1.contains("SIGTERM"), "{}", logs[1].1);
    for (who, log) in &logs[2..4] {
        assert!(log.contains("DEBUG"), "{who}: {log}");
    }
}
