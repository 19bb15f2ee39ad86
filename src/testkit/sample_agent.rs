//! Events and a history of an identity.

use std::sync::Arc;

use super::sample::payload;
use super::sample_pairing::pairing_event;
use super::{Rng, sample_care, sample_directory};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{
    AgentCommand, AgentReply, Lease, QueueMessage, Receive, Reception, Window,
};
use crate::event::agent::{
    Acknowledged, AgentEvent, AttemptError, HeldPeer, LeaseReleased, LeaseTaken, MailKind,
    MailStatus, NoticeChange, NoticeChanged, NoticePath, Origin, OutboxAccepted, OutboxAttempted,
    OutboxQueued, OutboxRefused, OutboxResigned, PeerAdded, PeerRemoved, PeersFileAdopted,
    PeersHeld, PeersPublished, Received, ReceivedExpired, ReplayForgotten, ReplaySeen,
};
use crate::event::kind::EventKind;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

pub(super) fn digest(rng: &mut Rng) -> [u8; 32] {
    let mut out = [0; 32];
    rng.fill(&mut out);
    out
}

pub(super) fn key(rng: &mut Rng) -> PublicKey {
    PublicKey::from_bytes(digest(rng))
}

pub(super) fn session(rng: &mut Rng) -> SessionId {
    SessionId::parse(["s1", "s2", "\u{e9} 3"][rng.index(3)]).unwrap()
}

pub(super) fn msg_id(rng: &mut Rng) -> MsgId {
    MsgId::parse(&format!("{:032x}", rng.below(1000))).unwrap()
}

pub(super) fn maybe<T>(rng: &mut Rng, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    rng.chance(60).then(|| make(rng))
}

fn kind(rng: &mut Rng) -> MailKind {
    [
        MailKind::Message,
        MailKind::PairRequest,
        MailKind::PairAccept,
    ][rng.index(3)]
}

fn status(rng: &mut Rng) -> MailStatus {
    [
        MailStatus::Update,
        MailStatus::NeedsInput,
        MailStatus::Result,
        MailStatus::Failed,
        MailStatus::Canceled,
    ][rng.index(5)]
}

fn path(rng: &mut Rng) -> NoticePath {
    [
        NoticePath::Listener,
        NoticePath::Channel,
        NoticePath::Socket,
        NoticePath::HostQueue,
    ][rng.index(4)]
}

fn change(rng: &mut Rng) -> NoticeChange {
    match rng.below(5) {
        0 => NoticeChange::Reserved {
            path: path(rng),
            covered: Seq(rng.next_u64()),
            attempt: 3,
            due: time(rng),
        },
        1 => NoticeChange::Accepted {
            path: path(rng),
            due: time(rng),
        },
        2 => NoticeChange::Failed,
        3 => NoticeChange::Observed {
            covered: Seq(rng.next_u64()),
        },
        _ => NoticeChange::Dropped,
    }
}

pub(super) fn time(rng: &mut Rng) -> UnixMillis {
    UnixMillis(rng.next_u64())
}

fn origin(rng: &mut Rng) -> Origin {
    [Origin::File, Origin::Tool, Origin::Admin][rng.index(3)]
}

pub(super) fn relay() -> String {
    "http://127.0.0.1:8765".to_owned()
}

