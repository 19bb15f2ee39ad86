//! Who waits for whom.

use std::ops::ControlFlow;

use serde::de::DeserializeOwned;

use super::{Peer, outbox_entry, peers};
use crate::domain::projection::agent::{
    AnsweredRow, BlockedRow, ConflictRow, InboundRow, NewsKind, NewsRow, OutboundRow, PaceRow,
    Sent, key, seq_key,
};
use crate::domain::tables::{TableError, TableId, TableReader, get_row, scan_rows};
use crate::types::id::{FINGERPRINT_CHARS, MsgId, PublicKey, SessionId};
use crate::types::seq::Seq;
use crate::wire::pair::claimed_petname;
use crate::wire::peers::Petname;

/// Rows of a table whose key is a public key, in order of the keys.
fn by_key<T: DeserializeOwned>(
    tables: &dyn TableReader,
    table: TableId,
) -> Result<Vec<(PublicKey, T)>, TableError> {
    let mut rows = vec![];
    scan_rows::<T>(tables, table, &[], |key, row| {
        let key = key.try_into().map_err(|_| TableError::Key {
            table: table.name(),
        })?;
        rows.push((PublicKey::from_bytes(key), row));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// A stranger's request that waits for the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbound {
    /// Who asks.
    pub key: PublicKey,
    /// The row; its name is a claim, already spelled out.
    pub row: InboundRow,
    /// The petname that the claimed name can become as it is. `None`: the operator has to choose.
    pub petname: Option<Petname>,
    /// The other key that has this petname already: the operator has to choose another one.
    pub holder: Option<PublicKey>,
}

impl Inbound {
    fn new(admitted: &[Peer], key: PublicKey, row: InboundRow) -> Inbound {
        let petname = claimed_petname(&row.name);
        let holder = petname.as_ref().and_then(|name| {
            let peer = admitted.iter().find(|peer| peer.petname == name.as_str());
            peer.map(|peer| peer.key).filter(|holder| *holder != key)
        });
        Inbound {
            key,
            row,
            petname,
            holder,
        }
    }
}

/// Strangers' requests, the one that waits longest first.
///
/// # Errors
///
/// [`TableError`].
pub fn inbound(tables: &dyn TableReader) -> Result<Vec<Inbound>, TableError> {
    let admitted = peers(tables)?;
    let mut rows = by_key::<InboundRow>(tables, TableId::PairInbound)?;
    rows.sort_by_key(|(_, row)| row.seq);
    Ok(rows
        .into_iter()
        .map(|(key, row)| Inbound::new(&admitted, key, row))
        .collect())
}

/// The request of a key.
///
/// # Errors
///
/// [`TableError`].
pub fn inbound_of(
    tables: &dyn TableReader,
    key: &PublicKey,
) -> Result<Option<Inbound>, TableError> {
    let row: Option<InboundRow> = get_row(tables, TableId::PairInbound, key.as_bytes())?;
    match row {
        Some(row) => Ok(Some(Inbound::new(&peers(tables)?, *key, row))),
        None => Ok(None),
    }
}

/// Strangers' requests that a text means: a full key, or a fingerprint, which several keys can
/// share.
///
/// # Errors
///
/// [`TableError`].
pub fn matching_inbound(tables: &dyn TableReader, text: &str) -> Result<Vec<Inbound>, TableError> {
    let mut found = inbound(tables)?;
    let short = text.len() == FINGERPRINT_CHARS;
    found.retain(|inbound| {
        inbound.key.to_string() == text || (short && inbound.key.fingerprint().as_str() == text)
    });
    Ok(found)
}

/// A request of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Outbound {
    /// Whom we ask.
    pub key: PublicKey,
    /// The row.
    pub row: OutboundRow,
    /// How far the signed request came; `None` when its outbox entry is gone.
    pub sent: Option<Sent>,
}

impl Outbound {
    fn new(tables: &dyn TableReader, key: PublicKey, row: OutboundRow) -> Result<Self, TableError> {
        let mail = outbox_entry(tables, &row.request_id)?;
        Ok(Outbound {
            key,
            sent: mail.map(|mail| mail.row.sent()),
            row,
        })
    }
}

/// Requests of ours that wait for an answer, oldest first.
///
/// # Errors
///
/// [`TableError`].
pub fn outbound(tables: &dyn TableReader) -> Result<Vec<Outbound>, TableError> {
    let mut rows = by_key::<OutboundRow>(tables, TableId::PairOutbound)?;
    rows.sort_by_key(|(key, row)| (row.first_at, *key));
    rows.into_iter()
        .map(|(key, row)| Outbound::new(tables, key, row))
        .collect()
}

/// Our request to a key. Whoever repeats it signs with its id.
///
/// # Errors
///
/// [`TableError`].
pub fn outbound_of(
    tables: &dyn TableReader,
    key: &PublicKey,
) -> Result<Option<Outbound>, TableError> {
    let row: Option<OutboundRow> = get_row(tables, TableId::PairOutbound, key.as_bytes())?;
    row.map(|row| Outbound::new(tables, *key, row)).transpose()
}

/// A request of ours that was accepted and waits for the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Who accepted.
    pub key: PublicKey,
    /// The row.
    pub row: ConflictRow,
}

