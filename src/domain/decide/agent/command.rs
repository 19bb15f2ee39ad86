//! Wishes to an identity's store.

use std::sync::Arc;

use super::bond::BondCommand;
use super::care::CareCommand;
use super::directory::DirectoryCommand;
use super::host::HostCommand;
use super::import::ImportCommand;
use super::pairing::command::PairingCommand;
use crate::event::agent::{AttemptError, MailKind, MailStatus, NoticePath, Origin};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Proof of the right to act for a session: the number of the lease that its holder took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// Number of the lease.
    pub epoch: u64,
}

/// How far a message's signed time may be from now; both bounds inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Milliseconds in the past.
    pub past_ms: u64,
    /// Milliseconds in the future.
    pub future_ms: u64,
}

/// Puts a signed message into the outbox.
#[derive(Clone, Debug)]
pub struct QueueMessage {
    /// The sender's session.
    pub lease: Lease,
    /// Id of the message.
    pub msg_id: MsgId,
    /// The recipient.
    pub to: PublicKey,
    /// The recipient's session.
    pub to_session: SessionId,
    /// What it is.
    pub kind: MailKind,
    /// The task that it is about; at most 1024 bytes, not empty.
    pub task_id: Option<String>,
    /// State of that task.
    pub status: Option<MailStatus>,
    /// The message that it answers.
    pub in_reply_to: Option<MsgId>,
    /// Signed time.
    pub ts: UnixMillis,
    /// The signed message, JSON.
    pub body: Arc<[u8]>,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// Relays that shall get it, normalised URLs; 1 to 16.
    pub relays: Vec<String>,
    /// Now.
    pub now: UnixMillis,
}

/// Takes in a message whose signature and recipient were verified: the rest of the gate, then the
/// mailbox.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The session whose queue it came through.
    pub lease: Lease,
    /// Our own key, which is always admitted.
    pub own: PublicKey,
    /// The verified sender.
    pub from: PublicKey,
    /// Id of the message.
    pub msg_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
    /// What it is.
    pub kind: MailKind,
    /// The task that it is about; empty counts as absent.
    pub task_id: Option<String>,
    /// State of that task.
    pub status: Option<MailStatus>,
    /// The message that it answers; empty counts as absent.
    pub in_reply_to: Option<MsgId>,
    /// Where the sender wants answers, where that text is a route at all.
    pub reply_to: Option<Route>,
    /// The signed message, JSON.
    pub body: Arc<[u8]>,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// How far the signed time may be from now.
    pub window: Window,
    /// Now.
    pub now: UnixMillis,
}

