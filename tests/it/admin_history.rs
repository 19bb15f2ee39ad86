//! `log` with its filters, `at`, `diff` and `stats` over stores that tests have made.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::ops::{Bound, ControlFlow};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use interlink::domain::Domain;
use interlink::domain::decide::agent::{Agent, AgentCommand, AgentReply};
use interlink::domain::decide::bus::{Bus, BusCommand, Overflow, QueueLimits};
use interlink::domain::projection::view;
use interlink::domain::tables::{TableId, TableReader as _};
use interlink::event::bus_rendezvous::RelayFlow;
use interlink::store::{Mode, Snapshot, Store};
use interlink::testkit::Disk;
use interlink::testkit::sample::enqueue;
use interlink::testkit::sample_agent::{agent_history, held_history};
use interlink::testkit::sample_bond::{bond_history, pin_history};
use interlink::testkit::sample_directory::directory_history;
use interlink::testkit::sample_host::host_history;
use interlink::testkit::sample_import::{import_history, queue_import_history};
use interlink::testkit::sample_pairing::pairing_history;
use interlink::testkit::sample_rendezvous::{relay_join, relay_open};
use interlink::types::time::{Clock as _, UnixMillis};
use serde_json::Value;

use super::admin_schema::conforms;
use super::admin_world::{Closed, DAY, HOSTILE, Mail, World, key, submit, text};
use super::support::{START, clock, on_disk, open};

/// Two messages, an hour apart; the second one waits and was tried in vain.
fn world() -> World {
    let world = World::new();
    world.at(60_000);
    world.deliver(&Mail::of("first"));
    world.at(3_600_000);
    let mail = Mail {
        task: Some(HOSTILE),
        ..Mail::of("second")
    };
    let sent = world.ada.queue(&world.ben, &mail);
    world.ada.failed(sent, 1);
    world.relay.enqueue(&world.ben, &mail, 10);
    world
}

