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

/// News of pairing that nobody looked at: in every answer, for the same reason.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PairingWaits {
    /// Requests, answers and conflicts that this session has not seen.
    pub news: u64,
    /// What to do about it.
    pub hint: String,
}

/// Tools that tell about unread mail themselves.
const TELL_OF_MAIL: [&str; 2] = ["receive_messages", "acknowledge_messages"];
/// Tools that tell about pairing themselves.
const TELL_OF_PAIRING: [&str; 3] = ["receive_messages", "list_pair_requests", "pair_status"];

/// Adds to a tool's answer what the session should know, in both forms: what went wrong since the
/// last answer, and that mail waits.
pub async fn add(core: &Core, tool: &str, result: &mut CallToolResult) {
    add_troubles(core, result).await;
    let session = core.session.clone();
    let totals = core
        .ledger
        .read(move |s| Ok(query::unread_totals(s, &session)?))
        .await;
    // An answer is worth more than its notes.
    let Ok(totals) = totals else { return };
    if totals.attention > 0 && !TELL_OF_MAIL.contains(&tool) {
        let unread = count(totals.attention);
        let hint = format!(
            "{} unread: call receive_messages when the step at hand is done.",
            match unread {
                1 => "1 message is".to_owned(),
                n => format!("{n} messages are"),
            }
        );
        let line = format!("Inbox: {hint}");
        say(result, line, "mail_waits", MailWaits { unread, hint });
    }
    if totals.news.count > 0 && !TELL_OF_PAIRING.contains(&tool) {
        let news = count(totals.news.count);
        let hint = "There is news: call list_pair_requests and tell the user.".to_owned();
        let line = format!("Pairing: {hint}");
        say(result, line, "pairing_waits", PairingWaits { news, hint });
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn say(result: &mut CallToolResult, line: String, field: &str, value: impl Serialize) {
    result.content.push(ContentBlock::text(line));
    if let (Some(Value::Object(data)), Ok(value)) =
        (&mut result.structured_content, serde_json::to_value(value))
    {
        data.insert(field.to_owned(), value);
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
    say(result, lines.join("\n"), "notes", notes);
}
