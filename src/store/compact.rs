//! Compaction: the oldest records are folded into base rows and leave the log.
//!
//! The base is what replaying the folded records gives, so a replay that starts from it gives the
//! same rows as one of the whole log, whatever the projections do (`docs/adr/0018-compaction-by-folding.md`).
//! A slice folds a bounded number of records in one transaction: a crash leaves the store before
//! or after it, and the next slice goes on from there.

use std::time::Instant;

use redb::{ReadableTable, ReadableTableMetadata, StorageError, WriteTransaction};

use super::layout::{LOG, META, META_BASE};
use super::redb_tables::{Rowset, WriteTables};
use super::snapshot::Snapshot;
use super::stage::Failure;
use super::{ReadError, error};
use crate::codec::frame;
use crate::domain::Domain;
use crate::domain::projection::{ApplyError, apply_all};
use crate::domain::tables::TableError;
use crate::event::Recorded;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// How long finished history stays readable. What exceeds either bound may be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Age of the oldest records, in milliseconds by the writers' wall clocks.
    pub age_ms: u64,
    /// Bytes of frames, estimated.
    pub bytes: u64,
}

/// What is to be folded: from the oldest record on, as long as one of the two holds. The newest
/// record always stays: it carries the position that the next one follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Up to and with this position.
    pub until: Seq,
    /// Written before this time, by its writer's wall clock.
    pub before: UnixMillis,
}

impl Cut {
    /// Everything that may be folded.
    pub const ALL: Cut = Cut {
        until: Seq(u64::MAX),
        before: UnixMillis(0),
    };

    fn takes(self, seq: Seq, at: UnixMillis) -> bool {
        seq <= self.until || at < self.before
    }
}

/// How much a log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// Records.
    pub records: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// What a compaction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Records that left the log.
    pub records: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// The compaction point now.
    pub base: Seq,
    /// The newest record.
    pub head: Seq,
    /// Whether nothing is left to fold. Otherwise the time was up: ask again.
    pub done: bool,
}

/// A compaction did not go on. The store is as it was before the slice that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// Another one was asked for and runs.
    #[error("another compaction runs")]
    Running,
    /// A record does not fold: the store is damaged there.
    #[error("record {seq} cannot be folded: {reason}")]
    Record {
        /// Its position.
        seq: Seq,
        /// What is wrong.
        reason: String,
    },
    /// The store takes no writes.
    #[error("the store cannot be compacted: {reason}")]
    Unwritable {
        /// Why.
        reason: String,
    },
}

/// Frames that are measured at each end of the log to estimate its size.
const SAMPLE: usize = 64;

/// The number of records of a log, and its bytes by the mean of the oldest and newest ones.
pub(super) fn log_size<T>(log: &T) -> Result<LogSize, StorageError>
where
    T: ReadableTable<u64, &'static [u8]> + ReadableTableMetadata,
{
    let records = log.len()?;
    let (mut measured, mut bytes) = (0u64, 0u64);
    let mut ends = log.iter()?;
    for _ in 0..SAMPLE {
        for row in [ends.next(), ends.next_back()].into_iter().flatten() {
            measured += 1;
            bytes += row?.1.value().len() as u64;
        }
    }
    let bytes = (records * bytes).checked_div(measured).unwrap_or(0);
    Ok(LogSize { records, bytes })
}

impl Retention {
    /// What to fold now; `None` while too little exceeds the bounds to be worth a transaction.
    pub(super) fn due<T>(&self, log: &T, now: UnixMillis) -> Result<Option<Cut>, StorageError>
    where
        T: ReadableTable<u64, &'static [u8]> + ReadableTableMetadata,
    {
        let Some((first, frame)) = log.first()? else {
            return Ok(None);
        };
        let size = log_size(log)?;
        if size.records <= 1 {
            return Ok(None);
        }
        let before = now.minus(self.age_ms);
        // A frame that does not parse stops the fold by name; here it only is no reason to start.
        let oldest = frame::parse_prefix(frame.value()).map_or(now, |(f, _)| f.recorded_at);
        let slack = (self.age_ms / 16).min(MAX_SLACK_MS);
        let aged = oldest < before.minus(slack) || (self.age_ms == 0 && oldest <= now);
        let excess = size.bytes.saturating_sub(self.bytes);
        let heavy = excess > self.bytes / 16;
        if !aged && !heavy {
            return Ok(None);
        }
        let surplus = (excess * size.records)
            .checked_div(size.bytes)
            .filter(|_| heavy);
        let until = Seq((first.value() + surplus.unwrap_or(0)).saturating_sub(1));
        let before = if self.age_ms == 0 {
            UnixMillis(now.0.saturating_add(1))
        } else {
            before
        };
        Ok(Some(Cut { until, before }))
    }
}

