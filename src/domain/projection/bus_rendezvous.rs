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
use crate::event::bus_rendezvous::RelayFlow;
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
                let row = RelaySessionRow {
                    flow: e.flow,
                    opened: rec.at,
                    used_at: rec.at,
                    next: 1,
                    members: vec![rec.seq],
                };
                put_row(tables, TableId::RelaySessions, &rec.seq.to_key(), &row)?;
                came(tables, rec.seq, rec.seq, (e.len, e.sha256))
            }
            BusEvent::RelayJoined(e) => {
                forget(tables, &e.pruned, &e.erased)?;
                came(tables, rec.seq, e.session, (e.len, e.sha256))?;
                change(tables, e.session, |row| {
                    row.members.push(rec.seq);
                    row.used_at = rec.at;
                    row.next = e.number.saturating_add(1);
                })?;
                let about = (rec.seq, RelayMessageKind::Joined);
                message(tables, rec, (e.session, e.number), about, (0, [0; 32]))
            }
            BusEvent::RelaySent(e) => {
                forget(tables, &e.pruned, &e.erased)?;
                change(tables, e.session, |row| {
                    row.used_at = rec.at;
                    row.next = e.number.saturating_add(1);
                })?;
                let from = (e.from, RelayMessageKind::Sent);
                message(tables, rec, (e.session, e.number), from, (e.len, e.sha256))
            }
            BusEvent::RelayLeft(e) => {
                forget(tables, &e.pruned, &e.erased)?;
                change(tables, e.session, |row| {
                    row.members.retain(|member| *member != e.member);
                    row.next = e.number.saturating_add(1);
                })?;
                let about = (e.member, RelayMessageKind::Left);
                message(tables, rec, (e.session, e.number), about, (0, [0; 32]))
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

fn came(
    tables: &mut dyn Tables,
    at: Seq,
    session: Seq,
    (len, sha256): (u32, [u8; 32]),
) -> Result<(), ApplyError> {
    let row = RelayPeerRow {
        session,
        len,
        sha256,
    };
    Ok(put_row(tables, TableId::RelayPeers, &at.to_key(), &row)?)
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

fn message(
    tables: &mut dyn Tables,
    rec: &Recorded<BusEvent>,
    (session, number): (Seq, u64),
    (from, kind): (Seq, RelayMessageKind),
    (len, sha256): (u32, [u8; 32]),
) -> Result<(), ApplyError> {
    let row = RelayMessageRow {
        session,
        number,
        from,
        kind,
        at: rec.at,
        len,
        sha256,
    };
    let key = rec.seq.to_key();
    Ok(put_row(tables, TableId::RelayMessages, &key, &row)?)
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
