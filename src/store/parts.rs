//! A store as the parts that it is made of, and new stores made of parts.
//!
//! A new file is filled without a name, closed, opened again for reading and proven; it takes its name
//! last. A file of that name is therefore whole and proven, or it is not there.

use std::fs;
use std::io;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use redb::{Builder, Table, TableHandle as _, WriteTransaction};

use super::backup::CopyError;
use super::dir::{create_private_dir, parent, sync_dir};
use super::error::{ReadError, engine};
use super::fresh::Fresh;
use super::layout::{BODIES, LOG, META, META_FORMAT};
use super::open::{Mode, database_error};
use super::redb_tables::{Rowset, WriteTables};
use super::snapshot::{Snapshot, guarded as guarded_read};
use super::{Reader, guard};
use crate::domain::Domain;
use crate::domain::tables::{TableId, TableReader as _, Tables as _};
use crate::event::kind::StoreKind;
use crate::types::seq::Seq;

/// Memory for the pages of a new file: it is written once, beside a program that has other work.
const CACHE_BYTES: usize = 32 << 20;

/// How the name of a file begins that cannot do without one before it is whole.
const HIDDEN: &str = ".interlink-copy-";

/// One thing that a store consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A fact about the store itself.
    Meta {
        /// Its name.
        key: &'a str,
        /// The fact.
        value: &'a [u8],
    },
    /// A record.
    Record {
        /// Its position.
        seq: Seq,
        /// Its bytes.
        frame: &'a [u8],
    },
    /// A message body.
    Body {
        /// Its position.
        seq: Seq,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A row of a projection.
    Row {
        /// The table.
        table: TableId,
        /// Whether it is a row as of the compaction point.
        base: bool,
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
}

impl Snapshot {
    /// Visits everything that the store consists of: facts, base rows, records, bodies, rows.
    ///
    /// # Errors
    ///
    /// The engine's, or what the visitor returned; a table that this program does not know.
    pub fn parts<E: From<ReadError>>(
        &self,
        visit: &mut dyn FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.known_tables()?;
        let facts = self.facts()?;
        for (key, value) in &facts {
            visit(Part::Meta { key, value })?;
        }
        self.rows_as_parts(true, visit)?;
        let mut failed = None;
        self.frames(Seq::ZERO, |seq, frame| {
            Ok(keep(visit(Part::Record { seq, frame }), &mut failed))
        })?;
        failed.map_or(Ok(()), Err)?;
        let mut failed = None;
        self.bodies(|seq, bytes| Ok(keep(visit(Part::Body { seq, bytes }), &mut failed)))?;
        failed.map_or(Ok(()), Err)?;
        self.rows_as_parts(false, visit)
    }

    fn rows_as_parts<E: From<ReadError>>(
        &self,
        base: bool,
        visit: &mut dyn FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for table in TableId::ALL.iter().copied() {
            let mut failed = None;
            let mut row = |key: &[u8], value: &[u8]| {
                let part = Part::Row {
                    table,
                    base,
                    key,
                    value,
                };
                keep(visit(part), &mut failed)
            };
            let (from, to) = (Bound::Unbounded, Bound::Unbounded);
            if base {
                self.base_rows().scan(table, from, to, &mut row)
            } else {
                self.scan(table, from, to, &mut row)
            }
            .map_err(ReadError::from)?;
            failed.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// The store's format; 0 where the file does not say.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn format(&self) -> Result<u32, ReadError> {
        let bytes = self.meta(META_FORMAT)?.and_then(|b| b.try_into().ok());
        Ok(bytes.map_or(0, u32::from_le_bytes))
    }

    /// The projections whose rows are of another version than this program's: the next open for
    /// writing builds them anew.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn unbuilt<D: Domain>(&self) -> Result<Vec<&'static str>, ReadError> {
        let mut names = vec![];
        for projection in D::projections() {
            if !self.is_current(projection.name(), projection.version())? {
                names.push(projection.name());
            }
        }
        Ok(names)
    }

    /// Everything in `meta`.
    pub(super) fn facts(&self) -> Result<Vec<(String, Vec<u8>)>, ReadError> {
        guarded_read(|| {
            let mut facts = vec![];
            let meta = match self.transaction().open_table(META) {
                Ok(meta) => meta,
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(facts),
                Err(e) => return Err(engine(e)),
            };
            for row in redb::ReadableTable::iter(&meta).map_err(engine)? {
                let (key, value) = row.map_err(engine)?;
                facts.push((key.value().to_owned(), value.value().to_vec()));
            }
            Ok(facts)
        })
    }

    fn known_tables(&self) -> Result<(), ReadError> {
        guarded_read(|| {
            for table in self.transaction().list_tables().map_err(engine)? {
                let name = table.name();
                let known = [LOG.name(), BODIES.name(), META.name()].contains(&name)
                    || TableId::ALL
                        .iter()
                        .any(|id| id.name() == name || id.base_name() == name);
                if !known {
                    return Err(engine(format!(
                        "the store has a table {name:?} of a newer interlink"
                    )));
                }
            }
            Ok(())
        })
    }
}

fn keep<E>(done: Result<(), E>, failed: &mut Option<E>) -> ControlFlow<()> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(e) => {
            *failed = Some(e);
            ControlFlow::Break(())
        }
    }
}

