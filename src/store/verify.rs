//! Proof that a store is what its log says.
//!
//! Reads every frame (checksum, version, order), replays them into memory, compares the rows with
//! the stored ones, and checks every body against the record that brought it.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use super::replay::{self, into_memory};
use super::{ReadError, Snapshot};
use crate::crypto::hash::sha256;
use crate::domain::Domain;
use crate::domain::tables::{MemTables, TableId, TableReader};
use crate::types::seq::Seq;

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records read.
    pub records: u64,
    /// Position of the last record.
    pub head: Seq,
    /// Rows compared.
    pub rows: u64,
    /// Bodies checked.
    pub bodies: u64,
    /// Bytes of bodies checked.
    pub body_bytes: u64,
    /// Projections that another version of the program wrote, or did not know: the next open for
    /// writing builds them, and their rows were not compared.
    pub unbuilt: u64,
}

/// The first thing that does not fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A record or row does not read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A position is missing from the log.
    #[error("record {expected} is missing: {found} follows {}", expected.0.saturating_sub(1))]
    Gap {
        /// Position that should be there.
        expected: Seq,
        /// Position that is there.
        found: Seq,
    },
    /// The rows were once at a later record than the last of the log: its end is gone.
    #[error("the rows stand at record {applied}, the log ends at {head}")]
    Applied {
        /// Position of the rows.
        applied: Seq,
        /// Position of the last record.
        head: Seq,
    },
    /// A stored row differs from the replayed one.
    #[error(
        "table {table}, key {key}: stored row {stored}, the log gives {replayed}; {}",
        cause_text(*record)
    )]
    Row {
        /// Name of the table.
        table: &'static str,
        /// The key in hex.
        key: String,
        /// `absent`, or the stored value in hex.
        stored: String,
        /// `absent`, or the replayed value in hex.
        replayed: String,
        /// The last record that writes or deletes this row; `None` when no record does.
        record: Option<Seq>,
    },
    /// A body that a row needs is gone.
    #[error("body {seq} is missing")]
    BodyMissing {
        /// Its position.
        seq: Seq,
    },
    /// A body differs from what its record says.
    #[error("body {seq} is damaged")]
    BodyDamaged {
        /// Its position.
        seq: Seq,
    },
    /// A body that no row needs.
    #[error("body {seq} belongs to nothing")]
    BodyOrphan {
        /// Its position.
        seq: Seq,
    },
}

impl VerifyError {
    /// The record that the difference comes from, where one is to blame.
    #[must_use]
    pub fn record(&self) -> Option<Seq> {
        match self {
            VerifyError::Read(ReadError::Record(e)) => Some(e.seq()),
            VerifyError::Read(_) => None,
            VerifyError::Gap { found, .. } => Some(*found),
            VerifyError::Applied { applied, head } => (applied < head).then(|| applied.next()),
            VerifyError::Row { record, .. } => *record,
            VerifyError::BodyMissing { seq }
            | VerifyError::BodyDamaged { seq }
            | VerifyError::BodyOrphan { seq } => Some(*seq),
        }
    }
}

fn cause_text(record: Option<Seq>) -> String {
    record.map_or_else(
        || "no record touches it".to_owned(),
        |seq| format!("record {seq} touches it last"),
    )
}

/// Verifies a snapshot; `progress` is called with the number of records read, now and then.
///
/// # Errors
///
/// The first difference.
pub fn verify<D: Domain>(
    snapshot: &Snapshot,
    mut progress: impl FnMut(u64),
) -> Result<Report, VerifyError> {
    let base = snapshot.base()?;
    let mut report = Report {
        head: base,
        ..Report::default()
    };
    let mut gap = None;
    let replayed = into_memory::<D>(snapshot, |record| {
        let expected = report.head.next();
        if record.seq != expected && gap.is_none() {
            gap = Some(VerifyError::Gap {
                expected,
                found: record.seq,
            });
        }
        report.head = record.seq;
        report.records += 1;
        if report.records.is_multiple_of(65_536) {
            progress(report.records);
        }
    })?;
    if let Some(gap) = gap {
        return Err(gap);
    }
    let applied = snapshot.applied()?;
    if applied > report.head {
        let head = report.head;
        return Err(VerifyError::Applied { applied, head });
    }
    let mut tables: Vec<TableId> = vec![];
    for projection in D::projections() {
        // Rows of another version say nothing about the log: the next open builds them anew.
        if snapshot.is_current(projection.name(), projection.version())? {
            tables.extend(projection.tables());
        } else {
            report.unbuilt += 1;
        }
    }
    for table in tables {
        match compare(snapshot, &replayed, table)? {
            Ok(rows) => report.rows += rows,
            Err(mut difference) => {
                difference.blame::<D>(snapshot, table);
                return Err(difference.into());
            }
        }
    }
    check_bodies::<D>(snapshot, &replayed, &mut report)?;
    Ok(report)
}

