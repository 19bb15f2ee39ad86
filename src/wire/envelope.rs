//! The message: the one signed object that people write.
//!
//! Everything a receiver acts on is under the signature, except `reply_to`, which is a hint where
//! to answer and must never decide who somebody is.
//!
//! An empty `task_id` or `in_reply_to` signs the same bytes as an absent one, so a relay could
//! add or strip it. Both are read as absent and never written empty.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::crypto::sign::{
    KeyError, Signature, SignatureTextError, SigningIdentity, VerifyError, check_point,
    decode_public_key, verify_strict,
};
use crate::types::id::{MsgId, PublicKey};
use crate::types::limit::{MAX_QUEUE_NAME_BYTES, MAX_TASK_ID_BYTES};
use crate::types::route::Route;
use crate::types::time::UnixMillis;

use super::canonical::{Canonical, MESSAGE_DOMAIN};

/// What a message is for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Text for the other side's model.
    #[default]
    Message,
    /// A knock: a stranger asks to be admitted.
    PairRequest,
    /// The answer to a knock: admitted.
    PairAccept,
}

impl MessageKind {
    /// The spelling on the wire, which is also the signed one.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            MessageKind::Message => "message",
            MessageKind::PairRequest => "pair_request",
            MessageKind::PairAccept => "pair_accept",
        }
    }
}

/// Where a delegated task stands, in its worker's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Under way; a newer one replaces it.
    Update,
    /// Stuck until a question is answered.
    NeedsInput,
    /// Done.
    Result,
    /// Given up.
    Failed,
    /// Withdrawn.
    Canceled,
}

impl TaskStatus {
    /// The spelling on the wire, which is also the signed one.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Update => "update",
            TaskStatus::NeedsInput => "needs_input",
            TaskStatus::Result => "result",
            TaskStatus::Failed => "failed",
            TaskStatus::Canceled => "canceled",
        }
    }

    /// True when nothing may follow: result, failed, canceled.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            TaskStatus::Result | TaskStatus::Failed | TaskStatus::Canceled
        )
    }
}

/// A signed message. Reading one checks its shape only; nothing in it counts before
/// [`Message::verify`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The sender.
    pub from: PublicKey,
    /// The recipient's bare key.
    pub to: PublicKey,
    /// The body; for pairing kinds the sender's own name for itself.
    pub text: String,
    /// When it was signed.
    pub ts: UnixMillis,
    /// The sender's id for it.
    pub msg_id: MsgId,
    /// What it is for.
    pub kind: MessageKind,
    /// The task it belongs to; never empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Where that task stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
    /// The message it answers; never empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MsgId>,
    /// Where to answer. **Not signed**: a relay can change it. See [`Message::reply_route`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The sender's signature over [`Message::canonical_bytes`].
    pub sig: Signature,
}

/// A message before it is signed. Empty `task_id` and `in_reply_to` are signed as absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The recipient's bare key.
    pub to: PublicKey,
    /// The body.
    pub text: String,
    /// When it is signed.
    pub ts: UnixMillis,
    /// Its id, unique for this sender.
    pub msg_id: MsgId,
    /// What it is for.
    pub kind: MessageKind,
    /// The task it belongs to.
    pub task_id: Option<String>,
    /// Where that task stands.
    pub status: Option<TaskStatus>,
    /// The message it answers.
    pub in_reply_to: Option<MsgId>,
    /// Where to answer.
    pub reply_to: Option<Route>,
}

impl Draft {
    /// A plain message without task, correlation or reply route.
    #[must_use]
    pub const fn message(to: PublicKey, text: String, ts: UnixMillis, msg_id: MsgId) -> Draft {
        Draft {
            to,
            text,
            ts,
            msg_id,
            kind: MessageKind::Message,
            task_id: None,
            status: None,
            in_reply_to: None,
            reply_to: None,
        }
    }
}

