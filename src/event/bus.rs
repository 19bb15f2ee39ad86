//! What a broker remembers.

use serde::{Deserialize, Serialize};

use super::bus_rendezvous::{
    RelayEnded, RelayErased, RelayJoined, RelayLeft, RelayOpened, RelaySent, RelayTouched,
};
use crate::codec::body::{self, EncodeError};
use crate::event::kind::{EventKind, StoreKind};
use crate::event::{DecodeEventError, StoredEvent};
use crate::types::limit::MAX_EVENT_BYTES;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A message entered the queue `to`. Its payload is the body at this record's own position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Enqueued {
    /// Queue name, 0 ..= 512 bytes without control characters.
    pub to: String,
    /// Length of the payload in bytes.
    pub len: u32,
    /// SHA-256 of the payload as stored (keys sorted, duplicates collapsed).
    pub sha256: [u8; 32],
    /// The id that the payload gives itself (its member `msg_id`), so that a message can be followed
    /// through the log; a hint that nobody has verified. Empty where there is none, or where it is
    /// not 1 to [`MAX_HINT_BYTES`](crate::types::limit::MAX_HINT_BYTES) printable ASCII characters,
    /// and in records of version 1.
    pub msg_id: String,
}

/// Version 1 of [`Enqueued`]; frozen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnqueuedV1 {
    /// Queue name.
    pub to: String,
    /// Length of the payload in bytes.
    pub len: u32,
    /// SHA-256 of the payload as stored.
    pub sha256: [u8; 32],
}

impl From<EnqueuedV1> for Enqueued {
    fn from(old: EnqueuedV1) -> Enqueued {
        let EnqueuedV1 { to, len, sha256 } = old;
        Enqueued {
            to,
            len,
            sha256,
            msg_id: String::new(),
        }
    }
}

/// A reader acknowledged these messages; their bodies are gone with this record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acked {
    /// Positions of the `Enqueued` records, at most
    /// [`MAX_ACKS_PER_RECORD`](crate::types::limit::MAX_ACKS_PER_RECORD).
    pub seqs: Vec<Seq>,
}

/// Why messages left a queue unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DropReason {
    /// The queue was full and its oldest message gave way.
    Overflow,
    /// The message outlived the time to live.
    Expired,
}

impl DropReason {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Overflow => "overflow",
            DropReason::Expired => "expired",
        }
    }
}

/// Who takes things away by hand, and the counter of what was taken.
pub const DISCARDED: &str = "admin";

/// Messages left their queue unread; their bodies are gone with this record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// Positions of the `Enqueued` records.
    pub seqs: Vec<Seq>,
    /// Why.
    pub reason: DropReason,
}

/// A session announced itself with something new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Announced {
    /// Board key: `pubkey#session`, or the bare `pubkey`.
    pub entry: String,
    /// The announcement as posted, JSON.
    pub announcement: Vec<u8>,
}

/// One entry of [`Seen`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenAt {
    /// Board key.
    pub entry: String,
    /// When its last heartbeat arrived, wall clock of the bus.
    pub at: UnixMillis,
}

/// Heartbeats that changed nothing, coalesced over at most a minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The sessions that were heard of, each with its latest time.
    pub entries: Vec<SeenAt>,
}

/// A session left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unregistered {
    /// Board key.
    pub entry: String,
}

/// Sessions left the board for their age, or because it was full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresenceExpired {
    /// Board keys.
    pub entries: Vec<String>,
}

/// One entry of [`PresenceSigned`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignedAt {
    /// Board key.
    pub entry: String,
    /// Signed time of the newest announcement that was accepted.
    pub ts: UnixMillis,
}

/// Signatures of announcements were checked; what these sessions signed at or before these times
/// is stale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresenceSigned {
    /// The sessions, each with its newest time.
    pub entries: Vec<SignedAt>,
}

/// The signed times of these sessions are no longer remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresenceForgotten {
    /// Board keys.
    pub entries: Vec<String>,
}

/// The operator took messages out of their queue unread; their bodies are gone with this record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Discarded {
    /// Positions of the `Enqueued` records, at most
    /// [`MAX_EXPIRE_BATCH`](crate::types::limit::MAX_EXPIRE_BATCH).
    pub seqs: Vec<Seq>,
}

/// The operator took sessions off the board. Whoever still announces itself comes back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PresenceRemoved {
    /// Board keys.
    pub entries: Vec<String>,
}

/// A body was found missing or damaged; its message leaves the queue so that the next one can be
/// read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BodyLost {
    /// Position of the `Enqueued` record.
    pub message: Seq,
}

/// The message that follows in the same transaction was taken over from the queue of another
/// program's bus; its recorded time is that of the import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueImported {
    /// Its number there.
    pub number: u64,
    /// When it arrived there, wall clock of that bus.
    pub arrived: UnixMillis,
    /// SHA-256 of queue, number and payload, so that it is not taken over again once it was read.
    pub mark: [u8; 32],
}

