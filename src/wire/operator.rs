//! What the operator sees in a bus's queues and on its board, and takes away: more of the admin
//! endpoint ([`admin`](super::admin) has the rest and its rules).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message that waits on a bus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Waiting {
    /// Its position.
    pub seq: u64,
    /// Its queue.
    pub to: String,
    /// When it arrived, Unix milliseconds.
    pub at: u64,
    /// Length of the payload.
    pub bytes: u64,
    /// SHA-256 of the payload, hex.
    pub sha256: String,
    /// The id that the payload gives itself; empty where there is none. Nobody verified it.
    pub msg_id: String,
    /// The payload, where it was asked for and is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// Answer of `GET /admin/v1/queue?to=NAME&from=SEQ&limit=N`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WaitingList {
    /// Oldest first.
    pub messages: Vec<Waiting>,
}

/// A session on the presence board.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BoardRow {
    /// Board key: `pubkey#session`, or the bare `pubkey`.
    pub entry: String,
    /// When it was last heard of, as far as that is recorded, Unix milliseconds.
    pub last_seen: u64,
    /// The announcement as posted. What it says nobody has verified, unless the bus verifies
    /// presence.
    pub announcement: Value,
}

/// Answer of `GET /admin/v1/roster`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Board {
    /// By board key.
    pub sessions: Vec<BoardRow>,
}

/// Body of `POST /admin/v1/discard`: takes messages out of a queue unread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discard {
    /// The queue.
    pub to: String,
    /// The message; absent for the oldest ones, at most 4096 a call.
    pub seq: Option<u64>,
}

/// Body of `POST /admin/v1/evict`: takes a session off the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evict {
    /// Board key.
    pub entry: String,
}

/// A session of two sealed peers that a bus relays. Who they are it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RelayedSession {
    /// Its number.
    pub session: u64,
    /// `ordinary`, or `lossless` between two of ours.
    pub flow: String,
    /// Peers that are in it.
    pub peers: u64,
    /// Messages that wait.
    pub messages: u64,
    /// Bytes of what is kept of it.
    pub bytes: u64,
    /// When it was opened, Unix milliseconds.
    pub opened: u64,
    /// When it was last used, as far as that is recorded, Unix milliseconds.
    pub used_at: u64,
}

/// Answer of `GET /admin/v1/relay`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayedSessions {
    /// By number.
    pub sessions: Vec<RelayedSession>,
}

/// Body of `POST /admin/v1/relay`: ends a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRelayed {
    /// Its number.
    pub session: u64,
}

/// Answer to all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Removed {
    /// How many.
    pub count: u64,
}
