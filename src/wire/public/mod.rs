//! The state files of the public `interlink-mcp` 0.13, for taking them over.
//!
//! Text in, values out, no files. These files lie in the user's folders, but what is in them came
//! from peers and strangers, and they may be damaged or forged: every signature and recipient is
//! checked again, counts are bounded, and one bad thing spoils itself, not the file it stands in.
//!
//! | file | read by |
//! |---|---|
//! | `mailbox/<key>/<session>.json` | [`mailbox`] |
//! | `pairing/<key>/<session>.json` | [`pairing`] |
//! | `sessions/<key>.json` | [`sessions`] |
//! | `inbox/<session>.jsonl` with its cursor | [`inbox`] |
//! | `failed/<key>/<session>.json` | [`failed`] |
//! | a value in `bus.redb` | [`queued`] |
//! | `peers.json` | [`peers::Peers`](super::peers::Peers) |
//!
//! - `bounded`: lists. - `mail`: messages and notices. - `trust`: pairing and sessions. - `queue`: a bus's mail.

mod bounded;
mod mail;
mod queue;
mod trust;

pub use mail::{FailedDelivery, InboxLine, StoredMail, failed, inbox, mailbox};
pub use queue::{QueuedPayload, queued};
pub use trust::{PairEntry, PairJob, PairState, SessionOwners, pairing, sessions};

use crate::crypto::sign::KeyError;
use crate::types::route::RouteError;

use super::envelope::{ReadMessageError, VerifyMessageError};

/// A thing out of a file, or why it is not one.
pub type Item<T> = Result<T, ItemError>;

/// A file that is not what the public program writes, or holds more than it keeps. Nothing of it
/// counts.
#[derive(Debug, thiserror::Error)]
#[error("not what the public program writes: {0}")]
pub struct PublicFileError(#[from] serde_json::Error);

/// A thing that is not taken over, whatever the rest of its file is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ItemError {
    /// Another shape.
    #[error("damaged: {0}")]
    Shape(#[from] serde_json::Error),
    /// Not a message.
    #[error("not a message: {0}")]
    Message(#[from] ReadMessageError),
    /// Nobody signed it.
    #[error("the signature does not check: {0}")]
    Signature(#[from] VerifyMessageError),
    /// Not a key.
    #[error("not a public key: {0}")]
    Key(#[from] KeyError),
    /// Not a route.
    #[error("{0}")]
    Route(#[from] RouteError),
    /// A route of another key, or without a session.
    #[error("its route is not one of its key's sessions")]
    ForeignRoute,
    /// Addressed to another identity.
    #[error("addressed to another identity")]
    NotForUs,
    /// Signed by another identity.
    #[error("signed by another identity")]
    NotOurs,
    /// Another kind of message than belongs there.
    #[error("another kind of message than belongs there")]
    WrongKind,
    /// Not an id.
    #[error("not a session id")]
    SessionId,
    /// Line too long.
    #[error("{len} bytes, at most {max} are read")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The bound in bytes.
        max: usize,
    },
}
