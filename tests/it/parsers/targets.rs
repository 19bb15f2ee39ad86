//! One function per parser of what a peer, a relay or a file says: any bytes in, no panic out,
//! results within their bounds, and what was read is written as it was understood.
//!
//! Plain functions over the public interface, so that the tests and a coverage-guided fuzzer
//! (`contrib/fuzz`) drive the same code.

use interlink::agent::client::{RelayUrl, problem_text};
use interlink::agent::config::parse_relays;
use interlink::codec::{body, frame};
use interlink::crypto::keyfile::{parse_key_text, print_key_text};
use interlink::crypto::sign::{Signature, SigningIdentity, decode_public_key};
use interlink::domain::audit::{Chain, Entry, Source, Taken};
use interlink::domain::projection::bus::{PendingRow, PresenceTimeRow, RosterRow};
use interlink::event::agent::AgentEvent;
use interlink::event::bus::BusEvent;
use interlink::event::kind::EventKind;
use interlink::event::{Recorded, StoredEvent};
use interlink::types::id::{Fingerprint, MsgId, PublicKey, SessionId, is_unsafe_char};
use interlink::types::limit::{
    MAX_EVENT_BYTES, MAX_MSG_ID_BYTES, MAX_RECV_BATCH, MAX_RELAY_URL_BYTES, MAX_RELAYS,
    MAX_ROSTER_ENTRIES, MAX_SESSION_ID_BYTES,
};
use interlink::types::route::Route;
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::announce::Announcement;
use interlink::wire::bond::{Role, code, identity, own, own_code, packet, sealed};
use interlink::wire::envelope::Message;
use interlink::wire::http::client::{RecvReply, RosterReply, SendReply};
use interlink::wire::http::{AckRequest, SendRequest};
use interlink::wire::pair::PairRequest;
use interlink::wire::peers::{Peers, Petname};
use interlink::wire::public;

/// A parser under test.
pub type Target = fn(&[u8]);

/// Every parser, by name.
pub const ALL: &[(&str, Target)] = &[
    ("message", message),
    ("announcement", announcement),
    ("roster", roster),
    ("recv", recv),
    ("send_reply", send_reply),
    ("problem", problem),
    ("bus_requests", bus_requests),
    ("peers", peers),
    ("public_state", public_state),
    ("key_file", key_file),
    ("frame", frame),
    ("event", event),
    ("row", row),
    ("ids", ids),
    ("relay_urls", relay_urls),
    ("bond_code", bond_code),
    ("bond_sealed", bond_sealed),
    ("bond_packet", bond_packet),
    ("bond_own_code", bond_own_code),
    ("bond_own", bond_own),
    ("bond_card", bond_card),
    ("audit_lines", audit_lines),
];

/// Lines of `audit.log` that somebody may have changed: whatever stands there, who writes goes on behind
/// it, and what he writes fits.
fn audit_lines(data: &[u8]) {
    let mut chain = Chain::begin();
    for line in data.split(|byte| *byte == b'\n') {
        let _ = chain.take(line);
    }
    let entry = Entry {
        tool: "bond_message",
        source: Source::User,
        params: serde_json::json!({ "chars": 1 }),
        pid: 1,
    };
    let at = UnixMillis(1);
    let mut behind = chain.clone();
    let torn = chain.own_up("abcdefgh", at, 1);
    let line = chain.append("abcdefgh", at, None, &entry);
    for line in torn.iter().chain([&line]) {
        let taken = behind.take(line.trim_end_matches('\n').as_bytes());
        assert!(matches!(taken, Ok(Taken::Ours(_))), "{taken:?}: {line}");
    }
    if let Some(text) = text(data) {
        let _ = serde_json::from_str::<interlink::agent::bond::control::Request>(text);
        let _ = serde_json::from_str::<interlink::agent::bond::control::Reply>(text);
    }
}

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

