//! The row traits over redb transactions.

use std::cell::OnceCell;
use std::ops::{Bound, ControlFlow};

use redb::{
    ReadTransaction, ReadableTable, Table, TableDefinition, TableError as RedbTableError,
    WriteTransaction,
};

use super::error::backend;
use super::layout;
use crate::domain::tables::{TableError, TableId, TableReader, Tables, Visit};
use crate::event::kind::StoreKind;

type Rows<'txn> = Table<'txn, &'static [u8], &'static [u8]>;

/// As of when rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rowset {
    /// At the head of the log.
    Live,
    /// At the compaction point.
    Base,
}

impl Rowset {
    fn definition(self, table: TableId) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        match self {
            Rowset::Live => layout::rows(table),
            Rowset::Base => layout::base_rows(table),
        }
    }
}

/// The tables of one write transaction. redb refuses to open a table twice, so each is opened
/// once, here, when it is first needed: opening costs a look-up, and most batches touch few tables.
pub(super) struct WriteTables<'txn> {
    txn: &'txn WriteTransaction,
    rowset: Rowset,
    tables: Vec<(TableId, OnceCell<Rows<'txn>>)>,
}

impl<'txn> WriteTables<'txn> {
    /// The tables of a kind of store; they are created when they are first needed.
    pub(super) fn new(txn: &'txn WriteTransaction, kind: StoreKind, rowset: Rowset) -> Self {
        let ids = TableId::ALL.iter().copied();
        let tables = ids
            .filter(|id| id.store() == kind)
            .map(|id| (id, OnceCell::new()))
            .collect();
        WriteTables {
            txn,
            rowset,
            tables,
        }
    }

    fn table(&self, id: TableId) -> Result<&Rows<'txn>, TableError> {
        let (_, cell) = self
            .tables
            .iter()
            .find(|(have, _)| *have == id)
            .ok_or(TableError::NoSuchTable { table: id.name() })?;
        if let Some(rows) = cell.get() {
            return Ok(rows);
        }
        let rows = self
            .txn
            .open_table(self.rowset.definition(id))
            .map_err(backend)?;
        Ok(cell.get_or_init(|| rows))
    }

    fn table_mut(&mut self, id: TableId) -> Result<&mut Rows<'txn>, TableError> {
        self.table(id)?;
        self.tables
            .iter_mut()
            .find_map(|(have, cell)| (*have == id).then(|| cell.get_mut())?)
            .ok_or(TableError::NoSuchTable { table: id.name() })
    }

    /// Removes every row of a table.
    pub(super) fn clear(&mut self, id: TableId) -> Result<(), TableError> {
        self.table_mut(id)?.retain(|_, _| false).map_err(backend)
    }
}

fn scan_table(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    visit: Visit<'_>,
) -> Result<(), TableError> {
    for row in table.range::<&[u8]>((from, to)).map_err(backend)? {
        let (key, value) = row.map_err(backend)?;
        if let ControlFlow::Break(()) = visit(key.value(), value.value()) {
            break;
        }
    }
    Ok(())
}

impl TableReader for WriteTables<'_> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        let value = self.table(table)?.get(key).map_err(backend)?;
        Ok(value.map(|v| v.value().to_vec()))
    }

    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        scan_table(self.table(table)?, from, to, visit)
    }
}

impl Tables for WriteTables<'_> {
    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        self.table_mut(table)?.insert(key, value).map_err(backend)?;
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TableError> {
        Ok(self
            .table_mut(table)?
            .remove(key)
            .map_err(backend)?
            .is_some())
    }
}

/// The tables of one read transaction. A table that does not exist is empty.
pub(super) struct ReadTables<'txn> {
    pub(super) txn: &'txn ReadTransaction,
    pub(super) rowset: Rowset,
}

impl TableReader for ReadTables<'_> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        match self.txn.open_table(self.rowset.definition(table)) {
            Ok(rows) => {
                let value = rows.get(key).map_err(backend)?;
                Ok(value.map(|v| v.value().to_vec()))
            }
            Err(RedbTableError::TableDoesNotExist(_)) => Ok(None),
            Err(e) => Err(backend(e)),
        }
    }

    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        match self.txn.open_table(self.rowset.definition(table)) {
            Ok(rows) => scan_table(&rows, from, to, visit),
            Err(RedbTableError::TableDoesNotExist(_)) => Ok(()),
            Err(e) => Err(backend(e)),
        }
    }
}
