//! What a store promises when nothing fails, and what it refuses.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use interlink::crypto::hash::sha256;
use interlink::domain::decide::bus::{
    Bus, BusCommand, BusRefusal, BusReply, Overflow, QueueIndex, QueueLimits,
};
use interlink::domain::projection::Projection;
use interlink::domain::tables::{TableError, TableReader};
use interlink::domain::{Decision, Domain, LiveBody, View};
use interlink::event::bus::{Acked, BusEvent};
use interlink::event::kind::{EventKind, StoreKind};
use interlink::event::{Recorded, StoredEvent as _};
use interlink::store::{
    CommandError, Location, Mode, OpenError, OpenOptions, Reader, Store, SubmitError,
};
use interlink::testkit::sample::{WIDE_LIMITS, bus_command, enqueue, payload};
use interlink::testkit::{Disk, Rng};
use interlink::types::limit::{MAX_ACKS_PER_RECORD, MAX_WAITING_BYTES, MAX_WAITING_COMMANDS};
use interlink::types::seq::Seq;
use interlink::types::time::{Clock as _, UnixMillis};

use super::support::{
    START, clock, long, open, queued, records, relayed, rows, run, seed, verified,
};

/// A bus whose commands can also block the writer, or lead to an event that does not apply.
struct Crooked;

enum CrookedCommand {
    Bus(BusCommand),
    /// Acknowledges what was never queued.
    Contradict,
    /// Says that it is being decided and waits for the go.
    Block(mpsc::Sender<()>, Arc<Barrier>),
}

impl Domain for Crooked {
    type Event = BusEvent;
    type Command = CrookedCommand;
    type Reply = BusReply;
    type Refusal = BusRefusal;
    type Index = QueueIndex;

    const KIND: StoreKind = StoreKind::Bus;

    fn projections() -> &'static [&'static dyn Projection<BusEvent>] {
        Bus::projections()
    }

    fn decide(
        view: &View<'_, Self>,
        command: &CrookedCommand,
    ) -> Result<Result<Decision<BusEvent, BusReply>, BusRefusal>, TableError> {
        let events = match command {
            CrookedCommand::Bus(command) => {
                let view = View::<Bus> {
                    tables: view.tables,
                    index: view.index,
                    next: view.next,
                };
                return Bus::decide(&view, command);
            }
            CrookedCommand::Contradict => {
                let seqs = vec![Seq(u64::MAX)];
                vec![BusEvent::Acked(Acked { seqs }).into()]
            }
            CrookedCommand::Block(inside, go) => {
                inside.send(()).unwrap();
                go.wait();
                vec![]
            }
        };
        let reply = BusReply::Done;
        Ok(Ok(Decision { events, reply }))
    }

    fn weight(command: &CrookedCommand) -> usize {
        match command {
            CrookedCommand::Bus(command) => Bus::weight(command),
            _ => 0,
        }
    }

    fn build_index(tables: &dyn TableReader) -> Result<QueueIndex, TableError> {
        Bus::build_index(tables)
    }

    fn index(index: &mut QueueIndex, record: &Recorded<BusEvent>) {
        Bus::index(index, record);
    }

    fn releases(event: &BusEvent) -> &[Seq] {
        Bus::releases(event)
    }

    fn live_bodies(
        tables: &dyn TableReader,
        visit: &mut dyn FnMut(LiveBody),
    ) -> Result<(), TableError> {
        Bus::live_bodies(tables, visit)
    }

    fn body_lost(seq: Seq) -> Option<BusEvent> {
        Bus::body_lost(seq)
    }

    fn let_go(tables: &dyn TableReader, lost: &BTreeSet<Seq>) -> Result<Vec<BusEvent>, TableError> {
        Bus::let_go(tables, lost)
    }

    fn nothing() -> BusEvent {
        Bus::nothing()
    }
}

fn send(n: u64) -> CrookedCommand {
    CrookedCommand::Bus(enqueue("a", &payload(n, 64), WIDE_LIMITS))
}

fn crooked() -> Store<Crooked> {
    Store::open(OpenOptions::exclusive(Location::Memory), clock(), None).unwrap()
}

