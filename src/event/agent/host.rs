//! The host of a session: which ways there are to wake it, and which of them proved to work.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::mailbox::NoticePath;
use crate::types::id::SessionId;

/// A program that runs a coding agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HostKind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Any other MCP client: mail is fetched, nothing is pushed.
    Other,
}

impl HostKind {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            HostKind::Claude => "claude",
            HostKind::Codex => "codex",
            HostKind::Other => "other",
        }
    }
}

/// What became known about a session's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostChange {
    /// A server acts for the session and can wake it in these ways, the best first.
    Attached {
        /// The host.
        host: HostKind,
        /// At most 4, each once.
        paths: Vec<NoticePath>,
    },
    /// A notice that was handed over this way came back: the way works.
    Confirmed {
        /// The way.
        path: NoticePath,
    },
    /// The host began a turn with a notice as its input.
    Started {
        /// Id of the notice.
        id: String,
    },
    /// A hand-off failed in a new way.
    Failed {
        /// Id of the notice.
        id: String,
        /// The way.
        path: NoticePath,
        /// What was wrong; at most 256 bytes.
        reason: String,
    },
    /// The failed hand-off needs no attention any more.
    Cleared,
    /// The conversation ended.
    Detached,
}

impl HostChange {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            HostChange::Attached { .. } => "attached",
            HostChange::Confirmed { .. } => "confirmed",
            HostChange::Started { .. } => "started",
            HostChange::Failed { .. } => "failed",
            HostChange::Cleared => "cleared",
            HostChange::Detached => "detached",
        }
    }
}

/// Something became known about a session's host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostChanged {
    /// The session.
    pub session: SessionId,
    /// What it is.
    pub change: HostChange,
}

impl HostChanged {
    pub(super) fn json(&self) -> Value {
        let mut value = json!({ "session": self.session, "change": self.change.name() });
        let more = match &self.change {
            HostChange::Attached { host, paths } => {
                let paths: Vec<_> = paths.iter().map(|p| p.state_name()).collect();
                json!({ "host": host.name(), "paths": paths })
            }
            HostChange::Confirmed { path } => json!({ "path": path.state_name() }),
            HostChange::Started { id } => json!({ "id": id }),
            HostChange::Failed { id, path, reason } => {
                json!({ "id": id, "path": path.state_name(), "reason": reason })
            }
            HostChange::Cleared | HostChange::Detached => Value::Null,
        };
        if let (Value::Object(into), Value::Object(from)) = (&mut value, more) {
            into.extend(from);
        }
        value
    }
}
