//! Notices as notifications on the MCP connection.
//!
//! The host may drop them without a word, so an accepted one proves nothing. Keys of `meta` are
//! fixed and its values strings: the host loses the whole notification otherwise.

use serde_json::{Value, json};

use super::{Handoff, notice_text};
use crate::agent::mcp::server::HostConnection;
use crate::domain::machine::notice::NoticeView;

/// Name of the notification.
const METHOD: &str = "notifications/claude/channel";

/// Pushes a notice.
///
/// # Errors
///
/// [`Handoff`] when the connection does not take it.
pub async fn push(host: &HostConnection, view: &NoticeView) -> Result<(), Handoff> {
    host.notify(METHOD, params(view))
        .await
        .map_err(Handoff::passing)
}

fn params(view: &NoticeView) -> Value {
    json!({
        "content": notice_text(view),
        "meta": { "sender": "Interlink", "msg_id": view.id },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::agent::NoticePath;

    #[test]
    fn a_notice_has_fixed_keys_text_values_and_no_words_of_a_peer() {
        let view = NoticeView {
            id: "00ff00ff".into(),
            path: NoticePath::Channel,
            unanswered: None,
            attempt: 1,
            offers: 0,
            attention: 2,
            news: 0,
        };
        let params = params(&view);
        let meta = params["meta"].as_object().unwrap();
        for (key, value) in meta {
            assert!(
                key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
                "{key}"
            );
            assert!(value.is_string());
        }
        let content = params["content"].as_str().unwrap();
        assert!(
            content.contains("notification_id=\"00ff00ff\""),
            "{content}"
        );
        assert!(content.contains("2 messages") && content.contains("acknowledge_messages"));
        assert!(!content.contains('\n'));
    }
}
