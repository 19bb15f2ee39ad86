//! What goes into a session and what comes out of it. Both modes use the same shapes.

use serde_json::Value;

use super::own::{OwnAction, OwnHappening, OwnInput};
use crate::crypto::agree::AgreementPublic;
use crate::wire::bond::Role;
use crate::wire::bond::code::{PeerId, RoutingId};

/// Something that a session is told. One call of `step` takes one.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input {
    /// The relay made the session ([`Action::Create`] succeeded).
    Created,
    /// The relay let us in ([`Action::Join`] succeeded).
    Joined {
        /// What it says the host's public key is; unchecked.
        host_key: String,
    },
    /// The relay answered [`Action::Poll`].
    Polled(Polled),
    /// The relay took the payload of [`Action::Post`].
    Posted {
        /// Which one.
        ticket: Ticket,
    },
    /// A request did not succeed.
    Failed {
        /// Which one.
        request: Request,
        /// How.
        failure: Failure,
    },
    /// The user wants to say something. At most 4,000 UTF-16 units, not empty.
    Say(String),
    /// The user wants to send a file. Its content was opened and scanned already.
    SendFile(OutgoingFile),
    /// The human took an offered file, and it is on disk.
    Accepted {
        /// Which one.
        id: OfferId,
    },
    /// The human refused an offered file. The sender is not told.
    Declined {
        /// Which one.
        id: OfferId,
    },
    /// The user ends the session. Always succeeds at once.
    End,
    /// Time has passed. The driver's heartbeat: expiry, re-sending and the next poll come of it.
    Tick,
    /// What only our own mode understands.
    Own(OwnInput),
}

/// An answer of a relay to a poll.
#[derive(Clone, Debug, Default)]
pub struct Polled {
    /// In any order.
    pub messages: Vec<Delivery>,
    /// The oldest position that the relay still holds, if it says so.
    pub oldest_seq: Option<u64>,
    /// The relay does not know the session (any more).
    pub disconnected: bool,
}

/// A message as a relay hands it out. Everything in it is the relay's word.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// `system`, or the id of whoever sent it.
    pub from: String,
    /// Its position, from 1.
    pub seq: u64,
    /// What was sent.
    pub payload: Value,
}

/// Tells a request that was answered from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Which request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`Action::Create`].
    Create,
    /// [`Action::Join`].
    Join,
    /// [`Action::Post`] with this ticket.
    Post(Ticket),
    /// [`Action::Poll`].
    Poll,
}

/// How a request failed, as far as a session cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// 403 `ERR_UNAUTHORIZED`: the relay does not count us as a member.
    NotAMember,
    /// 404 `ERR_SESSION_NOT_FOUND` or 410 `ERR_SESSION_EXPIRED`.
    NoSession,
    /// 403 `ERR_SESSION_FULL`: two are in already, or the routing id is taken.
    Full,
    /// 429: too many. Nothing was taken.
    Limited {
        /// Milliseconds that the relay wants us to wait.
        retry_after_ms: u64,
    },
    /// Another refusal. Nothing was taken.
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// No answer, or none that could be read. A post may have been taken all the same.
    Unreachable,
}

/// A file to send, already opened, checked and decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingFile {
    /// Its base name.
    pub name: String,
    /// All of it: exactly the file's bytes.
    pub content: String,
    /// What to say about it; may be empty.
    pub note: String,
}

/// Something to be done for a session.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// `POST /create`. Answer with [`Input::Created`] or [`Input::Failed`].
    Create {
        /// Where.
        routing: RoutingId,
        /// The host's public key.
        key: AgreementPublic,
        /// Who we are there.
        peer: PeerId,
    },
    /// `POST /join`. Answer with [`Input::Joined`] or [`Input::Failed`].
    Join {
        /// Where.
        routing: RoutingId,
        /// The guest's public key.
        key: AgreementPublic,
        /// Who we are there.
        peer: PeerId,
    },
    /// `POST /send`. Answer with [`Input::Posted`] or [`Input::Failed`].
    Post {
        /// Goes into the answer.
        ticket: Ticket,
        /// What it carries, for the driver's own bookkeeping.
        kind: Carries,
        /// The JSON text of the payload. Sealed; contains no plaintext.
        payload: String,
    },
    /// `GET /poll`. At most one at a time is the driver's care. Answer with [`Input::Polled`] or
    /// [`Input::Failed`].
    Poll {
        /// The position after which messages are wanted.
        since: u64,
    },
    /// `POST /disconnect`, best effort, in the background; the answer does not matter. Emitted once
    /// on every way out of a session that a relay may know.
    Goodbye,
    /// Tell the user and the agent.
    Tell(Happening),
    /// Put on record.
    Record(Row),
    /// What only our own mode asks for.
    Own(OwnAction),
}

/// What a post carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carries {
    /// A confirmation tag.
    Confirmation,
    /// Words.
    Chat,
    /// A file.
    File,
    /// A message of the own mode that the user did not ask for.
    Control,
}

/// The name of an offered file on this machine: 16 hexadecimal digits, random.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferId(String);

impl OfferId {
    /// The id of 8 random bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> OfferId {
        OfferId(data_encoding::HEXLOWER.encode(&bytes))
    }

    /// Reads an id as people and models give it.
    #[must_use]
    pub fn parse(text: &str) -> Option<OfferId> {
        let good = text.len() == 16
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        good.then(|| OfferId(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

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
        /// Which one: an offer's id, or the ticket of what we send in hexadecimal digits.
        id: OfferId,
        /// Bytes moved.
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
