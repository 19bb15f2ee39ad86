//! Files between peers, without a code.

use std::net::TcpListener;

use interlink::wire::bond::code::RoutingId;
use interlink::wire::bond::file_mail::FileMail;
use serde_json::{Value, json};

use crate::admin_peers::answer;
use crate::bond_pin::{Bus, TOOL, audit, leave, meet, peers};
use crate::bond_support::{ask, bad, event, good};
use crate::mcp_support::{Agent, Home, eventually, human};

/// Two that pinned each other as `bob` and `ann`, and whose session is over.
fn pinned(host: &mut Agent, guest: &mut Agent) {
    meet(host, guest);
    good(host, "bond_pin", &json!({ "petname": "bob" }));
    event(guest, "pin_asked");
    good(guest, "bond_pin", &json!({ "petname": "ann" }));
    event(host, "pinned");
    good(host, "bond_end", &json!({}));
    event(guest, "peer_left");
    good(guest, "bond_end", &json!({}));
}

fn write(home: &Home, name: &str, content: &[u8]) -> String {
    let path = home.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn over(agent: &mut Agent) {
    eventually("the session is over", || {
        let (_, status) = good(agent, "bond_status", &json!({}));
        (status["connected"] == false).then_some(())
    });
}

fn incoming(home: &Home) -> Vec<String> {
    let state = home.path().join("state/interlink/agent");
    let folder = state.join(home.key.to_string()).join("incoming");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn peers_that_pinned_each_other_hand_over_files_without_a_code() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = bus.agent(&homes[0], TOOL);
    let mut guest = bus.agent(&homes[1], TOOL);
    pinned(&mut host, &mut guest);
    let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let path = write(&homes[0], "data.bin", &content);
    let send = json!({ "peer": "bob", "filepath": path, "message": "as promised" });
    let (text, sent) = good(&mut host, "send_file", &send);
    let hash = data_encoding::HEXLOWER.encode(&interlink::crypto::hash::sha256(&content));
    assert!(
        text.starts_with("File Offered") && text.contains(&hash),
        "{text}"
    );
    assert_eq!(sent["sha256"], hash.as_str());
    let (_, status) = good(&mut guest, "bond_status", &json!({}));
    assert_eq!(status["peer"], "ann", "{status}");
    let offered = event(&mut guest, "file_offered");
    let text = offered["text"].as_str().unwrap();
    assert!(
        text.contains(&hash) && text.contains("ann") && !text.contains("as promised"),
        "{text}"
    );
    assert_eq!(incoming(&homes[1]), [""; 0]);
    let accept = json!({ "transferId": offered["transfer_id"] });
    let (_, taken) = good(&mut guest, "bond_accept", &accept);
    assert!(std::fs::read(taken["path"].as_str().unwrap()).unwrap() == content);
    event(&mut host, "file_delivered");
    over(&mut host);
    over(&mut guest);
    // What the programs said to each other is in nobody's inbox.
    assert_eq!(guest.inbox(), [json!(null); 0]);
    assert_eq!(host.inbox(), [json!(null); 0]);

    // The other way, at once: the slot is free.
    let path = write(&homes[1], "back.txt", b"thanks\n");
    good(
        &mut guest,
        "send_file",
        &json!({ "peer": "ann", "filepath": path }),
    );
    let offered = event(&mut host, "file_offered");
    let decline = json!({ "transferId": offered["transfer_id"] });
    good(&mut host, "bond_decline", &decline);
    event(&mut guest, "file_not_taken");
    over(&mut guest);
    over(&mut host);
    assert_eq!(incoming(&homes[0]), [""; 0]);
    leave([host, guest]);
    let log = audit(&homes[1]);
    assert!(
        log.contains("acceptTransfer") && log.contains(&hash),
        "{log}"
    );
    let met = log.lines().find(|line| line.contains("peer_proved"));
    assert!(
        met.is_some_and(|line| line.contains(&homes[0].key.to_string())),
        "{log}"
    );
    answer(&homes[1], &["audit", "--verify"]);
}

#[test]
fn the_human_decides_about_a_peers_file_too() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = bus.agent(&homes[0], TOOL);
    {
        let mut guest = bus.agent(&homes[1], TOOL);
        pinned(&mut host, &mut guest);
    }
    let user = human("accept", Some("decline"));
    let mut guest = Agent::start_with_user(bus.command(&homes[1], &[]), user);
    let path = write(&homes[0], "a.md", b"# a\n");
    let sent = eventually("the new process is there", || {
        let send = json!({ "peer": "bob", "filepath": path });
        let (failed, _, sent) = ask(&mut host, "send_file", &send);
        (!failed).then_some(sent)
    });
    let offered = event(&mut guest, "file_offered");
    let accept = json!({ "transferId": offered["transfer_id"] });
    let (failed, _, data) = ask(&mut guest, "bond_accept", &accept);
    assert!(failed && data["state"] == "declined", "{data}");
    let form = guest.asked[0]["params"]["message"].as_str().unwrap();
    assert!(form.contains(sent["sha256"].as_str().unwrap()), "{form}");
    event(&mut host, "file_not_taken");
    assert_eq!(incoming(&homes[1]), [""; 0]);
}

