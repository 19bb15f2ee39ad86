//! A record in a few words. From JSON, because a running bus answers in JSON; a kind that this
//! program does not know is shown as it came.

use serde_json::Value;

use super::print::{Id, Shown, Spelled, bytes, short, short_id};
use crate::types::text::visible;
use crate::wire::admin::RecordRow;

/// What a record says, spelled out and in one line.
pub(super) fn of(record: &RecordRow) -> String {
    known(record).unwrap_or_else(|| visible(&record.event.to_string()).into_owned())
}

/// The same; `None` for a kind that this program does not know.
fn known(record: &RecordRow) -> Option<String> {
    let event = Event(&record.event);
    Some(match record.kind.as_str() {
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
        "replay_forgotten" => format!("floor {}", event.text("floor")),
        "presence_signed" => format!("{} by time", event.count("entries", "session")),
        "presence_forgotten" => format!("{} forgotten", event.count("entries", "session")),
        "queue_imported" => format!("message {} of an import", event.text("number")),
        "peers_file_adopted" => event.text("path"),
        "peers_held" => format!("{} in peers.json held back", event.count("entries", "key")),
        "host_changed" => of_host(&event),
        "sessions_seen" => format!("{} heard of", event.count("sightings", "session")),
        "session_closed" => format!("{} of {}", event.session("session"), event.route("key")),
        "sessions_forgotten" => format!(
            "{}, {}",
            event.count("sessions", "session"),
            event.text("reason")
        ),
        "expired_dismissed" => format!(
            "{} in {}",
            event.count("items", "message"),
            event.session("session")
        ),
        "peer_forgotten" => format!(
            "{}, {} in, {} out",
            event.route("key"),
            event.count("received", "message"),
            event.count("sent", "message")
        ),
        "imported" => format!(
            "{} of {}, {} records",
            event.text("part"),
            event.text("program"),
            event.text("records")
        ),
        name if name.starts_with("bond_") => return of_bond(name, &event),
        name => return of_pairing(name, &event),
    })
}

/// A record of how keys become peers. Claimed names stand in it spelled out already.
fn of_pairing(kind: &str, event: &Event<'_>) -> Option<String> {
    let key = event.route("key");
    let by = || match event.text("origin").as_str() {
        "-" => String::new(),
        origin => format!(" by {origin}"),
    };
    let session = || event.session("session");
    Some(match kind {
        "pair_requested" => format!(
            "{key}#{} as {}{}",
            event.session("to_session"),
            event.spelled("name"),
            by()
        ),
        "pair_request_ended" | "knock_resolved" => format!("{key} {}{}", event.text("end"), by()),
        "knock_received" => format!(
            "{key} calls itself {}, in {}",
            event.spelled("name"),
            session()
        ),
        "knock_answered" => format!("{key} in {}", session()),
        "pair_conflicted" => format!(
            "{key} as {}: {}",
            event.spelled("name"),
            event.text("reason")
        ),
        "pair_conflict_resolved" => format!("{key} is {}{}", event.spelled("petname"), by()),
        "key_blocked" | "key_unblocked" => format!("{key}{}", by()),
        "pair_news_seen" => format!("up to {} in {}", event.text("up_to"), session()),
        "outbox_requeued" => format!(
            "{} again, in place of {}",
            event.text("message"),
            event.text("replaced")
        ),
        "consent_declined" => format!("{} {key} in {}", event.text("question"), session()),
        _ => return None,
    })
}

/// A record of ways to wake a host.
fn of_host(event: &Event<'_>) -> String {
    let mut text = format!("{} for {}", event.text("change"), event.session("session"));
    for name in ["host", "path", "reason"] {
        if event.0.get(name).is_some() {
            text.push_str(", ");
            text.push_str(&event.text(name));
        }
    }
    text
}

/// A record of a sealed session. Names stand in it spelled out already.
fn of_bond(kind: &str, event: &Event<'_>) -> Option<String> {
    let text = |name: &str| event.text(name);
    let spelled = |name: &str| event.spelled(name);
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
        "bond_pin" => format!("pin {}, {}", text("step"), event.route("key")),
        "bond_failed" => format!("{}: {}", spelled("call"), spelled("reason")),
        _ => return None,
    };
    Some(match event.0.get("bond").and_then(Value::as_u64) {
        Some(bond) => format!("session {bond}, {what}"),
        None => what,
    })
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

    /// The same for a text that was spelled out when it was recorded.
    fn spelled(&self, name: &str) -> String {
        match self.0.get(name).and_then(Value::as_str) {
            Some("") | None => "-".to_owned(),
            Some(text) => Spelled(text).to_string(),
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

#[cfg(all(test, feature = "testkit"))]
mod tests {
    use super::*;
    use crate::event::StoredEvent as _;
    use crate::event::kind::{EventKind, StoreKind};
    use crate::testkit::Rng;
    use crate::testkit::sample::bus_event;
    use crate::testkit::sample_agent::agent_event;

    #[test]
    fn every_kind_of_record_is_told_in_words() {
        let mut rng = Rng::new(7);
        for kind in EventKind::ALL {
            for _ in 0..20 {
                let event = match kind.store() {
                    StoreKind::Bus => bus_event(*kind, &mut rng).map(|e| e.to_json()),
                    StoreKind::Agent => agent_event(*kind, &mut rng).map(|e| e.to_json()),
                };
                let record = RecordRow {
                    seq: 1,
                    at: 0,
                    kind: kind.name().to_owned(),
                    event: event.unwrap(),
                };
                let told = known(&record);
                let told = told.unwrap_or_else(|| panic!("{}: {}", kind.name(), record.event));
                assert!(!told.contains('{') || told.contains("\\u{"), "{told}");
                assert!(!told.contains('\n'), "{told}");
            }
        }
    }

    #[test]
    fn a_kind_of_another_program_is_shown_as_it_came() {
        let record = RecordRow {
            seq: 1,
            at: 0,
            kind: "bond_later".to_owned(),
            event: serde_json::json!({ "a": "b\u{202e}" }),
        };
        assert_eq!(of(&record), r#"{"a":"b\u{202e}"}"#);
    }
}
