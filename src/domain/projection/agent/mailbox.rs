//! Rows of received messages, and where answers go.
//!
//! Progress supersedes older progress: of the updates of one task by one sender and route, only
//! the newest is worth reading, and none once the task has ended. Questions and results are never
//! superseded. `mailbox_tasks` remembers the two positions that this needs, so that no message has
//! to be searched for.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::directory::forget_keyed;
use super::{ApplyError, Projection, SeqRow, inconsistent, key, of_sender};
use crate::domain::tables::{TableId, Tables, get_row, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::room::{bond_event, outbox_event, pairing_event, policy_event};
use crate::event::agent::{
    Acknowledged, AgentEvent, MailKind, MailStatus, PeerForgotten, Received, SessionClosed,
};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Value of table `mailbox`; the key is the position of the `Received` record, big endian. The
/// body stands at the same position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MailRow {
    /// Our session.
    pub session: SessionId,
    /// The verified sender.
    pub from: PublicKey,
    /// Id of the message.
    pub msg_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
    /// What it is.
    pub kind: MailKind,
    /// The task that it is about.
    pub task_id: Option<String>,
    /// State of that task.
    pub status: Option<MailStatus>,
    /// The message that it answers.
    pub in_reply_to: Option<MsgId>,
    /// Where the sender wants answers; a hint.
    pub reply_to: Option<Route>,
    /// The sender's petname at arrival, or `self`.
    pub label: String,
    /// When it arrived.
    pub at: UnixMillis,
    /// Length of the body in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// When the reader acknowledged it.
    pub acknowledged_at: Option<UnixMillis>,
    /// Position of the message that made this one not worth reading.
    pub superseded_by: Option<Seq>,
}

impl MailRow {
    /// Whether it waits for a reader.
    #[must_use]
    pub const fn is_unread(&self) -> bool {
        self.acknowledged_at.is_none() && self.superseded_by.is_none()
    }
}

/// Value of table `mailbox_unread`; the key is (session, position).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadRow {
    /// Whether it is worth waking somebody: everything but progress.
    pub attention: bool,
    /// Length of the body in bytes.
    pub len: u32,
}

/// The newest progress of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateRef {
    /// Its position.
    pub seq: Seq,
    /// Its signed time.
    pub ts: UnixMillis,
}

/// Value of table `mailbox_tasks`; the key is (session, sender, reply route, task id).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Position of the last message that ended the task.
    pub ended: Option<Seq>,
    /// The newest progress; `None` once the task has ended.
    pub update: Option<UpdateRef>,
}

/// Received messages.
pub struct Mailbox;