/// Positions and kinds that `log --json` gives.
fn log(closed: &Closed, store: &str, args: &[&str]) -> Vec<(u64, String)> {
    let mut all = vec!["log", "--json", "--store", store];
    all.extend(args);
    let out = closed.ok(&all);
    out.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            conforms("log", &line);
            (
                line["seq"].as_u64().unwrap(),
                line["kind"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

fn kinds(found: &[(u64, String)]) -> Vec<&str> {
    found.iter().map(|(_, kind)| kind.as_str()).collect()
}

#[test]
fn a_log_is_filtered_by_message_with_everything_that_is_about_it() {
    let closed = world().close();
    let (ada, ben, bus) = (closed.agent(1), closed.agent(2), closed.bus());
    let [ada, ben, bus] = [&ada, &ben, &bus].map(|path| path.to_str().unwrap());
    let found = log(&closed, ada, &["--message", "second"]);
    assert_eq!(kinds(&found), ["outbox_queued", "outbox_attempted"]);
    assert_eq!(
        kinds(&log(&closed, ben, &["--message", "fir"])),
        ["received", "acknowledged"]
    );
    assert_eq!(
        kinds(&log(&closed, bus, &["--message", "first"])),
        ["enqueued", "acked"]
    );
    // What is shown may begin after what it is about.
    let from = found[1].0.to_string();
    let later = log(&closed, ada, &["--message", "second", "--from", &from]);
    assert_eq!(kinds(&later), ["outbox_attempted"]);
    let kind = log(
        &closed,
        ada,
        &["--message", "second", "--kind", "outbox_attempted"],
    );
    assert_eq!(kinds(&kind), ["outbox_attempted"]);
    assert_eq!(log(&closed, ada, &["--message", "third"]), []);
}

#[test]
fn a_log_is_filtered_by_peer_session_time_and_position() {
    let closed = world().close();
    let (ada, bus) = (closed.agent(1), closed.bus());
    let (ada, bus) = (ada.to_str().unwrap(), bus.to_str().unwrap());
    let own = key(2).to_string();
    let by_key = log(&closed, ada, &["--peer", &own]);
    assert_eq!(
        kinds(&by_key),
        [
            "peer_added",
            "outbox_queued",
            "outbox_accepted",
            "outbox_queued",
            "outbox_attempted"
        ]
    );
    assert_eq!(log(&closed, ada, &["--peer", "peer2"]), by_key);
    assert_eq!(log(&closed, ada, &["--peer", &key(9).to_string()]), []);
    // The bus knows routes, and what was acknowledged by position.
    assert_eq!(
        kinds(&log(&closed, bus, &["--peer", &own])),
        ["enqueued", "acked", "enqueued"]
    );
    assert_eq!(
        kinds(&log(&closed, bus, &["--session", "s"])),
        ["enqueued", "acked", "enqueued"]
    );
    assert_eq!(log(&closed, bus, &["--session", "t"]), []);

    let late = log(&closed, bus, &["--since", "2026-11-30T01:00:00Z"]);
    assert_eq!(kinds(&late), ["enqueued"]);
    let early = log(&closed, bus, &["--until", "2026-11-30T02:00:00+01:00"]);
    assert_eq!(kinds(&early), ["enqueued", "acked"]);
    assert_eq!(
        kinds(&log(&closed, bus, &["--from", "2", "--to", "2"])),
        ["acked"]
    );
    // An end in the past is one for a follower too.
    let ended = log(
        &closed,
        bus,
        &["--follow", "--until", "2026-11-30T00:00:00Z"],
    );
    assert_eq!(ended, []);
    for wrong in [["--since", "yesterday"], ["--until", "10"]] {
        let output = closed.run(&["log", wrong[0], wrong[1]]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains("is no time"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_table_is_shown_as_it_was_and_a_difference_row_by_row() {
    let world = world();
    let now = world.relay.clock.now();
    assert!(now > UnixMillis(DAY + 3_600_000));
    let closed = world.close();
    let bus = closed.bus();
    let bus = bus.to_str().unwrap();
    let before = fs::read(bus).unwrap();

    let at = |point: &str| closed.json(&["at", point, "pending", "--store", bus]);
    let waits = |answer: &Value| -> Vec<String> {
        let rows = answer["stores"][0]["tables"][0]["rows"].as_array().unwrap();
        rows.iter()
            .map(|row| row["value"]["msg_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(waits(&at("0")), [""; 0]);
    assert_eq!(waits(&at("1")), ["first"]);
    assert_eq!(waits(&at("2")), [""; 0]);
    assert_eq!(waits(&at("3")), ["second"]);
    let then = at("2026-11-30T00:30:00Z");
    assert_eq!(
        (&then["stores"][0]["seq"], waits(&then).len()),
        (&2.into(), 0)
    );
    let human = closed.ok(&["at", "1", "pending", "--store", bus]);
    assert!(human.contains("msg_id first"), "{human}");
    assert!(human.contains("as of record 1"), "{human}");
    // Without a table: how many rows each one had; with a time, of every store.
    let human = closed.ok(&["at", "2026-11-30T00:30:00Z"]);
    assert!(human.contains("mailbox_unread"), "{human}");

    let changed = closed.json(&["diff", "1", "3", "--store", bus]);
    let changes = changed["stores"][0]["changes"].as_array().unwrap();
    let told: Vec<(&str, &str, &str)> = changes
        .iter()
        .map(|c| ["table", "key", "change"].map(|name| c[name].as_str().unwrap()))
        .map(|[table, key, change]| (table, key, change))
        .collect();
    assert_eq!(
        told,
        [("pending", "1", "removed"), ("pending", "3", "added")]
    );
    assert_eq!(changes[1]["after"]["msg_id"], "second");
    let human = closed.ok(&["diff", "1", "3", "--store", bus]);
    assert!(
        human.contains("    - 1\n") && human.contains("    + 3\n"),
        "{human}"
    );
    assert!(
        human.contains("1 row added, 1 removed, 0 changed"),
        "{human}"
    );
    assert!(
        closed
            .ok(&["diff", "3", "3", "--store", bus])
            .contains("nothing changed")
    );

    let ada = closed.agent(1);
    let ada = ada.to_str().unwrap();
    let changed = closed.json(&["diff", "2", "4", "--store", ada]);
    let how: Vec<String> = changed["stores"][0]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            format!(
                "{} {}",
                c["table"].as_str().unwrap(),
                c["change"].as_str().unwrap()
            )
        })
        .collect();
    assert!(how.contains(&"outbox added".to_owned()), "{how:?}");
    let human = closed.ok(&["diff", "3", "4", "outbox", "--store", ada]);
    assert!(
        human.contains("state waiting (") && human.contains("accepted (at 2026"),
        "{human}"
    );
    let human = closed.ok(&["at", "6", "outbox", "--store", ada]);
    assert!(human.contains("x\\u{1b}"), "{human}");
    assert!(fs::read(bus).unwrap() == before, "the file was changed");
}

#[test]
fn what_cannot_be_shown_is_refused_with_the_reason() {
    let world = world();
    world.relay.compact();
    let closed = world.close();
    let bus = closed.bus();
    let bus = bus.to_str().unwrap();
    for (args, code, said) in [
        (
            &["at", "1", "--store", bus][..],
            1,
            "the records up to 2 were compacted",
        ),
        (
            &["diff", "0", "3", "--store", bus],
            1,
            "the records up to 2 were compacted",
        ),
        (
            &["at", "2026-11-30T00:00:30Z", "--store", bus],
            1,
            "were compacted",
        ),
        (&["at", "9", "--store", bus], 1, "its log ends at 3"),
        (
            &["at", "3", "mails", "--store", bus],
            2,
            "no store has a table",
        ),
        (
            &["at", "3", "outbox", "--store", bus],
            7,
            "not of an identity",
        ),
        (&["at", "3"], 2, "positions differ"),
        (&["at", "never"], 2, "is no time"),
    ] {
        let output = closed.run(args);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?} {}",
            text(&output.stderr)
        );
        assert!(
            text(&output.stderr).contains(said),
            "{args:?} {}",
            text(&output.stderr)
        );
    }
    // At the compaction point and after it everything is known.
    let answer = closed.json(&["at", "2", "pending", "--store", bus]);
    assert_eq!(
        answer["stores"][0]["tables"][0]["rows"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    let changed = closed.json(&["diff", "2", "3", "--store", bus]);
    assert_eq!(changed["stores"][0]["changes"][0]["change"], "added");
}

#[test]
fn numbers_add_up_with_the_log_and_with_the_traces() {
    let closed = world().close();
    let answer = closed.json(&["stats"]);
    let stores = answer["stores"].as_array().unwrap();
    assert_eq!(stores.len(), 3);
    for store in stores {
        let path = store["store"].as_str().unwrap();
        let all = log(&closed, path, &[]);
        assert_eq!(store["records"], all.len());
        for kind in store["kinds"].as_array().unwrap() {
            let name = kind["kind"].as_str().unwrap();
            let counted = all.iter().filter(|(_, kind)| kind == name).count();
            assert_eq!(kind["records"], counted, "{name}");
        }
        let minutes = store["minutes"].as_array().unwrap();
        let sum: u64 = minutes.iter().map(|m| m["records"].as_u64().unwrap()).sum();
        assert_eq!(store["records"], sum);
    }
    let bus = &stores[0];
    assert_eq!(bus["kind"], "bus");
    let depth: Vec<(u64, u64)> = bus["depth"]["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["rows"].as_u64().unwrap(), p["most"].as_u64().unwrap()))
        .collect();
    assert_eq!(depth, [(0, 1), (1, 1)]);

    assert_eq!(answer["messages"], 2);
    let trace = closed.json(&["trace", "first"]);
    let durations = &trace["messages"][0]["durations_ms"];
    let latencies = answer["latencies"].as_array().unwrap();
    assert_eq!(latencies.len(), durations.as_object().unwrap().len());
    for latency in latencies {
        let stage = latency["stage"].as_str().unwrap();
        assert_eq!(latency["messages"], 1, "{stage}");
        assert_eq!(latency["p50_ms"], durations[stage], "{stage}");
        assert_eq!(latency["max_ms"], durations[stage], "{stage}");
    }
    let later = closed.json(&["stats", "--since", "2026-11-30T00:30:00Z"]);
    assert_eq!(later["messages"], 1);
    assert_eq!(later["stores"][0]["records"], 1);
    let human = closed.ok(&["stats"]);
    assert!(human.contains("signed to read"), "{human}");
}

#[test]
fn a_picture_is_drawn_into_a_new_file_only() {
    let closed = world().close();
    closed.ok(&["stats", "--plot", "out.svg"]);
    let path = closed.dir.path().join("out.svg");
    let svg = fs::read_to_string(&path).unwrap();
    assert!(
        svg.starts_with("<?xml") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    for word in [
        "records a minute",
        "how much waited",
        "signed to read",
        "outbox_queued",
    ] {
        assert!(svg.contains(word), "{word}");
    }
    // Every element that begins ends.
    for tag in ["text", "title", "svg", "style"] {
        let begins =
            svg.matches(&format!("<{tag}>")).count() + svg.matches(&format!("<{tag} ")).count();
        assert_eq!(begins, svg.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let again = closed.run(&["stats", "--plot", "out.svg"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("nothing is overwritten"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), svg);
}

#[test]
fn a_whole_store_can_be_shown_at_its_head() {
    let world = world();
    let closed = world.close();
    let mut shown = 0;
    for path in [closed.bus(), closed.agent(1), closed.agent(2)] {
        let path = path.to_str().unwrap();
        let head = closed.json(&["status", "--store", path])["stores"][0]["head"].to_string();
        let answer = closed.json(&["at", &head, "--store", path]);
        let tables = answer["stores"][0]["tables"].as_array().unwrap();
        for table in tables {
            for row in table["rows"].as_array().unwrap() {
                assert!(row["value"].is_object(), "{row}");
                // A key that had to be shown in hex is one that nobody understood.
                assert_ne!(row["key"], row["raw"], "{table}");
                shown += 1;
            }
        }
    }
    assert!(shown > 10, "{shown}");
}

/// Every row of a store, looked at through its view; gives the tables that had rows.
fn viewed<D: Domain>(snapshot: &Snapshot, into: &mut BTreeSet<TableId>) {
    for table in TableId::ALL.iter().filter(|table| table.store() == D::KIND) {
        let all = Bound::Unbounded;
        let scanned = snapshot.scan(*table, all, all, &mut |key, value| {
            let row = view::row(*table, key, value).unwrap_or_else(|e| panic!("{table:?}: {e}"));
            let hex = data_encoding::HEXLOWER.encode(key);
            assert_ne!(
                row.key, hex,
                "{table:?}: a key that the view does not understand"
            );
            assert!(row.value.is_object(), "{table:?}: {}", row.value);
            into.insert(*table);
            ControlFlow::Continue(())
        });
        scanned.unwrap();
    }
}

#[test]
fn rows_of_every_table_have_a_view() {
    type History = fn(UnixMillis, &mut dyn FnMut(AgentCommand) -> AgentReply);
    let histories: [History; 8] = [
        agent_history,
        held_history,
        pairing_history,
        directory_history,
        host_history,
        |_, run| bond_history(run),
        |_, run| pin_history(run),
        import_history,
    ];
    let mut shown = BTreeSet::new();
    for history in histories {
        let disk = Disk::new();
        let options = on_disk(&disk, Mode::Shared);
        let store: Store<Agent> = Store::open(options, clock(), None).unwrap();
        history(START, &mut |command| {
            // At every step: some rows do not stay.
            viewed::<Agent>(&store.snapshot().unwrap(), &mut shown);
            submit(&store, command)
        });
        viewed::<Agent>(&store.snapshot().unwrap(), &mut shown);
    }
    let disk = Disk::new();
    let store: Store<Bus> = open(&disk, Mode::Exclusive).unwrap();
    let announcement: Arc<[u8]> = Arc::from(&b"{}"[..]);
    submit(
        &store,
        BusCommand::AnnounceSigned {
            entry: "a".into(),
            announcement,
            ts: START,
            max_entries: 9,
            max_per_key: 9,
        },
    );
    for n in 0..3u8 {
        let limits = QueueLimits {
            messages: 2,
            bytes: 99,
            store_bytes: 99,
            queues: 9,
            overflow: Overflow::DropOldest,
        };
        submit(&store, enqueue("a", &[n], limits));
    }
    submit(&store, relay_open(1, 1, RelayFlow::Ordinary, START));
    submit(&store, relay_join(1, 2, START));
    queue_import_history(&mut |command| submit(&store, command));
    viewed::<Bus>(&store.snapshot().unwrap(), &mut shown);
    let all: BTreeSet<TableId> = TableId::ALL.iter().copied().collect();
    let missing: Vec<&TableId> = all.difference(&shown).collect();
    assert!(missing.is_empty(), "no row of {missing:?} was seen");
}

/// A process that does not outlive its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_follower_shows_what_fits_as_it_is_written() {
    let world = World::new();
    let home = world.dir.path();
    let ada = home
        .join(".local/state/interlink/agent")
        .join(key(1).to_string());
    let mut child = Ended(
        Command::new(env!("CARGO_BIN_EXE_interlink-admin"))
            .current_dir(home)
            .env_clear()
            .env("HOME", home)
            .args([
                "log",
                "--follow",
                "--json",
                "--message",
                "wanted",
                "--store",
            ])
            .arg(ada.join("agent.redb"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line))
    });
    let next = || -> Value {
        let line = receiver
            .recv_timeout(Duration::from_secs(30))
            .expect("the follower goes on");
        serde_json::from_str(&line).unwrap()
    };
    let other = world.ada.queue(&world.ben, &Mail::of("other"));
    let sent = world.ada.queue(&world.ben, &Mail::of("wanted"));
    assert_eq!(next()["event"]["msg_id"], "wanted");
    world.ada.accepted(other);
    world.ada.failed(sent, 1);
    assert_eq!((&next()["kind"]), "outbox_attempted");
    world.ada.accepted(sent);
    assert_eq!((&next()["kind"]), "outbox_accepted");
    let pid = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}