fn hex(value: Option<&[u8]>) -> String {
    value.map_or_else(
        || "absent".to_owned(),
        |v| data_encoding::HEXLOWER.encode(v),
    )
}

/// A row that differs.
struct Difference {
    table: TableId,
    key: Vec<u8>,
    stored: Option<Vec<u8>>,
    replayed: Option<Vec<u8>>,
    record: Option<Seq>,
}

impl Difference {
    fn new(table: TableId, key: &[u8], stored: Option<&[u8]>, replayed: Option<&[u8]>) -> Self {
        Difference {
            table,
            key: key.to_vec(),
            stored: stored.map(<[u8]>::to_vec),
            replayed: replayed.map(<[u8]>::to_vec),
            record: None,
        }
    }

    /// Replays once more to find the record behind it. A second replay that fails blames nobody:
    /// the first one has read the same records.
    fn blame<D: Domain>(&mut self, snapshot: &Snapshot, table: TableId) {
        self.record = replay::last_touch::<D>(snapshot, table, &self.key).unwrap_or(None);
    }
}

impl From<Difference> for VerifyError {
    fn from(d: Difference) -> VerifyError {
        VerifyError::Row {
            table: d.table.name(),
            key: hex(Some(&d.key)),
            stored: hex(d.stored.as_deref()),
            replayed: hex(d.replayed.as_deref()),
            record: d.record,
        }
    }
}

/// Compares a table row by row; gives the number of rows, or the first difference.
fn compare(
    snapshot: &Snapshot,
    replayed: &MemTables,
    table: TableId,
) -> Result<Result<u64, Difference>, ReadError> {
    let mut expected = replayed.rows(table).peekable();
    let mut rows = 0;
    let mut difference = None;
    snapshot.scan(
        table,
        Bound::Unbounded,
        Bound::Unbounded,
        &mut |key, value| {
            rows += 1;
            difference = match expected.next() {
                Some((k, v)) if k == key && v == value => None,
                Some((k, v)) if k == key => Some(Difference::new(table, key, Some(value), Some(v))),
                Some((k, v)) if k < key => Some(Difference::new(table, k, None, Some(v))),
                _ => Some(Difference::new(table, key, Some(value), None)),
            };
            match difference {
                None => ControlFlow::Continue(()),
                Some(_) => ControlFlow::Break(()),
            }
        },
    )?;
    if difference.is_none() {
        let missing = expected.next();
        difference = missing.map(|(k, v)| Difference::new(table, k, None, Some(v)));
    }
    Ok(difference.map_or(Ok(rows), Err))
}

fn check_bodies<D: Domain>(
    snapshot: &Snapshot,
    replayed: &MemTables,
    report: &mut Report,
) -> Result<(), VerifyError> {
    let mut live = BTreeMap::new();
    D::live_bodies(replayed, &mut |body| {
        live.insert(body.seq, body);
    })
    .map_err(ReadError::from)?;
    let mut problem = None;
    snapshot.bodies(|seq, bytes| {
        report.bodies += 1;
        report.body_bytes += bytes.len() as u64;
        problem = match live.remove(&seq) {
            None => Some(VerifyError::BodyOrphan { seq }),
            Some(body) if body.len as usize != bytes.len() || body.sha256 != sha256(bytes) => {
                Some(VerifyError::BodyDamaged { seq })
            }
            Some(_) => None,
        };
        Ok(if problem.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    if let Some(problem) = problem {
        return Err(problem);
    }
    live.into_keys()
        .next()
        .map_or(Ok(()), |seq| Err(VerifyError::BodyMissing { seq }))
}
