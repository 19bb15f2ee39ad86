//! Rows behind a trait, so that deciding and projecting know nothing of the storage engine.
//!
//! [`MemTables`] is the reference implementation: replay into it and a comparison with the stored
//! rows is what `verify` does.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::ops::{Bound, ControlFlow};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::body::{self, DecodeError, EncodeError};
use crate::event::kind::StoreKind;
use crate::types::limit::MAX_ROW_BYTES;

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $store:ident;)*) => {
        /// A projection's table. `schema/tables.md` describes each one's keys and values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum TableId {
            $($(#[$doc])* $name,)*
        }

        impl TableId {
            /// Every table, in numeric order.
            pub const ALL: &'static [TableId] = &[$(TableId::$name,)*];

            /// The stable number; never reused.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(TableId::$name => $number,)* }
            }

            /// The table of a kind of store that has this name.
            #[must_use]
            pub fn named(store: StoreKind, name: &str) -> Option<TableId> {
                let mut all = TableId::ALL.iter().copied();
                all.find(|table| table.store() == store && table.name() == name)
            }

            /// Name of the table in the store file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(TableId::$name => $text,)* }
            }

            /// Name of the table with the rows as they were at the compaction point.
            #[must_use]
            pub const fn base_name(self) -> &'static str {
                match self { $(TableId::$name => concat!("base/", $text),)* }
            }

            /// The store that has this table.
            #[must_use]
            pub const fn store(self) -> StoreKind {
                match self { $(TableId::$name => StoreKind::$store,)* }
            }
        }
    };
}

tables! {
    /// Unacknowledged messages.
    Pending = 1, "pending", Bus;
    /// Counters of messages that left unread.
    Drops = 2, "drops", Bus;
    /// The presence board.
    Roster = 3, "roster", Bus;
    /// Newest signed times of sessions, where signatures are checked.
    PresenceTimes = 4, "presence_times", Bus;
    /// Relay sessions.
    RelaySessions = 5, "relay_sessions", Bus;
    /// Who came into relay sessions.
    RelayPeers = 6, "relay_peers", Bus;
    /// Messages that wait in relay sessions.
    RelayMessages = 7, "relay_messages", Bus;
    /// Marks of what was taken over from another program's queues.
    QueueMarks = 13, "queue_marks", Bus;
    /// Admitted keys.
    Peers = 33, "peers", Agent;
    /// Hashes of every published version of `peers.json`.
    PeersPublished = 34, "peers_published", Agent;
    /// Who polls for a session.
    Sessions = 35, "sessions", Agent;
    /// Messages to send, and their state on each relay.
    Outbox = 36, "outbox", Agent;
    /// Index of the outbox by message id.
    OutboxByMsg = 37, "outbox_by_msg", Agent;
    /// Received messages.
    Mailbox = 38, "mailbox", Agent;
    /// Index of the mailbox by (message id, sender).
    MailboxByMsg = 39, "mailbox_by_msg", Agent;
    /// Ids of admitted senders' messages that were seen.
    Replay = 40, "replay", Agent;
    /// Times at or below which everything signed is stale.
    ReplayFloor = 41, "replay_floor", Agent;
    /// Messages of admitted peers that came too late.
    Expired = 42, "expired", Agent;
    /// Wake-up notices, one a session.
    Notices = 43, "notices", Agent;
    /// Which session of a peer wrote last.
    Routes = 44, "routes", Agent;
    /// Outgoing messages that some relay has not answered for good.
    OutboxOpen = 45, "outbox_open", Agent;
    /// Unread messages, by session.
    MailboxUnread = 46, "mailbox_unread", Agent;
    /// What supersedes progress updates, by task.
    MailboxTasks = 47, "mailbox_tasks", Agent;
    /// Which `peers.json` is the identity's.
    PeersFile = 48, "peers_file", Agent;
    /// What a hand edit of `peers.json` said in vain.
    PeersHeld = 49, "peers_held", Agent;
    /// Our requests to be admitted.
    PairOutbound = 50, "pair_outbound", Agent;
    /// Strangers' requests.
    PairInbound = 51, "pair_inbound", Agent;
    /// Accepted requests of ours that wait for the operator.
    PairConflicts = 52, "pair_conflicts", Agent;
    /// Strangers' requests that were decided, so that a copy changes nothing.
    PairAnswered = 53, "pair_answered", Agent;
    /// Keys whose requests are ignored.
    PairBlocked = 54, "pair_blocked", Agent;
    /// What is new about pairing, by session.
    PairNews = 55, "pair_news", Agent;
    /// Whose sessions there are.
    Directory = 58, "directory", Agent;
    /// What became of every task.
    Tasks = 59, "tasks", Agent;
    /// How a session's host can be woken.
    Hosts = 64, "hosts", Agent;
    /// How fast keys knock.
    PairPace = 67, "pair_pace", Agent;
    /// Sealed sessions, the latest.
    Bonds = 68, "bonds", Agent;
    /// Files that were offered in sealed sessions, the latest.
    BondOffers = 69, "bond_offers", Agent;
    /// Marks of what was taken over from another program and may end without a row.
    ImportMarks = 76, "import_marks", Agent;
    /// Keys that speak our own mode of sealed sessions.
    SealedPeers = 77, "sealed_peers", Agent;
}

