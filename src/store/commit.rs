//! The writer thread: group commit.
//!
//! It takes one command, drains what else waits up to a bound, and runs one transaction: decide,
//! append the frames, apply the projections, commit once, answer all.
//! A lone command commits at once; batches form while the previous sync runs.
//!
//! A refused command appends nothing and does not fail its batch. If applying fails, the
//! transaction is abandoned and its commands are retried one by one, so that the culprit is refused
//! alone. Only a storage error (or a panic of the engine) makes the store read-only.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redb::{TransactionError, WriteTransaction};

use super::compactor::Compactor;
use super::error::CommandError;
use super::guard::guarded;
use super::line::{Line, Turn};
use super::open::{self, Engine, Location, Mode, OpenOptions};
use super::owner::OwnerHint;
use super::receipt::{Answer, Receipt};
use super::stage::{Failure, Stage, check_siblings};
use super::sync::atomic::Ordering;
use super::sync::thread::{self, JoinHandle};
use super::{CommitListener, Health, Shared, lock};
use crate::domain::tables::TableError;
use crate::domain::{Decision, Domain, View};
use crate::event::Recorded;
use crate::types::seq::Seq;
use crate::types::time::Clock;

/// What a committed command led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<R> {
    /// Head of the log after the command's transaction.
    pub seq: Seq,
    /// The domain's answer.
    pub reply: R,
}

/// A command on its way to the writer.
pub(super) struct Job<D: Domain> {
    command: D::Command,
    pub(super) weight: usize,
    submitted: Instant,
    answer: oneshot::Sender<Answer<D>>,
}

impl<D: Domain> Job<D> {
    pub(super) fn new(command: D::Command, weight: usize) -> (Self, Receipt<D>) {
        let (answer, receipt) = Receipt::pair();
        (
            Job {
                command,
                weight,
                submitted: Instant::now(),
                answer,
            },
            receipt,
        )
    }
}

/// A batch that was decided and applied inside a transaction.
struct Staged<D: Domain> {
    answers: Vec<Result<D::Reply, CommandError<D::Refusal>>>,
    records: Vec<Recorded<D::Event>>,
    head: Seq,
}

pub(super) struct Committer<D: Domain> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) options: OpenOptions,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) compactor: Compactor,
    listener: Option<CommitListener<D::Event>>,
    owner: OwnerHint,
}

impl<D: Domain> Committer<D> {
    pub(super) fn new(
        shared: Arc<Shared<D>>,
        options: OpenOptions,
        clock: Arc<dyn Clock>,
        listener: Option<CommitListener<D::Event>>,
    ) -> Self {
        let mut owner = match &options.location {
            Location::File(path) => OwnerHint::new(Some(path)),
            _ => OwnerHint::new(None),
        };
        owner.write();
        Committer {
            shared,
            options,
            clock,
            compactor: Compactor::default(),
            listener,
            owner,
        }
    }

