//! Agents, relays and the link between them, in virtual time. One random number generator decides
//! what happens next, so a seed is a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use interlink::crypto::hash::sha256;
use interlink::crypto::sign::SigningIdentity;
use interlink::domain::decide::agent::{
    Agent, AgentCommand, AgentRefusal, AgentReply, Lease, QueueMessage, Receive, Reception, Window,
};
use interlink::domain::decide::bus::{Bus, BusCommand, Overflow, QueueLimits};
use interlink::domain::gate::{self, Outcome, Reject, Windows};
use interlink::domain::machine::outbox::{RelayGate, RelayHealth};
use interlink::domain::query::agent::{self as query, Due, DueAction, DueQuery, RelayView};
use interlink::event::agent::{AttemptError, MailKind, Origin};
use interlink::testkit::Rng;
use interlink::types::id::{MsgId, PublicKey, SessionId};
use interlink::types::secret::Secret;
use interlink::types::seq::Seq;
use interlink::types::time::UnixMillis;
use interlink::wire::envelope::{Draft, Message, MessageKind};

use super::memory::Memory;
use super::pairing::Wishes;

pub const HOUR: u64 = 3_600_000;
const START: u64 = 1_800_000_000_000;
const LIMITS: QueueLimits = QueueLimits {
    messages: 100_000,
    bytes: 1 << 30,
    store_bytes: 1 << 30,
    queues: 1000,
    overflow: Overflow::Refuse,
};

/// How unkind the world is.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub agents: usize,
    pub relays: usize,
    /// Per hundred: a request, and again its answer, is lost on the way.
    pub loss: u64,
    /// Per hundred: a relay gives mail again that was acknowledged, or in another order.
    pub mischief: u64,
    /// Whether clocks jump.
    pub jumps: bool,
    /// Whether they begin as strangers, with operators who pair them.
    pub strangers: bool,
}

pub struct Node {
    pub identity: SigningIdentity,
    pub key: PublicKey,
    pub session: SessionId,
    pub store: Memory<Agent>,
    pub lease: Lease,
    health: Vec<RelayHealth>,
    /// How far its clock is off, in milliseconds.
    skew: i64,
}

pub struct Relay {
    url: String,
    pub store: Memory<Bus>,
    up: bool,
    /// Everything that it ever took, for mischief.
    history: Vec<(String, Arc<[u8]>)>,
}

/// What was promised to senders, and what readers saw.
#[derive(Default)]
pub struct Book {
    pub queued: BTreeMap<MsgId, (usize, usize)>,
    pub order: Vec<MsgId>,
    /// In the order in which readers acknowledged them, by recipient.
    pub read: BTreeMap<usize, Vec<MsgId>>,
    /// The gate said that they come from the future: a clock was wrong.
    pub future: BTreeSet<MsgId>,
    /// Recorded as too late.
    pub expired: BTreeSet<MsgId>,
    /// The recipient did not list the sender (yet, or any more).
    pub refused: BTreeSet<MsgId>,
}

pub struct World {
    pub rng: Rng,
    pub weather: Weather,
    now: u64,
    pub nodes: Vec<Node>,
    pub relays: Vec<Relay>,
    cut: BTreeSet<(usize, usize)>,
    pub book: Book,
    pub wishes: Wishes,
    ids: u64,
}

impl World {
    pub fn new(seed: u64, weather: Weather) -> World {
        let relays: Vec<Relay> = (0..weather.relays)
            .map(|n| Relay {
                url: format!("http://relay{n}:9440"),
                store: Memory::new(),
                up: true,
                history: vec![],
            })
            .collect();
        let nodes = (0..weather.agents)
            .map(|n| {
                let seed = Secret::new([u8::try_from(n + 1).unwrap(); 32]);
                let identity = SigningIdentity::from_seed(&seed);
                let session = SessionId::parse(&format!("s{n}")).unwrap();
                let mut store = Memory::new();
                let lease = take_lease(&mut store, &session, UnixMillis(START));
                Node {
                    key: identity.public(),
                    identity,
                    session,
                    store,
                    lease,
                    health: vec![RelayHealth::new(); weather.relays],
                    skew: 0,
                }
            })
            .collect();
        World {
            rng: Rng::new(seed),
            weather,
            now: START,
            nodes,
            relays,
            cut: BTreeSet::new(),
            book: Book::default(),
            wishes: Wishes::default(),
            ids: 0,
        }
    }

