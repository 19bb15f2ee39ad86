//! What the operator and time do to an identity's messages.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Origin;
use crate::types::id::{PublicKey, SessionId};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A message is given up on every relay that has not answered for good. A relay that has it keeps
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxDropped {
    /// Position of the `OutboxQueued` record.
    pub message: Seq,
    /// How the wish came in.
    pub origin: Origin,
}

impl OutboxDropped {
    pub(super) fn json(&self) -> Value {
        json!({ "message": self.message, "origin": self.origin.name() })
    }
}

/// A message is due at once on every relay that has not answered for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxRetried {
    /// Position of the `OutboxQueued` record.
    pub message: Seq,
    /// How the wish came in.
    pub origin: Origin,
}

impl OutboxRetried {
    pub(super) fn json(&self) -> Value {
        json!({ "message": self.message, "origin": self.origin.name() })
    }
}

/// A task that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedTask {
    /// Our session.
    pub session: SessionId,
    /// The other side.
    pub peer: PublicKey,
    /// Its id.
    pub task_id: String,
}

/// Conversations that ended long ago left the store: rows, and the bodies at the positions below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryForgotten {
    /// What had ended before this time is old.
    pub before: UnixMillis,
    /// Positions of received messages, ascending; none of them was unread.
    pub received: Vec<Seq>,
    /// Positions of sent messages, ascending; every relay had answered for good.
    pub sent: Vec<Seq>,
    /// Positions of the bodies that go, ascending.
    pub bodies: Vec<Seq>,
    /// Tasks that had ended.
    pub tasks: Vec<EndedTask>,
}

impl HistoryForgotten {
    pub(super) fn json(&self) -> Value {
        let tasks: Vec<Value> = self
            .tasks
            .iter()
            .map(|t| json!({ "session": t.session, "peer": t.peer, "task_id": t.task_id }))
            .collect();
        json!({
            "before": self.before, "received": self.received, "sent": self.sent,
            "bodies": self.bodies, "tasks": tasks,
        })
    }
}
