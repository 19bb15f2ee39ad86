//! Rows in the words of people and scripts.
//!
//! Every table has a view, and a view has every member of its row, because it is made from the
//! row's own serialisation (`value`) and not by hand: what is added to a row is shown. A
//! `match` over the tables makes a table without a view a compile error.

mod value;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::agent::{
    AnsweredRow, BlockedRow, BondRow, ConflictRow, DirectoryRow, ExpiredRow, FloorRow, HeldRow,
    HostRow, InboundRow, MailRow, NewsRow, NoticeRow, OfferRow, OpenRow, OutboundRow, OutboxRow,
    PaceRow, PeerRow, PeersFileRow, PublishedRow, ReplayRow, RouteRow, SealedPeerRow, SeqRow,
    SessionRow, TaskInfoRow, TaskRow, UnreadRow, key,
};
use super::bus::{DropCounter, DropsRow, PendingRow, PresenceTimeRow, RosterRow};
use super::bus_rendezvous::{RelayMessageRow, RelayPeerRow, RelaySessionRow};
use super::marks::MarkRow;
use crate::domain::tables::{TableError, TableId, decode_row};
use crate::types::id::PublicKey;
use crate::types::seq::Seq;

/// A row as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct RowView {
    /// The key: its parts in their own notation, separated by ` / `; hex where it is malformed.
    pub key: String,
    /// The members of the row. Digests are hex; an alternative is its name in lower case, or an
    /// object with the name as its only member where it has members itself.
    pub value: Value,
}

/// A part of a key.
#[derive(Clone, Copy)]
enum Part {
    /// Eight bytes, a position.
    Seq,
    /// 32 bytes, a public key.
    Key,
    /// Self-delimiting text.
    Text,
    /// Text up to the end.
    Rest,
}

/// The view of a row.
///
/// # Errors
///
/// [`TableError::Row`] when the value does not decode.
pub fn row(table: TableId, key: &[u8], bytes: &[u8]) -> Result<RowView, TableError> {
    let value = match table {
        TableId::Pending => view::<PendingRow>(table, bytes)?,
        TableId::Drops => view::<DropsRow>(table, bytes)?,
        TableId::Roster => roster(bytes)?,
        TableId::PresenceTimes => view::<PresenceTimeRow>(table, bytes)?,
        TableId::RelaySessions => view::<RelaySessionRow>(table, bytes)?,
        TableId::RelayPeers => view::<RelayPeerRow>(table, bytes)?,
        TableId::RelayMessages => view::<RelayMessageRow>(table, bytes)?,
        TableId::Peers => view::<PeerRow>(table, bytes)?,
        TableId::PeersPublished => view::<PublishedRow>(table, bytes)?,
        TableId::Sessions => view::<SessionRow>(table, bytes)?,
        TableId::Outbox => view::<OutboxRow>(table, bytes)?,
        TableId::OutboxByMsg | TableId::MailboxByMsg => view::<SeqRow>(table, bytes)?,
        TableId::Mailbox => view::<MailRow>(table, bytes)?,
        TableId::Replay => view::<ReplayRow>(table, bytes)?,
        TableId::ReplayFloor => view::<FloorRow>(table, bytes)?,
        TableId::Expired => view::<ExpiredRow>(table, bytes)?,
        TableId::Notices => view::<NoticeRow>(table, bytes)?,
        TableId::Routes => view::<RouteRow>(table, bytes)?,
        TableId::OutboxOpen => view::<OpenRow>(table, bytes)?,
        TableId::MailboxUnread => view::<UnreadRow>(table, bytes)?,
        TableId::MailboxTasks => view::<TaskRow>(table, bytes)?,
        TableId::PeersFile => view::<PeersFileRow>(table, bytes)?,
        TableId::PeersHeld => view::<HeldRow>(table, bytes)?,
        TableId::PairPace => view::<PaceRow>(table, bytes)?,
        TableId::PairOutbound => view::<OutboundRow>(table, bytes)?,
        TableId::PairInbound => view::<InboundRow>(table, bytes)?,
        TableId::PairConflicts => view::<ConflictRow>(table, bytes)?,
        TableId::PairAnswered => view::<AnsweredRow>(table, bytes)?,
        TableId::PairBlocked => view::<BlockedRow>(table, bytes)?,
        TableId::PairNews => view::<NewsRow>(table, bytes)?,
        TableId::Directory => view::<DirectoryRow>(table, bytes)?,
        TableId::Tasks => view::<TaskInfoRow>(table, bytes)?,
        TableId::Hosts => view::<HostRow>(table, bytes)?,
        TableId::Bonds => view::<BondRow>(table, bytes)?,
        TableId::BondOffers => view::<OfferRow>(table, bytes)?,
        TableId::SealedPeers => view::<SealedPeerRow>(table, bytes)?,
        TableId::QueueMarks | TableId::ImportMarks => view::<MarkRow>(table, bytes)?,
    };
    let key = key_text(table, key).unwrap_or_else(|| hex(key));
    Ok(RowView { key, value })
}

