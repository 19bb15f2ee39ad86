//! Two identities, their operators, and the link between them.

use std::collections::BTreeMap;

use interlink::domain::decide::agent::{
    AcceptPair, Acceptance, Agent, AgentCommand, AgentRefusal, AgentReply, AnswerKnock,
    ControlMail, Knock, Lease, PairingCommand, PairingReply, RequestPair, TakeAcceptance,
    TakeKnock,
};
use interlink::domain::gate::Windows;
use interlink::domain::projection::agent::{OutboxRow, Sent};
use interlink::domain::projection::apply_all;
use interlink::domain::query::agent as query;
use interlink::domain::tables::MemTables;
use interlink::domain::{Domain, View};
use interlink::event::Recorded;
use interlink::event::agent::{AgentEvent, MailKind, Origin};
use interlink::testkit::Rng;
use interlink::testkit::sample_agent::take_lease;
use interlink::types::id::{MsgId, PublicKey, SessionId};
use interlink::types::seq::Seq;
use interlink::types::time::UnixMillis;

use crate::support::START;

const HOUR: u64 = 3_600_000;
const RELAY: &str = "http://127.0.0.1:1";
const SESSIONS: [&str; 2] = ["s1", "s2"];
/// Names that operators and strangers like, so that they collide.
const NAMES: [&str; 3] = ["ann", "bob", "self"];

/// How often things happened, so that a run that tests nothing is noticed.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) paired: usize,
    pub(super) conflicts: usize,
    pub(super) answers: usize,
    pub(super) unsolicited: usize,
    pub(super) copies: usize,
    pub(super) expired: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.paired += other.paired;
        self.conflicts += other.conflicts;
        self.answers += other.answers;
        self.unsolicited += other.unsolicited;
        self.copies += other.copies;
        self.expired += other.expired;
    }
}

/// Who stands behind a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Operator,
    Network,
}

struct Side {
    key: PublicKey,
    other: PublicKey,
    tables: MemTables,
    log: Vec<Recorded<AgentEvent>>,
    leases: Vec<Lease>,
    /// The request that the operator made and neither called off nor saw end: id and name.
    wants: Option<(MsgId, String)>,
    /// Names as they stood after the last command.
    names: BTreeMap<PublicKey, String>,
}

/// A pairing message on the link.
#[derive(Clone, Debug)]
struct Packet {
    to: usize,
    kind: MailKind,
    msg_id: MsgId,
    in_reply_to: Option<MsgId>,
    ts: UnixMillis,
    to_session: SessionId,
    reply_session: SessionId,
    /// How often it was delivered.
    delivered: usize,
}

pub(super) struct World {
    rng: Rng,
    sides: [Side; 2],
    now: UnixMillis,
    link: Vec<Packet>,
    next: u64,
    story: Vec<String>,
    pub(super) tally: Tally,
}

fn id(text: &str) -> MsgId {
    MsgId::parse(text).unwrap()
}

fn session(n: usize) -> SessionId {
    SessionId::parse(SESSIONS[n]).unwrap()
}

impl Side {
    fn new(n: u8) -> Side {
        let mut side = Side {
            key: PublicKey::from_bytes([n; 32]),
            other: PublicKey::from_bytes([3 - n; 32]),
            tables: MemTables::new(),
            log: vec![],
            leases: vec![],
            wants: None,
            names: BTreeMap::new(),
        };
        for name in SESSIONS {
            let reply = side.submit(take_lease(name, START), START, Cause::Operator);
            match reply {
                Ok(AgentReply::Lease(lease)) => side.leases.push(lease),
                other => panic!("{other:?}"),
            }
        }
        side
    }

    /// Decides and applies a command, and judges what it did to the names.
    fn submit(
        &mut self,
        command: AgentCommand,
        now: UnixMillis,
        cause: Cause,
    ) -> Result<AgentReply, AgentRefusal> {
        let next = Seq(self.log.len() as u64 + 1);
        let view = View {
            tables: &self.tables,
            index: &(),
            next,
        };
        let decision = Agent::decide(&view, &command).unwrap()?;
        let at = self.log.len();
        for new in decision.events {
            let record = Recorded {
                seq: Seq(self.log.len() as u64 + 1),
                at: now,
                event: new.event,
            };
            apply_all(Agent::projections(), &mut self.tables, &record).unwrap();
            self.log.push(record);
        }
        let events: Vec<_> = self.log[at..].iter().map(|r| r.event.clone()).collect();
        self.judge(&events, cause);
        Ok(decision.reply)
    }

