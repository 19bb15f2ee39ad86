//! What an identity remembers.
//!
//! One log serves every session of an identity, so each fact that belongs to a session names it.
//! Times that later decisions depend on (when to try again, when to offer a notice once more) are
//! absolute and part of the fact: applying it needs no clock and no configuration.
//!
//! - `policy`: who may write to us, and who polls for a session.
//! - `outbox`: signed messages on their way to relays.
//! - `mailbox`: received messages, replay protection, wake-up notices.
//! - `pairing`: how strangers become peers.
//! - `room`: the events of each of these as a pattern.
//! - `directory`: whose sessions there are, and what is not to be remembered.
//! - `care`: what the operator and time do to messages.
//! - `host`: how a session's host can be woken.
//! - `import`: what came from another program.
//! - `bond`: sealed sessions; `bond_pin`: two sides of one that pin each other.

mod bond;
mod bond_pin;
mod care;
mod directory;
mod host;
mod import;
mod mailbox;
mod outbox;
mod pairing;
mod policy;
pub(crate) mod room;

pub use bond::{
    BondAdvanced, BondDecided, BondDropped, BondEnd, BondEnded, BondFailed, BondFileBlocked,
    BondFilePlaced, BondFileSent, BondGap, BondHeard, BondMode, BondOffered, BondOpened, BondRef,
    BondRole, BondSaid, BondStep, DecidedBy, DropKind, FileWay, PeerPrefix, Routing, Verdict,
};
pub use bond_pin::{BondPin, PinStep};
pub use care::{EndedTask, HistoryForgotten, OutboxDropped, OutboxRetried};
pub use directory::{
    ExpiredDismissed, ForgetReason, PeerForgotten, SessionClosed, SessionsForgotten, SessionsSeen,
    Sighting,
};

pub use host::{HostChange, HostChanged, HostKind};
pub use import::{Imported, ImportedPart};
pub use mailbox::{
    Acknowledged, NoticeChange, NoticeChanged, NoticePath, Received, ReceivedExpired,
    ReplayForgotten, ReplaySeen,
};
pub use outbox::{
    AttemptError, MailKind, MailStatus, OutboxAccepted, OutboxAttempted, OutboxQueued,
    OutboxRefused, OutboxResigned,
};
pub use pairing::{
    ConflictReason, ConsentDeclined, KeyBlocked, KeyUnblocked, KnockAnswered, KnockEnd,
    KnockReceived, KnockResolved, OutboxRequeued, PairConflictResolved, PairConflicted,
    PairNewsSeen, PairRequestEnded, PairRequested, Question, RequestEnd,
};
pub use policy::{
    HeldPeer, LeaseReleased, LeaseTaken, Origin, PeerAdded, PeerRemoved, PeersFileAdopted,
    PeersHeld, PeersPublished,
};

use crate::codec::body::{self, EncodeError};
use crate::event::kind::{EventKind, StoreKind};
use crate::event::{DecodeEventError, StoredEvent};
use crate::types::limit::MAX_EVENT_BYTES;

macro_rules! agent_events {
    ($($name:ident),* $(,)?) => {
        /// An event of an agent store.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AgentEvent {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $name($name),
            )*
        }

        $(
            impl From<$name> for AgentEvent {
                fn from(event: $name) -> Self {
                    AgentEvent::$name(event)
                }
            }
        )*

        impl StoredEvent for AgentEvent {
            fn kind(&self) -> EventKind {
                match self { $(AgentEvent::$name(_) => EventKind::$name,)* }
            }

            fn encode(&self) -> Result<Vec<u8>, EncodeError> {
                match self { $(AgentEvent::$name(e) => body::encode(e, MAX_EVENT_BYTES),)* }
            }

            fn decode(kind: u16, version: u8, payload: &[u8]) -> Result<Self, DecodeEventError> {
                let kind = EventKind::from_number(kind)
                    .ok_or(DecodeEventError::UnknownKind { kind })?;
                let name = kind.name();
                if kind.store() != StoreKind::Agent {
                    return Err(DecodeEventError::ForeignDomain { name });
                }
                match (kind, version) {
                    $((EventKind::$name, 1) => body::decode(payload)
                        .map(AgentEvent::$name)
                        .map_err(|source| DecodeEventError::Body { name, source }),)*
                    _ => Err(DecodeEventError::UnknownVersion { name, version }),
                }
            }

            fn to_json(&self) -> serde_json::Value {
                match self { $(AgentEvent::$name(e) => e.json(),)* }
            }
        }
    };
}

agent_events!(
    PeerAdded,
    PeerRemoved,
    PeersPublished,
    LeaseTaken,
    LeaseReleased,
    OutboxQueued,
    OutboxAttempted,
    OutboxAccepted,
    OutboxRefused,
    OutboxResigned,
    Received,
    ReceivedExpired,
    Acknowledged,
    NoticeChanged,
    ReplaySeen,
    ReplayForgotten,
    PeersFileAdopted,
    PeersHeld,
    HostChanged,
    // Pairing.
    PairRequested,
    PairRequestEnded,
    KnockReceived,
    KnockResolved,
    KnockAnswered,
    PairConflicted,
    PairConflictResolved,
    KeyBlocked,
    KeyUnblocked,
    PairNewsSeen,
    OutboxRequeued,
    ConsentDeclined,
    SessionsSeen,
    SessionClosed,
    SessionsForgotten,
    ExpiredDismissed,
    PeerForgotten,
    // The operator, and time.
    HistoryForgotten,
    OutboxDropped,
    OutboxRetried,
    Imported,
    // Sealed sessions.
    BondOpened,
    BondAdvanced,
    BondEnded,
    BondSaid,
    BondHeard,
    BondFileSent,
    BondFileBlocked,
    BondOffered,
    BondDecided,
    BondFilePlaced,
    BondDropped,
    BondGap,
    BondFailed,
    BondPin,
);

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}
