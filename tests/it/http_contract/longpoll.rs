//! Waiting for mail.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::{Bus, Conn};

/// A request that waits for mail.
fn park(bus: &Bus, me: &str) -> Conn {
    let mut conn = bus.connect();
    conn.start("GET", &format!("/recv?me={me}&timeout_ms=20000"), &[], None);
    conn
}

#[test]
fn every_waiter_of_a_queue_is_woken() {
    let bus = Bus::start();
    let mut parked: Vec<Conn> = (0..3).map(|_| park(&bus, "a")).collect();
    let mut other = park(&bus, "b");
    bus.until("all wait", |status| status["waiters"] == 4);
    bus.connect().send("a", json!("mail"));
    for conn in &mut parked {
        let got = conn.finish("GET").json();
        assert_eq!(got["envelope"]["payload"], "mail");
    }
    bus.until("one waits on", |status| status["waiters"] == 1);
    bus.connect().send("b", json!(1));
    assert_eq!(other.finish("GET").json()["status"], "message");
    bus.until("nobody waits", |status| status["waiters"] == 0);
}

#[test]
fn a_wait_ends_at_its_time() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    let start = Instant::now();
    let got = conn.get("/recv?me=a&timeout_ms=150");
    assert_eq!(got.text(), r#"{"status":"timeout"}"#);
    assert!(start.elapsed() >= Duration::from_millis(150));
}

#[test]
fn waiters_past_the_bound_are_sent_away() {
    let bus = Bus::with(|config| config.max_waiters = 1);
    let mut parked = park(&bus, "a");
    bus.until("it waits", |status| status["waiters"] == 1);
    let mut conn = bus.connect();
    let refused = conn.get("/recv?me=b&timeout_ms=1000");
    refused.is_problem(503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    // A look without waiting, and mail that is there, need no place.
    assert_eq!(conn.peek("b")["status"], "timeout");
    conn.send("b", json!(1));
    assert_eq!(conn.get("/recv?me=b").json()["status"], "message");
    conn.send("a", json!(1));
    assert_eq!(parked.finish("GET").json()["status"], "message");
}

#[test]
fn a_caller_that_goes_away_gives_up_its_place() {
    let bus = Bus::start();
    let parked = park(&bus, "a");
    bus.until("it waits", |status| status["waiters"] == 1);
    drop(parked);
    bus.until("it is gone", |status| status["waiters"] == 0);
}

#[test]
fn waiters_are_answered_when_the_bus_ends() {
    let bus = Bus::start();
    let mut parked = park(&bus, "a");
    bus.until("it waits", |status| status["waiters"] == 1);
    let start = Instant::now();
    bus.stop();
    assert_eq!(parked.finish("GET").text(), r#"{"status":"timeout"}"#);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(parked.closed());
}

#[test]
fn no_message_is_missed_between_two_waits() {
    const MESSAGES: u64 = 300;
    let bus = Bus::start();
    let addr = bus.addr;
    let reader = thread::spawn(move || {
        let mut conn = Conn::open(addr);
        for n in 0..MESSAGES {
            let got = conn.get("/recv?me=a&timeout_ms=15000").json();
            assert_eq!(got["envelope"]["payload"], n, "{got}");
            let body = json!({"me": "a", "ack": got["ack"]}).to_string();
            conn.post("/ack", &body).is_empty(200);
        }
    });
    let mut conn = bus.connect();
    for n in 0..MESSAGES {
        conn.send("a", json!(n));
    }
    reader.join().unwrap();
}