/// Stops the writer inside a command; the barrier lets it go on.
fn block(store: &Store<Crooked>) -> Arc<Barrier> {
    let (inside, entered) = mpsc::channel();
    let go = Arc::new(Barrier::new(2));
    let command = CrookedCommand::Block(inside, Arc::clone(&go));
    drop(store.submit(command).unwrap());
    entered.recv_timeout(Duration::from_secs(20)).unwrap();
    go
}

#[test]
fn what_was_acknowledged_stands_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/bus.redb");
    let options = OpenOptions::exclusive(Location::File(path.clone()));
    let store = Store::<Bus>::open(options.clone(), clock(), None).unwrap();
    for n in 0..5 {
        let done = run(&store, enqueue("a", &payload(n, 100), WIDE_LIMITS));
        assert_eq!(done.seq, Seq(n + 1));
    }
    let ack = BusCommand::Ack {
        me: "a".into(),
        seqs: vec![Seq(2), Seq(4), Seq(77)],
    };
    assert_eq!(run(&store, ack).reply, BusReply::Acked { acked: 2 });
    store.close();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
    }
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    assert_eq!(store.head(), Seq(6));
    let waiting = store.with_index(|index, _| {
        let queue = index.queue("a").unwrap();
        queue.iter().map(|(seq, _)| seq.0).collect::<Vec<_>>()
    });
    assert_eq!(waiting, [1, 3, 5]);
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.body(Seq(3)).unwrap().unwrap(), payload(2, 100));
    assert_eq!(snapshot.body(Seq(2)).unwrap(), None);
    let report = verified::<Bus>(&snapshot);
    assert_eq!((report.records, report.bodies), (6, 3));
}

#[test]
fn a_refused_command_in_the_middle_of_a_batch_fails_alone() {
    let store = crooked();
    let go = block(&store);
    let bad = CrookedCommand::Bus(enqueue("a\n", b"{}", WIDE_LIMITS));
    let receipts = [send(1), bad, send(2)].map(|c| store.submit(c).unwrap());
    let commits = store.commits();
    go.wait();
    let [first, bad, second] = receipts.map(interlink::store::Receipt::wait);
    assert_eq!(queued(&first.unwrap().reply), Seq(1));
    assert!(matches!(
        bad,
        Err(CommandError::Refused(BusRefusal::QueueName))
    ));
    assert_eq!(queued(&second.unwrap().reply), Seq(2));
    assert!(store.commits() - commits <= 2, "they were one batch");
    verified::<Crooked>(&store.snapshot().unwrap());
}

#[test]
fn a_command_that_does_not_apply_is_refused_alone() {
    let store = crooked();
    let go = block(&store);
    let batch = [send(1), CrookedCommand::Contradict, send(2)];
    let receipts = batch.map(|c| store.submit(c).unwrap());
    go.wait();
    let [first, bad, second] = receipts.map(interlink::store::Receipt::wait);
    first.unwrap();
    assert!(
        matches!(bad, Err(CommandError::Inapplicable { .. })),
        "{bad:?}"
    );
    second.unwrap();
    let alone = store.submit(CrookedCommand::Contradict).unwrap().wait();
    assert!(matches!(alone, Err(CommandError::Inapplicable { .. })));
    assert_eq!(store.submit(send(3)).unwrap().wait().unwrap().seq, Seq(3));
    store.with_index(|index, _| assert_eq!(index.message_count(), 3));
    verified::<Crooked>(&store.snapshot().unwrap());
}

#[test]
fn the_waiting_line_is_bounded_by_count() {
    let store = crooked();
    let go = block(&store);
    let mut receipts = vec![];
    let refused = loop {
        match store.submit(send(receipts.len() as u64)) {
            Ok(receipt) => receipts.push(receipt),
            Err(e) => break e,
        }
        assert!(receipts.len() <= MAX_WAITING_COMMANDS + 1);
    };
    assert_eq!(refused, SubmitError::Busy);
    assert_eq!(receipts.len(), MAX_WAITING_COMMANDS);
    go.wait();
    for receipt in receipts {
        receipt.wait().unwrap();
    }
    store.submit(send(9999)).unwrap().wait().unwrap();
}

