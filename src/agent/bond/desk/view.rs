//! What a desk tells of its session: values, without locks and without anything secret.

use crate::agent::bond::files::Placed;
use crate::domain::machine::bond::{OfferId, Phase, Role};
use crate::event::agent::BondMode;
use crate::types::id::SessionId;
use crate::types::time::UnixMillis;

/// How a session stands, for whoever asks.
#[derive(Debug)]
pub struct View {
    /// Where it stands.
    pub phase: Phase,
    /// Which end this is.
    pub role: Role,
    /// How it is sealed.
    pub mode: BondMode,
    /// The code, while there is something to join.
    pub code: Option<String>,
    /// The peer whose session it is, where no code opened it; spelled out.
    pub with: Option<String>,
    /// How many are in it.
    pub members: u8,
    /// Words that both sides see alike.
    pub words: Option<String>,
    /// The relay's address.
    pub relay: String,
    /// What is wrong with the relay at the moment.
    pub trouble: Option<String>,
    /// When it ends if nothing happens.
    pub expires_at: UnixMillis,
    /// By how much the clocks differ, where that mattered.
    pub clock_difference_ms: Option<i64>,
    /// Messages that the relay threw away.
    pub missed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Files that wait, oldest first.
    pub offers: Vec<OfferView>,
    /// The conversation in which it was opened.
    pub conversation: SessionId,
    /// The first 12 digits of the routing id.
    pub routing: String,
    /// How the relay calls the other side: 8 hexadecimal digits, once it was heard.
    pub peer: Option<String>,
    /// When it was opened.
    pub opened_at: UnixMillis,
}

/// A file that waits, without anything of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferView {
    /// Its id here.
    pub id: OfferId,
    /// How the relay calls the sender: 8 hexadecimal digits, or `peer`.
    pub from: String,
    /// The peer's name of it, spelled out and bounded.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What kind of file the name says it is.
    pub file_type: &'static str,
    /// Of the bytes.
    pub sha256: [u8; 32],
    /// Rules of the scan that it breaks, by name.
    pub findings: Vec<String>,
    /// When it came.
    pub at: UnixMillis,
}

/// A file that waits, for a human to look at. Never shown to a model.
#[derive(Debug)]
pub struct Look {
    /// The file.
    pub offer: OfferView,
    /// What the sender says about it.
    pub note: String,
    /// The facts, the note and its beginning, everything odd spelled out.
    pub text: String,
    /// Its beginning alone.
    pub beginning: String,
    /// Whether that is not all of it.
    pub cut: bool,
}

/// A file that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Of the bytes.
    pub sha256: [u8; 32],
    /// Whether its delivery will be told: in our own mode.
    pub told: bool,
}

/// A file that was accepted.
#[derive(Debug)]
pub struct AcceptedFile {
    /// What it was as an offer.
    pub offer: OfferView,
    /// Where it is now.
    pub placed: Placed,
    /// The note and the file, wrapped for a model.
    pub content: String,
    /// Whether that is only the beginning.
    pub truncated: bool,
}
