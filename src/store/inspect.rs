//! A store in the words of people and scripts: what the admin endpoint of a running bus answers
//! and what the admin tool reads from a file, from one place, so that both look alike.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use super::verify::{Report, VerifyError};
use super::{Compacted, ReadError, Snapshot};
use crate::domain::Domain;
use crate::domain::decide::bus::QueueIndex;
use crate::domain::projection::view;
use crate::domain::tables::{TableError, TableId, TableReader};
use crate::event::kind::StoreKind;
use crate::event::{Recorded, StoredEvent};
use crate::types::seq::Seq;
use crate::wire::admin::{
    Compaction, DepthPoint, Depths, QueueRow, Queues, RecordRow, Records, TableRow, TableRows,
    Verification,
};

/// Spans in which depth is told.
const DEPTH_SPAN_MS: u64 = 60_000;

/// Records from a position on.
///
/// # Errors
///
/// [`ReadError`] when the log cannot be read.
pub fn records<E: StoredEvent>(
    snapshot: &Snapshot,
    from: Seq,
    limit: usize,
) -> Result<Records, ReadError> {
    let mut records = vec![];
    snapshot.frames(from, |seq, bytes| {
        if records.len() >= limit {
            return Ok(ControlFlow::Break(()));
        }
        let record = Recorded::<E>::from_frame(seq, bytes)?;
        records.push(RecordRow {
            seq: record.seq.0,
            at: record.at.0,
            kind: record.event.kind().name().to_owned(),
            event: record.event.to_json(),
        });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Records {
        head: snapshot.head()?.0,
        base: snapshot.base()?.0,
        records,
    })
}

/// What a compaction did, or would do.
#[must_use]
pub fn compaction(done: &Compacted) -> Compaction {
    Compaction {
        records: done.records,
        bytes: done.bytes,
        base: done.base.0,
        head: done.head.0,
        done: done.done,
    }
}

/// Every queue in which something waits, by name.
#[must_use]
pub fn queues(index: &QueueIndex) -> Queues {
    let mut queues: Vec<QueueRow> = index
        .queues()
        .map(|(to, queue)| {
            let oldest = queue.iter().next();
            QueueRow {
                to: to.to_owned(),
                messages: queue.len() as u64,
                bytes: queue.bytes(),
                oldest_seq: oldest.map_or(0, |(seq, _)| seq.0),
                oldest_at: oldest.map_or(0, |(_, item)| item.at.0),
            }
        })
        .collect();
    queues.sort_by(|a, b| a.to.cmp(&b.to));
    Queues { queues }
}

/// At most `limit` rows of a table, from the first key after `after` on.
///
/// # Errors
///
/// [`TableError`] when the table cannot be read or a row does not decode.
pub fn table(
    tables: &dyn TableReader,
    table: TableId,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<TableRows, TableError> {
    let mut rows = vec![];
    let mut failed = None;
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    tables.scan(table, from, Bound::Unbounded, &mut |key, value| {
        if rows.len() >= limit {
            return ControlFlow::Break(());
        }
        match view::row(table, key, value) {
            Ok(row) => {
                rows.push(TableRow {
                    key: row.key,
                    raw: data_encoding::HEXLOWER.encode(key),
                    value: row.value,
                });
                ControlFlow::Continue(())
            }
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(e) => Err(e),
        None => Ok(TableRows {
            table: table.name().to_owned(),
            rows,
        }),
    }
}

/// The tables whose number of rows says what waits.
#[must_use]
pub const fn queues_of(kind: StoreKind) -> &'static [TableId] {
    match kind {
        StoreKind::Bus => &[TableId::Pending],
        StoreKind::Agent => &[TableId::OutboxOpen, TableId::MailboxUnread],
    }
}

/// How much waited when, minute by minute, from the compaction point on. Takes as long as a replay.
///
/// # Errors
///
/// The first record that does not read or does not apply.
pub fn depths<D: Domain>(snapshot: &Snapshot) -> Result<Depths, ReadError> {
    let mut points: BTreeMap<(TableId, u64), DepthPoint> = BTreeMap::new();
    let mut last: BTreeMap<TableId, u64> = BTreeMap::new();
    snapshot.replay_each::<D>(|record, tables| {
        for table in queues_of(D::KIND) {
            let rows = tables.count(*table) as u64;
            let before = last.insert(*table, rows).unwrap_or(rows);
            let Some(record) = record else { continue };
            let at = record.at.0 - record.at.0 % DEPTH_SPAN_MS;
            let point = points.entry((*table, at)).or_insert_with(|| DepthPoint {
                table: table.name().to_owned(),
                at,
                rows,
                most: before,
            });
            point.rows = rows;
            point.most = point.most.max(rows);
        }
    })?;
    Ok(Depths {
        span_ms: DEPTH_SPAN_MS,
        points: points.into_values().collect(),
    })
}

/// What a verification found.
#[must_use]
pub fn verification(outcome: &Result<Report, VerifyError>) -> Verification {
    match outcome {
        Ok(report) => Verification {
            ok: true,
            difference: None,
            record: None,
            records: report.records,
            head: report.head.0,
            rows: report.rows,
            bodies: report.bodies,
            body_bytes: report.body_bytes,
            unbuilt: report.unbuilt,
        },
        Err(e) => Verification {
            difference: Some(e.to_string()),
            record: e.record().map(|seq| seq.0),
            ..Verification::default()
        },
    }
}