#[test]
fn the_waiting_line_is_bounded_by_bytes() {
    let store = crooked();
    let go = block(&store);
    let body: Arc<[u8]> = vec![b'1'; 1 << 21].into();
    let sha256 = sha256(&body);
    let command = |n: usize| {
        CrookedCommand::Bus(BusCommand::Enqueue {
            to: format!("q{n}"),
            payload: Arc::clone(&body),
            sha256,
            msg_id: String::new(),
            limits: WIDE_LIMITS,
        })
    };
    let fits = MAX_WAITING_BYTES / body.len();
    let receipts: Vec<_> = (0..fits)
        .map(|n| store.submit(command(n)).unwrap())
        .collect();
    assert_eq!(store.submit(command(fits)).err(), Some(SubmitError::Busy));
    go.wait();
    for receipt in receipts {
        receipt.wait().unwrap();
    }
    store.submit(command(fits)).unwrap().wait().unwrap();
}

#[test]
fn the_listener_sees_every_record_once_and_in_order() {
    let seen = Arc::new(Mutex::new(vec![]));
    let sink = Arc::clone(&seen);
    let listener = Box::new(move |records: &[Recorded<BusEvent>]| {
        sink.lock().unwrap().extend_from_slice(records);
    });
    let options = OpenOptions::exclusive(Location::Memory);
    let store = Store::<Bus>::open(options, clock(), Some(listener)).unwrap();
    let mut rng = Rng::new(seed());
    for _ in 0..100 {
        let group: Vec<_> = (0..rng.below(6))
            .map(|_| {
                store
                    .submit(bus_command(&mut rng, store.head(), &relayed(&store), START))
                    .unwrap()
            })
            .collect();
        for receipt in group {
            let _ = receipt.wait();
        }
        // What was answered has been seen.
        assert_eq!(seen.lock().unwrap().len() as u64, store.head().0);
    }
    assert!(store.head() > Seq(50));
    assert_eq!(*seen.lock().unwrap(), records(&store.snapshot().unwrap()));
}

