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
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redb::{ReadableTable, Table, TransactionError, WriteTransaction};

use super::error::CommandError;
use super::layout::{BODIES, LOG, META, META_FORMAT, META_MIN_WRITER, META_PROJECTION};
use super::line::{Line, Turn};
use super::open::{self, Engine, Location, Mode, OpenOptions, panic_text};
use super::owner::OwnerHint;
use super::receipt::{Answer, Receipt};
use super::redb_tables::WriteTables;
use super::{CommitListener, Health, Shared, lock, migrate};
use crate::domain::projection::{ApplyError, apply_all};
use crate::domain::tables::TableError;
use crate::domain::{Decision, Domain, NewEvent, View};
use crate::event::{EncodeRecordError, Recorded};
use crate::types::seq::Seq;
use crate::types::time::{Clock, UnixMillis};

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

/// Why a transaction was abandoned.
enum Failure {
    /// The command at this index of the batch does not apply.
    Apply { culprit: usize, reason: String },
    /// Another process holds the write lock.
    Busy,
    /// A newer program changed the store.
    Superseded,
    /// The storage failed.
    Storage { reason: String },
}

impl Failure {
    fn storage(e: impl std::fmt::Display) -> Self {
        Failure::Storage {
            reason: e.to_string(),
        }
    }
}

/// A batch that was decided and applied inside a transaction.
struct Staged<D: Domain> {
    answers: Vec<Result<D::Reply, CommandError<D::Refusal>>>,
    records: Vec<Recorded<D::Event>>,
    head: Seq,
}

