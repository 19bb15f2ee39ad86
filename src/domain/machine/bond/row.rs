//! What goes on record of a session.

use super::io::{Failure, OfferId};
use super::tell::{AbortReason, Refusal};
use crate::wire::bond::Role;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dropped {
    /// Its nonce is not 32 lower-case hexadecimal digits.
    Nonce,
    /// Its time is missing or more than five minutes from ours.
    Stale,
    /// Seen before.
    Replay,
    /// Our own, sent back.
    Reflected,
    /// No room to remember one more nonce.
    Full,
    /// Cannot be decrypted, or is not a packet.
    Undecryptable,
    /// Came before there was a key.
    NoKey,
    /// A wrong tag after confirmation.
    LateTag,
    /// A chat without proper text.
    Malformed,
    /// A type that this program does not know.
    UnknownType,
}

impl Dropped {
    /// The word that records hold.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Dropped::Nonce => "nonce",
            Dropped::Stale => "stale",
            Dropped::Replay => "replay",
            Dropped::Reflected => "reflected",
            Dropped::Full => "full",
            Dropped::Undecryptable => "undecryptable",
            Dropped::NoKey => "no_key",
            Dropped::LateTag => "late_tag",
            Dropped::Malformed => "malformed",
            Dropped::UnknownType => "unknown_type",
        }
    }
}

/// A line for the record. Holds no code, key, text or content. Names are foreign: at most 255
/// bytes, not escaped yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Row {
    /// The relay made our session.
    SessionCreated {
        /// First 12 digits of the routing id.
        routing: String,
    },
    /// The relay let us in.
    SessionJoined {
        /// First 12 digits of the routing id.
        routing: String,
    },
    /// Both keys are known.
    KeyExchangeCompleted {
        /// Ours.
        role: Role,
    },
    /// The peer's tag is right.
    KeyConfirmed {
        /// The peer's.
        peer_role: Role,
    },
    /// The relay took a chat of ours.
    ChatSent {
        /// UTF-16 units.
        chars: u64,
    },
    /// A chat of the peer was delivered.
    ChatReceived {
        /// How many so far in this session.
        count: u64,
    },
    /// A file of ours goes out.
    Outbound {
        /// Its name.
        file: String,
        /// Bytes.
        size: u64,
        /// Bytes of files in this session so far, this one included.
        total: u64,
    },
    /// The relay took a file of ours.
    FileSent {
        /// Its name.
        file: String,
        /// Bytes.
        size: u64,
        /// UTF-16 units of the note.
        note_chars: u64,
        /// SHA-256 of its bytes, in our own mode; the other's driver knows it.
        sha256: Option<[u8; 32]>,
    },
    /// A file of ours was not sent.
    SendBlocked {
        /// Its name.
        file: String,
        /// Why.
        reason: Refusal,
    },
    /// A file of the peer waits for consent.
    OfferReceived {
        /// Its name here.
        id: OfferId,
        /// The peer's name of it.
        file: String,
        /// Bytes.
        size: u64,
        /// SHA-256 of the content.
        sha256: [u8; 32],
        /// How the relay calls the sender.
        from: String,
    },
    /// A file of the peer was refused before anybody was asked.
    InboundBlocked {
        /// Why.
        reason: Refusal,
        /// How the relay calls the sender.
        from: String,
    },
    /// The human took a file.
    OfferAccepted {
        /// Its name here.
        id: OfferId,
        /// The peer's name of it.
        file: String,
        /// Bytes.
        size: u64,
    },
    /// The human refused a file.
    OfferDeclined {
        /// Its name here.
        id: OfferId,
        /// The peer's name of it.
        file: String,
    },
    /// A packet was dropped.
    PacketDropped {
        /// Why.
        reason: Dropped,
    },
    /// Messages were lost on the relay.
    GapDetected {
        /// Up to how many.
        missed: u64,
    },
    /// The session was given up.
    SessionAborted {
        /// Why.
        reason: AbortReason,
    },
    /// The peer left.
    PeerDisconnected {
        /// First 8 digits of its id, or `peer`.
        peer: String,
    },
    /// The session is over.
    SessionEnded {
        /// How.
        reason: Ending,
    },
    /// A request failed.
    CallFailed {
        /// `create`, `join`, `send` or `poll`.
        call: &'static str,
        /// How.
        failure: Failure,
    },
}

/// How a session came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The user ended it.
    User,
    /// It was given up.
    Aborted(AbortReason),
    /// Half an hour without life, or without a confirmed peer.
    Expired,
    /// The relay does not know it any more.
    RelayLost,
    /// The peer left.
    PeerGone,
    /// It never opened.
    OpenFailed(Failure),
}

impl Ending {
    /// The word that records hold.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Ending::User => "user",
            Ending::Aborted(_) => "aborted",
            Ending::Expired => "expired",
            Ending::RelayLost => "relay_lost",
            Ending::PeerGone => "peer_gone",
            Ending::OpenFailed(_) => "open_failed",
        }
    }
}
