//! What failed, told with the next answer of whatever tool; and that mail waits, told with each.

use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::render;
use crate::agent::core::Core;
use crate::agent::trouble::{Trouble, take};
use crate::domain::query::agent as query;

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

/// Mail that waits: in every answer, so that it is noticed where nothing can be pushed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MailWaits {
    /// Unread messages, progress reports not counted.
    pub unread: u64,
    /// What to do about it.
    pub hint: String,
}

/// Tools that tell about unread mail themselves.
const TELL_THEMSELVES: [&str; 2] = ["receive_messages", "acknowledge_messages"];

/// Adds to a tool's answer what the session should know, in both forms: what went wrong since the
/// last answer, and that mail waits.
pub async fn add(core: &Core, tool: &str, result: &mut CallToolResult) {
    add_troubles(core, result).await;
    if !TELL_THEMSELVES.contains(&tool) {
        add_waiting(core, result).await;
    }
}

async fn add_waiting(core: &Core, result: &mut CallToolResult) {
    let session = core.session.clone();
    let totals = core
        .ledger
        .read(move |s| Ok(query::unread_totals(s, &session)?))
        .await;
    // An answer is worth more than its notes.
    let unread = match totals {
        Ok(totals) if totals.attention > 0 => totals.attention,
        _ => return,
    };
    let waits = MailWaits {
        unread: u64::try_from(unread).unwrap_or(u64::MAX),
        hint: format!(
            "{} unread: call receive_messages when the step at hand is done.",
            match unread {
                1 => "1 message is".to_owned(),
                n => format!("{n} messages are"),
            }
        ),
    };
    result
        .content
        .push(ContentBlock::text(format!("Inbox: {}", waits.hint)));
    if let (Some(Value::Object(data)), Ok(waits)) =
        (&mut result.structured_content, serde_json::to_value(waits))
    {
        data.insert("mail_waits".to_owned(), waits);
    }
}

async fn add_troubles(core: &Core, result: &mut CallToolResult) {
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
