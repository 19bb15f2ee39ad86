//! What a host may say, in whatever order, and what it gets.

use serde_json::{Value, json};

use crate::http::Bus;
use crate::mcp_support::{Agent, Home, friends, initialize};

/// A relay that nobody listens at.
const NOWHERE: &str = "http://127.0.0.1:9";

#[test]
fn a_probe_before_initialize_is_refused_and_changes_nothing() {
    let home = Home::new(1);
    let mut agent = Agent::raw(home.command(NOWHERE, "s"));
    let meta = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "x", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    for params in [json!({}), meta, json!({ "_meta": 7 }), Value::Null] {
        let answer = agent.request("server/discover", &params);
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    agent.write(r#"{"jsonrpc":"2.0","id":"bare","method":"server/discover"}"#);
    assert_eq!(agent.read()["id"], "bare");
    agent.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(agent.request("ping", &json!({}))["result"], json!({}));
    assert_eq!(
        agent.request("tools/list", &json!({}))["error"]["code"],
        -32600
    );
    let hello = agent.request("initialize", &initialize("2025-11-25"));
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    let capabilities = &hello["result"]["capabilities"];
    assert_eq!(
        *capabilities,
        json!({ "tools": {}, "experimental": { "claude/channel": {} } })
    );
    assert_eq!(
        hello["result"]["serverInfo"]["version"],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(
        agent.request("server/discover", &json!({}))["error"]["code"],
        -32601
    );
    assert!(agent.request("tools/list", &json!({}))["result"]["tools"].is_array());
}

#[test]
fn known_revisions_are_echoed_and_others_get_the_newest_of_ours() {
    let home = Home::new(1);
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut agent = Agent::raw(home.command(NOWHERE, "s"));
        let hello = agent.request("initialize", &initialize(asked));
        assert_eq!(hello["result"]["protocolVersion"], given, "{asked}");
    }
}

#[test]
fn odd_lines_are_survived() {
    let home = Home::new(1);
    let mut agent = home.start(NOWHERE, "s");
    agent.write("");
    agent.write("not json");
    agent.write("[1]");
    assert_eq!(agent.read()["error"]["code"], -32600);
    let long = "x".repeat(interlink::agent::mcp::transport::MAX_LINE_BYTES + 1);
    agent.write(&long);
    assert_eq!(agent.read()["error"]["code"], -32600);
    assert_eq!(
        agent.request("no/such", &json!({}))["error"]["code"],
        -32601
    );
    assert_eq!(
        agent.request("logging/setLevel", &json!({ "level": "info" }))["error"]["code"],
        -32601
    );
    let me = agent.call("get_my_session_id", &json!({}));
    assert_eq!(me["session_id"], "s");
}

#[test]
fn arguments_that_do_not_fit_are_told_apart_from_those_that_make_no_sense() {
    let home = Home::new(1);
    let mut agent = home.start(NOWHERE, "s");
    for arguments in [
        json!({}),
        json!({ "to": 7, "text": "x" }),
        json!({ "to": "a" }),
    ] {
        let answer = agent.call_raw("send_message", &arguments);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(
            text.starts_with("failed to deserialize parameters"),
            "{text}"
        );
    }
    for (tool, arguments) in [
        (
            "send_message",
            json!({ "to": "nobody", "session": "s", "text": "x" }),
        ),
        ("send_message", json!({ "to": "", "text": "x" })),
        (
            "send_message",
            json!({ "to": "self", "session": "t", "text": "x", "status": "done" }),
        ),
        (
            "send_message",
            json!({ "to": "self", "session": "a#b", "text": "x" }),
        ),
        ("receive_messages", json!({ "limit": 0 })),
        ("acknowledge_messages", json!({ "messages": [] })),
        ("add_peer", json!({ "petname": "self", "key": home.key })),
        ("no_such_tool", json!({})),
    ] {
        let answer = agent.call_raw(tool, &arguments);
        assert_eq!(
            answer["error"]["code"], -32602,
            "{tool} {arguments}: {answer}"
        );
    }
    let answer = agent.call_raw("add_peer", &json!({ "petname": "x", "key": "short" }));
    assert_eq!(answer["error"]["code"], -32603);
    // Null is absent, and so is a blank status.
    let arguments = json!({
        "to": "self", "session": "t", "text": "x", "task_id": null, "status": " ",
        "in_reply_to": null, "unknown": 1,
    });
    let id = agent.call("send_message", &arguments)["msg_id"].clone();
    let sent = agent.state_of(id.as_str().unwrap());
    assert_eq!((sent.get("task_id"), sent.get("in_reply_to")), (None, None));
    let no_arguments = agent.request("tools/call", &json!({ "name": "list_peers" }));
    assert_eq!(
        no_arguments["result"]["structuredContent"]["peers"],
        json!([])
    );
}

#[test]
fn answers_have_the_shape_that_their_tool_announces() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let mut command = b.command(&url, "sb");
    command.env("INTERLINK_CONSENT", "tool");
    let (mut alice, mut bob) = (a.start(&url, "sa"), Agent::start(command));
    let id = alice.send("b", "sb", "x");
    let mail = bob.inbox_of(1);
    let tools = bob.request("tools/list", &json!({}))["result"]["tools"].clone();
    let calls = [
        ("send_message", json!({ "to": "a", "text": "y" })),
        ("receive_messages", json!({})),
        ("message_status", json!({ "msg_id": id })),
        ("message_status", json!({ "msg_id": "unknown" })),
        ("conversation_history", json!({ "peer": "a" })),
        (
            "acknowledge_messages",
            json!({ "messages": [mail[0]["receipt"]] }),
        ),
        ("list_pending", json!({})),
        ("list_peers", json!({})),
        (
            "add_peer",
            json!({ "petname": "c", "key": Home::new(3).key }),
        ),
        ("remove_peer", json!({ "petname": "c" })),
        ("get_my_session_id", json!({})),
        ("set_summary", json!({ "summary": " at work " })),
    ];
    for (name, arguments) in calls {
        let data = bob.call(name, &arguments);
        let tool = tools
            .as_array()
            .unwrap()
            .iter()
            .find(|t| t["name"] == name)
            .unwrap();
        check(&data, &tool["outputSchema"], name);
    }
}

/// As much of JSON Schema as the tools use.
fn check(value: &Value, schema: &Value, at: &str) {
    match schema["type"].as_str() {
        Some("object") => {
            let object = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(
                    object.contains_key(name.as_str().unwrap()),
                    "{at}: {name} in {value}"
                );
            }
            for (name, member) in object {
                let inner = &schema["properties"][name];
                assert!(!inner.is_null(), "{at}: {name} is not announced");
                check(member, inner, &format!("{at}.{name}"));
            }
        }
        Some("array") => {
            for item in value.as_array().unwrap_or_else(|| panic!("{at}: {value}")) {
                check(item, &schema["items"], at);
            }
        }
        Some("string") => assert!(value.is_string(), "{at}: {value}"),
        Some("integer") => assert!(value.is_u64(), "{at}: {value}"),
        Some("boolean") => assert!(value.is_boolean(), "{at}: {value}"),
        other => panic!("{at}: type {other:?}"),
    }
}

#[test]
fn logs_go_to_standard_error_and_carry_no_bodies() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let start = |home: &Home, session: &str| {
        let mut command = home.command(&url, session);
        command.env("RUST_LOG", "trace");
        Agent::start(command)
    };
    let (mut alice, mut bob) = (start(&a, "sa"), start(&b, "sb"));
    alice.send("b", "sb", "the-secret-body");
    bob.inbox_of(1);
    for log in [alice.stderr(), bob.stderr()] {
        assert!(log.contains("interlink"), "there is a log");
        assert!(!log.contains("the-secret-body"));
    }
    // Every line of standard output was parsed as JSON by the reader on the way here.
}