    pub(super) fn spawn(self) -> io::Result<(Arc<Line<D>>, JoinHandle<()>)> {
        let line = Arc::new(Line::new());
        let work = Arc::clone(&line);
        let thread = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || self.run(&work))?;
        Ok((line, thread))
    }

    fn run(mut self, line: &Line<D>) {
        let _ended = line.abandoned_at_drop();
        let mut dirty = false;
        let mut last = 0;
        loop {
            let (jobs, open) = match line.next(self.nap(dirty), last) {
                Turn::Batch { jobs, open } => (jobs, open),
                Turn::Idle => {
                    dirty |= self.compact_idle(line);
                    if dirty && self.options.checkpoint_idle.is_some() && line.is_quiet() {
                        self.checkpoint();
                        dirty = false;
                    }
                    continue;
                }
                Turn::Closed => break,
            };
            last = jobs.len();
            let weight: usize = jobs.iter().map(|job| job.weight).sum();
            let jobs = self.still_wanted(jobs);
            let head = self.shared.head();
            self.commit_batch(jobs);
            let appended = self.shared.head().0.saturating_sub(head.0);
            dirty |= appended > 0;
            self.shared
                .waiting_bytes
                .fetch_sub(weight, Ordering::AcqRel);
            if self.options.retention.is_some() {
                self.compact_between(appended);
            }
            dirty |= self.serve_request(line);
            if !open {
                break;
            }
        }
        // Whoever asked learns that nobody answers any more.
        lock(&self.shared.compaction).take();
    }

    /// Leaves out what waited behind a frozen sibling for so long that its caller was told so.
    fn still_wanted(&self, mut jobs: Vec<Job<D>>) -> Vec<Job<D>> {
        if self.options.mode == Mode::Shared {
            let deadline = self.options.deadline;
            jobs.retain(|job| job.submitted.elapsed() < deadline || !job.answer.is_closed());
        }
        jobs
    }

    /// Saves the engine's allocator state, so that a crash from here on needs no repair.
    fn checkpoint(&mut self) {
        let save = || {
            let mut txn = self.begin()?;
            txn.set_quick_repair(true);
            txn.commit().map_err(Failure::storage)
        };
        let saved = guarded(save, |reason| Failure::Storage { reason });
        match saved {
            Ok(()) => {
                self.shared.commits.fetch_add(1, Ordering::Relaxed);
            }
            Err(Failure::Storage { reason }) => self.turn_read_only(&reason),
            // Only a shared store has siblings, and its every commit saves that state.
            Err(_) => {}
        }
    }

    fn commit_batch(&mut self, jobs: Vec<Job<D>>) {
        let mut groups = VecDeque::from([jobs]);
        while let Some(jobs) = groups.pop_front() {
            if let Health::ReadOnly { reason } = lock(&self.shared.health).clone() {
                fail_all(jobs, || CommandError::ReadOnly {
                    reason: reason.clone(),
                });
                continue;
            }
            let outcome = guarded(
                || self.transact(&jobs),
                |reason| Failure::Storage { reason },
            );
            match outcome {
                Ok(staged) => self.answer(jobs, staged),
                Err(failure) => self.recover(jobs, failure, &mut groups),
            }
        }
    }

    fn answer(&self, jobs: Vec<Job<D>>, staged: Staged<D>) {
        if !staged.records.is_empty() {
            self.shared.commits.fetch_add(1, Ordering::Relaxed);
            self.shared.publish_head(staged.head);
            if let Some(listener) = &self.listener {
                // A listener that panics must not take the answers of a committed batch with it.
                let told = guarded(
                    || {
                        listener(&staged.records);
                        Ok(())
                    },
                    |reason| reason,
                );
                if told.is_err() {
                    self.turn_read_only("a follower of the log panicked");
                }
            }
        }
        for (job, answer) in jobs.into_iter().zip(staged.answers) {
            // Nobody waits any more: the command stands all the same.
            let _ = job.answer.send(answer.map(|reply| Committed {
                seq: staged.head,
                reply,
            }));
        }
    }

    fn recover(&mut self, jobs: Vec<Job<D>>, failure: Failure, groups: &mut VecDeque<Vec<Job<D>>>) {
        match failure {
            Failure::Storage { reason } => {
                self.turn_read_only(&reason);
                fail_all(jobs, || CommandError::ReadOnly {
                    reason: reason.clone(),
                });
            }
            Failure::Superseded => fail_all(jobs, || CommandError::Superseded),
            Failure::Busy => {
                let holder = match &self.options.location {
                    Location::File(path) => super::owner::read(path),
                    _ => None,
                };
                fail_all(jobs, || CommandError::StoreBusy { holder });
            }
            Failure::Apply { culprit, reason } => {
                if let Err(e) = self.rebuild_index() {
                    self.turn_read_only(&e);
                }
                if jobs.len() <= 1 {
                    fail_all(jobs, || CommandError::Inapplicable {
                        reason: reason.clone(),
                    });
                    return;
                }
                // The culprit alone last: the others must not wait for it.
                let mut alone = None;
                for (i, job) in jobs.into_iter().enumerate() {
                    if i == culprit {
                        alone = Some(vec![job]);
                    } else {
                        groups.push_back(vec![job]);
                    }
                }
                groups.extend(alone);
            }
        }
    }

    /// The index has followed records that were not committed.
    fn rebuild_index(&self) -> Result<(), String> {
        let engine = self.shared.engine().ok_or("the store is closed")?;
        let snapshot = engine.snapshot().map_err(|e| e.to_string())?;
        let mut index = D::build_index(&snapshot).map_err(|e| e.to_string())?;
        D::index_bodies(&mut index, &snapshot).map_err(|e| e.to_string())?;
        *lock(&self.shared.index) = index;
        Ok(())
    }

    /// Ends writing. The engine refuses all access through a handle that saw an error, so reads go
    /// on through one of their own.
    pub(super) fn turn_read_only(&self, reason: &str) {
        *lock(&self.shared.health) = Health::ReadOnly {
            reason: reason.to_owned(),
        };
        self.shared.set_engine(None);
        let frozen = match &self.options.location {
            // Siblings may go on writing: read beside them.
            Location::File(path) if self.options.mode == Mode::Shared => {
                let opened = open::open_reader(path, Mode::Shared);
                opened.ok().map(|(engine, _)| engine)
            }
            Location::File(path) => open::frozen_file(path).ok(),
            Location::Memory => None,
            #[cfg(feature = "testkit")]
            Location::Backend(source) => open::frozen(&self.options.path(), source.image()).ok(),
        };
        self.shared.set_engine(frozen.map(Arc::new));
        // Errors are ignored: without an index the queues look empty, which health explains.
        let _ = self.rebuild_index();
    }

    fn transact(&mut self, jobs: &[Job<D>]) -> Result<Staged<D>, Failure> {
        let txn = self.begin()?;
        let staged = self.stage(&txn, jobs)?;
        if staged.records.is_empty() {
            txn.abort().map_err(Failure::storage)?;
        } else {
            txn.commit().map_err(Failure::storage)?;
        }
        Ok(staged)
    }

    pub(super) fn begin(&mut self) -> Result<WriteTransaction, Failure> {
        let engine = self.shared.engine();
        let Some(Engine::Writer(db)) = engine.as_deref() else {
            return Err(Failure::Storage {
                reason: "the store is closed".into(),
            });
        };
        if self.options.mode == Mode::Exclusive {
            return db.begin_write().map_err(Failure::storage);
        }
        // A sibling may be frozen inside its transaction: wait with a deadline.
        let deadline = Instant::now() + self.options.deadline;
        let mut pause = Duration::from_millis(1);
        loop {
            match db.try_begin_write() {
                // The lock itself may have blocked; what is this late was given up by its callers.
                Ok(txn) if Instant::now() > deadline => {
                    txn.abort().map_err(Failure::storage)?;
                    return Err(Failure::Busy);
                }
                Ok(txn) => {
                    self.owner.write();
                    check_siblings::<D>(&txn)?;
                    return Ok(txn);
                }
                Err(TransactionError::WouldBlock) if Instant::now() < deadline => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Err(TransactionError::WouldBlock) => return Err(Failure::Busy),
                Err(e) => return Err(Failure::storage(e)),
            }
        }
    }

    fn stage(&self, txn: &WriteTransaction, jobs: &[Job<D>]) -> Result<Staged<D>, Failure> {
        let mut stage = Stage::<D>::open(txn, self.clock.now())?;
        let mut answers = Vec::with_capacity(jobs.len());
        for (i, job) in jobs.iter().enumerate() {
            let mut index = lock(&self.shared.index);
            let view = View {
                tables: &stage.tables,
                index: &*index,
                next: stage.head.next(),
            };
            let answer = match D::decide(&view, &job.command) {
                Ok(Ok(Decision { events, reply })) => {
                    for event in events {
                        stage.append(event, &mut index).map_err(|e| e.blame(i))?;
                    }
                    Ok(reply)
                }
                Ok(Err(refusal)) => Err(CommandError::Refused(refusal)),
                Err(TableError::Backend(e)) => return Err(Failure::storage(e)),
                Err(e) => Err(CommandError::Inapplicable {
                    reason: e.to_string(),
                }),
            };
            answers.push(answer);
        }
        let (records, head) = stage.finish()?;
        Ok(Staged {
            answers,
            records,
            head,
        })
    }
}

fn fail_all<D: Domain>(jobs: Vec<Job<D>>, error: impl Fn() -> CommandError<D::Refusal>) {
    for job in jobs {
        let _ = job.answer.send(Err(error()));
    }
}
