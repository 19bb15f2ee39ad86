//! Accepted files of our own mode on their way to the disk: piece by piece, in order, on a thread that
//! may wait for it.
//!
//! The machine says what to append and when a file is whole. A file has its name only then; whatever
//! ends earlier leaves nothing behind.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use super::file::{self, FileError};
use super::files::{Arriving, Incoming, Placed};
use crate::domain::bond::names::{BaseName, Types};
use crate::domain::machine::bond::OfferId;

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

/// The way to that thread. It ends, and removes what is not whole, when this is dropped.
#[derive(Debug)]
pub(super) struct Arrivals(mpsc::Sender<Job>);

impl Arrivals {
    /// Starts the thread. `answer` hears of a file that is there, and of the first failure of one that
    /// will not be.
    pub(super) fn start(
        folder: PathBuf,
        answer: impl Fn(OfferId, Result<Landed, FileError>) + Send + 'static,
    ) -> Arrivals {
        let (jobs, todo) = mpsc::channel();
        tokio::task::spawn_blocking(move || work(&folder, &todo, answer));
        Arrivals(jobs)
    }

    pub(super) fn append(&self, id: OfferId, offset: u64, bytes: Vec<u8>) {
        let first = offset == 0;
        self.send(Job::Append { id, first, bytes });
    }

    pub(super) fn finish(&self, id: OfferId, name: String, note: String) {
        self.send(Job::Finish { id, name, note });
    }

    pub(super) fn discard(&self, id: OfferId) {
        self.send(Job::Discard { id });
    }

    fn send(&self, job: Job) {
        // The thread ends with the sender only.
        let _ = self.0.send(job);
    }
}

fn work(
    folder: &std::path::Path,
    todo: &mpsc::Receiver<Job>,
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
                    Some(file) => Ok(file),
                    None if first => begin(),
                    // It failed, and that was told.
                    None => continue,
                };
                let kept = file.and_then(|mut file| {
                    file.append(&bytes)?;
                    Ok(file)
                });
                match kept {
                    Ok(file) => _ = open.insert(id, file),
                    Err(e) => answer(id, Err(e)),
                }
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
