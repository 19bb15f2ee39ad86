//! The queues of the public program's bus, read from its file.
//!
//! That file is a redb database of the same file format as ours, with two tables of its own:
//! `messages` (recipient, NUL, 20 digits -> JSON) and `meta` (`next_seq` -> u64). It is never
//! changed: what a kill left unrepaired is repaired in memory, and a bus that runs keeps its lock on
//! it, so that it is not read beside it.
//!
//! Everything in the file is hostile until it was looked at: lengths and numbers are bounded, and a
//! panic of the engine ends in an error.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use redb::{
    ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError, TableHandle,
};

use super::error::{OpenError, ReadError, engine};
use super::layout::LOG;
use super::open::{Engine, Mode, open_reader};
use super::snapshot::guarded;
use crate::types::limit::{MAX_IMPORTED_MESSAGE_BYTES, MAX_IMPORTED_MESSAGES};

const MESSAGES: TableDefinition<'static, &'static str, &'static [u8]> =
    TableDefinition::new("messages");

/// Digits of the number at the end of a key.
const DIGITS: usize = 20;

/// A message in one of its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicMessage<'a> {
    /// Queue name; any text without NUL.
    pub to: &'a str,
    /// Its number on that bus.
    pub number: u64,
    /// The JSON of `{payload, ts}`; at most [`MAX_IMPORTED_MESSAGE_BYTES`].
    pub value: &'a [u8],
}

/// What stands in a row of `messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicRow<'a> {
    /// A message.
    Message(PublicMessage<'a>),
    /// A key that is not a queue name, NUL and a number.
    BadKey,
    /// More bytes than any message that a bus takes.
    TooLarge {
        /// Queue name.
        to: &'a str,
        /// Its number.
        number: u64,
        /// Its length in bytes.
        len: usize,
    },
}

/// The file of a public bus.
pub struct PublicBus {
    engine: Engine,
    path: PathBuf,
    /// Whether the file had to be repaired in memory first.
    pub repaired: bool,
}

impl PublicBus {
    /// Opens the file of a bus that does not run. The file is never changed.
    ///
    /// # Errors
    ///
    /// [`OpenError::InUse`] while that bus runs; [`OpenError::Corrupt`] for a damaged file and for
    /// one that is not a public bus's.
    pub fn open(path: &Path) -> Result<PublicBus, OpenError> {
        let (engine, repaired) = open_reader(path, Mode::Exclusive)?;
        let bus = PublicBus {
            engine,
            path: path.to_owned(),
            repaired,
        };
        match bus.check() {
            Ok(None) => Ok(bus),
            Ok(Some(reason)) => Err(bus.corrupt(reason.to_owned())),
            Err(e) => Err(bus.corrupt(e.to_string())),
        }
    }

    fn corrupt(&self, reason: String) -> OpenError {
        OpenError::Corrupt {
            path: self.path.clone(),
            reason,
        }
    }

    fn begin(&self) -> Result<ReadTransaction, ReadError> {
        let txn = match &self.engine {
            Engine::Writer(db) | Engine::Frozen(db) => db.begin_read(),
            Engine::Reader(db) => db.begin_read(),
        };
        txn.map_err(engine)
    }

    /// What is wrong with its tables, if anything is.
    fn check(&self) -> Result<Option<&'static str>, ReadError> {
        guarded(|| {
            let txn = self.begin()?;
            let names: Vec<String> = txn
                .list_tables()
                .map_err(engine)?
                .map(|table| table.name().to_owned())
                .collect();
            let has = |name: &str| names.iter().any(|other| other == name);
            Ok(if has(LOG.name()) {
                Some("a store of this program, not of the public one")
            } else if !names.is_empty() && !has(MESSAGES.name()) && !has("meta") {
                Some("a database of another program")
            } else {
                None
            })
        })
    }

    /// Visits every row of the queues, by queue and then by number. `Break` ends the visit.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`] for damage, and when there are more than [`MAX_IMPORTED_MESSAGES`].
    pub fn rows(
        &self,
        mut visit: impl FnMut(PublicRow<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        guarded(|| {
            let txn = self.begin()?;
            let table = match txn.open_table(MESSAGES) {
                Ok(table) => table,
                // Nothing was ever sent.
                Err(TableError::TableDoesNotExist(_)) => return Ok(()),
                Err(e) => return Err(engine(e)),
            };
            for (count, row) in table.iter().map_err(engine)?.enumerate() {
                if count >= MAX_IMPORTED_MESSAGES {
                    return Err(ReadError::Engine {
                        reason: format!("more than {MAX_IMPORTED_MESSAGES} messages"),
                    });
                }
                let (key, value) = row.map_err(engine)?;
                let value = value.value();
                let row = match split(key.value()) {
                    None => PublicRow::BadKey,
                    Some((to, number)) if value.len() > MAX_IMPORTED_MESSAGE_BYTES => {
                        let len = value.len();
                        PublicRow::TooLarge { to, number, len }
                    }
                    Some((to, number)) => PublicRow::Message(PublicMessage { to, number, value }),
                };
                if visit(row).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Takes a key apart at its last NUL.
fn split(key: &str) -> Option<(&str, u64)> {
    let (to, digits) = key.rsplit_once('\0')?;
    let plain = digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain)?;
    Some((to, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart_at_their_last_nul() {
        let number = "\0".to_owned() + "00000000000000000007";
        assert_eq!(split(&format!("k#s{number}")), Some(("k#s", 7)));
        assert_eq!(split(&format!("a\0b{number}")), Some(("a\0b", 7)));
        assert_eq!(split(&number), Some(("", 7)));
        for bad in [
            "",
            "k#s",
            "k\u{0}7",
            "k\u{0}+0000000000000000007",
            "k\u{0}99999999999999999999",
        ] {
            assert_eq!(split(bad), None, "{bad:?}");
        }
    }
}
