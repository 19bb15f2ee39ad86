//! Whole copies of a store: every table of one consistent snapshot, in a file of its own.
//!
//! The copy is made without a name and takes its own once it is durable, so that a file with that
//! name is always whole, and nothing is left of a copy that was interrupted. Pages that the original has freed are not copied.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    TableHandle, Value, WriteTransaction,
};

use super::error::{OpenError, ReadError};
use super::layout::{self, BODIES, LOG, META};
use super::open::database_error;
use super::snapshot::Snapshot;
use super::{migrate, parts};
use crate::domain::tables::TableId;

/// A store could not be copied. Nothing stands under the copy's name that was not there before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The copy's file or its directory cannot be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is a file of that name.
    #[error("{path} exists; choose another name, or move it away")]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The original cannot be read.
    #[error("the original cannot be read: {0}")]
    Read(#[from] ReadError),
    /// The original has a table that this program does not know.
    #[error("the store has a table {name:?} of a newer interlink")]
    UnknownTable {
        /// Its name.
        name: String,
    },
    /// The engine failed.
    #[error("storage engine on {path}: {reason}")]
    Engine {
        /// The copy's path.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
}

/// Copies a snapshot into a new file (0600), durable when this returns. An existing file of that
/// name is left alone.
///
/// # Errors
///
/// [`CopyError`].
pub fn copy_to(snapshot: &Snapshot, path: &Path) -> Result<(), CopyError> {
    copy_proven(snapshot, path, |_| Ok(()))
}

/// As [`copy_to`]; `prove` sees the copy before it takes its name.
///
/// # Errors
///
/// [`CopyError`], or what `prove` returned.
pub fn copy_proven<E: From<CopyError>>(
    snapshot: &Snapshot,
    path: &Path,
    prove: impl FnOnce(&Snapshot) -> Result<(), E>,
) -> Result<(), E> {
    let fill = |to: &WriteTransaction| Ok(copy_tables(snapshot.transaction(), to, path)?);
    parts::staged(path, false, fill, prove)
}

/// Keeps a store as it is before its format changes, as `<file>.bak-vN`.
pub(super) fn before_migration(db: &Database, file: &Path) -> Result<(), OpenError> {
    let engine = |reason: String| OpenError::Engine {
        path: file.to_owned(),
        reason,
    };
    let txn = db.begin_read().map_err(|e| engine(e.to_string()))?;
    let snapshot = Snapshot::new(txn);
    let format = snapshot.format().map_err(|e| engine(e.to_string()))?;
    if format == 0 || format >= migrate::FORMAT {
        return Ok(());
    }
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".bak-v{format}"));
    let path = file.with_file_name(name);
    // One that a crash left behind is of an earlier state of the same format.
    let fill = |to: &WriteTransaction| copy_tables(snapshot.transaction(), to, &path);
    parts::staged(&path, true, fill, |_| Ok(())).map_err(|e: CopyError| OpenError::Backup {
        path: path.clone(),
        reason: e.to_string(),
    })
}

fn copy_tables(
    from: &ReadTransaction,
    txn: &WriteTransaction,
    path: &Path,
) -> Result<(), CopyError> {
    let engine = |e: redb::Error| CopyError::Engine {
        path: path.to_owned(),
        reason: e.to_string(),
    };
    let names: Vec<String> = from
        .list_tables()
        .map_err(|e| engine(e.into()))?
        .map(|table| table.name().to_owned())
        .collect();
    for name in names {
        let rows = TableId::ALL.iter().find_map(|id| match name.as_str() {
            n if n == id.name() => Some(layout::rows(*id)),
            n if n == id.base_name() => Some(layout::base_rows(*id)),
            _ => None,
        });
        match (name.as_str(), rows) {
            (_, Some(table)) => copy_table(from, txn, table).map_err(engine)?,
            (n, _) if n == LOG.name() => copy_table(from, txn, LOG).map_err(engine)?,
            (n, _) if n == BODIES.name() => copy_table(from, txn, BODIES).map_err(engine)?,
            (n, _) if n == META.name() => copy_table(from, txn, META).map_err(engine)?,
            _ => return Err(CopyError::UnknownTable { name }),
        }
    }
    Ok(())
}

fn copy_table<K: Key + 'static, V: Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<'static, K, V>,
) -> Result<(), redb::Error> {
    let mut copy = to.open_table(table)?;
    for row in from.open_table(table)?.iter()? {
        let (key, value) = row?;
        copy.insert(key.value(), value.value())?;
    }
    Ok(())
}

/// Gives pages that the store no longer uses back to the file system. The store must not be open
/// anywhere. Returns the file's length before and after, in bytes.
///
/// # Errors
///
/// [`OpenError::InUse`] names whoever has it open.
pub fn shrink(path: &Path) -> Result<(u64, u64), OpenError> {
    let failed = |source| OpenError::File {
        path: path.to_owned(),
        source,
    };
    let before = fs::metadata(path).map_err(failed)?.len();
    let mut db = Builder::new()
        .open(path)
        .map_err(|e| database_error(path, e))?;
    loop {
        match db.compact() {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) => {
                return Err(OpenError::Engine {
                    path: path.to_owned(),
                    reason: e.to_string(),
                });
            }
        }
    }
    drop(db);
    let after = fs::metadata(path).map_err(failed)?.len();
    Ok((before, after))
}
