//! Events and a history of pairing.

use std::sync::Arc;

use super::Rng;
use super::sample::payload;
use super::sample_agent::{digest, key, maybe, msg_id, relay, session, take_lease, time};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{
    AcceptPair, AgentCommand, AgentReply, AnswerKnock, ControlMail, Lease, PairingCommand,
    PairingReply, RequestPair, TakeAcceptance, TakeKnock,
};
use crate::domain::gate::Windows;
use crate::event::agent::{
    AgentEvent, ConflictReason, ConsentDeclined, KeyBlocked, KeyUnblocked, KnockAnswered, KnockEnd,
    KnockReceived, KnockResolved, Origin, OutboxRequeued, PairConflictResolved, PairConflicted,
    PairNewsSeen, PairRequestEnded, PairRequested, Question, RequestEnd,
};
use crate::event::kind::EventKind;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::PAIR_TTL_MS;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

fn origin(rng: &mut Rng) -> Origin {
    [Origin::File, Origin::Tool, Origin::Admin, Origin::Human][rng.index(4)]
}

fn name(rng: &mut Rng) -> String {
    ["ann", "a\\u{a}b", "\u{e9}\u{4e2d}"][rng.index(3)].to_owned()
}

/// An event about pairing; `None` for other kinds.
#[must_use]
pub fn pairing_event(kind: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    // Whoever asks for another kind gets its numbers undisturbed.
    if !(120..=131).contains(&kind.number()) {
        return None;
    }
    let (key_, request_id, session_) = (key(rng), msg_id(rng), session(rng));
    Some(match kind {
        EventKind::PairRequested => AgentEvent::PairRequested(PairRequested {
            key: key_,
            name: name(rng),
            request_id,
            session: session_,
            to_session: session(rng),
            origin: origin(rng),
        }),
        EventKind::PairRequestEnded => AgentEvent::PairRequestEnded(PairRequestEnded {
            key: key_,
            request_id,
            session: session_,
            end: [
                RequestEnd::Accepted,
                RequestEnd::Cancelled,
                RequestEnd::Expired,
                RequestEnd::Settled,
                RequestEnd::Blocked,
            ][rng.index(5)],
            petname: maybe(rng, name),
            origin: maybe(rng, origin),
        }),
        EventKind::KnockReceived => AgentEvent::KnockReceived(KnockReceived {
            key: key_,
            request_id,
            name: name(rng),
            session: session_,
            reply_session: session(rng),
            ts: time(rng),
            news: rng.chance(50),
        }),
        EventKind::KnockResolved => AgentEvent::KnockResolved(KnockResolved {
            key: key_,
            request_id,
            session: session_,
            ts: time(rng),
            end: [
                KnockEnd::Accepted,
                KnockEnd::Rejected,
                KnockEnd::Evicted,
                KnockEnd::Expired,
                KnockEnd::Blocked,
                KnockEnd::Settled,
            ][rng.index(6)],
            petname: maybe(rng, name),
            origin: maybe(rng, origin),
        }),
        EventKind::KnockAnswered => AgentEvent::KnockAnswered(KnockAnswered {
            key: key_,
            request_id,
            ts: time(rng),
            session: session_,
        }),
        _ => return decided_event(kind, rng),
    })
}

fn decided_event(kind: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    let (key_, request_id, session_) = (key(rng), msg_id(rng), session(rng));
    Some(match kind {
        EventKind::PairConflicted => AgentEvent::PairConflicted(PairConflicted {
            key: key_,
            request_id,
            name: name(rng),
            session: session_,
            reason: [ConflictReason::NameTaken, ConflictReason::ListFull][rng.index(2)],
            holder: maybe(rng, key),
        }),
        EventKind::PairConflictResolved => AgentEvent::PairConflictResolved(PairConflictResolved {
            key: key_,
            request_id,
            petname: maybe(rng, name),
            origin: origin(rng),
        }),
        EventKind::KeyBlocked => AgentEvent::KeyBlocked(KeyBlocked {
            key: key_,
            origin: origin(rng),
        }),
        EventKind::KeyUnblocked => AgentEvent::KeyUnblocked(KeyUnblocked {
            key: key_,
            origin: origin(rng),
        }),
        EventKind::PairNewsSeen => AgentEvent::PairNewsSeen(PairNewsSeen {
            session: session_,
            up_to: Seq(rng.next_u64()),
        }),
        EventKind::OutboxRequeued => AgentEvent::OutboxRequeued(OutboxRequeued {
            message: Seq(rng.next_u64()),
            replaced: Seq(rng.next_u64()),
            session: session_,
            to_session: session(rng),
            ts: time(rng),
            len: 77,
            sha256: digest(rng),
            relays: vec![relay(); 1 + rng.index(3)],
        }),
        EventKind::ConsentDeclined => AgentEvent::ConsentDeclined(ConsentDeclined {
            session: session_,
            question: [
                Question::AcceptPair,
                Question::RequestPair,
                Question::AddPeer,
                Question::RemovePeer,
                Question::ResolveConflict,
            ][rng.index(5)],
            key: key_,
        }),
        _ => return None,
    })
}

/// Message number `n` about pairing.
#[must_use]
pub fn control_mail(id: &str, n: u64, now: UnixMillis) -> ControlMail {
    let body: Arc<[u8]> = payload(n, 250).into();
    ControlMail {
        msg_id: MsgId::parse(id).unwrap(),
        ts: now,
        sha256: sha256(&body),
        body,
        relays: vec![relay(), "http://127.0.0.1:8766".to_owned()],
    }
}

