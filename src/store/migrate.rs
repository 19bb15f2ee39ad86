//! Store formats, and the steps between them (`migrations/README.md`).

use redb::{ReadableTable, WriteTransaction};

use super::layout::{META, META_FORMAT};

#[path = "../../migrations/m0001_initial.rs"]
mod m0001_initial;
#[path = "../../migrations/m0002_base.rs"]
mod m0002_base;

/// The store format that this program writes.
pub const FORMAT: u32 = 2;

type Step = fn(&WriteTransaction, &str) -> Result<(), redb::Error>;

/// The step to each format, in order: the first leads from nothing to format 1.
const STEPS: [Step; FORMAT as usize] = [m0001_initial::up, m0002_base::up];

/// Brings a store from format `from` to [`FORMAT`] inside one transaction.
pub(super) fn run(txn: &WriteTransaction, from: u32, kind: &str) -> Result<(), redb::Error> {
    for step in STEPS.iter().skip(from as usize) {
        step(txn, kind)?;
    }
    let mut meta = txn.open_table(META)?;
    meta.insert(META_FORMAT, FORMAT.to_le_bytes().as_slice())?;
    Ok(())
}

/// Reads a little-endian number from `meta`.
pub(super) fn meta_u32(txn: &WriteTransaction, key: &str) -> Result<Option<u32>, redb::Error> {
    let meta = txn.open_table(META)?;
    let value = meta.get(key)?;
    Ok(value
        .and_then(|v| v.value().try_into().ok())
        .map(u32::from_le_bytes))
}
