//! What admits nobody: requests that end, keys that are silenced or heard again.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::operator::Operator;
use super::super::print::{Printer, Style, now};
use super::{Key, books, pick};
use crate::crypto::sign::decode_public_key;
use crate::domain::decide::agent::{AgentReply, PairingCommand, PairingReply};
use crate::event::agent::Origin;

/// What admits nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Simple {
    Reject,
    Cancel,
    Block,
    Unblock,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct Done {
    key: String,
    changed: bool,
}

pub(super) fn simple(
    operator: &Operator,
    key: &Key,
    what: Simple,
    p: &mut Printer,
) -> Result<(), AdminError> {
    let books = books(operator)?;
    let text = key.public_key.trim();
    let waiting = match what {
        Simple::Reject => pick(books.inbound.iter().map(|i| i.key), text)?,
        Simple::Cancel => {
            let outbound = books.outbound.iter().map(|o| o.key);
            pick(outbound.chain(books.conflicts.iter().map(|c| c.key)), text)?
        }
        Simple::Block => pick(books.inbound.iter().map(|i| i.key), text)?,
        Simple::Unblock => pick(books.blocked.iter().map(|b| b.key), text)?,
    };
    let key = match (waiting, what) {
        (Some(key), _) => key,
        (None, Simple::Reject) => {
            return Err(AdminError::NobodyAsks {
                text: text.to_owned(),
            });
        }
        (None, _) => decode_public_key(text).map_err(|_| AdminError::NoSuchKey {
            text: text.to_owned(),
        })?,
    };
    let (lease, origin, now) = (None, Origin::Admin, now());
    let (command, yes, no) = match what {
        Simple::Reject => (
            PairingCommand::Reject {
                lease,
                key,
                request_id: None,
                origin,
                now,
            },
            "its request is rejected; it is not told",
            "it does not ask",
        ),
        Simple::Cancel => (
            PairingCommand::Cancel {
                lease,
                key,
                origin,
                now,
            },
            "the request to it is called off",
            "it was not asked",
        ),
        Simple::Block => (
            PairingCommand::Block {
                lease,
                key,
                origin,
                now,
            },
            "its requests are ignored from now on",
            "it is blocked already",
        ),
        Simple::Unblock => (
            PairingCommand::Unblock {
                lease,
                key,
                origin,
                now,
            },
            "its requests are heard again",
            "it is not blocked",
        ),
    };
    let changed = match operator.submit(command.into())? {
        AgentReply::Pairing(PairingReply::Changed { changed }) => changed,
        reply => return Err(AdminError::Unexpected(format!("{reply:?}"))),
    };
    if p.json {
        return Ok(p.json(&Done {
            key: key.to_string(),
            changed,
        })?);
    }
    let text = if changed { yes } else { no };
    Ok(p.whole_line(Style::Plain, &format!("{key}: {text}"))?)
}
