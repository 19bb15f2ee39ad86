//! Opening a store file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redb::backends::InMemoryBackend;
use redb::{
    Builder, ConcurrencyMode, Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase,
    StorageError, TableHandle, WriteTransaction,
};

#[cfg(feature = "testkit")]
use super::boxed;
use super::compact::Retention;
use super::dir::{create_private_dir, parent, sync_dir};
use super::error::{OpenError, ReadError, engine};
use super::layout::{META, META_FORMAT, META_KIND};
use super::overlay::Overlay;
use super::snapshot::{Snapshot, guarded as guarded_read};
use super::{backup, guard, migrate, owner, replay};
use crate::domain::Domain;
use crate::types::seq::Seq;

/// Where a store lives.
#[derive(Clone, Debug)]
pub enum Location {
    /// A file; it and its directories are created when missing (0600, 0700).
    File(PathBuf),
    /// Memory only: gone with the process.
    Memory,
    /// A backend of the tests.
    #[cfg(feature = "testkit")]
    Backend(Arc<dyn BackendSource>),
}

/// A storage backend that tests control.
#[cfg(feature = "testkit")]
pub trait BackendSource: std::fmt::Debug + Send + Sync {
    /// A handle for the engine.
    fn backend(&self) -> Box<dyn redb::StorageBackend>;
    /// The bytes as a reader of the file would see them.
    fn image(&self) -> Vec<u8>;
}

/// Who may write a store beside this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nobody. One sync a commit.
    Exclusive,
    /// Any number of processes, one at a time. Two syncs a commit.
    Shared,
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Where it is.
    pub location: Location,
    /// Who may write it.
    pub mode: Mode,
    /// Memory for the engine's page cache, in bytes.
    pub cache_bytes: usize,
    /// How long opening, and each write, waits for another process.
    pub deadline: Duration,
    /// Rebuild every projection from the log, whatever version its rows have.
    pub rebuild: bool,
    /// After this long without work, save what spares the next open a repair (one more commit, with
    /// two syncs). For exclusive stores; every commit of a shared one does that anyway.
    pub checkpoint_idle: Option<Duration>,
    /// Copy the file to `<file>.bak-vN` before it is brought from format N to the current one.
    pub backup: bool,
    /// How much history is kept; `None`: all of it. What exceeds it is compacted by and by.
    pub retention: Option<Retention>,
}

impl OpenOptions {
    /// A bus's store: this process alone, a cache of 64 MiB.
    #[must_use]
    pub fn exclusive(location: Location) -> Self {
        OpenOptions {
            location,
            mode: Mode::Exclusive,
            cache_bytes: 64 << 20,
            deadline: Duration::from_secs(5),
            rebuild: false,
            checkpoint_idle: None,
            backup: true,
            retention: None,
        }
    }

    /// An identity's store: shared with sibling processes, a cache of 16 MiB.
    #[must_use]
    pub fn shared(location: Location) -> Self {
        OpenOptions {
            mode: Mode::Shared,
            cache_bytes: 16 << 20,
            ..Self::exclusive(location)
        }
    }

    /// The file's path, for messages.
    pub(super) fn path(&self) -> PathBuf {
        match &self.location {
            Location::File(path) => path.clone(),
            Location::Memory => PathBuf::from("(memory)"),
            #[cfg(feature = "testkit")]
            Location::Backend(_) => PathBuf::from("(test backend)"),
        }
    }

    fn builder(&self) -> Builder {
        builder(self.mode, self.cache_bytes)
    }
}

pub(super) fn builder(mode: Mode, cache_bytes: usize) -> Builder {
    let mut builder = Builder::new();
    builder
        .set_cache_size(cache_bytes)
        .set_concurrency_mode(match mode {
            Mode::Exclusive => ConcurrencyMode::ExclusiveWriter,
            Mode::Shared => ConcurrencyMode::MultiWriter,
        });
    builder
}

/// Files up to this size are checked page by page when they are opened; larger ones only when a
/// crash left them unrepaired.
const CHECK_ON_OPEN_BYTES: u64 = 32 << 20;

