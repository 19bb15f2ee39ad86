//! Bytes that earlier programs wrote, read for ever. `UPDATE_GOLDEN=1` makes files that are
//! missing; it never overwrites one, because a changed golden file is a broken store of somebody.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use interlink::codec::frame::{FrameError, parse_prefix};
use interlink::domain::Domain;
use interlink::domain::decide::agent::Agent;
use interlink::domain::decide::bus::{Bus, BusCommand};
use interlink::domain::projection::apply_all;
use interlink::domain::tables::{MemTables, TableId};
use interlink::event::bus::{SeenAt, SignedAt};
use interlink::event::kind::{EventKind, StoreKind};
use interlink::event::{Recorded, StoredEvent};
use interlink::store::{Cut, FORMAT, Location, Mode, OpenOptions, Reader, Store};
use interlink::testkit::Disk;
use interlink::testkit::power::PLAIN_VARIANTS;
use interlink::testkit::sample::{SMALL_LIMITS, WIDE_LIMITS, enqueue, payload};
use interlink::testkit::sample_agent::{agent_history, held_history, take_lease};
use interlink::testkit::sample_bond::{bond_history, pin_history};
use interlink::testkit::sample_care::care_history;
use interlink::testkit::sample_directory::directory_history;
use interlink::testkit::sample_host::host_history;
use interlink::testkit::sample_import::{import_history, queue_import_history};
use interlink::testkit::sample_pairing::pairing_history;
use interlink::testkit::sample_rendezvous::relay_history;
use interlink::types::seq::Seq;

use super::support::{START, clock, on_disk, rows, run, verified};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// The bytes of a golden file; made when it is missing and that is wanted.
fn golden_bytes(name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = golden(name);
    if !path.exists() {
        assert!(
            std::env::var_os("UPDATE_GOLDEN").is_some_and(|v| v == "1"),
            "{name} is missing; UPDATE_GOLDEN=1 makes it"
        );
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, make()).unwrap();
    }
    fs::read(path).unwrap()
}

/// A history in which every kind of bus event occurs.
fn write_history(path: &Path) {
    let clock = clock();
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    let store = Store::<Bus>::open(options, clock.clone(), None).unwrap();
    let entry = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA#one".to_owned();
    let announce = |entry: &str| BusCommand::Announce {
        entry: entry.into(),
        announcement: payload(1, 80).into(),
        max_entries: 8,
    };
    for n in 0..8 {
        clock.advance(1000);
        run(
            &store,
            enqueue(&entry, &payload(n, 100 + 50 * n as usize), SMALL_LIMITS),
        );
    }
    run(&store, enqueue("", b"{}", WIDE_LIMITS));
    run(&store, enqueue("\u{e9}\u{4e2d}", b"[1,2,3]", WIDE_LIMITS));
    let seqs = vec![Seq(3), Seq(4), Seq(99)];
    run(
        &store,
        BusCommand::Ack {
            me: entry.clone(),
            seqs,
        },
    );
    run(&store, BusCommand::LoseBody { seq: Seq(5) });
    let before = START.plus(6000);
    run(&store, BusCommand::ExpireMessages { before, max: 1 });
    for name in [entry.as_str(), "two", "three"] {
        run(&store, announce(name));
    }
    clock.advance(60_000);
    let at = START.plus(68_000);
    let seen = SeenAt {
        entry: entry.clone(),
        at,
    };
    run(
        &store,
        BusCommand::Seen {
            entries: vec![seen],
        },
    );
    run(
        &store,
        BusCommand::Unregister {
            entry: "two".into(),
        },
    );
    let before = START.plus(60_000);
    run(&store, BusCommand::ExpirePresence { before });
    store.close();
}