macro_rules! bus_events {
    ($($name:ident $(: $($version:literal = $old:ident),+)?),* $(,)?) => {
        /// An event of a bus store.
        #[derive(Clone, Debug, PartialEq)]
        pub enum BusEvent {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $name($name),
            )*
        }

        impl StoredEvent for BusEvent {
            fn kind(&self) -> EventKind {
                match self { $(BusEvent::$name(_) => EventKind::$name,)* }
            }

            fn encode(&self) -> Result<Vec<u8>, EncodeError> {
                match self { $(BusEvent::$name(e) => body::encode(e, MAX_EVENT_BYTES),)* }
            }

            fn decode(kind: u16, version: u8, payload: &[u8]) -> Result<Self, DecodeEventError> {
                let kind = EventKind::from_number(kind)
                    .ok_or(DecodeEventError::UnknownKind { kind })?;
                let name = kind.name();
                if kind.store() != StoreKind::Bus {
                    return Err(DecodeEventError::ForeignDomain { name });
                }
                match (kind, version) {
                    $($($((EventKind::$name, $version) => body::decode::<$old>(payload)
                        .map(|old| BusEvent::$name(old.into()))
                        .map_err(|source| DecodeEventError::Body { name, source }),)+)?
                    (EventKind::$name, v) if v == EventKind::$name.version() => body::decode(payload)
                        .map(BusEvent::$name)
                        .map_err(|source| DecodeEventError::Body { name, source }),)*
                    _ => Err(DecodeEventError::UnknownVersion { name, version }),
                }
            }

            fn to_json(&self) -> serde_json::Value {
                bus_json(self)
            }
        }
    };
}

bus_events!(
    Enqueued: 1 = EnqueuedV1,
    Acked,
    Dropped,
    Announced,
    Seen,
    Unregistered,
    PresenceExpired,
    BodyLost,
    PresenceSigned,
    PresenceForgotten,
    Discarded,
    PresenceRemoved,
    QueueImported,
    RelayOpened,
    RelayJoined,
    RelaySent,
    RelayLeft,
    RelayEnded,
    RelayTouched,
    RelayErased,
);

fn bus_json(event: &BusEvent) -> serde_json::Value {
    use serde_json::json;
    match event {
        BusEvent::Enqueued(e) => json!({
            "to": e.to, "len": e.len, "sha256": data_encoding::HEXLOWER.encode(&e.sha256),
            "msg_id": e.msg_id,
        }),
        BusEvent::Acked(e) => json!({ "seqs": e.seqs }),
        BusEvent::Dropped(e) => json!({ "seqs": e.seqs, "reason": e.reason.name() }),
        BusEvent::Announced(e) => json!({
            "entry": e.entry,
            "announcement": serde_json::from_slice::<serde_json::Value>(&e.announcement)
                .unwrap_or(serde_json::Value::Null),
        }),
        BusEvent::Seen(e) => json!({ "entries": e.entries }),
        BusEvent::Unregistered(e) => json!({ "entry": e.entry }),
        BusEvent::PresenceExpired(e) => json!({ "entries": e.entries }),
        BusEvent::BodyLost(e) => json!({ "message": e.message }),
        BusEvent::PresenceSigned(e) => json!({ "entries": e.entries }),
        BusEvent::PresenceForgotten(e) => json!({ "entries": e.entries }),
        BusEvent::Discarded(e) => {
            json!({ "seqs": e.seqs, "reason": DISCARDED, "origin": DISCARDED })
        }
        BusEvent::PresenceRemoved(e) => json!({ "entries": e.entries, "origin": DISCARDED }),
        BusEvent::QueueImported(e) => json!({
            "origin": "import", "number": e.number, "arrived": e.arrived,
            "mark": data_encoding::HEXLOWER.encode(&e.mark),
        }),
        BusEvent::RelayOpened(e) => json!({
            "flow": e.flow.name(), "len": e.len,
            "sha256": data_encoding::HEXLOWER.encode(&e.sha256),
        }),
        BusEvent::RelayJoined(e) => json!({
            "session": e.session, "number": e.number, "len": e.len,
            "sha256": data_encoding::HEXLOWER.encode(&e.sha256),
            "pruned": e.pruned, "erased": e.erased,
        }),
        BusEvent::RelaySent(e) => json!({
            "session": e.session, "number": e.number, "from": e.from, "len": e.len,
            "sha256": data_encoding::HEXLOWER.encode(&e.sha256),
            "pruned": e.pruned, "erased": e.erased,
        }),
        BusEvent::RelayLeft(e) => json!({
            "session": e.session, "member": e.member, "number": e.number,
            "pruned": e.pruned, "erased": e.erased,
        }),
        BusEvent::RelayEnded(e) => json!({
            "session": e.session, "reason": e.reason.name(),
            "pruned": e.pruned, "erased": e.erased,
        }),
        BusEvent::RelayTouched(e) => json!({ "session": e.session }),
        BusEvent::RelayErased(e) => json!({
            "session": e.session, "reason": e.reason.name(),
            "pruned": e.pruned, "erased": e.erased,
        }),
    }
}
