//! Bringing projections up to the log.

use std::ops::{Bound, ControlFlow};

use redb::{ReadableTable, Table, WriteTransaction};

use super::layout::{BODIES, LOG, META, META_APPLIED, META_BASE, META_PROJECTION};
use super::redb_tables::{Rowset, WriteTables};
use crate::domain::Domain;
use crate::domain::projection::apply_all;
use crate::domain::tables::{MemTables, TableError, TableId, TableReader, Tables, Visit};
use crate::event::Recorded;
use crate::store::error::{ReadError, engine};
use crate::store::snapshot::Snapshot;
use crate::types::seq::Seq;

/// Makes sure that every projection of a store stands at the head of its log, in the given
/// transaction. Records and rows are always written in one transaction, so rows of the right version
/// are at the head; if one's version differs (or when forced) all are rebuilt from the retained
/// records. Returns the head and whether anything was changed.
///
/// # Errors
///
/// When the log ends before something that was made from it: records that were acknowledged are
/// gone, and a rebuild would hide it.
pub(super) fn catch_up<D: Domain>(
    txn: &WriteTransaction,
    force: bool,
) -> Result<(Seq, bool), ReadError> {
    let log = txn.open_table(LOG).map_err(engine)?;
    let bodies = txn.open_table(BODIES).map_err(engine)?;
    let mut meta = txn.open_table(META).map_err(engine)?;
    let head = last(&log)?;
    let applied = meta
        .get(META_APPLIED)
        .map_err(engine)?
        .and_then(|v| v.value().try_into().ok())
        .map_or(Seq::ZERO, |bytes| Seq(u64::from_le_bytes(bytes)));
    let reached = applied.max(last(&bodies)?);
    if reached > head && !force {
        return Err(ReadError::Engine {
            reason: format!("the store has seen record {reached}, its log ends at {head}"),
        });
    }
    let compacted = meta.get(META_BASE).map_err(engine)?;
    let compacted = compacted.is_some_and(|base| base.value() != 0u64.to_le_bytes());
    let mut rebuild = force;
    let mut older = vec![];
    for projection in D::projections() {
        let key = format!("{META_PROJECTION}{}", projection.name());
        let stored = meta
            .get(key.as_str())
            .map_err(engine)?
            .map(|v| v.value().to_vec());
        let stored = stored.and_then(|bytes| bytes.try_into().ok());
        let stored = stored.map(u16::from_le_bytes);
        if let Some(from) = stored.filter(|from| *from != projection.version()) {
            older.push((*projection, from));
        }
        rebuild |= stored != Some(projection.version());
    }
    if !rebuild {
        return Ok((head, false));
    }
    let mut tables = WriteTables::new(txn, D::KIND, Rowset::Live);
    let mut base = WriteTables::new(txn, D::KIND, Rowset::Base);
    // A projection that is new starts from nothing, and from what is retained.
    for (projection, from) in older.into_iter().filter(|_| compacted) {
        let converted = projection.upgrade(from, &mut base);
        converted.map_err(|e| ReadError::Engine {
            reason: format!("projection {}: {e}", projection.name()),
        })?;
    }
    for table in tables_of::<D>() {
        tables.clear(table)?;
        copy(&base, &mut tables, table)?;
    }
    for row in log.iter().map_err(engine)? {
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

/// The last position of a table.
fn last(table: &Table<'_, u64, &'static [u8]>) -> Result<Seq, ReadError> {
    let last = table.last().map_err(engine)?;
    Ok(last.map_or(Seq::ZERO, |(seq, _)| Seq(seq.value())))
}

fn tables_of<D: Domain>() -> impl Iterator<Item = TableId> {
    D::projections().iter().flat_map(|p| p.tables()).copied()
}

fn copy(from: &dyn TableReader, to: &mut dyn Tables, table: TableId) -> Result<(), TableError> {
    let mut failed = Ok(());
    from.scan(
        table,
        Bound::Unbounded,
        Bound::Unbounded,
        &mut |key, value| match to.put(table, key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failed = Err(e);
                ControlFlow::Break(())
            }
        },
    )?;
    failed
}

/// The base rows, in memory: what a replay starts from.
fn base<D: Domain>(snapshot: &Snapshot) -> Result<MemTables, ReadError> {
    let mut tables = MemTables::new();
    for table in tables_of::<D>() {
        copy(&snapshot.base_rows(), &mut tables, table)?;
    }
    Ok(tables)
}

impl Snapshot {
    /// Replays the retained records on top of the base rows, in memory. Reads no body.
    ///
    /// # Errors
    ///
    /// The first record that does not read or does not apply.
    pub fn replay<D: Domain>(&self) -> Result<MemTables, ReadError> {
        into_memory::<D>(self, |_| {})
    }

    /// The rows as they were when the record at `until` was the newest. Reads no body. Beyond the
    /// end of the log they are what they are now.
    ///
    /// # Errors
    ///
    /// [`ReadError::Compacted`] below the compaction point; the first record that does not read or
    /// does not apply.
    pub fn replay_until<D: Domain>(&self, until: Seq) -> Result<MemTables, ReadError> {
        let base = self.base()?;
        if until < base {
            return Err(ReadError::Compacted { at: until, base });
        }
        play::<D>(self, until, |_, _| {})
    }

    /// Whether the rows are those that this program reads; where they are not, a replay gives them.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn is_built<D: Domain>(&self) -> Result<bool, ReadError> {
        for projection in D::projections() {
            if !self.is_current(projection.name(), projection.version())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Replays as [`replay`](Snapshot::replay) does and shows the rows before the first record and
    /// after each one.
    ///
    /// # Errors
    ///
    /// The first record that does not read or does not apply.
    pub fn replay_each<D: Domain>(
        &self,
        each: impl FnMut(Option<&Recorded<D::Event>>, &MemTables),
    ) -> Result<MemTables, ReadError> {
        play::<D>(self, Seq(u64::MAX), each)
    }
}

/// Replays the retained records on top of the base rows, in memory. Reads no body.
///
/// # Errors
///
/// The first record that does not read or does not apply.
pub(super) fn into_memory<D: Domain>(
    snapshot: &Snapshot,
    mut each: impl FnMut(&Recorded<D::Event>),
) -> Result<MemTables, ReadError> {
    play::<D>(snapshot, Seq(u64::MAX), |record, _| {
        if let Some(record) = record {
            each(record);
        }
    })
}

/// Replays the records up to `until`; `each` sees the rows before the first one and after each.
fn play<D: Domain>(
    snapshot: &Snapshot,
    until: Seq,
    mut each: impl FnMut(Option<&Recorded<D::Event>>, &MemTables),
) -> Result<MemTables, ReadError> {
    let mut tables = base::<D>(snapshot)?;
    each(None, &tables);
    snapshot.frames(Seq::ZERO, |seq, bytes| {
        if seq > until {
            return Ok(ControlFlow::Break(()));
        }
        let record = Recorded::<D::Event>::from_frame(seq, bytes)?;
        apply_all(D::projections(), &mut tables, &record).map_err(|e| ReadError::Engine {
            reason: format!("record {seq} does not apply: {e}"),
        })?;
        each(Some(&record), &tables);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(tables)
}

/// The last record that writes or deletes a row.
///
/// # Errors
///
/// As [`into_memory`].
pub(super) fn last_touch<D: Domain>(
    snapshot: &Snapshot,
    table: TableId,
    key: &[u8],
) -> Result<Option<Seq>, ReadError> {
    let mut watched = Watched {
        tables: base::<D>(snapshot)?,
        table,
        key,
        touched: false,
    };
    let mut last = None;
    snapshot.frames(Seq::ZERO, |seq, bytes| {
        let record = Recorded::<D::Event>::from_frame(seq, bytes)?;
        watched.touched = false;
        apply_all(D::projections(), &mut watched, &record).map_err(engine)?;
        if watched.touched {
            last = Some(seq);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(last)
}

/// Tables that notice when one row is touched.
struct Watched<'a> {
    tables: MemTables,
    table: TableId,
    key: &'a [u8],
    touched: bool,
}

impl TableReader for Watched<'_> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        self.tables.get(table, key)
    }

    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        self.tables.scan(table, from, to, visit)
    }
}

impl Tables for Watched<'_> {
    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        self.touched |= table == self.table && key == self.key;
        self.tables.put(table, key, value)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TableError> {
        self.touched |= table == self.table && key == self.key;
        self.tables.delete(table, key)
    }
}