    fn judge(&mut self, events: &[AgentEvent], cause: Cause) {
        for event in events {
            match event {
                AgentEvent::PeerAdded(e) => {
                    let wanted = self
                        .wants
                        .as_ref()
                        .is_some_and(|(_, name)| *name == e.petname);
                    assert!(
                        cause == Cause::Operator || wanted,
                        "admitted without an operator: {e:?}, wanted {:?}",
                        self.wants
                    );
                    let old = self.names.insert(e.key, e.petname.clone());
                    assert_eq!(old, None, "renamed: {e:?}");
                }
                AgentEvent::PeerRemoved(e) => {
                    assert_eq!(cause, Cause::Operator);
                    assert_eq!(self.names.remove(&e.key).as_ref(), Some(&e.petname));
                    if e.key == self.other {
                        // Whoever revokes a key does not want it any more.
                        self.wants = None;
                    }
                }
                AgentEvent::PairRequestEnded(_) | AgentEvent::PairConflicted(_) => {
                    self.wants = None;
                }
                _ => {}
            }
        }
        let peers = query::peers(&self.tables).unwrap();
        let names: BTreeMap<_, _> = peers.into_iter().map(|p| (p.key, p.petname)).collect();
        assert_eq!(names, self.names, "a name moved");
    }

    fn pairing(
        &mut self,
        command: PairingCommand,
        now: UnixMillis,
        cause: Cause,
    ) -> Result<PairingReply, AgentRefusal> {
        match self.submit(command.into(), now, cause)? {
            AgentReply::Pairing(reply) => Ok(reply),
            other => panic!("{other:?}"),
        }
    }

    fn lists(&self, key: &PublicKey) -> bool {
        self.names.contains_key(key)
    }

    fn waiting(&self) -> Vec<(Seq, OutboxRow)> {
        let open = query::outbox_open(&self.tables, None, 100).unwrap();
        open.into_iter().map(|mail| (mail.seq, mail.row)).collect()
    }
}

impl World {
    pub(super) fn new(rng: Rng) -> World {
        World {
            rng,
            sides: [Side::new(1), Side::new(2)],
            now: START,
            link: vec![],
            next: 0,
            story: vec![],
            tally: Tally::default(),
        }
    }

    pub(super) fn story(&self) -> String {
        let from = self.story.len().saturating_sub(60);
        self.story[from..].join("\n")
    }

    fn tell(&mut self, what: String) {
        self.story.push(format!("{} {what}", self.now.0 - START.0));
    }

    fn fresh(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{what}{}", self.next)
    }

    fn mail(&self, msg_id: MsgId) -> ControlMail {
        ControlMail {
            msg_id,
            ts: self.now,
            body: b"{}".as_slice().into(),
            sha256: [0; 32],
            relays: vec![RELAY.to_owned()],
        }
    }

    /// Anything, in any order.
    pub(super) fn trouble(&mut self, steps: usize) {
        for _ in 0..steps {
            let at = self.rng.index(2);
            match self.rng.below(100) {
                0..12 => {
                    let name = NAMES[self.rng.index(3)].to_owned();
                    self.request(at, name);
                }
                12..35 => self.pump(at, 70),
                35..65 => self.deliver_any(),
                65..77 => self.accept_any(at),
                77..80 => self.reject(at),
                80..83 => self.cancel(at),
                83..89 => self.squat(at),
                89..91 => self.resolve(at),
                91..93 => self.revoke(at),
                93..95 => self.block(at),
                95..98 => {
                    let jumps = [1, HOUR / 10, HOUR, 25 * HOUR, 15 * 24 * HOUR];
                    self.now = self.now.plus(jumps[self.rng.index(5)]);
                }
                _ => self.expire(at),
            }
        }
    }

