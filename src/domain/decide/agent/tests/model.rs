//! Random histories against a plain model that searches lists where the store keeps indexes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::rig::{DAY, OWN, Rig, WINDOW, key, msg, session};
use super::*;
use crate::event::agent::MailStatus;

#[derive(Clone, Debug)]
enum Op {
    Take(u8),
    Release(u8),
    AddPeer(u16),
    RemovePeer(u16),
    Receive(Arrival),
    MarkSeen {
        at: u8,
        from: u16,
        id: u8,
    },
    Ack {
        at: u8,
        stale: bool,
        items: Vec<(u16, u8)>,
    },
    Forget {
        age: u64,
    },
    Queue {
        at: u8,
        id: u8,
        to: u16,
    },
    Attempt {
        id: u8,
        relay: u8,
        attempt: u32,
    },
    Accept {
        id: u8,
        relay: u8,
    },
    Refuse {
        id: u8,
        relay: u8,
    },
    Resign {
        id: u8,
    },
    Reserve {
        at: u8,
    },
    NoticeResult {
        at: u8,
        ok: bool,
    },
    Observe {
        at: u8,
        reset: bool,
    },
    Jump(i64),
}

#[derive(Clone, Debug)]
struct Arrival {
    at: u8,
    stale: bool,
    from: u16,
    id: u8,
    age: i64,
    task: Option<u8>,
    status: Option<MailStatus>,
    reply: bool,
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let age = prop_oneof![
        6 => -1_000i64..1_000,
        1 => Just(14 * DAY as i64),
        1 => Just(14 * DAY as i64 + 1),
        1 => Just(-60_000i64),
        1 => Just(-60_001i64),
        2 => 0..16 * DAY as i64,
    ];
    let status = prop_oneof![
        1 => Just(None),
        4 => Just(Some(MailStatus::Update)),
        1 => Just(Some(MailStatus::NeedsInput)),
        1 => Just(Some(MailStatus::Result)),
    ];
    let from = prop_oneof![0u16..3, Just(OWN)];
    (
        0u8..2,
        prop::bool::weighted(0.1),
        from,
        0u8..12,
        age,
        prop::option::weighted(0.8, 0u8..2),
        status,
        any::<bool>(),
    )
        .prop_map(|(at, stale, from, id, age, task, status, reply)| Arrival {
            at,
            stale,
            from,
            id,
            age,
            task,
            status,
            reply,
        })
}

