//! The law of compaction: a store that is compacted at any time, anywhere, holds the rows of one
//! that is not, and decides alike.

use std::fs;
use std::time::{Duration, Instant};

use interlink::domain::Domain;
use interlink::domain::decide::agent::{Agent, AgentCommand, AgentReply};
use interlink::domain::decide::bus::{Bus, BusCommand};
use interlink::domain::projection::Projection;
use interlink::domain::projection::bus::{Pending, PendingRow};
use interlink::domain::tables::{MemTables, TableId, Tables, get_row};
use interlink::store::{
    CommandError, Committed, CompactError, Compacted, Cut, Location, Mode, OpenOptions, Retention,
    Store, copy_to, shrink,
};
use interlink::testkit::sample::{WIDE_LIMITS, bus_command, enqueue, payload};
use interlink::testkit::sample_agent::agent_history;
use interlink::testkit::sample_bond::bond_history;
use interlink::testkit::sample_care::care_history;
use interlink::testkit::sample_directory::directory_history;
use interlink::testkit::sample_host::host_history;
use interlink::testkit::sample_pairing::pairing_history;
use interlink::testkit::{Disk, FakeClock, Rng};
use interlink::types::seq::Seq;
use interlink::types::time::{Clock, UnixMillis};

use super::support::{START, clock, long, on_disk, queued, relayed, rows, run, seed, verified};

const LONG_ENOUGH: Duration = Duration::from_secs(30);

fn until(seq: u64) -> Cut {
    Cut {
        until: Seq(seq),
        ..Cut::ALL
    }
}

fn compact<D: Domain>(store: &Store<D>, cut: Cut) -> Compacted {
    let done = store.compact(cut, LONG_ENOUGH).unwrap().wait().unwrap();
    assert!(done.done);
    done
}

/// Two stores that are given the same commands; one of them is compacted now and then.
struct Twins<D: Domain> {
    plain: Store<D>,
    compacted: Option<Store<D>>,
    disk: Disk,
    mode: Mode,
    clock: std::sync::Arc<FakeClock>,
    rng: Rng,
}

impl<D: Domain> Twins<D>
where
    D::Command: Clone,
    D::Reply: PartialEq + std::fmt::Debug,
    D::Refusal: PartialEq,
{
    fn new(mode: Mode, seed: u64) -> Self {
        let clock = clock();
        let open = |disk: &Disk| Store::open(on_disk(disk, mode), clock.clone(), None).unwrap();
        let disk = Disk::new();
        Twins {
            plain: open(&Disk::new()),
            compacted: Some(open(&disk)),
            disk,
            mode,
            clock,
            rng: Rng::new(seed),
        }
    }

    fn compacted(&self) -> &Store<D> {
        self.compacted.as_ref().unwrap()
    }

    fn submit(&mut self, command: D::Command) -> Option<D::Reply> {
        let submit = |store: &Store<D>| match store.submit(command.clone()).unwrap().wait() {
            Ok(Committed { seq, reply }) => Ok((seq, reply)),
            Err(CommandError::Refused(refusal)) => Err(refusal),
            Err(e) => panic!("{e}"),
        };
        let (plain, folded) = (submit(&self.plain), submit(self.compacted()));
        assert_eq!(plain, folded);
        self.meddle();
        plain.ok().map(|(_, reply)| reply)
    }

    /// Compacts up to some record, reopens, rebuilds, or leaves things alone.
    fn meddle(&mut self) {
        let head = self.plain.head().0;
        match self.rng.below(8) {
            0 => {
                let cut = until(self.rng.below(head + 2));
                compact(self.compacted(), cut);
            }
            1 => {
                compact(self.compacted(), Cut::ALL);
                let snapshot = self.compacted().snapshot().unwrap();
                assert_eq!(snapshot.base().unwrap().0, head.saturating_sub(1));
            }
            2 => {
                self.compacted.take().unwrap().close();
                let options = OpenOptions {
                    rebuild: self.rng.below(2) == 0,
                    ..on_disk(&self.disk, self.mode)
                };
                let store = Store::open(options, self.clock.clone(), None).unwrap();
                assert_eq!(store.head().0, head);
                self.compacted = Some(store);
            }
            _ => {}
        }
    }

    fn compare(self) {
        let plain = self.plain.snapshot().unwrap();
        let folded = self.compacted().snapshot().unwrap();
        assert_eq!(rows::<D>(&plain), rows::<D>(&folded));
        let replayed = folded.replay::<D>().unwrap();
        assert_eq!(rows::<D>(&plain), rows::<D>(&replayed));
        verified::<D>(&folded);
    }
}

