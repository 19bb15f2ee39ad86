//! What a user hears of a session, and the reasons behind it.

use super::io::{Failure, OfferId};
use super::own::OwnHappening;

/// Something that the user should know. Texts of the peer are foreign: wrap and escape them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Happening {
    /// The relay made the session: the code may be passed on.
    Opened,
    /// Somebody joined, not yet proven to know the code.
    PeerJoined,
    /// The peer proved that it knows the code.
    Confirmed {
        /// Words that both sides may compare aloud; the legacy mode has none.
        verification: Option<String>,
    },
    /// The session is over because something was wrong.
    Aborted {
        /// What.
        reason: AbortReason,
    },
    /// The peer said something.
    Chat {
        /// How the relay calls the sender: 8 hexadecimal digits, or `peer`.
        from: String,
        /// At most 4,000 UTF-16 units of it.
        text: String,
        /// UTF-16 units that were cut off.
        cut_units: usize,
    },
    /// The peer offers a file: see `Session::offer`.
    FileOffered {
        /// Its name here.
        id: OfferId,
        /// How the relay calls the sender: 8 hexadecimal digits, or `peer`.
        from: String,
        /// The peer's name of it; foreign.
        name: String,
        /// Bytes of content.
        size: u64,
        /// SHA-256 of the content.
        sha256: [u8; 32],
    },
    /// A file moves (own mode).
    FileProgress {
        /// Which one, ours or the peer's.
        id: OfferId,
        /// Bytes that the receiver's program has.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// The peer left, or the relay says so. Nothing more can be sent.
    PeerGone,
    /// The relay does not know the session any more.
    RelayLost,
    /// The session could not be opened.
    OpenFailed {
        /// Why.
        failure: Failure,
    },
    /// Too long without a sign of life, or without a peer.
    Expired,
    /// Up to so many messages of the peer were lost on the relay.
    Gap {
        /// How many.
        missed: u64,
    },
    /// A packet of the peer was too old or too new and was dropped.
    DroppedStale {
        /// The peer's time minus ours, in milliseconds.
        clock_difference_ms: i64,
    },
    /// A message could not be decrypted or read and was dropped.
    DroppedUnreadable,
    /// A chat of the peer without proper text was dropped.
    DroppedMalformed,
    /// A file of the peer was refused before anybody was asked.
    Rejected {
        /// Why.
        why: Refusal,
    },
    /// Somebody else joined after the first; this session cannot start again with him.
    SecondJoiner,
    /// The relay's answer cannot be true.
    RelayOdd {
        /// What about it.
        what: RelayOddity,
    },
    /// The user ended the session.
    Ended,
    /// What only our own mode has.
    Own(OwnHappening),
}

/// Why a session was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortReason {
    /// A message before confirmation does not decrypt: other code, or keys changed on the way.
    Decryption,
    /// The peer's tag is wrong: it does not know the code.
    WrongTag,
    /// Content before confirmation.
    Unconfirmed,
    /// The peer's public key is no key.
    BadKey,
}

impl AbortReason {
    /// The word that records hold.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AbortReason::Decryption => "decryption_failed",
            AbortReason::WrongTag => "wrong_tag",
            AbortReason::Unconfirmed => "content_before_confirmation",
            AbortReason::BadKey => "bad_public_key",
        }
    }
}

/// Why a file is not offered or not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The kind of file, by its extension.
    Type,
    /// A name that is never taken or sent.
    BlockedName,
    /// A name that is none, or not safe.
    BadName,
    /// Larger than the cap.
    TooLarge,
    /// Not a proper file packet.
    Malformed,
    /// 16 files wait already.
    TooManyPending,
    /// The session's budget is used up.
    Budget,
}

impl Refusal {
    /// The word that records hold.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Type => "type",
            Refusal::BlockedName => "blocked_name",
            Refusal::BadName => "bad_name",
            Refusal::TooLarge => "too_large",
            Refusal::Malformed => "malformed",
            Refusal::TooManyPending => "too_many_pending",
            Refusal::Budget => "budget",
        }
    }
}

/// What about a relay's answer cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayOddity {
    /// A position absurdly far ahead; following it would lose everything before.
    CursorPush,
    /// It hands us our own messages.
    Reflection,
}
