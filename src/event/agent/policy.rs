//! Who may write to us, and who polls for a session.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hex;
use crate::types::id::{PublicKey, SessionId};

/// How a change of the policy came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Somebody edited `peers.json`.
    File,
    /// A tool call of a session.
    Tool,
    /// The administration tool.
    Admin,
    /// A human whom the host asked on behalf of a session.
    Human,
    /// The operator took over another program's state.
    Import,
}

impl Origin {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Origin::File => "file",
            Origin::Tool => "tool",
            Origin::Admin => "admin",
            Origin::Human => "human",
            Origin::Import => "import",
        }
    }
}

/// A key was admitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerAdded {
    /// Local name, 1 ..= 128 bytes without control characters.
    pub petname: String,
    /// The key.
    pub key: PublicKey,
    /// How the wish came in.
    pub origin: Origin,
}

impl PeerAdded {
    pub(super) fn json(&self) -> Value {
        json!({ "petname": self.petname, "key": self.key, "origin": self.origin.name() })
    }
}

/// A key was revoked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerRemoved {
    /// The name it had.
    pub petname: String,
    /// The key.
    pub key: PublicKey,
    /// How the wish came in.
    pub origin: Origin,
}

impl PeerRemoved {
    pub(super) fn json(&self) -> Value {
        json!({ "petname": self.petname, "key": self.key, "origin": self.origin.name() })
    }
}

/// A version of `peers.json` is known: it was written by us, or read and taken over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersPublished {
    /// SHA-256 of the file's bytes.
    pub sha256: [u8; 32],
    /// Whether it was a hand edit that was taken over. It is not what we would write, so the file
    /// counts as behind until a version of ours follows.
    pub imported: bool,
}

impl PeersPublished {
    pub(super) fn json(&self) -> Value {
        json!({ "sha256": hex(&self.sha256), "imported": self.imported })
    }
}

/// The identity's `peers.json` is this one from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersFileAdopted {
    /// Absolute path without symbolic links, 1 ..= 4096 bytes. What is not UTF-8 in it is replaced
    /// by U+FFFD.
    pub path: String,
}

impl PeersFileAdopted {
    pub(super) fn json(&self) -> Value {
        json!({ "path": self.path })
    }
}

/// An entry of `peers.json` that does not admit its key, because the key had been revoked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldPeer {
    /// The name that it was given; at most 1024 bytes.
    pub petname: String,
    /// The key.
    pub key: PublicKey,
}

/// These entries of the hand edit that is taken over do not count. They take the place of those of
/// the edit before; none may be left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersHeld {
    /// They, at most 64, by key.
    pub entries: Vec<HeldPeer>,
}

impl PeersHeld {
    pub(super) fn json(&self) -> Value {
        let entries = self.entries.iter();
        let entries: Vec<Value> = entries
            .map(|e| json!({ "petname": e.petname, "key": e.key }))
            .collect();
        json!({ "entries": entries })
    }
}

/// A process took over a session; whoever held it before has lost it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseTaken {
    /// The session.
    pub session: SessionId,
    /// Number of this lease: one more than the session's last one.
    pub epoch: u64,
    /// Process id of the new holder.
    pub pid: u32,
    /// The kernel's start time of that process, so that a reused process id is noticed. The unit
    /// is the platform's; only equality matters.
    pub process_start: u64,
}

impl LeaseTaken {
    pub(super) fn json(&self) -> Value {
        json!({
            "session": self.session, "epoch": self.epoch, "pid": self.pid,
            "process_start": self.process_start,
        })
    }
}

/// A process gave up its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaseReleased {
    /// The session.
    pub session: SessionId,
    /// Number of the lease that ended.
    pub epoch: u64,
}

impl LeaseReleased {
    pub(super) fn json(&self) -> Value {
        json!({ "session": self.session, "epoch": self.epoch })
    }
}
