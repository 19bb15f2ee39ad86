//! One transaction of the writer: its checks, its open tables, what it appends.

use redb::{ReadableTable, Table, WriteTransaction};

use super::layout::{BODIES, LOG, META, META_FORMAT, META_MIN_WRITER, META_PROJECTION};
use super::migrate;
use super::redb_tables::{Rowset, WriteTables};
use crate::domain::projection::{ApplyError, apply_all};
use crate::domain::tables::TableError;
use crate::domain::{Domain, NewEvent};
use crate::event::{EncodeRecordError, Recorded};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Why a transaction was abandoned.
pub(super) enum Failure {
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
    pub(super) fn storage(e: impl std::fmt::Display) -> Self {
        Failure::Storage {
            reason: e.to_string(),
        }
    }
}

/// Stops this process from writing once a newer one has changed the store's shape.
pub(super) fn check_siblings<D: Domain>(txn: &WriteTransaction) -> Result<(), Failure> {
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
pub(super) enum AppendError {
    Apply(String),
    Storage(String),
}

impl AppendError {
    pub(super) fn blame(self, culprit: usize) -> Failure {
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
pub(super) type Finished<D> = (Vec<Recorded<<D as Domain>::Event>>, Seq);

/// The open tables of a batch.
pub(super) struct Stage<'txn, D: Domain> {
    pub(super) tables: WriteTables<'txn>,
    log: Table<'txn, u64, &'static [u8]>,
    bodies: Table<'txn, u64, &'static [u8]>,
    pub(super) head: Seq,
    now: UnixMillis,
    records: Vec<Recorded<D::Event>>,
    mergeable: Vec<D::Event>,
}

impl<'txn, D: Domain> Stage<'txn, D> {
    pub(super) fn open(txn: &'txn WriteTransaction, now: UnixMillis) -> Result<Self, Failure> {
        let tables = WriteTables::new(txn, D::KIND, Rowset::Live);
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

    pub(super) fn append(
        &mut self,
        new: NewEvent<D::Event>,
        index: &mut D::Index,
    ) -> Result<(), AppendError> {
        let record = Recorded {
            seq: self.head.next(),
            at: self.now,
            event: new.event,
        };
        apply_all(D::projections(), &mut self.tables, &record)?;
        D::index(index, &record);
        if let Some(body) = &new.body {
            D::index_body(index, record.seq, body);
        }
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

    pub(super) fn finish(mut self) -> Result<Finished<D>, Failure> {
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