/// What random histories never reach, no law of theirs is tested on.
#[test]
fn random_histories_reach_every_kind_of_record_of_a_bus() {
    let clock = clock();
    let options = OpenOptions::exclusive(Location::Memory);
    let store = Store::<Bus>::open(options, clock.clone(), None).unwrap();
    let mut rng = Rng::new(seed());
    let mut missing: BTreeSet<&str> = EventKind::ALL
        .iter()
        .filter(|kind| kind.store() == StoreKind::Bus)
        .map(|kind| kind.name())
        // These take a signature, or an import.
        .filter(|name| !["presence_signed", "presence_forgotten", "queue_imported"].contains(name))
        .collect();
    assert_eq!(missing.len(), 17, "{missing:?}");
    for _ in 0..3_000 {
        let command = bus_command(&mut rng, store.head(), &relayed(&store), clock.now());
        let _ = store.submit(command).unwrap().wait();
        clock.advance(rng.below(2_000));
    }
    for record in records(&store.snapshot().unwrap()) {
        missing.remove(record.event.kind().name());
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_followed_index_equals_the_rebuilt_one_after_random_histories() {
    let first = seed();
    for seed in first..first + if long() { 200 } else { 30 } {
        let store =
            Store::<Bus>::open(OpenOptions::exclusive(Location::Memory), clock(), None).unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..60 {
            let group: Vec<_> = (0..1 + rng.below(4))
                .map(|_| {
                    store
                        .submit(bus_command(&mut rng, store.head(), &relayed(&store), START))
                        .unwrap()
                })
                .collect();
            for receipt in group {
                match receipt.wait() {
                    Ok(_) | Err(CommandError::Refused(_)) => {}
                    Err(e) => panic!("seed {seed}: {e}"),
                }
            }
        }
        let snapshot = store.snapshot().unwrap();
        let rebuilt = Bus::build_index(&snapshot).unwrap();
        store.with_index(|index, _| {
            assert_eq!(describe(index), describe(&rebuilt), "seed {seed}");
        });
        verified::<Bus>(&snapshot);
    }
}

/// Everything that an index says, in a comparable form.
fn describe(index: &QueueIndex) -> Vec<String> {
    let mut out: Vec<_> = index
        .queues()
        .map(|(to, queue)| {
            let items: Vec<_> = queue
                .iter()
                .map(|(seq, item)| (seq, *item, queue.find(&item.sha256)))
                .collect();
            format!("{to:?} {} {} {items:?}", queue.len(), queue.bytes())
        })
        .collect();
    out.sort();
    out.push(format!(
        "{} {} {} {}",
        index.queue_count(),
        index.message_count(),
        index.bytes(),
        index.roster_len()
    ));
    for (at, session) in index.relay().iter() {
        out.push(format!(
            "{at} {:?} {:?} {:?} {} {:?} {:?} {}",
            session.flow,
            session.opened,
            session.used_at,
            session.next,
            session.members,
            session.messages,
            session.bytes
        ));
    }
    out.push(format!("{} {}", index.relay().len(), index.relay().bytes()));
    out.extend(
        index
            .by_age()
            .map(|(seq, item)| format!("{seq} {:?} {:?}", item.at, index.recipient(seq))),
    );
    out
}

#[test]
fn a_large_message_may_push_out_more_small_ones_than_a_record_holds() {
    let store =
        Store::<Bus>::open(OpenOptions::exclusive(Location::Memory), clock(), None).unwrap();
    let count = MAX_ACKS_PER_RECORD as u64 + 5;
    let limits = QueueLimits {
        bytes: 64 * count,
        ..WIDE_LIMITS
    };
    for chunk in (0..count).collect::<Vec<_>>().chunks(400) {
        let receipts: Vec<_> = chunk
            .iter()
            .map(|n| {
                store
                    .submit(enqueue("a", &payload(*n, 64), limits))
                    .unwrap()
            })
            .collect();
        for receipt in receipts {
            receipt.wait().unwrap();
        }
    }
    let large = enqueue("a", &payload(0, 64 * count as usize), limits);
    let BusReply::Enqueued { seq, dropped, .. } = run(&store, large).reply else {
        panic!("not an enqueue");
    };
    assert_eq!(dropped.len() as u64, count);
    assert_eq!(
        seq,
        Seq(count + 3),
        "two records of drops, then the message"
    );
    assert!(store.snapshot().unwrap().body(seq).unwrap().is_some());
    verified::<Bus>(&store.snapshot().unwrap());
}

#[test]
fn a_refusing_queue_keeps_what_it_has() {
    let store =
        Store::<Bus>::open(OpenOptions::exclusive(Location::Memory), clock(), None).unwrap();
    let limits = QueueLimits {
        messages: 1,
        overflow: Overflow::Refuse,
        ..WIDE_LIMITS
    };
    run(&store, enqueue("a", &payload(1, 64), limits));
    let refused = store.submit(enqueue("a", &payload(2, 64), limits)).unwrap();
    let refused = refused.wait();
    assert!(matches!(
        refused,
        Err(CommandError::Refused(BusRefusal::QueueFull {
            messages: 1,
            bytes: 64
        }))
    ));
    assert_eq!(store.head(), Seq(1));
}

/// A store file with a few messages, closed.
fn closed_store(dir: &Path) -> (std::path::PathBuf, Vec<String>) {
    let path = dir.join("bus.redb");
    let options = OpenOptions::exclusive(Location::File(path.clone()));
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    for n in 0..4 {
        run(&store, enqueue("a", &payload(n, 300), WIDE_LIMITS));
    }
    let rows = rows::<Bus>(&store.snapshot().unwrap());
    store.close();
    (path, rows)
}

#[test]
fn a_reader_opens_a_closed_store_and_leaves_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, expected) = closed_store(dir.path());
    let before = fs::read(&path).unwrap();
    let reader = Reader::open(&path, Mode::Exclusive).unwrap();
    assert!(!reader.repaired);
    assert_eq!(reader.kind().unwrap().as_deref(), Some("bus"));
    assert_eq!(rows::<Bus>(&reader.snapshot().unwrap()), expected);
    verified::<Bus>(&reader.snapshot().unwrap());
    drop(reader);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_reader_reads_what_a_crash_left_without_changing_a_byte() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let disk = Disk::new();
        let store = open(&disk, mode).unwrap();
        for n in 0..4 {
            run(&store, enqueue("a", &payload(n, 300), WIDE_LIMITS));
        }
        // As SIGKILL leaves it: the engine had no chance to close.
        let image = disk.bytes();
        let expected = rows::<Bus>(&store.snapshot().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bus.redb");
        fs::write(&path, &image).unwrap();
        let reader = Reader::open(&path, mode).unwrap();
        assert!(reader.repaired, "{mode:?}");
        assert_eq!(rows::<Bus>(&reader.snapshot().unwrap()), expected);
        verified::<Bus>(&reader.snapshot().unwrap());
        drop(reader);
        assert_eq!(fs::read(&path).unwrap(), image, "{mode:?}");
    }
}

