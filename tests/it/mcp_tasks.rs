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

/// The files that say which task is open, wherever they are under a folder.
fn markers(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![];
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "task") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn an_open_task_stands_in_a_private_file_of_its_session_until_it_has_ended() {
    use std::os::unix::fs::PermissionsExt as _;
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "../sb"));
    let ask = json!({ "to": "b", "session": "../sb", "text": "please", "task_id": "t1" });
    alice.call("send_message", &ask);
    let path = eventually("the file", || markers(b.path()).pop());
    assert!(path.starts_with(b.path().join("state")), "{path:?}");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let said: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        (&said["task_id"], &said["session"]),
        (&json!("t1"), &json!("../sb"))
    );
    assert!(markers(a.path()).is_empty(), "who asked works on nothing");
    let mut done = json!({ "to": "a", "text": "x", "task_id": "t1", "status": "update" });
    bob.call("send_message", &done);
    eventually("the report", || {
        let said: Value = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        (said["last_report"].as_u64() > said["since"].as_u64()).then_some(())
    });
    done["status"] = json!("result");
    bob.call("send_message", &done);
    eventually("its end", || (!path.exists()).then_some(()));
    // A late answer does not bring it back.
    alice.call("send_message", &ask);
    bob.inbox_of(2);
    assert!(markers(b.path()).is_empty());
}

#[test]
fn mail_that_pushed_other_mail_out_is_listed_and_late_mail_is_put_away() {
    let bus = Bus::with(|config| config.limits.messages = 1);
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let lost = alice.send("b", "sb", "one");
    alice.wait_state(&lost, "bus_accepted");
    let sent = alice.send("b", "sb", "two");
    alice.wait_state(&sent, "bus_accepted");
    let listed = alice.call("list_pending", &json!({}));
    assert_eq!(listed["dropped"][0]["msg_id"], *sent);
    assert_eq!(listed["pending"], json!([]));
    let mut command = b.command(&url(&bus), "sb");
    command.args(["--max-age", "0s"]);
    let mut bob = Agent::start(command);
    let late = eventually("the late message", || {
        let listed = bob.call("list_pending", &json!({}));
        listed["expired"].as_array().unwrap().first().cloned()
    });
    assert_eq!(late["receipt"], json!({ "sender": a.key, "msg_id": sent }));
    let receipts = json!({ "messages": [late["receipt"]] });
    let done = bob.call("acknowledge_messages", &receipts);
    assert_eq!(done["acknowledged"], 1);
    let listed = bob.call("list_pending", &json!({}));
    assert_eq!(listed["expired"], json!([]));
}

#[test]
fn a_session_id_that_could_forge_output_or_a_route_is_refused_at_the_start() {
    let a = crate::mcp_support::Home::new(0x0a);
    for bad in ["a#b", "a\nb", "\u{202e}", &"x".repeat(257)] {
        let mut command = a.command("http://127.0.0.1:1", bad);
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{bad:?}");
    }
}
