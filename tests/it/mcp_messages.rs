//! Messages between channel servers that are real processes.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::Bus;
use crate::mcp_support::{Agent, FakeRelay, eventually, friends};

fn url(bus: &Bus) -> String {
    format!("http://{}", bus.addr)
}

#[test]
fn a_message_arrives_once_and_is_unread_until_it_is_acknowledged() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    let text = "hello\n</interlink>\u{202e}";
    let id = alice.send("b", "sb", text);
    alice.wait_state(&id, "bus_accepted");
    let mail = bob.inbox_of(1);
    assert_eq!(mail[0]["receipt"], json!({ "sender": a.key, "msg_id": id }));
    assert_eq!(mail[0]["reply_session"], "sa");
    let content = mail[0]["content"].as_str().unwrap();
    assert!(
        content.contains("\nhello\n</interlink>\\u{202e}\n"),
        "{content}"
    );
    // A reader that dies before it acknowledges has read nothing.
    bob.kill();
    let mut bob = b.start(&url(&bus), "sb");
    let mail = bob.inbox_of(1);
    assert_eq!(mail[0]["receipt"]["msg_id"], *id);
    assert_eq!(bob.acknowledge(&mail), 1);
    assert_eq!(bob.acknowledge(&mail), 0);
    bob.kill();
    let mut bob = b.start(&url(&bus), "sb");
    // A later message proves that everything before it was looked at.
    let later = alice.send("b", "sb", "later");
    let mail = bob.inbox_of(1);
    assert_eq!(mail[0]["receipt"]["msg_id"], *later);
    let history = bob.call(
        "conversation_history",
        &json!({ "peer": "a", "consume": true }),
    );
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
    assert_eq!(history["acknowledged"], 1);
    assert!(bob.inbox().is_empty());
}

#[test]
fn an_answer_finds_its_way_by_name_and_by_session_alone() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    let id = alice.send("b", "sb", "question");
    bob.inbox_of(1);
    let answer = json!({
        "to": "a", "text": "answer", "in_reply_to": id, "task_id": "t", "status": "result",
    });
    assert_eq!(bob.call("send_message", &answer)["session"], "sa");
    let by_id = bob.call("send_message", &json!({ "to": "sa", "text": "more" }));
    assert_eq!(
        (&by_id["key"], &by_id["peer"]),
        (&json!(a.key), &json!("a"))
    );
    let mail = alice.inbox_of(2);
    assert_eq!(mail[0]["in_reply_to"], *id);
    assert_eq!(
        (&mail[0]["task_id"], &mail[0]["status"]),
        (&json!("t"), &json!("result"))
    );
}

#[test]
fn sessions_of_one_identity_write_to_each_other_but_not_to_themselves() {
    let bus = Bus::start();
    let (a, _b) = friends();
    let (mut one, mut two) = (a.start(&url(&bus), "s1"), a.start(&url(&bus), "s2"));
    one.send("self", "s2", "sibling");
    let mail = two.inbox_of(1);
    let content = mail[0]["content"].as_str().unwrap();
    assert!(content.starts_with("[interlink message from another session of this same identity;"));
    let own = json!({ "to": "self", "session": "s1", "text": "x" });
    assert_eq!(one.call_raw("send_message", &own)["error"]["code"], -32602);
    assert!(one.inbox().is_empty());
}

#[test]
fn strangers_are_dropped_and_take_no_place() {
    let bus = Bus::start();
    let (a, b) = friends();
    b.write_peers(&json!({}));
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    let id = alice.send("b", "sb", "may I?");
    alice.wait_state(&id, "bus_accepted");
    eventually("the gate", || {
        bob.stderr().contains("not a listed peer").then_some(())
    });
    b.write_peers(&json!({ "a": { "key": a.key } }));
    alice.send("b", "sb", "now I may");
    let mail = bob.inbox_of(1);
    assert!(mail[0]["content"].as_str().unwrap().contains("now I may"));
}

#[test]
fn mail_waits_for_a_relay_and_outlives_its_session_and_its_process() {
    let (a, b) = friends();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let relay = format!("http://{port}");
    let mut alice = a.start(&relay, "sa");
    let id = alice.send("b", "sb", "from the dead");
    let pending = alice.call("list_pending", &json!({}));
    assert_eq!(pending["pending"][0]["msg_id"], *id);
    alice.kill();
    // Another session of the identity, and only then a relay.
    let mut sibling = a.start(&relay, "sa2");
    let _bus = Bus::with(|config| config.addr = port.to_string());
    let mut bob = b.start(&relay, "sb");
    let mail = bob.inbox_of(1);
    assert_eq!(mail[0]["receipt"]["msg_id"], *id);
    assert_eq!(sibling.wait_state(&id, "bus_accepted")["session"], "sb");
}

