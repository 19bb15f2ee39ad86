//! Rows of tasks: what was asked, by whom, and how it ended.
//!
//! A task is what two identities say about one task id. It belongs to whoever was asked first; its
//! state is what the newest message of it says, by signed time; and once it has ended it stays
//! ended, whatever arrives later and in whatever order. That is why ended tasks keep a row: an
//! answer that comes after the result must not make the task look open again.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::directory::forget_keyed;
use super::{ApplyError, Projection, key};
use crate::domain::tables::{TableError, TableId, Tables, get_row, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::room::{bond_event, pairing_event, policy_event};
use crate::event::agent::{AgentEvent, MailKind, MailStatus};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::MAX_TASKS_PER_SESSION;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Who works on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskSide {
    /// We do: it was asked of us.
    Ours,
    /// The other side does: we asked.
    Theirs,
}

impl TaskSide {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TaskSide::Ours => "inbound",
            TaskSide::Theirs => "outbound",
        }
    }
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// Asked for, or worked on.
    Open,
    /// Stuck on a question.
    NeedsInput,
    /// Ended with a result.
    Result,
    /// Ended without.
    Failed,
    /// Withdrawn.
    Canceled,
}

impl TaskState {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TaskState::Open => "open",
            TaskState::NeedsInput => "needs_input",
            TaskState::Result => "result",
            TaskState::Failed => "failed",
            TaskState::Canceled => "canceled",
        }
    }

    /// Whether it is over.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            TaskState::Result | TaskState::Failed | TaskState::Canceled
        )
    }

    const fn of(status: Option<MailStatus>) -> TaskState {
        match status {
            None | Some(MailStatus::Update) => TaskState::Open,
            Some(MailStatus::NeedsInput) => TaskState::NeedsInput,
            Some(MailStatus::Result) => TaskState::Result,
            Some(MailStatus::Failed) => TaskState::Failed,
            Some(MailStatus::Canceled) => TaskState::Canceled,
        }
    }
}

/// Value of table `tasks`; the key is (our session, the other key, task id).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskInfoRow {
    /// Who works on it.
    pub side: TaskSide,
    /// Where it stands.
    pub state: TaskState,
    /// Signed time of the message that says so.
    pub ts: UnixMillis,
    /// The other side's session, where answers go; a hint, as its messages give it.
    pub peer_session: Option<SessionId>,
    /// When its first message came or went, by our clock.
    pub since: UnixMillis,
    /// When we said something about it last.
    pub said_at: Option<UnixMillis>,
    /// Position of its newest record.
    pub seq: Seq,
}

/// A message of a task, either way.
struct Word<'a> {
    session: &'a SessionId,
    peer: &'a PublicKey,
    task_id: &'a str,
    status: Option<MailStatus>,
    ts: UnixMillis,
    peer_session: Option<&'a SessionId>,
    inbound: bool,
    seq: Seq,
    at: UnixMillis,
}

/// What became of every task.
pub struct Tasks;

impl Projection<AgentEvent> for Tasks {
    fn name(&self) -> &'static str {
        "tasks"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Tasks]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::Received(e) => match (&e.task_id, e.kind) {
                (Some(task_id), MailKind::Message) => {
                    let route = e.reply_to.as_ref().filter(|route| route.key == e.from);
                    let word = Word {
                        session: &e.session,
                        peer: &e.from,
                        task_id,
                        status: e.status,
                        ts: e.ts,
                        peer_session: route.and_then(|route| route.session.as_ref()),
                        inbound: true,
                        seq: rec.seq,
                        at: rec.at,
                    };
                    follow(tables, &word)
                }
                _ => Ok(()),
            },
            AgentEvent::OutboxQueued(e) => match (&e.task_id, e.kind) {
                (Some(task_id), MailKind::Message) => {
                    let word = Word {
                        session: &e.session,
                        peer: &e.to,
                        task_id,
                        status: e.status,
                        ts: e.ts,
                        peer_session: Some(&e.to_session),
                        inbound: false,
                        seq: rec.seq,
                        at: rec.at,
                    };
                    follow(tables, &word)
                }
                _ => Ok(()),
            },
            AgentEvent::PeerForgotten(e) if e.last => forget_keyed(tables, TableId::Tasks, &e.key),
            AgentEvent::HistoryForgotten(e) => {
                for task in &e.tasks {
                    let key = key::task_of(&task.session, &task.peer, &task.task_id);
                    tables.delete(TableId::Tasks, &key)?;
                }
                Ok(())
            }
            policy_event!()
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | AgentEvent::PeerForgotten(_)
            | pairing_event!()
            | AgentEvent::OutboxAttempted(_)
            | AgentEvent::OutboxAccepted(_)
            | AgentEvent::OutboxRefused(_)
            | AgentEvent::OutboxResigned(_)
            | AgentEvent::OutboxRequeued(_)
            | AgentEvent::OutboxDropped(_)
            | AgentEvent::OutboxRetried(_)
            | AgentEvent::ReceivedExpired(_)
            | AgentEvent::Acknowledged(_)
            | AgentEvent::NoticeChanged(_)
            | AgentEvent::ReplaySeen(_)
            | AgentEvent::ReplayForgotten(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

/// Who works on a task whose first word this is: who is asked, or who reports.
const fn side(word: &Word<'_>) -> TaskSide {
    let asks = matches!(word.status, None | Some(MailStatus::Canceled));
    if word.inbound == asks {
        TaskSide::Ours
    } else {
        TaskSide::Theirs
    }
}

fn follow(tables: &mut dyn Tables, word: &Word<'_>) -> Result<(), ApplyError> {
    let row_key = key::task_of(word.session, word.peer, word.task_id);
    let known: Option<TaskInfoRow> = get_row(tables, TableId::Tasks, &row_key)?;
    let state = TaskState::of(word.status);
    let is_new = known.is_none();
    let mut row = known.unwrap_or(TaskInfoRow {
        side: side(word),
        state,
        ts: word.ts,
        peer_session: None,
        since: word.at,
        said_at: None,
        seq: word.seq,
    });
    // An end is an end however old it is; short of that the newest word counts, and a word that
    // carries no status answers a question.
    if !row.state.is_final() && (state.is_final() || word.ts >= row.ts) {
        row.state = state;
        row.ts = word.ts;
    }
    if let Some(session) = word.peer_session {
        row.peer_session = Some(session.clone());
    }
    if !word.inbound {
        row.said_at = Some(word.at);
    }
    row.seq = word.seq;
    put_row(tables, TableId::Tasks, &row_key, &row)?;
    if is_new {
        evict(tables, word.session)?;
    }
    Ok(())
}

/// Ended tasks give way first, the oldest of them; then open ones.
fn evict(tables: &mut dyn Tables, session: &SessionId) -> Result<(), TableError> {
    let prefix = key::session(session);
    let mut places = vec![];
    scan_rows::<TaskInfoRow>(tables, TableId::Tasks, &prefix, |rest, row| {
        places.push((!row.state.is_final(), row.seq, rest.to_vec()));
        Ok(ControlFlow::Continue(()))
    })?;
    if places.len() <= MAX_TASKS_PER_SESSION {
        return Ok(());
    }
    places.sort_unstable();
    if let Some((_, _, rest)) = places.into_iter().next() {
        let row_key = [prefix, rest].concat();
        tables.delete(TableId::Tasks, &row_key)?;
    }
    Ok(())
}
