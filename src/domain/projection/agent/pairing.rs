//! Rows of pairing.
//!
//! Admission itself is not here: `PeerAdded` is what changes trust, and table `peers` is where it
//! stands. These rows say who waits for whom.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, inconsistent, key, seq_key};
use crate::domain::tables::{TableError, TableId, Tables, get_row, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::room::{bond_event, mailbox_event, outbox_event, policy_event};
use crate::event::agent::{
    AgentEvent, ConflictReason, KnockEnd, KnockReceived, KnockResolved, Origin, PairConflicted,
    PairRequested, RequestEnd,
};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::{MAX_PAIR_ANSWERED, MAX_PAIR_NEWS};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Value of table `pair_outbound`; the key is the public key's 32 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboundRow {
    /// Id of the request.
    pub request_id: MsgId,
    /// The petname that the key gets.
    pub name: String,
    /// Our session that asked last.
    pub session: SessionId,
    /// Their session that was asked last.
    pub to_session: SessionId,
    /// How the wish came in, the last time.
    pub origin: Origin,
    /// When it was made first.
    pub first_at: UnixMillis,
    /// When it was made or repeated last.
    pub at: UnixMillis,
    /// Position of the last record about it.
    pub seq: Seq,
}

/// Value of table `pair_inbound`; the key is the public key's 32 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboundRow {
    /// Id of the request.
    pub request_id: MsgId,
    /// The claimed name: one line, bounded, spelled out, never to be believed.
    pub name: String,
    /// Our session whose queue it came through.
    pub session: SessionId,
    /// Their session that waits for the answer.
    pub reply_session: SessionId,
    /// Signed time.
    pub ts: UnixMillis,
    /// When the key asked first.
    pub first_at: UnixMillis,
    /// When this request arrived.
    pub at: UnixMillis,
    /// Position of the record with which the key first asked: the age in the list.
    pub seq: Seq,
}

/// Value of table `pair_conflicts`; the key is the public key's 32 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConflictRow {
    /// Id of our request.
    pub request_id: MsgId,
    /// The petname that the request had.
    pub name: String,
    /// Our session that asked.
    pub session: SessionId,
    /// What is in the way.
    pub reason: ConflictReason,
    /// The key that had the name, if that was it.
    pub holder: Option<PublicKey>,
    /// When the acceptance arrived.
    pub at: UnixMillis,
    /// Position of the record.
    pub seq: Seq,
}

/// Value of table `pair_answered`; the key is (sender, request id).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredRow {
    /// Whether an acceptance was sent; false: the request was rejected.
    pub accepted: bool,
    /// Signed time of the copy that was decided last.
    pub ts: UnixMillis,
    /// Position of the record.
    pub seq: Seq,
}

/// Value of table `pair_blocked`; the key is the public key's 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedRow {
    /// How the wish came in.
    pub origin: Origin,
    /// Since when.
    pub at: UnixMillis,
    /// Position of the record.
    pub seq: Seq,
}

/// The tables of what waits, each with at most one row a key.
const WAITING: [TableId; 3] = [
    TableId::PairOutbound,
    TableId::PairInbound,
    TableId::PairConflicts,
];

/// Who waits for whom, what was decided, who is not heard.
pub struct Pairing;

