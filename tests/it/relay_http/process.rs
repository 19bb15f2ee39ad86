//! The relay and its operator's tool as processes.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{Peer, id};
use crate::admin::{json as answer, ok, run, text};
use crate::http::Conn;

/// A bus with a relay; killed on drop.
struct Running {
    child: Child,
    relay: SocketAddr,
}

impl Running {
    fn start(home: &Path) -> Running {
        Running::on(home, &home.join(".local/state/interlink/bus.redb"))
    }

    fn on(home: &Path, store: &Path) -> Running {
        Running::with(home, store, &[])
    }

    fn with(home: &Path, store: &Path, flags: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_interlink-bus"))
            .env_clear()
            .env("HOME", home)
            .args(["--addr", "127.0.0.1:0", "--relay-addr", "127.0.0.1:0"])
            .arg("--db")
            .arg(store)
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        let relay = loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended: {seen}");
            if let Some((_, rest)) = line.split_once("sealed sessions on ") {
                break rest.split_whitespace().next().unwrap().parse().unwrap();
            }
            seen.push_str(&line);
        };
        // What it still says must not block it.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Running { child, relay }
    }

    fn connect(&self) -> Peer {
        Peer(Conn::open(self.relay))
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sigkill_in_mid_session_costs_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut bus = Running::start(home.path());
    let mut peer = bus.connect();
    peer.create(9, 1).is_ok();
    peer.join(9, 2).is_ok();
    for n in 0..7 {
        peer.send(9, 1, &json!({ "n": n })).is_ok();
    }
    peer.send(9, 2, &json!("x".repeat(100_000))).is_ok();
    bus.kill();
    let mut bus = Running::start(home.path());
    let mut peer = bus.connect();
    assert_eq!(peer.poll(9, 2, 0).seqs(), (1..=8).collect::<Vec<u64>>());
    assert_eq!(peer.poll(9, 1, 1).seqs(), [9]);
    assert_eq!(peer.send(9, 3, &json!(1)).0.status, 403);
    assert_eq!(peer.create(9, 1).0.status, 403);
    peer.send(9, 2, &json!(1)).is_ok();
    assert_eq!(peer.poll(9, 1, 9).seqs(), [10]);
    bus.kill();
    let verified = answer(home.path(), &["verify"]);
    assert_eq!(verified["stores"][0]["ok"], true, "{verified}");
}

#[test]
fn the_bounds_on_the_command_line_hold() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("bus.redb");
    let full = |said: super::Said| {
        let told = said.is(503, "ERR_RELAY_FULL", "The relay is full");
        assert_eq!(told["retryAfter"], 60);
    };
    let flags = ["--relay-sessions", "1", "--relay-bytes", "1KiB"];
    let mut bus = Running::with(home.path(), &store, &flags);
    let mut peer = bus.connect();
    peer.create(9, 1).is_ok();
    full(peer.create(8, 1));
    full(peer.send(9, 1, &json!("x".repeat(1_024))));
    peer.send(9, 1, &json!("x".repeat(100))).is_ok();
    bus.kill();
    let flags = ["--relay-per-address", "3"];
    let bus = Running::with(home.path(), &store, &flags);
    let mut peer = bus.connect();
    for _ in 0..3 {
        peer.join(9, 2).is_ok();
    }
    peer.join(9, 2)
        .is(429, "ERR_RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    peer.get("/health").is_ok();
}

