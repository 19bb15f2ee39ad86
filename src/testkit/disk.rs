//! A disk in memory under a store: it counts, records and fails on demand.
//!
//! Clones are the same disk. Every engine that opens it gets a handle of its own, and byte-range
//! locks between handles work as between processes, so that shared stores run on it too.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::{BackendError, StorageBackend};

use super::power::{Journal, Op};
use crate::store::BackendSource;

/// What an engine asks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Read bytes.
    Read,
    /// Write bytes.
    Write,
    /// Change the length.
    SetLen,
    /// Make everything durable.
    Sync,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An I/O error; nothing happened.
    Error,
    /// No space left; nothing happened.
    NoSpace,
    /// Half of the bytes were read or written, then an error.
    Short,
}

/// A failure to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which operation fails.
    pub op: OpKind,
    /// How many of them succeed first, counted from now.
    pub after: u64,
    /// How it fails.
    pub kind: FaultKind,
    /// Whether every later one fails too.
    pub forever: bool,
}

/// Operations since the disk was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Changes of the length.
    pub set_lens: u64,
    /// Syncs.
    pub syncs: u64,
}

impl Counts {
    /// What was added since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Counts) -> Counts {
        Counts {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            set_lens: self.set_lens - earlier.set_lens,
            syncs: self.syncs - earlier.syncs,
        }
    }
}

struct Lock {
    handle: u64,
    range: (u64, u64),
    shared: bool,
}

#[derive(Default)]
struct State {
    live: Vec<u8>,
    journal: Option<Journal>,
    counts: Counts,
    fault: Option<Fault>,
    fired: bool,
    locks: Vec<Lock>,
    handles: u64,
    sync_time: Duration,
}

/// See the module's documentation.
#[derive(Clone)]
pub struct Disk(Arc<(Mutex<State>, Condvar)>);

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Disk({} bytes)", self.state().live.len())
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::with_bytes(vec![])
    }
}

impl Disk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that holds these bytes, all of them durable.
    #[must_use]
    pub fn with_bytes(live: Vec<u8>) -> Self {
        let state = State {
            live,
            ..State::default()
        };
        Disk(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to record what changes the disk, from its present bytes on.
    pub fn record(&self) {
        let mut state = self.state();
        state.journal = Some(Journal::new(state.live.clone()));
    }

    /// Operations recorded so far; a position in the [`Journal`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.state().journal.as_ref().map_or(0, Journal::len)
    }

    /// Ends recording and gives what was recorded.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.state().journal.take().unwrap_or_default()
    }

    /// Plans a failure, in place of one that was planned before.
    pub fn fail(&self, fault: Fault) {
        let mut state = self.state();
        state.fault = Some(fault);
        state.fired = false;
    }

    /// Forgets the planned failure; says whether it has happened.
    pub fn heal(&self) -> bool {
        let mut state = self.state();
        state.fault = None;
        std::mem::take(&mut state.fired)
    }

    /// Whether the planned failure has happened.
    #[must_use]
    pub fn fired(&self) -> bool {
        self.state().fired
    }

    /// Makes every sync take that long.
    pub fn sync_takes(&self, time: Duration) {
        self.state().sync_time = time;
    }

    /// Operations so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// The bytes as a process would read them, durable or not.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.state().live.clone()
    }

    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.state().live.len() as u64
    }
}

impl BackendSource for Disk {
    fn backend(&self) -> Box<dyn StorageBackend> {
        let mut state = self.state();
        state.handles += 1;
        Box::new(Handle {
            disk: self.clone(),
            id: state.handles,
        })
    }

    fn image(&self) -> Vec<u8> {
        self.bytes()
    }
}

impl State {
    /// How the next operation of this kind fails, if it does.
    fn verdict(&mut self, op: OpKind) -> Option<FaultKind> {
        let fault = self.fault.as_mut().filter(|fault| fault.op == op)?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        if self.fired && !fault.forever {
            return None;
        }
        self.fired = true;
        Some(fault.kind)
    }