/// A request of key `n` that came through session `lease`.
#[must_use]
pub fn knock(lease: &Lease, n: u8, id: &str, claimed: &str, now: UnixMillis) -> AgentCommand {
    PairingCommand::TakeKnock(Box::new(TakeKnock {
        lease: lease.clone(),
        own: PublicKey::from_bytes([1; 32]),
        from: PublicKey::from_bytes([n; 32]),
        request_id: MsgId::parse(id).unwrap(),
        ts: now,
        name: claimed.to_owned(),
        reply_session: SessionId::parse("theirs").unwrap(),
        windows: Windows::default(),
        now,
    }))
    .into()
}

/// A request of session `lease` to key `n`.
#[must_use]
pub fn request(lease: &Lease, n: u8, id: &str, name: &str, now: UnixMillis) -> AgentCommand {
    PairingCommand::Request(Box::new(RequestPair {
        lease: lease.clone(),
        own: PublicKey::from_bytes([1; 32]),
        key: PublicKey::from_bytes([n; 32]),
        name: name.to_owned(),
        to_session: SessionId::parse("theirs").unwrap(),
        agreed: true,
        origin: Origin::Tool,
        mail: control_mail(id, u64::from(n), now),
        now,
    }))
    .into()
}

/// The operator's acceptance of key `n`'s request.
#[must_use]
pub fn accept(n: u8, id: &str, petname: Option<&str>, now: UnixMillis) -> AgentCommand {
    PairingCommand::Accept(Box::new(AcceptPair {
        lease: None,
        key: PublicKey::from_bytes([n; 32]),
        request_id: MsgId::parse(id).unwrap(),
        petname: petname.map(str::to_owned),
        origin: Origin::Admin,
        mail: control_mail(&format!("accept-{id}"), u64::from(n), now),
        now,
    }))
    .into()
}

struct History<'a> {
    run: &'a mut dyn FnMut(AgentCommand) -> AgentReply,
    lease: Lease,
    now: UnixMillis,
}

impl History<'_> {
    fn pairing(&mut self, command: PairingCommand) -> PairingReply {
        match (self.run)(command.into()) {
            AgentReply::Pairing(reply) => reply,
            other => unreachable!("{other:?}"),
        }
    }

    fn request(&mut self, n: u8, id: &str, name: &str) {
        (self.run)(request(&self.lease, n, id, name, self.now));
    }

    fn accepted(&mut self, n: u8, id: &str) {
        let wish = TakeAcceptance {
            lease: self.lease.clone(),
            from: PublicKey::from_bytes([n; 32]),
            ts: self.now,
            in_reply_to: Some(MsgId::parse(id).unwrap()),
            windows: Windows::default(),
            now: self.now,
        };
        self.pairing(PairingCommand::TakeAcceptance(Box::new(wish)));
    }

    fn ours(&mut self) {
        self.request(2, "ours-1", "ann");
        self.request(2, "ours-1", "ann");
        self.accepted(2, "ours-1");
        self.request(4, "ours-2", "cat");
        (self.run)(AgentCommand::AddPeer {
            petname: "cat".to_owned(),
            key: PublicKey::from_bytes([5; 32]),
            origin: Origin::Human,
            lease: None,
            now: self.now,
        });
        self.accepted(4, "ours-2");
        self.pairing(PairingCommand::ResolveConflict {
            lease: None,
            key: PublicKey::from_bytes([4; 32]),
            petname: "other cat".to_owned(),
            origin: Origin::Admin,
            now: self.now,
        });
        self.request(7, "ours-3", "gus");
        self.request(8, "ours-4", "hal");
        self.pairing(PairingCommand::Cancel {
            lease: Some(self.lease.clone()),
            key: PublicKey::from_bytes([8; 32]),
            origin: Origin::Tool,
            now: self.now,
        });
    }

    fn theirs(&mut self) {
        let (lease, now) = (self.lease.clone(), self.now);
        (self.run)(knock(&lease, 3, "theirs-1", "bob \u{202e}", now));
        (self.run)(accept(3, "theirs-1", Some("bob"), now));
        let answer = AnswerKnock {
            lease: lease.clone(),
            key: PublicKey::from_bytes([3; 32]),
            request_id: MsgId::parse("theirs-2").unwrap(),
            knock_ts: now,
            to_session: SessionId::parse("theirs").unwrap(),
            mail: control_mail("answer", 9, now),
            now,
        };
        self.pairing(PairingCommand::Answer(Box::new(answer)));
        for (n, id) in [(10, "theirs-3"), (11, "theirs-4"), (12, "theirs-5")] {
            (self.run)(knock(&lease, n, id, "mallory", now));
        }
        self.pairing(PairingCommand::Reject {
            lease: Some(lease),
            key: PublicKey::from_bytes([10; 32]),
            request_id: None,
            origin: Origin::Human,
            now,
        });
        let (lease, origin) = (None, Origin::Admin);
        let key = PublicKey::from_bytes([11; 32]);
        self.pairing(PairingCommand::Block {
            lease: lease.clone(),
            key,
            origin,
            now,
        });
        self.pairing(PairingCommand::Unblock {
            lease,
            key,
            origin,
            now,
        });
    }
}

/// A history in which every kind of event about pairing occurs, one command at a time.
pub fn pairing_history(now: UnixMillis, run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let AgentReply::Lease(lease) = run(take_lease("s1", now)) else {
        unreachable!("a free session's lease is given");
    };
    let mut history = History {
        run,
        lease: lease.clone(),
        now,
    };
    history.ours();
    history.theirs();
    history.pairing(PairingCommand::SeeNews {
        lease: lease.clone(),
        up_to: Seq(12),
        now,
    });
    history.pairing(PairingCommand::Decline {
        lease,
        question: Question::AddPeer,
        key: PublicKey::from_bytes([13; 32]),
        now,
    });
    let now = now.plus(PAIR_TTL_MS);
    history.pairing(PairingCommand::Expire { now });
}