fn outbox_event(kind_of: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    let message = Seq(rng.next_u64());
    Some(match kind_of {
        EventKind::OutboxQueued => AgentEvent::OutboxQueued(OutboxQueued {
            session: session(rng),
            msg_id: msg_id(rng),
            to: key(rng),
            to_session: session(rng),
            kind: kind(rng),
            task_id: maybe(rng, |_| "task".to_owned()),
            status: maybe(rng, status),
            in_reply_to: maybe(rng, msg_id),
            ts: time(rng),
            len: 77,
            sha256: digest(rng),
            relays: vec![relay(); 1 + rng.index(3)],
        }),
        EventKind::OutboxAttempted => AgentEvent::OutboxAttempted(OutboxAttempted {
            message,
            relay: relay(),
            attempt: 2,
            error: [
                AttemptError::Connect,
                AttemptError::Timeout,
                AttemptError::Status(503),
                AttemptError::Protocol,
            ][rng.index(4)],
            detail: "no route".to_owned(),
            next_at: time(rng),
        }),
        EventKind::OutboxAccepted => AgentEvent::OutboxAccepted(OutboxAccepted {
            message,
            relay: relay(),
            dropped: rng.chance(50),
        }),
        EventKind::OutboxRefused => AgentEvent::OutboxRefused(OutboxRefused {
            message,
            relay: relay(),
            status: 413,
            reason: "too large".to_owned(),
        }),
        EventKind::OutboxResigned => AgentEvent::OutboxResigned(OutboxResigned {
            message,
            replaced: Seq(rng.next_u64()),
            ts: time(rng),
            len: 5,
            sha256: digest(rng),
        }),
        _ => return None,
    })
}

fn mailbox_event(kind_of: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    let (session, from, msg_id_, ts) = (session(rng), key(rng), msg_id(rng), time(rng));
    Some(match kind_of {
        EventKind::Received => AgentEvent::Received(Received {
            session,
            from,
            msg_id: msg_id_,
            ts,
            kind: kind(rng),
            task_id: maybe(rng, |_| "task".to_owned()),
            status: maybe(rng, status),
            in_reply_to: maybe(rng, msg_id),
            reply_to: maybe(rng, |rng| Route {
                key: key(rng),
                session: None,
            }),
            label: "ann".to_owned(),
            len: 9,
            sha256: digest(rng),
        }),
        EventKind::ReceivedExpired => AgentEvent::ReceivedExpired(ReceivedExpired {
            session,
            from,
            msg_id: msg_id_,
            ts,
            label: "ann".to_owned(),
            len: 9,
        }),
        EventKind::ReplaySeen => AgentEvent::ReplaySeen(ReplaySeen {
            session,
            from,
            msg_id: msg_id_,
            ts,
        }),
        EventKind::ReplayForgotten => AgentEvent::ReplayForgotten(ReplayForgotten { floor: ts }),
        EventKind::Acknowledged => AgentEvent::Acknowledged(Acknowledged {
            session,
            seqs: vec![Seq(rng.next_u64()); rng.index(4)],
        }),
        EventKind::NoticeChanged => AgentEvent::NoticeChanged(NoticeChanged {
            session,
            id: "0123abcd".to_owned(),
            change: change(rng),
        }),
        _ => return None,
    })
}

/// An event of a kind that an agent store holds; `None` for the other store's kinds.
#[must_use]
pub fn agent_event(kind: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    let petname = "ann".to_owned();
    Some(match kind {
        EventKind::PeerAdded => AgentEvent::PeerAdded(PeerAdded {
            petname,
            key: key(rng),
            origin: origin(rng),
        }),
        EventKind::PeerRemoved => AgentEvent::PeerRemoved(PeerRemoved {
            petname,
            key: key(rng),
            origin: origin(rng),
        }),
        EventKind::PeersPublished => AgentEvent::PeersPublished(PeersPublished {
            sha256: digest(rng),
            imported: rng.chance(50),
        }),
        EventKind::PeersFileAdopted => AgentEvent::PeersFileAdopted(PeersFileAdopted {
            path: ["/home/ann/peers.json", "/\u{e9}/p"][rng.index(2)].to_owned(),
        }),
        EventKind::PeersHeld => AgentEvent::PeersHeld(PeersHeld {
            entries: (0..1 + rng.index(2))
                .map(|_| HeldPeer {
                    petname: petname.clone(),
                    key: key(rng),
                })
                .collect(),
        }),
        EventKind::LeaseTaken => AgentEvent::LeaseTaken(LeaseTaken {
            session: session(rng),
            epoch: rng.next_u64(),
            pid: 4321,
            process_start: rng.next_u64(),
        }),
        EventKind::LeaseReleased => AgentEvent::LeaseReleased(LeaseReleased {
            session: session(rng),
            epoch: rng.next_u64(),
        }),
        EventKind::HostChanged => {
            let session = session(rng);
            AgentEvent::HostChanged(super::sample_host::host_changed(rng, session))
        }
        kind => {
            return outbox_event(kind, rng)
                .or_else(|| mailbox_event(kind, rng))
                .or_else(|| pairing_event(kind, rng))
                .or_else(|| sample_directory::event(kind, rng))
                .or_else(|| sample_care::event(kind, rng))
                .or_else(|| super::sample_import::event(kind, rng))
                .or_else(|| super::sample_bond::event(kind, rng));
        }
    })
}

