//! What a relay can be asked, and what it answers.

use std::sync::Arc;

use super::index::{Id, SALT_BYTES};
use crate::event::bus_rendezvous::RelayFlow;
use crate::types::limit::{MAX_RELAY_SEND_BYTES, RELAY_SESSION_SPARE_BYTES};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Bounds of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayLimits {
    /// Sessions at a time.
    pub sessions: usize,
    /// Bytes that wait in all sessions together.
    pub bytes: u64,
    /// Bytes that wait in one session, whatever its flow.
    pub session_bytes: u64,
    /// Bytes that wait in a lossless session; past it senders come back.
    pub flow_bytes: u64,
}

impl RelayLimits {
    /// As many bytes in one session as may be where so many may be in all: a quarter, so that nobody
    /// fills a relay alone, but room for a message of the largest size.
    #[must_use]
    pub fn one_of(bytes: u64) -> u64 {
        let one = MAX_RELAY_SEND_BYTES as u64 + RELAY_SESSION_SPARE_BYTES;
        (bytes / 4).max(one)
    }
}

/// A wish to a relay.
#[derive(Clone)]
pub enum RelayCommand {
    /// Open a session.
    Open {
        /// What its peers know it by.
        routing: Id,
        /// Id of its host.
        peer: Id,
        /// Public key of its host.
        key: Id,
        /// What happens to messages that wait.
        flow: RelayFlow,
        /// Random bytes.
        salt: [u8; SALT_BYTES],
        /// The time.
        now: UnixMillis,
        /// Bounds.
        limits: RelayLimits,
    },
    /// Join a session.
    Join {
        /// Which.
        routing: Id,
        /// Who.
        peer: Id,
        /// Its public key.
        key: Id,
        /// Random bytes.
        salt: [u8; SALT_BYTES],
        /// The time.
        now: UnixMillis,
        /// Bounds.
        limits: RelayLimits,
    },
    /// Send something.
    Send {
        /// To which session.
        routing: Id,
        /// Who.
        peer: Id,
        /// Random bytes, and what is sent, JSON.
        body: Arc<[u8]>,
        /// SHA-256 of that.
        sha256: [u8; 32],
        /// The time.
        now: UnixMillis,
        /// Bounds.
        limits: RelayLimits,
    },
    /// Leave a session.
    Leave {
        /// Which.
        routing: Id,
        /// Who.
        peer: Id,
        /// The time.
        now: UnixMillis,
    },
    /// A session is in use.
    Touch {
        /// Which.
        session: Seq,
    },
    /// A peer has everything up to a message; a lossless session lets go of that.
    Fetched {
        /// Which session.
        session: Seq,
        /// Who.
        peer: Id,
        /// Number of the message.
        until: u64,
    },
    /// End sessions that are over, or this one.
    End {
        /// `None` is those that are over.
        session: Option<Seq>,
        /// The time.
        now: UnixMillis,
        /// Bound on the work of one transaction.
        max: usize,
    },
    /// Give up a message whose body is gone or damaged.
    Lose {
        /// Its position.
        message: Seq,
    },
}

/// Ids are credentials.
impl std::fmt::Debug for RelayCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RelayCommand::Open { .. } => "Open",
            RelayCommand::Join { .. } => "Join",
            RelayCommand::Send { .. } => "Send",
            RelayCommand::Leave { .. } => "Leave",
            RelayCommand::Touch { .. } => "Touch",
            RelayCommand::Fetched { .. } => "Fetched",
            RelayCommand::End { .. } => "End",
            RelayCommand::Lose { .. } => "Lose",
        })
    }
}

/// Answer of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayReply {
    /// The session is open.
    Opened,
    /// The peer is in it.
    Joined {
        /// Public key of the host.
        host_key: Id,
        /// Peers in it.
        count: usize,
        /// What happens to messages that wait.
        flow: RelayFlow,
    },
    /// The wish is fulfilled; nothing more to say.
    Done,
    /// The session was over, and is gone now.
    Over,
    /// Sessions were ended.
    Ended {
        /// How many.
        count: usize,
    },
}

/// Why a relay refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RelayRefusal {
    /// The session exists, or has as many peers as it may.
    #[error("the relay session is full")]
    Full,
    /// There is no such session.
    #[error("there is no such relay session")]
    Unknown,
    /// The peer is not in it.
    #[error("the peer is not in the relay session")]
    Stranger,
    /// Too much was sent in too short a time, or waits unread.
    #[error("too fast for the relay")]
    TooFast {
        /// When to come back, in milliseconds from now.
        after_ms: u64,
    },
    /// As many bytes wait in the session as may in one.
    #[error("the relay session is full: {bytes} bytes")]
    SessionFull {
        /// Bytes that wait in it.
        bytes: u64,
    },
    /// There are as many sessions, or bytes in them, as there may be.
    #[error("the relay is full: {sessions} sessions, {bytes} bytes")]
    RelayFull {
        /// Sessions.
        sessions: usize,
        /// Bytes that wait in them.
        bytes: u64,
    },
}