#[test]
fn the_operator_sees_sessions_and_nobody_in_them_and_ends_them() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let mut bus = Running::start(home);
    let mut peer = bus.connect();
    for routing in [9, 8] {
        peer.create(routing, 1).is_ok();
        peer.join(routing, 2).is_ok();
        peer.send(routing, 1, &json!("sealed")).is_ok();
    }
    let listed = answer(home, &["relay"]);
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[0]["peers"], 2);
    assert_eq!(sessions[0]["messages"], 2);
    let number = |of: &Value| of["session"].as_u64().unwrap().to_string();
    let (first, second) = (number(&sessions[0]), number(&sessions[1]));
    for args in [
        &["relay"][..],
        &["status"],
        &["log"],
        &["log", "--json"],
        &["relay", "--json"],
    ] {
        let shown = ok(home, args);
        assert!(!shown.contains(&id(9)[..8].repeat(2)), "{shown}");
        assert!(!shown.contains(&id(1)[..8].repeat(2)), "{shown}");
    }
    assert!(ok(home, &["status"]).contains("2 sealed sessions, 4 messages waiting"));
    // Nobody is there to be asked.
    let asked = run(home, &["relay", "drop", &first]);
    assert_ne!(asked.status.code(), Some(0), "{}", text(&asked.stderr));
    peer.poll(9, 2, 0).is_ok();
    // Beside the bus, and on its file.
    let dropped = answer(home, &["relay", "drop", &first, "--yes"]);
    assert_eq!(dropped["dropped"], 1);
    peer.poll(9, 2, 0).is_gone();
    peer.poll(8, 2, 0).is_ok();
    bus.kill();
    answer(home, &["relay", "drop", &second, "--yes"]);
    assert_ne!(
        run(home, &["relay", "drop", &second, "--yes"])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(answer(home, &["relay"])["sessions"], json!([]));
    let redacted = ok(home, &["export", "--redact"]);
    assert!(redacted.contains("\"reason\":\"dropped\""), "{redacted}");
}

#[test]
fn a_session_goes_on_from_a_backup_an_export_and_a_repaired_file() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let mut bus = Running::start(home);
    let mut peer = bus.connect();
    peer.create(9, 1).is_ok();
    peer.join(9, 2).is_ok();
    peer.send(9, 1, &json!("x".repeat(5_000_000))).is_ok();
    peer.create(8, 1).is_ok();
    ok(home, &["backup", "copy.redb"]);
    peer.disconnect(8, 1).is_ok();
    bus.kill();
    ok(home, &["verify"]);
    ok(home, &["export", "out.jsonl"]);
    ok(home, &["--store", "import.redb", "import", "out.jsonl"]);
    ok(home, &["compact", "--until", "99", "--yes"]);
    ok(home, &["repair", "--out", "mended.redb"]);
    for (file, more) in [
        ("copy.redb", 200),
        ("import.redb", 404),
        ("mended.redb", 404),
    ] {
        let bus = Running::on(home, &home.join(file));
        let mut peer = bus.connect();
        assert_eq!(peer.poll(9, 2, 0).seqs(), [1], "{file}");
        assert_eq!(peer.poll(9, 2, 1).seqs(), [2], "{file}");
        assert_eq!(peer.join(8, 2).0.status, more, "{file}");
    }
}

#[test]
fn noise_is_answered_and_the_relay_goes_on() {
    let relay = super::Relay::start();
    let mut peer = relay.paired();
    let whole = json!({
        "routingId": id(9), "fromPeerId": id(1), "peerId": id(1), "publicKey": id(3),
        "encryptedPayload": {"v": 2, "iv": "00"},
    })
    .to_string();
    let mut rng = interlink::testkit::Rng::new(crate::support::seed());
    for round in 0..600 {
        let path = ["/create", "/join", "/send", "/disconnect"][rng.index(4)];
        let mut body = whole.clone().into_bytes();
        for _ in 0..1 + rng.index(4) {
            let at = rng.index(body.len());
            match rng.below(3) {
                0 => body[at] = u8::try_from(rng.below(256)).unwrap(),
                1 => body.truncate(at.max(1)),
                _ => body.insert(at, b"{}[]\",:0"[rng.index(8)]),
            }
        }
        let said = peer.text(path, &body);
        said.checked();
        let status = said.0.status;
        let known = matches!(status, 200 | 400 | 403 | 404 | 413 | 429 | 500);
        assert!(
            known,
            "{round}: {status} to {:?}",
            String::from_utf8_lossy(&body)
        );
    }
    peer.get("/health").is_ok();
}
