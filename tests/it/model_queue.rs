//! Random histories against a plain model in memory, with reopening, power cuts and clock jumps as
//! ordinary steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use interlink::domain::decide::bus::{
    Bus, BusCommand, BusReply, DroppedItem, Overflow, QueueLimits,
};
use interlink::domain::projection::bus::{DropCounter, DropsRow, RosterRow};
use interlink::domain::tables::{TableId, decode_row, get_row, scan_rows};
use interlink::event::bus::SeenAt;
use interlink::store::{CommandError, Cut, Mode, Store};
use interlink::testkit::sample::{SMALL_LIMITS, enqueue, payload};
use interlink::testkit::{Disk, FakeClock};
use interlink::types::seq::Seq;
use interlink::types::time::{Clock, UnixMillis};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::support::{START, clock, long, on_disk, seed, verified};

const NAMES: [&str; 4] = ["a", "b#1", "b#2", ""];
const BOARD: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Enqueue {
        to: usize,
        n: u64,
        len: usize,
        refuse: bool,
    },
    /// Positions counted back from the head.
    Ack {
        me: usize,
        back: Vec<u64>,
    },
    LoseBody {
        back: u64,
    },
    ExpireMessages {
        age: u64,
        max: usize,
    },
    /// The operator takes one message, or the oldest ones.
    Discard {
        to: usize,
        back: Option<u64>,
        max: usize,
    },
    Evict {
        entry: usize,
    },
    Announce {
        entry: usize,
        n: u64,
    },
    Seen {
        entry: usize,
    },
    Unregister {
        entry: usize,
    },
    ExpirePresence {
        age: u64,
    },
    Reopen,
    /// Folds records up to so many before the head.
    Compact {
        back: u64,
    },
    /// The power fails; the number picks what survives of what was not synced.
    Crash {
        variant: u64,
    },
    ClockJump {
        ms: i64,
    },
    Verify,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..NAMES.len();
    let step = prop_oneof![
        12 => (name.clone(), 0..30u64, 40..900usize, prop::bool::weighted(0.15))
            .prop_map(|(to, n, len, refuse)| Step::Enqueue { to, n, len, refuse }),
        5 => (name.clone(), prop::collection::vec(0..10u64, 1..4))
            .prop_map(|(me, back)| Step::Ack { me, back }),
        1 => (0..8u64).prop_map(|back| Step::LoseBody { back }),
        1 => (0..4000u64, 1..4usize).prop_map(|(age, max)| Step::ExpireMessages { age, max }),
        1 => (name.clone(), prop::option::of(0..8u64), 1..4usize)
            .prop_map(|(to, back, max)| Step::Discard { to, back, max }),
        1 => name.clone().prop_map(|entry| Step::Evict { entry }),
        3 => (name.clone(), 0..3u64).prop_map(|(entry, n)| Step::Announce { entry, n }),
        1 => name.clone().prop_map(|entry| Step::Seen { entry }),
        1 => name.prop_map(|entry| Step::Unregister { entry }),
        1 => (0..4000u64).prop_map(|age| Step::ExpirePresence { age }),
        1 => Just(Step::Reopen),
        2 => (0..12u64).prop_map(|back| Step::Compact { back }),
        1 => (0..100u64).prop_map(|variant| Step::Crash { variant }),
        2 => (-3000..3000i64).prop_map(|ms| Step::ClockJump { ms }),
        1 => prop_oneof![Just(-86_400_000_000i64), Just(86_400_000_000i64)]
            .prop_map(|ms| Step::ClockJump { ms }),
        1 => Just(Step::Verify),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug, PartialEq)]
struct Message {
    seq: u64,
    to: &'static str,
    body: Vec<u8>,
    at: UnixMillis,
}

/// What a bus should hold, kept the naive way.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    head: u64,
    messages: Vec<Message>,
    drops: [u64; 4],
    board: BTreeMap<String, (Vec<u8>, UnixMillis)>,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Reply(BusReply),
    Refused,
}

