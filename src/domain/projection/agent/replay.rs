//! Rows of replay protection, and of what came too late.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, inconsistent, key};
use crate::domain::tables::{TableId, Tables, get_row, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::AgentEvent;
use crate::event::agent::room::{
    bond_event, directory_event, outbox_event, pairing_event, policy_event,
};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::MAX_EXPIRED_ROWS;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Value of table `replay`; the key is (sender, message id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayRow {
    /// Signed time.
    pub ts: UnixMillis,
    /// Position of the record that used the id up.
    pub seq: Seq,
}

/// Value of table `replay_floor`, which has one row, or none while nothing was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorRow {
    /// What was signed at or before it is stale.
    pub floor: UnixMillis,
}

/// Ids of admitted senders' messages that were seen, over all sessions: a message that a relay
/// hands to two of them is read once.
pub struct Replay;

impl Projection<AgentEvent> for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Replay, TableId::ReplayFloor]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::Received(e) => see(tables, &e.from, &e.msg_id, e.ts, rec.seq),
            AgentEvent::ReplaySeen(e) => see(tables, &e.from, &e.msg_id, e.ts, rec.seq),
            AgentEvent::ReplayForgotten(e) => forget(tables, e.floor),
            policy_event!()
            | outbox_event!()
            | directory_event!()
            | pairing_event!()
            | AgentEvent::ReceivedExpired(_)
            | AgentEvent::Acknowledged(_)
            | AgentEvent::NoticeChanged(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn see(
    tables: &mut dyn Tables,
    from: &PublicKey,
    msg_id: &MsgId,
    ts: UnixMillis,
    seq: Seq,
) -> Result<(), ApplyError> {
    let key = key::sender_msg(from, msg_id);
    if tables.get(TableId::Replay, &key)?.is_some() {
        return inconsistent("message id was used up before");
    }
    put_row(tables, TableId::Replay, &key, &ReplayRow { ts, seq })?;
    Ok(())
}

fn forget(tables: &mut dyn Tables, floor: UnixMillis) -> Result<(), ApplyError> {
    let old: Option<FloorRow> = get_row(tables, TableId::ReplayFloor, &key::FLOOR)?;
    if old.is_some_and(|old| old.floor >= floor) {
        return inconsistent("replay floor does not rise");
    }
    let mut gone = vec![];
    scan_rows::<ReplayRow>(tables, TableId::Replay, &[], |key, row| {
        if row.ts <= floor {
            gone.push(key.to_vec());
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for key in gone {
        tables.delete(TableId::Replay, &key)?;
    }
    put_row(
        tables,
        TableId::ReplayFloor,
        &key::FLOOR,
        &FloorRow { floor },
    )?;
    Ok(())
}

/// Value of table `expired`; the key is (sender, message id).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpiredRow {
    /// Our session.
    pub session: SessionId,
    /// The verified sender.
    pub from: PublicKey,
    /// Id of the message.
    pub msg_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
    /// The sender's petname at arrival.
    pub label: String,
    /// Length of the message in bytes of JSON.
    pub len: u32,
    /// Position of the record.
    pub seq: Seq,
    /// When it arrived.
    pub at: UnixMillis,
}

/// Messages of admitted peers that came too late; the oldest rows give way.
pub struct Expired;

impl Projection<AgentEvent> for Expired {
    fn name(&self) -> &'static str {
        "expired"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Expired]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::ReceivedExpired(e) => {
                let row = ExpiredRow {
                    session: e.session.clone(),
                    from: e.from,
                    msg_id: e.msg_id.clone(),
                    ts: e.ts,
                    label: e.label.clone(),
                    len: e.len,
                    seq: rec.seq,
                    at: rec.at,
                };
                let key = key::sender_msg(&e.from, &e.msg_id);
                put_row(tables, TableId::Expired, &key, &row)?;
                evict(tables)
            }
            AgentEvent::ExpiredDismissed(e) => {
                for (from, msg_id) in &e.items {
                    tables.delete(TableId::Expired, &key::sender_msg(from, msg_id))?;
                }
                Ok(())
            }
            AgentEvent::PeerForgotten(e) if e.last => forget_sender(tables, &e.key),
            policy_event!()
            | outbox_event!()
            | pairing_event!()
            | AgentEvent::Received(_)
            | AgentEvent::Acknowledged(_)
            | AgentEvent::NoticeChanged(_)
            | AgentEvent::ReplaySeen(_)
            | AgentEvent::ReplayForgotten(_)
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::PeerForgotten(_)
            | AgentEvent::HistoryForgotten(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn evict(tables: &mut dyn Tables) -> Result<(), ApplyError> {
    let mut rows = 0;
    let mut oldest: Option<(Seq, Vec<u8>)> = None;
    scan_rows::<ExpiredRow>(tables, TableId::Expired, &[], |key, row| {
        rows += 1;
        if oldest.as_ref().is_none_or(|(seq, _)| row.seq < *seq) {
            oldest = Some((row.seq, key.to_vec()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let (true, Some((_, key))) = (rows > MAX_EXPIRED_ROWS, oldest) {
        tables.delete(TableId::Expired, &key)?;
    }
    Ok(())
}

fn forget_sender(tables: &mut dyn Tables, from: &PublicKey) -> Result<(), ApplyError> {
    let mut gone = vec![];
    scan_rows::<ExpiredRow>(tables, TableId::Expired, from.as_bytes(), |rest, _| {
        gone.push([from.as_bytes(), rest].concat());
        Ok(ControlFlow::Continue(()))
    })?;
    for key in gone {
        tables.delete(TableId::Expired, &key)?;
    }
    Ok(())
}