fn look_at_message(json: &str) {
    let Ok(message) = Message::from_json(json) else {
        return;
    };
    let strings = [
        message.kind.as_str().len(),
        message.msg_id.as_str().len(),
        message.text.len(),
        message.status.map_or(0, |s| s.as_str().len()),
        message.task_id.as_ref().map_or(0, String::len),
        message
            .in_reply_to
            .as_ref()
            .map_or(0, |id| id.as_str().len()),
    ];
    let signed = 109 + strings.iter().sum::<usize>();
    assert_eq!(message.canonical_bytes().len(), signed);
    let _ = message.verify();
    let _ = PairRequest::from_message(&message);
    if let Some(route) = message.reply_route() {
        assert_eq!(route.key, message.from);
    }
    // Written again it is the same message, whatever the relay had put around it.
    let again = serde_json::to_string(&message).unwrap();
    let read = Message::from_json(&again).unwrap();
    assert_eq!(read.canonical_bytes(), message.canonical_bytes());
    assert_eq!(read.verify().is_ok(), message.verify().is_ok());
}

/// A message of a peer.
pub fn message(data: &[u8]) {
    if let Some(json) = text(data) {
        look_at_message(json);
    }
}

fn look_at_announcement(json: &str) {
    let Ok(announcement) = Announcement::from_json(json) else {
        return;
    };
    let s = &announcement.session;
    let strings = [
        &announcement.name,
        &s.session_id,
        &s.cwd,
        &s.git_root,
        &s.summary,
    ];
    let signed = 82 + strings.iter().map(|s| s.len()).sum::<usize>();
    assert_eq!(announcement.canonical_bytes().len(), signed);
    let _ = announcement.verify();
    let again = serde_json::to_string(&announcement).unwrap();
    assert_eq!(Announcement::from_json(&again).unwrap(), announcement);
}

/// An announcement, as a relay keeps it and as a roster shows it.
pub fn announcement(data: &[u8]) {
    if let Some(json) = text(data) {
        look_at_announcement(json);
    }
}

/// The answer to `GET /roster`.
pub fn roster(data: &[u8]) {
    if let Ok(reply) = serde_json::from_slice::<RosterReply>(data) {
        assert!(reply.roster.len() <= MAX_ROSTER_ENTRIES);
        for entry in reply.roster.iter().take(16) {
            look_at_announcement(entry.get());
        }
    }
}

/// The answer to `GET /recv`, and the messages in it.
pub fn recv(data: &[u8]) {
    let Ok(reply) = serde_json::from_slice::<RecvReply>(data) else {
        return;
    };
    let deliveries = reply.into_deliveries();
    assert!(deliveries.len() <= MAX_RECV_BATCH + 1);
    for delivery in deliveries.iter().take(16) {
        let envelope = delivery.envelope.as_ref();
        if let Some(payload) = envelope.and_then(|e| e.payload.as_ref()) {
            look_at_message(payload.get());
        }
    }
}

/// The answer to `POST /send`.
pub fn send_reply(data: &[u8]) {
    if let Ok(reply) = serde_json::from_slice::<SendReply>(data) {
        assert!(reply.dropped.len() <= MAX_RECV_BATCH);
    }
}

/// What a relay says about its trouble: it is shown to people and models.
pub fn problem(data: &[u8]) {
    let code = 100 + u16::from(data.first().copied().unwrap_or(0)) * 3;
    let Ok(status) = code.try_into() else { return };
    let said = problem_text(data, status);
    assert!(said.chars().count() <= 200 + "HTTP 999: ".len());
    assert!(!said.chars().any(is_unsafe_char), "{said:?}");
}

fn has_float(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(n) => n.is_f64(),
        serde_json::Value::Array(items) => items.iter().any(has_float),
        serde_json::Value::Object(members) => members.values().any(has_float),
        _ => false,
    }
}

/// What clients post to a bus.
pub fn bus_requests(data: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<SendRequest>(data) {
        // Kept as text, and given back as it was understood. Floating point numbers with more
        // digits than they hold may change in the last one.
        let kept = request.payload.to_string();
        let back: serde_json::Value = serde_json::from_str(&kept).unwrap();
        if !has_float(&back) {
            assert_eq!(back, request.payload);
        }
    }
    let _ = serde_json::from_slice::<AckRequest>(data);
}

/// The text of `peers.json`.
pub fn peers(data: &[u8]) {
    let Some(json) = text(data) else { return };
    let _ = Petname::parse(json);
    let Ok(peers) = Peers::parse(json) else {
        return;
    };
    let _ = peers.warnings();
    let printed = peers.print().unwrap();
    let again = Peers::parse(&printed).unwrap();
    assert_eq!(again.print().unwrap(), printed);
    assert_eq!(again.iter().count(), peers.len());
    for (name, key) in peers.iter() {
        assert_eq!(again.key_of(name), Some(key));
    }
}