pub(super) struct Committer<D: Domain> {
    shared: Arc<Shared<D>>,
    options: OpenOptions,
    clock: Arc<dyn Clock>,
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
            let idle = self.options.checkpoint_idle.filter(|_| dirty);
            let (jobs, open) = match line.next(idle, last) {
                Turn::Batch { jobs, open } => (jobs, open),
                Turn::Idle => {
                    self.checkpoint();
                    dirty = false;
                    continue;
                }
                Turn::Closed => break,
            };
            last = jobs.len();
            let weight: usize = jobs.iter().map(|job| job.weight).sum();
            let jobs = self.still_wanted(jobs);
            let commits = self.shared.commits.load(Ordering::Relaxed);
            self.commit_batch(jobs);
            dirty |= self.shared.commits.load(Ordering::Relaxed) != commits;
            self.shared
                .waiting_bytes
                .fetch_sub(weight, Ordering::AcqRel);
            if !open {
                break;
            }
        }
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
        let saved = catch_unwind(AssertUnwindSafe(|| {
            let mut txn = self.begin()?;
            txn.set_quick_repair(true);
            txn.commit().map_err(Failure::storage)
        }))
        .unwrap_or_else(|panic| {
            Err(Failure::Storage {
                reason: panic_text(&*panic),
            })
        });
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
            let outcome =
                catch_unwind(AssertUnwindSafe(|| self.transact(&jobs))).unwrap_or_else(|panic| {
                    Err(Failure::Storage {
                        reason: panic_text(&*panic),
                    })
                });
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
                let told = catch_unwind(AssertUnwindSafe(|| listener(&staged.records)));
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
        let index = D::build_index(&snapshot).map_err(|e| e.to_string())?;
        *lock(&self.shared.index) = index;
        Ok(())
    }

    /// Ends writing. The engine refuses all access through a handle that saw an error, so reads go
    /// on through one of their own.
    fn turn_read_only(&self, reason: &str) {
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

    fn begin(&mut self) -> Result<WriteTransaction, Failure> {
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

/// Stops this process from writing once a newer one has changed the store's shape.
fn check_siblings<D: Domain>(txn: &WriteTransaction) -> Result<(), Failure> {
    let format = migrate::meta_u32(txn, META_FORMAT).map_err(Failure::storage)?;
    let min_writer = migrate::meta_u32(txn, META_MIN_WRITER).map_err(Failure::storage)?;
    if format != Some(migrate::FORMAT) || min_writer > Some(migrate::FORMAT) {
        return Err(Failure::Superseded);
    }
    let meta = txn.open_table(META).map_err(Failure::storage)?;
    for projection in D::projections() {
        let key = format!("{META_PROJECTION}{}", projection.name());
        let stored = meta.get(key.as_str()).map_err(Failure::storage)?;
        if stored.is_none_or(|v| v.value() != projection.version().to_le_bytes()) {
            return Err(Failure::Superseded);
        }
    }
    Ok(())
}

/// Why one event could not be appended.
enum AppendError {
    Apply(String),
    Storage(String),
}

impl AppendError {
    fn blame(self, culprit: usize) -> Failure {
        match self {
            AppendError::Apply(reason) => Failure::Apply { culprit, reason },
            AppendError::Storage(reason) => Failure::Storage { reason },
        }
    }

    fn storage(e: impl std::fmt::Display) -> Self {
        AppendError::Storage(e.to_string())
    }
}

impl From<ApplyError> for AppendError {
    fn from(e: ApplyError) -> Self {
        match e {
            ApplyError::Table(TableError::Backend(e)) => AppendError::storage(e),
            e => AppendError::Apply(e.to_string()),
        }
    }
}

impl From<EncodeRecordError> for AppendError {
    fn from(e: EncodeRecordError) -> Self {
        AppendError::Apply(e.to_string())
    }
}

/// The records of a batch and the head after them.
type Finished<D> = (Vec<Recorded<<D as Domain>::Event>>, Seq);

/// The open tables of a batch.
struct Stage<'txn, D: Domain> {
    tables: WriteTables<'txn>,
    log: Table<'txn, u64, &'static [u8]>,
    bodies: Table<'txn, u64, &'static [u8]>,
    head: Seq,
    now: UnixMillis,
    records: Vec<Recorded<D::Event>>,
    mergeable: Vec<D::Event>,
}

impl<'txn, D: Domain> Stage<'txn, D> {
    fn open(txn: &'txn WriteTransaction, now: UnixMillis) -> Result<Self, Failure> {
        let tables = WriteTables::new(txn, D::KIND);
        let log = txn.open_table(LOG).map_err(Failure::storage)?;
        let bodies = txn.open_table(BODIES).map_err(Failure::storage)?;
        let last = log.last().map_err(Failure::storage)?;
        let head = last.map_or(Seq::ZERO, |(seq, _)| Seq(seq.value()));
        Ok(Stage {
            tables,
            log,
            bodies,
            head,
            now,
            records: vec![],
            mergeable: vec![],
        })
    }

    fn append(&mut self, new: NewEvent<D::Event>, index: &mut D::Index) -> Result<(), AppendError> {
        let record = Recorded {
            seq: self.head.next(),
            at: self.now,
            event: new.event,
        };
        apply_all(D::projections(), &mut self.tables, &record)?;
        D::index(index, &record);
        for seq in D::releases(&record.event) {
            self.bodies.remove(seq.0).map_err(AppendError::storage)?;
        }
        if D::is_mergeable(&record.event) {
            let rest = match self.mergeable.last_mut() {
                Some(last) => D::merge(last, record.event).err(),
                None => Some(record.event),
            };
            self.mergeable.extend(rest);
            return Ok(());
        }
        if let Some(body) = &new.body {
            self.bodies
                .insert(record.seq.0, &**body)
                .map_err(AppendError::storage)?;
        }
        self.write(record)
    }

    fn write(&mut self, record: Recorded<D::Event>) -> Result<(), AppendError> {
        let frame = record.to_frame()?;
        self.log
            .insert(record.seq.0, frame.as_slice())
            .map_err(AppendError::storage)?;
        self.head = record.seq;
        self.records.push(record);
        Ok(())
    }

    fn finish(mut self) -> Result<Finished<D>, Failure> {
        for event in std::mem::take(&mut self.mergeable) {
            let record = Recorded {
                seq: self.head.next(),
                at: self.now,
                event,
            };
            self.write(record).map_err(|e| match e {
                AppendError::Apply(reason) | AppendError::Storage(reason) => {
                    Failure::Storage { reason }
                }
            })?;
        }
        Ok((self.records, self.head))
    }
}
