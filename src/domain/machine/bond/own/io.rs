//! What our own mode adds to inputs, actions and happenings.

use std::fmt;

use super::super::io::OfferId;
use crate::types::secret::Secret;

/// A file on this machine that the driver holds open and has hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFile {
    /// Its base name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of all of them.
    pub sha256: [u8; 32],
    /// What to say about it; may be empty.
    pub note: String,
}

/// What a session in our own mode is told beside the common inputs. `Debug` shows no content.
pub enum OwnInput {
    /// The user wants to send a file, of any content. [`OwnHappening::FileQueued`] tells its id.
    OfferFile(LocalFile),
    /// The user wants to send a file, of any content, that was read and checked already. It is held
    /// in memory until it is delivered. [`OwnHappening::FileQueued`] tells its id.
    OfferContent {
        /// Its base name.
        name: String,
        /// All of it.
        content: Secret<Vec<u8>>,
        /// What to say about it; may be empty.
        note: String,
    },
    /// What [`OwnAction::ReadChunk`] asked for.
    ChunkRead {
        /// Which file.
        id: OfferId,
        /// From where.
        offset: u64,
        /// Exactly as many as were asked for.
        bytes: Vec<u8>,
    },
    /// A file of ours cannot be read any more.
    ReadFailed {
        /// Which file.
        id: OfferId,
    },
    /// A file of ours is not what was offered any more.
    Changed {
        /// Which file.
        id: OfferId,
    },
    /// [`OwnAction::FinishFile`] was done: the file has its name and is on disk.
    Stored {
        /// Which file.
        id: OfferId,
    },
    /// A chunk could not be kept, or the file could not be given its name.
    StoreFailed {
        /// Which file.
        id: OfferId,
    },
    /// The user stops a file that moves or waits, ours or the peer's.
    Cancel {
        /// Which file.
        id: OfferId,
    },
    /// What the peer needs in order to pin us, at most 4,096 bytes.
    Pin(Vec<u8>),
}

impl fmt::Debug for OwnInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnInput::OfferFile(file) => write!(f, "OfferFile({} bytes)", file.size),
            OwnInput::OfferContent { content, .. } => {
                write!(f, "OfferContent({} bytes)", content.expose().len())
            }
            OwnInput::ChunkRead { id, offset, bytes } => {
                write!(
                    f,
                    "ChunkRead({}, {offset}, {} bytes)",
                    id.as_str(),
                    bytes.len()
                )
            }
            OwnInput::ReadFailed { id } => write!(f, "ReadFailed({})", id.as_str()),
            OwnInput::Changed { id } => write!(f, "Changed({})", id.as_str()),
            OwnInput::Stored { id } => write!(f, "Stored({})", id.as_str()),
            OwnInput::StoreFailed { id } => write!(f, "StoreFailed({})", id.as_str()),
            OwnInput::Cancel { id } => write!(f, "Cancel({})", id.as_str()),
            OwnInput::Pin(bytes) => write!(f, "Pin({} bytes)", bytes.len()),
        }
    }
}

/// What is to be done beside the common actions. In order, and before the next input. `Debug` shows
/// no content.
pub enum OwnAction {
    /// Read from a file of ours; answer with [`OwnInput::ChunkRead`], [`OwnInput::ReadFailed`], or
    /// [`OwnInput::Changed`] where the bytes are not those that were hashed. `offset` is a multiple of
    /// [`CHUNK_BYTES`](super::CHUNK_BYTES), and only the last piece is shorter.
    ReadChunk {
        /// Which file.
        id: OfferId,
        /// From where.
        offset: u64,
        /// How many bytes.
        len: usize,
    },
    /// Append to the hidden temporary of an accepted file; create it at offset 0. Answer only a
    /// failure, with [`OwnInput::StoreFailed`].
    StoreChunk {
        /// Which file.
        id: OfferId,
        /// Where: always the end of what is there.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// All bytes are there and hash as was promised: give the file its name. Answer with
    /// [`OwnInput::Stored`] or [`OwnInput::StoreFailed`]. An empty file has no chunk before this.
    FinishFile {
        /// Which file.
        id: OfferId,
    },
    /// Remove the temporary.
    DiscardFile {
        /// Which file.
        id: OfferId,
    },
    /// A file of ours is not read any more.
    ReleaseFile {
        /// Which file.
        id: OfferId,
    },
}

impl fmt::Debug for OwnAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnAction::ReadChunk { id, offset, len } => {
                write!(f, "ReadChunk({}, {offset}, {len} bytes)", id.as_str())
            }
            OwnAction::StoreChunk { id, offset, bytes } => {
                write!(
                    f,
                    "StoreChunk({}, {offset}, {} bytes)",
                    id.as_str(),
                    bytes.len()
                )
            }
            OwnAction::FinishFile { id } => write!(f, "FinishFile({})", id.as_str()),
            OwnAction::DiscardFile { id } => write!(f, "DiscardFile({})", id.as_str()),
            OwnAction::ReleaseFile { id } => write!(f, "ReleaseFile({})", id.as_str()),
        }
    }
}

/// What the user should know beside the common happenings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnHappening {
    /// So many chats of this session have reached the peer's program.
    Acknowledged {
        /// How many, in all.
        chats: u64,
    },
    /// A file of ours waits for the peer's answer.
    FileQueued {
        /// Its name in this session.
        id: OfferId,
        /// Its name.
        name: String,
    },
    /// The peer's human answered.
    FileAnswered {
        /// Which file.
        id: OfferId,
        /// Whether it is taken.
        taken: bool,
    },
    /// A file of ours is on the peer's disk, whole.
    FileDelivered {
        /// Which file.
        id: OfferId,
    },
    /// A file of the peer is on our disk, whole.
    FileReceived {
        /// Which file.
        id: OfferId,
    },
    /// A file does not move any more.
    FileFailed {
        /// Which file.
        id: OfferId,
        /// Why.
        why: TransferFailure,
    },
    /// The relay lost the session or the peer is silent. What is said is kept; the session goes on
    /// by itself when there is a way.
    Interrupted,
    /// The peer is heard again.
    Resumed,
    /// The session is over and so much of ours was never acknowledged.
    Undelivered {
        /// Chats.
        chats: u64,
        /// Files.
        files: u64,
    },
    /// What we need in order to pin the peer; foreign.
    Pin(Vec<u8>),
}

/// Why a file does not move any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferFailure {
    /// Its sender stopped it.
    Withdrawn,
    /// Its receiver stopped it.
    Stopped,
    /// It cannot be read any more.
    Unreadable,
    /// It changed after it was offered.
    Changed,
    /// It cannot be kept.
    NotStored,
    /// Its bytes are not those that were offered.
    WrongContent,
    /// The session ended first.
    SessionOver,
}
