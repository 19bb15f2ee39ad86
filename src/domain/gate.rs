//! The trust gate: one pure, ordered decision about every message that arrives.
//!
//! A model acts on what it reads, so what it may read is decided in one place, in one order, from
//! explicit inputs: signature, recipient, sender, time, repetition. Each step sees only what the
//! steps before it let through, hence a stranger can neither spend an admitted peer's replay
//! slots nor learn anything from the answer.
//!
//! ```text
//! 1 signature holds            else BadSignature
//! 2 `to` is our key            else WrongRecipient
//! 3 kind message: sender is a  else NotAllowlisted
//!   listed peer or our own key
//! 4 signed within the window   else Stale, or Expired for an admitted sender's message
//! 5 admitted sender's message: else Replay
//!   (sender, msg_id) is new
//! 6 outcome by sender and kind
//! ```
//!
//! # Invariants
//!
//! - The gate changes nothing. [`Decision::record_replay`] says whether the caller must store
//!   (sender, msg_id), in the same transaction as whatever it does with the message.
//! - Replay slots belong to messages of admitted senders (listed peers and our own key). Pairing
//!   messages take none and are stopped by none: a repeated one is known by what became of the
//!   request that it is about, and must not use up the id of a message. Nor does what is too old. A slot must be kept until [`Windows::replay_until`]; kept longer, it still
//!   tells a late copy of a delivered message from one that expired on its way.
//! - The label of our own key is [`Label::SelfIdentity`], never a text; a peer that is called
//!   `self` stays [`Label::Peer`].

use crate::types::id::{MsgId, PublicKey};
use crate::types::limit::{MAX_FUTURE_MS, MAX_PAST_PEER_MS, MAX_PAST_STRANGER_MS};
use crate::types::time::UnixMillis;
use crate::wire::envelope::{Message, MessageKind, VerifyMessageError};

/// How far a signed time may be from ours, in milliseconds. All bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Into the past, for listed peers and our own key.
    pub past_peer_ms: u64,
    /// Into the past, for strangers' pairing messages.
    pub past_stranger_ms: u64,
    /// Into the future, for everybody.
    pub future_ms: u64,
}

impl Default for Windows {
    fn default() -> Windows {
        Windows {
            past_peer_ms: MAX_PAST_PEER_MS,
            past_stranger_ms: MAX_PAST_STRANGER_MS,
            future_ms: MAX_FUTURE_MS,
        }
    }
}

impl Windows {
    /// The last moment at which the gate could accept another copy of an admitted sender's message
    /// signed at `ts`; its replay slot must live at least that long.
    #[must_use]
    pub const fn replay_until(&self, ts: UnixMillis) -> UnixMillis {
        ts.plus(self.past_peer_ms)
    }
}

/// Whether a signed time lies within a window around now. Saturating, bounds inclusive.
///
/// # Errors
///
/// [`Untimely`] with the distance beyond now.
pub const fn check_time(
    ts: UnixMillis,
    now: UnixMillis,
    past_ms: u64,
    future_ms: u64,
) -> Result<(), Untimely> {
    if ts.0 > now.plus(future_ms).0 {
        return Err(Untimely::Ahead {
            by_ms: ts.since(now),
        });
    }
    if now.0 > ts.plus(past_ms).0 {
        return Err(Untimely::TooOld {
            age_ms: now.since(ts),
        });
    }
    Ok(())
}

/// On which side of the window a signed time lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Untimely {
    /// Signed too far in the future: a wrong clock on either side.
    #[error("signed {by_ms} ms in the future")]
    Ahead {
        /// How far ahead of our clock.
        by_ms: u64,
    },
    /// Signed too long ago.
    #[error("signed {age_ms} ms ago")]
    TooOld {
        /// Its age by our clock.
        age_ms: u64,
    },
}

/// Who a shown message comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A listed peer, by the name the operator gave. It may be any text: escape it when showing.
    Peer(String),
    /// Our own key: another session of this identity.
    SelfIdentity,
}

/// What a message is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Show it to the model.
    Inline {
        /// From whom.
        label: Label,
    },
    /// A knock from somebody who is not listed. Our own key counts as not listed unless it is.
    PairRequest,
    /// The answer to a knock. It counts only if we knocked; that is for the pairing state to say.
    PairAccept,
    /// A knock from a listed peer: their side lost or never had the admission. Answer afresh.
    KnownPeerKnock {
        /// The peer.
        label: Label,
    },
    /// Not for the model. Acknowledge it to the bus all the same, or it comes back for ever.
    Reject(Reject),
}

/// Why a message does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// The claimed sender did not sign it. Nothing in it is known to be true.
    #[error("bad signature: {0}")]
    BadSignature(VerifyMessageError),
    /// Signed for another key.
    #[error("signed for another recipient")]
    WrongRecipient,
    /// A plain message from somebody who is not listed.
    #[error("the sender is not a listed peer")]
    NotAllowlisted,
    /// Outside the window.
    #[error("outside the accepted time: {0}")]
    Stale(Untimely),
    /// From this sender, with this id, it was here before.
    #[error("seen before")]
    Replay,
    /// An admitted sender's message that came too late. Record it and show it as expired: the
    /// sender believes that it arrived.
    #[error("arrived {age_ms} ms after it was signed")]
    Expired {
        /// From whom.
        label: Label,
        /// Its age by our clock.
        age_ms: u64,
    },
}

