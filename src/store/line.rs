//! The waiting line in front of the writer thread.
//!
//! A lone command is taken at once: there is no linger timer. Batches form because commands arrive
//! while the previous transaction syncs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::commit::{Job, Work};
use crate::domain::Domain;
use crate::types::limit::{MAX_BATCH_BYTES, MAX_BATCH_COMMANDS};

/// How long the writer yields before it sleeps. One sender in a closed loop comes back within some
/// 100 us, about what waking a sleeping thread costs on top. Nothing while the writer is busy, and
/// nothing while nobody sends.
const YIELD: Duration = Duration::from_micros(150);

/// What the writer does next.
pub(super) enum Turn<D: Domain> {
    /// Commit these together; the line was closed behind them unless `open`.
    Batch {
        /// At least one command.
        jobs: Vec<Job<D>>,
        /// Whether more may come.
        open: bool,
    },
    /// Nothing came for as long as was asked.
    Idle,
    /// Nothing comes any more.
    Closed,
}

/// Waits for the next turn; with `idle` for at most that long.
pub(super) fn next<D: Domain>(work: &Receiver<Work<D>>, idle: Option<Duration>) -> Turn<D> {
    match first(work, idle) {
        Ok(Work::Command(job)) => {
            let mut jobs = vec![job];
            let open = drain(work, &mut jobs);
            Turn::Batch { jobs, open }
        }
        Ok(Work::Stop) | Err(RecvTimeoutError::Disconnected) => Turn::Closed,
        Err(RecvTimeoutError::Timeout) => Turn::Idle,
    }
}

fn first<D: Domain>(
    work: &Receiver<Work<D>>,
    idle: Option<Duration>,
) -> Result<Work<D>, RecvTimeoutError> {
    let until = Instant::now() + YIELD;
    loop {
        match work.try_recv() {
            Ok(work) => return Ok(work),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) if Instant::now() < until => thread::yield_now(),
            Err(TryRecvError::Empty) => break,
        }
    }
    match idle {
        Some(idle) => work.recv_timeout(idle),
        None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

/// Adds what waits to the batch; false once a stop was seen.
fn drain<D: Domain>(work: &Receiver<Work<D>>, jobs: &mut Vec<Job<D>>) -> bool {
    let mut bytes: usize = jobs.iter().map(|job| job.weight).sum();
    while jobs.len() < MAX_BATCH_COMMANDS && bytes < MAX_BATCH_BYTES {
        match work.try_recv() {
            Ok(Work::Command(job)) => {
                bytes += job.weight;
                jobs.push(job);
            }
            Ok(Work::Stop) | Err(TryRecvError::Disconnected) => return false,
            Err(TryRecvError::Empty) => break,
        }
    }
    true
}
