//! The presence board.

use std::time::Duration;

use interlink::bus::Config;
use interlink::crypto::sign::SigningIdentity;
use interlink::store::{Location, OpenOptions};
use interlink::types::limit::{MAX_ANNOUNCEMENT_BYTES, MAX_ROSTER_BYTES, MAX_SESSIONS_PER_KEY};
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::announce::{Announcement, SessionInfo};
use serde_json::{Value, json};

use crate::http::{Bus, Conn, FakeClock};

const DAY: u64 = 86_400_000;

fn roster(conn: &mut Conn) -> Vec<Value> {
    let reply = conn.get("/roster");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let mut entries = reply.json()["roster"].as_array().unwrap().clone();
    entries.sort_by_key(Value::to_string);
    entries
}

fn announce(conn: &mut Conn, value: &Value) {
    conn.post("/announce", &value.to_string()).is_empty(202);
}

#[test]
fn announcements_are_shown_as_posted_with_their_age() {
    let clock = FakeClock::new(10 * DAY);
    let bus = Bus::with(|config| config.clock = clock.clone());
    let mut conn = bus.connect();
    assert_eq!(conn.get("/roster").text(), r#"{"roster":[]}"#);
    let one = json!({"pubkey": "k", "name": "n", "session": {"session_id": "s", "cwd": "/x"},
                     "ts": 1, "sig": "z", "odd": [1.0]});
    announce(&mut conn, &one);
    clock.set(10 * DAY + 5);
    let mut shown = one.clone();
    shown["age_ms"] = json!(5);
    assert_eq!(roster(&mut conn), [shown]);

    // An age that was posted is not believed; the same key and session are the same entry.
    let mut again = one.clone();
    again["age_ms"] = json!(999);
    again["ts"] = json!(2);
    announce(&mut conn, &again);
    again["age_ms"] = json!(0);
    assert_eq!(roster(&mut conn), [again]);

    // Any JSON with a pubkey is an announcement, and no session is a session of its own.
    announce(
        &mut conn,
        &json!({"pubkey": "k", "session": {"session_id": 7}}),
    );
    announce(&mut conn, &json!({"pubkey": "k", "session": null, "v": 2}));
    assert_eq!(roster(&mut conn).len(), 2);

    let leave = json!({"pubkey": "k", "session": {"session_id": "s"}}).to_string();
    for _ in 0..2 {
        conn.post("/unregister", &leave).is_empty(202);
    }
    let left = roster(&mut conn);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["v"], 2);
}

#[test]
fn presence_survives_a_restart_and_its_age_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let clock = FakeClock::new(10 * DAY);
    let start = || {
        Bus::with(|config: &mut Config| {
            config.store = OpenOptions::exclusive(Location::File(path.clone()));
            config.clock = clock.clone();
        })
    };
    let bus = start();
    let mut conn = bus.connect();
    announce(&mut conn, &json!({"pubkey": "a", "ts": 1}));
    announce(&mut conn, &json!({"pubkey": "b", "ts": 1}));
    clock.set(10 * DAY + 1000);
    // A heartbeat; the end of the bus makes it durable.
    announce(&mut conn, &json!({"pubkey": "b", "ts": 2}));
    assert_eq!(conn.get("/status").json()["commits"], 2);
    drop(conn);
    bus.stop();

    clock.set(10 * DAY + 3000);
    let bus = start();
    let mut conn = bus.connect();
    let ages: Vec<_> = roster(&mut conn)
        .iter()
        .map(|e| (e["pubkey"].clone(), e["age_ms"].clone()))
        .collect();
    assert_eq!(ages.len(), 2);
    assert!(ages.contains(&(json!("a"), json!(3000))), "{ages:?}");
    assert!(ages.contains(&(json!("b"), json!(2000))), "{ages:?}");
}

#[test]
fn sessions_of_three_days_are_hidden_at_once_and_removed_later() {
    let clock = FakeClock::new(10 * DAY);
    let bus = Bus::with(|config| {
        config.clock = clock.clone();
        config.upkeep = Duration::from_millis(5);
    });
    let mut conn = bus.connect();
    announce(&mut conn, &json!({"pubkey": "a"}));
    clock.set(13 * DAY - 1);
    assert_eq!(roster(&mut conn).len(), 1);
    announce(&mut conn, &json!({"pubkey": "b"}));
    clock.set(13 * DAY);
    assert_eq!(roster(&mut conn).len(), 1);
    bus.until("it is removed", |status| status["roster"] == 1);
    assert_eq!(roster(&mut conn)[0]["pubkey"], "b");
}

