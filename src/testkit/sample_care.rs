//! Events and a history of what the operator and time do to messages.

use super::Rng;
use super::sample_agent::{agent_history, key, queue, session};
use crate::domain::decide::agent::{AgentCommand, AgentReply, CareCommand};
use crate::event::agent::{
    AgentEvent, EndedTask, HistoryForgotten, Origin, OutboxDropped, OutboxRetried,
};
use crate::event::kind::EventKind;
use crate::types::id::PublicKey;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

fn seqs(rng: &mut Rng) -> Vec<Seq> {
    (0..rng.index(4)).map(|_| Seq(rng.next_u64())).collect()
}

/// An event of a kind of care.
pub(super) fn event(kind: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    Some(match kind {
        EventKind::OutboxDropped => AgentEvent::OutboxDropped(OutboxDropped {
            message: Seq(rng.next_u64()),
            origin: Origin::Admin,
        }),
        EventKind::OutboxRetried => AgentEvent::OutboxRetried(OutboxRetried {
            message: Seq(rng.next_u64()),
            origin: Origin::Admin,
        }),
        EventKind::HistoryForgotten => AgentEvent::HistoryForgotten(HistoryForgotten {
            before: UnixMillis(rng.next_u64()),
            received: seqs(rng),
            sent: seqs(rng),
            bodies: seqs(rng),
            tasks: vec![
                EndedTask {
                    session: session(rng),
                    peer: key(rng),
                    task_id: "task".to_owned(),
                };
                1 + rng.index(2)
            ],
        }),
        _ => return None,
    })
}

/// One message that waits is hurried, then given up; another one that was answered, and what was
/// read, is forgotten. Every kind of care occurs.
pub fn care_history(now: UnixMillis, run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    agent_history(now, run);
    let taken = run(super::sample_agent::take_lease("later", now));
    let AgentReply::Lease(lease) = taken else {
        unreachable!("{taken:?}")
    };
    let queued = run(queue(&lease, PublicKey::from_bytes([2; 32]), (9, 200), now));
    let AgentReply::Queued { seq: message } = queued else {
        unreachable!("{queued:?}")
    };
    run(AgentCommand::RecordAttempt {
        msg_seq: message,
        relay: super::sample_agent::relay(),
        attempt: 1,
        error: crate::event::agent::AttemptError::Connect,
        detail: "refused".to_owned(),
        next_at: now.plus(60_000),
        now,
    });
    let origin = Origin::Admin;
    for command in [
        CareCommand::RetryMessage {
            message,
            origin,
            now,
        },
        CareCommand::DropMessage { message, origin },
        CareCommand::ForgetHistory {
            before: now.plus(1_000),
        },
    ] {
        run(AgentCommand::Care(command));
    }
}