#[test]
fn a_session_that_a_peer_opened_takes_nothing_but_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = bus.agent(&homes[0], TOOL);
    let mut guest = bus.agent(&homes[1], TOOL);
    pinned(&mut host, &mut guest);
    let path = write(&homes[0], "a.md", b"# a\n");
    let send = json!({ "peer": "bob", "filepath": path });
    good(&mut host, "send_file", &send);
    let offered = event(&mut guest, "file_offered");
    let secret = write(&homes[1], "secret.md", b"# for somebody else\n");
    // The other side did not ask for this session, and may think that it is in another one.
    for (tool, args) in [
        ("bond_message", json!({ "content": "for somebody else" })),
        ("bond_send", json!({ "filepath": secret })),
    ] {
        let said = bad(&mut guest, tool, &args);
        assert!(said.contains("with the peer ann"), "{tool}: {said}");
        let said = bad(&mut host, tool, &args);
        assert!(said.contains("with the peer bob"), "{tool}: {said}");
    }
    for side in [&mut guest, &mut host] {
        let said = bad(side, "bond_pin", &json!({ "petname": "eve" }));
        assert!(said.contains("spoken code"), "{said}");
    }
    let accept = json!({ "transferId": offered["transfer_id"] });
    good(&mut guest, "bond_accept", &accept);
    assert_eq!(incoming(&homes[1]), ["a.md"]);
}

#[test]
fn who_is_no_peer_any_more_is_out_of_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = bus.agent(&homes[0], TOOL);
    let mut guest = bus.agent(&homes[1], TOOL);
    pinned(&mut host, &mut guest);
    let path = write(&homes[0], "a.md", b"# a\n");
    let send = json!({ "peer": "bob", "filepath": path });
    good(&mut host, "send_file", &send);
    let offered = event(&mut guest, "file_offered");
    good(&mut guest, "remove_peer", &json!({ "petname": "ann" }));
    over(&mut guest);
    over(&mut host);
    let accept = json!({ "transferId": offered["transfer_id"] });
    bad(&mut guest, "bond_accept", &accept);
    assert_eq!(incoming(&homes[1]), [""; 0]);
}

#[test]
fn a_peer_in_another_session_says_so_and_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = bus.agent(&homes[0], TOOL);
    let mut guest = bus.agent(&homes[1], TOOL);
    pinned(&mut host, &mut guest);
    let (_, opened) = good(&mut guest, "bond_connect", &json!({}));
    let path = write(&homes[0], "a.md", b"# a\n");
    let said = bad(
        &mut host,
        "send_file",
        &json!({ "peer": "bob", "filepath": path }),
    );
    assert!(said.contains("in another sealed session"), "{said}");
    over(&mut host);
    let (_, status) = good(&mut guest, "bond_status", &json!({}));
    assert_eq!(status["session_code"], opened["session_code"], "{status}");
    // What cannot be sent calls nobody.
    let said = bad(
        &mut host,
        "send_file",
        &json!({ "peer": "bob", "filepath": "no.md" }),
    );
    assert!(!said.contains("session"), "{said}");
}

