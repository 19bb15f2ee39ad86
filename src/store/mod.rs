//! Floor 4: one redb file that holds a log, the bodies beside it and the rows that follow from it.
//!
//! [`Store`] is the handle. One thread owns the write transaction (`commit`): it takes every
//! command that waits, decides and applies them together, syncs once and answers all. What was
//! answered is durable; what failed is not visible.
//!
//! - `open`: modes, creation, integrity, projections that are behind or of another version.
//! - [`Snapshot`]: consistent reads. - [`verify`]: replays the log and compares.
//! - [`PublicBus`]: the file of the public program's bus, for moving house.
//! - [`inspect`], [`holdings`]: a store in the words of people. - `overlay`: reading a file that must
//!   not be changed.

mod backup;
#[cfg(feature = "testkit")]
mod boxed;
mod commit;
mod compact;
mod compactor;
mod dir;
mod error;
mod fresh;
mod guard;
pub mod holdings;
pub mod inspect;
mod layout;
mod line;
mod migrate;
mod open;
mod overlay;
mod owner;
mod parts;
mod place;
mod public_bus;
mod receipt;
mod redb_tables;
mod repair;
mod replay;
mod salvage;
mod snapshot;
mod stage;
mod sync;
#[cfg(all(test, shuttle))]
mod tests;
pub mod verify;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub use backup::{CopyError, copy_proven, copy_to, shrink};
pub use commit::Committed;
pub use compact::{CompactError, Compacted, Cut, LogSize, Retention};
pub use compactor::Compaction;
pub use dir::create_private_dir;
pub use error::{CommandError, OpenError, ReadError, SubmitError};
pub use fresh::Fresh;
pub use guard::quiet_engine_panics;
pub use migrate::FORMAT;
#[cfg(feature = "testkit")]
pub use open::BackendSource;
pub use open::{Location, Mode, OpenOptions};
pub use parts::{Part, Parts, build};
pub use place::{Held, PlaceError, hold, replace};
pub use public_bus::{PublicBus, PublicMessage, PublicRow};
pub use receipt::Receipt;
pub use repair::{LeftOut, RepairError, RepairReport, repair};
pub use salvage::{BaseFound, Salvage};
pub use snapshot::Snapshot;

use crate::domain::Domain;
use crate::event::Recorded;
use crate::types::limit::MAX_WAITING_BYTES;
use crate::types::seq::Seq;
use crate::types::time::Clock;
use commit::{Committer, Job};
use compactor::Request;
use line::{Line, Refused};
use open::Engine;
use sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::thread::JoinHandle;
use sync::{Condvar, Mutex, MutexGuard, RwLock};

/// Called by the writer thread with the records of each transaction once they are durable, before
/// their commands are answered. MUST NOT block.
pub type CommitListener<E> = Box<dyn Fn(&[Recorded<E>]) + Send>;

/// Whether a store takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    ReadWrite,
    /// It does not, until it is reopened.
    ReadOnly {
        /// Why.
        reason: String,
    },
}

/// What the handle and the writer thread share.
struct Shared<D: Domain> {
    engine: RwLock<Option<Arc<Engine>>>,
    index: Mutex<D::Index>,
    health: Mutex<Health>,
    head: AtomicU64,
    tail: (Mutex<()>, Condvar),
    waiting_bytes: AtomicUsize,
    commits: AtomicU64,
    compaction: Mutex<Option<Request>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Domain> Shared<D> {
    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_engine(&self, engine: Option<Arc<Engine>>) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = engine;
    }

    fn head(&self) -> Seq {
        Seq(self.head.load(Ordering::Acquire))
    }

    fn publish_head(&self, head: Seq) {
        let _guard = lock(&self.tail.0);
        self.head.fetch_max(head.0, Ordering::AcqRel);
        self.tail.1.notify_all();
    }
}

/// A store that is open for writing.
pub struct Store<D: Domain> {
    shared: Arc<Shared<D>>,
    work: Arc<Line<D>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    path: Option<PathBuf>,
}

impl<D: Domain> Store<D> {
    /// Opens a store, creating it when it does not exist; repairs what a crash left behind, brings
    /// projections up to the log, and starts the writer thread.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. Nothing is changed when the store is too new, of the wrong kind or in use.
    pub fn open(
        options: OpenOptions,
        clock: Arc<dyn Clock>,
        listener: Option<CommitListener<D::Event>>,
    ) -> Result<Self, OpenError> {
        let opened = open::open::<D>(&options)?;
        let shared = Arc::new(Shared {
            engine: RwLock::new(Some(opened.engine)),
            index: Mutex::new(opened.index),
            health: Mutex::new(Health::ReadWrite),
            head: AtomicU64::new(opened.head.0),
            tail: (Mutex::new(()), Condvar::new()),
            waiting_bytes: AtomicUsize::new(0),
            commits: AtomicU64::new(0),
            compaction: Mutex::new(None),
        });
        let path = match &options.location {
            Location::File(path) => Some(path.clone()),
            _ => None,
        };
        let committer = Committer::new(Arc::clone(&shared), options, clock, listener);
        let (work, writer) = committer.spawn().map_err(OpenError::Thread)?;
        Ok(Store {
            shared,
            work,
            writer: Mutex::new(Some(writer)),
            path,
        })
    }

