//! The tools as a host sees them: names, descriptions, schemas, annotations, and the way from a call
//! to the function that answers it. One module an area.

mod bond;
mod hosts;
mod messages;
mod pairing;
mod peers;
mod sessions;
mod tasks;

use std::sync::Arc;

pub use hosts::{HookCall, hook};

use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, JsonObject, MetaObject, RequestMetaObject, Tool,
    ToolAnnotations,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ToolError;
use super::reply::Answer;
use super::schema;
use super::server::HostConnection;
use crate::agent::core::Core;
use crate::types::limit::DECLARED_RESULT_CHARS;

/// A host's call of a tool.
pub struct Call<'a> {
    /// The parts of the channel server.
    pub core: &'a Arc<Core>,
    /// Name of the tool.
    pub name: &'a str,
    /// Its arguments.
    pub arguments: Option<JsonObject>,
    /// What the host said about the call.
    pub meta: RequestMetaObject,
    /// The way back to the host and its user.
    pub host: HostConnection,
}

/// How a call ended; `None` for a tool that is not of the area.
pub type Outcome = Option<Result<CallToolResult, ErrorData>>;

/// Every tool, by name.
#[must_use]
pub fn tools() -> Vec<Tool> {
    let mut tools = messages::tools();
    tools.extend(peers::tools());
    tools.extend(sessions::tools());
    tools.extend(tasks::tools());
    tools.extend(pairing::tools());
    tools.extend(hosts::tools());
    tools.extend(bond::tools());
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    for tool in &mut tools {
        if LONG_ANSWERS.contains(&&*tool.name) {
            let meta = tool.meta.get_or_insert_default();
            let chars = Value::from(DECLARED_RESULT_CHARS);
            meta.0
                .insert("anthropic/maxResultSizeChars".to_owned(), chars);
        }
    }
    tools
}

/// Tools whose answers are as long as the host allows. Claude Code has to be told, or it puts them into
/// a file and shows the beginning.
const LONG_ANSWERS: [&str; 11] = [
    "bond_accept",
    "bond_status",
    "bond_wait",
    "conversation_history",
    "discover",
    "list_pair_requests",
    "list_peers",
    "list_pending",
    "list_tasks",
    "message_status",
    "receive_messages",
];

/// Answers a call.
///
/// # Errors
///
/// As the tool says; invalid parameters when there is none of that name.
pub async fn call(call: Call<'_>) -> Result<CallToolResult, ErrorData> {
    if let Some(done) = messages::call(&call).await {
        return done;
    }
    if let Some(done) = peers::call(&call).await {
        return done;
    }
    if let Some(done) = sessions::call(&call).await {
        return done;
    }
    if let Some(done) = tasks::call(&call).await {
        return done;
    }
    if let Some(done) = pairing::call(&call).await {
        return done;
    }
    if let Some(done) = hosts::call(&call).await {
        return done;
    }
    if let Some(done) = bond::call(&call).await {
        return done;
    }
    let text = format!("unknown tool {:?}", call.name);
    Err(ErrorData::invalid_params(text, None))
}

/// What a tool does to the world, for hosts that ask the user accordingly.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// Looks only.
    Reads,
    /// Looks only, at what others publish.
    Asks,
    /// Changes this session's own books; saying it twice is saying it once.
    Books,
    /// As `Books`, possibly after a look: shows and may acknowledge.
    ReadsAndBooks,
    /// Reaches other people.
    Sends,
    /// Says something about this session to everybody.
    Publishes,
    /// Lets somebody write to this identity.
    Admits,
    /// Ends that.
    Revokes,
    /// Reaches somebody, who may be let in by it; saying it twice is saying it once.
    Requests,
    /// Ends something that waits.
    Drops,
}

impl Effect {
    fn annotations(self, title: &str) -> ToolAnnotations {
        let set = |read_only, destructive, idempotent, open_world| {
            ToolAnnotations::from_raw(
                Some(title.to_owned()),
                Some(read_only),
                Some(destructive),
                Some(idempotent),
                Some(open_world),
            )
        };
        match self {
            Effect::Reads => set(true, false, true, false),
            Effect::Asks => set(true, false, true, true),
            Effect::Books | Effect::ReadsAndBooks => set(false, false, true, false),
            Effect::Sends => set(false, false, false, true),
            Effect::Publishes | Effect::Admits | Effect::Requests => set(false, false, true, true),
            Effect::Revokes | Effect::Drops => set(false, true, true, false),
        }
    }
}

