//! Keys whose program is known to speak our own mode of sealed sessions: each proved itself in one.
//!
//! That a key stands here admits nobody. It says that a file session may be proposed to it: another
//! program would show such a proposal as an odd message.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection};
use crate::domain::tables::{TableError, TableId, Tables, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::room::{mailbox_event, outbox_event, pairing_event, policy_event};
use crate::event::agent::{AgentEvent, PinStep};
use crate::types::limit::MAX_SEALED_PEERS;
use crate::types::time::UnixMillis;

/// Value of table `sealed_peers`; the key is the public key's 32 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SealedPeerRow {
    /// When it proved itself last.
    pub at: UnixMillis,
}

/// Keys that speak our own mode.
pub struct SealedPeers;

impl Projection<AgentEvent> for SealedPeers {
    fn name(&self) -> &'static str {
        "sealed_peers"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::SealedPeers]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::BondPin(e) => match (e.step, e.key) {
                (PinStep::Received | PinStep::Pinned | PinStep::Met, Some(key)) => {
                    let row = SealedPeerRow { at: rec.at };
                    put_row(tables, TableId::SealedPeers, key.as_bytes(), &row)?;
                    give_way(tables)
                }
                _ => Ok(()),
            },
            AgentEvent::PeerForgotten(e) => {
                tables.delete(TableId::SealedPeers, e.key.as_bytes())?;
                Ok(())
            }
            AgentEvent::BondOpened(_)
            | AgentEvent::BondAdvanced(_)
            | AgentEvent::BondEnded(_)
            | AgentEvent::BondSaid(_)
            | AgentEvent::BondHeard(_)
            | AgentEvent::BondFileSent(_)
            | AgentEvent::BondFileBlocked(_)
            | AgentEvent::BondOffered(_)
            | AgentEvent::BondDecided(_)
            | AgentEvent::BondFilePlaced(_)
            | AgentEvent::BondDropped(_)
            | AgentEvent::BondGap(_)
            | AgentEvent::BondFailed(_)
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | AgentEvent::HistoryForgotten(_)
            | policy_event!()
            | outbox_event!()
            | pairing_event!()
            | mailbox_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

/// The oldest gives way when there are too many; of equally old ones the first key.
fn give_way(tables: &mut dyn Tables) -> Result<(), ApplyError> {
    let mut rows = 0;
    let mut oldest: Option<(UnixMillis, Vec<u8>)> = None;
    let visit = |key: &[u8], row: SealedPeerRow| -> Result<ControlFlow<()>, TableError> {
        rows += 1;
        if oldest.as_ref().is_none_or(|(at, _)| row.at < *at) {
            oldest = Some((row.at, key.to_vec()));
        }
        Ok(ControlFlow::Continue(()))
    };
    scan_rows::<SealedPeerRow>(tables, TableId::SealedPeers, &[], visit)?;
    if let (true, Some((_, key))) = (rows > MAX_SEALED_PEERS, oldest) {
        tables.delete(TableId::SealedPeers, &key)?;
    }
    Ok(())
}
