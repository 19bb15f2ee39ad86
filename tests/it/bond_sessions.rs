//! Sealed sessions between two channel servers: opening, confirming, talking, files, ending.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::bond_support::{BondRelay, bad, bonded, event, good, start};
use crate::mcp_support::{Agent, Home, eventually};

const TOOL: &[(&str, &str)] = &[("INTERLINK_CONSENT", "tool")];

/// The programs go before their homes do.
struct Two {
    host: Agent,
    guest: Agent,
    code: String,
    homes: [Home; 2],
    relay: BondRelay,
}

fn two(more: &[(&str, &str)]) -> Two {
    let relay = BondRelay::start();
    let homes = [Home::new(1), Home::new(2)];
    let mut host = start(&homes[0], &relay.url(), more);
    let mut guest = start(&homes[1], &relay.url(), more);
    let code = bonded(&mut host, &mut guest);
    Two {
        relay,
        homes,
        host,
        guest,
        code,
    }
}

/// Says something as soon as the other side lets it.
fn say(agent: &mut Agent, tool: &str, arguments: &serde_json::Value) -> serde_json::Value {
    eventually("the cooldown ends", || {
        let (failed, text, data) = crate::bond_support::ask(agent, tool, arguments);
        assert!(
            !failed || text.contains("Rate limit") || text.contains("not established"),
            "{text}"
        );
        (!failed).then_some(data)
    })
}