/// The gate's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a message is neither shown nor dropped until its decision is carried out"]
pub struct Decision {
    /// What to do with the message.
    pub outcome: Outcome,
    /// Whether (sender, msg_id) must be stored as seen, in the same transaction.
    pub record_replay: bool,
}

impl Decision {
    const fn reject(reason: Reject) -> Decision {
        Decision {
            outcome: Outcome::Reject(reason),
            record_replay: false,
        }
    }
}

/// Decides about one message.
///
/// `peer` gives the name of a listed key, `seen` whether a (sender, msg_id) is stored. Each is
/// asked at most once, and only when its step is reached; their errors pass through and decide
/// nothing.
///
/// # Errors
///
/// Only those of `peer` and `seen`. Leave the message on the bus then: unreadable policy admits
/// and rejects nobody.
pub fn decide<E>(
    me: &PublicKey,
    message: &Message,
    now: UnixMillis,
    windows: &Windows,
    peer: impl FnOnce(&PublicKey) -> Result<Option<String>, E>,
    seen: impl FnOnce(&PublicKey, &MsgId) -> Result<bool, E>,
) -> Result<Decision, E> {
    decide_verified(me, message, message.verify(), now, windows, peer, seen)
}

/// [`decide`] with the signature checked beforehand, so that a write transaction need not wait
/// for it. `signature` must be what `message.verify()` returned for this very message.
///
/// # Errors
///
/// As [`decide`].
pub fn decide_verified<E>(
    me: &PublicKey,
    message: &Message,
    signature: Result<(), VerifyMessageError>,
    now: UnixMillis,
    windows: &Windows,
    peer: impl FnOnce(&PublicKey) -> Result<Option<String>, E>,
    seen: impl FnOnce(&PublicKey, &MsgId) -> Result<bool, E>,
) -> Result<Decision, E> {
    if let Err(reason) = signature {
        return Ok(Decision::reject(Reject::BadSignature(reason)));
    }
    if message.to != *me {
        return Ok(Decision::reject(Reject::WrongRecipient));
    }
    let sender = match peer(&message.from)? {
        Some(name) => Sender::Peer(name),
        None if message.from == *me => Sender::Own,
        None => Sender::Stranger,
    };
    let label = match sender {
        Sender::Peer(ref name) => Some(Label::Peer(name.clone())),
        Sender::Own => Some(Label::SelfIdentity),
        Sender::Stranger if message.kind == MessageKind::Message => {
            return Ok(Decision::reject(Reject::NotAllowlisted));
        }
        Sender::Stranger => None,
    };
    let past_ms = match label {
        Some(_) => windows.past_peer_ms,
        None => windows.past_stranger_ms,
    };
    let timely = check_time(message.ts, now, past_ms, windows.future_ms);
    if let Err(untimely @ Untimely::Ahead { .. }) = timely {
        return Ok(Decision::reject(Reject::Stale(untimely)));
    }
    let record_replay = label.is_some() && message.kind == MessageKind::Message;
    // Asked before the age is judged: what was delivered once and comes back late is a repeat,
    // not an expired message.
    if record_replay && seen(&message.from, &message.msg_id)? {
        return Ok(Decision::reject(Reject::Replay));
    }
    if let Err(untimely) = timely {
        return Ok(Decision::reject(too_old(message.kind, label, untimely)));
    }
    Ok(Decision {
        outcome: dispatch(sender, message.kind),
        record_replay,
    })
}

/// What the sender is to us.
enum Sender {
    Peer(String),
    Own,
    Stranger,
}

fn too_old(kind: MessageKind, label: Option<Label>, untimely: Untimely) -> Reject {
    match (kind, label, untimely) {
        (MessageKind::Message, Some(label), Untimely::TooOld { age_ms }) => {
            Reject::Expired { label, age_ms }
        }
        // A pairing message that is too old is void; there is nothing in it to show.
        (_, _, untimely) => Reject::Stale(untimely),
    }
}

fn dispatch(sender: Sender, kind: MessageKind) -> Outcome {
    match (kind, sender) {
        (MessageKind::PairAccept, _) => Outcome::PairAccept,
        (MessageKind::Message, Sender::Peer(name)) => Outcome::Inline {
            label: Label::Peer(name),
        },
        (MessageKind::Message, Sender::Own) => Outcome::Inline {
            label: Label::SelfIdentity,
        },
        // Unreachable after step 3, and said again rather than trusted.
        (MessageKind::Message, Sender::Stranger) => Outcome::Reject(Reject::NotAllowlisted),
        (MessageKind::PairRequest, Sender::Peer(name)) => Outcome::KnownPeerKnock {
            label: Label::Peer(name),
        },
        (MessageKind::PairRequest, Sender::Own | Sender::Stranger) => Outcome::PairRequest,
    }
}
