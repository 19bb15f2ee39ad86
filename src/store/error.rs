//! What can go wrong with a store, one enum an operation.

use std::io;
use std::path::PathBuf;

use super::guard::ENGINE_STOPPED;
use crate::domain::tables::TableError;
use crate::event::DecodeRecordError;
use crate::types::seq::Seq;

/// A store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file or its directory cannot be used.
    #[error("cannot use {path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process owns the store.
    #[error("{path} is in use by another process{}", holder_text(*holder))]
    InUse {
        /// The path.
        path: PathBuf,
        /// Its process id, where it is known.
        holder: Option<u32>,
    },
    /// The store was written by a newer program.
    #[error("{path} has store format {found}, this program reads up to {supported}")]
    FormatTooNew {
        /// The path.
        path: PathBuf,
        /// Format found.
        found: u32,
        /// Newest format that this program knows.
        supported: u32,
    },
    /// The store belongs to the other kind of program.
    #[error("{path} is a store of kind {found:?}, expected {expected:?}")]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// Kind found.
        found: String,
        /// Kind expected.
        expected: &'static str,
    },
    /// The file is damaged, or is no store at all.
    #[error("{path} is damaged or not a store: {reason}")]
    Corrupt {
        /// The path.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A crash left the store unrepaired and it may not be changed here.
    #[error("{path} was not closed cleanly and needs a repair")]
    NeedsRepair {
        /// The path.
        path: PathBuf,
    },
    /// The store is of an older format and could not be copied before it is migrated.
    #[error("{path} cannot be written: {reason}; the store was not changed")]
    Backup {
        /// Path of the copy.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// The engine failed.
    #[error("storage engine on {path}: {reason}")]
    Engine {
        /// The path.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
    /// A thread could not be started.
    #[error("cannot start the writer thread: {0}")]
    Thread(#[source] io::Error),
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

/// A command did not reach the writer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The waiting line is full; come back later.
    #[error("the writer is busy")]
    Busy,
    /// The store takes no writes any more.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// A command was not committed. Nothing of it is visible; only after
/// [`ReadOnly`](CommandError::ReadOnly) it may turn out to be there, whole, when the store is
/// reopened: a failed sync leaves that open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError<R: std::error::Error + 'static> {
    /// The domain refused it.
    #[error(transparent)]
    Refused(R),
    /// It contradicts the rows, or a row is damaged; it was refused alone.
    #[error("the command cannot be applied: {reason}")]
    Inapplicable {
        /// What does not fit.
        reason: String,
    },
    /// Another process holds the write lock for too long.
    #[error("another process{} holds the store", holder_text(*holder))]
    StoreBusy {
        /// Its process id, where it is known.
        holder: Option<u32>,
    },
    /// A newer program has changed the store; this process must not write any more.
    #[error("the store was upgraded by a newer interlink: restart this session")]
    Superseded,
    /// The storage failed; the store is read-only until it is reopened.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// The store was closed before the command was decided.
    #[error("the store is closed")]
    Closed,
}

/// Something could not be read from a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The engine failed.
    #[error("storage: {reason}")]
    Engine {
        /// What it said.
        reason: String,
    },
    /// A row does not read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A record does not read.
    #[error(transparent)]
    Record(#[from] DecodeRecordError),
    /// What a store was at a position that lies before its compaction point.
    #[error(
        "what it was at record {at} is not known: the records up to {base} were compacted, and what \
         they led to is known as of {base} only"
    )]
    Compacted {
        /// The position.
        at: Seq,
        /// The compaction point.
        base: Seq,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

impl ReadError {
    /// Whether what is there is wrong, and reading it once more would not help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            ReadError::Record(_) => true,
            ReadError::Table(e) => !matches!(
                e,
                TableError::Backend(_) | TableError::Encode { .. } | TableError::NoSuchTable { .. }
            ),
            ReadError::Engine { reason } => reason.starts_with(ENGINE_STOPPED),
            ReadError::Compacted { .. } | ReadError::Closed => false,
        }
    }
}

/// Engine errors are reported by text: which of them are fatal is decided where they occur.
pub(super) fn engine(e: impl std::fmt::Display) -> ReadError {
    ReadError::Engine {
        reason: e.to_string(),
    }
}

/// Wraps an engine error for the row traits.
pub(super) fn backend(e: impl std::error::Error + Send + Sync + 'static) -> TableError {
    TableError::Backend(Box::new(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_from_a_disk_that_fails() {
        let stopped = engine(format!("{ENGINE_STOPPED}: page 7"));
        let row = ReadError::Table(TableError::Key { table: "pending" });
        assert!(stopped.is_damage() && row.is_damage());
        let failed = ReadError::Table(backend(io::Error::other("the disk")));
        for other in [engine("I/O error"), failed, ReadError::Closed] {
            assert!(!other.is_damage(), "{other}");
        }
    }
}
