//! Who is there, seen from channel servers that are real processes.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use interlink::crypto::sign::SigningIdentity;
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::announce::{Announcement, SessionInfo};
use serde_json::{Value, json};

use crate::http::Bus;
use crate::mcp_support::{Agent, FakeRelay, Home, eventually, friends};

fn url(bus: &Bus) -> String {
    format!("http://{}", bus.addr)
}

pub(crate) fn now() -> UnixMillis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    UnixMillis(u64::try_from(since.unwrap().as_millis()).unwrap())
}

/// Announces a session of a seed's identity, signed at a time.
pub(crate) fn announce(
    bus: &Bus,
    seed: u8,
    session: &str,
    name: &str,
    ts: UnixMillis,
) -> Announcement {
    let info = SessionInfo {
        session_id: session.to_owned(),
        cwd: "dir\n\u{202e}x".to_owned(),
        summary: "s".repeat(5000),
        ..SessionInfo::default()
    };
    let identity = SigningIdentity::from_seed(&Secret::new([seed; 32]));
    let announcement = Announcement::sign(&identity, name.to_owned(), info, ts);
    post(bus, &announcement);
    announcement
}

fn post(bus: &Bus, announcement: &Announcement) {
    let body = serde_json::to_string(announcement).unwrap();
    let reply = bus.connect().post("/announce", &body);
    assert_eq!(reply.status, 202);
}

fn is_on_board(bus: &Bus, announcement: &Announcement) -> bool {
    let roster = bus.connect().get("/roster").json();
    let list = roster["roster"].as_array().unwrap();
    list.iter()
        .any(|entry| entry["sig"] == json!(announcement.sig))
}

fn discover(agent: &mut Agent, peer: Option<&str>) -> Value {
    let arguments = peer.map_or_else(|| json!({}), |peer| json!({ "peer": peer }));
    agent.call("discover", &arguments)
}

/// The identity with this key, once it is there.
fn find(agent: &mut Agent, key: &str) -> Value {
    eventually("the identity", || {
        let found = discover(agent, None);
        let list = found["identities"].as_array().unwrap().clone();
        list.into_iter().find(|i| i["key"] == key)
    })
}

#[test]
fn everybody_is_listed_by_identity_with_what_is_known_of_them() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, _bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    announce(&bus, 0x33, "x1", "name\u{1b}[2J\"", now());
    let stranger = announce(&bus, 0x33, "x2", "name\u{1b}[2J\"", now());
    let found = eventually("everybody", || {
        let found = discover(&mut alice, None);
        (found["identities"].as_array().unwrap().len() == 3).then_some(found)
    });
    let list = found["identities"].as_array().unwrap();
    assert_eq!(list[0]["key"], json!(a.key));
    assert_eq!(list[0]["tags"], json!(["you"]));
    assert_eq!(list[0]["sessions"][0]["this_session"], true);
    assert_eq!(list[1]["petname"], "b");
    assert_eq!(list[1]["tags"], json!(["already a peer"]));
    assert_eq!(list[1]["sessions"][0]["session_id"], "sb");
    assert_eq!(list[1]["sessions"][0]["presence"], "live");
    assert_eq!(list[2]["key"], json!(stranger.pubkey));
    assert_eq!(list[2]["tags"], json!([]));
    assert_eq!(list[2]["name"], "name\\u{1b}\\u{5b}2J\\u{22}");
    assert_eq!(list[2]["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(list[2]["sessions"][0]["cwd"], "dir\\u{a}\\u{202e}x");
    let summary = list[2]["sessions"][0]["summary"].as_str().unwrap();
    assert!(summary.len() < 200, "bounded: {}", summary.len());
    assert_eq!(found["failed_relays"], json!([]));
    for peer in ["b", &b.key.to_string(), b.key.fingerprint().as_str()] {
        let one = discover(&mut alice, Some(peer));
        assert_eq!(one["identities"].as_array().unwrap().len(), 1, "{peer}");
        assert_eq!(one["identities"][0]["key"], json!(b.key));
    }
    assert_eq!(
        discover(&mut alice, Some("no such"))["identities"],
        json!([])
    );
}

#[test]
fn a_name_that_two_identities_give_themselves_is_marked() {
    let bus = Bus::start();
    let a = Home::new(0x0a);
    let mut alice = a.start(&url(&bus), "sa");
    for seed in [0x41, 0x42] {
        announce(&bus, seed, "s", "twin", now());
    }
    let twins = eventually("the twins", || {
        let found = discover(&mut alice, Some("twin"));
        let list = found["identities"].as_array().unwrap().clone();
        (list.len() == 2).then_some(list)
    });
    for twin in twins {
        assert_eq!(twin["tags"], json!(["shared name"]));
    }
}

#[test]
fn a_relay_that_never_answers_costs_two_seconds_and_is_named() {
    let bus = Bus::start();
    // Takes connections and says nothing, ever.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let dead_url = {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", port.local_addr().unwrap())
    };
    let (a, b) = friends();
    let _bob = b.start(&url(&bus), "sb");
    let relays = format!("{silent_url},{},{dead_url}", url(&bus));
    let mut alice = a.start(&relays, "sa");
    find(&mut alice, &b.key.to_string());
    let asked = Instant::now();
    let found = discover(&mut alice, None);
    let took = asked.elapsed();
    assert!(took < Duration::from_millis(3500), "{took:?}");
    let mut failed: Vec<&str> = found["failed_relays"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["url"].as_str().unwrap())
        .collect();
    failed.sort_unstable();
    let mut want = vec![silent_url.as_str(), dead_url.as_str()];
    want.sort_unstable();
    assert_eq!(failed, want);
    // Sending neither waits for it.
    let asked = Instant::now();
    alice.call("send_message", &json!({ "to": "b", "text": "hi" }));
    let took = asked.elapsed();
    assert!(took < Duration::from_millis(2500), "{took:?}");
    drop(silent);
}

