//! Marks of what was taken over from another program, so that a second import knows it, however long
//! ago its records were compacted.
//!
//! Stores that compacted such records before they had these rows remember what their logs still
//! held; of what went earlier, a second import sees only what still has a row of its own.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection};
use crate::domain::tables::{TableError, TableId, TableReader, Tables, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::AgentEvent;
use crate::event::agent::room::{
    bond_event, directory_event, mailbox_event, outbox_event, pairing_event,
};
use crate::event::bus::BusEvent;
use crate::event::bus_room::{presence_event, relay_event};
use crate::types::time::UnixMillis;

/// Value of tables `queue_marks` and `import_marks`; the key is the mark, a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkRow {
    /// When it was taken over, wall clock of this program.
    pub at: UnixMillis,
}

/// Every mark of a table.
///
/// # Errors
///
/// When rows cannot be read or decoded.
pub fn marks(rows: &dyn TableReader, table: TableId) -> Result<BTreeSet<[u8; 32]>, TableError> {
    let mut marks = BTreeSet::new();
    let mut malformed = false;
    scan_rows::<MarkRow>(rows, table, &[], |key, _| {
        match <[u8; 32]>::try_from(key) {
            Ok(mark) => _ = marks.insert(mark),
            Err(_) => malformed = true,
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if malformed {
        return Err(TableError::Key {
            table: table.name(),
        });
    }
    Ok(marks)
}

/// Marks of messages that came from another program's bus.
pub struct QueueMarks;

impl Projection<BusEvent> for QueueMarks {
    fn name(&self) -> &'static str {
        "queue_marks"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::QueueMarks]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<BusEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            BusEvent::QueueImported(e) => {
                let row = MarkRow { at: rec.at };
                Ok(put_row(tables, TableId::QueueMarks, &e.mark, &row)?)
            }
            presence_event!()
            | relay_event!()
            | BusEvent::Enqueued(_)
            | BusEvent::Acked(_)
            | BusEvent::Dropped(_)
            | BusEvent::BodyLost(_)
            | BusEvent::Discarded(_) => Ok(()),
        }
    }
}

/// Marks of pairing requests and messages that came from another program's state.
pub struct ImportMarks;

impl Projection<AgentEvent> for ImportMarks {
    fn name(&self) -> &'static str {
        "import_marks"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::ImportMarks]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::Imported(e) => {
                let row = MarkRow { at: rec.at };
                for mark in &e.marks {
                    put_row(tables, TableId::ImportMarks, mark, &row)?;
                }
                Ok(())
            }
            AgentEvent::PeerAdded(_)
            | AgentEvent::PeerRemoved(_)
            | AgentEvent::PeersPublished(_)
            | AgentEvent::PeersFileAdopted(_)
            | AgentEvent::PeersHeld(_)
            | AgentEvent::LeaseTaken(_)
            | AgentEvent::LeaseReleased(_)
            | AgentEvent::HostChanged(_)
            | outbox_event!()
            | mailbox_event!()
            | directory_event!()
            | pairing_event!()
            | bond_event!() => Ok(()),
        }
    }
}
