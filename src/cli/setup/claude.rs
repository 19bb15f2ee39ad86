//! Claude Code's configuration: one MCP server, and hooks that name the conversation to it.

use serde_json::{Value, json};

use super::allow::Allow;
use super::members::{Members, pretty};
use super::{SetupError, Wiring};

/// Name of the server in the configuration; tools are called `mcp__interlink__*`.
pub(in crate::cli) const SERVER: &str = "interlink";

/// Tools that only hooks call: what makes a hook ours.
pub(super) const HOOK_TOOLS: [&str; 3] = [
    "bind_claude_session",
    "end_claude_session",
    "check_claude_inbox",
];

/// How long the host may keep a listener, in seconds: about three weeks.
const LISTENER_SECONDS: u64 = 2_000_000;

/// The entry of the MCP server.
pub(super) fn server(wiring: &Wiring) -> Value {
    let mut env = wiring.env();
    env.insert(
        "INTERLINK_CLAUDE_SESSION_HOOKS".to_owned(),
        Value::from("true"),
    );
    json!({ "type": "stdio", "command": wiring.program, "args": [], "env": env })
}

/// The hooks by event.
pub(super) fn hooks(wiring: &Wiring) -> Vec<(&'static str, Value)> {
    let tool = |tool: &str, input: Value| json!({ "type": "mcp_tool", "server": SERVER, "tool": tool, "input": input });
    let id = "${session_id}";
    let bind = |event: &str, prompt: bool| {
        let mut input = json!({ "session_id": id, "hook_event_name": event });
        if let (true, Value::Object(input)) = (prompt, &mut input) {
            input.insert("prompt".to_owned(), Value::from("${prompt}"));
        }
        tool("bind_claude_session", input)
    };
    let listener = json!({
        "type": "command",
        "command": wiring.command("wait --fallback"),
        "async": true,
        "asyncRewake": true,
        "timeout": LISTENER_SECONDS,
    });
    let progress = json!({
        "type": "command",
        "command": wiring.command("hook progress"),
        "timeout": 5,
    });
    let check = tool(
        "check_claude_inbox",
        json!({ "session_id": id, "stop_hook_active": "${stop_hook_active}" }),
    );
    let end = tool("end_claude_session", json!({ "session_id": id }));
    vec![
        ("SessionStart", json!([{ "hooks": [listener] }])),
        (
            "UserPromptSubmit",
            json!([{ "hooks": [bind("UserPromptSubmit", true)] }]),
        ),
        (
            "PreToolUse",
            json!([{
                "matcher": format!("^mcp__{SERVER}__"),
                "hooks": [bind("PreToolUse", false)],
            }]),
        ),
        (
            "PostToolUse",
            json!([{ "matcher": "Bash|Edit|Write", "hooks": [progress] }]),
        ),
        ("Stop", json!([{ "hooks": [check, listener] }])),
        ("SessionEnd", json!([{ "hooks": [end] }])),
    ]
}

/// Puts the server into a configuration; foreign members stay as they are.
pub(super) fn with_server(text: &str, wiring: &Wiring) -> Result<String, SetupError> {
    let mut file = Members::parse(text)?;
    let mut servers = file.object("mcpServers")?;
    servers.set(SERVER, pretty(&server(wiring), 2))?;
    file.set("mcpServers", servers.to_text(1))?;
    Ok(file.to_text(0) + "\n")
}

/// Puts the hooks into settings, in the place of those of an earlier setup.
pub(super) fn with_hooks(text: &str, wiring: &Wiring) -> Result<String, SetupError> {
    let mut file = Members::parse(text)?;
    let mut events = file.object("hooks")?;
    for (event, ours) in hooks(wiring) {
        let mut groups = match events.get(event) {
            Some(text) => foreign(serde_json::from_str(text)?)?,
            None => vec![],
        };
        if let Value::Array(ours) = ours {
            groups.extend(ours);
        }
        events.set(event, pretty(&Value::Array(groups), 2))?;
    }
    file.set("hooks", events.to_text(1))?;
    if let Some(allow) = wiring.allow {
        permit(&mut file, &rules(allow))?;
    }
    Ok(file.to_text(0) + "\n")
}

/// The rules of permission by which the model calls tools unasked.
pub(super) fn rules(allow: Allow) -> Vec<String> {
    let tools = allow.tools().into_iter();
    tools.map(|tool| format!("mcp__{SERVER}__{tool}")).collect()
}

/// Adds rules to those that stand there. None is taken away: a rule may be its user's own.
fn permit(file: &mut Members, rules: &[String]) -> Result<(), SetupError> {
    let mut permissions = file.object("permissions")?;
    let mut allowed: Vec<Value> = match permissions.get("allow") {
        Some(text) => serde_json::from_str(text)?,
        None => vec![],
    };
    let missing = rules.iter().map(|rule| Value::from(rule.as_str()));
    let missing: Vec<Value> = missing.filter(|rule| !allowed.contains(rule)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    allowed.extend(missing);
    permissions.set("allow", pretty(&Value::Array(allowed), 2))?;
    file.set("permissions", permissions.to_text(1))?;
    Ok(())
}

/// The groups of an event without what is ours.
fn foreign(groups: Value) -> Result<Vec<Value>, SetupError> {
    let Value::Array(groups) = groups else {
        return Err(SetupError::Shape("hooks of an event are not a list"));
    };
    let mut kept = vec![];
    for mut group in groups {
        if let Some(Value::Array(handlers)) = group.get_mut("hooks") {
            let before = handlers.len();
            handlers.retain(|handler| !is_ours(handler));
            if handlers.is_empty() && before > 0 {
                continue;
            }
        }
        kept.push(group);
    }
    Ok(kept)
}

/// Whether an earlier setup wrote a handler.
pub(super) fn is_ours(handler: &Value) -> bool {
    let text = |name: &str| {
        handler
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if text("type") == "mcp_tool" {
        return text("server") == SERVER && HOOK_TOOLS.contains(&text("tool"));
    }
    let command = text("command");
    command.contains("interlink-mcp")
        && (command.ends_with(" wait --fallback") || command.ends_with(" hook progress"))
}