/// How a table's keys are made up; `None` for those with words of their own.
const fn parts(table: TableId) -> Option<&'static [Part]> {
    Some(match table {
        TableId::Pending
        | TableId::RelaySessions
        | TableId::RelayPeers
        | TableId::RelayMessages
        | TableId::Outbox
        | TableId::Mailbox
        | TableId::OutboxOpen
        | TableId::Bonds
        | TableId::BondOffers => &[Part::Seq],
        TableId::Roster
        | TableId::PresenceTimes
        | TableId::Sessions
        | TableId::OutboxByMsg
        | TableId::Notices
        | TableId::Directory
        | TableId::Hosts => &[Part::Rest],
        TableId::Peers
        | TableId::PeersHeld
        | TableId::PairPace
        | TableId::PairOutbound
        | TableId::PairInbound
        | TableId::PairConflicts
        | TableId::PairBlocked
        | TableId::SealedPeers => &[Part::Key],
        TableId::MailboxByMsg | TableId::Routes => &[Part::Text, Part::Key],
        TableId::Replay | TableId::Expired | TableId::PairAnswered => &[Part::Key, Part::Text],
        TableId::MailboxUnread | TableId::PairNews => &[Part::Text, Part::Seq],
        TableId::MailboxTasks => &[Part::Text, Part::Key, Part::Text, Part::Text],
        TableId::Tasks => &[Part::Text, Part::Key, Part::Text],
        TableId::Drops
        | TableId::PeersPublished
        | TableId::ReplayFloor
        | TableId::PeersFile
        | TableId::QueueMarks
        | TableId::ImportMarks => {
            return None;
        }
    })
}

fn key_text(table: TableId, bytes: &[u8]) -> Option<String> {
    let Some(parts) = parts(table) else {
        return named(table, bytes);
    };
    let mut rest = bytes;
    let mut words = vec![];
    for part in parts {
        let (word, left) = take(*part, rest)?;
        words.push(word);
        rest = left;
    }
    rest.is_empty().then(|| words.join(" / "))
}

/// Keys that stand for something.
fn named(table: TableId, bytes: &[u8]) -> Option<String> {
    match table {
        TableId::Drops => {
            let counter = DropCounter::ALL.iter().find(|(c, _)| c.key() == bytes);
            counter.map(|(_, name)| (*name).to_owned())
        }
        TableId::PeersPublished if bytes == key::PUBLISHED_LATEST => Some("latest".to_owned()),
        TableId::PeersPublished => bytes.strip_prefix(&[1]).map(hex),
        TableId::QueueMarks | TableId::ImportMarks if bytes.len() == 32 => {
            Some(format!("sha256 {}", hex(bytes)))
        }
        _ => (bytes == [0]).then(|| "only".to_owned()),
    }
}

