//! Format 1: the first one.
//!
//! Before: an empty file. After: tables `log`, `bodies` and `meta`, and in `meta` the format, the
//! oldest format whose programs may write here, and the kind of store. The tables of the
//! projections are made when they are first written. Undo: delete the file.

use redb::{TableDefinition, WriteTransaction};

const LOG: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("log");
const BODIES: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("bodies");
const META: TableDefinition<'static, &'static str, &'static [u8]> = TableDefinition::new("meta");

/// Makes the tables of an empty store.
pub(super) fn up(txn: &WriteTransaction, kind: &str) -> Result<(), redb::Error> {
    txn.open_table(LOG)?;
    txn.open_table(BODIES)?;
    let mut meta = txn.open_table(META)?;
    meta.insert("kind", kind.as_bytes())?;
    meta.insert("min_writer", 1u32.to_le_bytes().as_slice())?;
    Ok(())
}