/// How a host treats a tool beyond its annotations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    None,
    /// Its schema is always loaded: a session that a notice wakes knows nothing else.
    AlwaysLoad,
    /// The user is asked, whatever rules say.
    AskUser,
}

pub(super) fn describe<A: JsonSchema, R: JsonSchema>(
    name: &'static str,
    title: &str,
    description: &'static str,
    effect: Effect,
    hint: Hint,
) -> Tool {
    let mut tool = Tool::new(name, description, Arc::new(schema::of::<A>()))
        .with_title(title)
        .with_raw_output_schema(Arc::new(schema::with_notes(schema::of::<R>())))
        .with_annotations(effect.annotations(title));
    let key = match hint {
        Hint::None => return tool,
        Hint::AlwaysLoad => "anthropic/alwaysLoad",
        Hint::AskUser => "anthropic/requiresUserInteraction",
    };
    let mut meta = MetaObject::new();
    meta.0.insert(key.to_owned(), Value::Bool(true));
    tool.meta = Some(meta);
    tool
}

/// Parses arguments, runs a tool, renders both forms of its answer.
pub(super) async fn run<A, R, F>(
    call: &Call<'_>,
    f: impl FnOnce(A) -> F + Send,
) -> Result<CallToolResult, ErrorData>
where
    A: DeserializeOwned,
    R: Serialize,
    F: Future<Output = Result<Answer<R>, ToolError>> + Send,
{
    // An explicit null is an absent parameter.
    let arguments = call.arguments.clone().unwrap_or_default();
    let object: JsonObject = arguments
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .collect();
    let args: A = match serde_json::from_value(Value::Object(object)) {
        Ok(args) => args,
        Err(e) => {
            let text = format!("failed to deserialize parameters: {e}");
            return Ok(CallToolResult::error(vec![ContentBlock::text(text)]));
        }
    };
    let answer = match f(args).await {
        Ok(answer) => answer,
        Err(ToolError::Failed(text)) => {
            return Ok(CallToolResult::error(vec![ContentBlock::text(text)]));
        }
        Err(ToolError::Refused { text, data }) => {
            let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
            result.structured_content = Some(data);
            return Ok(result);
        }
        Err(e) => return Err(e.into()),
    };
    let data = serde_json::to_value(&answer.data)
        .map_err(|e| ToolError::Local(format!("the answer cannot be written: {e}")))?;
    let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
    result.structured_content = Some(data);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_described_typed_and_annotated() {
        let tools = tools();
        assert_eq!(tools.len(), 37);
        for tool in &tools {
            let text = serde_json::to_string(tool).unwrap();
            for odd in ["\"null\"", "$ref", "$schema", "uint"] {
                assert!(!text.contains(odd), "{}: {odd}", tool.name);
            }
            assert!(tool.description.as_ref().is_some_and(|d| d.len() > 20));
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "object");
            let a = tool.annotations.as_ref().unwrap();
            assert!(a.read_only_hint.is_some() && a.destructive_hint.is_some());
            assert!(a.idempotent_hint.is_some() && a.open_world_hint.is_some());
        }
        let loaded: Vec<&str> = tools
            .iter()
            .filter(|t| {
                t.meta
                    .as_ref()
                    .is_some_and(|m| m.0.contains_key("anthropic/alwaysLoad"))
            })
            .map(|t| &*t.name)
            .collect();
        assert_eq!(
            loaded,
            ["acknowledge_messages", "receive_messages", "send_message"]
        );
        let long = tools.iter().filter(|t| {
            let meta = t.meta.as_ref();
            meta.is_some_and(|m| m.0.contains_key("anthropic/maxResultSizeChars"))
        });
        assert_eq!(long.count(), LONG_ANSWERS.len());
    }
}