/// The text of a secret key file.
pub fn key_file(data: &[u8]) {
    let Some(said) = text(data) else { return };
    if let Ok(seed) = parse_key_text(said) {
        let printed = print_key_text(&seed);
        assert_eq!(printed.expose().trim(), said.trim());
    }
}

/// A frame of the log.
pub fn frame(data: &[u8]) {
    let Ok((parsed, len)) = frame::parse_prefix(data) else {
        return;
    };
    assert!(len <= data.len() && parsed.payload.len() <= MAX_EVENT_BYTES);
    let seq = parsed.seq;
    let whole = data.get(..len).unwrap();
    assert!(frame::parse_at(seq, whole).is_ok());
    if let Ok(record) = Recorded::<BusEvent>::from_frame(seq, whole) {
        assert_eq!(record.to_frame().unwrap(), whole);
        let _ = record.event.to_json();
    }
    if let Ok(record) = Recorded::<AgentEvent>::from_frame(seq, whole) {
        assert_eq!(record.to_frame().unwrap(), whole);
        let _ = record.event.to_json();
    }
}

/// The payload of a frame, without the checksum that keeps most bytes away from it. The first byte
/// chooses the kind.
pub fn event(data: &[u8]) {
    let Some((choice, payload)) = data.split_first() else {
        return;
    };
    let kind = EventKind::ALL[usize::from(*choice) % EventKind::ALL.len()];
    let (number, version) = (kind.number(), kind.version());
    if let Ok(event) = BusEvent::decode(number, version, payload) {
        assert_eq!(event.encode().unwrap(), payload);
        let _ = event.to_json();
    }
    if let Ok(event) = AgentEvent::decode(number, version, payload) {
        assert_eq!(event.encode().unwrap(), payload);
        let _ = event.to_json();
    }
}

/// Rows of a store's tables.
pub fn row(data: &[u8]) {
    let _ = body::decode::<PendingRow>(data);
    let _ = body::decode::<RosterRow>(data);
    let _ = body::decode::<PresenceTimeRow>(data);
    let _ = body::decode::<interlink::domain::projection::agent::OutboxRow>(data);
    let _ = body::decode::<interlink::domain::projection::agent::MailRow>(data);
    let _ = body::decode::<interlink::domain::projection::agent::NoticeRow>(data);
}

/// Keys, signatures, session and message ids, routes.
pub fn ids(data: &[u8]) {
    let Some(said) = text(data) else { return };
    if let Ok(key) = said.parse::<PublicKey>() {
        assert_eq!(key.to_string(), said);
        let fingerprint: Fingerprint = key.fingerprint();
        assert!(said.starts_with(&fingerprint.to_string()));
    }
    let _ = decode_public_key(said);
    if let Ok(signature) = said.parse::<Signature>() {
        assert_eq!(signature.to_string(), said);
    }
    if let Ok(id) = SessionId::parse(said) {
        assert_eq!(id.as_str(), said);
        assert!(said.len() <= MAX_SESSION_ID_BYTES);
        assert!(!said.contains('#') && !said.chars().any(char::is_control));
    }
    if let Ok(id) = MsgId::parse(said) {
        assert_eq!(id.as_str(), said);
        assert!(said.len() <= MAX_MSG_ID_BYTES);
    }
    if let Ok(route) = said.parse::<Route>() {
        assert_eq!(route.to_string().parse::<Route>(), Ok(route));
    }
}

/// Addresses of relays.
pub fn relay_urls(data: &[u8]) {
    let Some(said) = text(data) else { return };
    if let Ok(url) = RelayUrl::parse(said) {
        assert!(url.as_str().starts_with("http://"));
        assert!(!url.as_str().ends_with('/'));
        assert!(url.as_str().len() <= MAX_RELAY_URL_BYTES + 64);
        // A normal form is its own normal form.
        assert_eq!(RelayUrl::parse(url.as_str()), Ok(url.clone()));
        let _ = url.is_loopback();
    }
    if let Ok(list) = parse_relays(said.split(',')) {
        assert!((1..=MAX_RELAYS).contains(&list.len()));
    }
}

