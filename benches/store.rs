//! The queue's hot path through the store: appends in batches, enqueue + ack, replay, rebuild.
//!
//! Every commit here is a real sync on the file system of the target folder: compare ratios of one
//! machine, not numbers of two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use interlink::crypto::hash::sha256;
use interlink::domain::decide::bus::{Bus, BusCommand, BusReply, Overflow, QueueLimits};
use interlink::store::{Location, Mode, OpenOptions, Receipt, Store};
use interlink::types::seq::Seq;
use interlink::types::time::{Clock, UnixMillis};

/// Bytes of payload in every message.
const BODY: usize = 512;

/// A clock that moves by a millisecond a look: records must not depend on the machine.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> UnixMillis {
        UnixMillis(1_700_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed))
    }
}

struct Bench {
    dir: tempfile::TempDir,
    store: Store<Bus>,
    next: u64,
}

const LIMITS: QueueLimits = QueueLimits {
    messages: 1024,
    bytes: 64 << 20,
    store_bytes: 4 << 30,
    queues: 65_536,
    overflow: Overflow::DropOldest,
};

fn options(dir: &tempfile::TempDir, mode: Mode) -> OpenOptions {
    let location = Location::File(dir.path().join("bench.redb"));
    match mode {
        Mode::Exclusive => OpenOptions::exclusive(location),
        Mode::Shared => OpenOptions::shared(location),
    }
}

impl Bench {
    fn new(mode: Mode) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let store = Store::open(options(&dir, mode), Arc::new(Ticks::default()), None)
            .expect("a fresh store opens");
        Bench {
            dir,
            store,
            next: 0,
        }
    }

    /// Submits a message; 32 to a recipient, as a busy day looks.
    fn send(&mut self) -> (String, Receipt<Bus>) {
        let n = self.next;
        self.next += 1;
        let to = format!("{:0>43}", n / 32);
        let mut body = vec![b'x'; BODY];
        body[..8].copy_from_slice(&n.to_le_bytes());
        let command = BusCommand::Enqueue {
            to: to.clone(),
            sha256: sha256(&body),
            payload: body.into(),
            msg_id: String::new(),
            limits: LIMITS,
        };
        (to, self.store.submit(command).expect("room in the line"))
    }

    fn fill(&mut self, messages: usize) {
        let mut left = messages;
        while left > 0 {
            let batch = left.min(512);
            let receipts: Vec<_> = (0..batch).map(|_| self.send().1).collect();
            receipts
                .into_iter()
                .for_each(|r| drop(r.wait().expect("committed")));
            left -= batch;
        }
    }
}

fn enqueued(receipt: Receipt<Bus>) -> Seq {
    match receipt.wait().expect("committed").reply {
        BusReply::Enqueued { seq, .. } => seq,
        other => unreachable!("{other:?}"),
    }
}

fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("store");
    group
        .measurement_time(Duration::from_secs(4))
        .sample_size(20);
    for mode in [Mode::Exclusive, Mode::Shared] {
        for batch in [1usize, 8, 64, 512] {
            let mut bench = Bench::new(mode);
            group.throughput(Throughput::Elements(batch as u64));
            let name = format!("batch={batch} mode={}", format!("{mode:?}").to_lowercase());
            group.bench_function(BenchmarkId::new("append", name), |b| {
                b.iter(|| {
                    let receipts: Vec<_> = (0..batch).map(|_| bench.send().1).collect();
                    receipts
                        .into_iter()
                        .for_each(|r| drop(r.wait().expect("committed")));
                });
            });
        }
    }
    for batch in [1usize, 64] {
        let mut bench = Bench::new(Mode::Exclusive);
        group.throughput(Throughput::Elements(batch as u64));
        group.bench_function(
            BenchmarkId::new("enqueue_ack", format!("batch={batch}")),
            |b| {
                b.iter(|| {
                    let sent: Vec<_> = (0..batch).map(|_| bench.send()).collect();
                    let acks: Vec<_> = sent
                        .into_iter()
                        .map(|(me, receipt)| {
                            let seqs = vec![enqueued(receipt)];
                            bench
                                .store
                                .submit(BusCommand::Ack { me, seqs })
                                .expect("room")
                        })
                        .collect();
                    acks.into_iter()
                        .for_each(|r| drop(r.wait().expect("committed")));
                });
            },
        );
    }
    group.finish();
}

fn replay(c: &mut Criterion) {
    let records = 100_000usize;
    let mut bench = Bench::new(Mode::Exclusive);
    bench.fill(records);
    let mut group = c.benchmark_group("store");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(records as u64));
    let name = format!("records={records}");
    group.bench_function(BenchmarkId::new("replay", name.clone()), |b| {
        b.iter(|| {
            let snapshot = bench.store.snapshot().expect("open");
            snapshot.replay::<Bus>().expect("whole")
        });
    });
    let Bench { dir, store, .. } = bench;
    store.close();
    group.bench_function(BenchmarkId::new("rebuild", name), |b| {
        b.iter_custom(|rounds| {
            let mut total = Duration::ZERO;
            for _ in 0..rounds {
                let mut options = options(&dir, Mode::Exclusive);
                options.rebuild = true;
                let started = Instant::now();
                let store = Store::<Bus>::open(options, Arc::new(Ticks::default()), None)
                    .expect("rebuilds");
                total += started.elapsed();
                store.close();
            }
            total
        });
    });
    group.finish();
}

criterion_group!(benches, append, replay);
criterion_main!(benches);