/// A board that checks signatures.
fn write_presence_history(path: &Path) {
    let clock = clock();
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    let store = Store::<Bus>::open(options, clock.clone(), None).unwrap();
    let announce = |entry: &str, ts: u64| BusCommand::AnnounceSigned {
        entry: entry.into(),
        announcement: payload(ts, 80).into(),
        ts: START.plus(ts),
        max_entries: 8,
        max_per_key: 2,
    };
    run(&store, announce("k#one", 1));
    run(&store, announce("k#two", 2));
    clock.advance(1000);
    run(&store, announce("k#three", 3));
    let entries = vec![SignedAt {
        entry: "k#two".into(),
        ts: START.plus(4),
    }];
    run(&store, BusCommand::Signed { entries });
    let leave = BusCommand::UnregisterSigned {
        entry: "k#two".into(),
        ts: START.plus(5),
    };
    run(&store, leave);
    let before = START.plus(1);
    run(&store, BusCommand::ForgetSigned { before });
    store.close();
}

/// What an identity remembers of others, and forgets.
fn write_directory_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    directory_history(START, &mut |command| {
        store.submit(command).unwrap().wait().unwrap().reply
    });
    store.close();
}

/// What the operator and time do to an identity's messages.
fn write_care_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    care_history(START, &mut |command| {
        store.submit(command).unwrap().wait().unwrap().reply
    });
    store.close();
}

/// What the operator takes from a bus.
fn write_operator_history(path: &Path) {
    let clock = clock();
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    let store = Store::<Bus>::open(options, clock.clone(), None).unwrap();
    for n in 0..3 {
        run(&store, enqueue("k#one", &payload(n, 60), SMALL_LIMITS));
    }
    let discard = |to: &str, seq: Option<Seq>| BusCommand::Discard {
        to: to.into(),
        seq,
        max: 8,
    };
    run(&store, discard("k#one", Some(Seq(2))));
    run(&store, discard("k#one", Some(Seq(2))));
    run(&store, discard("k#one", None));
    run(&store, discard("nobody", None));
    let announce = BusCommand::Announce {
        entry: "k#one".into(),
        announcement: payload(1, 80).into(),
        max_entries: 8,
    };
    run(&store, announce);
    for entry in ["k#one", "k#one"] {
        let entry = entry.to_owned();
        run(&store, BusCommand::Evict { entry });
    }
    store.close();
}

/// How a host can be woken.
fn write_host_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    host_history(START, &mut |command| {
        store.submit(command).unwrap().wait().unwrap().reply
    });
    store.close();
}

/// Another program's state that is taken over.
fn write_import_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    import_history(START, &mut |command| {
        store.submit(command).unwrap().wait().unwrap().reply
    });
    store.close();
}

/// Sealed sessions.
fn write_bond_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    bond_history(&mut |command| store.submit(command).unwrap().wait().unwrap().reply);
    store.close();
}

/// Two sides of a sealed session that pin each other.
fn write_pin_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    pin_history(&mut |command| store.submit(command).unwrap().wait().unwrap().reply);
    store.close();
}

/// What hand edits say in vain.
fn write_held_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    held_history(START, &mut |command| {
        store.submit(command).unwrap().wait().unwrap().reply
    });
    store.close();
}

/// Mail of another program's bus.
fn write_queue_import_history(path: &Path) {
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    queue_import_history(&mut |command| run(&store, command).reply);
    store.close();
}

/// Sessions that are relayed.
fn write_relay_history(path: &Path) {
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    relay_history(START, &mut |command| run(&store, command).reply);
    store.close();
}

/// How an identity's strangers become peers.
fn write_pairing_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    pairing_history(START, &mut |command| {
        store.submit(command).unwrap().wait().unwrap().reply
    });
    store.close();
}

/// The same for an identity.
fn write_agent_history(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    agent_history(START, &mut |command| {
        store.submit(command).unwrap().wait().unwrap().reply
    });
    store.close();
}

