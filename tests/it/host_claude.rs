//! Claude Code as a host: hooks that name the conversation, and every way to wake it.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::host_support::{
    FakeSocket, bind, channel_notices, environment, hook, listen, notice_id, woken,
};
use crate::http::Bus;
use crate::mcp_support::{Agent, Home, eventually, friends};

fn managed(home: &Home, url: &str) -> Agent {
    let mut command = home.command(url, "unused");
    command.env("INTERLINK_CLAUDE_SESSION_HOOKS", "true");
    Agent::start(command)
}

/// The sessions that a bus lists.
fn roster(bus: &Bus) -> Vec<String> {
    let url = format!("http://{}/roster", bus.addr);
    let text = crate::support::web()
        .get(url)
        .send()
        .unwrap()
        .text()
        .unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let entries = value["roster"].as_array().unwrap().clone();
    let mut sessions: Vec<String> = entries
        .iter()
        .map(|e| {
            let text = e.to_string();
            let (_, rest) = text.split_once("\"session_id\":\"").unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        })
        .collect();
    sessions.sort();
    sessions
}

#[test]
fn a_managed_server_does_nothing_before_a_hook_names_the_conversation() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let home = Home::new(1);
    let mut agent = managed(&home, &url);
    for tool in ["get_my_session_id", "list_peers", "receive_messages"] {
        let answer = agent.call_raw(tool, &json!({}));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(
        hook(
            &mut agent,
            "check_claude_inbox",
            &json!({ "session_id": "c1", "stop_hook_active": "false" })
        ),
        json!({})
    );
    assert!(roster(&bus).is_empty());
    let greeting = bind(&mut agent, "c1");
    let context = &greeting["hookSpecificOutput"];
    assert_eq!(context["hookEventName"], "UserPromptSubmit");
    assert!(context["additionalContext"].is_string());
    assert_eq!(bind(&mut agent, "c1"), json!({}), "once");
    assert_eq!(
        agent.call("get_my_session_id", &json!({}))["session_id"],
        "c1"
    );
    eventually("the roster", || (roster(&bus) == ["c1"]).then_some(()));
}