/// The engine behind a store.
pub(super) enum Engine {
    /// Takes writes.
    Writer(Database),
    /// Reads beside a writer.
    Reader(ReadOnlyDatabase),
    /// Reads a file that must not be changed; repairs stay in memory.
    Frozen(Database),
}

impl Engine {
    pub(super) fn snapshot(&self) -> Result<Snapshot, ReadError> {
        guarded_read(|| {
            let txn = match self {
                Engine::Writer(db) | Engine::Frozen(db) => db.begin_read(),
                Engine::Reader(db) => db.begin_read(),
            };
            Ok(Snapshot::new(txn.map_err(engine)?))
        })
    }
}

/// What opening leads to.
pub(super) struct Opened<D: Domain> {
    pub(super) engine: Arc<Engine>,
    pub(super) index: D::Index,
    pub(super) head: Seq,
}

/// Opens a store for writing; see [`super::Store::open`].
pub(super) fn open<D: Domain>(options: &OpenOptions) -> Result<Opened<D>, OpenError> {
    if options.mode == Mode::Exclusive {
        return open_now(options);
    }
    let owned = options.clone();
    with_deadline(&options.path(), options.deadline, move || open_now(&owned))
}

fn open_now<D: Domain>(options: &OpenOptions) -> Result<Opened<D>, OpenError> {
    let path = options.path();
    let db = open_database::<D>(options)?;
    let corrupt = |e: ReadError| OpenError::Corrupt {
        path: path.clone(),
        reason: e.to_string(),
    };
    let failed = |e: redb::Error| OpenError::Engine {
        path: path.clone(),
        reason: e.to_string(),
    };
    let prepared = guarded(&path, || {
        if let Location::File(file) = &options.location
            && options.backup
        {
            backup::before_migration(&db, file)?;
        }
        let txn = db.begin_write().map_err(|e| failed(e.into()))?;
        let migrated = check_meta::<D>(&txn, &path)?;
        let (head, changed) = replay::catch_up::<D>(&txn, options.rebuild).map_err(corrupt)?;
        if migrated || changed {
            txn.commit().map_err(|e| failed(e.into()))?;
        } else {
            txn.abort().map_err(|e| failed(e.into()))?;
        }
        let engine = Engine::Writer(db);
        let snapshot = engine.snapshot().map_err(corrupt)?;
        let mut index = D::build_index(&snapshot).map_err(|e| corrupt(e.into()))?;
        D::index_bodies(&mut index, &snapshot).map_err(|e| corrupt(e.into()))?;
        Ok(Opened {
            engine: Arc::new(engine),
            index,
            head,
        })
    })?;
    Ok(prepared)
}

/// Refuses stores of another kind or a newer format, and databases that are no store; migrates
/// older ones and says so.
fn check_meta<D: Domain>(txn: &WriteTransaction, path: &Path) -> Result<bool, OpenError> {
    let failed = |e: redb::Error| OpenError::Engine {
        path: path.to_owned(),
        reason: e.to_string(),
    };
    let foreign = || OpenError::Corrupt {
        path: path.to_owned(),
        reason: "a database of another program".to_owned(),
    };
    let mut names = txn.list_tables().map_err(|e| failed(e.into()))?.peekable();
    let empty = names.peek().is_none();
    if !empty && !names.any(|table| table.name() == META.name()) {
        return Err(foreign());
    }
    let found = migrate::meta_u32(txn, META_FORMAT)
        .map_err(failed)?
        .unwrap_or(0);
    if found > migrate::FORMAT {
        let supported = migrate::FORMAT;
        return Err(OpenError::FormatTooNew {
            path: path.to_owned(),
            found,
            supported,
        });
    }
    if found == 0 && !empty {
        return Err(foreign());
    }
    if found < migrate::FORMAT {
        migrate::run(txn, found, D::KIND.name()).map_err(failed)?;
    }
    let meta = txn.open_table(META).map_err(|e| failed(e.into()))?;
    let kind = redb::ReadableTable::get(&meta, META_KIND)
        .map_err(|e| failed(e.into()))?
        .map(|v| String::from_utf8_lossy(v.value()).into_owned())
        .unwrap_or_default();
    if kind != D::KIND.name() {
        let expected = D::KIND.name();
        return Err(OpenError::WrongKind {
            path: path.to_owned(),
            found: kind,
            expected,
        });
    }
    Ok(found < migrate::FORMAT)
}

