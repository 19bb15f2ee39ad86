//! Bringing projections up to the log.

use std::ops::ControlFlow;

use redb::{ReadableTable, WriteTransaction};

use super::layout::{LOG, META, META_APPLIED, META_PROJECTION};
use super::redb_tables::WriteTables;
use crate::domain::Domain;
use crate::domain::projection::apply_all;
use crate::domain::tables::MemTables;
use crate::event::Recorded;
use crate::store::error::{ReadError, engine};
use crate::store::snapshot::Snapshot;
use crate::types::seq::Seq;

/// Brings every projection of a store up to the head of its log, in the given transaction:
/// untouched when version and position match, rebuilt from the retained records when one's version
/// differs (or when forced), else the tail applied. Returns the head and whether anything was changed.
pub(super) fn catch_up<D: Domain>(
    txn: &WriteTransaction,
    force: bool,
) -> Result<(Seq, bool), ReadError> {
    let log = txn.open_table(LOG).map_err(engine)?;
    let mut meta = txn.open_table(META).map_err(engine)?;
    let head = log
        .last()
        .map_err(engine)?
        .map_or(Seq::ZERO, |(seq, _)| Seq(seq.value()));
    let applied = meta
        .get(META_APPLIED)
        .map_err(engine)?
        .and_then(|v| v.value().try_into().ok())
        .map_or(Seq::ZERO, |bytes| Seq(u64::from_le_bytes(bytes)));
    if applied > head && !force {
        // Rebuilding would hide that acknowledged records are gone.
        return Err(ReadError::Engine {
            reason: format!("the rows stand at record {applied}, the log ends at {head}"),
        });
    }
    let mut rebuild = force;
    for projection in D::projections() {
        let key = format!("{META_PROJECTION}{}", projection.name());
        let stored = meta
            .get(key.as_str())
            .map_err(engine)?
            .map(|v| v.value().to_vec());
        rebuild |= stored.as_deref() != Some(&projection.version().to_le_bytes());
    }
    if !rebuild && applied == head {
        return Ok((head, false));
    }
    let mut tables = WriteTables::open(txn, D::KIND)?;
    let mut from = applied.next();
    if rebuild {
        from = Seq::ZERO;
        for table in D::projections().iter().flat_map(|p| p.tables()) {
            tables.clear(*table)?;
        }
    }
    for row in log.range(from.0..).map_err(engine)? {
        let (seq, bytes) = row.map_err(engine)?;
        let record = Recorded::<D::Event>::from_frame(Seq(seq.value()), bytes.value())?;
        apply_all(D::projections(), &mut tables, &record).map_err(engine)?;
    }
    for projection in D::projections() {
        let key = format!("{META_PROJECTION}{}", projection.name());
        let version = projection.version().to_le_bytes();
        meta.insert(key.as_str(), version.as_slice())
            .map_err(engine)?;
    }
    meta.insert(META_APPLIED, head.0.to_le_bytes().as_slice())
        .map_err(engine)?;
    Ok((head, true))
}

/// Replays the retained records into empty tables in memory. Reads no body.
///
/// # Errors
///
/// The first record that does not read or does not apply.
pub(super) fn into_memory<D: Domain>(
    snapshot: &Snapshot,
    mut each: impl FnMut(&Recorded<D::Event>),
) -> Result<MemTables, ReadError> {
    let mut tables = MemTables::new();
    snapshot.frames(Seq::ZERO, |seq, bytes| {
        let record = Recorded::<D::Event>::from_frame(seq, bytes)?;
        apply_all(D::projections(), &mut tables, &record).map_err(|e| ReadError::Engine {
            reason: format!("record {seq} does not apply: {e}"),
        })?;
        each(&record);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(tables)
}
