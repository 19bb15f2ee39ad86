//! What a woken session may do while nobody is there to be asked.
//!
//! A notice begins a turn, and the turn stops at the first tool that the host asks its user about.
//! So the tools fall into three: those that look and keep books, those that speak to peers who are
//! admitted, and those that decide who is. The last are in no rule of ours: they ask the human.

use clap::ValueEnum;

use super::{Host, claude, codex};
use crate::agent::mcp::catalog;

/// Tools that speak to those who are admitted, and to nobody else.
pub(super) const ANSWERS: [&str; 3] = ["send_message", "set_summary", "cancel_task"];

/// What the model may do unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Allow {
    /// Fetch mail, acknowledge it, look around
    Read,
    /// Also send messages to admitted peers, and tell what it works on
    Answer,
}

impl Allow {
    /// The tools, by name.
    pub(super) fn tools(self) -> Vec<String> {
        let hooks = claude::HOOK_TOOLS.iter().chain(&codex::HOOK_TOOLS);
        let hooks: Vec<&str> = hooks.copied().collect();
        let mut names = vec![];
        for tool in catalog::tools() {
            let Some(says) = &tool.annotations else {
                continue;
            };
            let books = says.destructive_hint == Some(false) && says.open_world_hint == Some(false);
            let quiet = says.read_only_hint == Some(true) || books;
            if quiet && !hooks.contains(&&*tool.name) {
                names.push(tool.name.to_string());
            }
        }
        if self == Allow::Answer {
            names.extend(ANSWERS.map(str::to_owned));
        }
        names
    }
}

/// What to do, or to write by hand, so that a woken session is not held up.
pub(super) fn by_hand(host: Host) -> String {
    match host {
        Host::Claude => {
            let rules = |allow| {
                let rules = claude::rules(allow).into_iter();
                rules.map(|rule| format!("\"{rule}\"")).collect::<Vec<_>>()
            };
            let reading = rules(Allow::Read);
            let more: Vec<String> = rules(Allow::Answer).split_off(reading.len());
            format!(
                "Permissions: a session that mail wakes stops at the first tool that Claude Code \
                 asks about. Run this again with --allow read (fetch, look, acknowledge) or \
                 --allow answer (also send), or add to \"permissions\": {{\"allow\": [...]}} of \
                 the settings:\n  read  : {}\n  answer: {}",
                reading.join(", "),
                more.join(", ")
            )
        }
        Host::Codex => format!(
            "Permissions: Codex runs the tools that read and acknowledge unasked. A session that \
             mail wakes stops at sending; run this again with --allow answer, or add:\n  {}",
            codex::approvals().join("\n  ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_admits_anybody_or_ends_anything_is_allowed_unasked() {
        let reading = Allow::Read.tools();
        for tool in [
            "receive_messages",
            "acknowledge_messages",
            "discover",
            "list_peers",
        ] {
            assert!(reading.iter().any(|name| name == tool), "{tool}");
        }
        let all = Allow::Answer.tools();
        assert_eq!(all.get(..reading.len()), Some(reading.as_slice()));
        assert_eq!(all.len(), reading.len() + ANSWERS.len());
        for never in [
            "add_peer",
            "remove_peer",
            "request_pair",
            "accept_pair",
            "reject_pair",
            "cancel_pair_request",
            "bind_claude_session",
            "end_claude_session",
            "check_claude_inbox",
            "bind_codex_session",
            "check_codex_inbox",
        ] {
            assert!(!all.iter().any(|name| name == never), "{never}");
        }
    }
}