#[test]
fn a_compacted_bus_decides_like_one_that_is_not() {
    let first = seed();
    for seed in first..first + if long() { 400 } else { 20 } {
        let mode = [Mode::Exclusive, Mode::Shared][usize::from(seed % 4 == 0)];
        println!("seed {seed}, {mode:?}");
        let mut twins = Twins::<Bus>::new(mode, seed);
        let mut rng = Rng::new(seed ^ 0x5eed);
        for _ in 0..60 {
            let sessions = relayed(&twins.plain);
            let command = bus_command(&mut rng, twins.plain.head(), &sessions, twins.clock.now());
            twins.submit(command);
            twins.clock.advance(rng.below(2_000));
        }
        twins.compare();
    }
}

#[test]
fn a_compacted_identity_decides_like_one_that_is_not() {
    type History = fn(UnixMillis, &mut dyn FnMut(AgentCommand) -> AgentReply);
    let histories: [History; 6] = [
        agent_history,
        pairing_history,
        directory_history,
        host_history,
        care_history,
        |_, run| bond_history(run),
    ];
    let first = seed();
    for seed in first..first + if long() { 40 } else { 3 } {
        for (n, history) in histories.iter().enumerate() {
            println!("seed {seed}, history {n}");
            let mut twins = Twins::<Agent>::new(Mode::Shared, seed);
            history(START, &mut |command| twins.submit(command).unwrap());
            twins.compare();
        }
    }
}

#[test]
fn a_cut_by_time_stops_at_the_first_record_that_is_younger() {
    let clock = clock();
    let options = OpenOptions::exclusive(Location::Memory);
    let store = Store::<Bus>::open(options, clock.clone(), None).unwrap();
    for n in 0..10 {
        run(&store, enqueue("q", &payload(n, 60), WIDE_LIMITS));
        clock.advance(1_000);
    }
    let cut = Cut {
        until: Seq::ZERO,
        before: START.plus(4_000),
    };
    let expected = store.snapshot().unwrap().foldable(cut).unwrap();
    let done = compact(&store, cut);
    assert_eq!(done, expected);
    assert_eq!((done.records, done.base, done.head), (4, Seq(4), Seq(10)));
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.first().unwrap(), Some(Seq(5)));
    assert_eq!(snapshot.body(Seq(1)).unwrap(), Some(payload(0, 60)));
}

#[test]
fn a_compaction_that_runs_out_of_time_goes_on_when_asked_again() {
    let options = OpenOptions::exclusive(Location::Memory);
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    for hundred in 0..100 {
        let receipts: Vec<_> = (0..100)
            .map(|n| enqueue("q", &payload(hundred * 100 + n, 60), WIDE_LIMITS))
            .map(|command| store.submit(command).unwrap())
            .collect();
        receipts.into_iter().for_each(|r| assert!(r.wait().is_ok()));
    }
    let mut slices = 0;
    let mut folded = 0;
    loop {
        let done = store.compact(Cut::ALL, Duration::ZERO).unwrap();
        let done = done.wait().unwrap();
        slices += 1;
        folded += done.records;
        verified::<Bus>(&store.snapshot().unwrap());
        if done.done {
            break;
        }
    }
    assert!(slices > 2, "{slices} slices");
    assert_eq!(folded, store.head().0 - 1);
}

#[test]
fn one_compaction_runs_at_a_time_and_no_answer_is_lost() {
    let options = OpenOptions::exclusive(Location::Memory);
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    let send = |n: u64| {
        let receipts: Vec<_> = (0..100)
            .map(|i| enqueue("q", &payload(n * 100 + i, 60), WIDE_LIMITS))
            .map(|command| store.submit(command).unwrap())
            .collect();
        receipts.into_iter().for_each(|r| assert!(r.wait().is_ok()));
    };
    (0..60).for_each(send);
    std::thread::scope(|scope| {
        let askers = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut answers = 0;
                while answers < 3 {
                    match store.compact(Cut::ALL, LONG_ENOUGH) {
                        Ok(asked) => match asked.wait() {
                            Ok(_) => answers += 1,
                            Err(CompactError::Running) => {}
                            Err(e) => panic!("{e}"),
                        },
                        Err(CompactError::Running) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            })
        });
        let mut n = 60;
        while askers.iter().any(|asker| !asker.is_finished()) {
            send(n);
            n += 1;
        }
    });
}

#[test]
fn a_closed_store_answers_that_it_is_closed() {
    let options = OpenOptions::exclusive(Location::Memory);
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    store.finish();
    let asked = store.compact(Cut::ALL, LONG_ENOUGH).unwrap();
    assert!(matches!(asked.wait(), Err(CompactError::Unwritable { .. })));
}

