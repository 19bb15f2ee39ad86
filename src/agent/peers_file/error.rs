//! What is wrong with the allowlist.

use std::io;
use std::path::PathBuf;

use crate::agent::ledger::LedgerError;
use crate::wire::peers::PeersError;

/// The allowlist cannot be relied upon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeersFileError {
    /// The file does not read. Intake pauses until it is mended.
    #[error("{} is broken, and no mail is taken in until it is mended: {reason}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file was there and is gone. Intake pauses until it is back.
    #[error(
        "{} is gone, and no mail is taken in until it is back; a list of nobody is {{}}",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The identity's peers stand in another file.
    #[error(
        "the peers of this identity stand in {adopted}, so {} is not used; start with --peers \
         {adopted}, or with --adopt-peers to switch to this file for good",
        path.display()
    )]
    Elsewhere {
        /// The file that was named.
        path: PathBuf,
        /// The identity's file.
        adopted: String,
    },
    /// The file cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another writer does not finish.
    #[error("another process holds {} for too long", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The log was changed, but the file could not be brought up to it.
    #[error("the change counts, but the peers file could not be written: {0}")]
    Behind(String),
    /// The log's peers do not print.
    #[error(transparent)]
    Text(#[from] PeersError),
    /// The log did not answer.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The program is ending.
    #[error("the program is ending")]
    Stopped,
}
