//! Rows of the sessions that a bus relays: who is in them and what waits, by position only.
//!
//! Everything that identifies somebody stands in bodies; [`RelayIndex`] reads those at open
//! (`docs/adr/0023-relay-sessions-by-number.md`).
//!
//! [`RelayIndex`]: crate::domain::decide::bus::RelayIndex

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection};
use crate::domain::tables::{TableId, Tables, get_row, put_row};
use crate::event::Recorded;
use crate::event::bus::BusEvent;
use crate::event::bus_rendezvous::{RelayFlow, RelayOpened};
use crate::event::bus_room::{presence_event, queue_event};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Value of table `relay_sessions`; the key is the position of the `RelayOpened` record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelaySessionRow {
    /// What happens to messages that wait.
    pub flow: RelayFlow,
    /// When it was opened, wall clock of the bus.
    pub opened: UnixMillis,
    /// When it was last used, as far as that is recorded.
    pub used_at: UnixMillis,
    /// Number of the next message.
    pub next: u64,
    /// Positions of the records with which those who are in it came.
    pub members: Vec<Seq>,
}

/// Value of table `relay_peers`; the key is the position of the record with which the peer came,
/// and of the body that says who it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayPeerRow {
    /// The session.
    pub session: Seq,
    /// Length of the body in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayMessageKind {
    /// Sent by a peer; its body stands at the message's position.
    Sent,
    /// About a peer that joined, at the message's position.
    Joined,
    /// About a peer that left.
    Left,
}

/// Value of table `relay_messages`; the key is the position of the record that brought it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayMessageRow {
    /// The session.
    pub session: Seq,
    /// Its number within the session.
    pub number: u64,
    /// The peer that it is from or about: position of the record with which that came.
    pub from: Seq,
    /// What it is.
    pub kind: RelayMessageKind,
    /// When it arrived, wall clock of the bus.
    pub at: UnixMillis,
    /// Length of its own body in bytes, 0 where it has none.
    pub len: u32,
    /// SHA-256 of its own body, zeros where it has none.
    pub sha256: [u8; 32],
}

impl RelaySessionRow {
    /// A session as the record that opens it makes it.
    pub(in crate::domain) fn opened(rec: &Recorded<BusEvent>, e: &RelayOpened) -> RelaySessionRow {
        RelaySessionRow {
            flow: e.flow,
            opened: rec.at,
            used_at: rec.at,
            next: 1,
            members: vec![rec.seq],
        }
    }
}

impl RelayPeerRow {
    /// The peer that a record brings.
    pub(in crate::domain) fn brought_by(rec: &Recorded<BusEvent>) -> Option<RelayPeerRow> {
        let (session, len, sha256) = match &rec.event {
            BusEvent::RelayOpened(e) => (rec.seq, e.len, e.sha256),
            BusEvent::RelayJoined(e) => (e.session, e.len, e.sha256),
            BusEvent::RelaySent(_)
            | BusEvent::RelayLeft(_)
            | BusEvent::RelayEnded(_)
            | BusEvent::RelayTouched(_)
            | BusEvent::RelayErased(_)
            | queue_event!()
            | presence_event!() => return None,
        };
        Some(RelayPeerRow {
            session,
            len,
            sha256,
        })
    }
}

impl RelayMessageRow {
    /// The message that a record brings.
    pub(in crate::domain) fn brought_by(rec: &Recorded<BusEvent>) -> Option<RelayMessageRow> {
        let none = (0, [0; 32]);
        let ((session, number), (from, kind), (len, sha256)) = match &rec.event {
            BusEvent::RelayJoined(e) => (
                (e.session, e.number),
                (rec.seq, RelayMessageKind::Joined),
                none,
            ),
            BusEvent::RelaySent(e) => (
                (e.session, e.number),
                (e.from, RelayMessageKind::Sent),
                (e.len, e.sha256),
            ),
            BusEvent::RelayLeft(e) => (
                (e.session, e.number),
                (e.member, RelayMessageKind::Left),
                none,
            ),
            BusEvent::RelayOpened(_)
            | BusEvent::RelayEnded(_)
            | BusEvent::RelayTouched(_)
            | BusEvent::RelayErased(_)
            | queue_event!()
            | presence_event!() => return None,
        };
        Some(RelayMessageRow {
            session,
            number,
            from,
            kind,
            at: rec.at,
            len,
            sha256,
        })
    }
}

