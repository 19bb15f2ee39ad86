//! `interlink-mcp hook`: what a host's command hooks ask.
//!
//! A hook must not disturb a session because of us: whatever goes wrong, it says nothing and ends
//! with 0. It reads the identity's store and writes nothing.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::mcp::tool::host::verdict;
use crate::domain::query::agent as query;
use crate::store::{Mode, Reader};
use crate::types::id::SessionId;

/// Longest input of a hook in bytes: a tool's whole output may stand in it.
const MAX_INPUT_BYTES: u64 = 16 << 20;

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
        Hook::Progress => None,
    };
    if let Some(answer) = answer {
        let _ = writeln!(io::stdout().lock(), "{answer}");
    }
}

fn stop(store: &Path, session: &SessionId, active: bool) -> Option<Value> {
    // The reader does not make a store that is not there.
    if !store.exists() {
        return None;
    }
    let reader = Reader::open(store, Mode::Shared).ok()?;
    let snapshot = reader.snapshot().ok()?;
    let unread = query::unread_totals(&snapshot, session).ok()?.attention;
    let notice = query::notice(&snapshot, session).ok()?;
    let id = notice.filter(|n| !n.observed).map(|n| n.id);
    (unread > 0).then(|| verdict(unread, id.as_deref(), active))
}