    /// Hands a command to the writer. The receipt resolves once its events, and the rows that
    /// follow from them, are durable, or once it is certain that nothing of it is.
    ///
    /// # Errors
    ///
    /// [`SubmitError::Busy`] when the waiting line is full; the command was not taken then.
    pub fn submit(&self, command: D::Command) -> Result<Receipt<D>, SubmitError> {
        if let Health::ReadOnly { reason } = self.health() {
            return Err(SubmitError::ReadOnly { reason });
        }
        let weight = D::weight(&command);
        let waiting = self
            .shared
            .waiting_bytes
            .fetch_add(weight, Ordering::AcqRel);
        if waiting + weight > MAX_WAITING_BYTES {
            self.shared
                .waiting_bytes
                .fetch_sub(weight, Ordering::AcqRel);
            return Err(SubmitError::Busy);
        }
        let (job, receipt) = Job::new(command, weight);
        self.work.push(job).map_err(|refused| {
            self.shared
                .waiting_bytes
                .fetch_sub(weight, Ordering::AcqRel);
            match refused {
                Refused::Full => SubmitError::Busy,
                Refused::Closed => SubmitError::Closed,
            }
        })?;
        Ok(receipt)
    }

    /// A consistent view of the newest committed state.
    ///
    /// # Errors
    ///
    /// [`ReadError::Closed`] after [`close`](Store::close); otherwise the engine's.
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        self.shared.engine().ok_or(ReadError::Closed)?.snapshot()
    }

    /// Looks at the in-memory index. It may be ahead of what is durable: ignore positions above
    /// the [`Seq`] that is passed along. Keep it short; the writer waits for it.
    pub fn with_index<R>(&self, f: impl FnOnce(&D::Index, Seq) -> R) -> R {
        let index = lock(&self.shared.index);
        f(&index, self.shared.head())
    }

    /// The process that wrote to the store's file last: whom to name when a call does not return.
    #[must_use]
    pub fn last_writer(&self) -> Option<u32> {
        owner::read(self.path.as_deref()?)
    }

    /// The newest durable position that this process knows of.
    #[must_use]
    pub fn head(&self) -> Seq {
        self.shared.head()
    }

    /// Durable commits since the store was opened.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// Learns of commits by other processes; returns the newest position.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Store::snapshot).
    pub fn refresh_head(&self) -> Result<Seq, ReadError> {
        let head = self.snapshot()?.head()?;
        if head > self.shared.head() {
            self.shared.publish_head(head);
        }
        Ok(head)
    }

    /// Blocks until the head is past `after`, or for `timeout`; returns the head.
    #[must_use]
    pub fn wait_head(&self, after: Seq, timeout: Duration) -> Seq {
        let deadline = Instant::now() + timeout;
        let mut guard = lock(&self.shared.tail.0);
        loop {
            let head = self.shared.head();
            let left = deadline.saturating_duration_since(Instant::now());
            if head > after || left.is_zero() {
                return head;
            }
            guard = self
                .shared
                .tail
                .1
                .wait_timeout(guard, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Folds the oldest records into the base rows, between the commands that come meanwhile, for
    /// `within` at most. What the answer counts is durable.
    ///
    /// # Errors
    ///
    /// [`CompactError`].
    pub fn compact(&self, cut: Cut, within: Duration) -> Result<Compaction, CompactError> {
        let (request, answer) = Request::new(cut, within);
        {
            let mut slot = lock(&self.shared.compaction);
            if slot.is_some() {
                return Err(CompactError::Running);
            }
            *slot = Some(request);
        }
        if !self.work.nudge() {
            // The writer may have ended before it could see the request.
            lock(&self.shared.compaction).take();
        }
        Ok(answer)
    }

    /// Whether the store takes writes, and if not, why.
    #[must_use]
    pub fn health(&self) -> Health {
        lock(&self.shared.health).clone()
    }

    /// Finishes what waits, closes the file and ends the writer thread.
    pub fn close(self) {
        self.finish();
    }

    /// As [`close`](Store::close), for a handle that others still hold: their later calls find the
    /// store closed. May block on a sibling process that writes, as the engine's own end does.
    pub fn finish(&self) {
        let writer = lock(&self.writer).take();
        if let Some(writer) = writer {
            self.work.close();
            let _ = writer.join();
            self.shared.set_engine(None);
        }
    }
}

impl<D: Domain> Drop for Store<D> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A store that is only read: beside its writer, or closed, or left behind by a crash.
pub struct Reader {
    engine: Engine,
    /// Whether the file had to be repaired in memory first.
    pub repaired: bool,
}

impl Reader {
    /// Opens a store file for reading. The file is never changed.
    ///
    /// # Errors
    ///
    /// [`OpenError::InUse`] when a writer owns the file alone.
    pub fn open(path: &std::path::Path, mode: Mode) -> Result<Self, OpenError> {
        let (engine, repaired) = open::open_reader(path, mode)?;
        Ok(Reader { engine, repaired })
    }

    /// A consistent view of the newest committed state.
    ///
    /// # Errors
    ///
    /// The engine's.
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        self.engine.snapshot()
    }

    /// Which kind of store this is: `bus` or `agent`.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Reader::snapshot).
    pub fn kind(&self) -> Result<Option<String>, ReadError> {
        let kind = self.snapshot()?.meta(layout::META_KIND)?;
        Ok(kind.map(|k| String::from_utf8_lossy(&k).into_owned()))
    }
}