fn open_database<D: Domain>(options: &OpenOptions) -> Result<Database, OpenError> {
    let path = options.path();
    match &options.location {
        Location::Memory => guarded(&path, || {
            let mut builder = builder(Mode::Exclusive, options.cache_bytes);
            builder.set_check_integrity_on_open(false);
            builder
                .create_with_backend(InMemoryBackend::new())
                .map_err(|e| database_error(&path, e))
        }),
        #[cfg(feature = "testkit")]
        Location::Backend(source) => guarded(&path, || {
            options
                .builder()
                .create_with_backend(boxed::Boxed(source.backend()))
                .map_err(|e| database_error(&path, e))
        }),
        Location::File(file) => {
            if !file.exists()
                && let Some(db) = create_file::<D>(file, options)?
            {
                return Ok(db);
            }
            // Whoever made the file may have died before its name was durable.
            sync_dir(parent(file)).map_err(|source| OpenError::File {
                path: file.clone(),
                source,
            })?;
            let len = fs::metadata(file).map_or(0, |m| m.len());
            let check = options.mode == Mode::Exclusive && len <= CHECK_ON_OPEN_BYTES;
            guarded(file, || {
                let mut builder = options.builder();
                builder.set_check_integrity_on_open(check);
                // A repair walks the pages twice; with a cache that holds them, it reads them once.
                let room = usize::try_from(len)
                    .unwrap_or(usize::MAX)
                    .min(REPAIR_CACHE_BYTES);
                if options.mode == Mode::Exclusive && room > options.cache_bytes {
                    builder.set_cache_size(room);
                    drop(builder.open(file).map_err(|e| database_error(file, e))?);
                    builder.set_cache_size(options.cache_bytes);
                }
                builder.open(file).map_err(|e| database_error(file, e))
            })
        }
    }
}

/// Page cache while a store is opened; given back before it is used.
const REPAIR_CACHE_BYTES: usize = 512 << 20;

/// Makes a complete store under a temporary name and links it to its own, so that a crash leaves
/// either no store or a whole one. `None`: a sibling was faster, its store is as good.
fn create_file<D: Domain>(
    path: &Path,
    options: &OpenOptions,
) -> Result<Option<Database>, OpenError> {
    let failed = |source| OpenError::File {
        path: path.to_owned(),
        source,
    };
    let parent = parent(path);
    create_private_dir(parent).map_err(failed)?;
    let temp = tempfile::Builder::new()
        .prefix(".interlink-new-")
        .tempfile_in(parent)
        .map_err(failed)?;
    let db = guarded(path, || {
        let builder = options.builder();
        let db = builder
            .create(temp.path())
            .map_err(|e| database_error(path, e))?;
        let engine = |e: redb::Error| OpenError::Engine {
            path: path.to_owned(),
            reason: e.to_string(),
        };
        let txn = db.begin_write().map_err(|e| engine(e.into()))?;
        migrate::run(&txn, 0, D::KIND.name()).map_err(engine)?;
        txn.commit().map_err(|e| engine(e.into()))?;
        Ok(db)
    })?;
    temp.as_file().sync_all().map_err(failed)?;
    let ours = match temp.persist_noclobber(path) {
        Ok(_) => Some(db),
        // A sibling was faster; its store is as good.
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => None,
        Err(e) => return Err(failed(e.error)),
    };
    sync_dir(parent).map_err(failed)?;
    Ok(ours)
}

