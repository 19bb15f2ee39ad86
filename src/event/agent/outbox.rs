//! Signed messages on their way to relays.
//!
//! A relay's answers are facts of their own, so that the life of a message can be told from the
//! log: queued, tried, accepted or refused on each relay.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hex;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;
use crate::wire::envelope::{MessageKind, TaskStatus};

/// What a signed message is. The stored twin of the wire's `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MailKind {
    /// Text for a session.
    Message,
    /// A stranger asks to be admitted.
    PairRequest,
    /// The answer to a request of ours.
    PairAccept,
}

impl MailKind {
    /// The wire's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MailKind::Message => "message",
            MailKind::PairRequest => "pair_request",
            MailKind::PairAccept => "pair_accept",
        }
    }
}

impl From<MessageKind> for MailKind {
    fn from(kind: MessageKind) -> MailKind {
        match kind {
            MessageKind::Message => MailKind::Message,
            MessageKind::PairRequest => MailKind::PairRequest,
            MessageKind::PairAccept => MailKind::PairAccept,
        }
    }
}

/// State of the task that a message is about. The stored twin of the wire's `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MailStatus {
    /// Progress; nobody has to act, newer ones supersede older ones.
    Update,
    /// The sender waits for an answer.
    NeedsInput,
    /// Done.
    Result,
    /// Given up.
    Failed,
    /// Called off.
    Canceled,
}

impl MailStatus {
    /// The wire's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MailStatus::Update => "update",
            MailStatus::NeedsInput => "needs_input",
            MailStatus::Result => "result",
            MailStatus::Failed => "failed",
            MailStatus::Canceled => "canceled",
        }
    }

    /// Whether the task ends with it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            MailStatus::Result | MailStatus::Failed | MailStatus::Canceled
        )
    }
}

impl From<TaskStatus> for MailStatus {
    fn from(status: TaskStatus) -> MailStatus {
        match status {
            TaskStatus::Update => MailStatus::Update,
            TaskStatus::NeedsInput => MailStatus::NeedsInput,
            TaskStatus::Result => MailStatus::Result,
            TaskStatus::Failed => MailStatus::Failed,
            TaskStatus::Canceled => MailStatus::Canceled,
        }
    }
}

/// A signed message entered the outbox. The message, JSON, is the body at this record's position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxQueued {
    /// The session that sends.
    pub session: SessionId,
    /// Id of the message.
    pub msg_id: MsgId,
    /// The recipient.
    pub to: PublicKey,
    /// The recipient's session.
    pub to_session: SessionId,
    /// What it is.
    pub kind: MailKind,
    /// The task that it is about.
    pub task_id: Option<String>,
    /// State of that task.
    pub status: Option<MailStatus>,
    /// The message that it answers.
    pub in_reply_to: Option<MsgId>,
    /// Signed time.
    pub ts: UnixMillis,
    /// Length of the body in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// Relays that shall get it, normalised URLs, at most 16.
    pub relays: Vec<String>,
}

impl OutboxQueued {
    pub(super) fn json(&self) -> Value {
        json!({
            "session": self.session, "msg_id": self.msg_id, "to": self.to,
            "to_session": self.to_session, "kind": self.kind.name(), "task_id": self.task_id,
            "status": self.status.map(MailStatus::name), "in_reply_to": self.in_reply_to,
            "ts": self.ts, "len": self.len, "sha256": hex(&self.sha256), "relays": self.relays,
        })
    }
}

/// Why a relay did not take a message this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptError {
    /// No connection.
    Connect,
    /// No answer in time.
    Timeout,
    /// An answer that asks to come back (408, 429, 5xx).
    Status(u16),
    /// An answer that is none.
    Protocol,
}

impl AttemptError {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AttemptError::Connect => "connect",
            AttemptError::Timeout => "timeout",
            AttemptError::Status(_) => "status",
            AttemptError::Protocol => "protocol",
        }
    }
}

/// A relay could not be reached or answered with a passing error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxAttempted {
    /// Position of the `OutboxQueued` record.
    pub message: Seq,
    /// The relay.
    pub relay: String,
    /// Number of failed attempts on this relay, this one included.
    pub attempt: u32,
    /// What went wrong.
    pub error: AttemptError,
    /// The same in words, at most 256 bytes.
    pub detail: String,
    /// When to try again, wall clock of the writer.
    pub next_at: UnixMillis,
}

impl OutboxAttempted {
    pub(super) fn json(&self) -> Value {
        let status = match self.error {
            AttemptError::Status(status) => Some(status),
            _ => None,
        };
        json!({
            "message": self.message, "relay": self.relay, "attempt": self.attempt,
            "error": self.error.name(), "status": status, "detail": self.detail,
            "next_at": self.next_at,
        })
    }
}

/// A relay took the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxAccepted {
    /// Position of the `OutboxQueued` record.
    pub message: Seq,
    /// The relay.
    pub relay: String,
    /// Whether the relay said that it dropped older mail of that recipient to make room.
    pub dropped: bool,
}

impl OutboxAccepted {
    pub(super) fn json(&self) -> Value {
        json!({ "message": self.message, "relay": self.relay, "dropped": self.dropped })
    }
}

/// A relay refused the message for good, or it was given up there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxRefused {
    /// Position of the `OutboxQueued` record.
    pub message: Seq,
    /// The relay.
    pub relay: String,
    /// HTTP status; 0 when it was given up without an answer.
    pub status: u16,
    /// Why, at most 256 bytes.
    pub reason: String,
}

impl OutboxRefused {
    pub(super) fn json(&self) -> Value {
        json!({
            "message": self.message, "relay": self.relay, "status": self.status,
            "reason": self.reason,
        })
    }
}

/// An unsent message was signed anew with a fresh time; its id stays. The new text is the body at
/// this record's position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxResigned {
    /// Position of the `OutboxQueued` record.
    pub message: Seq,
    /// Position of the body that this one replaces; gone with this record.
    pub replaced: Seq,
    /// New signed time.
    pub ts: UnixMillis,
    /// Length of the new body in bytes.
    pub len: u32,
    /// SHA-256 of the new body.
    pub sha256: [u8; 32],
}

impl OutboxResigned {
    pub(super) fn json(&self) -> Value {
        json!({
            "message": self.message, "replaced": self.replaced, "ts": self.ts, "len": self.len,
            "sha256": hex(&self.sha256),
        })
    }
}