fn wait_for<D: Domain>(store: &Store<D>, what: &str, ok: impl Fn(&Store<D>) -> bool) {
    let deadline = Instant::now() + LONG_ENOUGH;
    while !ok(store) {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn what_exceeds_the_retention_leaves_by_itself() {
    let clock = clock();
    for (age_ms, bytes, left) in [
        (0, u64::MAX, 1),
        (5_000, u64::MAX, 6),
        (u64::MAX, 2_000, 40),
    ] {
        let options = OpenOptions {
            retention: Some(Retention { age_ms, bytes }),
            ..OpenOptions::exclusive(Location::Memory)
        };
        let store = Store::<Bus>::open(options, clock.clone(), None).unwrap();
        for n in 0..200 {
            clock.advance(1_000);
            let sent = run(&store, enqueue("q", &payload(n, 60), WIDE_LIMITS));
            let seqs = vec![queued(&sent.reply)];
            run(
                &store,
                BusCommand::Ack {
                    me: "q".into(),
                    seqs,
                },
            );
        }
        wait_for(&store, "nothing was compacted", |store| {
            let size = store.snapshot().unwrap().log_size().unwrap();
            size.records <= left * 2
        });
        verified::<Bus>(&store.snapshot().unwrap());
        assert_eq!(store.head(), Seq(400));
    }
}

#[test]
fn a_busy_store_that_keeps_nothing_does_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    let cycles = if long() { 1_000_000 } else { 60_000 };
    let mut sizes = vec![];
    for cycles in [cycles / 10, cycles] {
        let path = dir.path().join(format!("{cycles}.redb"));
        let options = OpenOptions {
            retention: Some(Retention {
                age_ms: 0,
                bytes: 0,
            }),
            checkpoint_idle: Some(Duration::from_millis(1)),
            ..OpenOptions::exclusive(Location::File(path.clone()))
        };
        let store = Store::<Bus>::open(options, clock(), None).unwrap();
        for n in 0..cycles / 100 {
            let sent: Vec<_> = (0..100)
                .map(|i| enqueue("peer#s1", &payload(n * 100 + i, 300), WIDE_LIMITS))
                .map(|command| store.submit(command).unwrap())
                .collect();
            let seqs = sent.into_iter().map(|r| queued(&r.wait().unwrap().reply));
            let me = "peer#s1".to_owned();
            let seqs = seqs.collect();
            run(&store, BusCommand::Ack { me, seqs });
        }
        wait_for(&store, "the log is not compacted", |store| {
            store.snapshot().unwrap().log_size().unwrap().records <= 1
        });
        store.close();
        sizes.push(fs::metadata(&path).unwrap().len());
    }
    println!("{sizes:?}");
    // A few pages more or less are a matter of when slices ran.
    let bound = if long() {
        sizes[0].max(1 << 20)
    } else {
        2 << 20
    };
    assert!(sizes[1] <= bound, "the file grew: {sizes:?}");
    let path = dir.path().join(format!("{cycles}.redb"));
    let (before, after) = shrink(&path).unwrap();
    assert!(after < before / 2, "{before} {after}");
}

#[test]
fn a_copy_of_a_compacted_store_is_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let options = OpenOptions::exclusive(Location::File(path));
    let store = Store::<Bus>::open(options, clock(), None).unwrap();
    for n in 0..50 {
        run(&store, enqueue("q", &payload(n, 200), WIDE_LIMITS));
    }
    compact(&store, until(30));
    let copy = dir.path().join("copy.redb");
    let snapshot = store.snapshot().unwrap();
    copy_to(&snapshot, &copy).unwrap();
    assert!(copy_to(&snapshot, &copy).is_err(), "a copy was overwritten");
    let options = OpenOptions::exclusive(Location::File(copy));
    let other = Store::<Bus>::open(options, clock(), None).unwrap();
    let copied = other.snapshot().unwrap();
    assert_eq!(rows::<Bus>(&snapshot), rows::<Bus>(&copied));
    assert_eq!(copied.base().unwrap(), Seq(30));
    verified::<Bus>(&copied);
    assert_eq!(
        run(&other, enqueue("q", b"{}", WIDE_LIMITS)).seq,
        store.head().next()
    );
}

/// What a base of the first version of the rows becomes.
#[test]
fn base_rows_of_an_older_version_are_converted() {
    #[derive(serde::Serialize)]
    struct Old {
        to: String,
        at: UnixMillis,
        len: u32,
        sha256: [u8; 32],
    }
    let mut tables = MemTables::new();
    let old = Old {
        to: "q".into(),
        at: START,
        len: 7,
        sha256: [9; 32],
    };
    let key = Seq(5).to_key();
    interlink::domain::tables::put_row(&mut tables, TableId::Pending, &key, &old).unwrap();
    Pending.upgrade(1, &mut tables).unwrap();
    let row: PendingRow = get_row(&tables, TableId::Pending, &key).unwrap().unwrap();
    assert_eq!((row.to.as_str(), row.at, row.len), ("q", START, 7));
    assert_eq!((row.sha256, row.msg_id.as_str()), ([9; 32], ""));
    assert!(Pending.upgrade(7, &mut tables).is_err());
    assert!(tables.delete(TableId::Pending, &key).unwrap());
}
