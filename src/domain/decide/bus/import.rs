//! Messages of another program's bus.
//!
//! One command a message, so that each meets the bounds of its queue as it stands then. Whether a
//! message was taken over before and has been read since cannot be seen in the rows, which hold
//! what waits; the mark in front of it, in the log, says so to whoever imports.

use std::sync::Arc;

use super::{Bus, BusRefusal, BusReply, Overflow, QueueLimits, enqueue, msg_id_hint};
use crate::crypto::hash::sha256;
use crate::domain::{Decision, View};
use crate::event::bus::{BusEvent, QueueImported};
use crate::types::time::UnixMillis;

/// A message that waits on another program's bus.
#[derive(Clone, Debug)]
pub struct ImportMessage {
    /// Queue name.
    pub to: String,
    /// Its number there.
    pub number: u64,
    /// When it arrived there.
    pub arrived: UnixMillis,
    /// Payload, JSON as it will be delivered.
    pub payload: Arc<[u8]>,
    /// SHA-256 of the payload.
    pub sha256: [u8; 32],
    /// The id that the payload gives itself; empty where it has none.
    pub msg_id: String,
    /// Bounds. What does not fit is refused: nothing that waits gives way to an import.
    pub limits: QueueLimits,
}

impl ImportMessage {
    /// What tells the message from every other one of that bus.
    #[must_use]
    pub fn mark(&self) -> [u8; 32] {
        let mut bytes = Vec::with_capacity(self.to.len() + 40);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.sha256);
        bytes.extend_from_slice(self.to.as_bytes());
        sha256(&bytes)
    }
}

pub(super) fn take(
    view: &View<'_, Bus>,
    wish: &ImportMessage,
) -> Result<Decision<BusEvent, BusReply>, BusRefusal> {
    // The message stands behind its mark.
    let behind = View {
        tables: view.tables,
        index: view.index,
        next: view.next.next(),
    };
    let limits = QueueLimits {
        overflow: Overflow::Refuse,
        ..wish.limits
    };
    let facts = (&wish.sha256, msg_id_hint(&wish.msg_id));
    let mut taken = enqueue(&behind, &wish.to, &wish.payload, facts, &limits)?;
    if !taken.events.is_empty() {
        let mark = QueueImported {
            number: wish.number,
            arrived: wish.arrived,
            mark: wish.mark(),
        };
        taken.events.insert(0, BusEvent::QueueImported(mark).into());
    }
    Ok(taken)
}