/// Rows could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The storage engine failed.
    #[error("storage: {0}")]
    Backend(#[source] Box<dyn Error + Send + Sync>),
    /// A row does not decode.
    #[error("row of table {table}: {source}")]
    Row {
        /// The table's name.
        table: &'static str,
        /// What is wrong.
        source: DecodeError,
    },
    /// A key has the wrong length or shape.
    #[error("key of table {table} is malformed")]
    Key {
        /// The table's name.
        table: &'static str,
    },
    /// A row does not encode.
    #[error("row of table {table}: {source}")]
    Encode {
        /// The table's name.
        table: &'static str,
        /// What is wrong.
        source: EncodeError,
    },
    /// A table of the other kind of store was asked for.
    #[error("this store has no table {table}")]
    NoSuchTable {
        /// The table's name.
        table: &'static str,
    },
}

/// Called with each row of a scan; `Break` ends it.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Reading rows. Keys sort bytewise.
pub trait TableReader {
    /// The value under `key`.
    ///
    /// # Errors
    ///
    /// [`TableError::Backend`] when the engine fails.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TableError>;

    /// Visits the rows between the bounds in key order.
    ///
    /// # Errors
    ///
    /// [`TableError::Backend`] when the engine fails.
    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: Visit<'_>,
    ) -> Result<(), TableError>;
}

/// Changing rows; what was written is seen by later reads through the same object.
pub trait Tables: TableReader {
    /// Sets the value under `key`.
    ///
    /// # Errors
    ///
    /// [`TableError::Backend`] when the engine fails.
    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TableError>;

    /// Removes the row under `key`; says whether there was one.
    ///
    /// # Errors
    ///
    /// [`TableError::Backend`] when the engine fails.
    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TableError>;
}

/// Reads and decodes a row.
///
/// # Errors
///
/// [`TableError`] of the engine or the decoder.
pub fn get_row<T: DeserializeOwned>(
    tables: &(impl TableReader + ?Sized),
    table: TableId,
    key: &[u8],
) -> Result<Option<T>, TableError> {
    tables
        .get(table, key)?
        .map(|bytes| decode_row(table, &bytes))
        .transpose()
}

/// Encodes and writes a row.
///
/// # Errors
///
/// [`TableError`] of the engine or the encoder.
pub fn put_row<T: Serialize>(
    tables: &mut (impl Tables + ?Sized),
    table: TableId,
    key: &[u8],
    row: &T,
) -> Result<(), TableError> {
    let bytes = body::encode(row, MAX_ROW_BYTES).map_err(|source| TableError::Encode {
        table: table.name(),
        source,
    })?;
    tables.put(table, key, &bytes)
}

/// Decodes a row's value.
///
/// # Errors
///
/// [`TableError::Row`].
pub fn decode_row<T: DeserializeOwned>(table: TableId, bytes: &[u8]) -> Result<T, TableError> {
    body::decode(bytes).map_err(|source| TableError::Row {
        table: table.name(),
        source,
    })
}

