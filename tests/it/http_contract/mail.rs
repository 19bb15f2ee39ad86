//! Send, receive, acknowledge.

use interlink::store::{Location, OpenOptions};
use serde_json::json;

use crate::http::{Bus, FakeClock};

const FIRST: &str = "a\u{0}00000000000000000001";

#[test]
fn a_message_waits_until_it_is_acknowledged() {
    let clock = FakeClock::new(1234);
    let bus = Bus::with(|config| config.clock = clock.clone());
    let mut conn = bus.connect();
    let sent = conn.post("/send", r#"{"to":"a","payload":{"x":1},"extra":[]}"#);
    sent.is_empty(202);
    let mut names: Vec<_> = sent.headers.iter().map(|(n, _)| n.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "date"]);

    for _ in 0..2 {
        let got = conn.get("/recv?me=a&timeout_ms=0&other=1&other=2");
        assert_eq!(got.status, 200);
        assert_eq!(got.header("content-type"), Some("application/json"));
        assert_eq!(
            got.text(),
            r#"{"ack":"a\u000000000000000000000001","envelope":{"payload":{"x":1},"ts":1234},"status":"message"}"#
        );
    }
    let ack = json!({"me": "a", "ack": FIRST}).to_string();
    for _ in 0..2 {
        conn.post("/ack", &ack).is_empty(200);
        let got = conn.get("/recv?me=a&timeout_ms=0");
        assert_eq!((got.status, got.text()), (200, r#"{"status":"timeout"}"#));
    }
}

#[test]
fn mail_comes_in_order_and_acks_stay_in_their_queue() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    conn.send("a", json!(1));
    conn.send("ab", json!(2));
    conn.send("a", json!(3));
    let first = conn.peek("a");
    assert_eq!(first["envelope"]["payload"], 1);
    // Unknown keys and keys of other messages are no error, and do nothing.
    for key in [
        "a\u{0}",
        "a\u{0}x",
        "a\u{0}00000000000000000099",
        "a\u{0}00000000000000000002",
    ] {
        let body = json!({"me": "a", "ack": key}).to_string();
        conn.post("/ack", &body).is_empty(200);
    }
    assert_eq!(conn.peek("ab")["envelope"]["payload"], 2);
    for (me, key) in [
        ("b", FIRST),
        ("a", "ab\u{0}00000000000000000002"),
        ("a", ""),
        ("", FIRST),
    ] {
        let body = json!({"me": me, "ack": key}).to_string();
        conn.post("/ack", &body).is_problem(403);
    }
    let body = json!({"me": "a", "ack": first["ack"]}).to_string();
    conn.post("/ack", &body).is_empty(200);
    assert_eq!(conn.peek("a")["envelope"]["payload"], 3);
}

#[test]
fn several_messages_in_one_go() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    for n in 0..5 {
        conn.send("a", json!(n));
    }
    let got = conn.get("/recv?me=a&timeout_ms=0&max=3").json();
    assert_eq!(got["status"], "message");
    let messages = got["messages"].as_array().unwrap();
    let payloads: Vec<_> = messages.iter().map(|m| &m["envelope"]["payload"]).collect();
    assert_eq!(payloads, [0, 1, 2]);
    let keys: Vec<_> = messages.iter().map(|m| m["ack"].clone()).collect();

    // One foreign key refuses the whole request.
    let foreign = json!({"me": "a", "acks": [keys[0], "b\u{0}00000000000000000001"]});
    conn.post("/ack", &foreign.to_string()).is_problem(403);
    assert_eq!(conn.peek("a")["envelope"]["payload"], 0);

    let acks = json!({"me": "a", "ack": keys[0], "acks": [keys[1], keys[2], keys[2]]});
    conn.post("/ack", &acks.to_string()).is_empty(200);
    let rest = conn.get("/recv?me=a&timeout_ms=0&max=0").json();
    assert_eq!(rest["messages"].as_array().unwrap().len(), 1);
    assert_eq!(rest["messages"][0]["envelope"]["payload"], 3);
    let none = conn.get("/recv?me=b&timeout_ms=0&max=3");
    assert_eq!(none.text(), r#"{"status":"timeout"}"#);
}

#[test]
fn payloads_are_any_json_sorted_and_with_their_numbers() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    for (n, (sent, kept)) in [
        (
            r#"{"b":1,"a":{"z":1.0,"y":18446744073709551615},"b":[null,true,-1,1e3]}"#,
            r#"{"a":{"y":18446744073709551615,"z":1.0},"b":[null,true,-1,1000.0]}"#,
        ),
        ("null", "null"),
        (
            r#""\u0000\ud83d\ude00\u007f/""#,
            "\"\\u0000\u{1f600}\u{7f}/\"",
        ),
        ("[]", "[]"),
    ]
    .iter()
    .enumerate()
    {
        let body = format!(r#"{{"payload":{sent},"to":"q{n}"}}"#);
        conn.post("/send", &body).is_empty(202);
        let got = conn.get(&format!("/recv?me=q{n}&timeout_ms=0"));
        let want = format!(r#""payload":{kept},"ts":"#);
        assert!(got.text().contains(&want), "{}", got.text());
    }
}

#[test]
fn an_identical_payload_that_still_waits_is_accepted_once() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    conn.post("/send", r#"{"to":"a","payload":{"x":1,"y":2}}"#)
        .is_empty(202);
    // Another text of the same JSON.
    conn.post("/send", r#"{"payload":{"y":2, "x":1},"to":"a"}"#)
        .is_empty(202);
    conn.send("b", json!({"x": 1, "y": 2}));
    let got = conn.get("/recv?me=a&timeout_ms=0&max=9").json();
    assert_eq!(got["messages"].as_array().unwrap().len(), 1);
    assert_eq!(conn.peek("b")["status"], "message");
    // Once it is gone, it may come again.
    let body = json!({"me": "a", "ack": FIRST}).to_string();
    conn.post("/ack", &body).is_empty(200);
    conn.send("a", json!({"x": 1, "y": 2}));
    assert_eq!(conn.peek("a")["status"], "message");
}

#[test]
fn what_was_accepted_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/bus.redb");
    let start =
        || Bus::with(|config| config.store = OpenOptions::exclusive(Location::File(path.clone())));
    let bus = start();
    let mut conn = bus.connect();
    conn.send("a", json!("one"));
    conn.send("a", json!("two"));
    let body = json!({"me": "a", "ack": FIRST}).to_string();
    conn.post("/ack", &body).is_empty(200);
    bus.stop();

    let bus = start();
    let mut conn = bus.connect();
    let got = conn.peek("a");
    assert_eq!(got["envelope"]["payload"], "two");
    conn.send("a", json!("three"));
    let all = conn.get("/recv?me=a&timeout_ms=0&max=9").json();
    assert_eq!(all["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_message_whose_body_is_damaged_does_not_block_its_queue() {
    const BODIES: redb::TableDefinition<'static, u64, &'static [u8]> =
        redb::TableDefinition::new("bodies");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let start =
        || Bus::with(|config| config.store = OpenOptions::exclusive(Location::File(path.clone())));
    let bus = start();
    let mut conn = bus.connect();
    for n in 1..=4 {
        conn.send("a", json!({"n": n}));
    }
    drop(conn);
    bus.stop();
    let store = redb::Database::open(&path).unwrap();
    let txn = store.begin_write().unwrap();
    {
        let mut bodies = txn.open_table(BODIES).unwrap();
        bodies.remove(1).unwrap();
        bodies.insert(2, b"{\"n\":9}".as_slice()).unwrap();
        bodies.insert(3, b"".as_slice()).unwrap();
    }
    txn.commit().unwrap();
    drop(store);

    let bus = start();
    let mut conn = bus.connect();
    assert_eq!(conn.peek("a")["envelope"]["payload"]["n"], 4);
    let status = conn.get("/status").json();
    assert_eq!(status["drops"]["body_lost"], 3);
    assert_eq!(status["messages"], 1);
}

#[test]
fn unusual_queue_names_work() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    conn.send("", json!("empty"));
    assert_eq!(conn.peek("")["envelope"]["payload"], "empty");
    let name = "k#s \"\u{e9}\\";
    conn.send(name, json!("odd"));
    let got = conn.peek("k%23s%20%22%C3%A9%5C");
    assert_eq!(got["envelope"]["payload"], "odd");
    let body = json!({"me": name, "ack": got["ack"]}).to_string();
    conn.post("/ack", &body).is_empty(200);
    assert_eq!(conn.peek("k%23s+%22%C3%A9%5C")["status"], "timeout");
}
