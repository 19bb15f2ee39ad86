//! Accepted files of our own mode on their way to the disk: piece by piece, in order, on a thread that
//! may wait for it.
//!
//! The machine says what to append and when a file is whole. A file has its name only then; whatever
//! ends earlier leaves nothing behind.
//!
//! A peer can send faster than a disk writes. Nobody waits here, because whoever feeds the machine
//! holds it meanwhile; so what waits is counted, and while it is too much the relay is not asked for
//! more. What one answer of a relay brings still comes on top of that.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use tokio::sync::Notify;

use super::file::{self, FileError};
use super::files::{Arriving, Incoming, Placed};
use crate::domain::bond::names::{BaseName, Types};
use crate::domain::machine::bond::OfferId;

/// Bytes that may wait for the disk before the relay is not asked for more.
const MAX_WAITING_BYTES: usize = 4 << 20;

/// A file that is there, and what a model sees of it.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) placed: Placed,
    pub(super) content: String,
    pub(super) truncated: bool,
}

/// What is to be done, in this order.
enum Job {
    Append {
        id: OfferId,
        first: bool,
        bytes: Vec<u8>,
    },
    Finish {
        id: OfferId,
        name: String,
        note: String,
    },
    Discard {
        id: OfferId,
    },
}

/// What waits for the disk.
#[derive(Debug)]
struct Backlog {
    bytes: AtomicUsize,
    /// Rung when it is little enough again.
    room: Arc<Notify>,
}

impl Backlog {
    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > MAX_WAITING_BYTES
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    fn done(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        if before > MAX_WAITING_BYTES && !self.is_full() {
            self.room.notify_one();
        }
    }
}

/// The way to that thread. It ends, and removes what is not whole, when this is dropped.
#[derive(Debug)]
pub(super) struct Arrivals {
    jobs: mpsc::Sender<Job>,
    backlog: Arc<Backlog>,
}

impl Arrivals {
    /// Starts the thread. `answer` hears of a file that is there, and of the first failure of one that
    /// will not be; `room` is rung when [`Arrivals::is_full`] ends.
    pub(super) fn start(
        folder: PathBuf,
        room: Arc<Notify>,
        answer: impl Fn(OfferId, Result<Landed, FileError>) + Send + 'static,
    ) -> Arrivals {
        let (jobs, todo) = mpsc::channel();
        let backlog = Arc::new(Backlog {
            bytes: AtomicUsize::new(0),
            room,
        });
        let there = Arc::clone(&backlog);
        tokio::task::spawn_blocking(move || work(&folder, &todo, &there, answer));
        Arrivals { jobs, backlog }
    }

    /// Whether so much waits for the disk that no more should come.
    pub(super) fn is_full(&self) -> bool {
        self.backlog.is_full()
    }

    pub(super) fn append(&self, id: OfferId, offset: u64, bytes: Vec<u8>) {
        let (first, size) = (offset == 0, bytes.len());
        self.backlog.add(size);
        if !self.send(Job::Append { id, first, bytes }) {
            self.backlog.done(size);
        }
    }

    pub(super) fn finish(&self, id: OfferId, name: String, note: String) {
        self.send(Job::Finish { id, name, note });
    }

    pub(super) fn discard(&self, id: OfferId) {
        self.send(Job::Discard { id });
    }

    /// False when the thread is gone: it ends with the sender, or with a panic.
    fn send(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }
}

fn work(
    folder: &std::path::Path,
    todo: &mpsc::Receiver<Job>,
    backlog: &Backlog,
    answer: impl Fn(OfferId, Result<Landed, FileError>),
) {
    let mut open: BTreeMap<OfferId, Arriving> = BTreeMap::new();
    let begin = || -> Result<Arriving, FileError> {
        let incoming = Arc::new(Incoming::open(folder)?);
        Ok(Arriving::begin(&incoming)?)
    };
    while let Ok(job) = todo.recv() {
        match job {
            Job::Append { id, first, bytes } => {
                let file = match open.remove(&id) {
                    Some(file) => Some(Ok(file)),
                    None if first => Some(begin()),
                    // It failed, and that was told.
                    None => None,
                };
                let kept = file.map(|file| {
                    file.and_then(|mut file| {
                        file.append(&bytes)?;
                        Ok(file)
                    })
                });
                match kept {
                    Some(Ok(file)) => _ = open.insert(id, file),
                    Some(Err(e)) => answer(id, Err(e)),
                    None => {}
                }
                backlog.done(bytes.len());
            }
            Job::Finish { id, name, note } => {
                // An empty file has no piece.
                let file = open.remove(&id).map_or_else(begin, Ok);
                answer(id, file.and_then(|file| land(file, &name, &note)));
            }
            Job::Discard { id } => drop(open.remove(&id)),
        }
    }
}

fn land(file: Arriving, name: &str, note: &str) -> Result<Landed, FileError> {
    let name = BaseName::incoming(name, Types::Any)?;
    let placed = file.finish(&name)?;
    let (content, truncated) = file::content_at(&placed, note)?;
    Ok(Landed {
        placed,
        content,
        truncated,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_waits_for_the_disk_is_bounded_and_room_is_told() {
        let dir = tempfile::tempdir().unwrap();
        // No folder can be made below a file: the first piece fails, and the thread says so.
        let file = dir.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        let room = Arc::new(Notify::new());
        let arrivals = Arrivals::start(file.join("incoming"), Arc::clone(&room), move |_, it| {
            assert!(it.is_err());
            // As a disk that takes its time.
            let _ = gate.lock().unwrap().recv();
        });
        let id = OfferId::from_bytes([1; 8]);
        let piece = vec![0; 192 << 10];
        let mut pieces = 0;
        while !arrivals.is_full() {
            arrivals.append(id.clone(), pieces * 196_608, piece.clone());
            pieces += 1;
        }
        assert_eq!(pieces, 22, "a little more than 4 MiB");
        let told = tokio::time::timeout(Duration::from_millis(50), room.notified()).await;
        assert!(told.is_err(), "the disk did not move");
        go_on.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), room.notified())
            .await
            .expect("there is room");
        assert!(!arrivals.is_full());
    }
}
