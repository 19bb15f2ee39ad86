//! Relay sessions as rows: reading them at open, and letting go of what is lost.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::index::RelayIndex;
use crate::domain::LiveBody;
use crate::domain::projection::bus_rendezvous::{
    RelayMessageKind, RelayMessageRow, RelayPeerRow, RelaySessionRow,
};
use crate::domain::tables::{TableError, TableId, TableReader, get_row, scan_rows};
use crate::event::bus::BusEvent;
use crate::event::bus_rendezvous::{RelayEnd, RelayEnded, RelayErased, RelayErasure};
use crate::types::seq::Seq;

fn key_of(table: TableId, key: &[u8]) -> Result<Seq, TableError> {
    Seq::from_key(key).ok_or(TableError::Key {
        table: table.name(),
    })
}

/// Builds the index from the rows; who somebody is follows from bodies.
pub(in crate::domain::decide::bus) fn build(
    index: &mut RelayIndex,
    tables: &dyn TableReader,
) -> Result<(), TableError> {
    scan_rows::<RelaySessionRow>(tables, TableId::RelaySessions, &[], |key, row| {
        index.add_session(key_of(TableId::RelaySessions, key)?, &row);
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<RelayPeerRow>(tables, TableId::RelayPeers, &[], |key, row| {
        index.add_peer(key_of(TableId::RelayPeers, key)?, &row);
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<RelayMessageRow>(tables, TableId::RelayMessages, &[], |key, row| {
        index.add_message(key_of(TableId::RelayMessages, key)?, &row);
        Ok(ControlFlow::Continue(()))
    })
}

/// Every body that some row needs.
pub(in crate::domain::decide::bus) fn live_bodies(
    tables: &dyn TableReader,
    visit: &mut dyn FnMut(LiveBody),
) -> Result<(), TableError> {
    scan_rows::<RelayPeerRow>(tables, TableId::RelayPeers, &[], |key, row| {
        visit(LiveBody {
            seq: key_of(TableId::RelayPeers, key)?,
            len: row.len,
            sha256: row.sha256,
        });
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<RelayMessageRow>(tables, TableId::RelayMessages, &[], |key, row| {
        if row.kind == RelayMessageKind::Sent {
            visit(LiveBody {
                seq: key_of(TableId::RelayMessages, key)?,
                len: row.len,
                sha256: row.sha256,
            });
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The events that let go of lost bodies; what is not a relay's stays in `lost`.
///
/// A session without its host's body has no name any more and ends; so does one that lost another
/// peer's, who could not be told from a stranger.
pub(in crate::domain::decide::bus) fn let_go(
    tables: &dyn TableReader,
    lost: &mut BTreeSet<Seq>,
) -> Result<Vec<BusEvent>, TableError> {
    let mut events = vec![];
    let mut ended = BTreeSet::new();
    for seq in lost.iter() {
        let peer: Option<RelayPeerRow> = get_row(tables, TableId::RelayPeers, &seq.to_key())?;
        if let Some(peer) = peer.filter(|peer| !ended.contains(&peer.session)) {
            ended.insert(peer.session);
            events.push(all_lost(tables, peer.session)?);
        }
    }
    let mut mine = BTreeSet::new();
    for seq in lost.iter().copied() {
        let key = seq.to_key();
        let row: Option<RelayMessageRow> = get_row(tables, TableId::RelayMessages, &key)?;
        let row = row.filter(|row| row.kind == RelayMessageKind::Sent);
        if let Some(row) = &row
            && !ended.contains(&row.session)
        {
            events.push(BusEvent::RelayErased(RelayErased {
                session: row.session,
                reason: RelayErasure::Lost,
                pruned: vec![seq],
                erased: vec![seq],
            }));
        }
        if row.is_some() || tables.get(TableId::RelayPeers, &key)?.is_some() {
            mine.insert(seq);
        }
    }
    lost.retain(|seq| !mine.contains(seq));
    Ok(events)
}

fn all_lost(tables: &dyn TableReader, session: Seq) -> Result<BusEvent, TableError> {
    let (mut pruned, mut erased) = (vec![], vec![]);
    scan_rows::<RelayMessageRow>(tables, TableId::RelayMessages, &[], |key, row| {
        if let Some(seq) = Seq::from_key(key).filter(|_| row.session == session) {
            pruned.push(seq);
            if row.kind == RelayMessageKind::Sent {
                erased.push(seq);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<RelayPeerRow>(tables, TableId::RelayPeers, &[], |key, row| {
        erased.extend(Seq::from_key(key).filter(|_| row.session == session));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(BusEvent::RelayEnded(RelayEnded {
        session,
        reason: RelayEnd::Lost,
        pruned,
        erased,
    }))
}
