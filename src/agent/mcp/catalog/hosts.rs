//! Tools about the host. All but `failed_deliveries` are for its hooks alone: a call that a model
//! made is refused, whatever it was told.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, RequestMetaObject, Tool};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Call, Effect, Hint, Outcome, describe, run};
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::tool::host;
use crate::agent::mcp::{args, reply};
use crate::agent::runtime::Supervisor;

/// A call that may come from a hook, before any session is known.
pub struct HookCall<'a> {
    /// Who knows the session.
    pub supervisor: &'a Arc<Supervisor>,
    /// Name of the tool.
    pub name: &'a str,
    /// Its arguments.
    pub arguments: Option<&'a JsonObject>,
    /// What the host said about the call.
    pub meta: &'a RequestMetaObject,
}

pub(super) fn tools() -> Vec<Tool> {
    vec![
        describe::<args::BindClaudeSession, reply::HookAnswer>(
            "bind_claude_session",
            "Bind a conversation (hook)",
            "For the hooks of Claude Code only: names the conversation that runs.",
            Effect::Books,
            Hint::None,
        ),
        describe::<args::EndClaudeSession, reply::HookAnswer>(
            "end_claude_session",
            "End a conversation (hook)",
            "For the hooks of Claude Code only: the conversation ended.",
            Effect::Books,
            Hint::None,
        ),
        describe::<args::CheckClaudeInbox, reply::HookAnswer>(
            "check_claude_inbox",
            "Check at the end of a turn (hook)",
            "For the hooks of Claude Code only: whether a turn may end.",
            Effect::Books,
            Hint::None,
        ),
        describe::<args::BindCodexSession, reply::HookAnswer>(
            "bind_codex_session",
            "Bind a thread (hook)",
            "For the hooks of Codex only: names the thread that runs.",
            Effect::Books,
            Hint::None,
        ),
        describe::<args::CheckCodexInbox, reply::HookAnswer>(
            "check_codex_inbox",
            "Check at the end of a turn (hook)",
            "For the hooks of Codex only: whether a turn may end.",
            Effect::Books,
            Hint::None,
        ),
        describe::<args::FailedDeliveries, reply::FailedDeliveries>(
            "failed_deliveries",
            "Handle failed notices",
            "List, read, retry or discard the notice that this session's host did not take. The \
             mail itself is never affected: receive_messages shows it.",
            Effect::Books,
            Hint::None,
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Outcome {
    Some(match call.name {
        "failed_deliveries" => run(call, |a| host::failed_deliveries(call.core, a)).await,
        _ => return None,
    })
}

/// Answers a hook; `None` when the tool is not one of theirs.
pub async fn hook(call: HookCall<'_>) -> Outcome {
    let (supervisor, meta) = (call.supervisor, call.meta);
    let hooks = [
        "bind_claude_session",
        "end_claude_session",
        "check_claude_inbox",
        "bind_codex_session",
        "check_codex_inbox",
    ];
    if !hooks.contains(&call.name) {
        return None;
    }
    if host::is_model(meta) {
        let text = "this tool is for the host's hooks; there is nothing for a model to do with it";
        return Some(Err(ErrorData::invalid_params(text, None)));
    }
    Some(match call.name {
        "bind_claude_session" => match parse(&call) {
            Ok(a) => finish(host::bind_claude_session(supervisor, a).await),
            Err(no) => Err(ErrorData::invalid_params(no, None)),
        },
        "end_claude_session" => match parse(&call) {
            Ok(a) => finish(host::end_claude_session(supervisor, &a)),
            Err(no) => Err(ErrorData::invalid_params(no, None)),
        },
        "check_claude_inbox" => match parse(&call) {
            Ok(a) => finish(host::check_claude_inbox(supervisor, a).await),
            Err(no) => Ok(unfit(no)),
        },
        "bind_codex_session" => match parse(&call) {
            Ok(a) => finish(host::bind_codex_session(supervisor, meta, a).await),
            Err(no) => Ok(unfit(no)),
        },
        "check_codex_inbox" => match parse(&call) {
            Ok(a) => finish(host::check_codex_inbox(supervisor, meta, a).await),
            Err(no) => Ok(unfit(no)),
        },
        _ => return None,
    })
}

fn parse<A: DeserializeOwned>(call: &HookCall<'_>) -> Result<A, String> {
    let mut object = call.arguments.cloned().unwrap_or_default();
    object.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(object))
        .map_err(|e| format!("failed to deserialize parameters: {e}"))
}

fn unfit(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Nothing is added to a hook's answer: the host reads it as JSON.
fn finish(answer: Result<Value, ToolError>) -> Result<CallToolResult, ErrorData> {
    let value = answer?;
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    Ok(result)
}