/// Opens a store file for reading only, in a mode that suits its writers.
pub(super) fn open_reader(path: &Path, mode: Mode) -> Result<(Engine, bool), OpenError> {
    let opened = guarded(path, || Ok(builder(mode, 16 << 20).open_read_only(path)))?;
    match opened {
        Ok(db) => Ok((Engine::Reader(db), false)),
        Err(DatabaseError::RepairAborted) => frozen_file(path).map(|engine| (engine, true)),
        Err(e) => Err(database_error(path, e)),
    }
}

/// Opens a file through an overlay: whatever the engine repairs stays in memory.
pub(super) fn frozen_file(path: &Path) -> Result<Engine, OpenError> {
    let file = File::open(path).map_err(|source| OpenError::File {
        path: path.to_owned(),
        source,
    })?;
    frozen(path, file)
}

/// As [`frozen_file`], and every page of the newest commit is checked first; one that does not check
/// is an error, where the engine would fall back to the commit before it.
pub(super) fn checked_file(path: &Path) -> Result<Engine, OpenError> {
    let file = File::open(path).map_err(|source| OpenError::File {
        path: path.to_owned(),
        source,
    })?;
    over(path, file, true)
}

/// As [`frozen_file`], over any bytes.
pub(super) fn frozen(path: &Path, bytes: impl super::overlay::ReadAt) -> Result<Engine, OpenError> {
    over(path, bytes, false)
}

fn over(path: &Path, bytes: impl super::overlay::ReadAt, check: bool) -> Result<Engine, OpenError> {
    guarded(path, || {
        let overlay = Overlay::new(bytes).map_err(|source| OpenError::File {
            path: path.to_owned(),
            source,
        })?;
        let mut builder = builder(Mode::Exclusive, 16 << 20);
        if check {
            builder.set_check_integrity_on_open(true);
            builder.set_repair_callback(|session| {
                // The steps of a repair that keeps the newest commit stand at 0 and from 0.6 on.
                if (0.2..0.5).contains(&session.progress()) {
                    session.abort();
                }
            });
        }
        builder
            .create_with_backend({
                // An empty file would be taken for a new database.
                if redb::StorageBackend::len(&overlay).unwrap_or(0) == 0 {
                    let reason = "the file is empty".to_owned();
                    return Err(OpenError::Corrupt {
                        path: path.to_owned(),
                        reason,
                    });
                }
                overlay
            })
            .map(Engine::Frozen)
            .map_err(|e| database_error(path, e))
    })
}

pub(super) fn database_error(path: &Path, e: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match e {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            let holder = owner::read(&path);
            OpenError::InUse { path, holder }
        }
        DatabaseError::RepairAborted => OpenError::NeedsRepair { path },
        DatabaseError::Storage(StorageError::Io(source))
            if source.kind() == io::ErrorKind::InvalidData
                || source.kind() == io::ErrorKind::UnexpectedEof =>
        {
            OpenError::Corrupt {
                path,
                reason: source.to_string(),
            }
        }
        DatabaseError::Storage(StorageError::Io(source)) => OpenError::File { path, source },
        DatabaseError::Storage(StorageError::Corrupted(reason)) => {
            OpenError::Corrupt { path, reason }
        }
        e => OpenError::Engine {
            path,
            reason: e.to_string(),
        },
    }
}

/// Turns a panic of the engine on a damaged file into an error.
fn guarded<T>(path: &Path, f: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    guard::guarded(f, |reason| OpenError::Corrupt {
        path: path.to_owned(),
        reason,
    })
}

/// Runs an open that may block on a process which is frozen inside a transaction.
fn with_deadline<T: Send + 'static>(
    path: &Path,
    deadline: Duration,
    open: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("store-open".into())
        .spawn(move || {
            // The receiver is gone when the deadline passed: the handle closes here then.
            let _ = sender.send(open());
        })
        .map_err(OpenError::Thread)?;
    receiver.recv_timeout(deadline).unwrap_or_else(|_| {
        Err(OpenError::InUse {
            path: path.to_owned(),
            holder: owner::read(path),
        })
    })
}
