//! How strangers become peers: knocks, requests, acceptances, and what the operator decides.
//!
//! A knock is kept as metadata only. The name in it is a claim of somebody whom nobody knows yet, so
//! it is stored bounded, in one line, with everything that could imitate something else spelled
//! out; the log never holds the original.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Origin, hex};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// We ask to be admitted by a key. The signed request itself is an outbox entry: `OutboxQueued`, or
/// `OutboxRequeued` when the request is repeated under its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRequested {
    /// Whom we ask.
    pub key: PublicKey,
    /// The petname that the key gets when it accepts; 1 ..= 256 bytes.
    pub name: String,
    /// Id of the request, which the answer carries.
    pub request_id: MsgId,
    /// Our session that asks and gets the answer.
    pub session: SessionId,
    /// Their session that is asked.
    pub to_session: SessionId,
    /// How the wish came in. Admission by the answer inherits it.
    pub origin: Origin,
}

impl PairRequested {
    pub(super) fn json(&self) -> Value {
        json!({
            "key": self.key, "name": self.name, "request_id": self.request_id,
            "session": self.session, "to_session": self.to_session, "origin": self.origin.name(),
        })
    }
}

/// How a request of ours ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequestEnd {
    /// They accepted.
    Accepted,
    /// We called it off.
    Cancelled,
    /// Nobody answered in time.
    Expired,
    /// We accepted their request to us, which makes ours pointless.
    Settled,
    /// We blocked the key.
    Blocked,
}

impl RequestEnd {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RequestEnd::Accepted => "accepted",
            RequestEnd::Cancelled => "cancelled",
            RequestEnd::Expired => "expired",
            RequestEnd::Settled => "settled",
            RequestEnd::Blocked => "blocked",
        }
    }
}

/// A request of ours ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRequestEnded {
    /// Whom we asked.
    pub key: PublicKey,
    /// Id of the request.
    pub request_id: MsgId,
    /// Our session that asked.
    pub session: SessionId,
    /// How it ended.
    pub end: RequestEnd,
    /// The petname under which the key is admitted now, where it is.
    pub petname: Option<String>,
    /// Who ended it; `None` when it was the other side, or time.
    pub origin: Option<Origin>,
}

impl PairRequestEnded {
    pub(super) fn json(&self) -> Value {
        json!({
            "key": self.key, "request_id": self.request_id, "session": self.session,
            "end": self.end.name(), "petname": self.petname,
            "origin": self.origin.map(Origin::name),
        })
    }
}

/// A stranger asks to be admitted: a new request, a newer one of the same key in place of its
/// last, or the same one with another name or route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnockReceived {
    /// The verified sender.
    pub key: PublicKey,
    /// Id of the request, chosen by the sender.
    pub request_id: MsgId,
    /// The name that the sender claims: one line, at most 64 characters as the sender wrote it,
    /// whatever could mislead spelled out as `\u{..}`.
    pub name: String,
    /// Our session whose queue it came through.
    pub session: SessionId,
    /// The sender's session that waits for the answer.
    pub reply_session: SessionId,
    /// Signed time.
    pub ts: UnixMillis,
    /// Whether it is worth waking somebody.
    pub news: bool,
}

impl KnockReceived {
    pub(super) fn json(&self) -> Value {
        json!({
            "key": self.key, "request_id": self.request_id, "name": self.name,
            "session": self.session, "reply_session": self.reply_session, "ts": self.ts,
            "news": self.news,
        })
    }
}

/// How a stranger's request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KnockEnd {
    /// The operator accepted it.
    Accepted,
    /// The operator rejected it; nothing is sent.
    Rejected,
    /// It was the oldest when the list was full.
    Evicted,
    /// Nobody decided in time.
    Expired,
    /// The operator blocked the key.
    Blocked,
    /// The key was admitted another way.
    Settled,
}

impl KnockEnd {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KnockEnd::Accepted => "accepted",
            KnockEnd::Rejected => "rejected",
            KnockEnd::Evicted => "evicted",
            KnockEnd::Expired => "expired",
            KnockEnd::Blocked => "blocked",
            KnockEnd::Settled => "settled",
        }
    }
}

/// A stranger's request ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnockResolved {
    /// Who asked.
    pub key: PublicKey,
    /// Id of the request.
    pub request_id: MsgId,
    /// Our session whose queue it came through.
    pub session: SessionId,
    /// Its signed time.
    pub ts: UnixMillis,
    /// How it ended.
    pub end: KnockEnd,
    /// The petname under which the key is admitted now, where it is.
    pub petname: Option<String>,
    /// Who ended it; `None` when it was the bound, time, or the other side.
    pub origin: Option<Origin>,
}

impl KnockResolved {
    pub(super) fn json(&self) -> Value {
        json!({
            "key": self.key, "request_id": self.request_id, "session": self.session,
            "ts": self.ts, "end": self.end.name(), "petname": self.petname,
            "origin": self.origin.map(Origin::name),
        })
    }
}