#[test]
fn two_strangers_talk_exchange_files_and_part() {
    let Two {
        relay,
        homes,
        mut host,
        mut guest,
        code,
    } = two(TOOL);
    for (agent, role) in [(&mut host, "host"), (&mut guest, "guest")] {
        let (text, status) = good(agent, "bond_status", &json!({}));
        assert!(text.contains("Secure channel established"), "{text}");
        assert!(text.contains("Connected Peers: 2"), "{text}");
        assert_eq!(status["role"], role);
        assert_eq!(status["state"], "confirmed");
        assert_eq!(status["session_code"], code.as_str());
    }

    say(
        &mut host,
        "bond_message",
        &json!({ "content": "hello guest" }),
    );
    say(
        &mut guest,
        "bond_message",
        &json!({ "content": "hello host" }),
    );
    let heard = event(&mut guest, "message")["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        heard.starts_with("Message from peer ") && heard.contains("hello guest"),
        "{heard}"
    );
    let heard = event(&mut host, "message")["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(heard.contains("hello host"), "{heard}");
    let at_once = bad(&mut host, "bond_message", &json!({ "content": "again" }));
    assert!(at_once.contains("Rate limit"), "{at_once}");

    std::fs::write(homes[0].path().join("notes.md"), "# One\n\nfrom the host\n").unwrap();
    std::fs::write(homes[1].path().join("code.rs"), "fn main() {}\r\n").unwrap();
    let sent = say(
        &mut host,
        "bond_send",
        &json!({ "filepath": "notes.md", "message": "SECRET-NOTE" }),
    );
    say(&mut guest, "bond_send", &json!({ "filepath": "code.rs" }));
    for (agent, home, name, bytes) in [
        (
            &mut guest,
            &homes[1],
            "notes.md",
            "# One\n\nfrom the host\n",
        ),
        (&mut host, &homes[0], "code.rs", "fn main() {}\r\n"),
    ] {
        let offer = event(agent, "file_offered");
        let text = offer["text"].as_str().unwrap();
        for part in ["Incoming File Transfer", "File: ", "Transfer ID: ", name] {
            assert!(text.contains(part), "{text}");
        }
        // Nothing of the peer's bytes before consent.
        assert!(
            !text.contains("SECRET-NOTE") && !text.contains("main"),
            "{text}"
        );
        let id = &offer["transfer_id"];
        let (_, status) = good(agent, "bond_status", &json!({}));
        assert_eq!(status["pending"][0]["transfer_id"], *id);
        if name == "notes.md" {
            assert_eq!(status["pending"][0]["sha256"], sent["sha256"]);
        }
        let (text, taken) = good(agent, "bond_accept", &json!({ "transferId": id }));
        assert!(
            text.contains("File Transfer Accepted") && text.contains("Saved to: "),
            "{text}"
        );
        let path = std::path::Path::new(taken["path"].as_str().unwrap());
        assert!(path.starts_with(home.path()), "{path:?}");
        assert_eq!(std::fs::read(path).unwrap(), bytes.as_bytes());
        let again = bad(agent, "bond_accept", &json!({ "transferId": id }));
        assert!(again.contains("no file of this id"), "{again}");
    }

    good(&mut host, "bond_end", &json!({}));
    let (text, status) = good(&mut host, "bond_status", &json!({}));
    assert!(text.contains("Status: Not connected"), "{text}");
    assert_eq!(status["connected"], false);
    let left = event(&mut guest, "peer_left");
    assert!(
        left["text"]
            .as_str()
            .unwrap()
            .contains("Peer has disconnected")
    );
    let (text, status) = good(&mut guest, "bond_status", &json!({}));
    assert!(
        text.contains("Peer disconnected") && text.contains("Connected Peers: 1"),
        "{text}"
    );
    assert_eq!(status["connected"], false);
    let refused = bad(&mut guest, "bond_message", &json!({ "content": "there?" }));
    assert!(refused.contains("Peer has disconnected"), "{refused}");
    eventually("the relay has nobody", || {
        (relay.members() == 0).then_some(())
    });
    // The loops have stopped, and both said so when they did: nothing was asked after that.
    for agent in [&host, &guest] {
        eventually("the relay is not asked any more", || {
            let said = agent.stderr();
            said.contains("the relay is not asked any more")
                .then_some(())
        });
    }
    let asked = relay.asked("/poll").len();
    // Two ids for two sessions of one process.
    good(&mut host, "bond_connect", &json!({}));
    let polls = || relay.asked("/poll").split_off(asked);
    eventually("the new session is polled", || {
        (!polls().is_empty()).then_some(())
    });
    let created = relay.asked("/create");
    let new = created[1].body["routingId"].as_str().unwrap();
    assert!(polls().iter().all(|poll| poll.query["routingId"] == new));
    let ids: Vec<_> = relay
        .asked("/create")
        .iter()
        .map(|a| a.body["peerId"].clone())
        .collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn every_way_out_says_goodbye() {
    for way in ["EOF", "TERM", "INT", "bond_end"] {
        let relay = BondRelay::start();
        let home = Home::new(1);
        let mut agent = start(&home, &relay.url(), TOOL);
        good(&mut agent, "bond_connect", &json!({}));
        match way {
            "EOF" => agent.close_stdin(),
            "bond_end" => drop(good(&mut agent, "bond_end", &json!({}))),
            signal => agent.signal(signal),
        }
        eventually(way, || {
            (relay.asked("/disconnect").len() == 1).then_some(())
        });
        assert_eq!(relay.members(), 0, "{way}");
        if way != "bond_end" {
            agent.wait();
        }
    }
}

#[test]
fn an_end_needs_no_relay() {
    let relay = BondRelay::start();
    let home = Home::new(1);
    let mut agent = start(&home, &relay.url(), TOOL);
    good(&mut agent, "bond_connect", &json!({}));
    relay.meddle(|_| Some(None));
    let begun = Instant::now();
    let (text, ended) = good(&mut agent, "bond_end", &json!({}));
    assert!(text.contains("Session Ended"), "{text}");
    assert_eq!(ended["ended"], true);
    assert!(begun.elapsed() < Duration::from_secs(2));
    let (_, again) = good(&mut agent, "bond_end", &json!({}));
    assert_eq!(again["ended"], false);
    let (text, _) = good(&mut agent, "bond_status", &json!({}));
    assert!(text.contains("Status: Not connected"), "{text}");
}

#[test]
fn a_relay_that_forgets_the_session_is_told_to_the_model() {
    let mut two = two(TOOL);
    two.relay.forget();
    event(&mut two.host, "relay_lost");
    let (text, status) = good(&mut two.host, "bond_status", &json!({}));
    assert_eq!(status["state"], "relay_lost", "{text}");
    assert_eq!(status["connected"], false);
    event(&mut two.guest, "relay_lost");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let relay = BondRelay::start();
    let home = Home::new(1);
    let mut agent = start(&home, &relay.url(), TOOL);
    for code in [
        "",
        "abcd-1234",
        "AbCd-1234-XyZ0",
        "AbCd-1234-XyZw\n",
        "abcd12345678",
    ] {
        let said = bad(&mut agent, "bond_join", &json!({ "sessionCode": code }));
        assert!(code.is_empty() || !said.contains(code), "{said}");
    }
    bad(&mut agent, "bond_join", &json!({ "sessionCode": 7 }));
    bad(&mut agent, "bond_send", &json!({ "filepath": 7 }));
    bad(
        &mut agent,
        "bond_wait",
        &json!({ "timeoutSeconds": "soon" }),
    );
    for (tool, arguments) in [
        ("bond_message", json!({ "content": "x" })),
        ("bond_send", json!({ "filepath": "x.md" })),
        ("bond_wait", json!({})),
    ] {
        let said = bad(&mut agent, tool, &arguments);
        assert!(said.contains("not connected"), "{tool}: {said}");
    }
    bad(
        &mut agent,
        "bond_accept",
        &json!({ "transferId": "0011223344556677" }),
    );
    bad(
        &mut agent,
        "bond_decline",
        &json!({ "transferId": "../../x" }),
    );
    let said = bad(
        &mut agent,
        "bond_join",
        &json!({ "sessionCode": "AbCd-1234-XyZw" }),
    );
    assert!(said.contains("no session of this code"), "{said}");
    // Nothing is left of what failed.
    good(&mut agent, "bond_connect", &json!({}));
    let said = bad(&mut agent, "bond_connect", &json!({}));
    assert!(said.contains("already"), "{said}");
    let said = bad(&mut agent, "bond_message", &json!({ "content": "x" }));
    assert!(said.contains("not established"), "{said}");
    let begun = Instant::now();
    let (text, waited) = good(&mut agent, "bond_wait", &json!({ "timeoutSeconds": 1 }));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert!(text.contains("No new events within 1s"), "{text}");
    assert_eq!(waited["outcome"], "timeout");
    let said = bad(
        &mut agent,
        "bond_message",
        &json!({ "content": "x".repeat(4001) }),
    );
    assert!(said.contains("4000"), "{said}");
}