impl Model {
    fn drop_where(&mut self, counter: usize, gone: &[u64]) {
        self.messages.retain(|m| !gone.contains(&m.seq));
        self.drops[counter] += gone.len() as u64;
        self.head += 1;
    }

    fn enqueue(
        &mut self,
        to: &'static str,
        body: Vec<u8>,
        refuse: bool,
        now: UnixMillis,
    ) -> Answer {
        let queue: Vec<_> = self
            .messages
            .iter()
            .filter(|m| m.to == to)
            .cloned()
            .collect();
        if let Some(same) = queue.iter().find(|m| m.body == body) {
            return Answer::Reply(BusReply::Enqueued {
                seq: Seq(same.seq),
                duplicate: true,
                dropped: vec![],
            });
        }
        let queues = NAMES
            .iter()
            .filter(|n| self.messages.iter().any(|m| m.to == **n))
            .count();
        if queue.is_empty() && queues >= SMALL_LIMITS.queues {
            return Answer::Refused;
        }
        let size = |m: &[Message]| m.iter().map(|m| m.body.len() as u64).sum::<u64>();
        let mut keep = &queue[..];
        while !keep.is_empty()
            && (keep.len() >= SMALL_LIMITS.messages
                || size(keep) + body.len() as u64 > SMALL_LIMITS.bytes)
        {
            if refuse {
                return Answer::Refused;
            }
            keep = &keep[1..];
        }
        let gone = &queue[..queue.len() - keep.len()];
        let total = size(&self.messages) - size(gone) + body.len() as u64;
        if total > SMALL_LIMITS.store_bytes {
            return Answer::Refused;
        }
        let dropped: Vec<_> = gone
            .iter()
            .map(|m| DroppedItem {
                seq: Seq(m.seq),
                at: m.at,
            })
            .collect();
        if !gone.is_empty() {
            let seqs: Vec<_> = gone.iter().map(|m| m.seq).collect();
            self.drop_where(0, &seqs);
        }
        self.head += 1;
        let seq = self.head;
        self.messages.push(Message {
            seq,
            to,
            body,
            at: now,
        });
        Answer::Reply(BusReply::Enqueued {
            seq: Seq(seq),
            duplicate: false,
            dropped,
        })
    }