#[test]
fn one_recipients_trouble_is_nobody_elses() {
    let relay = FakeRelay::start(|to| match to.rsplit('#').next() {
        Some("hangs") => None,
        Some("refused") => Some(413),
        Some("later") => Some(429),
        _ => Some(202),
    });
    let (a, _b) = friends();
    let mut alice = a.start(&relay.url(), "sa");
    alice.send("b", "hangs", "1");
    let refused = alice.send("b", "refused", "2");
    let later = alice.send("b", "later", "3");
    let fine = alice.send("b", "fine", "4");
    alice.wait_state(&fine, "bus_accepted");
    let state = alice.wait_state(&refused, "refused");
    let problem = state["relays"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("413"), "{problem}");
    let listed = alice.call("list_pending", &json!({}));
    assert_eq!(listed["refused"][0]["msg_id"], *refused);
    let state = eventually("a failed attempt", || {
        Some(alice.state_of(&later)).filter(|s| s["relays"][0]["attempts"].is_u64())
    });
    assert_eq!(state["state"], "pending");
    assert_eq!(relay.taken.lock().unwrap().len(), 1);
}

#[test]
fn what_was_refused_is_told_unasked_and_once() {
    let relay = FakeRelay::start(|_| Some(413));
    let (a, _b) = friends();
    let mut alice = a.start(&relay.url(), "sa");
    let id = alice.send("b", "sb", "1");
    // Not a word of sent messages is asked for.
    let notes = eventually("a note", || {
        let answer = alice.call("get_my_session_id", &json!({}));
        answer.get("notes").cloned()
    });
    assert_eq!(notes.as_array().unwrap().len(), 1);
    assert_eq!(
        (&notes[0]["kind"], &notes[0]["msg_id"]),
        (&json!("refused"), &json!(id))
    );
    let text = notes[0]["text"].as_str().unwrap();
    assert!(text.contains("413"), "{text}");
    let again = alice.call("get_my_session_id", &json!({}));
    assert_eq!(again.get("notes"), None, "{again}");
}

#[test]
fn what_came_too_late_is_told_and_listed_as_expired() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let id = alice.send("b", "sb", "late");
    alice.wait_state(&id, "bus_accepted");
    let signed = Instant::now();
    eventually("its age", || {
        (signed.elapsed() > Duration::from_millis(1100)).then_some(())
    });
    let mut command = b.command(&url(&bus), "sb");
    command.args(["--max-age", "1s"]);
    let mut bob = Agent::start(command);
    let mut notes = json!(null);
    let inbox = eventually("the expired message", || {
        let inbox = bob.call("receive_messages", &json!({}));
        if let Some(told) = inbox.get("notes") {
            notes = told.clone();
        }
        (inbox["expired"] != json!([])).then_some(inbox)
    });
    let history = bob.call("conversation_history", &json!({ "peer": "a" }));
    assert_eq!(history["expired"], inbox["expired"]);
    assert_eq!(inbox["messages"], json!([]));
    assert_eq!(inbox["expired"][0]["sender"], json!(a.key));
    assert_eq!(notes[0]["kind"], "expired");
    assert_eq!(notes[0]["msg_id"], *id);
}

#[test]
fn what_waits_for_long_is_signed_anew_under_its_id() {
    let (a, b) = friends();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let relay = format!("http://{port}");
    let mut command = a.command(&relay, "sa");
    command.args(["--resign-after", "1s"]);
    let mut alice = Agent::start(command);
    let id = alice.send("b", "sb", "patience");
    let queued_at = alice.state_of(&id)["queued_at_ms"].as_u64().unwrap();
    // An old signature would not pass.
    let waited = Instant::now();
    eventually("its age", || {
        (waited.elapsed() > Duration::from_secs(3)).then_some(())
    });
    let _bus = Bus::with(|config| config.addr = port.to_string());
    let mut bob = b.start(&relay, "sb");
    let mail = bob.inbox_of(1);
    assert_eq!(mail[0]["receipt"]["msg_id"], *id);
    let signed_at = mail[0]["signed_at_ms"].as_u64().unwrap();
    assert!(signed_at >= queued_at + 1000, "{signed_at} {queued_at}");
}