    fn change(&mut self, op: Op) {
        op.apply(&mut self.live);
        if let Some(journal) = &mut self.journal {
            journal.push(op);
        }
    }

    fn conflict(&self, handle: u64, range: (u64, u64), shared: bool) -> bool {
        self.locks.iter().any(|held| {
            held.handle != handle
                && !(held.shared && shared)
                && held.range.0 <= range.1
                && range.0 <= held.range.1
        })
    }
}

fn error(kind: FaultKind) -> io::Error {
    match kind {
        FaultKind::NoSpace => io::ErrorKind::StorageFull.into(),
        FaultKind::Error | FaultKind::Short => io::Error::other("injected failure"),
    }
}

fn inclusive(start: Bound<u64>, end: Bound<u64>) -> (u64, u64) {
    let start = match start {
        Bound::Included(n) => n,
        Bound::Excluded(n) => n.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match end {
        Bound::Included(n) => n,
        Bound::Excluded(n) => n.saturating_sub(1),
        Bound::Unbounded => u64::MAX,
    };
    (start, end)
}

/// An open file, as it were.
#[derive(Debug)]
struct Handle {
    disk: Disk,
    id: u64,
}

impl Handle {
    fn try_lock(&self, start: Bound<u64>, end: Bound<u64>, shared: bool) -> bool {
        let range = inclusive(start, end);
        let mut state = self.disk.state();
        if state.conflict(self.id, range, shared) {
            return false;
        }
        let handle = self.id;
        state.locks.push(Lock {
            handle,
            range,
            shared,
        });
        true
    }

    fn wait_lock(&self, start: Bound<u64>, end: Bound<u64>, shared: bool) {
        let range = inclusive(start, end);
        let mut state = self.disk.state();
        while state.conflict(self.id, range, shared) {
            let changed = &self.disk.0.1;
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let handle = self.id;
        state.locks.push(Lock {
            handle,
            range,
            shared,
        });
    }

    fn release(&self, keep: impl Fn(&Lock) -> bool) {
        let mut state = self.disk.state();
        state
            .locks
            .retain(|lock| lock.handle != self.id || keep(lock));
        self.disk.0.1.notify_all();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.release(|_| false);
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.size())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.counts.reads += 1;
        state.counts.read_bytes += out.len() as u64;
        let fault = state.verdict(OpKind::Read);
        let n = match fault {
            Some(FaultKind::Short) => out.len() / 2,
            Some(kind) => return Err(error(kind)),
            None => out.len(),
        };
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = state.live.get(start..start + n);
        out[..n].copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        fault.map_or(Ok(()), |_| Err(io::ErrorKind::UnexpectedEof.into()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.counts.set_lens += 1;
        if let Some(kind) = state.verdict(OpKind::SetLen) {
            return Err(error(kind));
        }
        state.change(Op::SetLen(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.counts.syncs += 1;
        if let Some(kind) = state.verdict(OpKind::Sync) {
            return Err(error(kind));
        }
        state.change(Op::Sync);
        let time = state.sync_time;
        drop(state);
        if !time.is_zero() {
            std::thread::sleep(time);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.counts.writes += 1;
        state.counts.written_bytes += data.len() as u64;
        let fault = state.verdict(OpKind::Write);
        let n = match fault {
            Some(FaultKind::Short) => data.len() / 2,
            Some(kind) => return Err(error(kind)),
            None => data.len(),
        };
        state.change(Op::Write {
            offset,
            data: data[..n].into(),
        });
        fault.map_or(Ok(()), |kind| Err(error(kind)))
    }

    fn close(&self) -> io::Result<()> {
        self.release(|_| false);
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        Ok(self.try_lock(start, end, false))
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        Ok(self.try_lock(start, end, true))
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.wait_lock(start, end, false);
        Ok(())
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.wait_lock(start, end, true);
        Ok(())
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        let range = inclusive(start, end);
        self.release(|lock| lock.range != range);
        Ok(())
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        let range = inclusive(start, end);
        Ok(self.disk.state().conflict(self.id, range, false))
    }
}
