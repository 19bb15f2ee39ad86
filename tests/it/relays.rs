//! Several relays: each has its own state of each message, and what is proven to have arrived is
//! not sent again.

use std::net::TcpListener;

use interlink::crypto::sign::SigningIdentity;
use interlink::types::id::{MsgId, PublicKey};
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::envelope::{Draft, Message, MessageKind};
use serde_json::{Value, json};

use crate::http::Bus;
use crate::mcp_support::{Agent, Home, eventually, friends};

pub(crate) fn url(bus: &Bus) -> String {
    format!("http://{}", bus.addr)
}

/// An address where nobody listens, and a bus that starts there later.
fn down() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn back(addr: &str) -> Bus {
    Bus::with(|config| config.addr = addr.to_owned())
}

fn relay_state(agent: &mut Agent, id: &str, addr: &str) -> Value {
    let state = agent.state_of(id);
    let relays = state["relays"].as_array().unwrap();
    let there = |r: &&Value| r["url"].as_str().is_some_and(|u| u.ends_with(addr));
    relays.iter().find(there).cloned().unwrap_or(Value::Null)
}

/// How many messages wait on a bus for a session.
pub(crate) fn waiting(bus: &Bus, to: &PublicKey, session: &str) -> Vec<String> {
    let mut conn = bus.connect();
    let reply = conn.get(&format!("/recv?me={to}%23{session}&timeout_ms=0&max=256"));
    let reply = reply.json();
    let messages = reply["messages"].as_array().cloned().unwrap_or_default();
    messages
        .iter()
        .map(|m| {
            m["envelope"]["payload"]["msg_id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

#[test]
fn a_relay_that_was_down_is_caught_up_in_order_when_it_returns() {
    let up = Bus::start();
    let addr = down();
    let (a, b) = friends();
    let mut alice = a.start(&format!("{},http://{addr}", url(&up)), "sa");
    let ids: Vec<String> = (0..5)
        .map(|n| alice.send("b", "sb", &n.to_string()))
        .collect();
    for id in &ids {
        alice.wait_state(id, "bus_accepted");
        assert_ne!(relay_state(&mut alice, id, &addr)["state"], "accepted");
    }
    let returned = back(&addr);
    eventually("the copies", || {
        (waiting(&returned, &b.key, "sb").len() == 5).then_some(())
    });
    assert_eq!(waiting(&returned, &b.key, "sb"), ids);
    // Bob hears of each once, whichever relay he asks.
    let mut bob = b.start(&format!("http://{addr},{}", url(&up)), "sb");
    let mail = bob.inbox_of(5);
    assert_eq!(bob.acknowledge(&mail), 5);
    eventually("both queues empty", || {
        let left = waiting(&returned, &b.key, "sb").len() + waiting(&up, &b.key, "sb").len();
        (left == 0).then_some(())
    });
    assert!(bob.inbox().is_empty());
}

#[test]
fn what_was_answered_is_not_sent_to_a_relay_that_returns() {
    let up = Bus::start();
    let addr = down();
    let (a, b) = friends();
    let mut alice = a.start(&format!("{},http://{addr}", url(&up)), "sa");
    let mut bob = b.start(&url(&up), "sb");
    let answered = alice.send("b", "sb", "did you get this?");
    let silent = alice.send("b", "sb", "and this?");
    bob.inbox_of(2);
    let answer = json!({ "to": "a", "session": "sa", "text": "yes", "in_reply_to": answered });
    bob.call("send_message", &answer);
    alice.inbox_of(1);
    let state = eventually("the withdrawal", || {
        Some(relay_state(&mut alice, &answered, &addr)).filter(|s| s["state"] == "refused")
    });
    assert!(
        state.to_string().contains("withdrawn"),
        "it says why: {state}"
    );
    // It counts as sent, and nobody is told that it failed.
    assert_eq!(alice.state_of(&answered)["state"], "bus_accepted");
    let notes = alice.call("get_my_session_id", &json!({}));
    assert_eq!(notes.get("notes"), None, "{notes}");
    // What proves nothing about a message leaves it alone.
    let returned = back(&addr);
    eventually("the copy of the other one", || {
        (!waiting(&returned, &b.key, "sb").is_empty()).then_some(())
    });
    assert_eq!(waiting(&returned, &b.key, "sb"), [silent]);
}

#[test]
fn an_answer_of_somebody_else_withdraws_nothing() {
    let up = Bus::start();
    let addr = down();
    let (a, b) = friends();
    let c = Home::new(0x0c);
    a.write_peers(&json!({ "b": { "key": b.key }, "c": { "key": c.key } }));
    c.write_peers(&json!({ "a": { "key": a.key } }));
    let mut alice = a.start(&format!("{},http://{addr}", url(&up)), "sa");
    let mut carol = c.start(&url(&up), "sc");
    let id = alice.send("b", "sb", "for bob alone");
    alice.wait_state(&id, "bus_accepted");
    let answer = json!({ "to": "a", "session": "sa", "text": "I am not bob", "in_reply_to": id });
    carol.call("send_message", &answer);
    alice.inbox_of(1);
    let returned = back(&addr);
    eventually("the copy", || {
        (waiting(&returned, &b.key, "sb") == [id.as_str()]).then_some(())
    });
}

#[test]
fn one_dead_relay_among_several_is_no_failure() {
    let (one, two) = (Bus::start(), Bus::start());
    let (a, b) = friends();
    let relays = format!("http://{},{},{}/", down(), url(&one), url(&two));
    let (mut alice, mut bob) = (a.start(&relays, "sa"), b.start(&relays, "sb"));
    let id = alice.send("b", "sb", "x");
    bob.inbox_of(1);
    eventually("both live relays", || {
        let state = alice.state_of(&id);
        let relays = state["relays"].as_array().unwrap();
        let taken = relays.iter().filter(|r| r["state"] == "accepted").count();
        (taken == 2).then_some(())
    });
}

/// The wall clock, Unix milliseconds.
pub(crate) fn now_ms() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// A message of a seed's key, signed at some time.
pub(crate) fn signed(seed: u8, to: &PublicKey, id: &str, ts: u64) -> Value {
    let identity = SigningIdentity::from_seed(&Secret::new([seed; 32]));
    let draft = Draft {
        to: *to,
        text: "from another time".into(),
        ts: UnixMillis(ts),
        msg_id: MsgId::parse(id).unwrap(),
        kind: MessageKind::Message,
        task_id: None,
        status: None,
        in_reply_to: None,
        reply_to: None,
    };
    serde_json::to_value(Message::sign(&identity, draft)).unwrap()
}

#[test]
fn mail_that_is_signed_ahead_of_time_is_dropped_and_told_once() {
    let bus = Bus::start();
    let (_a, b) = friends();
    let mut bob = b.start(&url(&bus), "sb");
    bob.inbox();
    let ahead = now_ms() + 7_200_000;
    let mut conn = bus.connect();
    let to = format!("{}#sb", b.key);
    let post = |conn: &mut crate::http::Conn, payload: Value| {
        conn.send(&to, payload);
    };
    post(&mut conn, signed(0x0a, &b.key, "early", ahead));
    let told = eventually("a note", || {
        let answer = bob.call("get_my_session_id", &json!({}));
        answer.get("notes").cloned()
    });
    assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
    assert_eq!(told[0]["kind"], "ahead");
    assert_eq!(told[0]["msg_id"], "early");
    assert!(
        told[0]["text"].as_str().unwrap().contains("clock"),
        "{told}"
    );
    // It is gone from the bus; the same one again is no news, and a stranger's is none of ours.
    post(&mut conn, signed(0x0a, &b.key, "early", ahead));
    post(&mut conn, signed(0x77, &b.key, "stranger", ahead));
    eventually("an empty queue", || {
        waiting(&bus, &b.key, "sb").is_empty().then_some(())
    });
    let again = bob.call("get_my_session_id", &json!({}));
    assert_eq!(again.get("notes"), None, "{again}");
    assert!(bob.inbox().is_empty());
}