fn export(path: &Path) -> Vec<u8> {
    let reader = Reader::open(path, Mode::Exclusive).unwrap();
    let mut out = vec![];
    let snapshot = reader.snapshot().unwrap();
    snapshot
        .frames(Seq::ZERO, |_, bytes| {
            out.extend_from_slice(bytes);
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    out
}

/// The records at the front of `bytes`, and what ended them.
fn parse<E: StoredEvent>(mut bytes: &[u8]) -> (Vec<Recorded<E>>, Option<FrameError>) {
    let mut out = vec![];
    while !bytes.is_empty() {
        match parse_prefix(bytes) {
            Ok((frame, len)) => {
                let event = E::decode(frame.kind, frame.version, frame.payload).unwrap();
                out.push(Recorded {
                    seq: frame.seq,
                    at: frame.recorded_at,
                    event,
                });
                bytes = &bytes[len..];
            }
            Err(e) => return (out, Some(e)),
        }
    }
    (out, None)
}

fn replayed<D: Domain>(records: &[Recorded<D::Event>]) -> MemTables {
    let mut tables = MemTables::new();
    for record in records {
        apply_all(D::projections(), &mut tables, record).unwrap();
    }
    tables
}

/// Records as people see them, and the rows that follow from them in the tables up to a number.
fn state<D: Domain>(records: &[Recorded<D::Event>], last_table: u16) -> Vec<u8> {
    let log: Vec<_> = records
        .iter()
        .map(|r| {
            serde_json::json!({
                "seq": r.seq, "at": r.at, "kind": r.event.kind().name(), "event": r.event.to_json(),
            })
        })
        .collect();
    let mut rows = rows::<D>(&replayed::<D>(records));
    // A projection that came later adds rows of its own; a golden state speaks of its time.
    rows.retain(|row| {
        let table = row.split(' ').next().unwrap();
        TableId::ALL
            .iter()
            .any(|id| id.name() == table && id.number() <= last_table)
    });
    let state = serde_json::json!({ "log": log, "rows": rows });
    let mut text = serde_json::to_vec_pretty(&state).unwrap();
    text.push(b'\n');
    text
}

fn log<D: Domain>() -> Vec<u8> {
    golden_bytes(&format!("log/{}-v1.ilog", D::KIND.name()), || {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        write::<D>(&path);
        export(&path)
    })
}

fn write<D: Domain>(path: &Path) {
    match D::KIND {
        StoreKind::Bus => write_history(path),
        StoreKind::Agent => write_agent_history(path),
    }
}

/// Logs of kinds that came later; each file has its own history.
type Later = (&'static str, fn(&Path));

const LATER_BUS: &[Later] = &[
    ("bus-presence", write_presence_history),
    ("bus-v2", write_history),
    ("bus-operator", write_operator_history),
    ("bus-import", write_queue_import_history),
    ("bus-rendezvous", write_relay_history),
];
const LATER_AGENT: &[Later] = &[
    ("agent-directory", write_directory_history),
    ("agent-pairing", write_pairing_history),
    ("agent-hosts", write_host_history),
    ("agent-held", write_held_history),
    ("agent-care", write_care_history),
    ("agent-import", write_import_history),
    ("agent-bond", write_bond_history),
    ("agent-pin", write_pin_history),
];

/// Tables that there were when the first logs were written.
const FIRST_TABLES: u16 = 48;

/// Where the state stands that a program of today makes of a log of the first version.
fn first_state<D: Domain>() -> String {
    match D::KIND {
        // Its first events were upcast since.
        StoreKind::Bus => "log/bus-v1.upcast.state.json".to_owned(),
        StoreKind::Agent => "log/agent-v1.state.json".to_owned(),
    }
}

fn later_log(later: &Later) -> Vec<u8> {
    golden_bytes(&format!("log/{}.ilog", later.0), || {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        later.1(&path);
        export(&path)
    })
}

fn later_gives_its_state<D: Domain>(later: &Later, last_table: u16) {
    let (records, end) = parse(&later_log(later));
    assert_eq!(end, None);
    let name = format!("log/{}.state.json", later.0);
    let expected = golden_bytes(&name, || state::<D>(&records, last_table));
    assert_eq!(
        String::from_utf8(state::<D>(&records, last_table)).unwrap(),
        String::from_utf8(expected).unwrap()
    );
}

#[test]
fn the_golden_logs_of_later_kinds_give_the_golden_states() {
    for later in LATER_BUS {
        later_gives_its_state::<Bus>(later, 12);
    }
    for later in LATER_AGENT {
        let last_table = match later.0 {
            "agent-bond" => 69,
            "agent-pin" => 77,
            _ => 66,
        };
        later_gives_its_state::<Agent>(later, last_table);
    }
}

fn gives_the_golden_state<D: Domain>() {
    let (records, end) = parse(&log::<D>());
    assert_eq!(end, None);
    let expected = golden_bytes(&first_state::<D>(), || state::<D>(&records, FIRST_TABLES));
    assert_eq!(
        String::from_utf8(state::<D>(&records, FIRST_TABLES)).unwrap(),
        String::from_utf8(expected).unwrap()
    );
}

#[test]
fn the_golden_logs_give_the_golden_states() {
    gives_the_golden_state::<Bus>();
    gives_the_golden_state::<Agent>();
}

fn has_every_kind<D: Domain>(later: &[Later]) {
    let mut records = parse::<D::Event>(&log::<D>()).0;
    records.extend(
        later
            .iter()
            .flat_map(|log| parse::<D::Event>(&later_log(log)).0),
    );
    let found: BTreeSet<_> = records.iter().map(|r| r.event.kind()).collect();
    let all = EventKind::ALL
        .iter()
        .copied()
        .filter(|k| k.store() == D::KIND);
    assert_eq!(found, all.collect());
}

#[test]
fn every_kind_is_in_a_golden_log() {
    has_every_kind::<Bus>(LATER_BUS);
    has_every_kind::<Agent>(LATER_AGENT);
}

fn is_written_alike<D: Domain>(later: &[Later]) {
    let mut same = 0;
    let later = later.iter().map(later_log);
    for log in later.chain([log::<D>()]) {
        let (records, _) = parse::<D::Event>(&log);
        let mut rest = log.as_slice();
        for record in records {
            let (frame, len) = parse_prefix(rest).unwrap();
            if frame.version == record.event.kind().version() {
                assert_eq!(record.to_frame().unwrap(), rest[..len], "{}", record.seq);
                same += 1;
            }
            rest = &rest[len..];
        }
    }
    assert!(same > 20, "only {same} records are of today's versions");
}

#[test]
fn todays_encoder_writes_the_golden_bytes() {
    is_written_alike::<Bus>(LATER_BUS);
    is_written_alike::<Agent>(LATER_AGENT);
}

fn gives_its_longest_prefix<D: Domain>() {
    let bytes = log::<D>();
    let (all, _) = parse::<D::Event>(&bytes);
    let mut ends = vec![0];
    while *ends.last().unwrap() < bytes.len() {
        let start = *ends.last().unwrap();
        ends.push(start + parse_prefix(&bytes[start..]).unwrap().1);
    }
    for cut in 0..bytes.len() {
        let (records, end) = parse::<D::Event>(&bytes[..cut]);
        let whole = ends.iter().rposition(|end| *end <= cut).unwrap();
        assert_eq!(records, all[..whole], "cut at {cut}");
        if ends[whole] == cut {
            assert_eq!(end, None, "cut at {cut}");
        } else {
            let have = cut - ends[whole];
            assert!(
                matches!(end, Some(FrameError::Truncated { have: h, .. }) if h == have),
                "cut at {cut}: {end:?}"
            );
        }
    }
}

#[test]
fn a_log_cut_at_any_byte_gives_its_longest_whole_prefix() {
    gives_its_longest_prefix::<Bus>();
    gives_its_longest_prefix::<Agent>();
}

/// A store as a program of a format left it.
fn golden_store<D: Domain>(format: u32) -> Vec<u8> {
    golden_bytes(&format!("db/v{format}-{}.redb", D::KIND.name()), || {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        write::<D>(&path);
        if format > 1 {
            let options = OpenOptions::exclusive(Location::File(path.clone()));
            let store = Store::<D>::open(options, clock(), None).unwrap();
            let cut = Cut {
                until: Seq(store.head().0 / 2),
                ..Cut::ALL
            };
            let folded = store.compact(cut, Duration::from_secs(20)).unwrap();
            assert!(folded.wait().unwrap().records > 0);
            store.close();
        }
        while redb::Database::open(&path).unwrap().compact().unwrap() {}
        fs::read(path).unwrap()
    })
}

/// `next` makes a command that appends one record.
fn opens_and_goes_on<D: Domain>(format: u32, next: D::Command) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let bytes = golden_store::<D>(format);
    fs::write(&path, &bytes).unwrap();
    let reader = Reader::open(&path, Mode::Exclusive).unwrap();
    let snapshot = reader.snapshot().unwrap();
    verified::<D>(&snapshot);
    let expected = rows::<D>(&snapshot.replay::<D>().unwrap());
    let head = snapshot.head().unwrap();
    if format == 1 {
        let (records, _) = parse(&log::<D>());
        assert_eq!(export(&path), log::<D>());
        assert_eq!(rows::<D>(&replayed::<D>(&records)), expected);
    } else {
        assert_eq!(snapshot.base().unwrap(), Seq(head.0 / 2));
    }
    drop((snapshot, reader));
    let options = OpenOptions::exclusive(Location::File(path.clone()));
    let store = Store::<D>::open(options, clock(), None).unwrap();
    assert_eq!(rows::<D>(&store.snapshot().unwrap()), expected);
    assert_eq!(store.head(), head);
    assert!(store.submit(next).unwrap().wait().is_ok());
    assert_eq!(store.head(), head.next());
    verified::<D>(&store.snapshot().unwrap());
    store.close();
    let backup = dir.path().join(format!("store.redb.bak-v{format}"));
    assert_eq!(backup.exists(), format < FORMAT);
    if format < FORMAT {
        let old = Reader::open(&backup, Mode::Exclusive).unwrap();
        let old = old.snapshot().unwrap();
        assert_eq!(old.head().unwrap(), head);
        verified::<D>(&old);
    }
}

#[test]
fn the_golden_stores_open_verify_and_go_on() {
    for format in 1..=FORMAT {
        opens_and_goes_on::<Bus>(format, enqueue("a", b"{}", WIDE_LIMITS));
        opens_and_goes_on::<Agent>(format, take_lease("later", START));
    }
}

/// The power fails at every write of a migration: the store is of one format or the other, whole.
#[test]
fn a_migration_is_done_or_not_begun() {
    for kind in [StoreKind::Bus, StoreKind::Agent] {
        match kind {
            StoreKind::Bus => migrates_whole::<Bus>(),
            StoreKind::Agent => migrates_whole::<Agent>(),
        }
    }
}

fn migrates_whole<D: Domain>() {
    let disk = Disk::with_bytes(golden_store::<D>(1));
    disk.record();
    let open = |disk: &Disk| Store::<D>::open(on_disk(disk, Mode::Exclusive), clock(), None);
    let store = open(&disk).unwrap();
    let expected = rows::<D>(&store.snapshot().unwrap());
    store.close();
    let journal = disk.journal();
    let mut cuts = journal.cuts();
    let mut images = 0;
    loop {
        for variant in 0..PLAIN_VARIANTS + 4 {
            let disk = Disk::with_bytes(cuts.image(variant));
            let store = open(&disk).unwrap_or_else(|e| panic!("cut {}: {e}", cuts.at()));
            let snapshot = store.snapshot().unwrap();
            assert_eq!(rows::<D>(&snapshot), expected, "cut {}", cuts.at());
            verified::<D>(&snapshot);
            images += 1;
        }
        if !cuts.advance() {
            break;
        }
    }
    assert!(images > 30, "{images}");
}