/// How much older than allowed the oldest record may get before a slice is worth its sync.
const MAX_SLACK_MS: u64 = 3_600_000;

/// Bounds of one slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) records: u64,
    pub(super) until: Instant,
}

/// Why a slice was abandoned.
pub(super) enum FoldError {
    /// The record does not read or does not apply.
    Record { seq: Seq, reason: String },
    /// The engine failed.
    Storage(Failure),
}

fn storage(e: impl std::fmt::Display) -> FoldError {
    FoldError::Storage(Failure::storage(e))
}

/// Folds the oldest records inside the given transaction.
pub(super) fn fold<D: Domain>(
    txn: &WriteTransaction,
    cut: Cut,
    budget: Budget,
) -> Result<Compacted, FoldError> {
    let mut log = txn.open_table(LOG).map_err(storage)?;
    let mut meta = txn.open_table(META).map_err(storage)?;
    let mut rows = WriteTables::new(txn, D::KIND, Rowset::Base);
    let stored = meta.get(META_BASE).map_err(storage)?;
    let base = stored.and_then(|v| v.value().try_into().ok());
    let head = log.last().map_err(storage)?;
    let mut done = Compacted {
        base: base.map_or(Seq::ZERO, |bytes| Seq(u64::from_le_bytes(bytes))),
        head: head.map_or(Seq::ZERO, |(seq, _)| Seq(seq.value())),
        ..Compacted::default()
    };
    while done.records < budget.records && (done.records == 0 || Instant::now() < budget.until) {
        let Some((seq, frame)) = oldest(&log)?.filter(|(seq, _)| *seq < done.head) else {
            done.done = true;
            break;
        };
        let broken = |reason: String| FoldError::Record { seq, reason };
        let record =
            Recorded::<D::Event>::from_frame(seq, &frame).map_err(|e| broken(e.to_string()))?;
        if !cut.takes(seq, record.at) {
            done.done = true;
            break;
        }
        apply_all(D::projections(), &mut rows, &record).map_err(|e| match e {
            ApplyError::Table(TableError::Backend(e)) => storage(e),
            e => broken(e.to_string()),
        })?;
        log.pop_first().map_err(storage)?;
        done.records += 1;
        done.bytes += frame.len() as u64;
        done.base = seq;
    }
    if done.records > 0 {
        let base = done.base.0.to_le_bytes();
        meta.insert(META_BASE, base.as_slice()).map_err(storage)?;
    }
    Ok(done)
}

fn oldest(
    log: &impl ReadableTable<u64, &'static [u8]>,
) -> Result<Option<(Seq, Vec<u8>)>, FoldError> {
    let first = log.first().map_err(storage)?;
    Ok(first.map(|(seq, frame)| (Seq(seq.value()), frame.value().to_vec())))
}

impl Snapshot {
    /// What a compaction with this cut would take out of the log, exactly.
    ///
    /// # Errors
    ///
    /// The first record in its way that does not read.
    pub fn foldable(&self, cut: Cut) -> Result<Compacted, ReadError> {
        let head = self.head()?;
        let mut sum = Compacted {
            base: self.base()?,
            head,
            done: true,
            ..Compacted::default()
        };
        self.frames(Seq::ZERO, |seq, bytes| {
            let frame = frame::parse_at(seq, bytes).map_err(error::engine)?;
            if seq >= head || !cut.takes(seq, frame.recorded_at) {
                return Ok(std::ops::ControlFlow::Break(()));
            }
            sum.records += 1;
            sum.bytes += bytes.len() as u64;
            sum.base = seq;
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        Ok(sum)
    }
}