fn op() -> impl Strategy<Value = Op> {
    let at = 0u8..2;
    let jump = prop_oneof![
        0..1_000i64,
        -1_000i64..0,
        Just(20 * DAY as i64),
        Just(-(20 * DAY as i64)),
        Just(300_000)
    ];
    prop_oneof![
        2 => at.clone().prop_map(Op::Take),
        1 => at.clone().prop_map(Op::Release),
        2 => (0u16..3).prop_map(Op::AddPeer),
        1 => (0u16..3).prop_map(Op::RemovePeer),
        14 => arrival().prop_map(Op::Receive),
        2 => (at.clone(), 0u16..3, 0u8..12).prop_map(|(at, from, id)| Op::MarkSeen { at, from, id }),
        5 => (at.clone(), prop::bool::weighted(0.1), prop::collection::vec((0u16..3, 0u8..12), 0..6))
            .prop_map(|(at, stale, items)| Op::Ack { at, stale, items }),
        1 => (0..30 * DAY).prop_map(|age| Op::Forget { age }),
        4 => (at.clone(), 0u8..8, 0u16..2).prop_map(|(at, id, to)| Op::Queue { at, id, to }),
        2 => (0u8..8, 0u8..3, 1u32..4).prop_map(|(id, relay, attempt)| Op::Attempt { id, relay, attempt }),
        2 => (0u8..8, 0u8..3).prop_map(|(id, relay)| Op::Accept { id, relay }),
        2 => (0u8..8, 0u8..3).prop_map(|(id, relay)| Op::Refuse { id, relay }),
        1 => (0u8..8).prop_map(|id| Op::Resign { id }),
        2 => at.clone().prop_map(|at| Op::Reserve { at }),
        2 => (at.clone(), any::<bool>()).prop_map(|(at, ok)| Op::NoticeResult { at, ok }),
        1 => (at, any::<bool>()).prop_map(|(at, reset)| Op::Observe { at, reset }),
        3 => jump.prop_map(Op::Jump),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct Mail {
    at: u8,
    from: u16,
    id: u8,
    ts: u64,
    task: Option<u8>,
    status: Option<MailStatus>,
    reply: bool,
    acked: bool,
    superseded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum OnRelay {
    Waiting(u32),
    Accepted,
    Refused,
}

#[derive(Default)]
struct Model {
    epochs: BTreeMap<u8, (u64, bool)>,
    peers: BTreeSet<u16>,
    seen: BTreeMap<(u16, u8), u64>,
    floor: Option<u64>,
    mails: Vec<Mail>,
    late: BTreeMap<(u16, u8), u8>,
    outbox: BTreeMap<u8, BTreeMap<String, OnRelay>>,
}

impl Model {
    fn gate(&self, from: u16, id: u8, ts: u64, now: u64) -> Option<Reception> {
        if !self.peers.contains(&from) && from != OWN {
            return Some(Reception::NotAllowlisted);
        }
        if ts > now + WINDOW.future_ms {
            return Some(Reception::Future { ahead_ms: ts - now });
        }
        if self.floor.is_some_and(|floor| ts <= floor) || ts + WINDOW.past_ms < now {
            return Some(Reception::TooOld { recorded: false });
        }
        self.knows(from, id).then_some(Reception::Replay)
    }

    fn knows(&self, from: u16, id: u8) -> bool {
        let stored = self.mails.iter().any(|m| (m.from, m.id) == (from, id));
        stored || self.seen.contains_key(&(from, id))
    }

    /// The rule of the public program, by searching.
    fn store(&mut self, mut new: Mail) {
        let ends = |mail: &Mail| mail.status.is_some_and(MailStatus::is_terminal);
        let is_update = |mail: &Mail| mail.status == Some(MailStatus::Update);
        if new.task.is_some() && (ends(&new) || is_update(&new)) {
            let like = |mail: &&mut Mail| {
                (mail.at, mail.from, mail.task, mail.reply)
                    == (new.at, new.from, new.task, new.reply)
            };
            let mut born_superseded = false;
            for old in self.mails.iter_mut().filter(like) {
                born_superseded |=
                    is_update(&new) && (ends(old) || (is_update(old) && old.ts > new.ts));
                if is_update(old) && (ends(&new) || old.ts <= new.ts) {
                    old.superseded = true;
                }
            }
            new.superseded = born_superseded;
        }
        self.mails.push(new);
    }

    fn unread(&self, at: u8) -> Vec<(u16, u8)> {
        let unread = |update: bool| {
            self.mails.iter().filter(move |m| {
                m.at == at
                    && !m.acked
                    && !m.superseded
                    && (m.status == Some(MailStatus::Update)) == update
            })
        };
        unread(false)
            .chain(unread(true))
            .map(|m| (m.from, m.id))
            .collect()
    }
}

struct Run {
    rig: Rig,
    model: Model,
    notice: u32,
}

fn name(at: u8) -> &'static str {
    if at == 0 { "a" } else { "b" }
}

impl Run {
    fn lease(&self, at: u8, stale: bool) -> Lease {
        let (epoch, _) = self.model.epochs.get(&at).copied().unwrap_or_default();
        Lease {
            session: session(name(at)),
            epoch: if stale {
                epoch.saturating_sub(1)
            } else {
                epoch
            },
        }
    }

    /// Submits under a lease; `None` when the lease is refused, as it must be.
    fn fenced(
        &mut self,
        at: u8,
        stale: bool,
        command: impl FnOnce(Lease) -> AgentCommand,
    ) -> Option<AgentReply> {
        let (epoch, held) = self.model.epochs.get(&at).copied().unwrap_or_default();
        let lease = self.lease(at, stale);
        let valid = held && lease.epoch == epoch;
        match self.rig.submit(command(lease)) {
            Err(AgentRefusal::LeaseLost { holder_epoch, .. }) => {
                assert!(!valid);
                assert_eq!(holder_epoch, epoch);
                None
            }
            Ok(reply) => {
                assert!(valid, "a stale lease was let through");
                Some(reply)
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn receive(&mut self, op: &Arrival) {
        let mut wish = self.rig.arrival(
            &self.lease(op.at, op.stale),
            op.from,
            &op.id.to_string(),
            op.age,
        );
        wish.task_id = op.task.map(|t| t.to_string());
        wish.status = op.status;
        let route = crate::types::route::Route::new(key(op.from), session("s"));
        wish.reply_to = op.reply.then_some(route);
        let (ts, now) = (wish.ts.0, self.rig.now.0);
        let verdict = self.model.gate(op.from, op.id, ts, now);
        let command = |_| AgentCommand::Receive(Box::new(wish));
        let Some(AgentReply::Received(got)) = self.fenced(op.at, op.stale, command) else {
            return;
        };
        match (verdict, got) {
            (None, Reception::Stored { .. }) => {
                assert!(self.model.seen.insert((op.from, op.id), ts).is_none());
                self.model.store(Mail {
                    at: op.at,
                    from: op.from,
                    id: op.id,
                    ts,
                    task: op.task,
                    status: op.status,
                    reply: op.reply,
                    acked: false,
                    superseded: false,
                });
            }
            (Some(Reception::TooOld { .. }), Reception::TooOld { recorded }) => {
                let id = (op.from, op.id);
                let known = self.model.knows(op.from, op.id);
                let listed = self.model.late.contains_key(&id);
                assert_eq!(recorded, !known && !listed);
                if recorded {
                    self.model.late.insert(id, op.at);
                }
            }
            (want, got) => assert_eq!(want, Some(got)),
        }
    }

    fn on_relay(&mut self, id: u8, relay: u8, op: &Op) {
        let Some(mail) = query::outbox_entry(&self.rig.tables, &msg(&id.to_string())).unwrap()
        else {
            return;
        };
        let url = format!("r{}", relay + 1);
        let states = self.model.outbox.get_mut(&id).unwrap();
        let state = states.entry(url.clone()).or_insert(OnRelay::Waiting(0));
        let before = *state;
        let reply = match op {
            Op::Attempt { attempt, .. } => {
                if matches!(before, OnRelay::Waiting(n) if *attempt > n) {
                    *state = OnRelay::Waiting(*attempt);
                }
                self.rig.attempt(mail.seq, &url, *attempt, 7)
            }
            Op::Accept { .. } => {
                *state = OnRelay::Accepted;
                self.rig.accepted(mail.seq, &url)
            }
            _ => {
                if matches!(before, OnRelay::Waiting(_)) {
                    *state = OnRelay::Refused;
                }
                self.rig.refused(mail.seq, &url)
            }
        };
        let changed = *state != before;
        assert_eq!(reply, AgentReply::Done { changed });
        if *state == OnRelay::Waiting(0) {
            states.remove(&url);
        }
    }

    fn resign(&mut self, id: u8) {
        let Some(mail) = query::outbox_entry(&self.rig.tables, &msg(&id.to_string())).unwrap()
        else {
            return;
        };
        let states = &self.model.outbox[&id];
        let has = |want: OnRelay| states.values().any(|s| *s == want);
        let waits = states.values().any(|s| matches!(s, OnRelay::Waiting(_)));
        let want = match (has(OnRelay::Accepted), waits) {
            (true, _) => Err(AgentRefusal::AlreadyAccepted),
            (false, changed) => Ok(AgentReply::Done { changed }),
        };
        assert_eq!(self.rig.resign(mail.seq, mail.row.body), want);
    }

    fn step(&mut self, op: &Op) {
        let now = self.rig.now;
        match op {
            Op::Take(at) => {
                let entry = self.model.epochs.entry(*at).or_default();
                *entry = (entry.0 + 1, true);
                assert_eq!(self.rig.take(name(*at), 1).epoch, entry.0);
            }
            Op::Release(at) => {
                if self
                    .fenced(*at, false, |lease| AgentCommand::ReleaseLease { lease })
                    .is_some()
                {
                    self.model.epochs.get_mut(at).unwrap().1 = false;
                }
            }
            Op::AddPeer(n) => {
                let changed = self.model.peers.insert(*n);
                assert_eq!(
                    self.rig.add(&format!("p{n}"), *n),
                    Ok(AgentReply::PeerAdded { changed })
                );
            }
            Op::RemovePeer(n) => {
                let key = self.model.peers.remove(n).then(|| key(*n));
                assert_eq!(
                    self.rig.remove(&format!("p{n}")),
                    AgentReply::PeerRemoved { key }
                );
            }
            Op::Receive(arrival) => self.receive(arrival),
            Op::MarkSeen { at, from, id } => {
                let want = self.model.gate(*from, *id, now.0, now.0);
                let command = |lease| AgentCommand::MarkSeen {
                    lease,
                    own: key(OWN),
                    from: key(*from),
                    msg_id: msg(&id.to_string()),
                    ts: now,
                    window: WINDOW,
                    now,
                };
                if let Some(got) = self.fenced(*at, false, command) {
                    if want.is_none() {
                        self.model.seen.insert((*from, *id), now.0);
                    }
                    assert_eq!(got, AgentReply::Received(want.unwrap_or(Reception::Seen)));
                }
            }
            Op::Ack { at, stale, items } => {
                let command = |lease| AgentCommand::Acknowledge {
                    lease,
                    items: items
                        .iter()
                        .map(|(n, id)| (key(*n), msg(&id.to_string())))
                        .collect(),
                    now,
                };
                let Some(got) = self.fenced(*at, *stale, command) else {
                    return;
                };
                let mut newly = 0;
                for mail in &mut self.model.mails {
                    if mail.at == *at && !mail.acked && items.contains(&(mail.from, mail.id)) {
                        mail.acked = true;
                        newly += 1;
                    }
                }
                let listed = self.model.late.len();
                self.model
                    .late
                    .retain(|id, session| session != at || !items.contains(id));
                newly += listed - self.model.late.len();
                assert_eq!(got, AgentReply::Acknowledged { newly });
            }
            Op::Forget { age } => {
                let before = now.minus(*age).0;
                let newest = self
                    .model
                    .seen
                    .values()
                    .copied()
                    .filter(|ts| *ts <= before)
                    .max();
                let rises = newest > self.model.floor && newest.is_some();
                assert_eq!(self.rig.forget(*age), AgentReply::Done { changed: rises });
                if rises {
                    self.model.floor = newest;
                    self.model.seen.retain(|_, ts| Some(*ts) > newest);
                }
            }
            Op::Queue { at, id, to } => {
                let wish = self.rig.wish(&self.lease(*at, false), &id.to_string(), *to);
                if self.model.outbox.contains_key(id) {
                    assert!(self.rig.submit(AgentCommand::QueueMessage(wish)).is_err());
                } else if self
                    .fenced(*at, false, |_| AgentCommand::QueueMessage(wish))
                    .is_some()
                {
                    let relays = ["r1", "r2"].map(|r| (r.to_owned(), OnRelay::Waiting(0)));
                    self.model.outbox.insert(*id, relays.into());
                }
            }
            Op::Attempt { id, relay, .. } | Op::Accept { id, relay } | Op::Refuse { id, relay } => {
                self.on_relay(*id, *relay, op);
            }
            Op::Resign { id } => self.resign(*id),
            Op::Reserve { at } => {
                self.notice += 1;
                let id = format!("{:08x}", self.notice);
                let path = NoticePath::Listener;
                let command = |lease| AgentCommand::ReserveNotice {
                    patience_ms: None,
                    lease,
                    id,
                    path,
                    now,
                };
                let waits = self.model.unread(*at);
                if let Some(AgentReply::Notice(step)) = self.fenced(*at, false, command) {
                    assert!(step == NoticeStep::Idle || !waits.is_empty());
                }
            }
            Op::NoticeResult { at, ok } => {
                let row = query::notice(&self.rig.tables, &session(name(*at))).unwrap();
                let id = row.map(|row| row.id).unwrap_or_default();
                let accepted = ok.then_some(NoticePath::Socket);
                self.fenced(*at, false, |lease| AgentCommand::NoticeResult {
                    patience_ms: None,
                    lease,
                    id,
                    accepted,
                    now,
                });
            }
            Op::Observe { at, reset } => {
                let (id, reset) = (None, *reset);
                self.fenced(*at, false, |lease| AgentCommand::ObserveNotice {
                    lease,
                    id,
                    reset,
                    now,
                });
            }
            Op::Jump(by) => self.rig.now = UnixMillis(now.0.saturating_add_signed(*by)),
        }
    }

    fn compare(&self) {
        for at in [0, 1] {
            let want: Vec<_> = self.model.unread(at);
            let mails = query::unread(&self.rig.tables, &session(name(at)), usize::MAX).unwrap();
            let got: Vec<_> = mails
                .iter()
                .map(|m| (m.row.from, m.row.msg_id.to_string()))
                .collect();
            let want_text: Vec<_> = want
                .iter()
                .map(|(n, id)| (key(*n), id.to_string()))
                .collect();
            assert_eq!(got, want_text);
            let totals = query::unread_totals(&self.rig.tables, &session(name(at))).unwrap();
            assert_eq!(totals.messages, want.len());
        }
        let floor = query::floor(&self.rig.tables).unwrap().map(|floor| floor.0);
        assert_eq!(floor, self.model.floor);
        let late = query::expired(&self.rig.tables, None).unwrap();
        assert_eq!(late.len(), self.model.late.len());
        for (id, states) in &self.model.outbox {
            let mail = query::outbox_entry(&self.rig.tables, &msg(&id.to_string()))
                .unwrap()
                .unwrap();
            let got: BTreeMap<String, OnRelay> = mail
                .row
                .relays
                .iter()
                .map(|relay| {
                    let state = match &relay.state {
                        RelayState::Waiting { attempts, .. } => OnRelay::Waiting(*attempts),
                        RelayState::Accepted { .. } => OnRelay::Accepted,
                        RelayState::Refused { .. } => OnRelay::Refused,
                    };
                    (relay.url.clone(), state)
                })
                .collect();
            assert_eq!(&got, states);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_history_agrees_with_a_plain_model_and_replays_to_equal_rows(
        ops in prop::collection::vec(op(), 1..120)
    ) {
        let mut run = Run { rig: Rig::new(), model: Model::default(), notice: 0 };
        for op in &ops {
            let floor = run.model.floor;
            run.step(op);
            run.compare();
            assert!(run.model.floor >= floor, "the floor only rises");
        }
        run.rig.check();
    }
}