/// Takes a lease of a session that no history uses: one record, whatever came before.
#[must_use]
pub fn take_lease(session: &str, now: UnixMillis) -> AgentCommand {
    AgentCommand::TakeLease {
        session: SessionId::parse(session).unwrap(),
        pid: 4321,
        process_start: 99,
        now,
    }
}

struct History<'a> {
    run: &'a mut dyn FnMut(AgentCommand) -> AgentReply,
    lease: Lease,
    peer: PublicKey,
    now: UnixMillis,
}

/// Queues a message of a task for two relays.
pub(super) fn queue(
    lease: &Lease,
    to: PublicKey,
    (n, len): (u64, usize),
    now: UnixMillis,
) -> AgentCommand {
    let body: Arc<[u8]> = payload(n, len).into();
    AgentCommand::QueueMessage(QueueMessage {
        lease: lease.clone(),
        msg_id: MsgId::parse(&format!("out-{n}")).unwrap(),
        to,
        to_session: SessionId::parse("theirs").unwrap(),
        kind: MailKind::Message,
        task_id: Some("task-1".to_owned()),
        status: Some(MailStatus::Update),
        in_reply_to: None,
        ts: now,
        sha256: sha256(&body),
        body,
        relays: vec![relay(), "http://127.0.0.1:8766".to_owned()],
        now,
    })
}

impl History<'_> {
    fn queue(&mut self, n: u64, len: usize) -> Seq {
        let reply = (self.run)(queue(&self.lease, self.peer, (n, len), self.now));
        match reply {
            AgentReply::Queued { seq } => seq,
            other => unreachable!("{other:?}"),
        }
    }

    fn receive(&mut self, n: u64, len: usize, ts: UnixMillis) -> Reception {
        let body: Arc<[u8]> = payload(n, len).into();
        let reply = (self.run)(AgentCommand::Receive(Box::new(Receive {
            lease: self.lease.clone(),
            own: PublicKey::from_bytes([1; 32]),
            from: self.peer,
            msg_id: MsgId::parse(&format!("in-{n}")).unwrap(),
            ts,
            kind: MailKind::Message,
            task_id: None,
            status: None,
            in_reply_to: Some(MsgId::parse("out-1").unwrap()),
            reply_to: None,
            sha256: sha256(&body),
            body,
            window: WINDOW,
            now: self.now,
        })));
        match reply {
            AgentReply::Received(reception) => reception,
            other => unreachable!("{other:?}"),
        }
    }

    fn outbox(&mut self) {
        let (now, relay) = (self.now, relay());
        let first = self.queue(1, 300);
        let second = self.queue(2, 5000);
        (self.run)(AgentCommand::RecordAttempt {
            msg_seq: first,
            relay: relay.clone(),
            attempt: 1,
            error: AttemptError::Status(503),
            detail: "busy".to_owned(),
            next_at: now.plus(1000),
            now,
        });
        let body: Arc<[u8]> = payload(3, 310).into();
        (self.run)(AgentCommand::Resign {
            msg_seq: first,
            replaces: first,
            ts: now.plus(5),
            sha256: sha256(&body),
            body,
            now,
        });
        (self.run)(AgentCommand::RecordAccepted {
            msg_seq: first,
            relay: relay.clone(),
            dropped: false,
            now,
        });
        (self.run)(AgentCommand::RecordRefused {
            msg_seq: second,
            relay,
            status: 413,
            reason: "too large".to_owned(),
            now,
        });
    }

    fn mailbox(&mut self) {
        let (now, lease) = (self.now, self.lease.clone());
        self.receive(1, 400, now);
        self.receive(2, 20_000, now.minus(50));
        self.receive(3, 90, now.minus(WINDOW.past_ms + 1));
        let id = "0123abcd".to_owned();
        (self.run)(AgentCommand::ReserveNotice {
            lease: lease.clone(),
            id: id.clone(),
            path: NoticePath::Listener,
            patience_ms: None,
            now,
        });
        (self.run)(AgentCommand::NoticeResult {
            lease: lease.clone(),
            id,
            accepted: Some(NoticePath::Listener),
            patience_ms: None,
            now,
        });
        (self.run)(AgentCommand::Acknowledge {
            lease: lease.clone(),
            items: vec![(self.peer, MsgId::parse("in-1").unwrap())],
            now,
        });
        (self.run)(AgentCommand::MarkSeen {
            lease,
            own: PublicKey::from_bytes([1; 32]),
            from: self.peer,
            msg_id: MsgId::parse("in-9").unwrap(),
            ts: now.minus(40),
            window: WINDOW,
            now,
        });
    }
}

