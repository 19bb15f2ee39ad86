//! Pairing messages: the knock as its receiver reads it, and renewal of what waits to be sent.
//!
//! A knock comes from a stranger, so nothing in it is believed beyond its signature: the name is a
//! claim, and the reply route must be a session of the very key that signed, or the answer would
//! go to whoever a relay likes.

use crate::crypto::sign::SigningIdentity;
use crate::types::id::{MsgId, PublicKey};
use crate::types::route::{Route, RouteError};
use crate::types::time::UnixMillis;

use super::envelope::{Message, MessageKind, RenewError};

/// A knock that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRequest {
    /// Who asks.
    pub key: PublicKey,
    /// The name they give themselves: any text, not bounded, not safe to show as it is.
    pub name: String,
    /// Id of the knock; the answer carries it.
    pub request_id: MsgId,
    /// Where the answer goes; always a session of `key`.
    pub reply_to: Route,
}

impl PairRequest {
    /// Reads a knock out of a message that the trust gate has passed.
    ///
    /// # Errors
    ///
    /// [`KnockError`]: such a knock cannot be answered and is dropped.
    pub fn from_message(message: &Message) -> Result<PairRequest, KnockError> {
        if message.kind != MessageKind::PairRequest {
            return Err(KnockError::NotAKnock);
        }
        let hint = message
            .reply_to
            .as_deref()
            .ok_or(KnockError::NoReplyRoute)?;
        let reply_to: Route = hint.parse()?;
        if reply_to.session.is_none() {
            return Err(KnockError::NoSession);
        }
        if reply_to.key != message.from {
            return Err(KnockError::ForeignReplyRoute);
        }
        Ok(PairRequest {
            key: message.from,
            name: message.text.clone(),
            request_id: message.msg_id.clone(),
            reply_to,
        })
    }
}

/// Why a knock cannot be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnockError {
    /// Another kind of message.
    #[error("not a pairing request")]
    NotAKnock,
    /// It does not say where to answer.
    #[error("the pairing request has no reply route")]
    NoReplyRoute,
    /// The reply route is not one.
    #[error(transparent)]
    BadReplyRoute(#[from] RouteError),
    /// The reply route is a bare key, which nobody polls.
    #[error("the reply route of the pairing request names no session")]
    NoSession,
    /// The reply route belongs to another key.
    #[error("the reply route of the pairing request belongs to another key")]
    ForeignReplyRoute,
}

/// Signs a stored pairing message again with a fresh time, so that a long outage does not expire
/// it. Id, text, kind, correlation and reply route stay.
///
/// # Errors
///
/// [`RenewError`]: the stored message is not ours, is damaged, or is not a pairing message.
pub fn renew(
    stored: &Message,
    identity: &SigningIdentity,
    now: UnixMillis,
) -> Result<Message, RenewError> {
    if stored.kind == MessageKind::Message {
        return Err(RenewError::NotPairing);
    }
    if stored.from != identity.public() {
        return Err(RenewError::NotOurs);
    }
    stored.verify().map_err(RenewError::Damaged)?;
    stored.renewed(identity, now)
}
