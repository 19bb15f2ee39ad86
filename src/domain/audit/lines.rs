//! What each event says in `audit.log`.

use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};

use super::PENDING_CAP;
use crate::event::agent::{
    AgentEvent, BondAdvanced, BondDecided, BondDropped, BondEnd, BondEnded, BondFileBlocked,
    BondFileSent, BondOffered, BondPin, BondRef, BondRole, BondStep, DecidedBy, DropKind, FileWay,
    PeerPrefix, PinStep, Verdict,
};
use crate::event::kind::EventKind;

/// On whose account something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Somebody wanted it.
    User,
    /// It happened by itself.
    System,
    /// A rule about safety spoke.
    Security,
}

impl Source {
    /// The word in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::User => "user",
            Source::System => "system",
            Source::Security => "security",
        }
    }
}

/// A line without its time and its place in the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What happened.
    pub tool: &'static str,
    /// On whose account.
    pub source: Source,
    /// More about it.
    pub params: Value,
    /// Whose process.
    pub pid: u32,
}

/// Whether events of a kind have lines.
#[must_use]
pub fn is_bond(kind: u16) -> bool {
    (EventKind::BondOpened.number()..=EventKind::BondPin.number()).contains(&kind)
}

/// The lines of an event, in order; none for events that are not about sealed sessions.
#[must_use]
pub fn lines(event: &AgentEvent) -> Vec<Entry> {
    match event {
        AgentEvent::BondOpened(e) => {
            let tool = match e.role {
                BondRole::Host => "session_created",
                BondRole::Guest => "session_joined",
            };
            let params = json!({
                "role": e.role.name(), "routing": HEXLOWER.encode(&e.routing),
                "mode": e.mode.name(),
            });
            vec![entry(tool, Source::User, params, e.pid)]
        }
        AgentEvent::BondAdvanced(e) => vec![advanced(e)],
        AgentEvent::BondEnded(e) => vec![ended(e)],
        AgentEvent::BondSaid(e) => {
            let params = json!({ "chars": e.chars });
            vec![of("bond_message", Source::User, params, &e.of)]
        }
        AgentEvent::BondHeard(e) => {
            let params = json!({ "count": e.messages });
            vec![of("messages_received", Source::System, params, &e.of)]
        }
        AgentEvent::BondFileSent(e) => sent(e),
        AgentEvent::BondFileBlocked(e) => vec![blocked(e)],
        AgentEvent::BondOffered(e) => offered(e),
        AgentEvent::BondDecided(e) => vec![decided(e)],
        AgentEvent::BondFilePlaced(e) => {
            let params = json!({ "path": e.path, "size": e.size });
            vec![of("safeWrite", Source::Security, params, &e.of)]
        }
        AgentEvent::BondDropped(e) => vec![dropped(e)],
        AgentEvent::BondGap(e) => {
            let params = json!({ "missed": e.missed });
            vec![of("relay_gap_detected", Source::Security, params, &e.of)]
        }
        AgentEvent::BondPin(e) => vec![pin(e)],
        AgentEvent::BondFailed(e) => {
            let params = json!({ "call": e.call, "reason": e.reason });
            vec![entry("call_failed", Source::System, params, e.pid)]
        }
        _ => vec![],
    }
}

fn entry(tool: &'static str, source: Source, params: Value, pid: u32) -> Entry {
    Entry {
        tool,
        source,
        params,
        pid,
    }
}