    /// Everybody admits everybody.
    pub fn introduce(&mut self) {
        let keys: Vec<PublicKey> = self.nodes.iter().map(|n| n.key).collect();
        for at in 0..self.nodes.len() {
            for (other, key) in keys.iter().enumerate().filter(|(other, _)| *other != at) {
                let command = AgentCommand::AddPeer {
                    petname: format!("n{other}"),
                    key: *key,
                    origin: Origin::Admin,
                    lease: None,
                    now: self.clock(at),
                };
                self.node_submit(at, &command).unwrap();
            }
        }
    }

    pub fn clock(&self, node: usize) -> UnixMillis {
        UnixMillis(self.now.saturating_add_signed(self.nodes[node].skew))
    }

    pub fn node_submit(
        &mut self,
        at: usize,
        command: &AgentCommand,
    ) -> Result<AgentReply, AgentRefusal> {
        let now = self.clock(at);
        self.nodes[at].store.submit(now, command)
    }

    /// One thing happens.
    pub fn step(&mut self) {
        let (node, relay) = (self.any_node(), self.rng.index(self.relays.len()));
        match self.rng.below(100) {
            0..20 => self.send(node),
            20..45 => self.pump(node, relay),
            45..70 => self.poll(node, relay),
            70..82 => self.read(node),
            82..90 => self.now += self.rng.below(20_000),
            90..92 => self.now += self.rng.below(HOUR),
            92..95 => self.toggle(node, relay),
            95 => self.relays[relay].up ^= true,
            96 => self.restart_node(node),
            97 => self.relays[relay].store.restart(),
            98 if self.weather.strangers => self.operate(node),
            _ if self.weather.jumps => {
                let jump = i64::try_from(self.rng.below(6 * HOUR)).unwrap();
                let sign = if self.rng.chance(50) { 1 } else { -1 };
                self.nodes[node].skew = sign * jump;
            }
            _ => {}
        }
    }

