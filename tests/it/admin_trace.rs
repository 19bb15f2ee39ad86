//! `trace`: lives of messages over stores that tests have made.

use std::collections::BTreeSet;
use std::fs;

use interlink::domain::decide::agent::{Agent, AgentCommand, AgentReply};
use interlink::event::agent::MailStatus;
use interlink::store::{Location, OpenOptions, Store};
use interlink::testkit::sample_agent::agent_history;
use interlink::testkit::sample_directory::directory_history;
use interlink::testkit::sample_pairing::pairing_history;
use interlink::types::time::{Clock as _, UnixMillis};
use serde_json::Value;

use super::admin_world::{DAY, HOSTILE, Mail, World, json_of, ok, submit, text};
use super::support::{START, clock};

const ONE: &str = "00112233445566778899aabbccddeeff";
const TWO: &str = "0011aaaa445566778899aabbccddeeff";

/// The steps of the first message, by name.
fn steps(answer: &Value) -> Vec<&str> {
    let steps = answer["messages"][0]["steps"].as_array().unwrap();
    steps
        .iter()
        .map(|step| step["step"].as_str().unwrap())
        .collect()
}

fn step<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let steps = answer["messages"][0]["steps"].as_array().unwrap();
    steps
        .iter()
        .find(|step| step["step"] == name)
        .unwrap_or_else(|| panic!("{name}: {answer}"))
}

#[test]
fn a_life_is_told_over_three_stores_with_the_time_between_steps() {
    let world = World::new();
    let mail = Mail {
        task: Some("task-7"),
        ..Mail::of(ONE)
    };
    world.at(1000);
    let sent = world.ada.queue(&world.ben, &mail);
    world.at(2000);
    world.ada.failed(sent, 1);
    world.at(5000);
    let waits = world.relay.enqueue(&world.ben, &mail, 10);
    world.at(5100);
    world.ada.accepted(sent);
    world.at(9000);
    world
        .ben
        .receive(&world.ada, &mail, DAY + 1000, 100_000_000);
    world.at(9100);
    world.relay.ack(&world.ben, waits);
    world.at(60_000);
    world.ben.read(&world.ada, &mail);
    let closed = world.close();

    let answer = closed.json(&["trace", ONE]);
    assert_eq!(answer["meant"], "message");
    assert_eq!(
        steps(&answer),
        [
            "signed",
            "queued",
            "attempted",
            "enqueued",
            "accepted",
            "fetched",
            "received",
            "acked",
            "read"
        ]
    );
    let life = &answer["messages"][0];
    assert_eq!(life["state"], "read");
    assert_eq!(life["task_id"], "task-7");
    assert_eq!(life["from"], super::admin_world::key(1).to_string());
    assert_eq!(life["to"], super::admin_world::key(2).to_string());
    let took = &life["durations_ms"];
    assert_eq!(took["signed_to_read"], 59_001);
    assert_eq!(took["on_bus"], 4100);
    assert_eq!(took["received_to_read"], 51_000);
    assert_eq!(step(&answer, "attempted")["after_ms"], 1000);
    assert_eq!(step(&answer, "fetched")["inferred"], true);
    assert_eq!(step(&answer, "enqueued")["place"], "bus");
    assert_eq!(step(&answer, "queued")["seq"], sent.0);
    assert_eq!(life["contradictions"].as_array().unwrap().len(), 0);
    assert_eq!(life["notes"].as_array().unwrap().len(), 0, "{life}");

    let human = closed.ok(&["trace", ONE]);
    assert!(human.contains("read, 59.0s after it was signed"), "{human}");
    assert!(human.contains("x\\u{1b}]0;pwned"), "{human}");
    assert!(human.contains("fetched (inferred)"), "{human}");
    assert!(!human.contains("secret words"), "{human}");
}

