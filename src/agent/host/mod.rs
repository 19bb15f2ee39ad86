//! Waking the host when mail waits.
//!
//! A notice says that there is mail and how to get it; it never carries a peer's words. Which way
//! it goes is the operator's choice: a notification on the MCP connection (`claude_channel`), or
//! the listener that a hook of the host keeps running (`claude_hook`). When to give one is decided
//! by the schedule in the log, so both obey the same rules and a restart forgets nothing.

pub mod claude_channel;
pub mod claude_hook;

use crate::domain::machine::notice::NoticeView;

/// The text of a notice. The token `notification_id="..."` is what hosts and tests look for.
#[must_use]
pub fn notice_text(view: &NoticeView) -> String {
    let again = if view.offers > 0 {
        ", still unread"
    } else {
        ""
    };
    // Keys cost nothing: however many strangers ask, it is one line without a word of theirs.
    let pairing = match view.news {
        0 => "",
        _ => " There is news about pairing: call list_pair_requests and tell the user.",
    };
    if view.attention == 0 {
        return format!(
            "[interlink pairing notice] notification_id=\"{}\".{pairing}",
            view.id
        );
    }
    format!(
        "[interlink inbox notice] {} waiting{again}: call receive_messages with \
         notification_id=\"{}\", read, then acknowledge_messages before acting.{pairing}",
        match view.attention {
            1 => "1 message".to_owned(),
            n => format!("{n} messages"),
        },
        view.id
    )
}