impl Projection<AgentEvent> for Mailbox {
    fn name(&self) -> &'static str {
        "mailbox"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[
            TableId::Mailbox,
            TableId::MailboxByMsg,
            TableId::MailboxUnread,
            TableId::MailboxTasks,
        ]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::Received(e) => receive(tables, rec.seq, rec.at, e),
            AgentEvent::Acknowledged(e) => acknowledge(tables, rec.at, e),
            AgentEvent::PeerForgotten(e) => forget(tables, e),
            AgentEvent::HistoryForgotten(e) => forget_history(tables, &e.received),
            policy_event!()
            | outbox_event!()
            | pairing_event!()
            | AgentEvent::ReceivedExpired(_)
            | AgentEvent::NoticeChanged(_)
            | AgentEvent::ReplaySeen(_)
            | AgentEvent::ReplayForgotten(_)
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn receive(
    tables: &mut dyn Tables,
    seq: Seq,
    at: UnixMillis,
    e: &Received,
) -> Result<(), ApplyError> {
    let by_msg = key::mail(&e.from, &e.msg_id);
    if tables.get(TableId::MailboxByMsg, &by_msg)?.is_some() {
        return inconsistent("message is in the mailbox already");
    }
    let row = MailRow {
        session: e.session.clone(),
        from: e.from,
        msg_id: e.msg_id.clone(),
        ts: e.ts,
        kind: e.kind,
        task_id: e.task_id.clone(),
        status: e.status,
        in_reply_to: e.in_reply_to.clone(),
        reply_to: e.reply_to.clone(),
        label: e.label.clone(),
        at,
        len: e.len,
        sha256: e.sha256,
        acknowledged_at: None,
        superseded_by: supersede(tables, seq, e)?,
    };
    put_row(tables, TableId::MailboxByMsg, &by_msg, &SeqRow { seq })?;
    put_row(tables, TableId::Mailbox, &seq.to_key(), &row)?;
    if row.is_unread() {
        let unread = UnreadRow {
            attention: e.status != Some(MailStatus::Update),
            len: e.len,
        };
        let key = key::unread(&e.session, seq);
        put_row(tables, TableId::MailboxUnread, &key, &unread)?;
    }
    Ok(())
}

/// Follows the task of a new message; says what supersedes the message itself.
fn supersede(tables: &mut dyn Tables, seq: Seq, e: &Received) -> Result<Option<Seq>, ApplyError> {
    let (Some(task_id), Some(status)) = (&e.task_id, e.status) else {
        return Ok(None);
    };
    let terminal = status.is_terminal();
    if !terminal && status != MailStatus::Update {
        return Ok(None);
    }
    let key = key::task(&e.session, &e.from, e.reply_to.as_ref(), task_id);
    let mut task: TaskRow = get_row(tables, TableId::MailboxTasks, &key)?.unwrap_or_default();
    if !terminal {
        if task.ended.is_some() {
            return Ok(task.ended);
        }
        if let Some(newer) = task.update.filter(|update| update.ts > e.ts) {
            return Ok(Some(newer.seq));
        }
    }
    if let Some(old) = task.update.take() {
        mark_superseded(tables, old.seq, seq)?;
    }
    if terminal {
        task.ended = Some(seq);
    } else {
        task.update = Some(UpdateRef { seq, ts: e.ts });
    }
    put_row(tables, TableId::MailboxTasks, &key, &task)?;
    Ok(None)
}

fn mark_superseded(tables: &mut dyn Tables, old: Seq, by: Seq) -> Result<(), ApplyError> {
    let row: Option<MailRow> = get_row(tables, TableId::Mailbox, &old.to_key())?;
    let Some(mut row) = row else {
        return inconsistent("superseded message is not in the mailbox");
    };
    row.superseded_by = Some(by);
    put_row(tables, TableId::Mailbox, &old.to_key(), &row)?;
    tables.delete(TableId::MailboxUnread, &key::unread(&row.session, old))?;
    Ok(())
}

fn acknowledge(
    tables: &mut dyn Tables,
    at: UnixMillis,
    e: &Acknowledged,
) -> Result<(), ApplyError> {
    for seq in &e.seqs {
        let row: Option<MailRow> = get_row(tables, TableId::Mailbox, &seq.to_key())?;
        let Some(mut row) = row else {
            return inconsistent("acknowledged message is not in the mailbox");
        };
        if row.acknowledged_at.is_some() || row.session != e.session {
            return inconsistent("message was acknowledged before, or is another session's");
        }
        row.acknowledged_at = Some(at);
        put_row(tables, TableId::Mailbox, &seq.to_key(), &row)?;
        tables.delete(TableId::MailboxUnread, &key::unread(&e.session, *seq))?;
    }
    Ok(())
}

fn forget(tables: &mut dyn Tables, e: &PeerForgotten) -> Result<(), ApplyError> {
    for seq in &e.received {
        let row: Option<MailRow> = get_row(tables, TableId::Mailbox, &seq.to_key())?;
        let Some(row) = row else {
            return inconsistent("erased message is not in the mailbox");
        };
        tables.delete(TableId::Mailbox, &seq.to_key())?;
        tables.delete(TableId::MailboxByMsg, &key::mail(&row.from, &row.msg_id))?;
        tables.delete(TableId::MailboxUnread, &key::unread(&row.session, *seq))?;
    }
    if e.last {
        forget_keyed(tables, TableId::MailboxTasks, &e.key)?;
    }
    Ok(())
}

fn forget_history(tables: &mut dyn Tables, seqs: &[Seq]) -> Result<(), ApplyError> {
    for seq in seqs {
        let row: Option<MailRow> = get_row(tables, TableId::Mailbox, &seq.to_key())?;
        let Some(row) = row.filter(|row| !row.is_unread()) else {
            return inconsistent("old message is not in the mailbox, or is unread");
        };
        tables.delete(TableId::Mailbox, &seq.to_key())?;
        tables.delete(TableId::MailboxByMsg, &key::mail(&row.from, &row.msg_id))?;
        forget_task(tables, *seq, &row)?;
    }
    Ok(())
}

/// A task does not refer to what is gone.
fn forget_task(tables: &mut dyn Tables, seq: Seq, row: &MailRow) -> Result<(), ApplyError> {
    let Some(task_id) = &row.task_id else {
        return Ok(());
    };
    let key = key::task(&row.session, &row.from, row.reply_to.as_ref(), task_id);
    let Some(mut task) = get_row::<TaskRow>(tables, TableId::MailboxTasks, &key)? else {
        return Ok(());
    };
    task.ended = task.ended.filter(|ended| *ended != seq);
    task.update = task.update.filter(|update| update.seq != seq);
    if task == TaskRow::default() {
        tables.delete(TableId::MailboxTasks, &key)?;
    } else {
        put_row(tables, TableId::MailboxTasks, &key, &task)?;
    }
    Ok(())
}

/// Value of table `routes`; the key is (our session, the peer's key).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteRow {
    /// The peer's session that wrote to us last.
    pub session: SessionId,
    /// When.
    pub at: UnixMillis,
}

/// Which session of a peer wrote last, and so gets answers.
pub struct Routes;

impl Projection<AgentEvent> for Routes {
    fn name(&self) -> &'static str {
        "routes"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Routes]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::Received(e) => {
                // The route is not signed: it may steer answers to another session of the sender,
                // never to another key.
                let reply_to = e.reply_to.as_ref().filter(|route| route.key == e.from);
                if let Some(session) = reply_to.and_then(|route| route.session.clone()) {
                    let row = RouteRow {
                        session,
                        at: rec.at,
                    };
                    let key = key::route(&e.session, &e.from);
                    put_row(tables, TableId::Routes, &key, &row)?;
                }
            }
            // Nobody reads there any more; the next message shows where answers go.
            AgentEvent::SessionClosed(e) => close(tables, e)?,
            AgentEvent::PeerForgotten(e) if e.last => {
                forget_keyed(tables, TableId::Routes, &e.key)?;
            }
            policy_event!()
            | outbox_event!()
            | pairing_event!()
            | AgentEvent::ReceivedExpired(_)
            | AgentEvent::Acknowledged(_)
            | AgentEvent::NoticeChanged(_)
            | AgentEvent::ReplaySeen(_)
            | AgentEvent::ReplayForgotten(_)
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | AgentEvent::PeerForgotten(_)
            | AgentEvent::HistoryForgotten(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => {}
        }
        Ok(())
    }
}

fn close(tables: &mut dyn Tables, e: &SessionClosed) -> Result<(), ApplyError> {
    let mut gone = vec![];
    scan_rows::<RouteRow>(tables, TableId::Routes, &[], |row_key, row| {
        if row.session == e.session && of_sender(row_key, &e.key) {
            gone.push(row_key.to_vec());
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for row_key in gone {
        tables.delete(TableId::Routes, &row_key)?;
    }
    Ok(())
}