    fn request(&mut self, at: usize, name: String) {
        let other = self.sides[1 - at].key;
        let old = query::outbound_of(&self.sides[at].tables, &other).unwrap();
        let request_id = match old {
            Some(old) => old.row.request_id,
            None => id(&self.fresh("r")),
        };
        let speaks = self.rng.index(2);
        let wish = RequestPair {
            lease: self.sides[at].leases[speaks].clone(),
            own: self.sides[at].key,
            key: other,
            name: name.clone(),
            to_session: session(self.rng.index(2)),
            agreed: true,
            origin: Origin::Tool,
            mail: self.mail(request_id.clone()),
            now: self.now,
        };
        let command = PairingCommand::Request(Box::new(wish));
        let side = &mut self.sides[at];
        let asked = side.pairing(command, self.now, Cause::Operator);
        if asked.is_ok() {
            let request = query::outbound_of(&side.tables, &other).unwrap().unwrap();
            side.wants = Some((request_id, request.row.name));
        }
        self.tell(format!("{at} requests as {name}: {asked:?}"));
    }

    /// Hands what waits in the outbox to the link.
    fn pump(&mut self, at: usize, percent: u64) {
        for (seq, row) in self.sides[at].waiting() {
            if !self.rng.chance(percent) {
                continue;
            }
            let accepted = AgentCommand::RecordAccepted {
                msg_seq: seq,
                relay: RELAY.to_owned(),
                dropped: false,
                now: self.now,
            };
            let sent = self.sides[at].submit(accepted, self.now, Cause::Network);
            sent.unwrap();
            self.link.push(Packet {
                to: 1 - at,
                kind: row.kind,
                msg_id: row.msg_id,
                in_reply_to: row.in_reply_to,
                ts: row.ts,
                to_session: row.to_session,
                reply_session: row.session,
                delivered: 0,
            });
        }
    }

    /// Loses, doubles, delays, reorders.
    fn deliver_any(&mut self) {
        if self.link.is_empty() {
            return;
        }
        let at = self.rng.index(self.link.len());
        match self.rng.below(10) {
            0 => drop(self.link.remove(at)),
            _ => self.deliver(at),
        }
    }

    fn deliver(&mut self, at: usize) {
        self.link[at].delivered += 1;
        let packet = self.link[at].clone();
        match packet.kind {
            MailKind::PairRequest => self.knock(&packet),
            MailKind::PairAccept => self.accepted(&packet),
            MailKind::Message => panic!("{packet:?}"),
        }
    }

    fn lease(&self, packet: &Packet) -> Lease {
        let leases = &self.sides[packet.to].leases;
        let lease = leases.iter().find(|l| l.session == packet.to_session);
        lease.unwrap().clone()
    }