impl Projection<AgentEvent> for Pairing {
    fn name(&self) -> &'static str {
        "pairing"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[
            TableId::PairOutbound,
            TableId::PairInbound,
            TableId::PairConflicts,
            TableId::PairAnswered,
            TableId::PairBlocked,
        ]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::PairRequested(e) => requested(tables, rec, e),
            AgentEvent::PairRequestEnded(e) => remove(
                tables,
                TableId::PairOutbound,
                &e.key,
                "no such request of ours",
            ),
            AgentEvent::KnockReceived(e) => knocked(tables, rec, e),
            AgentEvent::KnockResolved(e) => resolved(tables, rec.seq, e),
            AgentEvent::KnockAnswered(e) => answered(tables, &e.key, &e.request_id, {
                AnsweredRow {
                    accepted: true,
                    ts: e.ts,
                    seq: rec.seq,
                }
            }),
            AgentEvent::PairConflicted(e) => conflicted(tables, rec, e),
            AgentEvent::PairConflictResolved(e) => {
                remove(tables, TableId::PairConflicts, &e.key, "no such conflict")
            }
            AgentEvent::KeyBlocked(e) => {
                let row = BlockedRow {
                    origin: e.origin,
                    at: rec.at,
                    seq: rec.seq,
                };
                put_row(tables, TableId::PairBlocked, e.key.as_bytes(), &row)?;
                Ok(())
            }
            AgentEvent::KeyUnblocked(e) => remove(
                tables,
                TableId::PairBlocked,
                &e.key,
                "the key is not blocked",
            ),
            AgentEvent::PeerForgotten(e) => {
                if e.last {
                    // What was decided, and who is blocked, stays.
                    for table in WAITING {
                        tables.delete(table, e.key.as_bytes())?;
                    }
                }
                Ok(())
            }
            policy_event!()
            | outbox_event!()
            | mailbox_event!()
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | AgentEvent::HistoryForgotten(_)
            | AgentEvent::PairNewsSeen(_)
            | AgentEvent::ConsentDeclined(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn remove(
    tables: &mut dyn Tables,
    table: TableId,
    key: &PublicKey,
    missing: &'static str,
) -> Result<(), ApplyError> {
    if tables.delete(table, key.as_bytes())? {
        Ok(())
    } else {
        inconsistent(missing)
    }
}

fn requested(
    tables: &mut dyn Tables,
    rec: &Recorded<AgentEvent>,
    e: &PairRequested,
) -> Result<(), ApplyError> {
    let key = e.key.as_bytes();
    let old: Option<OutboundRow> = get_row(tables, TableId::PairOutbound, key)?;
    if old
        .as_ref()
        .is_some_and(|old| old.request_id != e.request_id)
    {
        return inconsistent("a request keeps its id");
    }
    let row = OutboundRow {
        request_id: e.request_id.clone(),
        name: e.name.clone(),
        session: e.session.clone(),
        to_session: e.to_session.clone(),
        origin: e.origin,
        first_at: old.map_or(rec.at, |old| old.first_at),
        at: rec.at,
        seq: rec.seq,
    };
    put_row(tables, TableId::PairOutbound, key, &row)?;
    Ok(())
}

fn knocked(
    tables: &mut dyn Tables,
    rec: &Recorded<AgentEvent>,
    e: &KnockReceived,
) -> Result<(), ApplyError> {
    let key = e.key.as_bytes();
    let old: Option<InboundRow> = get_row(tables, TableId::PairInbound, key)?;
    let row = InboundRow {
        request_id: e.request_id.clone(),
        name: e.name.clone(),
        session: e.session.clone(),
        reply_session: e.reply_session.clone(),
        ts: e.ts,
        first_at: old.as_ref().map_or(rec.at, |old| old.first_at),
        at: rec.at,
        seq: old.map_or(rec.seq, |old| old.seq),
    };
    put_row(tables, TableId::PairInbound, key, &row)?;
    Ok(())
}

fn resolved(tables: &mut dyn Tables, seq: Seq, e: &KnockResolved) -> Result<(), ApplyError> {
    let old: Option<InboundRow> = get_row(tables, TableId::PairInbound, e.key.as_bytes())?;
    if old.is_none_or(|old| old.request_id != e.request_id) {
        return inconsistent("no such request");
    }
    tables.delete(TableId::PairInbound, e.key.as_bytes())?;
    let accepted = match e.end {
        KnockEnd::Accepted => true,
        KnockEnd::Rejected => false,
        KnockEnd::Evicted | KnockEnd::Expired | KnockEnd::Blocked | KnockEnd::Settled => {
            return Ok(());
        }
    };
    let row = AnsweredRow {
        accepted,
        ts: e.ts,
        seq,
    };
    answered(tables, &e.key, &e.request_id, row)
}

/// Remembers a decision; forgets the oldest one past the bound.
fn answered(
    tables: &mut dyn Tables,
    sender: &PublicKey,
    request_id: &MsgId,
    row: AnsweredRow,
) -> Result<(), ApplyError> {
    let table = TableId::PairAnswered;
    put_row(tables, table, &key::sender_msg(sender, request_id), &row)?;
    let mut rows = 0;
    let mut oldest: Option<(Seq, Vec<u8>)> = None;
    scan_rows::<AnsweredRow>(tables, table, &[], |key, row| {
        rows += 1;
        if oldest.as_ref().is_none_or(|(seq, _)| row.seq < *seq) {
            oldest = Some((row.seq, key.to_vec()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let (true, Some((_, key))) = (rows > MAX_PAIR_ANSWERED, oldest) {
        tables.delete(table, &key)?;
    }
    Ok(())
}

fn conflicted(
    tables: &mut dyn Tables,
    rec: &Recorded<AgentEvent>,
    e: &PairConflicted,
) -> Result<(), ApplyError> {
    remove(
        tables,
        TableId::PairOutbound,
        &e.key,
        "no such request of ours",
    )?;
    let row = ConflictRow {
        request_id: e.request_id.clone(),
        name: e.name.clone(),
        session: e.session.clone(),
        reason: e.reason,
        holder: e.holder,
        at: rec.at,
        seq: rec.seq,
    };
    put_row(tables, TableId::PairConflicts, e.key.as_bytes(), &row)?;
    Ok(())
}

/// What is new about pairing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NewsKind {
    /// A stranger asks to be admitted.
    Knock,
    /// A request of ours was accepted, or the operator accepted a stranger's at the terminal.
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
            AgentEvent::KnockResolved(e) => {
                settle(tables, NewsKind::Knock, &e.key)?;
                if e.end == KnockEnd::Accepted && e.origin == Some(Origin::Admin) {
                    // What a session does itself is no news to it.
                    tell(tables, rec.seq, &e.session, NewsKind::Paired, e.key)?;
                }
                Ok(())
            }
            AgentEvent::PairRequestEnded(e) => match e.end {
                RequestEnd::Accepted => tell(tables, rec.seq, &e.session, NewsKind::Paired, e.key),
                RequestEnd::Expired => tell(tables, rec.seq, &e.session, NewsKind::Expired, e.key),
                RequestEnd::Cancelled | RequestEnd::Settled | RequestEnd::Blocked => Ok(()),
            },
            AgentEvent::PairConflicted(e) => {
                tell(tables, rec.seq, &e.session, NewsKind::Conflict, e.key)
            }
            AgentEvent::PairConflictResolved(e) => settle(tables, NewsKind::Conflict, &e.key),
            AgentEvent::PairNewsSeen(e) => seen(tables, &e.session, e.up_to),
            AgentEvent::PeerForgotten(e) => match e.last {
                true => drop_news(tables, |row| row.key == e.key),
                false => Ok(()),
            },
            policy_event!()
            | outbox_event!()
            | mailbox_event!()
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | AgentEvent::HistoryForgotten(_)
            | AgentEvent::PairRequested(_)
            | AgentEvent::KnockAnswered(_)
            | AgentEvent::KeyBlocked(_)
            | AgentEvent::KeyUnblocked(_)
            | AgentEvent::ConsentDeclined(_)
            | bond_event!()
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
fn settle(tables: &mut dyn Tables, kind: NewsKind, key: &PublicKey) -> Result<(), ApplyError> {
    drop_news(tables, |row| row.kind == kind && row.key == *key)
}

fn drop_news(tables: &mut dyn Tables, which: impl Fn(&NewsRow) -> bool) -> Result<(), ApplyError> {
    let mut gone = vec![];
    each(tables, |at, _, row| {
        if which(&row) {
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
