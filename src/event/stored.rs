//! The contract between an event type and its stored bytes.

use std::fmt::Debug;

use crate::codec::body::{DecodeError, EncodeError};
use crate::event::kind::EventKind;

/// A stored event is not understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeEventError {
    /// A kind number without an entry in this program's registry.
    #[error("event kind {kind} was written by a newer interlink")]
    UnknownKind {
        /// Number found.
        kind: u16,
    },
    /// A version of a known kind that this program does not know.
    #[error("version {version} of event {name} was written by a newer interlink")]
    UnknownVersion {
        /// Name of the kind.
        name: &'static str,
        /// Version found.
        version: u8,
    },
    /// An event of the other domain: a bus store holds no agent events and vice versa.
    #[error("event {name} does not belong into this kind of store")]
    ForeignDomain {
        /// Name of the kind.
        name: &'static str,
    },
    /// The payload does not decode.
    #[error("event {name}: {source}")]
    Body {
        /// Name of the kind.
        name: &'static str,
        /// What is wrong.
        source: DecodeError,
    },
}

/// What the store needs of an event type.
pub trait StoredEvent: Clone + Debug + PartialEq + Send + Sync + Sized + 'static {
    /// The event's entry in the registry.
    fn kind(&self) -> EventKind;

    /// The payload in the current shape of its kind.
    ///
    /// # Errors
    ///
    /// When it exceeds [`MAX_EVENT_BYTES`](crate::types::limit::MAX_EVENT_BYTES).
    fn encode(&self) -> Result<Vec<u8>, EncodeError>;

    /// Reads a payload of any version that was ever released and brings it to the current shape.
    ///
    /// # Errors
    ///
    /// Unknown kinds and versions are refused by name, never skipped.
    fn decode(kind: u16, version: u8, payload: &[u8]) -> Result<Self, DecodeEventError>;

    /// A JSON view for people and scripts (`interlink-admin log --json`).
    fn to_json(&self) -> serde_json::Value;
}
