//! The presence board.

use std::time::Duration;

use interlink::bus::Config;
use interlink::store::{Location, OpenOptions};
use interlink::types::limit::{MAX_ANNOUNCEMENT_BYTES, MAX_ROSTER_BYTES};
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
