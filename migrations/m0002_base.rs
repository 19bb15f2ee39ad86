//! Format 2: a log that can be compacted.
//!
//! Before: the log holds every record since the first. After: `meta/base_seq` says up to which
//! record the log was folded into base rows, 0 while it was not. The tables `base/<name>` are made
//! when they are first written. A program of format 1 would replay the rest of the log onto empty
//! tables and believe it, so `min_writer` rises.
//!
//! The rows of `pending` gained the message's own id with this format; they are rebuilt from the log
//! when the store is opened, as after every change of a projection's version.
//!
//! Undo: use the copy `<file>.bak-v1`. A store that was never compacted and holds no record of a
//! newer version can be taken back by setting `format` and `min_writer` to 1.

use redb::{TableDefinition, WriteTransaction};

const META: TableDefinition<'static, &'static str, &'static [u8]> = TableDefinition::new("meta");

/// Notes that nothing was compacted yet.
pub(super) fn up(txn: &WriteTransaction, _kind: &str) -> Result<(), redb::Error> {
    let mut meta = txn.open_table(META)?;
    meta.insert("base_seq", 0u64.to_le_bytes().as_slice())?;
    meta.insert("min_writer", 2u32.to_le_bytes().as_slice())?;
    Ok(())
}
