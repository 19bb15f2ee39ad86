//! Codex as a host: the thread that every call names, its queue, its hooks.

use serde_json::json;

use crate::host_support::{FakeCodex, THREAD, codex_call, hook, notice_id};
use crate::http::Bus;
use crate::mcp_support::{Home, eventually, friends};

const OTHER: &str = "01a2b3c4-0000-7000-8000-000000000002";

#[test]
fn a_thread_is_bound_by_its_first_call_and_no_id_is_given_before() {
    let home = Home::new(1);
    let mut agent = FakeCodex::new().start(&home, "http://127.0.0.1:9");
    let hello = agent.request("ping", &json!({}));
    assert_eq!(hello["result"], json!({}));
    let answer = agent.call_raw("get_my_session_id", &json!({}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = codex_call(&mut agent, "get_my_session_id", &json!({}), "not-a-thread");
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = codex_call(&mut agent, "get_my_session_id", &json!({}), THREAD);
    assert_eq!(
        answer["result"]["structuredContent"]["session_id"], THREAD,
        "{answer}"
    );
    let answer = codex_call(&mut agent, "get_my_session_id", &json!({}), OTHER);
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("another thread"), "{text}");
}

#[test]
fn hooks_bind_once_and_the_hosts_own_word_beats_the_argument() {
    let home = Home::new(1);
    let mut agent = FakeCodex::new().start(&home, "http://127.0.0.1:9");
    let lie = agent.request(
        "tools/call",
        &json!({
            "name": "bind_codex_session",
            "arguments": { "thread_id": OTHER },
            "_meta": { "threadId": THREAD },
        }),
    );
    assert_eq!(lie["error"]["code"], -32602, "{lie}");
    let bind = json!({ "thread_id": THREAD, "hook_event_name": "SessionStart" });
    let greeting = hook(&mut agent, "bind_codex_session", &bind);
    assert_eq!(
        greeting["hookSpecificOutput"]["hookEventName"],
        "SessionStart"
    );
    assert_eq!(hook(&mut agent, "bind_codex_session", &bind), json!({}));
    let other = json!({ "thread_id": OTHER });
    let answer = agent.call_raw("bind_codex_session", &other);
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(
        agent.call("get_my_session_id", &json!({}))["session_id"],
        THREAD
    );
    let claude = json!({ "session_id": THREAD });
    let answer = agent.call_raw("bind_claude_session", &claude);
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let check = json!({ "session_id": THREAD, "stop_hook_active": false });
    assert_eq!(hook(&mut agent, "check_claude_inbox", &check), json!({}));
}

#[test]
fn notices_are_queued_by_arguments_alone_and_the_end_of_a_turn_is_held_up_once() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let codex = FakeCodex::new();
    let mut bob = codex.start(&b, &url);
    codex_call(&mut bob, "get_my_session_id", &json!({}), THREAD);
    alice.send("b", THREAD, "$(touch pwned); peer words");
    let call = eventually("a call of codex", || codex.calls().into_iter().next());
    assert_eq!(call[..3], ["queue", "--thread", THREAD]);
    assert_eq!(call[3], "--message");
    assert_eq!(call.len(), 5, "{call:?}");
    let text = call[4].clone();
    assert!(!text.contains("peer words"), "{text}");
    let check = |active: bool| json!({ "thread_id": THREAD, "stop_hook_active": active });
    let held = hook(&mut bob, "check_codex_inbox", &check(false));
    assert_eq!(held["decision"], "block", "{held}");
    let reason = held["reason"].as_str().unwrap();
    assert!(reason.contains("receive_messages with {}"), "{reason}");
    let passed = hook(&mut bob, "check_codex_inbox", &check(true));
    assert!(passed["systemMessage"].is_string(), "{passed}");
    let id = notice_id(&text);
    let prompt = json!({
        "thread_id": THREAD, "prompt": text, "hook_event_name": "UserPromptSubmit",
    });
    hook(&mut bob, "bind_codex_session", &prompt);
    let held = hook(&mut bob, "check_codex_inbox", &check(false));
    assert!(held["reason"].as_str().unwrap().contains(&id), "{held}");
    let answer = codex_call(
        &mut bob,
        "receive_messages",
        &json!({ "notification_id": id }),
        THREAD,
    );
    let mail = answer["result"]["structuredContent"]["messages"].clone();
    assert_eq!(mail[0]["stage"], "notified via codex queue", "{answer}");
    bob.acknowledge(mail.as_array().unwrap());
    assert_eq!(
        hook(&mut bob, "check_codex_inbox", &check(false)),
        json!({})
    );
    assert_eq!(codex.calls().len(), 1);
}

#[test]
fn what_the_queue_refuses_stays_readable_and_is_tried_again_on_demand() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let codex = FakeCodex::new();
    codex.fail_with(3);
    let mut bob = codex.start(&b, &url);
    codex_call(&mut bob, "get_my_session_id", &json!({}), THREAD);
    assert_eq!(
        bob.call("failed_deliveries", &json!({ "action": "list" }))["failed"],
        json!([])
    );
    alice.send("b", THREAD, "hello");
    let failed = eventually("a failure", || {
        let list = bob.call("failed_deliveries", &json!({ "action": "list" }));
        list["failed"].as_array().unwrap().first().cloned()
    });
    assert_eq!(codex.calls().len(), 3, "three attempts");
    assert_eq!(failed["sender"], "Interlink");
    assert!(
        failed["reason"]
            .as_str()
            .unwrap()
            .contains("exit status: 3")
    );
    let id = failed["id"].clone();
    for arguments in [
        json!({ "action": "read", "id": "ffffffff" }),
        json!({ "action": "read" }),
        json!({ "action": "sing", "id": id }),
    ] {
        let answer = bob.call_raw("failed_deliveries", &arguments);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let read = bob.call("failed_deliveries", &json!({ "action": "read", "id": id }));
    let text = read["text"].as_str().unwrap();
    assert!(text.contains(id.as_str().unwrap()), "{text}");
    // The mail itself is not affected.
    assert_eq!(bob.inbox_of(1)[0]["state"], "delivery_failed");
    codex.fail_with(0);
    bob.call("failed_deliveries", &json!({ "action": "retry", "id": id }));
    eventually("another call", || (codex.calls().len() == 4).then_some(()));
    eventually("the state", || {
        (bob.inbox_of(1)[0]["state"] == "host_queued").then_some(())
    });
    assert_eq!(
        bob.call("failed_deliveries", &json!({ "action": "list" }))["failed"],
        json!([])
    );
}

#[test]
fn a_missing_program_is_not_tried_over_and_over() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let codex = FakeCodex::new();
    std::fs::remove_file(&codex.bin).unwrap();
    let mut bob = codex.start(&b, &url);
    codex_call(&mut bob, "get_my_session_id", &json!({}), THREAD);
    alice.send("b", THREAD, "hello");
    let failed = eventually("a failure", || {
        let list = bob.call("failed_deliveries", &json!({ "action": "list" }));
        list["failed"].as_array().unwrap().first().cloned()
    });
    assert!(
        failed["reason"]
            .as_str()
            .unwrap()
            .contains("does not start")
    );
    let id = failed["id"].clone();
    bob.call(
        "failed_deliveries",
        &json!({ "action": "discard", "id": id }),
    );
    assert_eq!(
        bob.call("failed_deliveries", &json!({ "action": "list" }))["failed"],
        json!([])
    );
    assert_eq!(bob.inbox_of(1).len(), 1);
}