#[test]
fn a_peer_whose_program_may_not_know_of_it_is_not_invited() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    homes[0].write_peers(&json!({ "bob": { "key": homes[1].key } }));
    homes[1].write_peers(&json!({ "ann": { "key": homes[0].key } }));
    let mut host = bus.agent(&homes[0], TOOL);
    let mut guest = bus.agent(&homes[1], TOOL);
    assert_eq!(peers(&mut guest).len(), 1);
    let path = write(&homes[0], "a.md", b"# a\n");
    let said = bad(
        &mut host,
        "send_file",
        &json!({ "peer": "bob", "filepath": path }),
    );
    assert!(said.contains("`anyway`"), "{said}");
    host.send("bob", "s", "an ordinary word");
    let inbox = eventually("the word", || {
        let inbox = guest.inbox();
        (!inbox.is_empty()).then_some(inbox)
    });
    assert_eq!(inbox.len(), 1, "{inbox:?}");

    // The user knows better; after that the program does.
    for (name, anyway) in [("a.md", true), ("b.md", false)] {
        let path = write(&homes[0], name, b"# words\n");
        let send = json!({ "peer": "bob", "filepath": path, "anyway": anyway });
        good(&mut host, "send_file", &send);
        let offered = event(&mut guest, "file_offered");
        let accept = json!({ "transferId": offered["transfer_id"] });
        good(&mut guest, "bond_accept", &accept);
        event(&mut host, "file_delivered");
        over(&mut host);
        over(&mut guest);
    }
    let mut there = incoming(&homes[1]);
    there.sort();
    assert_eq!(there, ["a.md", "b.md"]);
    let mail = json!(guest.inbox()).to_string();
    assert!(!mail.contains("file session"), "{mail}");
}

#[test]
fn nobody_is_called_because_somebody_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2), Home::new(3)];
    let to = json!({ "bob": { "key": homes[1].key } });
    homes[0].write_peers(&to);
    homes[2].write_peers(&to);
    homes[1].write_peers(&json!({ "ann": { "key": homes[0].key } }));
    let mut friend = bus.agent(&homes[0], TOOL);
    let mut victim = bus.agent(&homes[1], TOOL);
    let mut stranger = bus.agent(&homes[2], TOOL);
    peers(&mut victim);
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let elsewhere = format!("http://{}", trap.local_addr().unwrap());
    let invite = |seed: u8, relay: &str| {
        let mail = FileMail::Open {
            routing: RoutingId::from_bytes([seed; 32]),
            relay: relay.to_owned(),
        };
        mail.to_string()
    };
    // A stranger, with the right relay.
    stranger.send("bob", "s", &invite(1, &bus.relay));
    let said = format!("from {}", homes[2].key.fingerprint());
    eventually("the stranger is turned away", || {
        victim.stderr().contains(&said).then_some(())
    });
    // A peer, with another relay.
    friend.send("bob", "s", &invite(2, &elsewhere));
    eventually("the peer is told so", || {
        victim
            .stderr()
            .contains("invitation is declined: relay")
            .then_some(())
    });
    // A peer, with the right relay and nobody there.
    friend.send("bob", "s", &invite(3, &bus.relay));
    eventually("nothing is there to join", || {
        victim
            .stderr()
            .contains("invitation is declined: failed")
            .then_some(())
    });
    let accepted = trap.accept().map(|_| ()).map_err(|e| e.kind());
    assert_eq!(accepted, Err(std::io::ErrorKind::WouldBlock));
    let (_, status) = good(&mut victim, "bond_status", &json!({}));
    assert_eq!(status["connected"], false, "{status}");
    let nothing: [Value; 0] = [];
    assert_eq!(victim.inbox(), nothing);
    // An answer of somebody who was not invited ends nothing.
    good(&mut victim, "bond_connect", &json!({}));
    friend.send("bob", "s", "the end");
    eventually("the last word", || {
        (!victim.inbox().is_empty()).then_some(())
    });
    let (_, status) = good(&mut victim, "bond_status", &json!({}));
    assert_eq!(status["state"], "waiting", "{status}");
}
