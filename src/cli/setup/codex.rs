//! Codex's configuration: one block of `config.toml` between two marks, which is ours.
//!
//! A file of TOML takes tables in any order, so the block stands at the end and nothing else is
//! read or changed. Where somebody wired the server by hand, nothing is written.

use serde_json::Value;

use super::allow::{ANSWERS, Allow};
use super::{SetupError, Wiring};

const BEGIN: &str =
    "# >>> interlink: written by `interlink-mcp setup codex`; changes up to <<< are lost";
const END: &str = "# <<< interlink";
/// Tools that only hooks call.
pub(super) const HOOK_TOOLS: [&str; 2] = ["bind_codex_session", "check_codex_inbox"];

const APPROVE: &str = "approval_mode = \"approve\"";

/// Puts the block into a configuration, in the place of that of an earlier setup.
pub(super) fn with_block(text: &str, wiring: &Wiring) -> Result<String, SetupError> {
    let rest = without_block(text)?;
    if let Some(line) = rest.lines().find(|line| conflicts(line)) {
        return Err(SetupError::ByHand(line.trim().to_owned()));
    }
    // Our block is written anew; what it allowed stays allowed.
    let allowed = text.lines().any(|line| line.trim() == APPROVE);
    let allow = wiring.allow.or_else(|| allowed.then_some(Allow::Answer));
    let rest = rest.trim_end();
    let gap = if rest.is_empty() { "" } else { "\n\n" };
    Ok(format!("{rest}{gap}{}", block(wiring, allow)))
}

/// How often the server's table begins in a configuration, by our hand or another.
pub(in crate::cli) fn tables(text: &str) -> usize {
    let header = |line: &str| -> String { line.split_whitespace().collect() };
    text.lines()
        .map(header)
        .filter(|line| {
            ["[mcp_servers.interlink]", "[mcp_servers.\"interlink\"]"]
                .iter()
                .any(|table| line.starts_with(table))
        })
        .count()
}

fn without_block(text: &str) -> Result<String, SetupError> {
    let mut kept = String::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line.trim_end()) {
            (false, BEGIN) => inside = true,
            (true, END) => inside = false,
            (true, _) => {}
            (false, _) => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    if inside {
        return Err(SetupError::Shape("the block of interlink has no end"));
    }
    Ok(kept)
}

/// A line that a second table of the same name would contradict.
fn conflicts(line: &str) -> bool {
    let line: String = line.split_whitespace().collect();
    line.starts_with("[mcp_servers.interlink")
        || line.starts_with("[mcp_servers.\"interlink\"")
        || line.starts_with("mcp_servers=")
        || line.starts_with("mcp_servers.interlink")
        || line.starts_with("hooks=")
        || line.starts_with("hooks.")
        || line == "[hooks]"
}

/// The lines by which the model calls tools unasked. Codex asks for none of those that only read or
/// keep books, by what is said about them.
pub(super) fn approvals() -> Vec<String> {
    let tools = ANSWERS.iter();
    tools
        .flat_map(|tool| {
            [
                format!("[mcp_servers.interlink.tools.{tool}]"),
                APPROVE.to_owned(),
            ]
        })
        .collect()
}

/// The block.
pub(super) fn block(wiring: &Wiring, allow: Option<Allow>) -> String {
    let mut lines = vec![
        BEGIN.to_owned(),
        "[mcp_servers.interlink]".to_owned(),
        format!("command = {}", quoted(&wiring.program)),
        "args = [\"--host\", \"codex\"]".to_owned(),
    ];
    let env = wiring.env();
    if !env.is_empty() {
        lines.push(String::new());
        lines.push("[mcp_servers.interlink.env]".to_owned());
        for (name, value) in &env {
            let value = value.as_str().unwrap_or_default();
            lines.push(format!("{name} = {}", quoted(value)));
        }
    }
    if allow == Some(Allow::Answer) {
        lines.push(String::new());
        lines.extend(approvals());
    }
    let bind = |event: &str, prompt: &str| {
        format!("{{ thread_id = \"${{session_id}}\", hook_event_name = \"{event}\"{prompt} }}")
    };
    let hooks = [
        (
            "SessionStart",
            None,
            "bind_codex_session",
            bind("SessionStart", ""),
        ),
        (
            "UserPromptSubmit",
            None,
            "bind_codex_session",
            bind("UserPromptSubmit", ", prompt = \"${prompt}\""),
        ),
        (
            "PreToolUse",
            Some("^mcp__interlink__"),
            "bind_codex_session",
            bind("PreToolUse", ""),
        ),
        (
            "Stop",
            None,
            "check_codex_inbox",
            "{ thread_id = \"${session_id}\", stop_hook_active = \"${stop_hook_active}\" }"
                .to_owned(),
        ),
    ];
    for (event, matcher, tool, input) in hooks {
        lines.push(String::new());
        lines.push(format!("[[hooks.{event}]]"));
        lines.extend(matcher.map(|matcher| format!("matcher = {}", quoted(matcher))));
        lines.push(String::new());
        lines.push(format!("[[hooks.{event}.hooks]]"));
        lines.push("type = \"mcp_tool\"".to_owned());
        lines.push("server = \"interlink\"".to_owned());
        lines.push(format!("tool = \"{tool}\""));
        lines.push(format!("input = {input}"));
    }
    lines.push(END.to_owned());
    lines.join("\n") + "\n"
}

/// A text as a basic string of TOML. JSON's escapes are a subset of TOML's, but for the slash, which
/// is not escaped here.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wiring() -> Wiring {
        Wiring {
            program: "/bin/interlink-mcp".to_owned(),
            settings: vec![("INTERLINK_NAME".to_owned(), "a \"b\"".to_owned())],
            allow: None,
        }
    }

    #[test]
    fn a_second_time_changes_nothing_and_what_is_foreign_stays() {
        let foreign = "model = \"x\" # mine\n\n[tui]\ntheme = 1\n";
        let once = with_block(foreign, &wiring()).unwrap();
        assert!(once.starts_with(foreign), "{once}");
        assert!(once.contains("INTERLINK_NAME = \"a \\\"b\\\"\""));
        assert_eq!(with_block(&once, &wiring()).unwrap(), once);
        let behind = once.clone() + "\n[later]\n";
        let moved = with_block(&behind, &wiring()).unwrap();
        assert_eq!(moved.matches(BEGIN).count(), 1);
        assert!(moved.contains("[later]") && tables(&moved) == 1);
        assert!(with_block("", &wiring()).unwrap().starts_with(BEGIN));
        assert!(!once.contains(APPROVE));
        let answering = Wiring {
            allow: Some(Allow::Answer),
            ..wiring()
        };
        let allowed = with_block(&once, &answering).unwrap();
        assert!(allowed.contains("[mcp_servers.interlink.tools.send_message]\napproval_mode"));
        assert_eq!(with_block(&allowed, &wiring()).unwrap(), allowed);
    }

    #[test]
    fn a_server_or_hooks_wired_otherwise_are_left_alone() {
        for text in [
            "[mcp_servers.interlink]\ncommand = \"x\"\n",
            "[ mcp_servers . interlink ]\n",
            "hooks = {}\n",
            "[hooks]\nStop = []\n",
            "mcp_servers = { }\n",
            BEGIN,
        ] {
            assert!(with_block(text, &wiring()).is_err(), "{text}");
        }
    }
}
