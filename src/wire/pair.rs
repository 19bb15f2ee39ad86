//! Pairing messages: the knock as its receiver reads it, and renewal of what waits to be sent.
//!
//! A knock comes from a stranger, so nothing in it is believed beyond its signature: the name is a
//! claim, and the reply route must be a session of the very key that signed, or the answer would
//! go to whoever a relay likes.

use crate::crypto::sign::SigningIdentity;
use crate::types::id::{MsgId, PublicKey};
use crate::types::limit::MAX_CLAIMED_NAME_CHARS;
use crate::types::route::{Route, RouteError};
use crate::types::text::{is_invisible_char, spell_out};
use crate::types::time::UnixMillis;

use super::envelope::{Message, MessageKind, RenewError};
use super::peers::{Petname, is_unfit_for_name};

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

/// Marks a claimed name that was cut.
const CUT: char = '\u{2026}';

/// A claimed name as it may be stored and shown: one line without blanks around it, at most
/// [`MAX_CLAIMED_NAME_CHARS`] characters of the original (a longer one ends in U+2026), and
/// everything that is not seen, that moves or reorders text, or that could end a quotation spelled
/// out as `\u{..}`, a backslash too. It stays a claim: show it as one.
#[must_use]
pub fn claimed_name(text: &str) -> String {
    let mut name = String::new();
    // Reads no more of a huge text than is kept of it.
    for (count, c) in text.trim().chars().enumerate() {
        if count == MAX_CLAIMED_NAME_CHARS {
            name.push(CUT);
            break;
        }
        if c == '\\' || is_unfit_for_name(c) || is_invisible_char(c) {
            spell_out(&mut name, c);
        } else {
            name.push(c);
        }
    }
    name
}

/// The petname that a [`claimed_name`] can become as it is; `None` when it was cut or spelled out,
/// or is no petname.
#[must_use]
pub fn claimed_petname(claimed: &str) -> Option<Petname> {
    Petname::parse(claimed)
        .ok()
        .filter(|name| !name.as_str().contains(['\\', CUT]))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_name_is_one_bounded_line_without_anything_that_acts() {
        for (claimed, shown) in [
            ("ann", "ann"),
            ("  caf\u{e9} 2 ", "caf\u{e9} 2"),
            ("", ""),
            (" \n\u{2028} ", ""),
            ("a\nb\u{2028}c\u{2029}d", "a\\u{a}b\\u{2028}c\\u{2029}d"),
            ("a\u{202e}b\u{200b}c", "a\\u{202e}b\\u{200b}c"),
            ("a\" <b> '\\", "a\\u{22} \\u{3c}b\\u{3e} \\u{27}\\u{5c}"),
        ] {
            assert_eq!(claimed_name(claimed), shown, "{claimed:?}");
        }
        let long = format!("{}\n{}", "x".repeat(60), "y".repeat(20_000));
        let shown = claimed_name(&long);
        assert_eq!(shown, format!("{}\\u{{a}}yyy\u{2026}", "x".repeat(60)));
        let worst = claimed_name(&"\u{e0041}".repeat(100));
        assert!(worst.len() <= 64 * 9 + 3, "{}", worst.len());
    }

    #[test]
    fn only_a_name_that_is_shown_as_it_is_can_become_a_petname() {
        let petname =
            |text: &str| claimed_petname(&claimed_name(text)).map(|name| name.to_string());
        assert_eq!(petname(" ann "), Some("ann".into()));
        assert_eq!(petname(&"x".repeat(64)), Some("x".repeat(64)));
        for bad in [
            "",
            "Self",
            "INTERLINK",
            "a\nb",
            "a\"b",
            "a\\b",
            &"x".repeat(65),
        ] {
            assert_eq!(petname(bad), None, "{bad:?}");
        }
    }
}