fn take(part: Part, bytes: &[u8]) -> Option<(String, &[u8])> {
    match part {
        Part::Seq => {
            let (head, rest) = bytes.split_first_chunk::<8>()?;
            Some((Seq::from_key(head)?.to_string(), rest))
        }
        Part::Key => {
            let (head, rest) = bytes.split_first_chunk::<32>()?;
            Some((PublicKey::from_bytes(*head).to_string(), rest))
        }
        Part::Text => {
            let (text, rest) = delimited(bytes)?;
            Some((String::from_utf8(text).ok()?, rest))
        }
        Part::Rest => Some((String::from_utf8(bytes.to_vec()).ok()?, &[])),
    }
}

/// Undoes the self-delimiting form of
/// [`KeyBuilder::bytes`](crate::domain::tables::KeyBuilder::bytes).
fn delimited(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = vec![];
    let mut at = 0;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (0, Some(0)) => return Some((text, bytes.get(at + 2..)?)),
            (0, Some(_)) => {
                text.push(0);
                at += 2;
            }
            (byte, _) => {
                text.push(*byte);
                at += 1;
            }
        }
    }
}

fn view<T: DeserializeOwned + Serialize>(
    table: TableId,
    bytes: &[u8],
) -> Result<Value, TableError> {
    let row: T = decode_row(table, bytes)?;
    Ok(value::of(&row))
}

/// The announcement is JSON already.
fn roster(bytes: &[u8]) -> Result<Value, TableError> {
    let row: RosterRow = decode_row(TableId::Roster, bytes)?;
    let announcement: Value = serde_json::from_slice(&row.announcement).unwrap_or(Value::Null);
    Ok(json!({ "last_seen": row.last_seen, "announcement": announcement }))
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tables::{KeyBuilder, MemTables, TableReader as _, put_row};
    use crate::types::time::UnixMillis;

    #[test]
    fn keys_are_shown_part_by_part() {
        let own = PublicKey::from_bytes([7; 32]);
        let bytes = KeyBuilder::new()
            .bytes(b"s\0x")
            .fixed(own.as_bytes())
            .bytes(b"task")
            .build();
        let text = key_text(TableId::Tasks, &bytes).unwrap();
        assert_eq!(text, format!("s\0x / {own} / task"));
        assert_eq!(key_text(TableId::Pending, &Seq(9).to_key()).unwrap(), "9");
        assert_eq!(key_text(TableId::Drops, &[1]).unwrap(), "expired");
        assert_eq!(key_text(TableId::PeersFile, &[0]).unwrap(), "only");
        // Neither more nor less than its parts.
        assert_eq!(key_text(TableId::Pending, &[0; 9]), None);
        assert_eq!(key_text(TableId::Tasks, &bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn digests_are_hex_and_alternatives_are_words() {
        use super::super::agent::{RelayRow, RelayState};
        let mut tables = MemTables::new();
        let row = PendingRow {
            to: "a".into(),
            at: UnixMillis(5),
            len: 3,
            sha256: [0xab; 32],
            msg_id: "m".into(),
        };
        put_row(&mut tables, TableId::Pending, &Seq(1).to_key(), &row).unwrap();
        let bytes = tables.get(TableId::Pending, &Seq(1).to_key()).unwrap();
        let shown = super::row(TableId::Pending, &Seq(1).to_key(), &bytes.unwrap()).unwrap();
        let digest = "ab".repeat(32);
        assert_eq!(
            shown.value,
            json!({ "to": "a", "at": 5, "len": 3, "sha256": digest, "msg_id": "m" })
        );
        let relay = RelayRow {
            url: "u".into(),
            state: RelayState::Accepted {
                at: UnixMillis(1),
                dropped: false,
            },
        };
        assert_eq!(
            value::of(&relay),
            json!({ "url": "u", "state": { "accepted": { "at": 1, "dropped": false } } })
        );
    }

    #[test]
    fn a_value_that_does_not_decode_is_an_error() {
        for table in TableId::ALL {
            assert!(row(*table, &[0], &[1, 2, 3]).is_err(), "{table:?}");
        }
    }
}
