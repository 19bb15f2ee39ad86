//! Floor 2: facts. An event is something that has happened, past tense and immutable; a record is
//! an event with its position and the time at which it was written.
//!
//! Two domains share one engine: [`bus`] is what a broker remembers, [`agent`] what an identity
//! remembers. Their kinds share one number space ([`kind`]), so that a frame found anywhere names
//! itself. `schema/events/` has a page for each kind.

pub mod agent;
pub mod bus;
pub mod bus_rendezvous;
pub(crate) mod bus_room;
pub mod kind;
mod stored;

use std::fmt::Debug;

pub use stored::{DecodeEventError, StoredEvent};

use crate::codec::body::EncodeError;
use crate::codec::frame::{self, Frame, FrameError};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// An event with its position and the wall-clock time of its writer.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded<E> {
    /// Position in the log; the only order there is.
    pub seq: Seq,
    /// Wall clock of the writer at the append. May jump in either direction between records.
    pub at: UnixMillis,
    /// The fact.
    pub event: E,
}

/// A record could not be turned into a frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeRecordError {
    /// The event's body does not encode.
    #[error(transparent)]
    Body(#[from] EncodeError),
    /// The frame does not hold it.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A frame could not be turned into a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeRecordError {
    /// The frame is broken.
    #[error("record {seq}: {source}")]
    Frame {
        /// Position at which the frame stands.
        seq: Seq,
        /// What is wrong with it.
        source: FrameError,
    },
    /// The frame is whole, its event is not understood.
    #[error("record {seq}: {source}")]
    Event {
        /// Position of the record.
        seq: Seq,
        /// What is wrong with it.
        source: DecodeEventError,
    },
}

impl DecodeRecordError {
    /// Position of the record.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        match self {
            DecodeRecordError::Frame { seq, .. } | DecodeRecordError::Event { seq, .. } => *seq,
        }
    }
}

impl<E: StoredEvent> Recorded<E> {
    /// The bytes of this record's frame.
    ///
    /// # Errors
    ///
    /// When the event is larger than [`MAX_EVENT_BYTES`](crate::types::limit::MAX_EVENT_BYTES).
    pub fn to_frame(&self) -> Result<Vec<u8>, EncodeRecordError> {
        let payload = self.event.encode()?;
        let mut out = Vec::new();
        let frame = Frame {
            kind: self.event.kind().number(),
            version: self.event.kind().version(),
            seq: self.seq,
            recorded_at: self.at,
            payload: &payload,
        };
        frame::encode(&frame, &mut out)?;
        Ok(out)
    }

    /// Reads the frame that stands at position `seq`.
    ///
    /// # Errors
    ///
    /// [`DecodeRecordError`] names the position and the defect.
    pub fn from_frame(seq: Seq, bytes: &[u8]) -> Result<Self, DecodeRecordError> {
        let frame = frame::parse_at(seq, bytes)
            .map_err(|source| DecodeRecordError::Frame { seq, source })?;
        let event = E::decode(frame.kind, frame.version, frame.payload)
            .map_err(|source| DecodeRecordError::Event { seq, source })?;
        Ok(Recorded {
            seq,
            at: frame.recorded_at,
            event,
        })
    }
}
