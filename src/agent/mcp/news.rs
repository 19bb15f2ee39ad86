//! What happened in a sealed session, told with the next answer.

use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::reply::bond::BondEvent;
use crate::agent::bond::news::Event;
use crate::agent::core::Core;

/// Events of the sealed session that wait: in answers of all other tools.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BondWaits {
    /// How many.
    pub events: u64,
    /// What to do about it.
    pub hint: String,
}

fn shown(event: Event) -> BondEvent {
    BondEvent {
        kind: event.kind.name().to_owned(),
        at_ms: event.at.0,
        transfer_id: event.transfer,
        text: event.text,
    }
}

/// Adds to an answer what happened: the events themselves where the tool is about sealed sessions,
/// that there are some where it is not,
/// or where it failed.
pub fn add(core: &Core, tool: &str, result: &mut CallToolResult) {
    let unread = u64::try_from(core.bond.unread()).unwrap_or(u64::MAX);
    if unread == 0 {
        return;
    }
    // A failure has no place for data, and some hosts show a model nothing else: events stay.
    if !tool.starts_with("bond_") || result.structured_content.is_none() {
        let s = if unread == 1 { " waits" } else { "s wait" };
        let hint = format!("{unread} event{s} in the sealed session: call bond_status.");
        let waits = BondWaits {
            events: unread,
            hint: hint.clone(),
        };
        say(result, hint, "bond_waits", serde_json::to_value(waits).ok());
        return;
    }
    let events: Vec<BondEvent> = core.bond.take_news().into_iter().map(shown).collect();
    let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
    let text = format!("Events since last tool call:\n\n{}", texts.join("\n\n"));
    let data = serde_json::to_value(&events).ok();
    say(result, text, "events", data);
}

fn say(result: &mut CallToolResult, text: String, field: &str, value: Option<Value>) {
    result.content.push(ContentBlock::text(text));
    if let (Some(Value::Object(data)), Some(value)) = (&mut result.structured_content, value) {
        data.insert(field.to_owned(), value);
    }
}