#[test]
fn any_unique_beginning_will_do_and_several_are_listed() {
    let world = World::new();
    world.deliver(&Mail::of(ONE));
    world.at(1000);
    world.deliver(&Mail::of(TWO));
    let closed = world.close();
    let answer = closed.json(&["trace", "00112"]);
    assert_eq!(
        (&answer["meant"], &answer["query"]),
        (&"prefix".into(), &"00112".into())
    );
    assert_eq!(answer["messages"][0]["msg_id"], ONE);

    let several = closed.run(&["trace", "0011"]);
    assert_eq!(several.status.code(), Some(2));
    let listed = text(&several.stdout);
    assert!(listed.contains(ONE) && listed.contains(TWO), "{listed}");
    let several = closed.run(&["trace", "0011", "--json"]);
    assert_eq!(several.status.code(), Some(2));
    let answer: Value = serde_json::from_slice(&several.stdout).unwrap();
    super::admin_schema::conforms("trace-several", &answer);
    assert_eq!(answer["candidates"][0]["msg_id"], ONE);
    assert_eq!(answer["candidates"][1]["msg_id"], TWO);

    let none = closed.run(&["trace", "ffff"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(
        text(&none.stderr).contains("no store knows"),
        "{}",
        text(&none.stderr)
    );
}

#[test]
fn a_task_id_stands_for_all_its_messages_in_order() {
    let world = World::new();
    let ask = Mail {
        task: Some("build"),
        ..Mail::of("bb-ask")
    };
    let update = |id| Mail {
        status: Some(MailStatus::Update),
        task: Some("build"),
        ..Mail::of(id)
    };
    world.at(1000);
    world.deliver(&ask);
    // Two updates: the second one makes the first one not worth reading.
    for (at, mail) in [(2000, update("aa-first")), (3000, update("aa-second"))] {
        world.at(at);
        let sent = world.ada.queue(&world.ben, &mail);
        world.relay.enqueue(&world.ben, &mail, 10);
        world.ada.accepted(sent);
        let signed = DAY + at;
        world.ben.receive(&world.ada, &mail, signed, 100_000_000);
    }
    world.deliver(&Mail::of("other"));
    let closed = world.close();
    let answer = closed.json(&["trace", "build"]);
    assert_eq!(answer["meant"], "task");
    let messages = answer["messages"].as_array().unwrap();
    let told: Vec<(&str, &str)> = messages
        .iter()
        .map(|life| {
            (
                life["msg_id"].as_str().unwrap(),
                life["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("bb-ask", "read"),
            ("aa-first", "superseded"),
            ("aa-second", "unread")
        ]
    );
    let human = closed.ok(&["trace", "build"]);
    assert!(
        human.starts_with("task build: 3 messages, 1 read\n"),
        "{human}"
    );
}

#[test]
fn what_did_not_arrive_says_why() {
    let world = World::new();
    let [dropped, expired, late, waiting, refused] =
        ["dropped", "expired", "late", "waiting", "untried"].map(Mail::of);
    // A queue of one: the first gives way to the second, which then waits too long.
    for mail in [&dropped, &expired] {
        let sent = world.ada.queue(&world.ben, mail);
        world.relay.enqueue(&world.ben, mail, 1);
        world.ada.accepted(sent);
    }
    world.relay.expire();
    let sent = world.ada.queue(&world.ben, &late);
    let signed = world.ada.clock.now().0;
    world.relay.enqueue(&world.ben, &late, 10);
    world.ada.accepted(sent);
    world.at(100_000);
    world.ben.receive(&world.ada, &late, signed, 1000);
    world.ada.queue(&world.ben, &refused);
    let sent = world.ada.queue(&world.ben, &waiting);
    world.relay.enqueue(&world.ben, &waiting, 10);
    world.ada.accepted(sent);
    let closed = world.close();
    for (id, state) in [
        ("dropped", "dropped"),
        ("expired", "expired"),
        ("late", "late"),
        ("waiting", "waiting"),
        ("untried", "queued"),
    ] {
        let answer = closed.json(&["trace", id]);
        assert_eq!(answer["messages"][0]["state"], state, "{answer}");
        closed.ok(&["trace", id]);
    }
    // Stores that are elsewhere can be named; the same one twice is read once.
    let [bus, ada] = [closed.bus(), closed.agent(1)].map(|p| p.to_str().unwrap().to_owned());
    let some = [
        "trace", "waiting", "--store", &ada, "--with", &bus, "--with", &ada,
    ];
    let answer = closed.json(&some);
    assert_eq!(answer["messages"][0]["state"], "waiting");
    assert_eq!(answer["stores"].as_array().unwrap().len(), 2);
    let some = ["stats", "--store", &ada, "--with", &bus];
    assert_eq!(closed.json(&some)["stores"].as_array().unwrap().len(), 2);
    // Without the other stores the answer is what the sender knows.
    let ada = closed.agent(1);
    let ada = ada.to_str().unwrap();
    let answer = closed.json(&["trace", "waiting", "--store", ada]);
    assert_eq!(answer["messages"][0]["state"], "accepted");
    let notes = answer["messages"][0]["notes"].to_string();
    assert!(notes.contains("no store of a bus"), "{notes}");
}

#[test]
fn what_a_relay_passed_on_and_no_store_has_is_not_put_down_to_a_store_that_was_read() {
    let world = World::new();
    for id in ["strange", "later"] {
        let waits = world.relay.enqueue(&world.ben, &Mail::of(id), 10);
        world.relay.ack(&world.ben, waits);
    }
    let gone = world.ada.queue(&world.ben, &Mail::of("pushed"));
    world.relay.enqueue(&world.ben, &Mail::of("pushed"), 1);
    world.ada.accepted(gone);
    world.relay.enqueue(&world.ben, &Mail::of("newest"), 1);
    let verdict = |answer: &Value, state: &str| {
        let life = &answer["messages"][0];
        assert_eq!(life["state"], state, "{life}");
        life["verdict"].as_str().unwrap().to_owned()
    };
    let closed = world.close();
    let said = verdict(&closed.json(&["trace", "strange"]), "fetched");
    assert!(said.contains("dropped at its gate"), "{said}");
    let bus = closed.bus();
    let alone = ["trace", "strange", "--store", bus.to_str().unwrap()];
    let said = verdict(&closed.json(&alone), "fetched");
    assert!(said.contains("not among those that were read"), "{said}");
    assert_eq!(
        verdict(&closed.json(&["trace", "pushed"]), "dropped"),
        "dropped by the bus unread: the queue was full"
    );

    // What the bus knew of it is let go of: then that is what is said.
    closed.json(&[
        "compact",
        "--older-than",
        "0s",
        "--yes",
        "--store",
        bus.to_str().unwrap(),
    ]);
    let said = verdict(&closed.json(&["trace", "pushed"]), "accepted");
    assert!(said.contains("was compacted"), "{said}");
}

#[test]
fn clocks_that_contradict_each_other_are_told_and_do_not_turn_the_order_round() {
    let world = World::new();
    let mail = Mail::of(ONE);
    world.at(3_600_000);
    let sent = world.ada.queue(&world.ben, &mail);
    let waits = world.relay.enqueue(&world.ben, &mail, 10);
    world.ada.accepted(sent);
    // Ben's clock is an hour behind.
    world.ben.clock.set(UnixMillis(DAY));
    world
        .ben
        .receive(&world.ada, &mail, DAY + 3_600_000, 100_000_000);
    world.relay.ack(&world.ben, waits);
    world.ben.read(&world.ada, &mail);
    // And for another one the bus's is two hours behind.
    world.at(7_200_000);
    world.relay.clock.set(UnixMillis(DAY));
    let other = Mail::of(TWO);
    let sent = world.ada.queue(&world.ben, &other);
    let waits = world.relay.enqueue(&world.ben, &other, 10);
    world.ada.accepted(sent);
    world
        .ben
        .receive(&world.ada, &other, DAY + 7_200_000, 100_000_000);
    world.relay.ack(&world.ben, waits);
    world.ben.read(&world.ada, &other);
    let closed = world.close();
    let answer = closed.json(&["trace", ONE]);
    assert_eq!(
        steps(&answer),
        [
            "signed", "queued", "enqueued", "accepted", "fetched", "received", "read", "acked"
        ]
    );
    let told = answer["messages"][0]["contradictions"].to_string();
    assert!(told.contains("differ by 1h00m or more"), "{told}");
    assert!(step(&answer, "received")["after_ms"].as_i64().unwrap() < -3_500_000);
    assert!(
        answer["messages"][0]["durations_ms"]["signed_to_read"]
            .as_i64()
            .unwrap()
            < 0
    );
    closed.ok(&["trace", ONE]);
    let answer = closed.json(&["trace", TWO]);
    assert_eq!(
        steps(&answer),
        [
            "signed", "queued", "enqueued", "fetched", "received", "acked", "accepted", "read"
        ]
    );
    let told = answer["messages"][0]["contradictions"].to_string();
    assert!(told.contains("differ by 2h00m or more"), "{told}");
    assert_eq!(told.matches("differ by").count(), 2, "{told}");
}

#[test]
fn what_was_compacted_is_told_by_the_rows_that_are_left() {
    let world = World::new();
    world.at(1000);
    let read = Mail::of("read-one");
    world.deliver(&read);
    let sent = world.ada.queue(&world.ben, &Mail::of("waits"));
    world.ada.failed(sent, 1);
    world.relay.enqueue(&world.ben, &Mail::of("waits"), 10);
    // The last record of a log always stays.
    world.ada.queue(&world.ben, &Mail::of("last"));
    world.relay.enqueue(&world.ben, &Mail::of("last"), 10);
    world.ada.compact();
    world.ben.compact();
    world.relay.compact();
    world.at(9000);
    world.ada.accepted(sent);
    let closed = world.close();

    let answer = closed.json(&["trace", "read-one"]);
    let life = &answer["messages"][0];
    assert_eq!(life["state"], "read", "{life}");
    assert_eq!(
        steps(&answer),
        ["signed", "queued", "accepted", "received", "read"]
    );
    for name in ["queued", "accepted", "received"] {
        assert_eq!(step(&answer, name)["from_row"], true, "{name}");
        assert_eq!(step(&answer, name)["seq"], Value::Null, "{name}");
    }
    // The bus has nothing left of it, and that is said.
    let notes = life["notes"].to_string();
    assert!(
        notes.contains("of bus were compacted: if they told"),
        "{notes}"
    );
    assert!(notes.contains("what its rows still know"), "{notes}");

    let answer = closed.json(&["trace", "waits"]);
    assert_eq!(answer["messages"][0]["state"], "waiting", "{answer}");
    assert_eq!(step(&answer, "enqueued")["from_row"], true);
    assert_eq!(step(&answer, "accepted")["from_row"], false);
    assert_eq!(step(&answer, "attempted")["from_row"], true);
    let human = closed.ok(&["trace", "waits"]);
    assert!(human.contains("compacted"), "{human}");
}

#[test]
fn hostile_ids_are_found_and_tamed_and_nothing_is_changed() {
    let world = World::new();
    let mail = Mail {
        task: Some(HOSTILE),
        ..Mail::of(HOSTILE)
    };
    let signed = world.ada.clock.now().0;
    world.ben.receive(&world.ada, &mail, signed, 100_000_000);
    let closed = world.close();
    let before = fs::read(closed.agent(2)).unwrap();
    for id in [HOSTILE, "x\u{1b}"] {
        let answer = closed.json(&["trace", id]);
        assert_eq!(answer["messages"][0]["msg_id"], HOSTILE);
        closed.ok(&["trace", id]);
    }
    closed.ok(&["trace", HOSTILE, "--task"]);
    assert!(
        fs::read(closed.agent(2)).unwrap() == before,
        "the file was changed"
    );
}

#[test]
fn the_first_notice_that_speaks_for_a_message_is_a_step_of_it() {
    let world = World::new();
    let mail = Mail::of(ONE);
    world.at(1000);
    let signed = world.ada.clock.now().0;
    world.ben.receive(&world.ada, &mail, signed, 100_000_000);
    world.ben.notify(false);
    world.at(600_000);
    world.ben.notify(true);
    // A message that comes later is none of what that notice spoke for.
    world
        .ben
        .receive(&world.ada, &Mail::of(TWO), signed, 100_000_000);
    world.ben.read(&world.ada, &mail);
    let closed = world.close();
    let answer = closed.json(&["trace", ONE]);
    assert_eq!(
        steps(&answer),
        ["signed", "received", "notify_failed", "notified", "read"]
    );
    assert_eq!(step(&answer, "notified")["after_ms"], 598_999);
    let later = closed.json(&["trace", TWO]);
    assert_eq!(steps(&later), ["signed", "received"]);
    assert_eq!(later["messages"][0]["state"], "unread");
    let notes = later["messages"][0]["notes"].to_string();
    assert!(notes.contains("sender's store"), "{notes}");
}

#[test]
fn every_message_of_every_kind_of_history_can_be_traced() {
    type History = fn(UnixMillis, &mut dyn FnMut(AgentCommand) -> AgentReply);
    let histories: [History; 3] = [agent_history, pairing_history, directory_history];
    let mut traced = 0;
    for history in histories {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.redb");
        let options = OpenOptions::shared(Location::File(path.clone()));
        let store: Store<Agent> = Store::open(options, clock(), None).unwrap();
        history(START, &mut |command| submit(&store, command));
        store.close();
        let path = path.to_str().unwrap();
        let log = ok(dir.path(), &["log", "--json", "--store", path]);
        let records: Vec<Value> = log
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let ids: BTreeSet<&str> = records
            .iter()
            .flat_map(|record| ["msg_id", "request_id"].map(|name| record["event"][name].as_str()))
            .flatten()
            .collect();
        for id in ids {
            let answer = json_of(dir.path(), &["trace", id, "--store", path]);
            assert_eq!(answer["meant"], "message");
            // Every record that names the message is a step, and the message has a place to be.
            let told: BTreeSet<u64> = answer["messages"][0]["steps"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|step| step["seq"].as_u64())
                .collect();
            for record in &records {
                let names = ["msg_id", "request_id"].map(|name| record["event"][name] == id);
                let seq = record["seq"].as_u64().unwrap();
                assert!(
                    !names.contains(&true) || told.contains(&seq),
                    "{id}: {record} {answer}"
                );
            }
            ok(dir.path(), &["trace", id, "--store", path]);
            traced += 1;
        }
    }
    assert!(traced > 10, "{traced}");
}
