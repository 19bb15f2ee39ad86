//! What is new about pairing, until its session has seen it.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, key, seq_key};
use crate::domain::tables::{TableError, TableId, Tables, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::{AgentEvent, RequestEnd, directory_event};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::MAX_PAIR_NEWS;
use crate::types::seq::Seq;

/// What is new about pairing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NewsKind {
    /// A stranger asks to be admitted.
    Knock,
    /// A request of ours was accepted.
    Paired,
    /// A request of ours was accepted, but its name is taken.
    Conflict,
    /// Nobody answered a request of ours in time.
    Expired,
}

impl NewsKind {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NewsKind::Knock => "knock",
            NewsKind::Paired => "paired",
            NewsKind::Conflict => "conflict",
            NewsKind::Expired => "expired",
        }
    }
}

/// Value of table `pair_news`; the key is (our session, position).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewsRow {
    /// What is new.
    pub kind: NewsKind,
    /// The other side.
    pub key: PublicKey,
}

/// What a session has not seen yet. It belongs to one session, so that a stranger's request does
/// not wake every session of an identity: a request to the one whose queue it came through, an
/// answer to the one that asked. The lists themselves are everybody's.
pub struct PairNews;

impl Projection<AgentEvent> for PairNews {
    fn name(&self) -> &'static str {
        "pair_news"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::PairNews]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::KnockReceived(e) if e.news => {
                tell(tables, rec.seq, &e.session, NewsKind::Knock, e.key)
            }
            AgentEvent::KnockReceived(_) => Ok(()),
            AgentEvent::KnockResolved(e) => settle(tables, &|row| {
                row.kind == NewsKind::Knock && row.key == e.key
            }),
            AgentEvent::PairRequestEnded(e) => match e.end {
                RequestEnd::Accepted => tell(tables, rec.seq, &e.session, NewsKind::Paired, e.key),
                RequestEnd::Expired => tell(tables, rec.seq, &e.session, NewsKind::Expired, e.key),
                RequestEnd::Cancelled | RequestEnd::Settled | RequestEnd::Blocked => Ok(()),
            },
            AgentEvent::PairConflicted(e) => {
                tell(tables, rec.seq, &e.session, NewsKind::Conflict, e.key)
            }
            AgentEvent::PairConflictResolved(e) => settle(tables, &|row| {
                row.kind == NewsKind::Conflict && row.key == e.key
            }),
            AgentEvent::PairNewsSeen(e) => seen(tables, &e.session, e.up_to),
            AgentEvent::PeerForgotten(e) if e.last => settle(tables, &|row| row.key == e.key),
            AgentEvent::PairRequested(_)
            | AgentEvent::KnockAnswered(_)
            | AgentEvent::KeyBlocked(_)
            | AgentEvent::KeyUnblocked(_)
            | AgentEvent::ConsentDeclined(_)
            | AgentEvent::OutboxRequeued(_)
            | directory_event!()
            | AgentEvent::PeerAdded(_)
            | AgentEvent::PeerRemoved(_)
            | AgentEvent::PeersPublished(_)
            | AgentEvent::LeaseTaken(_)
            | AgentEvent::LeaseReleased(_)
            | AgentEvent::OutboxQueued(_)
            | AgentEvent::OutboxAttempted(_)
            | AgentEvent::OutboxAccepted(_)
            | AgentEvent::OutboxRefused(_)
            | AgentEvent::OutboxResigned(_)
            | AgentEvent::Received(_)
            | AgentEvent::ReceivedExpired(_)
            | AgentEvent::Acknowledged(_)
            | AgentEvent::NoticeChanged(_)
            | AgentEvent::ReplaySeen(_)
            | AgentEvent::ReplayForgotten(_)
            | AgentEvent::PeersFileAdopted(_)
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn tell(
    tables: &mut dyn Tables,
    seq: Seq,
    session: &SessionId,
    kind: NewsKind,
    key: PublicKey,
) -> Result<(), ApplyError> {
    let row = NewsRow { kind, key };
    put_row(tables, TableId::PairNews, &key::unread(session, seq), &row)?;
    let mut rows = 0;
    let mut oldest: Option<(Seq, Vec<u8>)> = None;
    each(tables, |key, seq, _| {
        rows += 1;
        if oldest.as_ref().is_none_or(|(first, _)| seq < *first) {
            oldest = Some((seq, key.to_vec()));
        }
    })?;
    if let (true, Some((_, key))) = (rows > MAX_PAIR_NEWS, oldest) {
        tables.delete(TableId::PairNews, &key)?;
    }
    Ok(())
}

/// Visits all news of all sessions.
fn each(tables: &dyn Tables, mut visit: impl FnMut(&[u8], Seq, NewsRow)) -> Result<(), TableError> {
    let table = TableId::PairNews;
    scan_rows::<NewsRow>(tables, table, &[], |key, row| {
        let at = key.len().saturating_sub(8);
        let seq = seq_key(table, key.get(at..).unwrap_or_default())?;
        visit(key, seq, row);
        Ok(ControlFlow::Continue(()))
    })
}

/// What was decided is no news any more.
fn settle(tables: &mut dyn Tables, decided: &dyn Fn(&NewsRow) -> bool) -> Result<(), ApplyError> {
    let mut gone = vec![];
    each(tables, |at, _, row| {
        if decided(&row) {
            gone.push(at.to_vec());
        }
    })?;
    forget(tables, gone)
}

fn seen(tables: &mut dyn Tables, session: &SessionId, up_to: Seq) -> Result<(), ApplyError> {
    let table = TableId::PairNews;
    let prefix = key::session(session);
    let mut gone = vec![];
    scan_rows::<NewsRow>(tables, table, &prefix, |rest, _| {
        let seq = seq_key(table, rest)?;
        if seq <= up_to {
            gone.push(key::unread(session, seq));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    forget(tables, gone)
}

fn forget(tables: &mut dyn Tables, keys: Vec<Vec<u8>>) -> Result<(), ApplyError> {
    for key in keys {
        tables.delete(TableId::PairNews, &key)?;
    }
    Ok(())
}