    /// The weather clears, clocks are set, and everybody works until nothing is left to do.
    pub fn settle(&mut self) {
        self.weather.loss = 0;
        self.weather.mischief = 0;
        self.cut.clear();
        for relay in &mut self.relays {
            relay.up = true;
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].skew = 0;
            self.restart_node(node);
        }
        for _ in 0..2000 {
            self.now += 30_000;
            for node in 0..self.nodes.len() {
                for relay in 0..self.relays.len() {
                    self.pump(node, relay);
                    self.poll(node, relay);
                }
                self.read(node);
            }
            if self.is_quiet() {
                return;
            }
        }
        panic!("still busy after 2000 rounds of good weather");
    }

    fn is_quiet(&self) -> bool {
        let relays = self
            .relays
            .iter()
            .all(|r| r.store.index.message_count() == 0);
        let nodes = self.nodes.iter().all(|n| {
            let open = query::outbox_open(&n.store.tables, Some(&n.session), 1).unwrap();
            let unread = query::unread_totals(&n.store.tables, &n.session).unwrap();
            open.is_empty() && unread.messages == 0
        });
        relays && nodes
    }

    pub fn any_node(&mut self) -> usize {
        self.rng.index(self.nodes.len())
    }

    fn toggle(&mut self, node: usize, relay: usize) {
        if !self.cut.remove(&(node, relay)) {
            self.cut.insert((node, relay));
        }
    }

    fn restart_node(&mut self, at: usize) {
        let now = self.clock(at);
        let node = &mut self.nodes[at];
        node.store.restart();
        node.health = vec![RelayHealth::new(); node.health.len()];
        node.lease = take_lease(&mut node.store, &node.session, now);
    }

    /// Whether a request or an answer gets through.
    fn carries(&mut self, node: usize, relay: usize) -> bool {
        let loss = self.weather.loss;
        self.relays[relay].up && !self.cut.contains(&(node, relay)) && !self.rng.chance(loss)
    }

    pub fn fresh_id(&mut self) -> MsgId {
        self.ids += 1;
        MsgId::parse(&format!("{:032x}", self.ids)).unwrap()
    }

    pub fn urls(&self) -> Vec<String> {
        self.relays.iter().map(|r| r.url.clone()).collect()
    }

    fn send(&mut self, from: usize) {
        let to = self.any_node();
        if to == from || !self.lists(from, to) {
            return;
        }
        let msg_id = self.fresh_id();
        let now = self.clock(from);
        let (recipient, to_session) = (self.nodes[to].key, self.nodes[to].session.clone());
        let node = &self.nodes[from];
        let message = Message::sign(
            &node.identity,
            Draft {
                to: recipient,
                text: format!("message {}", self.ids),
                ts: now,
                msg_id: msg_id.clone(),
                kind: MessageKind::Message,
                task_id: None,
                status: None,
                in_reply_to: None,
                reply_to: None,
            },
        );
        let body = serde_json::to_vec(&message).unwrap();
        let command = AgentCommand::QueueMessage(QueueMessage {
            lease: node.lease.clone(),
            msg_id: msg_id.clone(),
            to: recipient,
            to_session,
            kind: MailKind::Message,
            task_id: None,
            status: None,
            in_reply_to: None,
            ts: now,
            sha256: sha256(&body),
            body: body.into(),
            relays: self.urls(),
            now,
        });
        match self.node_submit(from, &command) {
            Ok(AgentReply::Queued { .. }) => {
                self.book.queued.insert(msg_id.clone(), (from, to));
                self.book.order.push(msg_id);
            }
            Err(AgentRefusal::RecipientFull { .. } | AgentRefusal::OutboxFull { .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    /// What one pump does for one relay in one round.
    fn pump(&mut self, at: usize, relay: usize) {
        let now = self.clock(at);
        if matches!(
            self.nodes[at].health[relay].gate(now),
            RelayGate::Closed { .. }
        ) {
            return;
        }
        let url = self.relays[relay].url.clone();
        let node = &self.nodes[at];
        let question = DueQuery {
            now,
            relays: &[RelayView {
                url: &url,
                woken: false,
            }],
            resign_after_ms: 12 * HOUR,
            give_up_after_ms: 24 * HOUR,
            future_ms: 60_000,
            limit: 16,
        };
        let session = node.session.clone();
        let list =
            query::outbox_pending(&node.store.tables, &question, &|s| *s == session).unwrap();
        // A process that dies after the first of them does the rest later.
        let most = 1 + self.rng.index(8);
        for due in list.due.iter().filter(|due| due.relay == url).take(most) {
            self.act(at, relay, due);
        }
    }

    fn act(&mut self, at: usize, relay: usize, due: &Due) {
        let now = self.clock(at);
        let (msg_seq, url) = (due.seq, due.relay.clone());
        let command = match due.action {
            DueAction::GiveUp => AgentCommand::RecordRefused {
                msg_seq,
                relay: url,
                status: 0,
                reason: "given up".into(),
                now,
            },
            DueAction::Resign => {
                let message = self.own_message(at, due.body);
                let new = message.renewed(&self.nodes[at].identity, now).unwrap();
                let body = serde_json::to_vec(&new).unwrap();
                AgentCommand::Resign {
                    msg_seq,
                    replaces: due.body,
                    ts: now,
                    sha256: sha256(&body),
                    body: body.into(),
                    now,
                }
            }
            DueAction::Send { attempts } => self.post(at, relay, due, attempts),
        };
        self.node_submit(at, &command).unwrap();
    }

    fn post(&mut self, at: usize, relay: usize, due: &Due, attempts: u32) -> AgentCommand {
        let (msg_seq, url) = (due.seq, due.relay.clone());
        let body: Arc<[u8]> = self.nodes[at].store.body(due.body).unwrap().into();
        let to = format!("{}#{}", due.to, due.to_session);
        let mut arrived = self.carries(at, relay);
        if arrived {
            let now = UnixMillis(self.now);
            let there = &mut self.relays[relay];
            let command = BusCommand::Enqueue {
                to: to.clone(),
                sha256: sha256(&body),
                payload: Arc::clone(&body),
                msg_id: String::new(),
                limits: LIMITS,
            };
            there.store.submit(now, &command).unwrap();
            there.history.push((to, body));
            arrived = self.carries(at, relay);
        }
        let now = self.clock(at);
        let jitter = u32::try_from(self.rng.below(u64::from(u32::MAX))).unwrap();
        let health = &mut self.nodes[at].health[relay];
        if arrived {
            health.answered();
            return AgentCommand::RecordAccepted {
                msg_seq,
                relay: url,
                dropped: false,
                now,
            };
        }
        AgentCommand::RecordAttempt {
            msg_seq,
            relay: url,
            attempt: attempts + 1,
            error: AttemptError::Timeout,
            detail: String::new(),
            next_at: health.failed(now, jitter),
            now,
        }
    }

    fn own_message(&self, at: usize, body: Seq) -> Message {
        let bytes = self.nodes[at].store.body(body).unwrap();
        Message::from_json(std::str::from_utf8(bytes).unwrap()).unwrap()
    }

    /// One round of one poll: fetch, decide, acknowledge.
    fn poll(&mut self, at: usize, relay: usize) {
        if !self.carries(at, relay) {
            return;
        }
        let me = format!("{}#{}", self.nodes[at].key, self.nodes[at].session);
        let mut given: Vec<(Option<Seq>, Arc<[u8]>)> = vec![];
        let there = &self.relays[relay];
        if let Some(queue) = there.store.index.queue(&me) {
            for (seq, _) in queue.iter().take(8) {
                given.push((Some(seq), there.store.body(seq).unwrap().into()));
            }
        }
        if self.rng.chance(self.weather.mischief) {
            let history = &self.relays[relay].history;
            if !history.is_empty() {
                let (_, payload) = &history[self.rng.index(history.len())];
                given.push((None, Arc::clone(payload)));
            }
            self.rng.shuffle(&mut given);
        }
        if given.is_empty() || !self.carries(at, relay) {
            return;
        }
        let mut done = vec![];
        for (seq, payload) in given {
            if self.take(at, &payload) {
                done.extend(seq);
            }
        }
        // Killed, or cut off, before the acknowledgement.
        if done.is_empty() || !self.carries(at, relay) {
            return;
        }
        let now = UnixMillis(self.now);
        let command = BusCommand::Ack { me, seqs: done };
        self.relays[relay].store.submit(now, &command).unwrap();
    }

    /// The gate and the commit; whether the relay may forget the message.
    fn take(&mut self, at: usize, payload: &[u8]) -> bool {
        let message = Message::from_json(std::str::from_utf8(payload).unwrap()).unwrap();
        let now = self.clock(at);
        let node = &self.nodes[at];
        let tables = &node.store.tables;
        let decision = gate::decide(
            &node.key,
            &message,
            now,
            &Windows::default(),
            |key| query::peer_by_key(tables, key).map(|p| p.map(|p| p.petname)),
            |key, id| query::is_seen(tables, key, id),
        )
        .unwrap();
        match decision.outcome {
            Outcome::Inline { .. } | Outcome::Reject(Reject::Expired { .. }) => {}
            Outcome::Reject(Reject::Stale { .. }) => {
                self.spoil(at, &message.from);
                self.book.future.insert(message.msg_id);
                return true;
            }
            Outcome::Reject(Reject::NotAllowlisted) => {
                self.book.refused.insert(message.msg_id);
                return true;
            }
            Outcome::PairRequest | Outcome::KnownPeerKnock { .. } => {
                self.knocked(at, &message);
                return true;
            }
            Outcome::PairAccept => {
                self.accepted(at, &message);
                return true;
            }
            _ => return true,
        }
        let windows = Windows::default();
        let id = message.msg_id.clone();
        let command = AgentCommand::Receive(Box::new(Receive {
            lease: node.lease.clone(),
            own: node.key,
            from: message.from,
            ts: message.ts,
            kind: MailKind::Message,
            status: None,
            reply_to: None,
            msg_id: message.msg_id,
            task_id: None,
            in_reply_to: None,
            sha256: sha256(payload),
            body: payload.into(),
            window: Window {
                past_ms: windows.past_peer_ms,
                future_ms: windows.future_ms,
            },
            now,
        }));
        match self.node_submit(at, &command) {
            Ok(AgentReply::Received(Reception::TooOld { .. })) => {
                self.book.expired.insert(id);
                true
            }
            Ok(_) => true,
            Err(AgentRefusal::MailboxFull { .. }) => false,
            Err(e) => panic!("{e:?}"),
        }
    }

    /// The reader fetches some of its mail and acknowledges it.
    fn read(&mut self, at: usize) {
        let most = 1 + self.rng.index(10);
        let node = &self.nodes[at];
        let mails = query::unread(&node.store.tables, &node.session, most).unwrap();
        let items: Vec<_> = mails
            .iter()
            .map(|m| (m.row.from, m.row.msg_id.clone()))
            .collect();
        if items.is_empty() {
            return;
        }
        let command = AgentCommand::Acknowledge {
            lease: node.lease.clone(),
            items: items.clone(),
            now: self.clock(at),
        };
        let reply = self.node_submit(at, &command).unwrap();
        assert_eq!(reply, AgentReply::Acknowledged { newly: items.len() });
        let read = self.book.read.entry(at).or_default();
        read.extend(items.into_iter().map(|(_, id)| id));
    }
}

fn take_lease(store: &mut Memory<Agent>, session: &SessionId, now: UnixMillis) -> Lease {
    let command = AgentCommand::TakeLease {
        session: session.clone(),
        pid: 1,
        process_start: 1,
        now,
    };
    match store.submit(now, &command) {
        Ok(AgentReply::Lease(lease)) => lease,
        other => panic!("{other:?}"),
    }
}
