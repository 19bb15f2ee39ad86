//! When the writer compacts: while nobody waits, and under load only as much as keeps up.

use std::time::{Duration, Instant};

use redb::{Durability, WriteTransaction};

use super::commit::Committer;
use super::compact::{Budget, CompactError, Compacted, Cut, FoldError, fold};
use super::guard::guarded;
use super::line::Line;
use super::open::Mode;
use super::stage::Failure;
use super::sync::atomic::Ordering;
use super::sync::recv;
use super::{Health, lock};
use crate::domain::Domain;

/// Longest time that a command waits for a slice that began before it came.
const SLICE: Duration = Duration::from_millis(4);

/// Most records a slice. The model checker's logs are a few records long and are to be cut, too.
const SLICE_RECORDS: u64 = if cfg!(shuttle) { 2 } else { 4_096 };

/// After so many records the retention is looked at even though the writer is busy.
const CHECK_EVERY: u64 = 4_096;

/// How long the writer is idle before it compacts by itself.
const PAUSE: Duration = Duration::from_secs(1);

/// An idle writer looks for records that have become too old this often.
const RECHECK: Duration = Duration::from_secs(600);

/// A store that siblings follow keeps its newest records this long whatever the retention says.
const FOLLOWED_MS: u64 = 60_000;

/// A compaction that somebody asked for.
pub(super) struct Request {
    cut: Cut,
    until: Instant,
    sum: Compacted,
    answer: oneshot::Sender<Result<Compacted, CompactError>>,
}

impl Request {
    pub(super) fn new(cut: Cut, within: Duration) -> (Self, Compaction) {
        let (answer, receiver) = oneshot::channel();
        let request = Request {
            cut,
            until: Instant::now() + within,
            sum: Compacted::default(),
            answer,
        };
        (request, Compaction(receiver))
    }
}

/// Resolves when a compaction is done or its time is up: await [`answer`](Compaction::answer), or
/// [`wait`](Compaction::wait) in blocking code.
#[must_use = "nothing is known of a compaction before this resolves"]
pub struct Compaction(oneshot::Receiver<Result<Compacted, CompactError>>);

impl Compaction {
    /// Blocks until the answer is there.
    ///
    /// # Errors
    ///
    /// [`CompactError`].
    pub fn wait(self) -> Result<Compacted, CompactError> {
        recv(self.0).unwrap_or_else(|| Err(closed()))
    }

