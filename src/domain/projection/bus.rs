//! Rows of a bus store.
//!
//! `pending` is keyed by position: it grows at its right edge, one dirty page a batch. The
//! per-recipient order lives in memory ([`QueueIndex`](crate::domain::decide::bus::QueueIndex)) and
//! is rebuilt from these rows (decision in `docs/adr/0003-seq-keyed-hot-tables.md`).

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, UNKNOWN_VERSION};
use crate::domain::tables::{TableId, Tables, get_row, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::bus::{BusEvent, DISCARDED, DropReason};
use crate::event::bus_room::{presence_event, queue_event, relay_event};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Value of table `pending`; the key is the position of the `Enqueued` record, big endian.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingRow {
    /// Queue name.
    pub to: String,
    /// When the message arrived, wall clock of the bus.
    pub at: UnixMillis,
    /// Length of the payload in bytes.
    pub len: u32,
    /// SHA-256 of the payload.
    pub sha256: [u8; 32],
    /// The id that the payload gives itself; empty where there is none.
    pub msg_id: String,
}

/// Version 1 of [`PendingRow`]; frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PendingRowV1 {
    to: String,
    at: UnixMillis,
    len: u32,
    sha256: [u8; 32],
}

/// Value of table `drops`; the key is one byte: 0 overflow, 1 expired, 2 body lost,
/// 3 taken out by the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropsRow {
    /// Messages that left unread for this reason, since the store was made.
    pub messages: u64,
}

/// Key of a [`DropsRow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCounter {
    /// The queue was full.
    Overflow,
    /// The message outlived the time to live.
    Expired,
    /// The body was missing or damaged.
    BodyLost,
    /// The operator took it out.
    Admin,
}

impl DropCounter {
    /// Every counter with its name.
    pub const ALL: [(DropCounter, &'static str); 4] = [
        (DropCounter::Overflow, "overflow"),
        (DropCounter::Expired, "expired"),
        (DropCounter::BodyLost, "body_lost"),
        (DropCounter::Admin, DISCARDED),
    ];

    /// The row's key.
    #[must_use]
    pub const fn key(self) -> [u8; 1] {
        match self {
            DropCounter::Overflow => [0],
            DropCounter::Expired => [1],
            DropCounter::BodyLost => [2],
            DropCounter::Admin => [3],
        }
    }
}

/// Value of table `roster`; the key is the board key's bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RosterRow {
    /// The announcement as posted, JSON.
    pub announcement: Vec<u8>,
    /// When the session was last heard of, wall clock of the bus.
    pub last_seen: UnixMillis,
}

/// Unacknowledged messages.
pub struct Pending;

impl Projection<BusEvent> for Pending {
    fn name(&self) -> &'static str {
        "pending"
    }

    fn version(&self) -> u16 {
        2
    }

    fn upgrade(&self, from: u16, tables: &mut dyn Tables) -> Result<(), ApplyError> {
        if from != 1 {
            return Err(UNKNOWN_VERSION);
        }
        let mut rows = vec![];
        scan_rows::<PendingRowV1>(tables, TableId::Pending, &[], |key, row| {
            rows.push((key.to_vec(), row));
            Ok(ControlFlow::Continue(()))
        })?;
        for (key, old) in rows {
            let row = PendingRow {
                to: old.to,
                at: old.at,
                len: old.len,
                sha256: old.sha256,
                msg_id: String::new(),
            };
            put_row(tables, TableId::Pending, &key, &row)?;
        }
        Ok(())
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Pending]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<BusEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            BusEvent::Enqueued(e) => {
                let row = PendingRow {
                    to: e.to.clone(),
                    at: rec.at,
                    len: e.len,
                    sha256: e.sha256,
                    msg_id: e.msg_id.clone(),
                };
                put_row(tables, TableId::Pending, &rec.seq.to_key(), &row)?;
            }
            BusEvent::Acked(e) => remove_all(tables, &e.seqs)?,
            BusEvent::Dropped(e) => remove_all(tables, &e.seqs)?,
            BusEvent::Discarded(e) => remove_all(tables, &e.seqs)?,
            BusEvent::BodyLost(e) => remove_all(tables, &[e.message])?,
            presence_event!() | relay_event!() | BusEvent::QueueImported(_) => {}
        }
        Ok(())
    }
}

