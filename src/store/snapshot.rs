//! A consistent view of a store at one position.

use std::ops::{Bound, ControlFlow};

use redb::{ReadTransaction, ReadableTable, TableError as RedbTableError};

use super::compact::{self, Cut, LogSize, Retention};
use super::error::{ReadError, engine};
use super::redb_tables::{ReadTables, Rowset};
use super::{guard, layout};
use crate::domain::Bodies;
use crate::domain::tables::{TableError, TableId, TableReader, Visit};
use crate::event::{Recorded, StoredEvent};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Called with each position and its bytes; `Break` ends the visit.
type VisitNumbered<'a> = &'a mut dyn FnMut(Seq, &[u8]) -> Result<ControlFlow<()>, ReadError>;

/// A read transaction. Pages that it can see are not reused while it lives: keep it short, and
/// never across an await.
pub struct Snapshot {
    txn: ReadTransaction,
}

impl Snapshot {
    pub(super) fn new(txn: ReadTransaction) -> Self {
        Snapshot { txn }
    }

    pub(super) fn transaction(&self) -> &ReadTransaction {
        &self.txn
    }

    /// Position of the last record; [`Seq::ZERO`] for an empty log.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn head(&self) -> Result<Seq, ReadError> {
        guarded(|| {
            let Some(log) = self.numbered(layout::LOG)? else {
                return Ok(Seq::ZERO);
            };
            let last = log.last().map_err(engine)?;
            Ok(last.map_or(Seq::ZERO, |(seq, _)| Seq(seq.value())))
        })
    }

    /// Position of the first record that is retained; `None` for an empty log.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn first(&self) -> Result<Option<Seq>, ReadError> {
        guarded(|| {
            let Some(log) = self.numbered(layout::LOG)? else {
                return Ok(None);
            };
            let first = log.first().map_err(engine)?;
            Ok(first.map(|(seq, _)| Seq(seq.value())))
        })
    }

    /// The bytes of the frame at a position.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn frame(&self, seq: Seq) -> Result<Option<Vec<u8>>, ReadError> {
        guarded(|| self.number_value(layout::LOG, seq))
    }

    /// The record at a position.
    ///
    /// # Errors
    ///
    /// [`ReadError::Record`] when the frame is broken or its event unknown.
    pub fn record<E: StoredEvent>(&self, seq: Seq) -> Result<Option<Recorded<E>>, ReadError> {
        self.frame(seq)?
            .map(|bytes| Recorded::from_frame(seq, &bytes).map_err(ReadError::from))
            .transpose()
    }

    /// The body at a position.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn body(&self, seq: Seq) -> Result<Option<Vec<u8>>, ReadError> {
        guarded(|| self.number_value(layout::BODIES, seq))
    }

    /// Visits the frames from `from` on, in order of position.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`], or what the visitor returned.
    pub fn frames(
        &self,
        from: Seq,
        mut visit: impl FnMut(Seq, &[u8]) -> Result<ControlFlow<()>, ReadError>,
    ) -> Result<(), ReadError> {
        guarded(|| self.numbered_rows(layout::LOG, from, &mut visit))
    }

    /// Visits the bodies in order of position.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`], or what the visitor returned.
    pub fn bodies(
        &self,
        mut visit: impl FnMut(Seq, &[u8]) -> Result<ControlFlow<()>, ReadError>,
    ) -> Result<(), ReadError> {
        guarded(|| self.numbered_rows(layout::BODIES, Seq::ZERO, &mut visit))
    }

    /// Position up to which the rows follow the log.
    pub(super) fn applied(&self) -> Result<Seq, ReadError> {
        self.meta_seq(layout::META_APPLIED)
    }

    fn meta_seq(&self, key: &str) -> Result<Seq, ReadError> {
        let bytes = self.meta(key)?.and_then(|bytes| bytes.try_into().ok());
        Ok(bytes.map_or(Seq::ZERO, |bytes| Seq(u64::from_le_bytes(bytes))))
    }

    /// The compaction point: records up to it are gone, what followed from them stands in the base
    /// rows. [`Seq::ZERO`] while nothing was compacted.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn base(&self) -> Result<Seq, ReadError> {
        self.meta_seq(layout::META_BASE)
    }

    /// The rows as they were at the compaction point.
    #[must_use]
    pub fn base_rows(&self) -> BaseRows<'_> {
        BaseRows(self)
    }

    fn rows(&self, rowset: Rowset) -> ReadTables<'_> {
        ReadTables {
            txn: &self.txn,
            rowset,
        }
    }

    /// Number of records that are retained, and an estimate of the bytes of their frames from the
    /// oldest and the newest of them.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn log_size(&self) -> Result<LogSize, ReadError> {
        guarded(|| match self.numbered(layout::LOG)? {
            None => Ok(LogSize::default()),
            Some(log) => compact::log_size(&log).map_err(engine),
        })
    }

    /// What exceeds a retention by enough to be worth folding.
    pub(super) fn due(
        &self,
        retention: &Retention,
        now: UnixMillis,
    ) -> Result<Option<Cut>, ReadError> {
        guarded(|| match self.numbered(layout::LOG)? {
            None => Ok(None),
            Some(log) => retention.due(&log, now).map_err(engine),
        })
    }

    /// Whether the rows of a projection are of this version.
    pub(super) fn is_current(&self, projection: &str, version: u16) -> Result<bool, ReadError> {
        let key = format!("{}{projection}", layout::META_PROJECTION);
        Ok(self.meta(&key)?.as_deref() == Some(&version.to_le_bytes()))
    }

    pub(super) fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, ReadError> {
        guarded(|| match self.txn.open_table(layout::META) {
            Ok(meta) => Ok(meta.get(key).map_err(engine)?.map(|v| v.value().to_vec())),
            Err(RedbTableError::TableDoesNotExist(_)) => Ok(None),
            Err(e) => Err(engine(e)),
        })
    }

    fn numbered(
        &self,
        table: redb::TableDefinition<'static, u64, &'static [u8]>,
    ) -> Result<Option<redb::ReadOnlyTable<u64, &'static [u8]>>, ReadError> {
        match self.txn.open_table(table) {
            Ok(table) => Ok(Some(table)),
            Err(RedbTableError::TableDoesNotExist(_)) => Ok(None),
            Err(e) => Err(engine(e)),
        }
    }

    fn number_value(
        &self,
        table: redb::TableDefinition<'static, u64, &'static [u8]>,
        seq: Seq,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(table) = self.numbered(table)? else {
            return Ok(None);
        };
        let value = table.get(seq.0).map_err(engine)?;
        Ok(value.map(|v| v.value().to_vec()))
    }

    fn numbered_rows(
        &self,
        table: redb::TableDefinition<'static, u64, &'static [u8]>,
        from: Seq,
        visit: VisitNumbered<'_>,
    ) -> Result<(), ReadError> {
        let Some(table) = self.numbered(table)? else {
            return Ok(());
        };
        for row in table.range(from.0..).map_err(engine)? {
            let (seq, bytes) = row.map_err(engine)?;
            if visit(Seq(seq.value()), bytes.value())?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Turns a panic of the engine on a damaged file into an error.
pub(super) fn guarded<T>(f: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    guard::guarded(f, |reason| ReadError::Engine { reason })
}

fn guarded_rows<T>(f: impl FnOnce() -> Result<T, TableError>) -> Result<T, TableError> {
    guard::guarded(f, |reason| TableError::Backend(reason.into()))
}

impl TableReader for Snapshot {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        guarded_rows(|| self.rows(Rowset::Live).get(table, key))
    }

    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        guarded_rows(|| self.rows(Rowset::Live).scan(table, from, to, visit))
    }
}

impl Bodies for Snapshot {
    fn body(&self, seq: Seq) -> Result<Option<Vec<u8>>, TableError> {
        Snapshot::body(self, seq).map_err(|e| TableError::Backend(e.to_string().into()))
    }
}

/// See [`Snapshot::base_rows`].
pub struct BaseRows<'a>(&'a Snapshot);

impl TableReader for BaseRows<'_> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        guarded_rows(|| self.0.rows(Rowset::Base).get(table, key))
    }

    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        guarded_rows(|| self.0.rows(Rowset::Base).scan(table, from, to, visit))
    }
}