impl Message {
    /// Signs a draft.
    #[must_use]
    pub fn sign(identity: &SigningIdentity, draft: Draft) -> Message {
        let message = Message {
            from: identity.public(),
            to: draft.to,
            text: draft.text,
            ts: draft.ts,
            msg_id: draft.msg_id,
            kind: draft.kind,
            task_id: draft.task_id.filter(|id| !id.is_empty()),
            status: draft.status,
            in_reply_to: draft.in_reply_to.filter(|id| !id.as_str().is_empty()),
            reply_to: draft.reply_to.map(|route| route.to_string()),
            sig: Signature::from_bytes([0; 64]),
        };
        message.signed_by(identity)
    }

    /// The same message with a fresh time and signature; the id stays, so that a receiver who has
    /// it already drops it. For mail that waited longer than receivers accept.
    ///
    /// # Errors
    ///
    /// [`RenewError::NotOurs`] when the identity is not the sender.
    pub fn renewed(
        &self,
        identity: &SigningIdentity,
        ts: UnixMillis,
    ) -> Result<Message, RenewError> {
        if identity.public() != self.from {
            return Err(RenewError::NotOurs);
        }
        Ok(Message { ts, ..self.clone() }.signed_by(identity))
    }

    fn signed_by(self, identity: &SigningIdentity) -> Message {
        let sig = identity.sign(&self.canonical_bytes());
        Message { sig, ..self }
    }

    /// The bytes under the signature: `schema/canonical.md`.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let status = self.status.map_or("", TaskStatus::as_str);
        let task_id = self.task_id.as_deref().unwrap_or("");
        let in_reply_to = self.in_reply_to.as_ref().map_or("", MsgId::as_str);
        let strings = [
            self.kind.as_str(),
            self.msg_id.as_str(),
            &self.text,
            status,
            task_id,
            in_reply_to,
        ];
        // Keys, time and six lengths take 96 bytes.
        let room = strings
            .iter()
            .fold(96usize, |sum, s| sum.saturating_add(s.len()));
        let fixed = Canonical::new(MESSAGE_DOMAIN, room)
            .key(&self.from)
            .key(&self.to)
            .time(self.ts);
        strings
            .iter()
            .fold(fixed, |bytes, text| bytes.text(text))
            .finish()
    }

    /// Checks that sender and recipient are keys and that the sender signed exactly this.
    ///
    /// # Errors
    ///
    /// [`VerifyMessageError`]. A message that fails may have been written by anybody.
    pub fn verify(&self) -> Result<(), VerifyMessageError> {
        check_point(&self.from).map_err(VerifyMessageError::From)?;
        check_point(&self.to).map_err(VerifyMessageError::To)?;
        verify_strict(&self.from, &self.canonical_bytes(), &self.sig)?;
        Ok(())
    }

    /// The reply hint, when it is a route to a session **of the sender**. Anything else is worth
    /// nothing: it is not signed.
    #[must_use]
    pub fn reply_route(&self) -> Option<Route> {
        let route: Route = self.reply_to.as_deref()?.parse().ok()?;
        (route.key == self.from && route.session.is_some()).then_some(route)
    }

    /// Reads JSON text. Duplicate members are an error.
    ///
    /// # Errors
    ///
    /// [`ReadMessageError::Shape`] when it is not a message at all, [`ReadMessageError::Verify`]
    /// when it is one whose keys or signature are not well-formed, hence nobody's.
    pub fn from_json(text: &str) -> Result<Message, ReadMessageError> {
        serde_json::from_str::<RawMessage>(text)?.check()
    }

    /// Reads parsed JSON.
    ///
    /// # Errors
    ///
    /// As [`Message::from_json`].
    pub fn from_value(value: serde_json::Value) -> Result<Message, ReadMessageError> {
        serde_json::from_value::<RawMessage>(value)?.check()
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Message, D::Error> {
        RawMessage::deserialize(d)?
            .check()
            .map_err(D::Error::custom)
    }
}