/// Visits every row whose key starts with `prefix`, decoded; the visitor gets the rest of the key.
///
/// # Errors
///
/// [`TableError`] of the engine, the decoder or the visitor.
pub fn scan_rows<T: DeserializeOwned>(
    tables: &(impl TableReader + ?Sized),
    table: TableId,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], T) -> Result<ControlFlow<()>, TableError>,
) -> Result<(), TableError> {
    let end = prefix_end(prefix);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut failed = None;
    tables.scan(table, Bound::Included(prefix), to, &mut |key, value| {
        let rest = key.get(prefix.len()..).unwrap_or_default();
        match decode_row(table, value).and_then(|row| visit(rest, row)) {
            Ok(flow) => flow,
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// The smallest key above every key with this prefix; `None` when there is none.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

/// Builds composite keys whose byte order is the order of their parts.
#[derive(Clone, Debug, Default)]
pub struct KeyBuilder(Vec<u8>);

impl KeyBuilder {
    /// An empty key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes of a fixed length.
    #[must_use]
    pub fn fixed(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a number, big endian.
    #[must_use]
    pub fn number(self, n: u64) -> Self {
        self.fixed(&n.to_be_bytes())
    }

    /// Appends bytes of any length, self-delimiting: every NUL becomes `00 FF`, the end `00 00`.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0.push(*byte);
            if *byte == 0 {
                self.0.push(0xFF);
            }
        }
        self.0.extend_from_slice(&[0, 0]);
        self
    }

    /// The finished key.
    #[must_use]
    pub fn build(self) -> Vec<u8> {
        self.0
    }
}

/// Rows in memory: the reference for what a store must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemTables(BTreeMap<TableId, BTreeMap<Vec<u8>, Vec<u8>>>);

impl MemTables {
    /// No rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows of a table.
    #[must_use]
    pub fn count(&self, table: TableId) -> usize {
        self.0.get(&table).map_or(0, BTreeMap::len)
    }

    /// All rows of a table, in key order.
    pub fn rows(&self, table: TableId) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0
            .get(&table)
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.as_slice(), v.as_slice()))
    }
}

impl TableReader for MemTables {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        Ok(self.0.get(&table).and_then(|rows| rows.get(key)).cloned())
    }

    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        let Some(rows) = self.0.get(&table) else {
            return Ok(());
        };
        for (key, value) in rows.range::<[u8], _>((from, to)) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Tables for MemTables {
    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        self.0
            .entry(table)
            .or_default()
            .insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TableError> {
        // An empty table and an absent one must compare equal.
        let Entry::Occupied(mut rows) = self.0.entry(table) else {
            return Ok(false);
        };
        let existed = rows.get_mut().remove(key).is_some();
        if rows.get().is_empty() {
            rows.remove();
        }
        Ok(existed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn table_numbers_and_names_are_unique() {
        let numbers: BTreeSet<_> = TableId::ALL.iter().map(|t| t.number()).collect();
        let names: BTreeSet<_> = TableId::ALL.iter().map(|t| t.name()).collect();
        assert_eq!(numbers.len(), TableId::ALL.len());
        assert_eq!(names.len(), TableId::ALL.len());
    }

    #[test]
    fn composite_keys_are_injective_and_sort_like_their_parts() {
        let key = |a: &[u8], b: &[u8]| KeyBuilder::new().bytes(a).bytes(b).build();
        let parts: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"ab"];
        let mut keys = Vec::new();
        for a in parts {
            for b in parts {
                keys.push(((a, b), key(a, b)));
            }
        }
        for (left, left_key) in &keys {
            for (right, right_key) in &keys {
                assert_eq!(
                    left.cmp(right),
                    left_key.cmp(right_key),
                    "{left:?} {right:?}"
                );
            }
        }
    }

    #[test]
    fn prefix_scan_stops_at_the_end_of_the_prefix() {
        let mut tables = MemTables::new();
        for key in [&[1, 0xFF][..], &[1, 0xFF, 7], &[2]] {
            put_row(&mut tables, TableId::Drops, key, &1u8).unwrap();
        }
        let mut seen = 0;
        scan_rows::<u8>(&tables, TableId::Drops, &[1, 0xFF], |_, _| {
            seen += 1;
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        assert_eq!(seen, 2);
    }
}
