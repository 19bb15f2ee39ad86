//! The disk fails at the n-th call, for every n: nothing acknowledged is lost, the store says that
//! it is read-only and why, and reading goes on.

use interlink::domain::decide::bus::{Bus, BusCommand, RelayCommand};
use interlink::event::bus_rendezvous::RelayFlow;
use interlink::store::{CommandError, Health, Mode, Store, SubmitError};
use interlink::testkit::sample::{WIDE_LIMITS, enqueue, payload};
use interlink::testkit::sample_rendezvous::{relay_join, relay_leave, relay_open, relay_send};
use interlink::testkit::{Disk, Fault, FaultKind, OpKind};
use interlink::types::limit::RELAY_TTL_MS;
use interlink::types::seq::Seq;

use super::support::{START, long, open, rows, verified};

fn script() -> Vec<BusCommand> {
    let mut out: Vec<_> = (10..16)
        .map(|n| enqueue("a", &payload(n, 900), WIDE_LIMITS))
        .collect();
    out.push(BusCommand::Ack {
        me: "a".into(),
        seqs: vec![Seq(1), Seq(2)],
    });
    out.extend([
        relay_open(1, 0x11, RelayFlow::Lossless, START),
        relay_join(1, 0x12, START),
        relay_send(1, 0x11, 1, 500, START),
        BusCommand::Relay(RelayCommand::Fetched {
            session: Seq(11),
            peer: [0x12; 32],
            until: 2,
        }),
        relay_leave(1, 0x12, START),
        BusCommand::Relay(RelayCommand::End {
            session: None,
            now: START.plus(RELAY_TTL_MS),
            max: 4,
        }),
    ]);
    // More than the file has room for: it must grow.
    out.extend((20..23).map(|n| enqueue("b", &payload(n, 600_000), WIDE_LIMITS)));
    out
}

/// A closed store with three messages.
fn prepared() -> Vec<u8> {
    let disk = Disk::new();
    let store = open(&disk, Mode::Exclusive).unwrap();
    for n in 0..3 {
        super::support::run(&store, enqueue("a", &payload(n, 700), WIDE_LIMITS));
    }
    store.close();
    disk.bytes()
}

/// What one failing run came to.
enum Outcome {
    NotReached,
    Open,
    Command,
    Closing,
}

fn run_with(base: &[u8], mode: Mode, fault: Fault) -> Outcome {
    let what = format!("{mode:?} {fault:?}");
    let disk = Disk::with_bytes(base.to_vec());
    disk.record();
    disk.fail(fault);
    let mut acked = vec![];
    let mut outcome = Outcome::NotReached;
    let mut in_flight = None;
    match open(&disk, mode) {
        Err(e) => {
            assert!(disk.fired(), "{what}: {e}");
            outcome = Outcome::Open;
        }
        Ok(store) => {
            for command in script() {
                match store.submit(command.clone()).unwrap().wait() {
                    Ok(done) => acked.push(done.seq),
                    Err(CommandError::ReadOnly { reason }) => {
                        assert!(disk.fired(), "{what}: {reason}");
                        assert!(!reason.is_empty());
                        in_flight = Some(command);
                        outcome = Outcome::Command;
                        break;
                    }
                    Err(e) => panic!("{what}: {e}"),
                }
            }
            if in_flight.is_some() {
                still_reads(&what, &store, acked.last().copied());
            }
            store.close();
        }
    }
    if matches!(outcome, Outcome::NotReached) && disk.fired() {
        outcome = Outcome::Closing;
    }
    disk.heal();
    let floor = acked.last().copied().unwrap_or(Seq(3));
    let ceiling = Seq(floor.0 + u64::from(in_flight.is_some()));
    // The process died; then: the power failed.
    let mut images = vec![disk.bytes()];
    let journal = disk.journal();
    let mut cuts = journal.cuts();
    while cuts.advance() {}
    let variants: &[u64] = if long() { &[0, 1, 2, 3, 4, 5] } else { &[0, 4] };
    images.extend(variants.iter().map(|variant| cuts.image(*variant)));
    for (i, image) in images.into_iter().enumerate() {
        let store = open(&Disk::with_bytes(image), mode)
            .unwrap_or_else(|e| panic!("{what}, image {i}: {e}"));
        let head = store.head();
        assert!(
            floor <= head && head <= ceiling,
            "{what}, image {i}: acknowledged {floor}, found {head}"
        );
        verified::<Bus>(&store.snapshot().unwrap());
        super::support::run(&store, enqueue("z", &payload(99, 64), WIDE_LIMITS));
    }
    outcome
}

