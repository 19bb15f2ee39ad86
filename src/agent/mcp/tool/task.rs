//! `cancel_task`, `list_tasks`.

use std::sync::Arc;

use super::room::Room;
use super::send::{Letter, post, task_id};
use super::view::name_of;
use crate::agent::core::Core;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::{Answer, Queued, TaskView, Tasks};
use crate::domain::projection::agent::TaskState;
use crate::domain::query::agent::{self as query, Peer, Task};
use crate::wire::envelope::TaskStatus;

/// Tasks that are shown, if they fit into an answer.
const LISTED: usize = 50;

/// Withdraws a task: says so to who works on it. What the other side makes of it is its own
/// decision; for this session the task is over.
///
/// # Errors
///
/// [`ToolError`].
pub async fn cancel_task(
    core: &Arc<Core>,
    a: args::CancelTask,
) -> Result<Answer<Queued>, ToolError> {
    let task_id = task_id(Some(a.task_id))?;
    let reason = a.reason.filter(|reason| !reason.trim().is_empty());
    let letter = Letter {
        to: a.to,
        session: a.session,
        text: reason.unwrap_or_else(|| "canceled".to_owned()),
        task_id,
        status: Some(TaskStatus::Canceled),
        in_reply_to: None,
    };
    post(core, letter).await
}

/// Lists the tasks of this session.
///
/// # Errors
///
/// [`ToolError`].
pub async fn list_tasks(core: &Core, a: args::ListTasks) -> Result<Answer<Tasks>, ToolError> {
    let session = core.session.clone();
    let (mut tasks, peers) = core
        .ledger
        .read(move |s| Ok((query::tasks(s, &session)?, query::peers(s)?)))
        .await?;
    if a.all != Some(true) {
        tasks.retain(|task| !task.row.state.is_final());
    }
    let more = u64::try_from(tasks.len().saturating_sub(LISTED)).unwrap_or(u64::MAX);
    tasks.truncate(LISTED);
    let tasks: Vec<TaskView> = tasks.iter().map(|task| view(core, &peers, task)).collect();
    let (tasks, unfit) = Room::of(core).first_of(tasks);
    let left_out = more.saturating_add(unfit);
    let mut lines: Vec<String> = tasks.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("No open tasks.".to_owned());
    }
    if left_out > 0 {
        lines.push(format!("{left_out} more are not shown."));
    }
    Ok(Answer {
        text: lines.join("\n"),
        data: Tasks { tasks, left_out },
    })
}

fn view(core: &Core, peers: &[Peer], task: &Task) -> TaskView {
    let plain = |text: &str| render::is_plain_id(text).then(|| text.to_owned());
    let row = &task.row;
    TaskView {
        task_id: plain(&task.task_id),
        direction: row.side.name().to_owned(),
        state: row.state.name().to_owned(),
        peer: name_of(core, peers, &task.peer),
        key: task.peer.to_string(),
        session: row.peer_session.as_ref().and_then(|s| plain(s.as_str())),
        since_ms: row.since.0,
        last_report_ms: row.said_at.map(|at| at.0),
    }
}

fn line(t: &TaskView) -> String {
    let what = match (
        t.direction.as_str(),
        t.state == TaskState::NeedsInput.name(),
    ) {
        ("inbound", true) => "waits for an answer of",
        ("inbound", false) => "is worked on here for",
        (_, true) => "needs your answer:",
        (_, false) => "is with",
    };
    let id = t.task_id.as_deref().unwrap_or("(odd task id)");
    let session = t.session.as_deref().unwrap_or("?");
    format!("[{}] {id} {what} {} (session {session})", t.state, t.peer)
}
