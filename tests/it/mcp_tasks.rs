//! Tasks between channel servers that are real processes.

use serde_json::{Value, json};

use crate::http::Bus;
use crate::mcp_support::{Agent, eventually, friends};

fn url(bus: &Bus) -> String {
    format!("http://{}", bus.addr)
}

fn tasks(agent: &mut Agent) -> Vec<Value> {
    let list = agent.call("list_tasks", &json!({ "all": true }));
    list["tasks"].as_array().unwrap().clone()
}

/// Waits until the only task is in a state.
fn task_is(agent: &mut Agent, state: &str) -> Value {
    eventually(state, || {
        let list = tasks(agent);
        (list.len() == 1 && list[0]["state"] == state).then(|| list[0].clone())
    })
}

#[test]
fn a_task_is_followed_from_both_sides_and_ends_once() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    let ask = json!({ "to": "b", "session": "sb", "text": "please", "task_id": "t1" });
    let asked = alice.call("send_message", &ask);
    assert_eq!(task_is(&mut alice, "open")["direction"], "outbound");
    let there = task_is(&mut bob, "open");
    assert_eq!(there["direction"], "inbound");
    assert_eq!(
        (&there["peer"], &there["session"]),
        (&json!("a"), &json!("sa"))
    );
    let say = |status: &str| json!({ "to": "a", "text": "x", "task_id": "t1", "status": status });
    bob.call("send_message", &say("needs_input"));
    task_is(&mut alice, "needs_input");
    // The answer of a question carries no status.
    let answer = json!({
        "to": "b", "text": "yes", "task_id": "t1", "in_reply_to": asked["msg_id"],
    });
    alice.call("send_message", &answer);
    task_is(&mut bob, "open");
    bob.call("send_message", &say("result"));
    task_is(&mut bob, "result");
    task_is(&mut alice, "result");
    // A late answer is delivered and reopens nothing.
    let unread = bob.inbox().len();
    let late = alice.call("send_message", &answer);
    let note = late["note"].as_str().unwrap();
    assert!(note.contains("had ended before (result)"), "{note}");
    bob.inbox_of(unread + 1);
    task_is(&mut bob, "result");
    task_is(&mut alice, "result");
    let open = alice.call("list_tasks", &json!({}));
    assert_eq!(open["tasks"], json!([]));
}

#[test]
fn a_task_that_is_withdrawn_is_over_for_who_asked() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    let ask = json!({ "to": "b", "session": "sb", "text": "please", "task_id": "t1" });
    alice.call("send_message", &ask);
    task_is(&mut bob, "open");
    let canceled = alice.call("cancel_task", &json!({ "to": "b", "task_id": "t1" }));
    assert_eq!(canceled["session"], "sb");
    task_is(&mut alice, "canceled");
    task_is(&mut bob, "canceled");
    let mail = bob.inbox_of(2);
    let content = mail[1]["content"].as_str().unwrap();
    assert!(content.contains("status=\"canceled\""), "{content}");
    assert!(content.contains("\ncanceled\n"), "{content}");
}

#[test]
fn answers_in_a_task_go_to_the_session_where_it_is() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let (mut one, mut two) = (b.start(&url(&bus), "one"), b.start(&url(&bus), "two"));
    for (session, task) in [("one", "t1"), ("two", "t2")] {
        let ask = json!({ "to": "b", "session": session, "text": "x", "task_id": task });
        alice.call("send_message", &ask);
    }
    one.inbox_of(1);
    two.inbox_of(1);
    // Both have written; without a task the last one would get everything.
    one.call(
        "send_message",
        &json!({ "to": "a", "session": "sa", "text": "1", "task_id": "t1" }),
    );
    alice.inbox_of(1);
    two.call(
        "send_message",
        &json!({ "to": "a", "session": "sa", "text": "2", "task_id": "t2" }),
    );
    alice.inbox_of(2);
    for (task, session) in [("t1", "one"), ("t2", "two"), ("t3", "two")] {
        let sent = alice.call(
            "send_message",
            &json!({ "to": "b", "text": "x", "task_id": task }),
        );
        assert_eq!(sent["session"], session, "{task}");
    }
}

#[test]
fn empty_task_ids_and_references_are_refused() {
    let (a, _b) = friends();
    let mut alice = a.start("http://127.0.0.1:1", "sa");
    for (field, value) in [("task_id", ""), ("task_id", " "), ("in_reply_to", "")] {
        let mut arguments = json!({ "to": "b", "session": "sb", "text": "x" });
        arguments[field] = json!(value);
        let refused = alice.call_raw("send_message", &arguments);
        assert_eq!(refused["error"]["code"], -32602, "{field} {value:?}");
    }
    let refused = alice.call_raw("cancel_task", &json!({ "to": "b", "task_id": "" }));
    assert_eq!(refused["error"]["code"], -32602);
}