#[test]
fn without_any_roster_discovery_is_an_error_that_names_the_relays() {
    let dead = {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", port.local_addr().unwrap())
    };
    let a = Home::new(0x0a);
    let mut alice = a.start(&dead, "sa");
    let answer = alice.call_raw("discover", &json!({}));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&dead), "{text}");
}

#[test]
fn a_replayed_announcement_does_not_revive_a_closed_session() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let ten_minutes_ago = now().minus(600_000);
    let old = announce(&bus, 0x0b, "sb", "bob", ten_minutes_ago);
    // Somebody who never saw it is not deceived by a relay that has it afresh.
    let bob = find(&mut alice, &b.key.to_string());
    assert_eq!(bob["sessions"][0]["presence"], "away");
    assert!(
        bob["sessions"][0]["heard"]
            .as_str()
            .unwrap()
            .ends_with("min ago")
    );
    // The real one comes and goes.
    let mut real = b.start(&url(&bus), "sb");
    eventually("the live session", || {
        let bob = find(&mut alice, &b.key.to_string());
        (bob["sessions"][0]["presence"] == "live").then_some(())
    });
    real.close_stdin();
    real.wait();
    eventually("its end", || {
        let found = discover(&mut alice, Some("b"));
        (found["identities"] == json!([])).then_some(())
    });
    post(&bus, &old);
    assert!(is_on_board(&bus, &old), "the relay believes it");
    let found = discover(&mut alice, Some("b"));
    assert_eq!(found["identities"], json!([]), "nobody else does");
}

#[test]
fn a_session_that_said_good_bye_stays_closed_whatever_is_replayed() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    find(&mut alice, &b.key.to_string());
    // What somebody recorded while it was live.
    let roster = bus.connect().get("/roster").json();
    let recorded: Vec<Announcement> = roster["roster"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["pubkey"] == json!(b.key))
        .map(|entry| Announcement::from_value(entry.clone()).unwrap())
        .collect();
    assert_eq!(recorded.len(), 1);
    alice.send("b", "sb", "hello");
    bob.inbox_of(1);
    bob.send("a", "sa", "hello");
    alice.inbox_of(1);
    bob.close_stdin();
    bob.wait();
    alice.inbox_of(2);
    post(&bus, &recorded[0]);
    let closed = eventually("the good-bye", || {
        let bob = find(&mut alice, &b.key.to_string());
        (bob["sessions"][0]["presence"] == "closed").then_some(bob)
    });
    assert_eq!(closed["sessions"][0]["session_id"], "sb");
    // Nothing sticks to it any more.
    let refused = alice.call_raw("send_message", &json!({ "to": "b", "text": "x" }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let text = refused["error"]["message"].as_str().unwrap();
    let known = "known so far: \"sb\" (heard ";
    assert!(
        text.contains(known) && text.contains("said good-bye"),
        "{text}"
    );
    // It comes back under its id.
    let _bob = b.start(&url(&bus), "sb");
    eventually("its return", || {
        let bob = find(&mut alice, &b.key.to_string());
        (bob["sessions"][0]["presence"] == "live").then_some(())
    });
}

#[test]
fn a_session_is_reached_by_its_id_alone_also_when_no_relay_is_there() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let bob = b.start(&url(&bus), "session-of-bob");
    find(&mut alice, &b.key.to_string());
    let sent = alice.call(
        "send_message",
        &json!({ "to": "session-of-bob", "text": "1" }),
    );
    assert_eq!(
        (&sent["peer"], &sent["presence"]),
        (&json!("b"), &json!("live"))
    );
    alice.wait_state(sent["msg_id"].as_str().unwrap(), "bus_accepted");
    drop(bob);
    let addr = bus.addr;
    bus.stop();
    drop(alice);
    // Another process, days later: the directory is in the log.
    let mut alice = a.start(&format!("http://{addr}"), "sa2");
    let sent = alice.call(
        "send_message",
        &json!({ "to": "session-of-bob", "text": "2" }),
    );
    assert_eq!(sent["key"], json!(b.key));
    assert_eq!(sent["presence"], "unknown");
    // Nobody is found by the beginning of an id.
    let refused = alice.call_raw("send_message", &json!({ "to": "session-of", "text": "3" }));
    assert_eq!(refused["error"]["code"], -32602);
    let text = refused["error"]["message"].as_str().unwrap();
    assert!(text.contains(&addr.to_string()), "names the relay: {text}");
    // Who is revoked is not written to by an id that is remembered.
    a.write_peers(&json!({}));
    let refused = eventually("the revocation", || {
        let answer = alice.call_raw(
            "send_message",
            &json!({ "to": "session-of-bob", "text": "4" }),
        );
        answer.get("error").cloned()
    });
    let text = refused["message"].as_str().unwrap();
    assert!(text.contains("not an admitted peer"), "{text}");
}

