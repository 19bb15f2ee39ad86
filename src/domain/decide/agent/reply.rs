//! What an identity's store answers.

use super::command::Lease;
use super::import::Fate;
use super::pairing::command::PairingReply;
use crate::domain::machine::notice::NoticeStep;
use crate::types::id::PublicKey;
use crate::types::seq::Seq;

/// What became of an arriving message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reception {
    /// It stands in the mailbox.
    Stored {
        /// Its position.
        seq: Seq,
        /// The sender's petname, or `self`.
        label: String,
    },
    /// Its id is used up; it is not stored.
    Seen,
    /// It was seen before.
    Replay,
    /// It came too late.
    TooOld {
        /// Whether this call recorded it as expired; false when it was known already.
        recorded: bool,
    },
    /// It claims to come from the future.
    Future {
        /// How far ahead, in milliseconds.
        ahead_ms: u64,
    },
    /// Its sender is not admitted.
    NotAllowlisted,
}

/// What an import of `peers.json` changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOutcome {
    /// Admitted.
    pub added: Vec<(String, PublicKey)>,
    /// Revoked.
    pub removed: Vec<(String, PublicKey)>,
    /// Stands in the file, but was revoked by a tool or the operator before and does not come
    /// back this way.
    pub held: Vec<(String, PublicKey)>,
}

/// Answer of an identity's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentReply {
    /// The lease that was taken.
    Lease(Lease),
    /// What an import changed.
    Imported(ImportOutcome),
    /// Whether a key was admitted by this call; false: it had this name already.
    PeerAdded {
        /// Whether anything changed.
        changed: bool,
    },
    /// The key that was revoked; `None`: it was not admitted.
    PeerRemoved {
        /// The key.
        key: Option<PublicKey>,
    },
    /// The message stands in the outbox.
    Queued {
        /// Its position.
        seq: Seq,
    },
    /// Something became of a message.
    Received(Reception),
    /// Messages were acknowledged.
    Acknowledged {
        /// How many of them were not yet.
        newly: usize,
    },
    /// What to do about waking the host.
    Notice(NoticeStep),
    /// Things were forgotten.
    Forgotten {
        /// How many.
        rows: usize,
        /// Whether the call is to be repeated.
        more: bool,
    },
    /// The wish is fulfilled.
    Done {
        /// Whether anything changed.
        changed: bool,
    },
    /// Something about pairing.
    Pairing(PairingReply),
    /// What became of each thing of an import, in its order.
    TakenOver(Vec<Fate>),
    /// Something about sealed sessions was recorded.
    Bond {
        /// Position of the record; `None` when nothing was to be recorded.
        seq: Option<Seq>,
    },
}
