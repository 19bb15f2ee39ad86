//! `interlink-admin import`: the public program's state, as it really wrote it, and as nobody should
//! find it.
//!
//! The folder in `tests/golden/public-0.13` was written by that program, version 0.13.0: session
//! `sess-b` of an identity with a read message, two open ones and a task's progress, a stranger's
//! request, one of its own, an acceptance that was not sent, and a bus with two messages for it; both
//! killed.

mod damage;
mod world;

use std::fs;

use interlink::domain::decide::agent::Agent as AgentStore;
use interlink::domain::decide::bus::Bus as BusStore;
use interlink::store::{Location, Mode, OpenOptions, Reader, Store};
use serde_json::{Value, json};

use crate::support::verified;
use crate::terminal::Terminal;
use world::{World, part, parts};

#[test]
fn a_dry_run_says_what_would_be_done_and_leaves_no_trace() {
    let world = World::new();
    let before = world.tree();
    let told = world.answer(&["--dry-run"]);
    assert_eq!(
        (&told["dry_run"], &told["changed"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        parts(&told, "taken"),
        [
            ("peers", 2),
            ("sessions", 2),
            ("mail", 5),
            ("knocks", 1),
            ("requests", 1),
            ("control", 1),
            ("queues", 2),
        ]
    );
    assert_eq!(told["refused"], json!([]));
    assert_eq!(
        told["sessions"],
        json!([{ "session": "sess-b", "unread": 3 }])
    );
    let admits: Vec<_> = told["admits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| {
            (
                key["petname"].as_str().unwrap(),
                key["how"].as_str().unwrap(),
            )
        })
        .collect();
    // Whoever was asked by its key is called by its fingerprint.
    let dave = &world.key("d")[..8];
    assert_eq!(
        admits,
        [("alice", "list"), ("carol", "list"), (dave, "request")]
    );
    assert_eq!(world.tree(), before);
    let human = world.run(&["--dry-run"]);
    for needle in [
        "nothing has changed",
        "mail",
        "to take",
        world.key("a").as_str(),
    ] {
        assert!(human.stdout.contains(needle), "{}", human.stdout);
    }
    for line in human.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn what_was_unread_is_unread_and_a_second_import_finds_it_all() {
    let world = World::new();
    let old = world.old_tree();
    let told = world.answer(&["--yes"]);
    assert_eq!(told["changed"], true);
    assert_eq!(
        part(&told, "mail"),
        json!({ "found": 5, "taken": 5, "known": 0, "left": {} })
    );
    assert_eq!(
        world.peers(),
        json!({ "alice": { "key": world.key("a") }, "carol": { "key": world.key("c") } })
    );
    let again = world.answer(&["--yes"]);
    assert_eq!(again["changed"], false);
    assert!(
        parts(&again, "taken").iter().all(|(_, n)| *n == 0),
        "{again}"
    );
    assert_eq!(parts(&again, "known"), parts(&told, "taken"));
    assert_eq!(
        world.old_tree(),
        old,
        "the public program's folder is as it was"
    );

    // The log tells where it is from, and both stores are what their logs say.
    let log = world.log("agent");
    let kinds: Vec<&str> = log.iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "imported").count(), 6);
    let added = log.iter().filter(|r| r["kind"] == "peer_added");
    assert!(added.clone().count() == 2 && added.clone().all(|r| r["event"]["origin"] == "import"));
    let reader = Reader::open(&world.agent_store(), Mode::Shared).unwrap();
    verified::<AgentStore>(&reader.snapshot().unwrap());
    let reader = Reader::open(&world.bus_store(), Mode::Exclusive).unwrap();
    verified::<BusStore>(&reader.snapshot().unwrap());

    // A session goes on where the public one stopped.
    let mut agent = world.start("sess-b");
    let texts: Vec<String> = agent
        .inbox()
        .iter()
        .map(|mail| mail["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    for (text, needle) in texts.iter().zip(["open 1", "open 2", "nearly"]) {
        assert!(text.contains(needle), "{texts:?}");
    }
    let history = agent.call("conversation_history", &json!({ "peer": "alice" }));
    assert!(history.to_string().contains("read already"), "{history}");
    let waiting = agent.call("list_pair_requests", &json!({}));
    assert!(waiting.to_string().contains(&world.key("e")), "{waiting}");
    assert!(!waiting.to_string().contains('\n'));
    let mail = agent.inbox();
    assert_eq!(agent.acknowledge(&mail), 3);
    agent.kill();
    let after = world.answer(&["--yes"]);
    assert_eq!(after["changed"], false, "{after}");
    let mut agent = world.start("sess-b");
    assert!(agent.inbox().is_empty());
}

#[test]
fn a_queue_that_was_read_meanwhile_is_not_filled_again() {
    let world = World::new();
    world.answer(&["--yes", "--only", "bus"]);
    let queue = format!("{}#sess-b", world.key("b"));
    let options = OpenOptions::exclusive(Location::File(world.bus_store()));
    let bus = crate::http::Bus::with(|config| config.store = options);
    let mut conn = bus.connect();
    let me = queue.replace('#', "%23");
    for n in 0..2 {
        let mail = conn.get(&format!("/recv?me={me}&timeout_ms=0")).json();
        let text = &mail["envelope"]["payload"]["text"];
        assert_eq!(*text, format!("waits {n}"), "{mail}");
        let ack = json!({ "me": queue, "ack": mail["ack"] });
        assert_eq!(conn.post("/ack", &ack.to_string()).status, 200);
    }
    // While a bus runs, its store is its own.
    let output = world.run(&["--yes", "--only", "bus"]);
    assert_eq!(output.code, 4, "{}", output.stderr);
    drop(conn);
    bus.stop();
    let again = world.answer(&["--yes", "--only", "bus"]);
    assert_eq!(again["changed"], false);
    assert_eq!(part(&again, "queues")["known"], 2);
    // Nor when the log has forgotten the import.
    world.compact(&world.bus_store());
    let again = world.answer(&["--yes", "--only", "bus"]);
    assert_eq!(again["changed"], false);
    assert_eq!(part(&again, "queues")["known"], 2);
}

#[test]
fn nothing_is_taken_over_before_the_operator_has_seen_the_keys_and_said_yes() {
    let world = World::new();
    let mut before = world.tree();
    for (typed, code) in [("no\n", 1), ("y\n", 1), ("yes\n", 0)] {
        let mut terminal = Terminal::start(&world.command(&[]));
        let shown = terminal.wait_for("to stop: ");
        for key in ["a", "c", "d"] {
            let key = world.key(key);
            assert!(shown.contains(&key) && shown.contains(&key[..8]), "{shown}");
        }
        terminal.type_in(typed);
        let ended = terminal.end();
        assert_eq!(ended.code, Some(code), "{typed:?}: {}", ended.stderr);
        if code == 0 {
            assert!(ended.stdout.contains("taken over"), "{}", ended.stdout);
            before = world.tree();
        }
        assert_eq!(world.tree(), before, "{typed:?}");
    }
    assert_eq!(world.answer(&[])["changed"], false, "nothing to ask about");
}

#[test]
fn a_coding_agents_shell_lets_nobody_in_this_way() {
    let world = World::new();
    let before = world.tree();
    let mut command = world.command(&["--yes"]);
    command.env("CLAUDECODE", "1");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("coding agent"), "{stderr}");
    assert_eq!(world.tree(), before);
    // What lets nobody in may be done by anybody.
    let mut command = world.command(&["--yes", "--only", "bus"]);
    command.env("CLAUDECODE", "1");
    assert!(command.output().unwrap().status.success());
}

