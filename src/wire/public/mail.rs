//! Messages that the public program had received, and the lines that it kept for its host.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::bounded::AtMost;
use super::{Item, ItemError, PublicFileError};
use crate::types::id::PublicKey;
use crate::wire::envelope::{Message, MessageKind};

/// Records of a mailbox. Given by the public program.
const MAX_RECORDS: usize = 4096;

/// Lines of an inbox that are told of.
const MAX_LINES: usize = 65_536;

/// Longest line of an inbox in bytes.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Failed deliveries of a session. Given by the public program.
const MAX_FAILED: usize = 64;

/// The state that says that a message was read.
const ACKNOWLEDGED: &str = "receiver_acknowledged";

/// A message in a mailbox, its signature checked, addressed to the identity.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMail {
    /// The message.
    pub message: Message,
    /// The sender's name there when it arrived: any text.
    pub label: String,
    /// Whether nobody has to read it any more: it was acknowledged, or a newer one took its place
    /// and is not in the mailbox any more, so that nothing else would tell.
    pub read: bool,
}

#[derive(Deserialize)]
struct RawMailbox<'a> {
    #[serde(borrow)]
    records: AtMost<'a, MAX_RECORDS>,
}

#[derive(Deserialize)]
struct RawRecord<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
    #[serde(default)]
    peer: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    superseded_by: Option<String>,
}

/// Reads `mailbox/<key>/<session>.json`, in the order of arrival.
///
/// # Errors
///
/// [`PublicFileError`]; a bad record is an item.
pub fn mailbox(text: &str, own: &PublicKey) -> Result<Vec<Item<StoredMail>>, PublicFileError> {
    let raw: RawMailbox<'_> = serde_json::from_str(text)?;
    let items: Vec<Item<(StoredMail, Option<String>)>> = raw
        .records
        .0
        .into_iter()
        .map(|record| read_record(record, own))
        .collect();
    let here: BTreeSet<String> = items
        .iter()
        .flatten()
        .map(|(mail, _)| mail.message.msg_id.as_str().to_owned())
        .collect();
    Ok(items
        .into_iter()
        .map(|item| {
            item.map(|(mail, newer)| StoredMail {
                read: mail.read || newer.is_some_and(|newer| !here.contains(&newer)),
                ..mail
            })
        })
        .collect())
}

fn read_record(record: &RawValue, own: &PublicKey) -> Item<(StoredMail, Option<String>)> {
    let raw: RawRecord<'_> = serde_json::from_str(record.get())?;
    let message = Message::from_json(raw.message.get())?;
    if message.to != *own {
        return Err(ItemError::NotForUs);
    }
    if message.kind != MessageKind::Message {
        return Err(ItemError::WrongKind);
    }
    message.verify()?;
    let mail = StoredMail {
        message,
        label: raw.peer,
        read: raw.state == ACKNOWLEDGED,
    };
    Ok((mail, raw.superseded_by))
}

/// A line that waits for the host's listener: a notice, or, from versions before 0.10, a peer's
/// words. None of it is signed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InboxLine {
    /// Who it is said to be from: any text. `Interlink` for notices.
    pub sender: String,
    /// Id of the notice, or of the message.
    pub msg_id: String,
    /// The text.
    pub content: String,
}

impl InboxLine {
    /// Whether it only tells that mail waits.
    #[must_use]
    pub fn is_notice(&self) -> bool {
        self.sender == "Interlink"
    }
}

/// Reads what is unread of `inbox/<session>.jsonl`, given the text of its cursor. A last line without
/// its end is not there yet. Beyond 65,536 lines nothing is read.
#[must_use]
pub fn inbox(bytes: &[u8], cursor: Option<&str>) -> Vec<Item<InboxLine>> {
    let at: usize = cursor
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    // A cursor past the end belongs to a file that was cut: all of it counts as unread.
    let unread = bytes.get(at..).unwrap_or(bytes);
    let whole = unread.iter().rposition(|b| *b == b'\n').unwrap_or(0);
    unread
        .get(..whole)
        .unwrap_or_default()
        .split(|b| *b == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .take(MAX_LINES)
        .map(|line| match line.len() {
            len if len > MAX_LINE_BYTES => Err(ItemError::TooLong {
                len,
                max: MAX_LINE_BYTES,
            }),
            _ => Ok(serde_json::from_slice(line)?),
        })
        .collect()
}

/// What a Codex host did not take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FailedDelivery {
    /// Who it is said to be from: any text.
    #[serde(default)]
    pub sender: String,
    /// Id of the message.
    #[serde(default)]
    pub msg_id: String,
    /// The text, not signed.
    #[serde(default)]
    pub text: String,
    /// Whether it only tells that mail waits.
    #[serde(default)]
    pub notice: bool,
}

/// Reads `failed/<key>/<session>.json`.
///
/// # Errors
///
/// [`PublicFileError`]; a bad entry is an item.
pub fn failed(text: &str) -> Result<Vec<Item<FailedDelivery>>, PublicFileError> {
    let raw: AtMost<'_, MAX_FAILED> = serde_json::from_str(text)?;
    let entries = raw.0.into_iter();
    Ok(entries
        .map(|entry| Ok(serde_json::from_str(entry.get())?))
        .collect())
}