/// Reads of a store that has turned read-only.
fn still_reads(what: &str, store: &Store<Bus>, acked: Option<Seq>) {
    let floor = acked.unwrap_or(Seq(3));
    let Health::ReadOnly { reason } = store.health() else {
        panic!("{what}: still takes writes");
    };
    assert!(!reason.is_empty());
    let refused = store.submit(enqueue("late", b"{}", WIDE_LIMITS)).err();
    assert!(
        matches!(refused, Some(SubmitError::ReadOnly { .. })),
        "{what}: {refused:?}"
    );
    let snapshot = store
        .snapshot()
        .unwrap_or_else(|e| panic!("{what}: no reads: {e}"));
    assert!(snapshot.head().unwrap() >= floor, "{what}");
    verified::<Bus>(&snapshot);
    assert!(!rows::<Bus>(&snapshot).is_empty());
    let waiting = store.with_index(|index, _| {
        let queue = index.queue("a").expect("the queue is readable");
        queue
            .iter()
            .map(|(seq, item)| (seq, item.len))
            .collect::<Vec<_>>()
    });
    assert!(!waiting.is_empty());
    for (seq, len) in waiting {
        let body = snapshot.body(seq).unwrap().expect("the body is readable");
        assert_eq!(body.len(), len as usize, "{what}");
    }
}

/// The positions of the script are those that it says.
#[test]
fn every_command_of_the_script_leaves_one_record() {
    let disk = Disk::with_bytes(prepared());
    let store = open(&disk, Mode::Exclusive).unwrap();
    for command in script() {
        let before = store.head();
        super::support::run(&store, command.clone());
        assert_eq!(store.head(), before.next(), "{command:?}");
    }
    let relayed = store.with_index(|index, _| index.relay().len());
    assert_eq!(relayed, 0);
}

fn every_call(op: OpKind, kind: FaultKind, forever: bool) {
    let base = prepared();
    for mode in [Mode::Exclusive, Mode::Shared] {
        let (mut open, mut commands, mut after) = (0, 0, 0);
        let step = match op {
            _ if long() => 1,
            OpKind::Write => 5,
            OpKind::Read => 3,
            OpKind::Sync | OpKind::SetLen => 1,
        };
        loop {
            let fault = Fault {
                op,
                after,
                kind,
                forever,
            };
            match run_with(&base, mode, fault) {
                Outcome::NotReached => break,
                Outcome::Open => open += 1,
                Outcome::Command => commands += 1,
                Outcome::Closing => {}
            }
            after += step;
        }
        println!("{op:?} {kind:?} {mode:?}: {open} at open, {commands} in commands, of {after}");
        assert!(open + commands > 0, "the fault was never met");
    }
}

#[test]
fn a_write_error_at_every_call() {
    every_call(OpKind::Write, FaultKind::Error, true);
}

#[test]
fn a_passing_write_error_at_every_call() {
    every_call(OpKind::Write, FaultKind::Error, false);
}

#[test]
fn a_full_disk_at_every_write() {
    every_call(OpKind::Write, FaultKind::NoSpace, true);
}

#[test]
fn a_short_write_at_every_call() {
    every_call(OpKind::Write, FaultKind::Short, true);
}

#[test]
fn a_full_disk_whenever_the_file_grows() {
    every_call(OpKind::SetLen, FaultKind::NoSpace, true);
}

#[test]
fn a_sync_error_at_every_call() {
    every_call(OpKind::Sync, FaultKind::Error, true);
}

#[test]
fn a_passing_sync_error_at_every_call() {
    every_call(OpKind::Sync, FaultKind::Error, false);
}

#[test]
fn a_short_read_at_every_call() {
    every_call(OpKind::Read, FaultKind::Short, false);
}

#[test]
fn a_read_error_at_every_call() {
    every_call(OpKind::Read, FaultKind::Error, true);
}
