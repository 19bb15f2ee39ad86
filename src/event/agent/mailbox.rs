//! Received messages, replay protection, wake-up notices.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hex;
use super::outbox::{MailKind, MailStatus};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A message passed the gate. One fact with three consequences: it stands in the mailbox, its
/// (sender, id) is used up, and its sender's session is where answers go. The message, JSON, is
/// the body at this record's position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Our session whose queue it came through.
    pub session: SessionId,
    /// The verified sender.
    pub from: PublicKey,
    /// Id of the message, chosen by the sender.
    pub msg_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
    /// What it is.
    pub kind: MailKind,
    /// The task that it is about; at most 1024 bytes, never empty.
    pub task_id: Option<String>,
    /// State of that task.
    pub status: Option<MailStatus>,
    /// The message that it answers.
    pub in_reply_to: Option<MsgId>,
    /// Where the sender wants answers. Not signed: a hint.
    pub reply_to: Option<Route>,
    /// The sender's petname at arrival; `self` for our own key when it is not listed.
    pub label: String,
    /// Length of the body in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
}

impl Received {
    pub(super) fn json(&self) -> Value {
        json!({
            "session": self.session, "from": self.from, "msg_id": self.msg_id, "ts": self.ts,
            "kind": self.kind.name(), "task_id": self.task_id,
            "status": self.status.map(MailStatus::name), "in_reply_to": self.in_reply_to,
            "reply_to": self.reply_to, "label": self.label, "len": self.len,
            "sha256": hex(&self.sha256),
        })
    }
}

/// An admitted peer's message came too late. It takes no replay slot, is not stored, and is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceivedExpired {
    /// Our session whose queue it came through.
    pub session: SessionId,
    /// The verified sender.
    pub from: PublicKey,
    /// Id of the message.
    pub msg_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
    /// The sender's petname at arrival.
    pub label: String,
    /// Length of the message in bytes of JSON.
    pub len: u32,
}

impl ReceivedExpired {
    pub(super) fn json(&self) -> Value {
        json!({
            "session": self.session, "from": self.from, "msg_id": self.msg_id, "ts": self.ts,
            "label": self.label, "len": self.len,
        })
    }
}

/// The reader acknowledged messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// The session.
    pub session: SessionId,
    /// Positions of the `Received` records, ascending, at most 4096.
    pub seqs: Vec<Seq>,
}

impl Acknowledged {
    pub(super) fn json(&self) -> Value {
        json!({ "session": self.session, "seqs": self.seqs })
    }
}

/// A way to wake a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NoticePath {
    /// A listener that the host runs (`interlink-mcp wait`).
    Listener,
    /// A notification on the MCP connection.
    Channel,
    /// The host's messaging socket.
    Socket,
    /// The host's own queue of inputs.
    HostQueue,
}

impl NoticePath {
    /// The state of a message whose notice was accepted this way, as people and scripts see it.
    #[must_use]
    pub const fn state_name(self) -> &'static str {
        match self {
            NoticePath::Listener => "inbox_queued",
            NoticePath::Channel => "notification_sent",
            NoticePath::Socket => "socket_sent",
            NoticePath::HostQueue => "host_queued",
        }
    }
}

/// What happened to a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoticeChange {
    /// A hand-off begins. Until it ends, nobody else begins one.
    Reserved {
        /// The way that is tried.
        path: NoticePath,
        /// Position of the newest message that the notice speaks for.
        covered: Seq,
        /// Consecutive hand-offs without success, this one included; 1 is the first.
        attempt: u32,
        /// When an unfinished or failed hand-off is tried again.
        due: UnixMillis,
    },
    /// The host took it. That is no proof that anybody read it.
    Accepted {
        /// The way that worked.
        path: NoticePath,
        /// When it is offered once more unless somebody follows it up.
        due: UnixMillis,
    },
    /// The host did not take it.
    Failed,
    /// Somebody followed it up.
    Observed {
        /// Position of the newest message that the reader knows of.
        covered: Seq,
    },
    /// The session ended; the next one starts afresh.
    Dropped,
}

impl NoticeChange {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NoticeChange::Reserved { .. } => "reserved",
            NoticeChange::Accepted { .. } => "accepted",
            NoticeChange::Failed => "failed",
            NoticeChange::Observed { .. } => "observed",
            NoticeChange::Dropped => "dropped",
        }
    }
}

/// A wake-up notice changed its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoticeChanged {
    /// The session.
    pub session: SessionId,
    /// Id of the notice, 8 lowercase hexadecimal digits.
    pub id: String,
    /// What happened.
    pub change: NoticeChange,
}

impl NoticeChanged {
    pub(super) fn json(&self) -> Value {
        let mut value = json!({
            "session": self.session, "id": self.id, "change": self.change.name(),
        });
        let more = match self.change {
            NoticeChange::Reserved {
                path,
                covered,
                attempt,
                due,
            } => json!({
                "path": path.state_name(), "covered": covered, "attempt": attempt, "due": due,
            }),
            NoticeChange::Accepted { path, due } => {
                json!({ "path": path.state_name(), "due": due })
            }
            NoticeChange::Observed { covered } => json!({ "covered": covered }),
            NoticeChange::Failed | NoticeChange::Dropped => Value::Null,
        };
        if let (Value::Object(into), Value::Object(from)) = (&mut value, more) {
            into.extend(from);
        }
        value
    }
}

/// An admitted sender's message that is not stored used up its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplaySeen {
    /// Our session whose queue it came through.
    pub session: SessionId,
    /// The verified sender.
    pub from: PublicKey,
    /// Id of the message.
    pub msg_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
}

impl ReplaySeen {
    pub(super) fn json(&self) -> Value {
        json!({
            "session": self.session, "from": self.from, "msg_id": self.msg_id, "ts": self.ts,
        })
    }
}

/// Ids of messages signed at or before a time were forgotten; what is signed at or before it is
/// stale for ever, whatever the clock says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayForgotten {
    /// The newest signed time among what was forgotten.
    pub floor: UnixMillis,
}

impl ReplayForgotten {
    pub(super) fn json(&self) -> Value {
        json!({ "floor": self.floor })
    }
}
