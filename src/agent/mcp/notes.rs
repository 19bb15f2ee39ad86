//! What failed, told with the next answer of whatever tool.

use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::render;
use crate::agent::core::Core;
use crate::agent::trouble::{Trouble, take};

/// Something that went wrong with a message of this session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Note {
    /// `refused`, `dropped`, `expired`, `ahead`, or `more` for how many are left out.
    pub kind: String,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msg_id: Option<String>,
    /// The public key of the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What happened and what can be done.
    pub text: String,
}

fn note(trouble: &Trouble) -> Note {
    let (kind, id, key, text) = match trouble {
        Trouble::Refused { msg_id, to, reason } => (
            "refused",
            msg_id,
            to,
            format!(
                "Your message {msg_id} was refused by every relay and is not tried again: {}",
                render::attribute(reason)
            ),
        ),
        Trouble::Dropped { msg_id, to } => (
            "dropped",
            msg_id,
            to,
            format!(
                "When message {msg_id} was sent, the recipient's queue was full; the relay dropped \
                 the oldest mail in it, perhaps an earlier message of yours."
            ),
        ),
        Trouble::Expired {
            msg_id,
            from,
            label,
        } => (
            "expired",
            msg_id,
            from,
            format!(
                "A message from \"{}\" came too late to be read; it can be sent again.",
                render::label(label)
            ),
        ),
        Trouble::Ahead {
            msg_id,
            from,
            label,
            ahead_ms,
        } => (
            "ahead",
            msg_id,
            from,
            format!(
                "A message from \"{}\" was signed {} s ahead of this machine's clock and is \
                 dropped: one of the two clocks is wrong. Once that is mended it can be sent again.",
                render::label(label),
                ahead_ms / 1000
            ),
        ),
    };
    Note {
        kind: kind.to_owned(),
        msg_id: render::is_plain_id(id.as_str()).then(|| id.to_string()),
        key: Some(key.to_string()),
        text,
    }
}

/// Adds what went wrong since the last answer, in both forms.
pub async fn add(core: &Core, result: &mut CallToolResult) {
    let (troubles, more) = take(core).await;
    let mut notes: Vec<Note> = troubles.iter().map(note).collect();
    if more > 0 {
        notes.push(Note {
            kind: "more".to_owned(),
            msg_id: None,
            key: None,
            text: format!("{more} earlier troubles are left out; see list_pending."),
        });
    }
    if notes.is_empty() {
        return;
    }
    let lines: Vec<String> = notes.iter().map(|n| format!("Note: {}", n.text)).collect();
    result.content.push(ContentBlock::text(lines.join("\n")));
    if let (Some(Value::Object(data)), Ok(notes)) =
        (&mut result.structured_content, serde_json::to_value(notes))
    {
        data.insert("notes".to_owned(), notes);
    }
}
