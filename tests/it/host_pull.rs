//! A client that cannot be woken: every answer says that mail waits.

use serde_json::json;

use crate::http::Bus;
use crate::mcp_pairing::{announced, knocked};
use crate::mcp_support::{Agent, Home, eventually, friends};

#[test]
fn every_answer_says_that_mail_waits_until_it_was_read() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let mut command = b.command(&url, "sb");
    command.args(["--host", "other"]);
    let mut bob = Agent::start(command);
    let quiet = bob.call("get_my_session_id", &json!({}));
    assert!(quiet.get("mail_waits").is_none(), "{quiet}");
    alice.send("b", "sb", "one");
    let progress = json!({
        "to": "b", "session": "sb", "text": "50%", "task_id": "t", "status": "update",
    });
    alice.call("send_message", &progress);
    bob.inbox_of(2);
    for (tool, arguments) in [
        ("get_my_session_id", json!({})),
        ("list_peers", json!({})),
        ("list_pending", json!({})),
        ("set_summary", json!({ "summary": "x" })),
    ] {
        let answer = bob.call_raw(tool, &arguments);
        let result = &answer["result"];
        // Progress wakes nobody.
        let waits = &result["structuredContent"]["mail_waits"];
        assert_eq!(waits["unread"], 1, "{answer}");
        let texts = result["content"].as_array().unwrap();
        let last = texts.last().unwrap()["text"].as_str().unwrap();
        assert!(last.starts_with("Inbox: 1 message is unread"), "{last}");
    }
    let inbox = bob.call("receive_messages", &json!({}));
    assert!(inbox.get("mail_waits").is_none());
    let mail = inbox["messages"].as_array().unwrap().clone();
    assert_eq!(mail[0]["stage"], "stored");
    bob.acknowledge(&mail);
    eventually("silence", || {
        let quiet = bob.call("get_my_session_id", &json!({}));
        quiet.get("mail_waits").is_none().then_some(())
    });
}

#[test]
fn every_answer_says_that_somebody_asks_until_it_was_looked_at() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = (Home::new(0x1a), Home::new(0x1b));
    let plain = |home: &Home, session: &str| {
        let mut command = home.command(&url, session);
        command.args(["--host", "other", "--consent", "tool"]);
        Agent::start(command)
    };
    let (mut alice, mut bob) = (plain(&a, "sa"), plain(&b, "sb"));
    announced(&bus, "sb");
    alice.call("request_pair", &json!({ "target": b.key.to_string() }));
    eventually("word of the request", || {
        let answer = bob.call("list_peers", &json!({}));
        (answer["pairing_waits"]["news"] == 1).then_some(())
    });
    knocked(&mut bob);
    eventually("silence", || {
        let quiet = bob.call("list_peers", &json!({}));
        quiet.get("pairing_waits").is_none().then_some(())
    });
}