/// The files of the public program: whatever is in them, what comes out is within its bounds and signed.
pub fn public_state(data: &[u8]) {
    let _ = public::queued(data);
    for line in public::inbox(data, None).into_iter().flatten() {
        assert!(line.content.len() <= data.len());
    }
    let Some(text) = text(data) else { return };
    let own = SigningIdentity::from_seed(&Secret::new([2; 32])).public();
    if let Ok(mails) = public::mailbox(text, &own) {
        assert!(mails.len() <= 4096);
        for mail in mails.into_iter().flatten() {
            assert!(mail.message.verify().is_ok() && mail.message.to == own);
        }
    }
    if let Ok(state) = public::pairing(text, &own) {
        assert!(state.inbound.len() <= 64 && state.outbound.len() <= 64);
        for job in state.queued.into_iter().flatten() {
            assert!(job.message.verify().is_ok() && job.message.from == own);
        }
    }
    for session in public::sessions(text).into_iter().flatten().flatten() {
        assert!(session.owners.windows(2).all(|pair| pair[0] < pair[1]));
    }
    let _ = public::failed(text);
}

/// The code of a sealed session and the ids that relays see.
pub fn bond_code(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(code) = text.parse::<code::SessionCode>() {
        assert_eq!(code.reveal(), text);
        assert!(!format!("{code:?} {code}").contains(text));
    }
    if let Ok(id) = text.parse::<code::RoutingId>() {
        assert_eq!(id.to_string(), text);
    }
    if let Ok(id) = text.parse::<code::PeerId>() {
        assert_eq!(id.to_string(), text);
    }
}

/// The encrypted object of a sealed session.
pub fn bond_sealed(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else {
        return;
    };
    if let Ok(read) = sealed::read(&value) {
        let written = sealed::write(&read);
        let again = serde_json::from_str(&written).unwrap();
        assert_eq!(sealed::read(&again).unwrap(), read);
        for member in ["iv", "encrypted", "authTag"] {
            assert_eq!(value[member], again[member]);
        }
    }
}

/// What is inside one.
pub fn bond_packet(data: &[u8]) {
    let Some(read) = packet::read(data) else {
        return;
    };
    let (Some(nonce), Some(at)) = (read.nonce, read.timestamp) else {
        return;
    };
    let now = interlink::types::time::UnixMillis(at.abs() as u64);
    let written = match &read.body {
        packet::Body::Chat {
            content: Some(content),
        } => packet::chat(nonce, now, content).unwrap(),
        packet::Body::File(Some(file)) => packet::file_transfer(nonce, now, file).unwrap(),
        _ => return,
    };
    let again = packet::read(&written).unwrap();
    assert_eq!(again.body, read.body);
    assert_eq!(again.nonce, read.nonce);
}

/// The code between two of ours: read in many spellings, written in one.
pub fn bond_own_code(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(code) = text.parse::<own_code::OwnCode>() else {
        return;
    };
    assert!(text.parse::<code::SessionCode>().is_err());
    let revealed = code.reveal();
    let again: own_code::OwnCode = revealed.expose().parse().unwrap();
    assert_eq!(again.reveal().expose(), revealed.expose());
    assert_eq!(again.routing(), code.routing());
    assert_eq!(again.password().expose(), code.password().expose());
}

/// A message between two of ours.
pub fn bond_own(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else {
        return;
    };
    let Some(read) = own::read(&value) else {
        return;
    };
    let written = match &read.body {
        own::Body::Hello(hello) => own::write_hello(read.from, hello),
        own::Body::Refused => own::write_refused(read.from),
        own::Body::Records(records) => {
            assert!(records.len() <= own::MAX_RECORDS);
            own::write_records(read.from, records)
        }
    };
    let again = serde_json::from_str(&written).unwrap();
    assert_eq!(own::read(&again), Some(read));
}

/// A card of a sealed session.
pub fn bond_card(data: &[u8]) {
    for role in [Role::Host, Role::Guest] {
        if let Ok(card) = identity::PinCard::read(data, &[7; 32], role) {
            assert!(card.name.len() <= identity::MAX_NAME_BYTES);
            assert!(card.reply_to.len() <= identity::MAX_ROUTE_BYTES);
        }
    }
}
