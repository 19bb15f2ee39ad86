//! `interlink-mcp hook`: what a host's command hooks ask.
//!
//! A hook must not disturb a session because of us: whatever goes wrong, it says nothing and ends
//! with 0. It reads the identity's store and writes nothing but the time of its last reminder.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::{Value, json};

use super::args::variable;
use crate::agent::mcp::render::is_plain_id;
use crate::agent::mcp::tool::host::verdict;
use crate::agent::progress;
use crate::domain::query::agent as query;
use crate::store::{Mode, Reader, Snapshot};
use crate::system::SystemClock;
use crate::types::id::SessionId;
use crate::types::time::Clock as _;

/// Longest input of a hook in bytes: a tool's whole output may stand in it.
const MAX_INPUT_BYTES: u64 = 16 << 20;
/// Between two reminders, and the silence that deserves one, in milliseconds.
const DEFAULT_INTERVAL_MS: u64 = 60_000;

/// A question of a hook; its input is on standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(super) enum Hook {
    /// For Stop: hold the end of a turn up once while mail is unread
    Stop,
    /// For PostToolUse: remind a model that works on a task of a report
    Progress,
}

/// What a host says to its hooks.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Input {
    /// The conversation.
    #[serde(default)]
    pub(super) session_id: String,
    /// Whether the turn was held up before.
    #[serde(default)]
    stop_hook_active: bool,
}

impl Input {
    /// Reads it from standard input; `None` when there is nothing of the kind.
    pub(super) fn read() -> Option<Input> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return None;
        }
        let mut text = String::new();
        let mut limited = stdin.lock().take(MAX_INPUT_BYTES);
        limited.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The conversation, if it is named.
    pub(super) fn session(&self) -> Option<SessionId> {
        SessionId::parse(self.session_id.trim()).ok()
    }
}

/// Answers a hook.
pub(super) fn run(hook: Hook, input: &Input, session: &SessionId, store: &Path) {
    let answer = match hook {
        Hook::Stop => stop(store, session, input.stop_hook_active),
        Hook::Progress => progress(store, session),
    };
    if let Some(answer) = answer {
        let _ = writeln!(io::stdout().lock(), "{answer}");
    }
}

/// A view of the store; a store that is not there is not made.
fn look(store: &Path) -> Option<Snapshot> {
    if !store.exists() {
        return None;
    }
    Reader::open(store, Mode::Shared).ok()?.snapshot().ok()
}

fn stop(store: &Path, session: &SessionId, active: bool) -> Option<Value> {
    let snapshot = look(store)?;
    let unread = query::unread_totals(&snapshot, session).ok()?.attention;
    let notice = query::notice(&snapshot, session).ok()?;
    let id = notice.filter(|n| !n.observed).map(|n| n.id);
    (unread > 0).then(|| verdict(unread, id.as_deref(), active))
}

/// How long a task may go without a word, in milliseconds; `None` for ever.
fn interval_ms() -> Option<u64> {
    let Some(text) = variable("INTERLINK_PROGRESS_INTERVAL") else {
        return Some(DEFAULT_INTERVAL_MS);
    };
    let seconds: f64 = text.to_str()?.trim().parse().ok()?;
    if seconds.is_nan() || seconds <= 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(seconds).map_or(u64::MAX, |d| {
        u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
    }))
}

/// Reminds of the open task that the session works on, when its asker has heard nothing for long.
fn progress(store: &Path, session: &SessionId) -> Option<Value> {
    let now = SystemClock.now();
    let task = progress::due(store, session, now, interval_ms()?)?;
    let minutes = now.since(task.last_report) / 60_000;
    // The id is a peer's text.
    let which = if is_plain_id(&task.task_id) {
        format!(" (task_id \"{}\")", task.task_id)
    } else {
        String::new()
    };
    Some(json!({ "hookSpecificOutput": {
        "hookEventName": "PostToolUse",
        "additionalContext": format!(
            "A task of another session{which} is open and its asker has heard nothing for \
             {minutes} minutes. If you work on it, report with send_message, that task_id and \
             status update, in one or two sentences; when it is done, with status result."
        ),
    }}))
}
