//! The power fails at every write and every sync of a run; what is left must open, verify, and be a
//! prefix of what happened that has everything that was acknowledged.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use interlink::domain::Domain;
use interlink::domain::decide::agent::{Agent, AgentCommand, AgentReply};
use interlink::domain::decide::bus::{Bus, BusCommand, RelayCommand};
use interlink::event::bus_rendezvous::RelayFlow;
use interlink::store::{Cut, Location, Mode, OpenOptions, Store};
use interlink::testkit::power::PLAIN_VARIANTS;
use interlink::testkit::sample::{SMALL_LIMITS, WIDE_LIMITS, bus_command, enqueue, payload};
use interlink::testkit::sample_agent::{agent_history, take_lease};
use interlink::testkit::sample_care::care_history;
use interlink::testkit::sample_pairing::pairing_history;
use interlink::testkit::sample_rendezvous::{relay_join, relay_leave, relay_open, relay_send};
use interlink::testkit::{Disk, Journal, Rng};
use interlink::types::limit::RELAY_TTL_MS;
use interlink::types::seq::Seq;
use interlink::types::time::UnixMillis;

use super::support::{clock, long, on_disk, open, queued, run, seed, verified};

/// A run on a disk that recorded it.
struct History {
    journal: Journal,
    mode: Mode,
    /// The bytes of every record.
    frames: Vec<Vec<u8>>,
    /// Heads after each transaction.
    boundaries: BTreeSet<u64>,
    /// (operations done, head) whenever everything that was submitted had been answered.
    acked: Vec<(usize, u64)>,
}

/// A store on a recording disk.
struct Recorder {
    disk: Disk,
    mode: Mode,
    store: Store<Bus>,
    boundaries: Arc<Mutex<BTreeSet<u64>>>,
    acked: Vec<(usize, u64)>,
    frames: Arc<Mutex<Vec<Vec<u8>>>>,
    checkpoints: bool,
    /// Folds this many of the oldest records after each group.
    folds: u64,
}

impl Recorder {
    fn new(mode: Mode) -> Self {
        Recorder::with(mode, None)
    }

    /// With a checkpoint after each lone command and each batch.
    fn with(mode: Mode, checkpoint_idle: Option<Duration>) -> Self {
        let disk = Disk::new();
        disk.record();
        let boundaries = Arc::new(Mutex::new(BTreeSet::from([0])));
        let seen = Arc::clone(&boundaries);
        let frames = Arc::new(Mutex::new(vec![]));
        let log = Arc::clone(&frames);
        let listener = Box::new(move |records: &[_]| {
            let last: &interlink::event::Recorded<interlink::event::bus::BusEvent> =
                records.last().unwrap();
            seen.lock().unwrap().insert(last.seq.0);
            let frames = records.iter().map(|record| record.to_frame().unwrap());
            log.lock().unwrap().extend(frames);
        });
        let options = interlink::store::OpenOptions {
            checkpoint_idle,
            ..on_disk(&disk, mode)
        };
        let store = Store::open(options, clock(), Some(listener)).unwrap();
        let acked = vec![(disk.mark(), 0)];
        Recorder {
            disk,
            mode,
            store,
            boundaries,
            acked,
            frames,
            checkpoints: checkpoint_idle.is_some(),
            folds: 0,
        }
    }

    /// Submits a group of commands and waits for all.
    fn group(&mut self, commands: Vec<BusCommand>) {
        let receipts: Vec<_> = commands
            .into_iter()
            .map(|command| self.store.submit(command).unwrap())
            .collect();
        for receipt in receipts {
            // Refusals are fine here; nothing else is.
            match receipt.wait() {
                Ok(_) | Err(interlink::store::CommandError::Refused(_)) => {}
                Err(e) => panic!("{e}"),
            }
        }
        self.acked.push((self.disk.mark(), self.store.head().0));
        if self.folds > 0 {
            let base = self.store.snapshot().unwrap().base().unwrap();
            let cut = Cut {
                until: Seq(base.0 + self.folds),
                ..Cut::ALL
            };
            let folded = self.store.compact(cut, Duration::from_secs(20)).unwrap();
            assert!(folded.wait().unwrap().done);
        }
    }