#[test]
fn a_store_in_use_is_reported_with_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let options = OpenOptions::exclusive(Location::File(path.clone()));
    let store = Store::<Bus>::open(options.clone(), clock(), None).unwrap();
    let me = Some(std::process::id());
    for result in [
        Store::<Bus>::open(options.clone(), clock(), None).err(),
        Store::<Bus>::open(OpenOptions::shared(options.location), clock(), None).err(),
        Reader::open(&path, Mode::Exclusive).err(),
    ] {
        assert!(
            matches!(result, Some(OpenError::InUse { holder, .. }) if holder == me),
            "{result:?}"
        );
    }
    store.close();
}

#[test]
fn readers_share_a_shared_store_with_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.redb");
    let options = OpenOptions::shared(Location::File(path.clone()));
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    run(&store, enqueue("a", &payload(1, 300), WIDE_LIMITS));
    let reader = Reader::open(&path, Mode::Shared).unwrap();
    assert!(!reader.repaired);
    assert_eq!(reader.snapshot().unwrap().head().unwrap(), Seq(1));
    run(&store, enqueue("a", &payload(2, 300), WIDE_LIMITS));
    assert_eq!(reader.snapshot().unwrap().head().unwrap(), Seq(2));
}

const META: redb::TableDefinition<'static, &str, &[u8]> = redb::TableDefinition::new("meta");

/// Changes one fact about a store behind its back.
fn set_meta(path: &Path, key: &str, value: &[u8]) {
    let db = redb::Database::open(path).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(META).unwrap().insert(key, value).unwrap();
    txn.commit().unwrap();
}

#[test]
fn newer_and_foreign_stores_are_refused_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = closed_store(dir.path());
    let options = OpenOptions::exclusive(Location::File(path.clone()));
    let pristine = fs::read(&path).unwrap();

    set_meta(&path, "format", &7u32.to_le_bytes());
    let newer = Store::<Bus>::open(options.clone(), clock(), None).err();
    assert!(
        matches!(
            newer,
            Some(OpenError::FormatTooNew {
                found: 7,
                supported: 2,
                ..
            })
        ),
        "{newer:?}"
    );

    fs::write(&path, &pristine).unwrap();
    set_meta(&path, "kind", b"agent");
    let foreign = Store::<Bus>::open(options.clone(), clock(), None).err();
    assert!(
        matches!(&foreign, Some(OpenError::WrongKind { found, expected: "bus", .. }) if found == "agent"),
        "{foreign:?}"
    );

    fs::remove_file(&path).unwrap();
    {
        let db = redb::Database::create(&path).unwrap();
        let txn = db.begin_write().unwrap();
        let other: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("theirs");
        txn.open_table(other).unwrap().insert(1, 2).unwrap();
        txn.commit().unwrap();
    }
    let theirs = Store::<Bus>::open(options, clock(), None).err();
    assert!(
        matches!(theirs, Some(OpenError::Corrupt { .. })),
        "{theirs:?}"
    );
    let db = redb::Database::open(&path).unwrap();
    let tables = redb::ReadableDatabase::begin_read(&db)
        .unwrap()
        .list_tables()
        .unwrap()
        .count();
    assert_eq!(tables, 1, "nothing was added to it");
}

#[test]
fn a_store_whose_log_lost_its_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = closed_store(dir.path());
    {
        let db = redb::Database::open(&path).unwrap();
        let txn = db.begin_write().unwrap();
        let log: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("log");
        txn.open_table(log).unwrap().remove(4).unwrap();
        txn.commit().unwrap();
    }
    let reader = Reader::open(&path, Mode::Exclusive).unwrap();
    let found = interlink::store::verify::verify::<Bus>(&reader.snapshot().unwrap(), |_| {});
    assert!(found.is_err());
    drop(reader);
    let options = OpenOptions::exclusive(Location::File(path));
    let refused = Store::<Bus>::open(options, clock(), None).err();
    assert!(
        matches!(refused, Some(OpenError::Corrupt { .. })),
        "{refused:?}"
    );
}