#[test]
fn the_board_has_a_bound_in_bytes_and_the_longest_away_leave() {
    let clock = FakeClock::new(10 * DAY);
    let bus = Bus::with(|config| config.clock = clock.clone());
    let mut conn = bus.connect();
    announce(&mut conn, &json!({"pubkey": "first"}));
    let filling = "x".repeat(MAX_ANNOUNCEMENT_BYTES - 100);
    let count = MAX_ROSTER_BYTES / MAX_ANNOUNCEMENT_BYTES + 2;
    for n in 0..count {
        clock.set(10 * DAY + 1 + n as u64);
        announce(
            &mut conn,
            &json!({"pubkey": format!("k{n}"), "name": filling}),
        );
    }
    let shown = roster(&mut conn);
    let has = |key: &str| shown.iter().any(|entry| entry["pubkey"] == key);
    assert!(!has("first") && !has("k0") && has(&format!("k{}", count - 1)));
    let bytes: usize = shown.iter().map(|entry| entry.to_string().len()).sum();
    assert!(bytes <= MAX_ROSTER_BYTES + 100 * shown.len(), "{bytes}");
    // Saying more of oneself pushes others out, never oneself.
    clock.set(11 * DAY);
    announce(
        &mut conn,
        &json!({"pubkey": format!("k{}", count - 2), "name": filling, "x": 1}),
    );
    let shown = roster(&mut conn);
    assert!(
        shown
            .iter()
            .any(|entry| entry["pubkey"] == format!("k{}", count - 2))
    );
}

/// A bus that checks signatures, on a clock and a store that outlive it.
struct Verifying {
    clock: std::sync::Arc<FakeClock>,
    dir: tempfile::TempDir,
}

