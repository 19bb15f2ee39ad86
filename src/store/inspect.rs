//! A store in the words of people and scripts: what the admin endpoint of a running bus answers
//! and what the admin tool reads from a file, from one place, so that both look alike.

use std::ops::{Bound, ControlFlow};

use serde_json::{Value, json};

use super::verify::{Report, VerifyError};
use super::{Compacted, ReadError, Snapshot};
use crate::domain::decide::bus::QueueIndex;
use crate::domain::projection::bus::{DropCounter, DropsRow, PendingRow, RosterRow};
use crate::domain::tables::{TableError, TableId, TableReader, decode_row};
use crate::event::{Recorded, StoredEvent};
use crate::types::seq::Seq;
use crate::wire::admin::{
    Compaction, QueueRow, Queues, RecordRow, Records, TableRow, TableRows, Verification,
};

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
    let head = snapshot.head()?.0;
    Ok(Records { head, records })
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

/// The first rows of a table of a bus; `None` when a bus has no such table.
///
/// # Errors
///
/// [`ReadError`] when the table cannot be read or a row does not decode.
pub fn bus_table(
    snapshot: &Snapshot,
    name: &str,
    limit: usize,
) -> Result<Option<TableRows>, ReadError> {
    let row: fn(&[u8], &[u8]) -> Result<TableRow, TableError> = match name {
        "pending" => pending_row,
        "drops" => drops_row,
        "roster" => roster_row,
        _ => return Ok(None),
    };
    let table = TableId::ALL.iter().copied().find(|t| t.name() == name);
    let Some(table) = table else { return Ok(None) };
    let mut rows = vec![];
    let mut failed = None;
    snapshot.scan(
        table,
        Bound::Unbounded,
        Bound::Unbounded,
        &mut |key, value| {
            if rows.len() >= limit {
                return ControlFlow::Break(());
            }
            match row(key, value) {
                Ok(row) => {
                    rows.push(row);
                    ControlFlow::Continue(())
                }
                Err(e) => {
                    failed = Some(e);
                    ControlFlow::Break(())
                }
            }
        },
    )?;
    match failed {
        Some(e) => Err(e.into()),
        None => Ok(Some(TableRows {
            table: name.to_owned(),
            rows,
        })),
    }
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

fn pending_row(key: &[u8], value: &[u8]) -> Result<TableRow, TableError> {
    let row: PendingRow = decode_row(TableId::Pending, value)?;
    let seq = Seq::from_key(key);
    Ok(TableRow {
        key: seq.map_or_else(|| hex(key), |seq| seq.to_string()),
        value: json!({ "to": row.to, "at": row.at, "len": row.len, "sha256": hex(&row.sha256) }),
    })
}

fn drops_row(key: &[u8], value: &[u8]) -> Result<TableRow, TableError> {
    let row: DropsRow = decode_row(TableId::Drops, value)?;
    let name = DropCounter::ALL.iter().find(|(c, _)| c.key() == key);
    Ok(TableRow {
        key: name.map_or_else(|| hex(key), |(_, name)| (*name).to_owned()),
        value: json!({ "messages": row.messages }),
    })
}

fn roster_row(key: &[u8], value: &[u8]) -> Result<TableRow, TableError> {
    let row: RosterRow = decode_row(TableId::Roster, value)?;
    let announcement: Value = serde_json::from_slice(&row.announcement).unwrap_or(Value::Null);
    Ok(TableRow {
        key: String::from_utf8_lossy(key).into_owned(),
        value: json!({ "last_seen": row.last_seen, "announcement": announcement }),
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
