//! What a bus can be asked, and what it answers.

use std::sync::Arc;

use super::import::ImportMessage;
use super::rendezvous::{RelayCommand, RelayRefusal, RelayReply};
use crate::event::bus::{SeenAt, SignedAt};
use crate::types::limit::{MAX_ANNOUNCEMENT_BYTES, MAX_QUEUE_NAME_BYTES};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// What a full queue does with a new message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest messages give way; the sender is told.
    DropOldest,
    /// The new message is refused.
    Refuse,
}

/// Bounds of the queues; part of the command, so that a replayed decision needs no configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Messages a recipient; at least 1 is always allowed.
    pub messages: usize,
    /// Bytes a recipient.
    pub bytes: u64,
    /// Bytes in all queues.
    pub store_bytes: u64,
    /// Recipients with waiting messages.
    pub queues: usize,
    /// What happens past the bounds of a recipient.
    pub overflow: Overflow,
}

/// A wish to a bus.
#[derive(Clone, Debug)]
pub enum BusCommand {
    /// Put a payload into a queue.
    Enqueue {
        /// Queue name.
        to: String,
        /// Payload, JSON as it will be delivered.
        payload: Arc<[u8]>,
        /// SHA-256 of the payload.
        sha256: [u8; 32],
        /// The id that the payload gives itself, or nothing.
        msg_id: String,
        /// Bounds.
        limits: QueueLimits,
    },
    /// Take a message over from another program's bus. Answer: [`BusReply::Enqueued`].
    Import(ImportMessage),
    /// Acknowledge messages of a queue. Unknown positions are no error.
    Ack {
        /// Queue name.
        me: String,
        /// Positions.
        seqs: Vec<Seq>,
    },
    /// Put a session on the presence board, or change what it says there.
    Announce {
        /// Board key.
        entry: String,
        /// Announcement, JSON.
        announcement: Arc<[u8]>,
        /// Sessions that fit on the board.
        max_entries: usize,
    },
    /// Record heartbeats that changed nothing.
    Seen {
        /// Sessions with the time of their latest heartbeat.
        entries: Vec<SeenAt>,
    },
    /// Take a session off the board.
    Unregister {
        /// Board key.
        entry: String,
    },
    /// As `Announce`, by a session whose signature was checked: refused unless it was signed later
    /// than everything of that session before.
    AnnounceSigned {
        /// Board key.
        entry: String,
        /// Announcement, JSON.
        announcement: Arc<[u8]>,
        /// When it was signed.
        ts: UnixMillis,
        /// Sessions that fit on the board.
        max_entries: usize,
        /// Sessions of one key that fit on the board.
        max_per_key: usize,
    },
    /// As `Unregister`, by a session whose signature was checked.
    UnregisterSigned {
        /// Board key.
        entry: String,
        /// When it was signed.
        ts: UnixMillis,
    },
    /// Record when heartbeats that changed nothing were signed.
    Signed {
        /// Sessions with the signed time of their latest heartbeat.
        entries: Vec<SignedAt>,
    },
    /// Forget signed times at or before `before`: announcements that old are refused for their age.
    ForgetSigned {
        /// Time bound.
        before: UnixMillis,
    },
    /// Take these sessions off the board.
    RemovePresence {
        /// Board keys.
        entries: Vec<String>,
    },
    /// Take sessions off the board that were last heard of at or before `before`.
    ExpirePresence {
        /// Time bound.
        before: UnixMillis,
    },
    /// Drop messages that arrived at or before `before`, at most `max` of them.
    ExpireMessages {
        /// Time bound.
        before: UnixMillis,
        /// Bound on the work of one transaction.
        max: usize,
    },
    /// Take messages out of a queue, on the operator's wish.
    Discard {
        /// Queue name.
        to: String,
        /// The message; `None` is the oldest ones.
        seq: Option<Seq>,
        /// Bound on the work of one transaction.
        max: usize,
    },
    /// Take a session off the board, on the operator's wish.
    Evict {
        /// Board key.
        entry: String,
    },
    /// Something about relay sessions. Answer: [`BusReply::Relay`].
    Relay(RelayCommand),
    /// Give up a message whose body is gone or damaged.
    LoseBody {
        /// Position of the message.
        seq: Seq,
    },
}

/// A dropped message, as told to the sender that pushed it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedItem {
    /// Its position.
    pub seq: Seq,
    /// When it had arrived.
    pub at: UnixMillis,
}

/// Answer of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusReply {
    /// The payload stands in the queue.
    Enqueued {
        /// Its position.
        seq: Seq,
        /// Whether an identical payload was waiting already; nothing was appended then.
        duplicate: bool,
        /// What gave way.
        dropped: Vec<DroppedItem>,
    },
    /// Messages were acknowledged.
    Acked {
        /// How many of the named ones were pending.
        acked: usize,
    },
    /// The wish is fulfilled; nothing more to say.
    Done,
    /// Things were taken away by hand.
    Removed {
        /// How many.
        count: usize,
    },
    /// Things were removed for their age.
    Expired {
        /// How many.
        count: usize,
    },
    /// Of a relay.
    Relay(RelayReply),
}

/// Why a bus refuses a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BusRefusal {
    /// The queue name is too long or has control characters.
    #[error("queue name must be at most {MAX_QUEUE_NAME_BYTES} bytes without control characters")]
    QueueName,
    /// The payload alone exceeds a bound.
    #[error("payload of {len} bytes exceeds {max}")]
    PayloadTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The bound in bytes.
        max: u64,
    },
    /// The recipient's queue is full and the bus refuses instead of dropping.
    #[error("the queue is full: {messages} messages, {bytes} bytes")]
    QueueFull {
        /// Messages waiting.
        messages: usize,
        /// Bytes waiting.
        bytes: u64,
    },
    /// All queues together are full.
    #[error("the bus is full: {bytes} bytes wait")]
    StoreFull {
        /// Bytes waiting in all queues.
        bytes: u64,
    },
    /// Too many recipients have waiting messages.
    #[error("the bus holds mail for {queues} recipients already")]
    TooManyQueues {
        /// Recipients with waiting messages.
        queues: usize,
    },
    /// Nothing of this session may be signed at or before something that was accepted.
    #[error("signed at {ts}, but this session has signed at {newest} before")]
    NotNewer {
        /// When it was signed.
        ts: UnixMillis,
        /// When the newest one was signed that is remembered.
        newest: UnixMillis,
    },
    /// A relay refuses.
    #[error(transparent)]
    Relay(RelayRefusal),
    /// The announcement is too large.
    #[error("announcement of {len} bytes exceeds {MAX_ANNOUNCEMENT_BYTES}")]
    AnnouncementTooLarge {
        /// Its length in bytes.
        len: usize,
    },
}

/// Whether a queue name is acceptable: bounded, and without control characters (a NUL would alias
/// one queue into another).
#[must_use]
pub fn queue_name_ok(name: &str) -> bool {
    name.len() <= MAX_QUEUE_NAME_BYTES && !name.chars().any(char::is_control)
}
