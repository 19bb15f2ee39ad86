//! Why an identity's store refuses a wish.

use super::bond::BondRefusal;
use super::pairing::command::PairingRefusal;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::{MAX_MESSAGE_BYTES, MAX_OUTBOX_MESSAGES, MAX_PEERS, MAX_RELAYS};
use crate::types::seq::Seq;
use crate::wire::peers::PetnameError;

/// Why an identity's store refuses a command. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentRefusal {
    /// Another process took the session over, or it was given up.
    #[error("another process owns session {session} (lease {holder_epoch}, pid {holder_pid:?})")]
    LeaseLost {
        /// The session.
        session: SessionId,
        /// Number of its newest lease; 0 when there never was one.
        holder_epoch: u64,
        /// Process id of its holder; `None` when nobody holds it.
        holder_pid: Option<u32>,
    },
    /// The petname belongs to another key.
    #[error("petname {petname:?} belongs to key {key}")]
    PetnameTaken {
        /// The name.
        petname: String,
        /// The key that has it.
        key: PublicKey,
    },
    /// The key has another petname.
    #[error("key {key} is known as {petname:?}")]
    KeyKnown {
        /// The name that it has.
        petname: String,
        /// The key.
        key: PublicKey,
    },
    /// The petname is not acceptable.
    #[error("petname {petname:?}: {source}")]
    Petname {
        /// The name.
        petname: String,
        /// What is wrong.
        source: PetnameError,
    },
    /// A file names one key or one petname twice.
    #[error("petname {petname:?} or its key occurs twice")]
    PeerTwice {
        /// The name.
        petname: String,
    },
    /// The identity's peers stand in another file.
    #[error("the peers of this identity stand in {path}")]
    PeersElsewhere {
        /// That file.
        path: String,
    },
    /// Too many peers.
    #[error("at most {MAX_PEERS} peers can be admitted")]
    TooManyPeers,
    /// The message is too large for a relay.
    #[error("the signed message has {len} bytes, at most {MAX_MESSAGE_BYTES} are possible")]
    MessageTooLarge {
        /// Its length in bytes.
        len: usize,
    },
    /// A field of the message is too long or empty.
    #[error("{field} has {len} bytes, 1 to {max} are possible")]
    FieldLength {
        /// Name of the field.
        field: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The bound in bytes.
        max: usize,
    },
    /// The id was used by another message of ours.
    #[error("message id {msg_id} is in the outbox already")]
    DuplicateMessage {
        /// The id.
        msg_id: MsgId,
    },
    /// The outbox is full.
    #[error(
        "the outbox is full: {messages} messages, {bytes} bytes wait \
         (at most {MAX_OUTBOX_MESSAGES} messages)"
    )]
    OutboxFull {
        /// Messages that no relay took yet.
        messages: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// Too much waits for one recipient.
    #[error("{messages} messages to this recipient wait already")]
    RecipientFull {
        /// Messages to it that no relay took yet.
        messages: usize,
    },
    /// No relay, too many, or one with a name too long.
    #[error("a message goes to 1 to {MAX_RELAYS} relays")]
    Relays,
    /// There is no such outgoing message.
    #[error("no outgoing message at position {seq}")]
    NoSuchMessage {
        /// The position.
        seq: Seq,
    },
    /// A relay has the message; its text must not change any more.
    #[error("a relay has the message already")]
    AlreadyAccepted,
    /// The message before it in its queue has not come in.
    #[error("a message before it has not come in yet")]
    OutOfTurn,
    /// Unread mail of the session is at its bound. The message stays on the bus.
    #[error("the mailbox is full: {messages} unread messages, {bytes} bytes")]
    MailboxFull {
        /// Unread messages.
        messages: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// What was exchanged with somebody is kept while he is admitted.
    #[error("{petname:?} is admitted; revoke the key first")]
    StillAdmitted {
        /// The local name.
        petname: String,
    },
    /// A notice id is not eight lowercase hexadecimal digits.
    #[error("a notice id has 8 lowercase hexadecimal digits")]
    NoticeId,
    /// Something about pairing.
    #[error(transparent)]
    Pairing(#[from] PairingRefusal),
    /// Something about sealed sessions.
    #[error(transparent)]
    Bond(#[from] BondRefusal),
}