type Bytes<'a> = redb::TableDefinition<'a, &'static [u8], &'static [u8]>;
type Numbered<'a> = redb::TableDefinition<'a, u64, &'static [u8]>;

type Inflict<'a> = &'a dyn Fn(&redb::WriteTransaction);

/// A verifier that finds nothing proves nothing: every kind of damage, and what it says.
#[test]
fn verify_names_what_does_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = closed_store(dir.path());
    let pristine = fs::read(&path).unwrap();
    let log = Numbered::new("log");
    let bodies = Numbered::new("bodies");
    let pending = Bytes::new("pending");
    let roster = Bytes::new("roster");
    let frame = |seq: u64, kind: u16| {
        let mut out = vec![];
        let frame = interlink::codec::frame::Frame {
            kind,
            version: 1,
            seq: Seq(seq),
            recorded_at: START,
            payload: &[],
        };
        interlink::codec::frame::encode(&frame, &mut out).unwrap();
        out
    };
    let key = Seq(2).to_key();
    let damage: [(&str, Inflict<'_>); 9] = [
        ("record 3 is missing", &|t| {
            t.open_table(log).unwrap().remove(3).unwrap();
        }),
        ("record 1 is missing", &|t| {
            t.open_table(log).unwrap().remove(1).unwrap();
        }),
        ("frame of position 9 stands at position 2", &|t| {
            t.open_table(log)
                .unwrap()
                .insert(2, &frame(9, 1)[..])
                .unwrap();
        }),
        ("newer interlink", &|t| {
            t.open_table(log)
                .unwrap()
                .insert(2, &frame(2, 60_000)[..])
                .unwrap();
        }),
        ("stored row absent", &|t| {
            t.open_table(pending).unwrap().remove(&key[..]).unwrap();
        }),
        ("the log gives absent", &|t| {
            t.open_table(roster)
                .unwrap()
                .insert(&b"x"[..], &b"y"[..])
                .unwrap();
        }),
        ("body 2 is damaged", &|t| {
            t.open_table(bodies)
                .unwrap()
                .insert(2, &b"other"[..])
                .unwrap();
        }),
        ("body 2 is missing", &|t| {
            t.open_table(bodies).unwrap().remove(2).unwrap();
        }),
        ("body 77 belongs to nothing", &|t| {
            t.open_table(bodies).unwrap().insert(77, &b"z"[..]).unwrap();
        }),
    ];
    for (expected, inflict) in damage {
        fs::write(&path, &pristine).unwrap();
        {
            let db = redb::Database::open(&path).unwrap();
            let txn = db.begin_write().unwrap();
            inflict(&txn);
            txn.commit().unwrap();
        }
        let reader = Reader::open(&path, Mode::Exclusive).unwrap();
        let found = interlink::store::verify::verify::<Bus>(&reader.snapshot().unwrap(), |_| {});
        let said = found.expect_err(expected).to_string();
        assert!(
            said.contains(expected),
            "{said:?} does not say {expected:?}"
        );
    }
}

#[test]
fn rows_of_another_version_are_rebuilt_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (path, expected) = closed_store(dir.path());
    let options = OpenOptions::exclusive(Location::File(path.clone()));
    for (key, value) in [
        ("projection/pending", &9u16.to_le_bytes()[..]),
        ("projection/roster", &[]),
    ] {
        set_meta(&path, key, value);
        let store = Store::<Bus>::open(options.clone(), clock(), None).unwrap();
        assert_eq!(rows::<Bus>(&store.snapshot().unwrap()), expected);
        verified::<Bus>(&store.snapshot().unwrap());
    }
}

