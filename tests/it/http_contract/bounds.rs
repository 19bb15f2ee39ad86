//! Bounds: what overflows is told, what is refused is not stored.

use interlink::domain::decide::bus::Overflow;
use serde_json::{Value, json};

use crate::http::{Bus, Conn, FakeClock};

fn send(conn: &mut Conn, to: &str, payload: &Value) -> crate::http::Reply {
    let body = json!({"to": to, "payload": payload}).to_string();
    conn.post("/send", &body)
}

fn waiting(conn: &mut Conn, me: &str) -> Vec<Value> {
    let got = conn
        .get(&format!("/recv?me={me}&timeout_ms=0&max=100"))
        .json();
    let messages = got["messages"].as_array().cloned().unwrap_or_default();
    messages
        .iter()
        .map(|m| m["envelope"]["payload"].clone())
        .collect()
}

#[test]
fn a_full_queue_drops_its_oldest_mail_and_says_so() {
    let clock = FakeClock::new(77);
    let bus = Bus::with(|config| {
        config.limits.messages = 2;
        config.clock = clock.clone();
    });
    let mut conn = bus.connect();
    conn.send("a", json!(1));
    conn.send("a", json!(2));
    conn.send("b", json!(1));
    let reply = send(&mut conn, "a", &json!(3));
    assert_eq!(reply.status, 202);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(
        reply.json(),
        json!({"reason": "overflow",
               "dropped": [{"seq": 1, "ack": "a\u{0}00000000000000000001", "ts": 77}]})
    );
    assert_eq!(waiting(&mut conn, "a"), [2, 3]);
    assert_eq!(waiting(&mut conn, "b"), [1]);
    // An ack of what was dropped is no error.
    let body = json!({"me": "a", "ack": "a\u{0}00000000000000000001"}).to_string();
    conn.post("/ack", &body).is_empty(200);
    let status = conn.get("/status").json();
    assert_eq!(
        status["drops"],
        json!({"overflow": 1, "expired": 0, "body_lost": 0, "admin": 0})
    );
    assert_eq!(status["messages"], 3);
    assert_eq!(status["queues"], 2);
}

#[test]
fn a_cap_of_zero_is_one() {
    let bus = Bus::with(|config| config.limits.messages = 0);
    let mut conn = bus.connect();
    conn.send("a", json!(1));
    assert_eq!(
        send(&mut conn, "a", &json!(2)).json()["dropped"][0]["seq"],
        1
    );
    assert_eq!(waiting(&mut conn, "a"), [2]);
}

#[test]
fn a_bus_that_refuses_says_507_and_keeps_what_it_has() {
    let bus = Bus::with(|config| {
        config.limits.messages = 1;
        config.limits.overflow = Overflow::Refuse;
    });
    let mut conn = bus.connect();
    conn.send("a", json!(1));
    let problem = send(&mut conn, "a", &json!(2)).is_problem(507);
    assert_eq!(problem["messages"], 1);
    // What waits already is accepted again.
    conn.send("a", json!(1));
    assert_eq!(waiting(&mut conn, "a"), [1]);
}

#[test]
fn bytes_and_queues_are_bounded() {
    let bus = Bus::with(|config| {
        config.limits.bytes = 100;
        config.limits.store_bytes = 150;
        config.limits.queues = 2;
    });
    let mut conn = bus.connect();
    let text = |c: &str, n: usize| json!(c.repeat(n - 2));
    send(&mut conn, "a", &text("x", 101)).is_problem(413);
    conn.send("a", text("a", 60));
    let dropped = send(&mut conn, "a", &text("b", 60)).json();
    assert_eq!(dropped["dropped"].as_array().unwrap().len(), 1);
    conn.send("b", text("c", 80));
    let problem = send(&mut conn, "b", &text("d", 20)).is_problem(507);
    assert_eq!(problem["type"], "/problems/store-full");
    let problem = send(&mut conn, "c", &json!(1)).is_problem(507);
    assert_eq!(problem["type"], "/problems/too-many-queues");
    assert_eq!(bus.connect().get("/status").json()["bytes"], 140);
}

#[test]
fn queue_names_with_control_characters_are_refused_everywhere() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    conn.send("a", json!(1));
    let long = "x".repeat(513);
    for name in [
        "a\u{0}b",
        "a\u{0}",
        "\n",
        "a\u{7f}",
        "a\u{85}",
        long.as_str(),
    ] {
        send(&mut conn, name, &json!(1)).is_problem(400);
        let body = json!({"me": name, "ack": format!("{name}\u{0}1")}).to_string();
        conn.post("/ack", &body).is_problem(400);
        let body = json!({"pubkey": name}).to_string();
        conn.post("/announce", &body).is_problem(400);
        let body = json!({"pubkey": "k", "session": {"session_id": name}}).to_string();
        conn.post("/announce", &body).is_problem(400);
    }
    for name in ["a%00b", "a%00", "%0A", "a%C2%85", long.as_str()] {
        conn.get(&format!("/recv?me={name}&timeout_ms=0"))
            .is_problem(400);
    }
    conn.send(&"x".repeat(512), json!(1));
    assert_eq!(waiting(&mut conn, "a"), [1]);
}

#[test]
fn old_mail_expires_with_a_record() {
    use std::time::Duration;
    let clock = FakeClock::new(1_000_000);
    let bus = Bus::with(|config| {
        config.clock = clock.clone();
        config.message_ttl_ms = 1000;
        config.upkeep = Duration::from_millis(5);
    });
    let mut conn = bus.connect();
    conn.send("a", json!(1));
    clock.set(1_000_500);
    conn.send("a", json!(2));
    clock.set(1_001_000);
    bus.until("the first expires", |status| {
        status["drops"]["expired"] == 1
    });
    assert_eq!(waiting(&mut conn, "a"), [2]);
}
