//! Events and a history of the session directory, of tasks, and of what is forgotten.

use std::sync::Arc;

use super::Rng;
use super::sample::payload;
use super::sample_agent::{key, msg_id, session, time};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{
    AgentCommand, AgentReply, DirectoryCommand, Lease, QueueMessage, Receive, Window,
};
use crate::event::agent::{
    AgentEvent, ExpiredDismissed, ForgetReason, MailKind, MailStatus, Origin, PeerForgotten,
    SessionClosed, SessionsForgotten, SessionsSeen, Sighting,
};
use crate::event::kind::EventKind;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// An event of a kind of the directory.
pub(super) fn event(kind: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    Some(match kind {
        EventKind::SessionsSeen => AgentEvent::SessionsSeen(SessionsSeen {
            sightings: (0..=rng.index(3))
                .map(|_| Sighting {
                    key: key(rng),
                    session: session(rng),
                    ts: time(rng),
                    heard: time(rng),
                })
                .collect(),
        }),
        EventKind::SessionClosed => AgentEvent::SessionClosed(SessionClosed {
            key: key(rng),
            session: session(rng),
            ts: time(rng),
        }),
        EventKind::SessionsForgotten => AgentEvent::SessionsForgotten(SessionsForgotten {
            sessions: vec![session(rng)],
            reason: [ForgetReason::Unused, ForgetReason::Operator][rng.index(2)],
        }),
        EventKind::ExpiredDismissed => AgentEvent::ExpiredDismissed(ExpiredDismissed {
            session: session(rng),
            items: vec![(key(rng), msg_id(rng)); 1 + rng.index(3)],
        }),
        EventKind::PeerForgotten => AgentEvent::PeerForgotten(PeerForgotten {
            key: key(rng),
            received: vec![Seq(rng.next_u64()); rng.index(3)],
            sent: vec![Seq(rng.next_u64()); rng.index(3)],
            bodies: vec![Seq(rng.next_u64()); rng.index(3)],
            last: rng.chance(50),
        }),
        _ => return None,
    })
}

/// A peer that is seen, works on a task, says good-bye, is revoked and forgotten; another one whose
/// late message is put away. Every kind of the directory occurs.
pub fn directory_history(now: UnixMillis, run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let me = PublicKey::from_bytes([1; 32]);
    let (ann, bob) = (
        PublicKey::from_bytes([2; 32]),
        PublicKey::from_bytes([3; 32]),
    );
    let id = |text: &str| SessionId::parse(text).unwrap();
    let taken = run(super::sample_agent::take_lease("mine", now));
    let AgentReply::Lease(lease) = taken else {
        unreachable!("{taken:?}")
    };
    for (petname, key) in [("ann", ann), ("bob", bob)] {
        run(AgentCommand::AddPeer {
            petname: petname.to_owned(),
            key,
            origin: Origin::Tool,
            lease: None,
            now,
        });
    }
    let seen = |key, session: &str, ts: u64| Sighting {
        key,
        session: id(session),
        ts: now.plus(ts),
        heard: now.plus(ts),
    };
    for sightings in [
        vec![seen(ann, "a1", 0), seen(bob, "b1", 0), seen(me, "mine", 0)],
        // A conflict, twice: a later claim, and two at once.
        vec![
            seen(bob, "a1", 1),
            seen(ann, "both", 1),
            seen(bob, "both", 1),
        ],
        vec![seen(ann, "a1", 700_000)],
    ] {
        let command = DirectoryCommand::Sighted {
            own: me,
            sightings,
            now: now.plus(800_000),
        };
        run(AgentCommand::Directory(command));
    }
    let parties = Parties {
        lease: &lease,
        me,
        now,
    };
    run(parties.receive(ann, "r1", Some("task"), None, now));
    run(parties.receive(
        ann,
        "r2",
        Some("task"),
        Some(MailStatus::Result),
        now.plus(5),
    ));
    run(parties.receive(ann, "r3", Some("task"), None, now.plus(9)));
    run(parties.receive(bob, "late", None, None, UnixMillis(1_000)));
    run(parties.queue(ann, "q1", "a1", Some("other")));
    run(parties.queue(bob, "q2", "b1", Some("third")));
    run(AgentCommand::Acknowledge {
        lease: lease.clone(),
        items: vec![
            (ann, MsgId::parse("r1").unwrap()),
            (bob, MsgId::parse("late").unwrap()),
        ],
        now,
    });
    for command in [
        DirectoryCommand::Closed {
            own: me,
            key: ann,
            session: id("a1"),
            ts: now.plus(800_000),
        },
        DirectoryCommand::ForgetSessions {
            sessions: vec![id("both"), id("nobody")],
        },
    ] {
        run(AgentCommand::Directory(command));
    }
    run(AgentCommand::RemovePeer {
        petname: "ann".to_owned(),
        key: ann,
        origin: Origin::Admin,
        lease: None,
        now,
    });
    run(AgentCommand::Directory(DirectoryCommand::ForgetPeer {
        key: ann,
    }));
}

struct Parties<'a> {
    lease: &'a Lease,
    me: PublicKey,
    now: UnixMillis,
}

impl Parties<'_> {
    fn receive(
        &self,
        from: PublicKey,
        msg_id: &str,
        task_id: Option<&str>,
        status: Option<MailStatus>,
        ts: UnixMillis,
    ) -> AgentCommand {
        let body: Arc<[u8]> = payload(ts.0, 80).into();
        AgentCommand::Receive(Box::new(Receive {
            lease: self.lease.clone(),
            own: self.me,
            from,
            msg_id: MsgId::parse(msg_id).unwrap(),
            ts,
            kind: MailKind::Message,
            task_id: task_id.map(ToOwned::to_owned),
            status,
            in_reply_to: None,
            reply_to: Some(Route::new(from, SessionId::parse("a1").unwrap())),
            sha256: sha256(&body),
            body,
            window: Window {
                past_ms: 86_400_000,
                future_ms: 60_000,
            },
            now: self.now,
        }))
    }

    fn queue(
        &self,
        to: PublicKey,
        msg_id: &str,
        session: &str,
        task_id: Option<&str>,
    ) -> AgentCommand {
        let body: Arc<[u8]> = payload(7, 90).into();
        AgentCommand::QueueMessage(QueueMessage {
            lease: self.lease.clone(),
            msg_id: MsgId::parse(msg_id).unwrap(),
            to,
            to_session: SessionId::parse(session).unwrap(),
            kind: MailKind::Message,
            task_id: task_id.map(ToOwned::to_owned),
            status: None,
            in_reply_to: None,
            ts: self.now,
            sha256: sha256(&body),
            body,
            relays: vec!["http://127.0.0.1:8765".to_owned()],
            now: self.now,
        })
    }
}
