//! The writer, a follower and the compactor under a scheduler that picks the interleaving:
//! `contrib/ci/model.sh`.
//!
//! Every schedule ends with the same judgement: what was answered is in the log or in the base; a
//! follower has seen every record once and in order, or a compaction point past it; a compaction was
//! done to its end over slices of two records, between which anybody may come; the rows are what a
//! replay gives. A schedule in which somebody waits for ever is reported as a deadlock.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};

use crate::domain::decide::bus::{Bus, BusCommand, BusReply};
use crate::store::verify::verify;
use crate::store::{
    CommandError, CompactError, Compaction, Cut, Location, OpenOptions, Receipt, Store, SubmitError,
};
#[cfg(test)]
use crate::testkit::sample::{WIDE_LIMITS, enqueue, payload};
#[cfg(test)]
use crate::testkit::{Disk, FakeClock};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

const SENDERS: u64 = 2;
const MESSAGES: u64 = 3;
/// One sender acknowledges a message of its own: two such records could become one.
const RECORDS: u64 = SENDERS * MESSAGES + 1;

fn open(disk: &Disk) -> Store<Bus> {
    let location = Location::Backend(Arc::new(disk.clone()));
    let clock = Arc::new(FakeClock::new(UnixMillis(1_800_000_000_000)));
    Store::open(OpenOptions::exclusive(location), clock, None).unwrap()
}

/// Sends and acknowledges; gives the positions that were promised.
fn send(store: &Store<Bus>, sender: u64) -> Vec<Seq> {
    let queue = format!("q{sender}");
    let mut promised = vec![];
    for n in 0..MESSAGES {
        let command = enqueue(&queue, &payload(sender * 10 + n, 60), WIDE_LIMITS);
        let done = match store.submit(command) {
            Ok(receipt) => receipt.wait(),
            Err(SubmitError::Closed) => return promised,
            Err(e) => panic!("{e}"),
        };
        match done {
            Ok(done) => match done.reply {
                BusReply::Enqueued { seq, .. } => promised.push(seq),
                reply => panic!("{reply:?}"),
            },
            Err(CommandError::Closed) => return promised,
            Err(e) => panic!("{e}"),
        }
    }
    if sender > 0 {
        return promised;
    }
    let ack = BusCommand::Ack {
        me: queue,
        seqs: promised.iter().take(1).copied().collect(),
    };
    match store.submit(ack).map(Receipt::wait) {
        Ok(Ok(done)) => assert_eq!(done.reply, BusReply::Acked { acked: 1 }),
        Ok(Err(CommandError::Closed)) | Err(SubmitError::Closed) => {}
        other => panic!("{:?}", other.is_ok()),
    }
    promised
}

/// Asks twice, for as many slices as it takes.
fn compact(store: &Store<Bus>, closes: bool) {
    const HOUR: Duration = Duration::from_secs(3600);
    for _ in 0..2 {
        match store.compact(Cut::ALL, HOUR).map(Compaction::wait) {
            Ok(Ok(sum)) => assert!(sum.done, "given up in the middle"),
            Ok(Err(CompactError::Unwritable { .. })) | Err(CompactError::Unwritable { .. })
                if closes => {}
            Ok(Err(e)) | Err(e) => panic!("{e}"),
        }
    }
}

/// Follows the log to its end.
fn follow(store: &Store<Bus>) {
    let mut at = Seq::ZERO;
    while at < Seq(RECORDS) {
        let head = store.wait_head(at, Duration::from_secs(3600));
        let snapshot = store.snapshot().unwrap();
        let base = snapshot.base().unwrap();
        at = at.max(base);
        snapshot
            .frames(at.next(), |seq, _| {
                assert_eq!(seq, at.next(), "a record was passed over");
                at = seq;
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        assert!(
            at >= head,
            "the head was told before its record could be read"
        );
    }
}

fn judge(disk: &Disk, promised: &[Seq], whole: bool) {
    let store = open(disk);
    let snapshot = store.snapshot().unwrap();
    let head = snapshot.head().unwrap();
    assert!(promised.iter().all(|seq| *seq <= head), "an answer is gone");
    if whole {
        assert_eq!(head, Seq(RECORDS));
    }
    let mut distinct = promised.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), promised.len(), "a position was given twice");
    verify::<Bus>(&snapshot, |_| {}).unwrap();
    drop(snapshot);
    store.close();
}

fn everybody(disk: &Disk, closes: bool) {
    let store = Arc::new(open(disk));
    let mut senders = vec![];
    for sender in 0..SENDERS {
        let store = Arc::clone(&store);
        senders.push(thread::spawn(move || send(&store, sender)));
    }
    let compactor = {
        let store = Arc::clone(&store);
        thread::spawn(move || compact(&store, closes))
    };
    let other = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            if closes {
                store.finish();
            } else {
                follow(&store);
            }
        })
    };
    let mut promised = vec![];
    for sender in senders {
        promised.extend(sender.join().unwrap());
    }
    compactor.join().unwrap();
    other.join().unwrap();
    store.finish();
    judge(disk, &promised, !closes);
}

fn explore(scheduler: impl Scheduler + 'static, closes: bool) {
    let mut config = Config::new();
    // The engine's code needs room on the stack of a stand-in thread.
    config.stack_size = 4 << 20;
    config.max_steps = shuttle::MaxSteps::FailAfter(1_000_000);
    let tried = Runner::new(scheduler, config).run(move || everybody(&Disk::new(), closes));
    println!("{tried} schedules");
}

fn schedules() -> usize {
    let given = std::env::var("INTERLINK_SCHEDULES").ok();
    given.and_then(|n| n.parse().ok()).unwrap_or(400)
}

#[test]
fn followers_and_compaction_beside_the_writer() {
    explore(RandomScheduler::new(schedules()), false);
    explore(PctScheduler::new(3, schedules()), false);
}

#[test]
fn closing_beside_senders_and_compaction() {
    explore(RandomScheduler::new(schedules()), true);
    explore(PctScheduler::new(3, schedules()), true);
}