    /// Does what the store is asked to do; `None` for steps that are no command.
    fn apply(&mut self, step: &Step, now: UnixMillis) -> Option<(BusCommand, Answer)> {
        let done = |reply| Answer::Reply(reply);
        let back = |head: u64, n: u64| head.saturating_sub(n);
        Some(match step {
            Step::Enqueue { to, n, len, refuse } => {
                let body = payload(*n, *len);
                let overflow = [Overflow::DropOldest, Overflow::Refuse][usize::from(*refuse)];
                let limits = QueueLimits {
                    overflow,
                    ..SMALL_LIMITS
                };
                let command = enqueue(NAMES[*to], &body, limits);
                (command, self.enqueue(NAMES[*to], body, *refuse, now))
            }
            Step::Ack { me, back: n } => {
                let seqs: Vec<_> = n.iter().map(|n| back(self.head, *n)).collect();
                let me = NAMES[*me];
                let before = self.messages.len();
                self.messages
                    .retain(|m| m.to != me || !seqs.contains(&m.seq));
                let acked = before - self.messages.len();
                self.head += u64::from(acked > 0);
                let seqs = seqs.into_iter().map(Seq).collect();
                (
                    BusCommand::Ack {
                        me: me.into(),
                        seqs,
                    },
                    done(BusReply::Acked { acked }),
                )
            }
            Step::LoseBody { back: n } => {
                let seq = back(self.head, *n);
                if self.messages.iter().any(|m| m.seq == seq) {
                    self.drop_where(2, &[seq]);
                }
                (BusCommand::LoseBody { seq: Seq(seq) }, done(BusReply::Done))
            }
            Step::ExpireMessages { age, max } => {
                let before = now.minus(*age);
                let old = self.messages.iter().filter(|m| m.at <= before);
                let gone: Vec<_> = old.map(|m| m.seq).take(*max).collect();
                if !gone.is_empty() {
                    self.drop_where(1, &gone);
                }
                let count = gone.len();
                let max = *max;
                (
                    BusCommand::ExpireMessages { before, max },
                    done(BusReply::Expired { count }),
                )
            }
            Step::Discard { to, back: n, max } => {
                let seq = n.map(|n| back(self.head, n));
                let meant = self.messages.iter().filter(|m| m.to == NAMES[*to]);
                let meant = meant.filter(|m| seq.is_none_or(|seq| seq == m.seq));
                let gone: Vec<_> = meant.map(|m| m.seq).take(*max).collect();
                if !gone.is_empty() {
                    self.drop_where(3, &gone);
                }
                let command = BusCommand::Discard {
                    to: NAMES[*to].to_owned(),
                    seq: seq.map(Seq),
                    max: *max,
                };
                (command, done(BusReply::Removed { count: gone.len() }))
            }
            Step::Evict { entry } => {
                let entry = NAMES[*entry].to_owned();
                let count = usize::from(self.board.remove(&entry).is_some());
                self.head += count as u64;
                (
                    BusCommand::Evict { entry },
                    done(BusReply::Removed { count }),
                )
            }
            Step::Announce { entry, n } => {
                let entry = NAMES[*entry].to_owned();
                let announcement = payload(*n, 50);
                if !self.board.contains_key(&entry) && self.board.len() >= BOARD {
                    let oldest = self
                        .board
                        .iter()
                        .min_by_key(|(k, (_, at))| (*at, (*k).clone()));
                    let oldest = oldest.unwrap().0.clone();
                    self.board.remove(&oldest);
                    self.head += 1;
                }
                self.head += 1;
                self.board
                    .insert(entry.clone(), (announcement.clone(), now));
                let command = BusCommand::Announce {
                    entry,
                    announcement: announcement.into(),
                    max_entries: BOARD,
                };
                (command, done(BusReply::Done))
            }
            Step::Seen { entry } => {
                let entry = NAMES[*entry].to_owned();
                if let Some((_, seen)) = self.board.get_mut(&entry) {
                    *seen = (*seen).max(now);
                    self.head += 1;
                }
                let entries = vec![SeenAt { entry, at: now }];
                (BusCommand::Seen { entries }, done(BusReply::Done))
            }
            Step::Unregister { entry } => {
                let entry = NAMES[*entry].to_owned();
                self.head += u64::from(self.board.remove(&entry).is_some());
                (BusCommand::Unregister { entry }, done(BusReply::Done))
            }
            Step::ExpirePresence { age } => {
                let before = now.minus(*age);
                let all = self.board.len();
                self.board.retain(|_, (_, seen)| *seen > before);
                let count = all - self.board.len();
                self.head += u64::from(count > 0);
                (
                    BusCommand::ExpirePresence { before },
                    done(BusReply::Expired { count }),
                )
            }
            Step::Compact { .. }
            | Step::Reopen
            | Step::Crash { .. }
            | Step::ClockJump { .. }
            | Step::Verify => {
                return None;
            }
        })
    }
}