#[test]
fn who_was_revoked_here_does_not_come_back_and_a_request_that_was_called_off_neither() {
    let world = World::new();
    world.answer(&["--yes"]);
    let carol = world.key("c");
    let removed = world.admin(&["peers", "remove", &carol, "--yes"]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    let cancelled = world.admin(&["pair", "cancel", &world.key("d")]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
    let again = world.answer(&["--yes"]);
    assert_eq!(again["changed"], false, "{again}");
    assert_eq!(part(&again, "peers")["left"], json!({ "revoked": 1 }));
    assert_eq!(part(&again, "requests")["known"], 1);
    world.compact(&world.agent_store());
    let again = world.answer(&["--yes"]);
    assert_eq!(again["changed"], false, "{again}");
    assert_eq!(part(&again, "requests")["known"], 1);
    assert_eq!(world.peers(), json!({ "alice": { "key": world.key("a") } }));
}

#[test]
fn the_same_list_and_the_same_file_are_not_imported_into_themselves() {
    let world = World::new();
    // The public program's folder in place, at the place of ours.
    let root = world.path().join("state/interlink");
    fs::create_dir_all(root.parent().unwrap()).unwrap();
    fs::rename(world.old(), &root).unwrap();
    let list = root.join("peers.json");
    let args = [
        "--from-interlink",
        root.to_str().unwrap(),
        "--json",
        "--yes",
    ];
    let run = |more: &[&str]| {
        let mut command = world.bare(&args);
        command.env("INTERLINK_PEERS", &list).args(more);
        command.output().unwrap()
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("--bus-store"), "{stderr}");
    assert!(!root.join("agent").exists(), "nothing has changed");

    let output = run(&["--only", "identity"]);
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(part(&told, "peers")["found"], 0);
    assert_eq!(
        part(&told, "control")["taken"],
        1,
        "its key is admitted by the list"
    );
    assert!(told["aside"].to_string().contains("own list"), "{told}");
}

#[test]
fn a_store_that_is_there_already_keeps_what_it_has() {
    let world = World::new();
    // Our program ran before, and knows alice by another name.
    let alice = world.key("a");
    fs::write(
        world.path().join("peers.json"),
        json!({ "ally": { "key": alice } }).to_string(),
    )
    .unwrap();
    let agent = world.start("sess-b");
    agent.kill();
    let told = world.answer(&["--yes"]);
    assert_eq!(
        part(&told, "peers"),
        json!({ "found": 2, "taken": 1, "known": 1, "left": {} })
    );
    let peers = world.peers();
    assert_eq!(peers["ally"]["key"], alice.as_str(), "{peers}");
    assert_eq!(peers["alice"], Value::Null);
    let options = OpenOptions::shared(Location::File(world.agent_store()));
    let store = Store::<AgentStore>::open(options, crate::support::clock(), None).unwrap();
    verified::<AgentStore>(&store.snapshot().unwrap());
}

#[test]
fn a_session_that_the_public_program_still_serves_is_not_taken_from_under_it() {
    let world = World::new();
    let lock = world
        .old()
        .join("mailbox")
        .join(world.key("b"))
        .join("sess-b.notifier-lock");
    let held = fs::File::create(lock).unwrap();
    held.lock().unwrap();
    let before = world.tree();
    let said = world.run(&["--yes"]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("sess-b"), "{}", said.stderr);
    assert_eq!(world.tree(), before);
    assert_eq!(world.answer(&["--dry-run"])["running"], json!(["sess-b"]));
    held.unlock().unwrap();
    assert_eq!(world.answer(&["--yes"])["changed"], true);
}

#[test]
fn flags_of_the_one_kind_of_import_are_refused_with_the_other() {
    let world = World::new();
    for args in [
        &["out.jsonl", "--dry-run"][..],
        &["out.jsonl", "--yes"],
        &["out.jsonl", "--from-interlink", "old"],
        &[],
    ] {
        let output = world.bare(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