    fn finish(self) -> History {
        if self.checkpoints {
            let deadline = Instant::now() + Duration::from_secs(20);
            let data = self.boundaries.lock().unwrap().len() as u64 - 1;
            while self.store.commits() <= data {
                assert!(Instant::now() < deadline, "no checkpoint was made");
                std::thread::yield_now();
            }
        }
        // Closing writes too.
        self.store.close();
        let boundaries = self.boundaries.lock().unwrap().clone();
        let frames = self.frames.lock().unwrap().clone();
        History {
            journal: self.disk.journal(),
            mode: self.mode,
            frames,
            boundaries,
            acked: self.acked,
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    cuts: usize,
    images: usize,
    /// Images from before the store was first opened that are no store: a new store file gets its
    /// name only when it is complete, so nobody ever opens these.
    unborn: usize,
}

/// Cuts the power at every operation, with the plain variants and `random` random ones each.
fn cut_everywhere(history: &History, random: u64, seed: u64) -> Tally {
    let next = || enqueue("after", &payload(7, 64), WIDE_LIMITS);
    cut_everywhere_in::<Bus>(history, random, seed, &next)
}

/// As [`cut_everywhere`]; `next` makes a command that appends one record, whatever came before.
fn cut_everywhere_in<D: Domain>(
    history: &History,
    random: u64,
    seed: u64,
    next: &dyn Fn() -> D::Command,
) -> Tally {
    let mut tally = Tally::default();
    let mut cuts = history.journal.cuts();
    loop {
        tally.cuts += 1;
        let variants = match cuts.unsynced() {
            0 => 1,
            _ => PLAIN_VARIANTS + random,
        };
        for variant in 0..variants {
            let variant = match variant {
                0..PLAIN_VARIANTS => variant,
                n => seed.wrapping_add(n).max(PLAIN_VARIANTS),
            };
            let promised = history.acked.iter().any(|(mark, _)| *mark == cuts.at());
            if variant == 0 && cuts.unsynced() > 1 && !promised {
                // The same bytes and the same promises as at the cut before.
                continue;
            }
            tally.images += 1;
            let image = cuts.image(variant);
            check::<D>(history, cuts.at(), variant, image, &mut tally, next);
        }
        if !cuts.advance() {
            return tally;
        }
    }
}

/// The way into a file is another one than into a disk of the tests.
fn opens_as_a_file<D: Domain>(image: &[u8], what: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    std::fs::write(&path, image).unwrap();
    let options = OpenOptions::exclusive(Location::File(path));
    let store = Store::<D>::open(options, clock(), None);
    let store = store.unwrap_or_else(|e| panic!("{what}, as a file: {e}"));
    verified::<D>(&store.snapshot().unwrap());
    store.close();
}

fn check<D: Domain>(
    history: &History,
    at: usize,
    variant: u64,
    image: Vec<u8>,
    tally: &mut Tally,
    more: &dyn Fn() -> D::Command,
) {
    let born = history.acked[0].0 <= at;
    let what = format!("cut {at}, variant {variant}, {:?}", history.mode);
    if born && tally.images.is_multiple_of(11) {
        opens_as_a_file::<D>(&image, &what);
    }
    let disk = Disk::with_bytes(image);
    let opened = Store::<D>::open(on_disk(&disk, history.mode), clock(), None);
    let store = match opened {
        Ok(store) => store,
        Err(_) if !born => {
            tally.unborn += 1;
            return;
        }
        Err(e) => panic!("{what}: {e}"),
    };
    let acked = history.acked.iter().rfind(|(mark, _)| *mark <= at);
    let floor = acked.map_or(0, |(_, head)| *head);
    let next = history.acked.iter().find(|(mark, _)| *mark > at);
    let ceiling = next.map_or(floor, |(_, head)| *head);
    let head = store.head().0;
    assert!(floor <= head, "{what}: acknowledged {floor}, found {head}");
    assert!(head <= ceiling, "{what}: submitted {ceiling}, found {head}");
    assert!(
        history.boundaries.contains(&head),
        "{what}: {head} is inside a transaction"
    );
    let snapshot = store.snapshot().unwrap();
    let mut n = usize::try_from(snapshot.base().unwrap().0).unwrap();
    snapshot
        .frames(Seq::ZERO, |seq, bytes| {
            assert_eq!(history.frames[n], bytes, "{what}: record {seq}");
            n += 1;
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(n as u64, head, "{what}");
    verified::<D>(&snapshot);
    drop(snapshot);
    if (at + tally.images).is_multiple_of(7) {
        // Life goes on.
        let done = store.submit(more()).unwrap().wait();
        assert!(done.is_ok(), "{what}");
        assert_eq!(store.head().0, head + 1, "{what}");
        verified::<D>(&store.snapshot().unwrap());
    }
    store.close();
}

/// Every kind of event, batches, a file that grows, and bodies that span pages.
fn scripted(mode: Mode) -> History {
    scripted_on(Recorder::new(mode))
}

fn scripted_on(mut recorder: Recorder) -> History {
    let send = |n: u64, len| enqueue("peer#s1", &payload(n, len), SMALL_LIMITS);
    recorder.group(vec![send(1, 200)]);
    recorder.group(vec![send(2, 3000)]);
    recorder.group(vec![BusCommand::Announce {
        entry: "peer#s1".into(),
        announcement: payload(1, 300).into(),
        max_entries: 2,
    }]);
    recorder.group((3..9).map(|n| send(n, 600)).collect());
    recorder.group(vec![BusCommand::Ack {
        me: "peer#s1".into(),
        seqs: (1..9).map(Seq).collect(),
    }]);
    let large = enqueue("big", &payload(20, 500_000), WIDE_LIMITS);
    recorder.group(vec![large]);
    let reply = run(
        &recorder.store,
        enqueue("big", &payload(21, 300_000), WIDE_LIMITS),
    )
    .reply;
    recorder.group(vec![
        BusCommand::LoseBody {
            seq: queued(&reply),
        },
        enqueue("big", &payload(22, 700_000), WIDE_LIMITS),
    ]);
    // The clock stands still, so that sessions are over only when a command says so.
    let start = super::support::START;
    recorder.group(vec![
        relay_open(1, 0x11, RelayFlow::Ordinary, start),
        relay_join(1, 0x12, start),
        relay_send(1, 0x12, 1, 3000, start),
    ]);
    let session = recorder.store.with_index(|index, _| {
        let (at, _) = index.relay().find(&[1; 32]).unwrap();
        at
    });
    recorder.group(vec![relay_open(2, 0x21, RelayFlow::Lossless, start)]);
    recorder.group(vec![
        relay_send(2, 0x21, 2, 2000, start),
        relay_leave(1, 0x12, start),
        BusCommand::Relay(RelayCommand::Touch { session }),
        relay_leave(2, 0x21, start),
    ]);
    recorder.group(vec![BusCommand::Relay(RelayCommand::End {
        session: None,
        now: start.plus(RELAY_TTL_MS),
        max: 8,
    })]);
    recorder.group(vec![
        BusCommand::Seen {
            entries: vec![interlink::event::bus::SeenAt {
                entry: "peer#s1".into(),
                at: super::support::START.plus(5),
            }],
        },
        BusCommand::Unregister {
            entry: "peer#s1".into(),
        },
        BusCommand::ExpireMessages {
            before: super::support::START,
            max: 2,
        },
    ]);
    recorder.finish()
}

fn random(mode: Mode, seed: u64, groups: usize) -> History {
    let mut rng = Rng::new(seed);
    let mut recorder = Recorder::new(mode);
    for _ in 0..groups {
        let head = recorder.store.head();
        let sessions = super::support::relayed(&recorder.store);
        let commands = (0..1 + rng.below(5))
            .map(|_| bus_command(&mut rng, head, &sessions, super::support::START))
            .collect();
        recorder.group(commands);
    }
    recorder.finish()
}

fn one_message(mode: Mode) -> History {
    let mut recorder = Recorder::new(mode);
    recorder.group(vec![enqueue("a", &payload(1, 64), WIDE_LIMITS)]);
    recorder.finish()
}

fn scripted_run_survives(mode: Mode) {
    let seed = seed();
    let history = scripted(mode);
    let tally = cut_everywhere(&history, if long() { 24 } else { 3 }, seed);
    println!("{mode:?}: {tally:?}");
    assert!(tally.cuts > 100, "{tally:?}");
    assert_eq!(tally.cuts, history.journal.len() + 1);
    assert!(tally.unborn < tally.images / 4, "{tally:?}");
}

fn random_runs_survive(mode: Mode) {
    let (runs, groups, variants) = if long() { (24, 40, 12) } else { (2, 12, 2) };
    let first = seed();
    for seed in first..first + runs {
        println!("seed {seed}");
        let tally = cut_everywhere(&random(mode, seed, groups), variants, seed);
        println!("{mode:?}: {tally:?}");
    }
}

#[test]
fn scripted_run_of_an_exclusive_store() {
    scripted_run_survives(Mode::Exclusive);
}

#[test]
fn scripted_run_with_checkpoints() {
    let seed = seed();
    let recorder = Recorder::with(Mode::Exclusive, Some(Duration::ZERO));
    let history = scripted_on(recorder);
    let tally = cut_everywhere(&history, if long() { 24 } else { 3 }, seed);
    println!("{tally:?}");
    assert!(tally.cuts > 100, "{tally:?}");
}

#[test]
fn scripted_run_that_is_compacted() {
    let seed = seed();
    for (mode, folds) in [(Mode::Exclusive, 3), (Mode::Shared, 1_000)] {
        let mut recorder = Recorder::new(mode);
        recorder.folds = folds;
        let tally = cut_everywhere(&scripted_on(recorder), if long() { 24 } else { 3 }, seed);
        println!("{mode:?}: {tally:?}");
        assert!(tally.cuts > 100, "{tally:?}");
    }
}

#[test]
fn scripted_run_of_a_shared_store() {
    scripted_run_survives(Mode::Shared);
}

#[test]
fn random_runs_of_an_exclusive_store() {
    random_runs_survive(Mode::Exclusive);
}

#[test]
fn random_runs_of_a_shared_store() {
    random_runs_survive(Mode::Shared);
}

/// The checks above prove nothing unless they catch a disk that lies about its syncs.
#[test]
fn a_disk_that_ignores_syncs_is_caught() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut history = one_message(mode);
        history.journal = history.journal.without_syncs();
        let caught = std::panic::catch_unwind(|| cut_everywhere(&history, 0, 1)).unwrap_err();
        let said = caught.downcast_ref::<String>().unwrap();
        assert!(said.contains("acknowledged 1, found 0"), "{mode:?}: {said}");
    }
}

/// Two writers take turns on one disk; the power takes both.
#[cfg(unix)]
#[test]
fn two_writers_of_a_shared_store() {
    use super::multiprocess::{Ledger, Line};

    let disk = Disk::new();
    disk.record();
    let options = on_disk(&disk, Mode::Shared);
    let stores = [(); 2].map(|()| Store::<Ledger>::open(options.clone(), clock(), None).unwrap());
    let mut acked = vec![(disk.mark(), 0)];
    for n in 0..if long() { 60 } else { 8u64 } {
        let store = &stores[usize::from(n % 3 == 0)];
        let done = store.submit(Line::Append(format!("line {n}"))).unwrap();
        assert_eq!(done.wait().unwrap().reply, Seq(n + 1));
        acked.push((disk.mark(), n + 1));
    }
    let mut frames = vec![];
    let snapshot = stores[0].snapshot().unwrap();
    snapshot
        .frames(Seq::ZERO, |_, bytes| {
            frames.push(bytes.to_vec());
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    drop(snapshot);
    stores.into_iter().for_each(Store::close);
    let history = History {
        journal: disk.journal(),
        mode: Mode::Shared,
        boundaries: (0..=frames.len() as u64).collect(),
        frames,
        acked,
    };
    println!("{:?}", cut_everywhere(&history, 3, seed()));
}

/// An identity's store, every kind of its events.
#[test]
fn scripted_run_of_an_identity() {
    identity_survives(agent_history);
}

#[test]
fn scripted_run_of_pairing() {
    identity_survives(pairing_history);
}

#[test]
fn scripted_run_of_the_operator_and_of_time() {
    identity_survives(care_history);
}

type AgentHistory = fn(UnixMillis, &mut dyn FnMut(AgentCommand) -> AgentReply);

fn identity_survives(history_of: AgentHistory) {
    for mode in [Mode::Shared, Mode::Exclusive] {
        let disk = Disk::new();
        disk.record();
        let store = Store::<Agent>::open(on_disk(&disk, mode), clock(), None).unwrap();
        let mut acked = vec![(disk.mark(), 0)];
        history_of(super::support::START, &mut |command| {
            let what = format!("{command:?}");
            let done = store.submit(command).unwrap().wait();
            let done = done.unwrap_or_else(|e| panic!("{what}: {e}"));
            acked.push((disk.mark(), store.head().0));
            done.reply
        });
        let mut frames = vec![];
        let snapshot = store.snapshot().unwrap();
        snapshot
            .frames(Seq::ZERO, |_, bytes| {
                frames.push(bytes.to_vec());
                Ok(std::ops::ControlFlow::Continue(()))
            })
            .unwrap();
        drop(snapshot);
        store.close();
        let history = History {
            journal: disk.journal(),
            mode,
            // One command at a time: every answer is the end of a transaction.
            boundaries: acked.iter().map(|(_, head)| *head).collect(),
            frames,
            acked,
        };
        let next = || take_lease("later", super::support::START);
        let variants = if long() { 24 } else { 2 };
        println!(
            "{mode:?}: {:?}",
            cut_everywhere_in::<Agent>(&history, variants, seed(), &next)
        );
    }
}

/// The repair after a power cut is itself interrupted.
#[test]
fn power_fails_again_during_the_repair() {
    let history = scripted(Mode::Exclusive);
    let mut cuts = history.journal.cuts();
    while cuts.at() < history.journal.len() * 2 / 3 || cuts.unsynced() == 0 {
        assert!(cuts.advance());
    }
    let floor = history.acked.iter().rfind(|(mark, _)| *mark <= cuts.at());
    let floor = floor.unwrap().1;
    let disk = Disk::with_bytes(cuts.image(1));
    disk.record();
    open(&disk, Mode::Exclusive).unwrap().close();
    let repair = disk.journal();
    let mut again = repair.cuts();
    loop {
        for variant in 0..PLAIN_VARIANTS + 3 {
            let what = format!("repair cut {}, variant {variant}", again.at());
            let disk = Disk::with_bytes(again.image(variant));
            let store = open(&disk, Mode::Exclusive).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(store.head().0 >= floor, "{what}");
            verified::<Bus>(&store.snapshot().unwrap());
        }
        if !again.advance() {
            break;
        }
    }
}