/// A line about a session names its routing id's beginning.
fn of(tool: &'static str, source: Source, params: Value, of: &BondRef) -> Entry {
    let mut map = match params {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    map.insert("routing".to_owned(), json!(HEXLOWER.encode(&of.routing)));
    entry(tool, source, Value::Object(map), of.pid)
}

fn from(peer: Option<PeerPrefix>) -> Option<String> {
    peer.map(|peer| HEXLOWER.encode(&peer))
}

fn advanced(e: &BondAdvanced) -> Entry {
    let (tool, params) = match e.step {
        BondStep::PeerJoined => ("peer_joined", json!({ "peer": from(e.peer) })),
        BondStep::Keyed => ("key_exchange_completed", json!({ "role": e.role.name() })),
        BondStep::Confirmed => {
            let other = match e.role {
                BondRole::Host => BondRole::Guest,
                BondRole::Guest => BondRole::Host,
            };
            ("key_confirmed", json!({ "peerRole": other.name() }))
        }
        BondStep::PeerGone => ("peer_disconnected", json!({ "peer": from(e.peer) })),
        BondStep::RelayLost => ("relay_lost", json!({})),
        BondStep::RelayBack => ("relay_back", json!({})),
    };
    of(tool, Source::System, params, &e.of)
}

fn ended(e: &BondEnded) -> Entry {
    let (tool, source, reason) = match e.end {
        BondEnd::Tool => ("session_ended", Source::User, "user"),
        BondEnd::Operator => ("session_ended", Source::User, "operator"),
        BondEnd::Aborted => ("session_aborted", Source::Security, e.reason.as_str()),
        BondEnd::Expired => ("session_expired", Source::System, "expired"),
        BondEnd::Quit => ("session_ended", Source::System, "process ended"),
        BondEnd::RelayLost => ("session_ended", Source::System, "relay lost"),
        BondEnd::PeerGone => ("session_ended", Source::System, "peer left"),
    };
    let mut params = json!({ "reason": reason });
    if let Some(map) = params.as_object_mut()
        && e.end != BondEnd::Aborted
        && !e.reason.is_empty()
    {
        map.insert("detail".to_owned(), json!(e.reason));
    }
    of(tool, source, params, &e.of)
}

fn sent(e: &BondFileSent) -> Vec<Entry> {
    let rule = json!({
        "file": e.name.to_lowercase(), "size": e.size, "totalSessionBytes": e.total,
    });
    let call = json!({
        "file": e.name, "size": e.size, "messageChars": e.note_chars,
        "sha256": e.sha256.map(|digest| HEXLOWER.encode(&digest)),
    });
    vec![
        of("outbound", Source::Security, rule, &e.of),
        of("sendFile", Source::User, call, &e.of),
    ]
}

fn blocked(e: &BondFileBlocked) -> Entry {
    let (tool, params) = match e.way {
        FileWay::Outgoing => (
            "sendFile_blocked",
            json!({ "file": e.name, "reason": e.reason }),
        ),
        FileWay::Incoming if e.reason == PENDING_CAP => (
            "transfer_blocked_pending_cap",
            json!({ "from": from(e.peer) }),
        ),
        FileWay::Incoming => (
            "transfer_blocked_inbound",
            json!({ "file": e.name, "reason": e.reason, "from": from(e.peer) }),
        ),
    };
    of(tool, Source::Security, params, &e.of)
}

fn offered(e: &BondOffered) -> Vec<Entry> {
    let params = json!({
        "transferId": e.id, "file": e.name, "size": e.size, "from": from(e.peer),
        "suspiciousPatterns": e.rules.len(), "rules": e.rules,
        "sha256": HEXLOWER.encode(&e.sha256),
    });
    let mut all = vec![of(
        "transfer_offer_received",
        Source::Security,
        params,
        &e.of,
    )];
    if !e.rules.is_empty() {
        let params = json!({ "file": e.name, "count": e.rules.len(), "from": from(e.peer) });
        all.push(of(
            "injection_patterns_detected",
            Source::Security,
            params,
            &e.of,
        ));
    }
    all
}

fn decided(e: &BondDecided) -> Entry {
    let tool = match e.verdict {
        Verdict::Accepted => "acceptTransfer",
        Verdict::Declined => "declineTransfer",
    };
    let source = match e.by {
        DecidedBy::Form | DecidedBy::Operator => Source::User,
        DecidedBy::Tool => Source::System,
    };
    let params = json!({
        "transferId": e.id, "file": e.name, "size": e.size, "from": from(e.peer),
        "by": e.by.name(), "sha256": HEXLOWER.encode(&e.sha256),
    });
    of(tool, source, params, &e.of)
}

fn pin(e: &BondPin) -> Entry {
    let (tool, source) = match e.step {
        PinStep::Asked => ("pin_agreed", Source::User),
        PinStep::Sent => ("pin_card_sent", Source::System),
        PinStep::Received => ("pin_card_received", Source::Security),
        PinStep::Refused => ("pin_card_refused", Source::Security),
        PinStep::Declined => ("pin_declined", Source::User),
        PinStep::Pinned => ("pinned", Source::Security),
        PinStep::Conflicted => ("pin_name_conflict", Source::System),
        PinStep::Met => ("peer_proved", Source::System),
    };
    let source = match (source, e.by) {
        (Source::User, Some(DecidedBy::Tool)) => Source::System,
        (source, _) => source,
    };
    let mut map = Map::new();
    if let Some(key) = &e.key {
        map.insert("key".to_owned(), json!(key));
    }
    if !e.name.is_empty() {
        map.insert("name".to_owned(), json!(e.name));
    }
    if let Some(by) = e.by {
        map.insert("by".to_owned(), json!(by.name()));
    }
    of(tool, source, Value::Object(map), &e.of)
}

fn dropped(e: &BondDropped) -> Entry {
    let mut params = json!({ "from": from(e.peer), "reason": e.reason });
    if let Some(map) = params.as_object_mut()
        && e.count != 1
    {
        map.insert("count".to_owned(), json!(e.count));
    }
    let tool = match e.what {
        DropKind::ChatMalformed => "chat_dropped_malformed",
        DropKind::Replay => "packet_dropped_replay",
        DropKind::Undecryptable => "packet_dropped_undecryptable",
        DropKind::Other => "packet_dropped",
    };
    of(tool, Source::Security, params, &e.of)
}