const WINDOW: Window = Window {
    past_ms: 100_000,
    future_ms: 1000,
};

/// Puts a message of our own identity into a session's mailbox.
pub fn with_mail(lease: &Lease, now: UnixMillis, run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let mut history = History {
        run,
        lease: lease.clone(),
        peer: PublicKey::from_bytes([1; 32]),
        now,
    };
    history.receive(1, 400, now);
}

/// A history in which every kind of agent event occurs, one command at a time.
pub fn agent_history(now: UnixMillis, run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let AgentReply::Lease(lease) = run(take_lease("s1", now)) else {
        unreachable!("a free session's lease is given");
    };
    let peer = PublicKey::from_bytes([2; 32]);
    for (petname, key) in [("ann", peer), ("bob", PublicKey::from_bytes([3; 32]))] {
        run(AgentCommand::AddPeer {
            petname: petname.to_owned(),
            key,
            origin: Origin::Tool,
            lease: Some(lease.clone()),
            now,
        });
    }
    let mut history = History {
        run: &mut *run,
        lease: lease.clone(),
        peer,
        now,
    };
    history.outbox();
    history.mailbox();
    run(AgentCommand::RemovePeer {
        petname: "bob".to_owned(),
        key: PublicKey::from_bytes([3; 32]),
        origin: Origin::Admin,
        lease: None,
        now,
    });
    let sha256 = [7; 32];
    run(AgentCommand::PublishPeers { sha256, now });
    let before = now.plus(WINDOW.past_ms + 1000);
    run(AgentCommand::ForgetReplay { before, now });
    run(AgentCommand::ReleaseLease { lease });
    for (path, switch) in [("/home/ann/peers.json", false), ("/srv/peers.json", true)] {
        run(AgentCommand::AdoptPeersFile {
            path: path.to_owned(),
            switch,
            now,
        });
    }
}

/// A history of hand edits of `peers.json` that name revoked keys.
pub fn held_history(now: UnixMillis, run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let key = |n: u8| PublicKey::from_bytes([n; 32]);
    let (origin, lease) = (Origin::Admin, None);
    for (petname, n) in [("ann", 1), ("bob", 2)] {
        let petname = petname.to_owned();
        run(AgentCommand::AddPeer {
            petname: petname.clone(),
            key: key(n),
            origin,
            lease: lease.clone(),
            now,
        });
        run(AgentCommand::RemovePeer {
            petname,
            key: key(n),
            origin,
            lease: lease.clone(),
            now,
        });
    }
    let entry = |petname: &str, n: u8| (petname.to_owned(), key(n));
    for (sha256, entries) in [
        (
            [1; 32],
            vec![entry("ann", 1), entry("bob", 2), entry("cat", 3)],
        ),
        ([2; 32], vec![entry("ann", 1), entry("cat", 3)]),
        ([3; 32], vec![entry("cat", 3)]),
        ([4; 32], vec![entry("bob", 2)]),
    ] {
        let now = now.plus(u64::from(sha256[0]));
        run(AgentCommand::ImportPeers {
            entries,
            sha256,
            newest: None,
            now,
        });
    }
}