impl Verifying {
    fn new() -> Verifying {
        Verifying {
            clock: FakeClock::new(10 * DAY),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn start(&self, verifies: bool) -> Bus {
        Bus::with(|config: &mut Config| {
            let path = self.dir.path().join("bus.redb");
            config.store = OpenOptions::exclusive(Location::File(path));
            config.clock = self.clock.clone();
            config.verify_presence = verifies;
        })
    }
}

/// A signed announcement of a session.
fn signed(seed: u8, session: &str, summary: &str, ts: u64) -> Value {
    let identity = SigningIdentity::from_seed(&Secret::new([seed; 32]));
    let info = SessionInfo {
        session_id: session.into(),
        summary: summary.into(),
        ..SessionInfo::default()
    };
    let announcement = Announcement::sign(&identity, "n".into(), info, UnixMillis(ts));
    serde_json::to_value(announcement).unwrap()
}

fn refused(conn: &mut Conn, path: &str, value: &Value, status: u16, kind: &str) {
    let reply = conn.post(path, &value.to_string());
    assert_eq!(reply.status, status, "{path} {value}: {}", reply.text());
    assert_eq!(reply.json()["type"], format!("/problems/{kind}"));
}

fn sessions(conn: &mut Conn) -> Vec<String> {
    let mut ids: Vec<_> = roster(conn)
        .iter()
        .map(|e| e["session"]["session_id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

#[test]
fn a_board_that_verifies_shows_only_what_its_key_signed() {
    let place = Verifying::new();
    let bus = place.start(true);
    let mut conn = bus.connect();
    announce(&mut conn, &signed(1, "s", "work", 10 * DAY));
    let mut forged = signed(1, "s", "work", 10 * DAY + 1);
    forged["session"]["summary"] = json!("something else");
    refused(&mut conn, "/announce", &forged, 403, "signature");
    refused(&mut conn, "/unregister", &forged, 403, "signature");
    let unsigned = json!({"pubkey": "k", "session": {"session_id": "x"}, "ts": 1, "sig": "z"});
    for path in ["/announce", "/unregister"] {
        let reply = conn.post(path, &unsigned.to_string());
        assert!(matches!(reply.status, 403 | 422), "{}", reply.status);
        refused(&mut conn, path, &json!({"pubkey": "k"}), 422, "wrong-shape");
    }
    for ts in [10 * DAY - 86_400_001, 10 * DAY + 60_001] {
        refused(
            &mut conn,
            "/announce",
            &signed(2, "t", "", ts),
            409,
            "untimely",
        );
    }
    let shown = roster(&mut conn);
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0]["session"]["summary"], "work");
}

#[test]
fn an_announcement_that_is_played_again_revives_no_session_and_ends_none() {
    let place = Verifying::new();
    let bus = place.start(true);
    let mut conn = bus.connect();
    let first = signed(1, "s", "first", 10 * DAY);
    let second = signed(1, "s", "second", 10 * DAY + 1);
    let beat = signed(1, "s", "second", 10 * DAY + 2);
    let leave = signed(1, "s", "second", 10 * DAY + 3);
    for accepted in [&first, &second, &beat] {
        announce(&mut conn, accepted);
    }
    for old in [&first, &second, &beat] {
        refused(&mut conn, "/announce", old, 409, "not-newer");
        // What everybody can read on the roster takes nobody off it.
        refused(&mut conn, "/unregister", old, 409, "not-newer");
    }
    assert_eq!(roster(&mut conn)[0]["session"]["summary"], "second");
    conn.post("/unregister", &leave.to_string()).is_empty(202);
    for old in [&first, &second, &beat, &leave] {
        refused(&mut conn, "/announce", old, 409, "not-newer");
    }
    assert!(roster(&mut conn).is_empty());

    // Nor after a restart; and who leaves without having been there cannot be announced either.
    let other = signed(2, "t", "", 10 * DAY);
    conn.post("/unregister", &signed(2, "t", "", 10 * DAY + 1).to_string())
        .is_empty(202);
    drop(conn);
    bus.stop();
    let bus = place.start(true);
    let mut conn = bus.connect();
    for old in [&beat, &leave, &other] {
        refused(&mut conn, "/announce", old, 409, "not-newer");
    }
    announce(&mut conn, &signed(1, "s", "back", 10 * DAY + 4));
    assert_eq!(sessions(&mut conn), ["s"]);

    // By the time that it is forgotten it is too old to pass anyway.
    place.clock.set(11 * DAY + 2 * 3_600_000);
    refused(&mut conn, "/announce", &leave, 409, "untimely");
}

#[test]
fn the_signed_time_of_a_heartbeat_outlives_an_orderly_end() {
    let place = Verifying::new();
    let bus = place.start(true);
    let mut conn = bus.connect();
    announce(&mut conn, &signed(1, "s", "", 10 * DAY));
    let beat = signed(1, "s", "", 10 * DAY + 7);
    announce(&mut conn, &beat);
    drop(conn);
    bus.stop();
    let bus = place.start(true);
    let mut conn = bus.connect();
    refused(&mut conn, "/announce", &beat, 409, "not-newer");
}

#[test]
fn a_key_pushes_out_its_own_sessions_first_where_keys_are_checked() {
    let place = Verifying::new();
    let bus = place.start(true);
    let mut conn = bus.connect();
    announce(&mut conn, &signed(2, "other", "", 10 * DAY));
    for n in 0..=MAX_SESSIONS_PER_KEY as u64 {
        place.clock.set(10 * DAY + 1 + n);
        let session = format!("{n:03}");
        announce(&mut conn, &signed(1, &session, "", 10 * DAY + 1 + n));
    }
    let there = sessions(&mut conn);
    assert_eq!(there.len(), MAX_SESSIONS_PER_KEY + 1);
    assert_eq!(there.first().map(String::as_str), Some("001"));
    assert!(there.iter().any(|s| s == "other"));
}

#[test]
fn what_was_announced_unchecked_leaves_a_board_that_verifies() {
    let place = Verifying::new();
    let bus = place.start(false);
    let mut conn = bus.connect();
    announce(&mut conn, &json!({"pubkey": "junk"}));
    announce(&mut conn, &signed(1, "s", "", 10 * DAY));
    // Unchecked, an old announcement passes.
    announce(&mut conn, &signed(1, "s", "older", 9 * DAY));
    announce(&mut conn, &signed(1, "s", "", 10 * DAY));
    drop(conn);
    bus.stop();
    let bus = place.start(true);
    let mut conn = bus.connect();
    assert_eq!(sessions(&mut conn), ["s"]);
    refused(
        &mut conn,
        "/announce",
        &signed(1, "s", "older", 9 * DAY),
        409,
        "not-newer",
    );
    drop(conn);
    bus.stop();
    let bus = place.start(false);
    let mut conn = bus.connect();
    assert_eq!(sessions(&mut conn), ["s"]);
}
