//! What a message costs, in syncs and bytes, as the disk counts them: free of noise.

use std::sync::Arc;
use std::time::Duration;

use interlink::domain::decide::bus::{Bus, BusCommand};
use interlink::store::{Mode, Store};
use interlink::testkit::sample::{WIDE_LIMITS, enqueue, payload};
use interlink::testkit::{Counts, Disk};

use super::support::{long, open, queued, run, verified};

/// Bytes of a message's body.
const BODY: usize = 512;

/// A recipient as they are: a key of 43 characters and a session id.
fn recipient(n: usize) -> String {
    format!("{n:043}#0b5f2a0c-6a57-4a53-a0a5-{n:012}")
}

fn store() -> (Disk, Arc<Store<Bus>>) {
    let disk = Disk::new();
    // As long as a fast device needs; batches form meanwhile.
    disk.sync_takes(Duration::from_millis(1));
    let store = open(&disk, Mode::Exclusive).unwrap();
    (disk, Arc::new(store))
}

/// Runs `each` messages from each of `senders` threads at once; what the disk did meanwhile.
fn cost(disk: &Disk, store: &Arc<Store<Bus>>, senders: usize, each: usize, ack: bool) -> Counts {
    cost_to(recipient, disk, store, senders, each, ack)
}

fn cost_to(
    name: fn(usize) -> String,
    disk: &Disk,
    store: &Arc<Store<Bus>>,
    senders: usize,
    each: usize,
    ack: bool,
) -> Counts {
    let before = disk.counts();
    let threads: Vec<_> = (0..senders)
        .map(|sender| {
            let store = Arc::clone(store);
            std::thread::spawn(move || {
                let to = name(sender);
                for n in 0..each {
                    let body = payload((sender * each + n) as u64, BODY);
                    let seq = queued(&run(&store, enqueue(&to, &body, WIDE_LIMITS)).reply);
                    if ack {
                        let me = to.clone();
                        run(
                            &store,
                            BusCommand::Ack {
                                me,
                                seqs: vec![seq],
                            },
                        );
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    disk.counts().since(before)
}

fn per(total: u64, count: usize) -> f64 {
    total as f64 / count as f64
}

#[test]
fn one_sender_has_one_sync_a_message() {
    let (disk, store) = store();
    let counts = cost(&disk, &store, 1, 300, false);
    let syncs = per(counts.syncs, 300);
    println!(
        "{syncs} syncs, {} bytes a send",
        per(counts.written_bytes, 300)
    );
    assert!((1.0..=1.05).contains(&syncs), "{syncs}");
}

#[test]
fn sixty_four_senders_share_their_syncs_and_pages() {
    let (disk, store) = store();
    let count = 64 * 40;
    let counts = cost(&disk, &store, 64, 40, false);
    let (syncs, bytes) = (per(counts.syncs, count), per(counts.written_bytes, count));
    println!("{syncs} syncs, {bytes} bytes a send");
    assert!(syncs <= 0.10, "{syncs}");
    assert!(bytes <= 5.0 * 1024.0, "{bytes}");
}

#[test]
fn a_cycle_of_send_and_acknowledge_is_cheap_at_sixty_four() {
    let (disk, store) = store();
    let count = 64 * 40;
    let counts = cost(&disk, &store, 64, 40, true);
    let bytes = per(counts.written_bytes, count);
    println!("{} syncs, {bytes} bytes a cycle", per(counts.syncs, count));
    assert!(bytes <= 10.0 * 1024.0, "{bytes}");
}

/// Without compaction the log keeps a frame of 76 bytes and the recipient's name for each message.
fn file_after_cycles(name: fn(usize) -> String, bound: u64) {
    let (disk, store) = store();
    disk.sync_takes(Duration::ZERO);
    let (each, bound) = match long() || !cfg!(debug_assertions) {
        true => (100_000 / 64 + 1, bound),
        false => (60, 4 << 20),
    };
    let _ = cost_to(name, &disk, &store, 64, each, true);
    println!("{} bytes after {} cycles", disk.size(), each * 64);
    assert!(disk.size() <= bound, "{}", disk.size());
    verified::<Bus>(&store.snapshot().unwrap());
}

#[test]
fn the_file_stays_small_with_short_names() {
    file_after_cycles(|n| format!("q{n}"), 20 << 20);
}

#[test]
fn the_file_stays_bounded_with_full_routes() {
    file_after_cycles(recipient, 40 << 20);
}

/// Bytes written a send, with batches of 64 to one queue that already holds `depth` messages.
fn bytes_at_depth(depth: usize, others: usize) -> f64 {
    let disk = Disk::new();
    let store = open(&disk, Mode::Exclusive).unwrap();
    let fill = |to: &str, from: usize, count: usize| {
        for chunk in (from..from + count).collect::<Vec<_>>().chunks(400) {
            let receipts: Vec<_> = chunk
                .iter()
                .map(|n| store.submit(enqueue(to, &payload(*n as u64, BODY), WIDE_LIMITS)))
                .collect();
            receipts
                .into_iter()
                .for_each(|r| drop(r.unwrap().wait().unwrap()));
        }
    };
    fill("other", 0, others);
    fill("q", 0, depth);
    let before = disk.counts();
    for n in 0..40 {
        run(
            &store,
            enqueue("q", &payload((depth + n) as u64, BODY), WIDE_LIMITS),
        );
    }
    per(disk.counts().since(before).written_bytes, 40)
}

#[test]
fn a_send_costs_the_same_in_a_deep_queue_and_in_a_large_store() {
    // A B-tree has a level for some dozens of leaves: compare trees of the same height.
    let base = bytes_at_depth(10, 1000);
    let deep = bytes_at_depth(1000, 10);
    println!("10 deep: {base} bytes, 1,000 deep: {deep}");
    assert!(deep <= base * 1.1, "{deep} {base}");
    let large = bytes_at_depth(10, if long() { 60_000 } else { 6_000 });
    println!("large store: {large}");
    assert!(large <= base * 1.5, "{large} {base}");
}
