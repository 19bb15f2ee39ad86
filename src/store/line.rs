//! The waiting line in front of the writer thread.
//!
//! A batch is what came while the previous transaction synced. Callers in closed loops all come
//! back within moments of their answers; taking the first of them alone would pay a whole sync for
//! one and let the others wait for it. So the writer waits for as many as it has just answered, but
//! never long, and a caller that is alone waits for nobody.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::commit::Job;
use super::lock;
use super::sync::{Condvar, Mutex, TIMED, thread};
use crate::domain::Domain;
use crate::types::limit::{MAX_BATCH_BYTES, MAX_BATCH_COMMANDS, MAX_WAITING_COMMANDS};

/// How long the writer yields before it sleeps. One sender in a closed loop comes back within some
/// 100 us, about what waking a sleeping thread costs on top. Nothing while the writer is busy, and
/// nothing while nobody sends.
const YIELD: Duration = Duration::from_micros(150);

/// How long a first command may wait for the companions of the previous batch: about as long as
/// they take to come back, and less than the sync that it saves.
const GATHER: Duration = Duration::from_micros(300);

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

/// Why a command was not taken.
pub(super) enum Refused {
    /// The line is full.
    Full,
    /// The writer has ended, or was told to.
    Closed,
}

struct State<D: Domain> {
    jobs: VecDeque<Job<D>>,
    /// Whether the writer still takes commands.
    open: bool,
    /// For how many commands the writer sleeps; 0 while it is awake.
    wanted: usize,
    /// Whether the writer is to look around though no command came.
    nudged: bool,
}

/// Commands on their way to the writer, in the order in which they were handed in.
pub(super) struct Line<D: Domain> {
    state: Mutex<State<D>>,
    ready: Condvar,
}

impl<D: Domain> Line<D> {
    pub(super) fn new() -> Self {
        Line {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                open: true,
                wanted: 0,
                nudged: false,
            }),
            ready: Condvar::new(),
        }
    }

    pub(super) fn push(&self, job: Job<D>) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        if !state.open {
            return Err(Refused::Closed);
        }
        if state.jobs.len() >= MAX_WAITING_COMMANDS {
            return Err(Refused::Full);
        }
        state.jobs.push_back(job);
        let wake = state.wanted > 0 && state.jobs.len() >= state.wanted;
        if wake {
            state.wanted = 0;
        }
        drop(state);
        if wake {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Lets the writer look around: its next turn is [`Turn::Idle`] unless commands wait. False: the
    /// line is closed.
    pub(super) fn nudge(&self) -> bool {
        let mut state = lock(&self.state);
        state.nudged = true;
        let open = state.open;
        drop(state);
        self.ready.notify_one();
        open
    }

    /// Whether no command waits and more may come.
    pub(super) fn is_quiet(&self) -> bool {
        lock(&self.state).is_quiet()
    }

    /// Takes nothing more. What waits is still committed by [`next`](Line::next).
    pub(super) fn close(&self) {
        lock(&self.state).open = false;
        self.ready.notify_one();
    }

    /// For the writer: once it has ended, however it did, what still waits is dropped, so that its
    /// callers learn of it.
    pub(super) fn abandoned_at_drop(&self) -> Abandon<'_, D> {
        Abandon(self)
    }

    /// Waits for the next turn; with `idle` for at most that long. `last` is the number of commands
    /// in the previous batch.
    pub(super) fn next(&self, idle: Option<Duration>, last: usize) -> Turn<D> {
        let until = Instant::now() + YIELD;
        while TIMED && self.is_quiet() && Instant::now() < until {
            thread::yield_now();
        }
        self.sleep(1, idle);
        if TIMED && last > 1 {
            self.sleep(last.min(MAX_BATCH_COMMANDS), Some(GATHER));
        }
        let mut state = lock(&self.state);
        state.nudged = false;
        let mut jobs = Vec::new();
        let mut bytes = 0;
        while jobs.len() < MAX_BATCH_COMMANDS && bytes < MAX_BATCH_BYTES {
            let Some(job) = state.jobs.pop_front() else {
                break;
            };
            bytes += job.weight;
            jobs.push(job);
        }
        match (jobs.is_empty(), state.open) {
            (false, open) => Turn::Batch {
                jobs,
                open: open || !state.jobs.is_empty(),
            },
            (true, true) => Turn::Idle,
            (true, false) => Turn::Closed,
        }
    }

    /// Sleeps until `wanted` commands wait, the line is closed, or `longest` is over.
    fn sleep(&self, wanted: usize, longest: Option<Duration>) {
        let until = longest.map(|longest| Instant::now() + longest);
        let mut state = lock(&self.state);
        while state.open && !state.nudged && state.jobs.len() < wanted {
            state.wanted = wanted;
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    self.ready
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .ready
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.wanted = 0;
    }
}

/// See [`Line::abandoned_at_drop`].
pub(super) struct Abandon<'a, D: Domain>(&'a Line<D>);

impl<D: Domain> Drop for Abandon<'_, D> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.open = false;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        drop(jobs);
    }
}

impl<D: Domain> State<D> {
    fn is_quiet(&self) -> bool {
        self.open && self.jobs.is_empty()
    }
}