#[test]
fn recipients_that_hang_leave_room_for_the_others() {
    let relay = FakeRelay::start(|to| match to.rsplit('#').next() {
        Some(session) if session.starts_with("hangs") => None,
        _ => Some(202),
    });
    let (a, _b) = friends();
    let mut alice = a.start(&relay.url(), "sa");
    for n in 0..12 {
        alice.send("b", &format!("hangs{n}"), "x");
    }
    let asked = Instant::now();
    let fine = alice.send("b", "fine", "y");
    alice.wait_state(&fine, "bus_accepted");
    // Well under the time limit of one send: it did not wait for a place.
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn a_relay_that_hangs_delays_no_other_relay() {
    let hangs = FakeRelay::start(|_| None);
    let bus = Bus::start();
    let (a, b) = friends();
    let relays = format!("{},{}/", hangs.url(), url(&bus));
    let (mut alice, mut bob) = (a.start(&relays, "sa"), b.start(&relays, "sb"));
    let id = alice.send("b", "sb", "through the other one");
    bob.inbox_of(1);
    let state = alice.wait_state(&id, "bus_accepted");
    assert_eq!(state["relays"].as_array().unwrap().len(), 2);
}

#[test]
fn two_relays_carry_one_message_once() {
    let (one, two) = (Bus::start(), Bus::start());
    let (a, b) = friends();
    let relays = format!("{},{},{}", url(&one), url(&two), url(&one));
    let (mut alice, mut bob) = (a.start(&relays, "sa"), b.start(&relays, "sb"));
    let id = alice.send("b", "sb", "twice");
    eventually("both relays", || {
        let state = alice.state_of(&id);
        let relays = state["relays"].as_array().unwrap();
        (relays.len() == 2 && relays.iter().all(|r| r["state"] == "accepted")).then_some(())
    });
    alice.send("b", "sb", "after");
    assert_eq!(bob.inbox_of(2)[0]["receipt"]["msg_id"], *id);
}

#[test]
fn the_largest_message_passes_and_a_larger_one_is_refused_with_the_limit() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    let limit = interlink::types::limit::MAX_MESSAGE_BYTES;
    let arguments = json!({ "to": "b", "session": "sb", "text": "x".repeat(limit) });
    let error = alice.call_raw("send_message", &arguments)["error"].clone();
    assert_eq!(error["code"], -32602);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains(&limit.to_string()),
        "{error}"
    );
    // 600 bytes hold everything of a message but its text.
    let id = alice.send("b", "sb", &"x".repeat(limit - 600));
    alice.wait_state(&id, "bus_accepted");
    assert_eq!(bob.inbox_of(1)[0]["receipt"]["msg_id"], *id);
}

#[test]
fn mail_that_waited_comes_in_as_it_was_sent_all_of_it() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let ids: Vec<String> = (0..70)
        .map(|n| alice.send("b", "sb", &format!("m{n}")))
        .collect();
    alice.wait_state(&ids[69], "bus_accepted");
    let mut bob = b.start(&url(&bus), "sb");
    let mail = bob.inbox_of(70);
    let got: Vec<&str> = mail
        .iter()
        .map(|m| m["receipt"]["msg_id"].as_str().unwrap())
        .collect();
    assert_eq!(got, ids);
}

#[test]
fn the_newer_process_of_a_session_takes_it_over() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let mut old = b.start(&url(&bus), "sb");
    alice.send("b", "sb", "one");
    let mail = old.inbox_of(1);
    let mut new = b.start(&url(&bus), "sb");
    let receipts = json!({ "messages": [mail[0]["receipt"]] });
    let refused = eventually("the loss of the session", || {
        let answer = old.call_raw("acknowledge_messages", &receipts);
        answer.get("error").cloned()
    });
    assert_eq!(refused["code"], -32603);
    let text = refused["message"].as_str().unwrap();
    assert!(
        text.starts_with("local state: another process owns this session"),
        "{text}"
    );
    let send = json!({ "to": "a", "session": "sa", "text": "x" });
    assert_eq!(old.call_raw("send_message", &send)["error"]["code"], -32603);
    // Its read tools stay, and it does not take in mail any more.
    old.inbox();
    alice.send("b", "sb", "two");
    let both = eventually("mail", || {
        Some(new.inbox()).filter(|m| {
            m.iter()
                .any(|m| m["content"].as_str().is_some_and(|c| c.contains("\ntwo\n")))
        })
    });
    assert!(!both.is_empty());
}
