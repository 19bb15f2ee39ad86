//! What goes into a session and what comes out of it. Both modes use the same shapes.

use std::fmt;

use serde_json::Value;

use super::own::{OwnAction, OwnInput};
use super::row::Row;
use super::tell::Happening;
use crate::crypto::agree::AgreementPublic;
use crate::wire::bond::code::{PeerId, RoutingId};

/// Something that a session is told. One call of `step` takes one. `Debug` shows no words.
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

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Created => f.write_str("Created"),
            Input::Joined { .. } => f.write_str("Joined"),
            Input::Polled(polled) => write!(f, "Polled({} messages)", polled.messages.len()),
            Input::Posted { ticket } => write!(f, "Posted({ticket:?})"),
            Input::Failed { request, failure } => write!(f, "Failed({request:?}, {failure:?})"),
            Input::Say(text) => write!(f, "Say({} bytes)", text.len()),
            Input::SendFile(file) => write!(f, "SendFile({file:?})"),
            Input::Accepted { id } => write!(f, "Accepted({})", id.as_str()),
            Input::Declined { id } => write!(f, "Declined({})", id.as_str()),
            Input::End => f.write_str("End"),
            Input::Tick => f.write_str("Tick"),
            Input::Own(own) => own.fmt(f),
        }
    }
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

/// A file to send, already opened, checked and decoded. `Debug` shows its size only.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingFile {
    /// Its base name.
    pub name: String,
    /// All of it: exactly the file's bytes.
    pub content: String,
    /// What to say about it; may be empty.
    pub note: String,
}

impl fmt::Debug for OutgoingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutgoingFile({} bytes)", self.content.len())
    }
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
