//! How fast a key knocks.
//!
//! A record costs disk for good and a knock costs its sender nothing, so what one key may have
//! recorded has a pace. It stands in a table of its own: who asks is one thing, how often another.

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection};
use crate::domain::tables::{TableId, Tables, get_row, put_row};
use crate::event::Recorded;
use crate::event::agent::AgentEvent;
use crate::event::agent::room::{bond_event, mailbox_event, outbox_event};
use crate::types::id::PublicKey;
use crate::types::limit::{KNOCK_RECORD_MS, PAIR_ANSWER_EVERY_MS};
use crate::types::time::UnixMillis;

/// Value of table `pair_pace`; the key is the public key's 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceRow {
    /// Until when its recorded knocks use up its share: each one adds
    /// [`KNOCK_RECORD_MS`] to the later of this and the time of the record.
    pub spent: UnixMillis,
    /// The same of the answers that it got as a peer, each of which adds
    /// [`PAIR_ANSWER_EVERY_MS`].
    pub answered: UnixMillis,
}

/// How fast keys knock.
pub struct PairPace;

impl Projection<AgentEvent> for PairPace {
    fn name(&self) -> &'static str {
        "pair_pace"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::PairPace]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::KnockReceived(e) => change(tables, &e.key, |row| {
                row.spent = row.spent.max(rec.at).plus(KNOCK_RECORD_MS);
            }),
            AgentEvent::KnockAnswered(e) => change(tables, &e.key, |row| {
                row.answered = row.answered.max(rec.at).plus(PAIR_ANSWER_EVERY_MS);
            }),
            // Whoever is not waited for and not admitted has no row.
            AgentEvent::KnockResolved(e) => change(tables, &e.key, |row| row.spent = UnixMillis(0)),
            AgentEvent::PeerRemoved(e) => {
                change(tables, &e.key, |row| row.answered = UnixMillis(0))
            }
            AgentEvent::PeerForgotten(e) => {
                if e.last {
                    tables.delete(TableId::PairPace, e.key.as_bytes())?;
                }
                Ok(())
            }
            outbox_event!()
            | mailbox_event!()
            | AgentEvent::PeerAdded(_)
            | AgentEvent::PeersPublished(_)
            | AgentEvent::PeersFileAdopted(_)
            | AgentEvent::PeersHeld(_)
            | AgentEvent::LeaseTaken(_)
            | AgentEvent::LeaseReleased(_)
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | AgentEvent::HistoryForgotten(_)
            | AgentEvent::PairRequested(_)
            | AgentEvent::PairRequestEnded(_)
            | AgentEvent::PairConflicted(_)
            | AgentEvent::PairConflictResolved(_)
            | AgentEvent::KeyBlocked(_)
            | AgentEvent::KeyUnblocked(_)
            | AgentEvent::PairNewsSeen(_)
            | AgentEvent::ConsentDeclined(_)
            | bond_event!()
            | AgentEvent::HostChanged(_)
            | AgentEvent::Imported(_) => Ok(()),
        }
    }
}

fn change(
    tables: &mut dyn Tables,
    key: &PublicKey,
    change: impl FnOnce(&mut PaceRow),
) -> Result<(), ApplyError> {
    let table = TableId::PairPace;
    let mut row: PaceRow = get_row(tables, table, key.as_bytes())?.unwrap_or_default();
    change(&mut row);
    if row == PaceRow::default() {
        tables.delete(table, key.as_bytes())?;
    } else {
        put_row(tables, table, key.as_bytes(), &row)?;
    }
    Ok(())
}