    /// The answer.
    ///
    /// # Errors
    ///
    /// [`CompactError`].
    pub async fn answer(self) -> Result<Compacted, CompactError> {
        self.0.await.unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> CompactError {
    CompactError::Unwritable {
        reason: "it is closed".to_owned(),
    }
}

/// What the writer remembers about compacting.
#[derive(Default)]
pub(super) struct Compactor {
    /// Records since the retention was last looked at.
    unseen: u64,
    /// What exceeds the retention.
    due: Option<Cut>,
    /// Set once a record did not fold: trying again would fail again.
    blocked: bool,
}

impl<D: Domain> Committer<D> {
    /// How long the writer may sleep before it should look around; `None`: until somebody comes.
    pub(super) fn nap(&self, dirty: bool) -> Option<Duration> {
        let checkpoint = self.options.checkpoint_idle.filter(|_| dirty);
        let compaction = match (&self.options.retention, self.compactor.blocked) {
            _ if lock(&self.shared.compaction).is_some() => Some(Duration::ZERO),
            (None, _) | (_, true) => None,
            _ if self.compactor.due.is_some() => Some(Duration::ZERO),
            _ if self.compactor.unseen > 0 => Some(PAUSE),
            _ => Some(RECHECK),
        };
        match (checkpoint, compaction) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// After a batch of so many records.
    pub(super) fn compact_between(&mut self, appended: u64) {
        self.compactor.unseen += appended;
        if self.compactor.unseen >= CHECK_EVERY {
            self.look();
        }
        // A shared store pays two syncs a slice: it waits for a pause.
        if self.options.mode == Mode::Exclusive && self.compactor.due.is_some() {
            self.slice_due(Durability::None);
        }
    }

    /// While nobody waits. Returns whether anything was changed.
    pub(super) fn compact_idle(&mut self, line: &Line<D>) -> bool {
        let mut changed = self.serve_request(line);
        if self.compactor.due.is_none() {
            self.look();
        }
        while self.compactor.due.is_some() && line.is_quiet() {
            changed |= self.slice_due(Durability::Immediate);
        }
        changed
    }

    pub(super) fn serve_request(&mut self, line: &Line<D>) -> bool {
        let Some(mut request) = lock(&self.shared.compaction).take() else {
            return false;
        };
        let mut changed = false;
        let outcome = loop {
            match self.slice(request.cut, Durability::Immediate) {
                Ok(slice) => {
                    changed |= slice.records > 0;
                    request.sum = Compacted {
                        records: request.sum.records + slice.records,
                        bytes: request.sum.bytes + slice.bytes,
                        ..slice
                    };
                }
                Err(e) => break Err(e),
            }
            if request.sum.done || Instant::now() >= request.until {
                break Ok(request.sum);
            }
            if !line.is_quiet() {
                // Somebody may have found the place free meanwhile.
                let late = lock(&self.shared.compaction).replace(request);
                if let Some(late) = late {
                    let _ = late.answer.send(Err(CompactError::Running));
                }
                return changed;
            }
        };
        // Whoever asked may have gone away; what was folded stays folded.
        let _ = request.answer.send(outcome);
        changed
    }

    fn slice_due(&mut self, durability: Durability) -> bool {
        let Some(cut) = self.compactor.due else {
            return false;
        };
        match self.slice(cut, durability) {
            Ok(slice) => {
                if slice.done {
                    self.compactor.due = None;
                }
                slice.records > 0
            }
            Err(e) => {
                self.compactor.due = None;
                self.compactor.blocked = matches!(e, CompactError::Record { .. });
                false
            }
        }
    }

    /// Compares the log with the retention.
    fn look(&mut self) {
        self.compactor.unseen = 0;
        let Some(mut retention) = self.options.retention else {
            return;
        };
        if self.compactor.blocked || *lock(&self.shared.health) != Health::ReadWrite {
            return;
        }
        if self.options.mode == Mode::Shared {
            retention.age_ms = retention.age_ms.max(FOLLOWED_MS);
        }
        let now = self.clock.now();
        let snapshot = self.shared.engine().map(|engine| engine.snapshot());
        // An engine that cannot be read says so at the next command.
        self.compactor.due = match snapshot {
            Some(Ok(snapshot)) => snapshot.due(&retention, now).unwrap_or(None),
            _ => None,
        };
    }

    fn slice(&mut self, cut: Cut, durability: Durability) -> Result<Compacted, CompactError> {
        let unwritable = |reason: &str| CompactError::Unwritable {
            reason: reason.to_owned(),
        };
        if let Health::ReadOnly { reason } = lock(&self.shared.health).clone() {
            return Err(unwritable(&reason));
        }
        let outcome = guarded(
            || self.fold_once(cut, durability),
            |reason| FoldError::Storage(Failure::Storage { reason }),
        );
        match outcome {
            Ok(slice) => {
                if slice.records > 0 && matches!(durability, Durability::Immediate) {
                    self.shared.commits.fetch_add(1, Ordering::Relaxed);
                }
                Ok(slice)
            }
            Err(FoldError::Record { seq, reason }) => Err(CompactError::Record { seq, reason }),
            Err(FoldError::Storage(Failure::Storage { reason })) => {
                self.turn_read_only(&reason);
                Err(unwritable(&reason))
            }
            Err(FoldError::Storage(Failure::Busy)) => Err(unwritable("another process holds it")),
            Err(FoldError::Storage(_)) => Err(unwritable("it was upgraded by a newer interlink")),
        }
    }

    fn fold_once(&mut self, cut: Cut, durability: Durability) -> Result<Compacted, FoldError> {
        let mut txn: WriteTransaction = self.begin().map_err(FoldError::Storage)?;
        let storage = |e: &dyn std::fmt::Display| {
            FoldError::Storage(Failure::Storage {
                reason: e.to_string(),
            })
        };
        txn.set_durability(durability).map_err(|e| storage(&e))?;
        let budget = Budget {
            records: SLICE_RECORDS,
            until: Instant::now() + SLICE,
        };
        let slice = fold::<D>(&txn, cut, budget)?;
        if slice.records > 0 {
            txn.commit().map_err(|e| storage(&e))?;
        } else {
            txn.abort().map_err(|e| storage(&e))?;
        }
        Ok(slice)
    }
}