/// What a store holds, in the model's words.
fn read(store: &Store<Bus>) -> Model {
    let snapshot = store.snapshot().unwrap();
    let mut messages = store.with_index(|index, _| {
        let mut messages = vec![];
        for name in NAMES {
            for (seq, item) in index.queue(name).into_iter().flat_map(|q| q.iter()) {
                let body = snapshot.body(seq).unwrap().unwrap();
                assert_eq!(body.len(), item.len as usize);
                messages.push(Message {
                    seq: seq.0,
                    to: name,
                    body,
                    at: item.at,
                });
            }
        }
        assert_eq!(messages.len(), index.message_count());
        messages
    });
    messages.sort_by_key(|m| m.seq);
    let mut board = BTreeMap::new();
    scan_rows::<RosterRow>(&snapshot, TableId::Roster, &[], |key, row| {
        let entry = String::from_utf8(key.to_vec()).unwrap();
        board.insert(entry, (row.announcement, row.last_seen));
        Ok(std::ops::ControlFlow::Continue(()))
    })
    .unwrap();
    let drops = DropCounter::ALL.map(|(counter, _)| {
        let row: Option<DropsRow> = get_row(&snapshot, TableId::Drops, &counter.key()).unwrap();
        row.map_or(0, |row| row.messages)
    });
    Model {
        head: snapshot.head().unwrap().0,
        messages,
        drops,
        board,
    }
}

fn open(disk: &Disk, mode: Mode, clock: &Arc<FakeClock>) -> Store<Bus> {
    Store::open(on_disk(disk, mode), Arc::<FakeClock>::clone(clock), None).unwrap()
}

fn play(mode: Mode, steps: &[Step]) {
    let clock = clock();
    let mut disk = Disk::new();
    let mut store = open(&disk, mode, &clock);
    disk.record();
    let mut model = Model::default();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Reopen => {
                store.close();
                store = open(&disk, mode, &clock);
                assert_eq!(read(&store), model, "step {i}");
            }
            Step::Crash { variant } => {
                let mark = disk.mark();
                let journal = disk.journal();
                store.close();
                let mut cuts = journal.cuts();
                while cuts.at() < mark {
                    cuts.advance();
                }
                disk = Disk::with_bytes(cuts.image(*variant));
                store = open(&disk, mode, &clock);
                disk.record();
                assert_eq!(read(&store), model, "step {i}");
            }
            Step::ClockJump { ms } => {
                let now = clock.now().0;
                clock.set(UnixMillis(now.saturating_add_signed(*ms)));
            }
            Step::Verify => {
                verified::<Bus>(&store.snapshot().unwrap());
            }
            Step::Compact { back } => {
                let until = Seq(model.head.saturating_sub(*back));
                let cut = Cut { until, ..Cut::ALL };
                let folded = store.compact(cut, Duration::from_secs(20)).unwrap().wait();
                assert!(folded.unwrap().done, "step {i}");
                assert_eq!(read(&store), model, "step {i}");
            }
            step => {
                let (command, expected) = model.apply(step, clock.now()).unwrap();
                let answer = match store.submit(command).unwrap().wait() {
                    Ok(done) => Answer::Reply(done.reply),
                    Err(CommandError::Refused(_)) => Answer::Refused,
                    Err(e) => panic!("step {i}: {e}"),
                };
                assert_eq!(answer, expected, "step {i}: {step:?}");
                assert_eq!(store.head().0, model.head, "step {i}: {step:?}");
            }
        }
    }
    assert_eq!(read(&store), model);
    verified::<Bus>(&store.snapshot().unwrap());
}

fn against_the_model(mode: Mode) {
    let cases = if long() { 4000 } else { 150 };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed().to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&steps(), |steps| {
        play(mode, &steps);
        Ok(())
    });
    if let Err(e) = result {
        panic!("{e}");
    }
}

#[test]
fn an_exclusive_store_behaves_like_the_model() {
    against_the_model(Mode::Exclusive);
}

#[test]
fn a_shared_store_behaves_like_the_model() {
    against_the_model(Mode::Shared);
}

#[test]
fn the_model_notices_a_lost_message() {
    let disk = Disk::new();
    let store = open(&disk, Mode::Exclusive, &clock());
    let mut model = Model::default();
    let step = Step::Enqueue {
        to: 0,
        n: 1,
        len: 50,
        refuse: false,
    };
    let _ = model.apply(&step, START);
    assert_ne!(read(&store), model);
    assert!(decode_row::<DropsRow>(TableId::Drops, &[]).is_err());
}