/// Accepted requests that wait for the operator, oldest first.
///
/// # Errors
///
/// [`TableError`].
pub fn conflicts(tables: &dyn TableReader) -> Result<Vec<Conflict>, TableError> {
    let mut rows = by_key::<ConflictRow>(tables, TableId::PairConflicts)?;
    rows.sort_by_key(|(_, row)| row.seq);
    Ok(rows
        .into_iter()
        .map(|(key, row)| Conflict { key, row })
        .collect())
}

/// The conflict about a key.
///
/// # Errors
///
/// [`TableError`].
pub fn conflict_of(
    tables: &dyn TableReader,
    key: &PublicKey,
) -> Result<Option<Conflict>, TableError> {
    let row = get_row(tables, TableId::PairConflicts, key.as_bytes())?;
    Ok(row.map(|row| Conflict { key: *key, row }))
}

/// A key whose requests are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The key.
    pub key: PublicKey,
    /// The row.
    pub row: BlockedRow,
}

/// Keys whose requests are ignored, the one blocked first in front.
///
/// # Errors
///
/// [`TableError`].
pub fn blocked(tables: &dyn TableReader) -> Result<Vec<Blocked>, TableError> {
    let mut rows = by_key::<BlockedRow>(tables, TableId::PairBlocked)?;
    rows.sort_by_key(|(_, row)| row.seq);
    Ok(rows
        .into_iter()
        .map(|(key, row)| Blocked { key, row })
        .collect())
}

/// Whether requests of a key are ignored.
///
/// # Errors
///
/// [`TableError`].
pub fn is_blocked(tables: &dyn TableReader, key: &PublicKey) -> Result<bool, TableError> {
    Ok(tables.get(TableId::PairBlocked, key.as_bytes())?.is_some())
}

/// What was decided about a request, where that is still remembered.
///
/// # Errors
///
/// [`TableError`].
pub fn answered(
    tables: &dyn TableReader,
    sender: &PublicKey,
    request_id: &MsgId,
) -> Result<Option<AnsweredRow>, TableError> {
    let key = key::sender_msg(sender, request_id);
    get_row(tables, TableId::PairAnswered, &key)
}

/// How fast a key knocks, where that is remembered: it waits, or was answered as a peer.
///
/// # Errors
///
/// [`TableError`].
pub fn pair_pace(tables: &dyn TableReader, key: &PublicKey) -> Result<PaceRow, TableError> {
    Ok(get_row(tables, TableId::PairPace, key.as_bytes())?.unwrap_or_default())
}

/// Something new about pairing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// Position of the record that brought it.
    pub seq: Seq,
    /// What it is.
    pub kind: NewsKind,
    /// The other side.
    pub key: PublicKey,
}

/// What a session has not seen yet, oldest first.
///
/// # Errors
///
/// [`TableError`].
pub fn news(tables: &dyn TableReader, session: &SessionId) -> Result<Vec<News>, TableError> {
    let table = TableId::PairNews;
    let mut news = vec![];
    scan_rows::<NewsRow>(tables, table, &key::session(session), |rest, row| {
        news.push(News {
            seq: seq_key(table, rest)?,
            kind: row.kind,
            key: row.key,
        });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(news)
}

/// How much a session has not seen yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewsTotals {
    /// How many news.
    pub count: usize,
    /// Position of the newest; zero when there is none.
    pub newest: Seq,
}

/// How much a session has not seen yet.
///
/// # Errors
///
/// [`TableError`].
pub fn news_totals(
    tables: &dyn TableReader,
    session: &SessionId,
) -> Result<NewsTotals, TableError> {
    let news = news(tables, session)?;
    Ok(NewsTotals {
        count: news.len(),
        newest: news.last().map_or(Seq::ZERO, |last| last.seq),
    })
}
