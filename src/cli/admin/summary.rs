//! A record in a few words. From JSON, because a running bus answers in JSON; a kind that this
//! program does not know is shown as it came.

use serde_json::Value;

use super::print::{Id, Shown, Spelled, bytes, short, short_id};
use crate::types::text::visible;
use crate::wire::admin::RecordRow;

/// What a record says, spelled out and in one line.
pub(super) fn of(record: &RecordRow) -> String {
    let event = Event(&record.event);
    match record.kind.as_str() {
        "enqueued" => format!("{} to {}", event.size(), event.route("to")),
        "acked" => event.seqs(),
        "dropped" => format!("{}, {}", event.text("reason"), event.seqs()),
        "discarded" => format!("by the operator, {}", event.seqs()),
        "presence_removed" => {
            format!("{} by the operator", event.count("entries", "session"))
        }
        "outbox_dropped" | "outbox_retried" => {
            format!("{} by {}", event.text("message"), event.text("origin"))
        }
        "history_forgotten" => format!(
            "{} in, {} out, {}",
            event.count("received", "message"),
            event.count("sent", "message"),
            event.count("tasks", "task"),
        ),
        "announced" | "unregistered" => event.route("entry"),
        "seen" => format!("{} heard of", event.count("entries", "session")),
        "presence_expired" => format!("{} gone", event.count("entries", "session")),
        "relay_opened" => event.text("flow"),
        "relay_joined" => format!("session {}", event.text("session")),
        "relay_sent" => format!("{} in session {}", event.size(), event.text("session")),
        "relay_left" => format!("session {}", event.text("session")),
        "relay_touched" => format!("session {}", event.text("session")),
        "relay_ended" => format!(
            "session {}, {}",
            event.text("session"),
            event.text("reason")
        ),
        "relay_erased" => format!(
            "{} of session {}, {}",
            event.count("pruned", "message"),
            event.text("session"),
            event.text("reason")
        ),
        "body_lost" => format!("body of {}", event.text("message")),
        "peer_added" | "peer_removed" => format!(
            "{} {} by {}",
            event.text("petname"),
            event.route("key"),
            event.text("origin")
        ),
        "peers_published" => format!("sha256 {}", short_id(&event.text("sha256"))),
        "lease_taken" => format!(
            "{} lease {} by pid {}",
            event.session("session"),
            event.text("epoch"),
            event.text("pid")
        ),
        "lease_released" => format!("{} lease {}", event.session("session"), event.text("epoch")),
        "outbox_queued" => format!(
            "{} to {}#{}",
            event.id(),
            event.route("to"),
            event.session("to_session")
        ),
        "outbox_attempted" => format!(
            "{} at {}: {}",
            event.text("message"),
            event.text("relay"),
            event.text("error")
        ),
        "outbox_accepted" => format!("{} by {}", event.text("message"), event.text("relay")),
        "outbox_refused" => format!(
            "{} by {}: {}",
            event.text("message"),
            event.text("relay"),
            event.text("reason")
        ),
        "outbox_resigned" => event.text("message"),
        "received" | "received_expired" => {
            format!(
                "{} from {}, {}",
                event.id(),
                event.text("label"),
                event.size()
            )
        }
        "acknowledged" => format!("{} in {}", event.seqs(), event.session("session")),
        "notice_changed" => format!(
            "{} {} for {}",
            event.text("id"),
            event.text("change"),
            event.session("session")
        ),
        "replay_seen" => format!("{} from {}", event.id(), event.route("from")),
        name if name.starts_with("bond_") => of_bond(name, &event),
        "replay_forgotten" => format!("floor {}", event.text("floor")),
        _ => visible(&record.event.to_string()).into_owned(),
    }
}

/// A record of a sealed session. Names stand in it spelled out already.
fn of_bond(kind: &str, event: &Event<'_>) -> String {
    let text = |name: &str| event.text(name);
    let spelled = |name: &str| match event.0.get(name).and_then(Value::as_str) {
        Some("") | None => "-".to_owned(),
        Some(name) => Spelled(name).to_string(),
    };
    let what = match kind {
        "bond_opened" => format!("{}, {}, {}", text("role"), text("mode"), text("routing")),
        "bond_advanced" => text("step"),
        "bond_ended" => format!("{} {}", text("end"), spelled("reason")),
        "bond_said" => format!("{} characters", text("chars")),
        "bond_heard" => format!("{} texts", text("messages")),
        "bond_file_sent" => format!("{}, {} bytes", spelled("name"), text("size")),
        "bond_file_blocked" => {
            format!("{} {}: {}", text("way"), spelled("name"), spelled("reason"))
        }
        "bond_offered" => format!(
            "{} {}, {} bytes",
            spelled("id"),
            spelled("name"),
            text("size")
        ),
        "bond_decided" => format!(
            "{} {} by {}: {}",
            spelled("id"),
            text("verdict"),
            text("by"),
            spelled("name")
        ),
        "bond_file_placed" => text("path"),
        "bond_dropped" => format!("{}: {}", text("what"), spelled("reason")),
        "bond_gap" => format!("{} missed", text("missed")),
        _ => format!("{}: {}", spelled("call"), spelled("reason")),
    };
    match event.0.get("bond").and_then(Value::as_u64) {
        Some(bond) => format!("session {bond}, {what}"),
        None => what,
    }
}

struct Event<'a>(&'a Value);

impl Event<'_> {
    /// A member as text.
    fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            None | Some(Value::Null) => "-".to_owned(),
            Some(Value::String(text)) => Shown(text).to_string(),
            Some(value) => Shown(&value.to_string()).to_string(),
        }
    }

    fn session(&self, name: &str) -> String {
        match self.0.get(name).and_then(Value::as_str) {
            None => "-".to_owned(),
            Some(id) => Id(id).to_string(),
        }
    }

    fn route(&self, name: &str) -> String {
        let text = self.0.get(name).and_then(Value::as_str);
        short(text.unwrap_or_default())
    }

    fn id(&self) -> String {
        let text = self.0.get("msg_id").and_then(Value::as_str);
        short_id(text.unwrap_or_default())
    }

    fn size(&self) -> String {
        bytes(
            self.0
                .get("len")
                .and_then(Value::as_u64)
                .unwrap_or_default(),
        )
    }

    fn count(&self, name: &str, noun: &str) -> String {
        let len = self
            .0
            .get(name)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        super::status::count(len as u64, noun)
    }

    /// Positions, the first few of many.
    fn seqs(&self) -> String {
        const SHOWN: usize = 4;
        let seqs = self.0.get("seqs").and_then(Value::as_array);
        let seqs = seqs.map(Vec::as_slice).unwrap_or_default();
        let mut words: Vec<String> = seqs.iter().take(SHOWN).map(ToString::to_string).collect();
        if seqs.len() > SHOWN {
            words.push(format!("and {} more", seqs.len() - SHOWN));
        }
        words.join(" ")
    }
}