#[test]
fn an_id_that_another_peer_claims_later_stays_its_owners() {
    let bus = Bus::start();
    let (a, b) = friends();
    let eve = Home::new(0x0e);
    a.write_peers(&json!({ "b": { "key": b.key }, "eve": { "key": eve.key } }));
    let mut alice = a.start(&url(&bus), "sa");
    let mut bob = b.start(&url(&bus), "sb");
    find(&mut alice, &b.key.to_string());
    announce(&bus, 0x0e, "sb", "eve", now());
    find(&mut alice, &eve.key.to_string());
    let sent = alice.call("send_message", &json!({ "to": "sb", "text": "for bob" }));
    assert_eq!(sent["key"], json!(b.key));
    bob.inbox_of(1);
    // Both can be named.
    let sent = alice.call(
        "send_message",
        &json!({ "to": "eve", "session": "sb", "text": "for eve" }),
    );
    assert_eq!(sent["key"], json!(eve.key));
}

#[test]
fn a_sender_is_shown_with_its_session_only_when_that_is_its_own() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    find(&mut bob, &a.key.to_string());
    alice.send("b", "sb", "one");
    let mail = bob.inbox_of(1);
    assert_eq!(mail[0]["session"], "sa");
    let content = mail[0]["content"].as_str().unwrap();
    assert!(content.contains(" session=\"sa\""), "{content}");
    assert!(!content.contains("reply_session="), "{content}");
    bob.acknowledge(&mail);
    // A session that no relay shows as alice's.
    let relay = FakeRelay::start(|_| Some(202));
    let mut hidden = a.start(&relay.url(), "hidden");
    let id = hidden.send("b", "sb", "two");
    hidden.wait_state(&id, "bus_accepted");
    let sent = relay.taken.lock().unwrap()[0].clone();
    bus.connect().post("/send", &sent.to_string());
    let mail = bob.inbox_of(1);
    assert_eq!(mail[0].get("session"), None);
    assert_eq!(mail[0]["reply_session"], "hidden");
    let content = mail[0]["content"].as_str().unwrap();
    assert!(
        content.contains(" reply_peer=\"a\" reply_session=\"hidden\""),
        "{content}"
    );
}

#[test]
fn no_more_of_the_directory_is_announced_than_the_user_wants() {
    let bus = Bus::start();
    let a = Home::new(0x0a);
    let dir = a.path().join("secret-client").join("app");
    std::fs::create_dir_all(&dir).unwrap();
    let mut seen = vec![];
    for (session, how) in [("s1", None), ("s2", Some("full")), ("s3", Some("none"))] {
        let mut command = a.command(&url(&bus), session);
        command.current_dir(&dir);
        if let Some(how) = how {
            command.args(["--share-cwd", how]);
        }
        let mut agent = Agent::start(command);
        seen.push(eventually("its announcement", || {
            let found = discover(&mut agent, Some("self"));
            let mine = found["identities"][0]["sessions"].as_array()?.clone();
            mine.into_iter().find(|s| s["session_id"] == session)
        }));
    }
    assert_eq!(seen[0]["cwd"], "app");
    assert!(
        seen[1]["cwd"]
            .as_str()
            .unwrap()
            .ends_with("secret-client/app")
    );
    assert_eq!(seen[2]["cwd"], "");
}

#[test]
fn what_this_session_says_of_itself_is_shown_at_once() {
    // A relay that shows nobody.
    let relay = FakeRelay::start(|_| Some(202));
    let home = Home::new(1);
    let mut agent = home.start(&relay.url(), "s1");
    for summary in ["first", "second"] {
        agent.call("set_summary", &json!({ "summary": summary }));
        let found = discover(&mut agent, Some("self"));
        let session = &found["identities"][0]["sessions"][0];
        assert_eq!(
            (&session["session_id"], &session["summary"]),
            (&json!("s1"), &json!(summary)),
            "{found}"
        );
        assert_eq!(session["this_session"], true);
    }
}