#[test]
fn damaged_files_are_errors_and_never_panics() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = closed_store(dir.path());
    let whole = fs::read(&path).unwrap();
    let seed = seed();
    let mut rng = Rng::new(seed);
    let mut images = vec![
        ("empty".to_owned(), vec![]),
        ("one byte".to_owned(), vec![0]),
        ("text".to_owned(), b"this is not a store\n".repeat(1000)),
        ("noise".to_owned(), rng.bytes(1 << 20)),
        ("zeros".to_owned(), vec![0; 1 << 20]),
    ];
    for _ in 0..if long() { 400 } else { 20 } {
        let cut = rng.index(whole.len());
        images.push((format!("truncated to {cut}"), whole[..cut].to_vec()));
    }
    for _ in 0..if long() { 2000 } else { 60 } {
        let mut image = whole.clone();
        let used = [4096, 64 << 10, whole.len()][rng.index(3)].min(whole.len());
        let at = rng.index(used);
        let n = [1, 16, 600][rng.index(3)].min(image.len() - at);
        let noise = rng.bytes(n);
        image[at..at + n].copy_from_slice(&noise);
        images.push((format!("{n} bytes of noise at {at}"), image));
    }
    let (mut opened, mut refused) = (0, 0);
    for (what, image) in images {
        for mode in [Mode::Exclusive, Mode::Shared] {
            let mut file = fs::File::create(&path).unwrap();
            file.write_all(&image).unwrap();
            drop(file);
            let reader = catch_unwind(|| match Reader::open(&path, mode) {
                Ok(reader) => {
                    // Reading damaged pages must not panic either.
                    let snapshot = reader.snapshot();
                    snapshot
                        .is_ok_and(|s| interlink::store::verify::verify::<Bus>(&s, |_| {}).is_ok())
                }
                Err(_) => false,
            });
            assert!(reader.is_ok(), "{what}, {mode:?}: a reader panicked");
            let location = Location::File(path.clone());
            let options = match mode {
                Mode::Exclusive => OpenOptions::exclusive(location),
                Mode::Shared => OpenOptions::shared(location),
            };
            let open = AssertUnwindSafe(|| Store::<Bus>::open(options, clock(), None));
            match catch_unwind(open) {
                Ok(Ok(store)) => {
                    opened += 1;
                    // Unused bytes were hit, or a whole older state was found.
                    if mode == Mode::Exclusive {
                        verified::<Bus>(&store.snapshot().unwrap());
                    }
                }
                Ok(Err(
                    OpenError::Corrupt { .. } | OpenError::Engine { .. } | OpenError::File { .. },
                )) => {
                    refused += 1;
                }
                Ok(Err(e)) => panic!("{what}, {mode:?}: {e:?}"),
                Err(_) => panic!("{what}, {mode:?}: panicked"),
            }
        }
    }
    println!("seed {seed}: opened {opened}, refused {refused}");
    assert!(opened > 0 && refused > 0);
}

#[test]
fn leftovers_of_a_crashed_creation_do_not_hinder() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".interlink-new-abc123"), b"half a store").unwrap();
    let (path, _) = closed_store(dir.path());
    assert!(path.exists());
    let options = OpenOptions::exclusive(Location::File(path));
    assert_eq!(
        Store::<Bus>::open(options, clock(), None).unwrap().head(),
        Seq(4)
    );
}

#[test]
fn commands_after_close_are_answered() {
    let store = crooked();
    let go = block(&store);
    let waiting = store.submit(send(1)).unwrap();
    let closing = std::thread::spawn(move || store.close());
    go.wait();
    closing.join().unwrap();
    // Decided before the stop, or certainly not: never left hanging.
    let answer = waiting.wait();
    assert!(
        matches!(answer, Ok(_) | Err(CommandError::Closed)),
        "{answer:?}"
    );
}

#[test]
fn clock_jumps_change_times_and_nothing_else() {
    let disk = Disk::new();
    let clock = clock();
    let options = super::support::on_disk(&disk, Mode::Exclusive);
    let store = Store::<Bus>::open(options, clock.clone(), None).unwrap();
    for (n, at) in [START.0, 0, u64::MAX, START.0].into_iter().enumerate() {
        clock.set(UnixMillis(at));
        let done = run(&store, enqueue("a", &payload(n as u64, 64), WIDE_LIMITS));
        assert_eq!(done.seq, Seq(n as u64 + 1));
    }
    let expire = BusCommand::ExpireMessages {
        before: START,
        max: 10,
    };
    assert_eq!(run(&store, expire).reply, BusReply::Expired { count: 3 });
    verified::<Bus>(&store.snapshot().unwrap());
}