/// A request of a key that is admitted already is answered with an acceptance, which follows as
/// `OutboxQueued` in the same transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnockAnswered {
    /// Who asked.
    pub key: PublicKey,
    /// Id of the request.
    pub request_id: MsgId,
    /// Its signed time.
    pub ts: UnixMillis,
    /// Our session that answers.
    pub session: SessionId,
}

impl KnockAnswered {
    pub(super) fn json(&self) -> Value {
        json!({
            "key": self.key, "request_id": self.request_id, "ts": self.ts,
            "session": self.session,
        })
    }
}

/// Why an accepted request of ours does not lead to admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConflictReason {
    /// Another key got the name meanwhile.
    NameTaken,
    /// No more keys can be admitted.
    ListFull,
}

impl ConflictReason {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ConflictReason::NameTaken => "name_taken",
            ConflictReason::ListFull => "list_full",
        }
    }
}

/// They accepted, but the key cannot be admitted under the name that the request had. It waits for
/// the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairConflicted {
    /// Who accepted.
    pub key: PublicKey,
    /// Id of our request.
    pub request_id: MsgId,
    /// The petname that the request had.
    pub name: String,
    /// Our session that asked.
    pub session: SessionId,
    /// What is in the way.
    pub reason: ConflictReason,
    /// The key that has the name, if that is it.
    pub holder: Option<PublicKey>,
}

impl PairConflicted {
    pub(super) fn json(&self) -> Value {
        json!({
            "key": self.key, "request_id": self.request_id, "name": self.name,
            "session": self.session, "reason": self.reason.name(), "holder": self.holder,
        })
    }
}

/// The operator decided about a conflict. Where that admits the key, `PeerAdded` stands before it
/// in the same transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairConflictResolved {
    /// Who accepted.
    pub key: PublicKey,
    /// Id of our request.
    pub request_id: MsgId,
    /// The petname under which the key is admitted now; `None`: it is not, the request was dropped.
    pub petname: Option<String>,
    /// Who decided.
    pub origin: Origin,
}

impl PairConflictResolved {
    pub(super) fn json(&self) -> Value {
        json!({
            "key": self.key, "request_id": self.request_id, "petname": self.petname,
            "origin": self.origin.name(),
        })
    }
}

/// Requests of a key are ignored from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyBlocked {
    /// The key.
    pub key: PublicKey,
    /// How the wish came in.
    pub origin: Origin,
}

impl KeyBlocked {
    pub(super) fn json(&self) -> Value {
        json!({ "key": self.key, "origin": self.origin.name() })
    }
}

/// Requests of a key are heard again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyUnblocked {
    /// The key.
    pub key: PublicKey,
    /// How the wish came in.
    pub origin: Origin,
}

impl KeyUnblocked {
    pub(super) fn json(&self) -> Value {
        json!({ "key": self.key, "origin": self.origin.name() })
    }
}

/// A session saw what is new about pairing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairNewsSeen {
    /// The session.
    pub session: SessionId,
    /// Position of the newest record that it saw.
    pub up_to: Seq,
}

impl PairNewsSeen {
    pub(super) fn json(&self) -> Value {
        json!({ "session": self.session, "up_to": self.up_to })
    }
}

/// A pairing message is sent once more under its id, to the session that answers now, with a fresh
/// signature: every relay counts as untried again. The new text is the body at this record's
/// position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxRequeued {
    /// Position of the `OutboxQueued` record.
    pub message: Seq,
    /// Position of the body that this one replaces; gone with this record.
    pub replaced: Seq,
    /// The session that sends.
    pub session: SessionId,
    /// The recipient's session.
    pub to_session: SessionId,
    /// New signed time.
    pub ts: UnixMillis,
    /// Length of the new body in bytes.
    pub len: u32,
    /// SHA-256 of the new body.
    pub sha256: [u8; 32],
    /// Relays that shall get it, normalised URLs, at most 16.
    pub relays: Vec<String>,
}

impl OutboxRequeued {
    pub(super) fn json(&self) -> Value {
        json!({
            "message": self.message, "replaced": self.replaced, "session": self.session,
            "to_session": self.to_session, "ts": self.ts, "len": self.len,
            "sha256": hex(&self.sha256), "relays": self.relays,
        })
    }
}

/// What somebody was asked to agree to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Question {
    /// To accept a stranger's request.
    AcceptPair,
    /// To ask a key for admission, which admits it when it accepts.
    RequestPair,
    /// To admit a key.
    AddPeer,
    /// To revoke a key.
    RemovePeer,
    /// To settle a conflict of names.
    ResolveConflict,
}

impl Question {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Question::AcceptPair => "accept_pair",
            Question::RequestPair => "request_pair",
            Question::AddPeer => "add_peer",
            Question::RemovePeer => "remove_peer",
            Question::ResolveConflict => "resolve_conflict",
        }
    }
}

/// The human was asked and said no. Nothing follows from it; it is there for the operator to see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsentDeclined {
    /// The session that asked.
    pub session: SessionId,
    /// What it was about.
    pub question: Question,
    /// The key that it was about.
    pub key: PublicKey,
}

impl ConsentDeclined {
    pub(super) fn json(&self) -> Value {
        json!({
            "session": self.session, "question": self.question.name(), "key": self.key,
        })
    }
}