/// Relay sessions, their peers and their messages.
pub struct Rendezvous;

impl Projection<BusEvent> for Rendezvous {
    fn name(&self) -> &'static str {
        "rendezvous"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[
            TableId::RelaySessions,
            TableId::RelayPeers,
            TableId::RelayMessages,
        ]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<BusEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            BusEvent::RelayOpened(e) => {
                let row = RelaySessionRow::opened(rec, e);
                put_row(tables, TableId::RelaySessions, &rec.seq.to_key(), &row)?;
                brought(tables, rec)
            }
            BusEvent::RelayJoined(e) => {
                forget(tables, &e.pruned, &e.erased)?;
                change(tables, e.session, |row| {
                    row.members.push(rec.seq);
                    row.used_at = rec.at;
                    row.next = e.number.saturating_add(1);
                })?;
                brought(tables, rec)
            }
            BusEvent::RelaySent(e) => {
                forget(tables, &e.pruned, &e.erased)?;
                change(tables, e.session, |row| {
                    row.used_at = rec.at;
                    row.next = e.number.saturating_add(1);
                })?;
                brought(tables, rec)
            }
            BusEvent::RelayLeft(e) => {
                forget(tables, &e.pruned, &e.erased)?;
                change(tables, e.session, |row| {
                    row.members.retain(|member| *member != e.member);
                    row.next = e.number.saturating_add(1);
                })?;
                brought(tables, rec)
            }
            BusEvent::RelayEnded(e) => {
                forget(tables, &e.pruned, &e.erased)?;
                if tables.delete(TableId::RelaySessions, &e.session.to_key())? {
                    Ok(())
                } else {
                    Err(NO_SESSION)
                }
            }
            BusEvent::RelayTouched(e) => change(tables, e.session, |row| row.used_at = rec.at),
            BusEvent::RelayErased(e) => {
                forget(tables, &e.pruned, &e.erased)?;
                change(tables, e.session, |_| {})
            }
            queue_event!() | presence_event!() => Ok(()),
        }
    }
}

const NO_SESSION: ApplyError = ApplyError::Inconsistent {
    reason: "there is no such relay session",
};

/// Stores the peer and the message that a record brings.
fn brought(tables: &mut dyn Tables, rec: &Recorded<BusEvent>) -> Result<(), ApplyError> {
    let key = rec.seq.to_key();
    if let Some(row) = RelayPeerRow::brought_by(rec) {
        put_row(tables, TableId::RelayPeers, &key, &row)?;
    }
    if let Some(row) = RelayMessageRow::brought_by(rec) {
        put_row(tables, TableId::RelayMessages, &key, &row)?;
    }
    Ok(())
}

fn change(
    tables: &mut dyn Tables,
    session: Seq,
    change: impl FnOnce(&mut RelaySessionRow),
) -> Result<(), ApplyError> {
    let key = session.to_key();
    let row: Option<RelaySessionRow> = get_row(tables, TableId::RelaySessions, &key)?;
    let mut row = row.ok_or(NO_SESSION)?;
    change(&mut row);
    Ok(put_row(tables, TableId::RelaySessions, &key, &row)?)
}

/// Messages leave, and peers of whom nothing speaks any more.
fn forget(tables: &mut dyn Tables, pruned: &[Seq], erased: &[Seq]) -> Result<(), ApplyError> {
    for seq in pruned {
        if !tables.delete(TableId::RelayMessages, &seq.to_key())? {
            return Err(ApplyError::Inconsistent {
                reason: "relay message does not wait",
            });
        }
    }
    for seq in erased {
        // Bodies of messages have no row of their own.
        tables.delete(TableId::RelayPeers, &seq.to_key())?;
    }
    Ok(())
}