/// A wish to an identity's store.
#[derive(Clone, Debug)]
pub enum AgentCommand {
    /// Take over a session. Always succeeds; the previous holder has lost it.
    TakeLease {
        /// The session.
        session: SessionId,
        /// Process id of the new holder.
        pid: u32,
        /// The kernel's start time of that process.
        process_start: u64,
        /// Now.
        now: UnixMillis,
    },
    /// Give a session up.
    ReleaseLease {
        /// The lease that ends.
        lease: Lease,
    },
    /// Take over a hand edit of `peers.json`.
    ImportPeers {
        /// Every entry of the file, in any order.
        entries: Vec<(String, PublicKey)>,
        /// SHA-256 of the file's bytes.
        sha256: [u8; 32],
        /// Where the newest version stands in the log that was the file, when one that was recorded
        /// after it never became it. `None`: the newest recorded one.
        newest: Option<Seq>,
        /// Now.
        now: UnixMillis,
    },
    /// Take over what a version of `peers.json` that was in force before lacks; it adds nobody.
    StrikePeers {
        /// Every entry of the file, in any order.
        entries: Vec<(String, PublicKey)>,
        /// SHA-256 of the file's bytes.
        sha256: [u8; 32],
        /// Where the newest version stands in the log that was the file, when one that was recorded
        /// after it never became it. `None`: the newest recorded one.
        newest: Option<Seq>,
        /// Now.
        now: UnixMillis,
    },
    /// Make a file the identity's `peers.json`: the first one is, another only with `switch`.
    AdoptPeersFile {
        /// Absolute path without symbolic links.
        path: String,
        /// Whether it may take the place of another file.
        switch: bool,
        /// Now.
        now: UnixMillis,
    },
    /// Record that a text of ours becomes the file.
    PublishPeers {
        /// SHA-256 of the text.
        sha256: [u8; 32],
        /// Now.
        now: UnixMillis,
    },
    /// Admit a key.
    AddPeer {
        /// Local name.
        petname: String,
        /// The key.
        key: PublicKey,
        /// How the wish came in.
        origin: Origin,
        /// The session that asks, if one does.
        lease: Option<Lease>,
        /// Now.
        now: UnixMillis,
    },
    /// Revoke a key. One that is not admitted is no error; one that has another name by now, or whose
    /// name belongs to another key by now, is: whoever decided saw both.
    RemovePeer {
        /// Local name.
        petname: String,
        /// The key that has it.
        key: PublicKey,
        /// How the wish came in.
        origin: Origin,
        /// The session that asks, if one does.
        lease: Option<Lease>,
        /// Now.
        now: UnixMillis,
    },
    /// Put a signed message into the outbox.
    QueueMessage(QueueMessage),
    /// A relay did not take a message this time.
    RecordAttempt {
        /// Position of the message.
        msg_seq: Seq,
        /// The relay.
        relay: String,
        /// Number of failed attempts on this relay, this one included. A number that was recorded
        /// already (by a sibling) changes nothing.
        attempt: u32,
        /// What went wrong.
        error: AttemptError,
        /// The same in words; cut to 256 bytes.
        detail: String,
        /// When to try again.
        next_at: UnixMillis,
        /// Now.
        now: UnixMillis,
    },
    /// A relay took a message.
    RecordAccepted {
        /// Position of the message.
        msg_seq: Seq,
        /// The relay.
        relay: String,
        /// Whether the relay dropped older mail of that recipient.
        dropped: bool,
        /// Now.
        now: UnixMillis,
    },
    /// A relay refused a message for good, or it is given up there.
    RecordRefused {
        /// Position of the message.
        msg_seq: Seq,
        /// The relay.
        relay: String,
        /// HTTP status; 0 when given up without an answer.
        status: u16,
        /// Why; cut to 256 bytes.
        reason: String,
        /// Now.
        now: UnixMillis,
    },
    /// Replace the text of a message that no relay took by one with a fresh signature.
    Resign {
        /// Position of the message.
        msg_seq: Seq,
        /// Position of the body that was signed anew. When a sibling was faster, nothing changes.
        replaces: Seq,
        /// New signed time.
        ts: UnixMillis,
        /// The signed message, JSON.
        body: Arc<[u8]>,
        /// SHA-256 of the body.
        sha256: [u8; 32],
        /// Now.
        now: UnixMillis,
    },
    /// Take in a verified message.
    Receive(Box<Receive>),
    /// As `Receive`, of a message that follows another one of its sender in the same queue: refused
    /// while that one is neither stored nor listed as late, so that their order stays.
    ReceiveAfter {
        /// Id of the message before it.
        after: MsgId,
        /// The message.
        receive: Box<Receive>,
    },
    /// Use up the id of a verified message that is not stored.
    MarkSeen {
        /// The session whose queue it came through.
        lease: Lease,
        /// Our own key.
        own: PublicKey,
        /// The verified sender.
        from: PublicKey,
        /// Id of the message.
        msg_id: MsgId,
        /// Signed time.
        ts: UnixMillis,
        /// How far the signed time may be from now.
        window: Window,
        /// Now.
        now: UnixMillis,
    },
    /// Acknowledge messages of a session. Unknown and acknowledged ones are no error.
    Acknowledge {
        /// The session.
        lease: Lease,
        /// (sender, message id) pairs.
        items: Vec<(PublicKey, MsgId)>,
        /// Now.
        now: UnixMillis,
    },
    /// Begin the hand-off of a wake-up notice, if one is due.
    ReserveNotice {
        /// The session.
        lease: Lease,
        /// Id for a new notice, 8 lowercase hexadecimal digits; a notice that is offered again
        /// keeps the one it has.
        id: String,
        /// The way that will be tried.
        path: NoticePath,
        /// How long the hand-off may stay unfinished or failed, in milliseconds, when another way
        /// could be tried then; `None` for the schedule's own time.
        patience_ms: Option<u64>,
        /// Now.
        now: UnixMillis,
    },
    /// End a hand-off.
    NoticeResult {
        /// The session.
        lease: Lease,
        /// Id of the notice.
        id: String,
        /// The way that worked, or `None` when the hand-off failed.
        accepted: Option<NoticePath>,
        /// How long it may stay unanswered, in milliseconds, when another way could be tried then;
        /// `None` for as long as the way itself deserves.
        patience_ms: Option<u64>,
        /// Now.
        now: UnixMillis,
    },
    /// Somebody followed a notice up.
    ObserveNotice {
        /// The session.
        lease: Lease,
        /// The id that the reader saw; another one than the current changes nothing.
        id: Option<String>,
        /// Whether to act whatever the id.
        reset: bool,
        /// Now.
        now: UnixMillis,
    },
    /// Forget the notice of a session that ended; its mail stays.
    DropNotice {
        /// The session.
        lease: Lease,
    },
    /// Keep the books about a session's host.
    Host {
        /// The session.
        lease: Lease,
        /// The wish.
        wish: HostCommand,
    },
    /// Forget the ids of messages that were signed at or before a time; MUST NOT be later than
    /// the oldest acceptable one.
    ForgetReplay {
        /// Time bound.
        before: UnixMillis,
        /// Now.
        now: UnixMillis,
    },
    /// Something about pairing.
    Pairing(PairingCommand),
    /// What is remembered of others, and what is not to be any more.
    Directory(DirectoryCommand),
    /// What the operator and time do to messages.
    Care(CareCommand),
    /// Take over another program's state. Answer: [`AgentReply::TakenOver`](super::AgentReply::TakenOver).
    Import(ImportCommand),
    /// Something about sealed sessions. Answer: [`AgentReply::Bond`](super::AgentReply::Bond).
    Bond(BondCommand),
}