fn remove_all(tables: &mut dyn Tables, seqs: &[Seq]) -> Result<(), ApplyError> {
    for seq in seqs {
        if !tables.delete(TableId::Pending, &seq.to_key())? {
            return Err(ApplyError::Inconsistent {
                reason: "message is not pending",
            });
        }
    }
    Ok(())
}

/// Counters of messages that left unread.
pub struct Drops;

impl Projection<BusEvent> for Drops {
    fn name(&self) -> &'static str {
        "drops"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Drops]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<BusEvent>) -> Result<(), ApplyError> {
        let (counter, n) = match &rec.event {
            BusEvent::Dropped(e) => {
                let counter = match e.reason {
                    DropReason::Overflow => DropCounter::Overflow,
                    DropReason::Expired => DropCounter::Expired,
                };
                (counter, e.seqs.len() as u64)
            }
            BusEvent::BodyLost(_) => (DropCounter::BodyLost, 1),
            BusEvent::Discarded(e) => (DropCounter::Admin, e.seqs.len() as u64),
            presence_event!()
            | relay_event!()
            | BusEvent::Enqueued(_)
            | BusEvent::Acked(_)
            | BusEvent::QueueImported(_) => return Ok(()),
        };
        let key = counter.key();
        let row: DropsRow = get_row(tables, TableId::Drops, &key)?.unwrap_or_default();
        let messages = row.messages.saturating_add(n);
        put_row(tables, TableId::Drops, &key, &DropsRow { messages })?;
        Ok(())
    }
}

/// The presence board.
pub struct Roster;

impl Projection<BusEvent> for Roster {
    fn name(&self) -> &'static str {
        "roster"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Roster]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<BusEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            BusEvent::Announced(e) => {
                let row = RosterRow {
                    announcement: e.announcement.clone(),
                    last_seen: rec.at,
                };
                put_row(tables, TableId::Roster, e.entry.as_bytes(), &row)?;
            }
            BusEvent::Seen(e) => {
                for seen in &e.entries {
                    let key = seen.entry.as_bytes();
                    // A session may have left between its heartbeat and this record.
                    if let Some(mut row) = get_row::<RosterRow>(tables, TableId::Roster, key)? {
                        row.last_seen = row.last_seen.max(seen.at);
                        put_row(tables, TableId::Roster, key, &row)?;
                    }
                }
            }
            BusEvent::Unregistered(e) => {
                tables.delete(TableId::Roster, e.entry.as_bytes())?;
            }
            BusEvent::PresenceExpired(e) => leave(tables, &e.entries)?,
            BusEvent::PresenceRemoved(e) => leave(tables, &e.entries)?,
            queue_event!()
            | relay_event!()
            | BusEvent::PresenceSigned(_)
            | BusEvent::PresenceForgotten(_) => {}
        }
        Ok(())
    }
}

fn leave(tables: &mut dyn Tables, entries: &[String]) -> Result<(), ApplyError> {
    for entry in entries {
        tables.delete(TableId::Roster, entry.as_bytes())?;
    }
    Ok(())
}

/// Value of table `presence_times`; the key is the board key's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceTimeRow {
    /// Newest signed time of this session that was accepted.
    pub ts: UnixMillis,
}

/// Newest signed times, which outlive their sessions: an old announcement must not bring a session
/// back that has left.
pub struct PresenceTimes;

impl Projection<BusEvent> for PresenceTimes {
    fn name(&self) -> &'static str {
        "presence_times"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::PresenceTimes]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<BusEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            BusEvent::PresenceSigned(e) => {
                for signed in &e.entries {
                    let key = signed.entry.as_bytes();
                    let known: Option<PresenceTimeRow> =
                        get_row(tables, TableId::PresenceTimes, key)?;
                    let ts = known.map_or(signed.ts, |row| row.ts.max(signed.ts));
                    put_row(tables, TableId::PresenceTimes, key, &PresenceTimeRow { ts })?;
                }
            }
            BusEvent::PresenceForgotten(e) => {
                for entry in &e.entries {
                    tables.delete(TableId::PresenceTimes, entry.as_bytes())?;
                }
            }
            queue_event!()
            | relay_event!()
            | BusEvent::Announced(_)
            | BusEvent::Seen(_)
            | BusEvent::Unregistered(_)
            | BusEvent::PresenceExpired(_)
            | BusEvent::PresenceRemoved(_) => {}
        }
        Ok(())
    }
}
