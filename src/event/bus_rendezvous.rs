//! What a broker remembers of the sessions that it relays.
//!
//! A session is a number here: the position of the record that opened it. So is a peer: the
//! position of the record with which it came. Everything that identifies somebody (routing id,
//! peer ids, keys, what was sent) stands in bodies beside the log, which are erased when nothing
//! needs them, at the latest with the session (`docs/adr/0023-relay-sessions-by-number.md`). Their
//! digests tell nothing: a body begins with random bytes.

use serde::{Deserialize, Serialize};

use crate::types::seq::Seq;

/// How a session treats what nobody has fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayFlow {
    /// The oldest messages give way, and senders are slowed down.
    Ordinary,
    /// Messages stay until they were fetched, and senders are refused meanwhile.
    Lossless,
}

impl RelayFlow {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RelayFlow::Ordinary => "ordinary",
            RelayFlow::Lossless => "lossless",
        }
    }
}

/// A session was opened. Its number is this record's position, where also a body stands: routing
/// id, peer id and public key of its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayOpened {
    /// What happens to messages that wait.
    pub flow: RelayFlow,
    /// Length of the body in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
}

/// A peer joined a session; the others find a message about it. Body: its peer id and public key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayJoined {
    /// The session.
    pub session: Seq,
    /// Number of the message within the session.
    pub number: u64,
    /// Length of the body in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// Messages that gave way.
    pub pruned: Vec<Seq>,
    /// Bodies that are gone with this record.
    pub erased: Vec<Seq>,
}

/// A peer sent something; it is this record's body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelaySent {
    /// The session.
    pub session: Seq,
    /// Number of the message within the session.
    pub number: u64,
    /// Position of the record with which the sender came.
    pub from: Seq,
    /// Length of the body in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// Messages that gave way.
    pub pruned: Vec<Seq>,
    /// Bodies that are gone with this record.
    pub erased: Vec<Seq>,
}

/// A peer left and another one stayed, who finds a message about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayLeft {
    /// The session.
    pub session: Seq,
    /// Position of the record with which the peer had come.
    pub member: Seq,
    /// Number of the message within the session.
    pub number: u64,
    /// Messages that gave way.
    pub pruned: Vec<Seq>,
    /// Bodies that are gone with this record.
    pub erased: Vec<Seq>,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayEnd {
    /// The last peer left.
    Left,
    /// Nothing happened for too long.
    Expired,
    /// The operator ended it.
    Dropped,
    /// What identifies it was lost to damage.
    Lost,
}

impl RelayEnd {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RelayEnd::Left => "left",
            RelayEnd::Expired => "expired",
            RelayEnd::Dropped => "dropped",
            RelayEnd::Lost => "lost",
        }
    }
}

/// A session ended; everything of it is gone with this record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayEnded {
    /// The session.
    pub session: Seq,
    /// Why.
    pub reason: RelayEnd,
    /// Messages that nobody will fetch any more.
    pub pruned: Vec<Seq>,
    /// Its bodies.
    pub erased: Vec<Seq>,
}

/// A session is in use; said at most once a minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayTouched {
    /// The session.
    pub session: Seq,
}

/// Why messages left a session that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayErasure {
    /// Their reader has them.
    Fetched,
    /// Their bodies were missing or damaged.
    Lost,
}

impl RelayErasure {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RelayErasure::Fetched => "fetched",
            RelayErasure::Lost => "lost",
        }
    }
}

/// Messages left a session that goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayErased {
    /// The session.
    pub session: Seq,
    /// Why.
    pub reason: RelayErasure,
    /// The messages.
    pub pruned: Vec<Seq>,
    /// Bodies that are gone with this record.
    pub erased: Vec<Seq>,
}