/// A signed message. Members that are not named here are ignored. A missing `kind` is `message`;
/// an explicit null is not.
// The shape before keys and signature are looked at. Its comments are published as the schema.
#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Message")]
pub(super) struct RawMessage {
    /// The sender. Signed.
    #[schemars(with = "PublicKey")]
    from: String,
    /// The recipient's bare key. Signed.
    #[schemars(with = "PublicKey")]
    to: String,
    /// The body; for pairing kinds the sender's own name for itself. Signed.
    text: String,
    /// When it was signed, Unix milliseconds. Signed.
    ts: u64,
    /// The sender's id for it. Signed.
    msg_id: MsgId,
    /// What it is for. Signed.
    #[serde(default)]
    kind: MessageKind,
    /// The task it belongs to; empty counts as absent. Signed.
    #[serde(default)]
    #[schemars(length(max = MAX_TASK_ID_BYTES))]
    task_id: Option<String>,
    /// Where that task stands. Signed.
    #[serde(default)]
    status: Option<TaskStatus>,
    /// The message it answers; empty counts as absent. Signed.
    #[serde(default)]
    in_reply_to: Option<MsgId>,
    /// Where to answer, `key#session`. Not signed.
    #[serde(default)]
    reply_to: Option<String>,
    /// Ed25519 over the bytes of schema/canonical.md.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{86}$"))]
    sig: String,
}

impl RawMessage {
    fn check(self) -> Result<Message, ReadMessageError> {
        let task_id = self.task_id.filter(|id| !id.is_empty());
        if let Some(id) = &task_id
            && id.len() > MAX_TASK_ID_BYTES
        {
            return Err(ReadMessageError::TaskIdTooLong { bytes: id.len() });
        }
        Ok(Message {
            from: decode_public_key(&self.from).map_err(VerifyMessageError::From)?,
            to: decode_public_key(&self.to).map_err(VerifyMessageError::To)?,
            text: self.text,
            ts: UnixMillis(self.ts),
            msg_id: self.msg_id,
            kind: self.kind,
            task_id,
            status: self.status,
            in_reply_to: self.in_reply_to.filter(|id| !id.as_str().is_empty()),
            // An unsigned hint that cannot be a route is not worth a rejection.
            reply_to: self
                .reply_to
                .filter(|hint| hint.len() <= MAX_QUEUE_NAME_BYTES),
            sig: self
                .sig
                .parse()
                .map_err(VerifyMessageError::SignatureText)?,
        })
    }
}

/// Why bytes from outside are not a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadMessageError {
    /// Not JSON, a required member missing, a wrong type or spelling, an id over its bound.
    #[error("not a message: {}", shape(.0))]
    Shape(#[from] serde_json::Error),
    /// A task id over [`MAX_TASK_ID_BYTES`].
    #[error("a task id has at most {MAX_TASK_ID_BYTES} bytes, this one has {bytes}")]
    TaskIdTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A message whose keys or signature cannot be read; equal to a bad signature.
    #[error(transparent)]
    Verify(#[from] VerifyMessageError),
}

/// What is wrong with a shape, without a word of it: the parser quotes what it does not like, and
/// this ends in logs.
fn shape(e: &serde_json::Error) -> String {
    let text = e.to_string();
    if text.starts_with("missing field ") {
        text
    } else if e.is_data() {
        "a member has a wrong type or spelling".to_owned()
    } else {
        "not JSON".to_owned()
    }
}

/// Why a message is not its sender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyMessageError {
    /// The sender is not a key.
    #[error("sender: {0}")]
    From(KeyError),
    /// The recipient is not a bare key.
    #[error("recipient: {0}")]
    To(KeyError),
    /// The signature is not 64 bytes of canonical base64url.
    #[error(transparent)]
    SignatureText(SignatureTextError),
    /// The signature does not hold.
    #[error(transparent)]
    Signature(#[from] VerifyError),
}

/// Why a message was not signed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// Another identity wrote it.
    #[error("only the sender can renew a message")]
    NotOurs,
    /// The stored message does not verify, so it is not what was once signed.
    #[error("the stored message is damaged: {0}")]
    Damaged(VerifyMessageError),
    /// Renewal of pairing mail was asked for something else.
    #[error("not a pairing message")]
    NotPairing,
}