    fn knock(&mut self, packet: &Packet) {
        let wish = TakeKnock {
            lease: self.lease(packet),
            own: self.sides[packet.to].key,
            from: self.sides[1 - packet.to].key,
            request_id: packet.msg_id.clone(),
            ts: packet.ts,
            name: NAMES[self.rng.index(3)].to_owned(),
            reply_session: packet.reply_session.clone(),
            windows: Windows::default(),
            now: self.now,
        };
        let command = PairingCommand::TakeKnock(Box::new(wish));
        let side = &mut self.sides[packet.to];
        let reply = side.pairing(command, self.now, Cause::Network);
        self.tell(format!(
            "{} gets knock {}: {reply:?}",
            packet.to, packet.msg_id
        ));
        match reply.unwrap() {
            PairingReply::Knock(Knock::AlreadyPeer {
                answered: false, ..
            }) => self.answer(packet.to, &packet.msg_id, packet.ts, &packet.reply_session),
            PairingReply::Knock(Knock::Known | Knock::Decided | Knock::Older) => {
                self.tally.copies += 1;
            }
            PairingReply::Knock(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, at: usize, request_id: &MsgId, ts: UnixMillis, to: &SessionId) {
        let mail = self.fresh("a");
        let other = self.sides[1 - at].key;
        let wish = AnswerKnock {
            lease: self.sides[at].leases[0].clone(),
            key: other,
            request_id: request_id.clone(),
            knock_ts: ts,
            to_session: to.clone(),
            mail: self.mail(id(&mail)),
            now: self.now,
        };
        let command = PairingCommand::Answer(Box::new(wish));
        let side = &mut self.sides[at];
        let reply = side.pairing(command, self.now, Cause::Network).unwrap();
        assert!(side.lists(&other), "who answers lists the other side");
        self.tally.answers += usize::from(matches!(reply, PairingReply::Answered { seq: Some(_) }));
        self.tell(format!("{at} answers {request_id}: {reply:?}"));
    }

    fn accepted(&mut self, packet: &Packet) {
        let other = self.sides[1 - packet.to].key;
        let wish = TakeAcceptance {
            lease: self.lease(packet),
            from: other,
            ts: packet.ts,
            in_reply_to: packet.in_reply_to.clone(),
            windows: Windows::default(),
            now: self.now,
        };
        let wanted = self.sides[packet.to].wants.clone();
        let command = PairingCommand::TakeAcceptance(Box::new(wish));
        let side = &mut self.sides[packet.to];
        let reply = side.pairing(command, self.now, Cause::Network).unwrap();
        let fits = side.lists(&other);
        self.tell(format!("{} gets acceptance: {reply:?}", packet.to));
        match reply {
            PairingReply::Acceptance(Acceptance::Paired { knock, .. }) => {
                assert!(fits);
                let (request, _) = wanted.expect("an acceptance that nobody asked for counted");
                assert_eq!(Some(&request), packet.in_reply_to.as_ref());
                self.tally.paired += 1;
                if let Some(knock) = knock {
                    self.answer(packet.to, &knock.request_id, knock.ts, &knock.reply_session);
                }
            }
            PairingReply::Acceptance(Acceptance::Conflict { .. }) => self.tally.conflicts += 1,
            PairingReply::Acceptance(Acceptance::Unsolicited) => self.tally.unsolicited += 1,
            _ => {}
        }
    }

    fn accept_any(&mut self, at: usize) {
        let petname = match self.rng.below(3) {
            0 => None,
            _ => Some(NAMES[self.rng.index(3)].to_owned()),
        };
        self.accept(at, petname);
    }

    fn accept(&mut self, at: usize, petname: Option<String>) {
        let other = self.sides[1 - at].key;
        let Some(inbound) = query::inbound_of(&self.sides[at].tables, &other).unwrap() else {
            return;
        };
        let mail = self.fresh("y");
        let wish = AcceptPair {
            lease: None,
            key: other,
            request_id: inbound.row.request_id,
            petname,
            origin: Origin::Human,
            mail: self.mail(id(&mail)),
            now: self.now,
        };
        let command = PairingCommand::Accept(Box::new(wish));
        let side = &mut self.sides[at];
        let reply = side.pairing(command, self.now, Cause::Operator);
        if reply.is_ok() {
            assert!(side.lists(&other));
            assert!(query::inbound_of(&side.tables, &other).unwrap().is_none());
            let confirmation = query::outbox_entry(&side.tables, &id(&mail)).unwrap();
            assert_eq!(confirmation.unwrap().row.sent(), Sent::Pending);
        }
        self.tell(format!("{at} accepts: {reply:?}"));
    }

    fn reject(&mut self, at: usize) {
        let command = PairingCommand::Reject {
            lease: None,
            key: self.sides[1 - at].key,
            request_id: None,
            origin: Origin::Human,
            now: self.now,
        };
        let reply = self.sides[at].pairing(command, self.now, Cause::Operator);
        self.tell(format!("{at} rejects: {reply:?}"));
    }

    fn cancel(&mut self, at: usize) {
        let command = PairingCommand::Cancel {
            lease: None,
            key: self.sides[1 - at].key,
            origin: Origin::Human,
            now: self.now,
        };
        let reply = self.sides[at].pairing(command, self.now, Cause::Operator);
        self.tell(format!("{at} cancels: {reply:?}"));
    }

    /// Somebody else gets a name that both like, or loses it.
    fn squat(&mut self, at: usize) {
        let petname = NAMES[self.rng.index(2)].to_owned();
        let key = PublicKey::from_bytes([100 + petname.as_bytes()[0] % 2; 32]);
        let command = if self.sides[at].lists(&key) {
            let petname = self.sides[at].names[&key].clone();
            AgentCommand::RemovePeer {
                petname,
                key,
                origin: Origin::Tool,
                lease: None,
                now: self.now,
            }
        } else {
            AgentCommand::AddPeer {
                petname,
                key,
                origin: Origin::Tool,
                lease: None,
                now: self.now,
            }
        };
        let reply = self.sides[at].submit(command, self.now, Cause::Operator);
        self.tell(format!("{at} gives a name away: {reply:?}"));
    }

    fn resolve(&mut self, at: usize) {
        let petname = self.fresh("other");
        let command = PairingCommand::ResolveConflict {
            lease: None,
            key: self.sides[1 - at].key,
            petname,
            origin: Origin::Human,
            now: self.now,
        };
        let reply = self.sides[at].pairing(command, self.now, Cause::Operator);
        self.tell(format!("{at} resolves: {reply:?}"));
    }

    fn revoke(&mut self, at: usize) {
        let other = self.sides[1 - at].key;
        let Some(petname) = self.sides[at].names.get(&other).cloned() else {
            return;
        };
        let command = AgentCommand::RemovePeer {
            petname,
            key: other,
            origin: Origin::Human,
            lease: None,
            now: self.now,
        };
        self.sides[at]
            .submit(command, self.now, Cause::Operator)
            .unwrap();
        self.tell(format!("{at} revokes"));
    }

    fn block(&mut self, at: usize) {
        let key = self.sides[1 - at].key;
        let (lease, origin, now) = (None, Origin::Admin, self.now);
        let blocked = query::is_blocked(&self.sides[at].tables, &key).unwrap();
        let command = if blocked {
            PairingCommand::Unblock {
                lease,
                key,
                origin,
                now,
            }
        } else {
            PairingCommand::Block {
                lease,
                key,
                origin,
                now,
            }
        };
        let reply = self.sides[at].pairing(command, now, Cause::Operator);
        self.tell(format!("{at} blocks or unblocks: {reply:?}"));
    }

    fn expire(&mut self, at: usize) {
        let command = PairingCommand::Expire { now: self.now };
        let reply = self.sides[at].pairing(command, self.now, Cause::Network);
        if let Ok(PairingReply::Ended { inbound, outbound }) = reply {
            self.tally.expired += inbound + outbound;
        }
        self.tell(format!("{at} expires: {reply:?}"));
    }

    /// Everything that waits arrives, in order, once.
    fn settle(&mut self) {
        loop {
            for at in [0, 1] {
                self.pump(at, 100);
            }
            let Some(next) = self.link.iter().position(|p| p.delivered == 0) else {
                return;
            };
            self.deliver(next);
        }
    }

    /// Both operators want to be paired, and mail gets through.
    pub(super) fn heal(&mut self) {
        self.settle();
        self.link.clear();
        self.now = self.now.plus(HOUR);
        for at in [0, 1] {
            let other = self.sides[1 - at].key;
            if query::is_blocked(&self.sides[at].tables, &other).unwrap() {
                self.block(at);
            }
            self.cancel(at);
        }
        for at in [0, 1] {
            let other = self.sides[1 - at].key;
            // Also who lists the other side asks: the other side may not list this one.
            let name = self.fresh("friend");
            self.request(at, name);
            self.settle();
            let name = self.fresh("friend");
            self.accept(1 - at, Some(name));
            self.settle();
            assert!(self.sides[at].lists(&other), "{at} lists the other side");
        }
        for side in &self.sides {
            assert!(query::outbound(&side.tables).unwrap().is_empty());
            assert!(query::inbound(&side.tables).unwrap().is_empty());
            assert!(query::conflicts(&side.tables).unwrap().is_empty());
            assert!(side.waiting().is_empty());
            let mut fresh = MemTables::new();
            for record in &side.log {
                apply_all(Agent::projections(), &mut fresh, record).unwrap();
            }
            assert!(fresh == side.tables, "a replay gives other rows");
        }
    }
}
