//! Notices as notifications on the MCP connection.
//!
//! The host may drop them without a word, so an accepted one proves nothing; the schedule offers
//! it again until somebody reads. Keys of `meta` are fixed and its values strings: the host loses
//! the whole notification otherwise.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::notice_text;
use crate::agent::clock::random_hex;
use crate::agent::core::{ActError, Core};
use crate::agent::mcp::server::HostConnection;
use crate::domain::decide::agent::{AgentCommand, AgentReply, Lease};
use crate::domain::machine::notice::{NoticeStep, NoticeView};
use crate::event::agent::NoticePath;
use crate::types::time::Clock as _;

/// Name of the notification.
const METHOD: &str = "notifications/claude/channel";
/// Longest time between two looks at the schedule: wall clocks jump.
const LOOK: Duration = Duration::from_secs(30);

/// Gives notices for as long as the session is ours.
pub async fn run(core: Arc<Core>, host: HostConnection) {
    loop {
        let lease = core.lease.held().await;
        tokio::select! {
            () = core.lease.lost(&lease) => {}
            () = offer(&core, &host, &lease) => {}
        }
    }
}

async fn offer(core: &Core, host: &HostConnection, lease: &Lease) {
    let mut head = core.ledger.follow();
    loop {
        head.mark_unchanged();
        let pause = match reserve(core, lease).await {
            Ok(NoticeStep::Offer(view)) => {
                hand_over(core, host, lease, &view).await;
                continue;
            }
            Ok(NoticeStep::Wait { until }) => Duration::from_millis(until.since(core.clock.now()))
                .clamp(Duration::from_millis(50), LOOK),
            Ok(NoticeStep::Idle) => LOOK,
            Err(e) => {
                tracing::debug!("notice: {e}");
                Duration::from_secs(2)
            }
        };
        tokio::select! {
            changed = head.changed() => if changed.is_err() { return },
            () = sleep(pause) => {}
        }
    }
}

async fn reserve(core: &Core, lease: &Lease) -> Result<NoticeStep, ActError> {
    let Ok(id) = random_hex::<4>(&core.entropy) else {
        return Ok(NoticeStep::Idle);
    };
    let command = AgentCommand::ReserveNotice {
        lease: lease.clone(),
        id,
        path: NoticePath::Channel,
        now: core.clock.now(),
    };
    match core.submit(command).await? {
        AgentReply::Notice(step) => Ok(step),
        _ => Ok(NoticeStep::Idle),
    }
}

async fn hand_over(core: &Core, host: &HostConnection, lease: &Lease, view: &NoticeView) {
    let sent = host.notify(METHOD, params(view)).await;
    if let Err(e) = &sent {
        tracing::warn!("the notice was not taken: {e}");
    }
    let command = AgentCommand::NoticeResult {
        lease: lease.clone(),
        id: view.id.clone(),
        accepted: sent.is_ok().then_some(NoticePath::Channel),
        now: core.clock.now(),
    };
    if let Err(e) = core.submit(command).await {
        tracing::debug!("notice: {e}");
        sleep(Duration::from_secs(2)).await;
    }
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