#[test]
fn another_conversation_ends_the_one_before_as_a_whole() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let mut bob = managed(&b, &url);
    bind(&mut bob, "c1");
    bob.call("set_summary", &json!({ "summary": "old work" }));
    alice.send("b", "c1", "to the first");
    let mail = bob.inbox_of(1);
    assert_eq!(mail[0]["stage"], "stored");
    bind(&mut bob, "c2");
    eventually("the roster", || {
        (roster(&bus) == ["c2", "sa"]).then_some(())
    });
    assert!(bob.inbox().is_empty());
    // It took its leave from who wrote to it.
    let goodbye = alice.inbox_of(1);
    let text = goodbye[0]["content"].as_str().unwrap();
    assert!(text.contains("session c1 is closing"), "{text}");
    alice.send("b", "c2", "to the second");
    let mail = bob.inbox_of(1);
    assert_eq!(bob.acknowledge(&mail), 1);
    // Nothing is lost: whoever resumes the first conversation finds its mail.
    bind(&mut bob, "c1");
    assert_eq!(bob.inbox_of(1).len(), 1);
    let end = json!({ "session_id": "c1" });
    assert_eq!(hook(&mut bob, "end_claude_session", &end), json!({}));
    let answer = bob.call_raw("get_my_session_id", &json!({}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    eventually("the roster", || (roster(&bus) == ["sa"]).then_some(()));
}

#[test]
fn tools_of_hooks_refuse_models_and_odd_ids() {
    let home = Home::new(1);
    let mut agent = managed(&home, "http://127.0.0.1:9");
    for meta in [
        json!({ "claudecode/toolUseId": "toolu_1" }),
        json!({ "callId": "call_1" }),
    ] {
        for tool in [
            "bind_claude_session",
            "end_claude_session",
            "check_claude_inbox",
            "bind_codex_session",
            "check_codex_inbox",
        ] {
            let answer = agent.request(
                "tools/call",
                &json!({ "name": tool, "arguments": { "session_id": "c" }, "_meta": meta }),
            );
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            let text = answer["error"]["message"].as_str().unwrap();
            assert!(text.contains("hooks"), "{text}");
        }
    }
    let long = "x".repeat(129);
    for id in ["", "a b", "a#b", "../x", "a\n", long.as_str()] {
        let answer = agent.call_raw("bind_claude_session", &json!({ "session_id": id }));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    for arguments in [json!({}), json!({ "session_id": 7 })] {
        for tool in ["bind_claude_session", "end_claude_session"] {
            let answer = agent.call_raw(tool, &arguments);
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
    }
    let mut plain = home.start("http://127.0.0.1:9", "s");
    let answer = plain.call_raw("bind_claude_session", &json!({ "session_id": "c" }));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[test]
fn the_socket_gets_the_token_the_session_and_no_word_of_a_peer() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let socket = FakeSocket::start();
    let mut command = b.command(&url, "unused");
    socket.environment(&mut command);
    let mut bob = Agent::start(command);
    bind(&mut bob, "c1");
    let msg_id = alice.send("b", "c1", "secret words");
    let frames = socket.frame(1);
    assert_eq!(frames[0], json!({ "type": "auth", "token": "sesame" }));
    assert_eq!(frames[1]["type"], "user");
    assert_eq!(frames[1]["session_id"], "c1");
    assert_eq!(frames[1]["message"]["role"], "user");
    let text = frames[1]["message"]["content"].as_str().unwrap();
    assert!(!text.contains("secret") && !text.contains('\n'), "{text}");
    assert!(channel_notices(&mut bob).is_empty());
    let status = eventually("the state", || {
        let status = bob.call("message_status", &json!({ "msg_id": msg_id }));
        (status["received"]["state"] == "socket_sent").then_some(status)
    });
    assert_eq!(status["received"]["stage"], "notified via messaging socket");
    // The guard at the end of a turn acts on turns that began with the notice.
    let check = |active: &str| json!({ "session_id": "c1", "stop_hook_active": active });
    let stop = |bob: &mut Agent, active| hook(bob, "check_claude_inbox", &check(active));
    assert_eq!(stop(&mut bob, "false"), json!({}));
    let prompt = format!("Another Claude session sent a message:\n{text}\n\nThis came from it.");
    let started = json!({
        "session_id": "c1", "prompt": prompt, "hook_event_name": "UserPromptSubmit",
    });
    hook(&mut bob, "bind_claude_session", &started);
    let held = stop(&mut bob, "false");
    assert_eq!(held["decision"], "block", "{held}");
    let reason = held["reason"].as_str().unwrap();
    let id = notice_id(text);
    assert!(
        reason.contains(&format!("{{\"notification_id\":\"{id}\"}}")),
        "{reason}"
    );
    let passed = stop(&mut bob, "true");
    assert!(passed["systemMessage"].is_string() && passed.get("decision").is_none());
    let mail = bob.call("receive_messages", &json!({ "notification_id": id }));
    bob.acknowledge(mail["messages"].as_array().unwrap());
    assert_eq!(stop(&mut bob, "false"), json!({}));
    let status = bob.call("message_status", &json!({ "msg_id": msg_id }));
    assert_eq!(status["received"]["stage"], "read");
    assert_eq!(socket.count(), 1);
}

#[test]
fn a_notice_that_the_channel_lost_comes_by_the_socket_and_then_by_the_listener() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let socket = FakeSocket::start();
    let mut command = b.command(&url, "sb");
    socket.environment(&mut command);
    command
        .env("INTERLINK_CHANNELS", "1")
        .args(["--notice-patience", "1500ms"]);
    let mut bob = Agent::start(command);
    bob.inbox();
    let listener = listen(&b, &url, "sb");
    alice.send("b", "sb", "who hears me?");
    let first = eventually("the channel", || {
        channel_notices(&mut bob).into_iter().next()
    });
    assert_eq!(socket.count(), 0, "one way at a time");
    let id = first["params"]["meta"]["msg_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let frame = socket.frame(1);
    let text = frame[1]["message"]["content"].as_str().unwrap();
    assert_eq!(notice_id(text), id);
    let text = woken(listener);
    assert_eq!(notice_id(&text), id);
    assert_eq!(socket.count(), 1);
    // The way that led to a fetch is the first one from now on.
    let listener = listen(&b, &url, "sb");
    let mail = bob.call("receive_messages", &json!({ "notification_id": id }));
    bob.acknowledge(mail["messages"].as_array().unwrap());
    alice.send("b", "sb", "and now?");
    let text = woken(listener);
    assert_ne!(notice_id(&text), id);
    assert_eq!(socket.count(), 1);
    assert_eq!(channel_notices(&mut bob).len(), 1);
}

#[test]
fn a_dead_socket_loses_nothing_and_the_listener_is_next() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let mut command = b.command(&url, "unused");
    environment(&mut command, &b.path().join("nobody.sock"));
    command.args(["--notice-patience", "300ms"]);
    let mut bob = Agent::start(command);
    bind(&mut bob, "c1");
    bob.inbox();
    let listener = listen(&b, &url, "c1");
    alice.send("b", "c1", "hello");
    let id = notice_id(&woken(listener));
    let mail = bob.call("receive_messages", &json!({ "notification_id": id }));
    assert_eq!(mail["messages"][0]["stage"], "notified via listener");
    assert_eq!(bob.acknowledge(mail["messages"].as_array().unwrap()), 1);
}

#[test]
fn without_hooks_the_environment_names_the_conversation_and_hooks_may_follow() {
    let home = Home::new(1);
    let socket = FakeSocket::start();
    let mut command = home.command("http://127.0.0.1:9", "unused");
    socket.environment(&mut command);
    command.env("CLAUDE_CODE_SESSION_ID", "c0");
    let mut agent = Agent::start(command);
    let me = |agent: &mut Agent| agent.call("get_my_session_id", &json!({}))["session_id"].clone();
    assert_eq!(me(&mut agent), "c0");
    bind(&mut agent, "c1");
    assert_eq!(me(&mut agent), "c1");
}

#[test]
fn late_notices_never_reach_another_conversation() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let socket = FakeSocket::start();
    let mut command = b.command(&url, "unused");
    socket.environment(&mut command);
    command.args(["--notice-patience", "200ms"]);
    let mut bob = Agent::start(command);
    bind(&mut bob, "c1");
    alice.send("b", "c1", "one");
    assert_eq!(socket.frame(1)[1]["session_id"], "c1");
    bind(&mut bob, "c2");
    alice.send("b", "c2", "two");
    let frame = eventually("a frame of the new conversation", || {
        let frames = socket.frames.lock().unwrap().clone();
        frames.into_iter().find(|f| f[1]["session_id"] == "c2")
    });
    let text = frame[1]["message"]["content"].as_str().unwrap();
    assert!(text.contains(" 1 message waiting"), "{text}");
    let frames = socket.frames.lock().unwrap().clone();
    let after: Vec<_> = frames
        .iter()
        .skip_while(|f| f[1]["session_id"] != "c2")
        .collect();
    assert!(after.iter().all(|f| f[1]["session_id"] == "c2"));
}

#[test]
fn contradictory_wishes_are_refused_at_the_start() {
    let home = Home::new(1);
    type Case = (&'static [(&'static str, &'static str)], i32, &'static str);
    let cases: [Case; 6] = [
        (
            &[("INTERLINK_CLAUDE_DELIVERY", "pigeon")],
            1,
            "auto, socket and inbox",
        ),
        (
            &[("INTERLINK_CLAUDE_DELIVERY", "socket")],
            1,
            "CLAUDE_CODE_MESSAGING_SOCKET",
        ),
        (
            &[
                ("CLAUDE_CODE_MESSAGING_SOCKET", "relative.sock"),
                ("CLAUDE_CODE_MESSAGING_TOKEN", "t"),
            ],
            1,
            "absolute",
        ),
        (
            &[("CLAUDE_CODE_MESSAGING_SOCKET", "/s.sock")],
            1,
            "CLAUDE_CODE_MESSAGING_TOKEN",
        ),
        (&[("INTERLINK_CLAUDE_SESSION_HOOKS", "1")], 2, "true"),
        (
            &[
                ("INTERLINK_CLAUDE_DELIVERY", "inbox"),
                ("CLAUDE_CODE_MESSAGING_SOCKET", "relative.sock"),
            ],
            1,
            "before initialize",
        ),
    ];
    for (vars, code, says) in cases {
        let mut command = home.command("http://127.0.0.1:9", "s");
        command.envs(vars.iter().copied());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{vars:?}: {text}");
        assert!(text.contains(says), "{vars:?}: {text}");
    }
}

#[test]
fn a_conversation_that_another_server_serves_is_not_taken_over_unasked() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut alice = a.start(&url, "sa");
    let (mut first, mut second) = (managed(&b, &url), managed(&b, &url));
    bind(&mut first, "c1");
    first.call("set_summary", &json!({ "summary": "at work" }));
    // What it acknowledged, it acknowledged as the one who serves it.
    alice.send("b", "c1", "first of all");
    let mail = first.inbox_of(1);
    first.acknowledge(&mail);
    let ask = json!({ "session_id": "c1", "hook_event_name": "UserPromptSubmit" });
    let answer = second.call_raw("bind_claude_session", &ask);
    let text = answer["error"]["message"].as_str().unwrap();
    let pid = first.pid().to_string();
    assert!(text.contains(&pid) && text.contains("take_over"), "{text}");
    // The one that serves it does so as before, and the other one is free for its own.
    alice.send("b", "c1", "hello");
    let mail = first.inbox_of(1);
    first.acknowledge(&mail);
    bind(&mut second, "c2");
    // On demand it moves.
    let ask = json!({ "session_id": "c1", "take_over": "true" });
    hook(&mut second, "bind_claude_session", &ask);
    alice.send("b", "c1", "again");
    assert_eq!(second.inbox_of(1).len(), 1);
    // Nobody has to ask for what the dead left.
    second.kill();
    let receipts = mail_of(&mut first);
    eventually("the first has it back", || {
        let answer = first.call_raw("acknowledge_messages", &json!({ "messages": receipts }));
        (answer["result"]["isError"] == false).then_some(())
    });
    first.kill();
    let mut third = managed(&b, &url);
    bind(&mut third, "c1");
    assert_eq!(
        third.call("get_my_session_id", &json!({}))["session_id"],
        "c1"
    );
}

fn mail_of(agent: &mut Agent) -> Vec<Value> {
    let inbox = agent.inbox();
    inbox.iter().map(|m| m["receipt"].clone()).collect()
}
