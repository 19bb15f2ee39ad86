//! What a bus holds, message by message and session by session: what the admin endpoint answers and
//! what the admin tool reads from a file, from one place, as in [`inspect`](super::inspect).

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use serde_json::Value;

use super::{ReadError, Snapshot};
use crate::domain::projection::bus::{PendingRow, RosterRow};
use crate::domain::projection::bus_rendezvous::{RelayMessageRow, RelayPeerRow, RelaySessionRow};
use crate::domain::tables::{
    TableError, TableId, TableReader as _, decode_row, get_row, scan_rows,
};
use crate::types::seq::Seq;
use crate::wire::admin::RelayNumbers;
use crate::wire::operator::{
    Board, BoardRow, RelayedSession, RelayedSessions, Waiting, WaitingList,
};

fn waiting(seq: Seq, row: PendingRow) -> Waiting {
    Waiting {
        seq: seq.0,
        to: row.to,
        at: row.at.0,
        bytes: u64::from(row.len),
        sha256: data_encoding::HEXLOWER.encode(&row.sha256),
        msg_id: row.msg_id,
        body: None,
    }
}

/// At most `limit` messages of a queue from a position on, oldest first.
///
/// # Errors
///
/// [`ReadError`] when rows cannot be read or decoded.
pub fn queue(
    snapshot: &Snapshot,
    to: &str,
    from: Seq,
    limit: usize,
) -> Result<WaitingList, ReadError> {
    let mut messages = vec![];
    let mut failed = None;
    let start = from.to_key();
    let range = (Bound::Included(start.as_slice()), Bound::Unbounded);
    snapshot.scan(TableId::Pending, range.0, range.1, &mut |key, value| {
        let row = decode_row::<PendingRow>(TableId::Pending, value);
        match (Seq::from_key(key), row) {
            _ if messages.len() >= limit => return ControlFlow::Break(()),
            (Some(seq), Ok(row)) => {
                if row.to == to {
                    messages.push(waiting(seq, row));
                }
                return ControlFlow::Continue(());
            }
            (None, _) => {
                failed = Some(TableError::Key {
                    table: TableId::Pending.name(),
                });
            }
            (_, Err(e)) => failed = Some(e),
        }
        ControlFlow::Break(())
    })?;
    match failed {
        Some(e) => Err(e.into()),
        None => Ok(WaitingList { messages }),
    }
}

/// The message at a position, if it still waits; with its payload on demand.
///
/// # Errors
///
/// [`ReadError`] when it cannot be read.
pub fn message(snapshot: &Snapshot, seq: Seq, body: bool) -> Result<Option<Waiting>, ReadError> {
    let row: Option<PendingRow> = get_row(snapshot, TableId::Pending, &seq.to_key())?;
    let Some(row) = row else { return Ok(None) };
    let mut found = waiting(seq, row);
    if body {
        let payload = snapshot.body(seq)?;
        found.body = payload.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(Some(found))
}

/// The presence board, by board key.
///
/// # Errors
///
/// [`ReadError`] when rows cannot be read or decoded.
pub fn board(snapshot: &Snapshot) -> Result<Board, ReadError> {
    let mut sessions = vec![];
    scan_rows::<RosterRow>(snapshot, TableId::Roster, &[], |key, row| {
        sessions.push(BoardRow {
            entry: String::from_utf8_lossy(key).into_owned(),
            last_seen: row.last_seen.0,
            announcement: serde_json::from_slice(&row.announcement).unwrap_or(Value::Null),
        });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Board { sessions })
}

/// The sessions that are relayed, by number.
///
/// # Errors
///
/// [`ReadError`] when rows cannot be read or decoded.
pub fn relayed(snapshot: &Snapshot) -> Result<RelayedSessions, ReadError> {
    let mut sessions: BTreeMap<u64, RelayedSession> = BTreeMap::new();
    scan_rows::<RelaySessionRow>(snapshot, TableId::RelaySessions, &[], |key, row| {
        let session = Seq::from_key(key).unwrap_or_default().0;
        let view = RelayedSession {
            session,
            flow: row.flow.name().to_owned(),
            peers: row.members.len() as u64,
            opened: row.opened.0,
            used_at: row.used_at.0,
            ..RelayedSession::default()
        };
        sessions.insert(session, view);
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<RelayPeerRow>(snapshot, TableId::RelayPeers, &[], |_, row| {
        if let Some(session) = sessions.get_mut(&row.session.0) {
            session.bytes += u64::from(row.len);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<RelayMessageRow>(snapshot, TableId::RelayMessages, &[], |_, row| {
        if let Some(session) = sessions.get_mut(&row.session.0) {
            session.messages += 1;
            session.bytes += u64::from(row.len);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let sessions = sessions.into_values().collect();
    Ok(RelayedSessions { sessions })
}

/// The sums over [`relayed`].
///
/// # Errors
///
/// As [`relayed`].
pub fn relay_numbers(snapshot: &Snapshot) -> Result<RelayNumbers, ReadError> {
    let sessions = relayed(snapshot)?.sessions;
    Ok(RelayNumbers {
        sessions: sessions.len() as u64,
        messages: sessions.iter().map(|session| session.messages).sum(),
        bytes: sessions.iter().map(|session| session.bytes).sum(),
    })
}
