//! The allowlist file beside a running channel server.

use serde_json::json;

use crate::http::Bus;
use crate::mcp_support::{Agent, Home, eventually, friends};

#[test]
fn tools_and_hands_edit_one_list() {
    let home = Home::new(1);
    let (x, y) = (Home::new(2).key, Home::new(3).key);
    let mut command = home.command("http://127.0.0.1:9", "s");
    command.args(["--consent", "tool"]);
    let mut agent = Agent::start(command);
    home.write_peers(&json!({ "x": { "key": x, "note": [1, 2] } }));
    let listed = agent.call("list_peers", &json!({}));
    assert_eq!(listed["peers"][0]["petname"], "x");
    assert_eq!(listed["peers"][0]["origin"], "file");
    let added = agent.call("add_peer", &json!({ "petname": "y", "key": y }));
    assert_eq!(added["changed"], true);
    assert_eq!(
        home.peers(),
        json!({ "x": { "key": x, "note": [1, 2] }, "y": { "key": y } })
    );
    for (name, key) in [("x", y), ("z", y)] {
        let answer = agent.call_raw("add_peer", &json!({ "petname": name, "key": key }));
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
    }
    let removed = agent.call("remove_peer", &json!({ "petname": "x" }));
    assert_eq!(
        (&removed["removed"], &removed["key"]),
        (&json!(true), &json!(x))
    );
    assert_eq!(home.peers(), json!({ "y": { "key": y } }));
    assert_eq!(
        agent.call("remove_peer", &json!({ "petname": "x" }))["removed"],
        false
    );
}

#[test]
fn a_broken_file_pauses_intake_and_a_mended_one_resumes_it() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url, "sa"), b.start(&url, "sb"));
    bob.call("list_peers", &json!({}));
    b.write_peers_text("{ \"a\": ");
    let id = alice.send("b", "sb", "held");
    alice.wait_state(&id, "bus_accepted");
    eventually("the report", || {
        bob.stderr().contains("mail stays on").then_some(())
    });
    let inbox = bob.call("receive_messages", &json!({}));
    assert_eq!(inbox["messages"], json!([]));
    assert!(
        inbox["note"].as_str().unwrap().contains("is broken"),
        "{inbox}"
    );
    assert_eq!(
        bob.call_raw("list_peers", &json!({}))["error"]["code"],
        -32603
    );
    b.write_peers(&json!({ "a": { "key": a.key } }));
    assert_eq!(bob.inbox_of(1)[0]["receipt"]["msg_id"], *id);
}

#[test]
fn who_is_struck_from_the_file_cannot_write_any_more() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url, "sa"), b.start(&url, "sb"));
    alice.send("b", "sb", "one");
    bob.inbox_of(1);
    b.write_peers(&json!({}));
    let id = alice.send("b", "sb", "two");
    alice.wait_state(&id, "bus_accepted");
    eventually("the gate", || {
        bob.stderr().contains("not a listed peer").then_some(())
    });
    assert_eq!(bob.inbox().len(), 1);
}

#[test]
fn an_edit_back_to_an_older_text_revokes_whom_it_lacks() {
    let home = Home::new(1);
    let (x, y) = (Home::new(2).key, Home::new(3).key);
    home.write_peers(&json!({ "x": { "key": x } }));
    let mut command = home.command("http://127.0.0.1:9", "s");
    command.args(["--consent", "tool"]);
    let mut agent = Agent::start(command);
    agent.call("list_peers", &json!({}));
    let before = std::fs::read_to_string(home.peers_path()).unwrap();
    agent.call("add_peer", &json!({ "petname": "y", "key": y }));
    let with_y = std::fs::read_to_string(home.peers_path()).unwrap();
    home.write_peers_text(&before);
    let listed = agent.call("list_peers", &json!({}));
    assert_eq!(listed["peers"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(home.peers(), json!({ "x": { "key": x } }));
    // What the newer text admitted does not come back with it.
    home.write_peers_text(&with_y);
    let listed = agent.call("list_peers", &json!({}));
    assert_eq!(listed["peers"].as_array().unwrap().len(), 1, "{listed}");
    let held = json!([{ "petname": "y", "key": y }]);
    assert_eq!(listed["held"], held);
    assert_eq!(home.peers(), json!({ "x": { "key": x } }));
    // Every session says so, whichever one took the edit over, also after a restart.
    let mut sibling = home.start("http://127.0.0.1:9", "other");
    assert_eq!(sibling.call("list_peers", &json!({}))["held"], held);
    agent.kill();
    let mut command = home.command("http://127.0.0.1:9", "s");
    command.args(["--consent", "tool"]);
    let mut agent = Agent::start(command);
    assert_eq!(agent.call("list_peers", &json!({}))["held"], held);
    agent.call("add_peer", &json!({ "petname": "y", "key": y }));
    let listed = sibling.call("list_peers", &json!({}));
    assert_eq!(listed["held"], json!([]), "{listed}");
}

#[test]
fn a_file_that_is_deleted_pauses_intake_until_it_is_back() {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url, "sa"), b.start(&url, "sb"));
    bob.call("list_peers", &json!({}));
    std::fs::remove_file(b.peers_path()).unwrap();
    let id = alice.send("b", "sb", "held");
    eventually("the report", || {
        bob.stderr().contains("mail stays on").then_some(())
    });
    let inbox = bob.call("receive_messages", &json!({}));
    assert_eq!(inbox["messages"], json!([]));
    assert!(
        inbox["note"].as_str().unwrap().contains("is gone"),
        "{inbox}"
    );
    b.write_peers(&json!({ "a": { "key": a.key } }));
    assert_eq!(bob.inbox_of(1)[0]["receipt"]["msg_id"], *id);
}

#[test]
fn a_start_with_a_second_file_ends_with_the_reason_and_leaves_the_session_alone() {
    let home = Home::new(1);
    let x = Home::new(2).key;
    let relay = "http://127.0.0.1:9";
    home.write_peers(&json!({ "x": { "key": x } }));
    let mut first = home.start(relay, "s");
    first.call("list_peers", &json!({}));
    let other = home.path().join("other.json");
    std::fs::write(&other, "{}").unwrap();
    let second = |adopt: bool| {
        let mut command = home.command(relay, "s2");
        command.arg("--peers").arg(&other);
        if adopt {
            command.arg("--adopt-peers");
        }
        command
    };
    let mut refused = Agent::raw(second(false));
    assert_eq!(refused.wait().code(), Some(1));
    let said = eventually("the reason", || {
        Some(refused.stderr()).filter(|s| s.contains("--adopt-peers"))
    });
    assert!(said.contains("interlink-mcp: "), "{said}");
    assert_eq!(
        first.call("list_peers", &json!({}))["peers"][0]["petname"],
        "x"
    );
    let mut adopted = Agent::start(second(true));
    assert_eq!(adopted.call("list_peers", &json!({}))["peers"], json!([]));
    // The first one goes by the log, which follows the new file.
    assert_eq!(first.call("list_peers", &json!({}))["peers"], json!([]));
}
