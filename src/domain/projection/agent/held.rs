//! Rows of what was written into `peers.json` and does not count.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection};
use crate::domain::tables::{TableId, Tables, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::AgentEvent;
use crate::event::agent::room::{bond_event, mailbox_event, outbox_event, pairing_event};
use crate::types::time::UnixMillis;

/// Value of table `peers_held`; the key is the public key's 32 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldRow {
    /// The name that the edit gave it.
    pub petname: String,
    /// When the edit was taken over.
    pub at: UnixMillis,
}

/// What the last hand edit of `peers.json` said in vain.
pub struct PeersHeld;

impl Projection<AgentEvent> for PeersHeld {
    fn name(&self) -> &'static str {
        "peers_held"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::PeersHeld]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        let table = TableId::PeersHeld;
        match &rec.event {
            AgentEvent::PeersHeld(e) => {
                let mut old = vec![];
                scan_rows::<HeldRow>(tables, table, &[], |key, _| {
                    old.push(key.to_vec());
                    Ok(ControlFlow::Continue(()))
                })?;
                for key in old {
                    tables.delete(table, &key)?;
                }
                for entry in &e.entries {
                    let row = HeldRow {
                        petname: entry.petname.clone(),
                        at: rec.at,
                    };
                    put_row(tables, table, entry.key.as_bytes(), &row)?;
                }
            }
            AgentEvent::PeerAdded(e) => {
                tables.delete(table, e.key.as_bytes())?;
            }
            AgentEvent::PeerForgotten(e) => {
                if e.last {
                    tables.delete(table, e.key.as_bytes())?;
                }
            }
            outbox_event!()
            | mailbox_event!()
            | pairing_event!()
            | AgentEvent::PeerRemoved(_)
            | AgentEvent::PeersPublished(_)
            | AgentEvent::PeersFileAdopted(_)
            | AgentEvent::LeaseTaken(_)
            | AgentEvent::LeaseReleased(_)
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | AgentEvent::HistoryForgotten(_)
            | bond_event!()
            | AgentEvent::HostChanged(_)
            | AgentEvent::Imported(_) => {}
        }
        Ok(())
    }
}
