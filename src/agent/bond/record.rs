//! What is put on record of a sealed session.

use super::desk::OfferView;
use super::file::{FileError, Placed};
use crate::domain::machine::bond::{Row, Session};

/// Through what a decision about a file came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The human, in a form that the host showed.
    Form,
    /// The human, on a terminal.
    Operator,
    /// A tool, without a human; only where that was configured.
    Tool,
}

/// Keeps the record.
#[derive(Debug, Default)]
pub struct Recorder {}

impl Recorder {
    /// A line of the session's.
    pub fn row(&self, session: &Session, row: Row) {
        tracing::debug!("sealed session {}: {row:?}", session.routing().prefix());
    }

    /// Somebody decided about a file.
    pub fn decided(&self, offer: &OfferView, yes: bool, by: DecidedBy, placed: Option<&Placed>) {
        let _ = placed;
        tracing::info!("file {} accepted: {yes}, by {by:?}", offer.id.as_str());
    }

    /// A file of ours may not be sent.
    pub fn not_opened(&self, why: &FileError) {
        tracing::info!("a file was not sent: {why}");
    }

    /// Waits until everything is on the disk.
    pub async fn close(&self) {}
}