/// A new store that takes parts.
pub struct Parts<'txn> {
    path: &'txn Path,
    log: Table<'txn, u64, &'static [u8]>,
    bodies: Table<'txn, u64, &'static [u8]>,
    meta: Table<'txn, &'static str, &'static [u8]>,
    live: WriteTables<'txn>,
    base: WriteTables<'txn>,
}

impl<'txn> Parts<'txn> {
    fn new(
        txn: &'txn WriteTransaction,
        path: &'txn Path,
        kind: StoreKind,
    ) -> Result<Self, CopyError> {
        let failed = |e: redb::TableError| failure(path, e);
        Ok(Parts {
            path,
            log: txn.open_table(LOG).map_err(failed)?,
            bodies: txn.open_table(BODIES).map_err(failed)?,
            meta: txn.open_table(META).map_err(failed)?,
            live: WriteTables::new(txn, kind, Rowset::Live),
            base: WriteTables::new(txn, kind, Rowset::Base),
        })
    }

    /// Adds a part; what has the same key is replaced.
    ///
    /// # Errors
    ///
    /// [`CopyError::Engine`], also for a table of the other kind of store.
    pub fn put(&mut self, part: Part<'_>) -> Result<(), CopyError> {
        let path = self.path;
        let storage = |e: redb::StorageError| failure(path, e);
        match part {
            Part::Meta { key, value } => {
                self.meta.insert(key, value).map_err(storage)?;
            }
            Part::Record { seq, frame } => {
                self.log.insert(seq.0, frame).map_err(storage)?;
            }
            Part::Body { seq, bytes } => {
                self.bodies.insert(seq.0, bytes).map_err(storage)?;
            }
            Part::Row {
                table,
                base,
                key,
                value,
            } => {
                let rows = if base { &mut self.base } else { &mut self.live };
                rows.put(table, key, value).map_err(|e| failure(path, e))?;
            }
        }
        Ok(())
    }
}

fn failure(path: &Path, e: impl std::fmt::Display) -> CopyError {
    CopyError::Engine {
        path: path.to_owned(),
        reason: e.to_string(),
    }
}

/// Makes a new store file (0600) of parts, durable and proven when this returns. An existing file
/// of that name is left alone.
///
/// # Errors
///
/// [`CopyError`], or what `fill` or `prove` returned; nothing stands under the name then that was
/// not there before.
pub fn build<E: From<CopyError>>(
    path: &Path,
    kind: StoreKind,
    fill: impl FnOnce(&mut Parts<'_>) -> Result<(), E>,
    prove: impl FnOnce(&Snapshot) -> Result<(), E>,
) -> Result<(), E> {
    let fill = |txn: &WriteTransaction| fill(&mut Parts::new(txn, path, kind)?);
    staged(path, false, fill, prove)
}

/// See the module's documentation. `replace`: an existing file of that name gives way.
pub(super) fn staged<E: From<CopyError>>(
    path: &Path,
    replace: bool,
    fill: impl FnOnce(&WriteTransaction) -> Result<(), E>,
    prove: impl FnOnce(&Snapshot) -> Result<(), E>,
) -> Result<(), E> {
    let exists = || CopyError::Exists {
        path: path.to_owned(),
    };
    // A link that leads nowhere is in the way as well.
    if !replace && fs::symlink_metadata(path).is_ok() {
        return Err(exists().into());
    }
    let failed = |source: io::Error| CopyError::File {
        path: path.to_owned(),
        source,
    };
    let dir = parent(path);
    create_private_dir(dir).map_err(failed)?;
    let fresh = if replace {
        Fresh::hidden(dir, HIDDEN)
    } else {
        Fresh::in_folder(dir, HIDDEN)
    };
    let fresh = fresh.map_err(failed)?;
    let new = fresh.path();
    let stopped = |reason: String| failure(path, reason).into();
    guard::guarded(
        || {
            let mut builder = Builder::new();
            builder.set_cache_size(CACHE_BYTES);
            let db = builder.create(&new);
            let db = db.map_err(|e| failure(path, database_error(path, e)))?;
            let txn = db.begin_write().map_err(|e| failure(path, e))?;
            fill(&txn)?;
            txn.commit().map_err(|e| failure(path, e))?;
            Ok::<(), E>(())
        },
        stopped,
    )?;
    fresh.file().sync_all().map_err(failed)?;
    let reader = Reader::open(&new, Mode::Exclusive).map_err(|e| failure(path, e))?;
    let snapshot = reader.snapshot().map_err(CopyError::from)?;
    prove(&snapshot)?;
    drop((snapshot, reader));
    let named = if replace {
        fresh.replace(path)
    } else {
        fresh.publish(path)
    };
    named.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists if !replace => exists(),
        _ => failed(e),
    })?;
    sync_dir(dir).map_err(failed)?;
    Ok(())
}
