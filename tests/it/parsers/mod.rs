//! Every parser of foreign bytes, driven by noise and by damaged originals.

mod bus;
mod targets;

use interlink::crypto::sign::SigningIdentity;
use interlink::domain::audit::{Chain, lines};
use interlink::event::StoredEvent as _;
use interlink::event::kind::EventKind;
use interlink::event::{Recorded, kind::StoreKind};
use interlink::testkit::Rng;
use interlink::testkit::sample::bus_event;
use interlink::testkit::sample_agent::agent_event;
use interlink::types::id::MsgId;
use interlink::types::route::Route;
use interlink::types::secret::Secret;
use interlink::types::seq::Seq;
use interlink::types::time::UnixMillis;
use interlink::wire::announce::{Announcement, SessionInfo};
use interlink::wire::bond::Role;
use interlink::wire::bond::identity::PinCard;
use interlink::wire::envelope::{Draft, Message, MessageKind, TaskStatus};
use proptest::prelude::*;
use serde_json::json;

use super::support::seed;
use targets::ALL;

/// Damaged originals for each parser.
const ROUNDS: usize = 400;

fn sample_message() -> Message {
    let identity = SigningIdentity::from_seed(&Secret::new([1; 32]));
    let to = SigningIdentity::from_seed(&Secret::new([2; 32])).public();
    let session = interlink::types::id::SessionId::parse("s-1").unwrap();
    let draft = Draft {
        to,
        text: "gr\u{fc}\u{df}e \u{1f980}".into(),
        ts: UnixMillis(1_700_000_000_000),
        msg_id: MsgId::parse("00112233445566778899aabbccddeeff").unwrap(),
        kind: MessageKind::Message,
        task_id: Some("task".into()),
        status: Some(TaskStatus::NeedsInput),
        in_reply_to: Some(MsgId::parse("ff").unwrap()),
        reply_to: Some(Route::new(identity.public(), session)),
    };
    Message::sign(&identity, draft)
}

fn sample_announcement() -> Announcement {
    let identity = SigningIdentity::from_seed(&Secret::new([1; 32]));
    let info = SessionInfo {
        session_id: "s-1".into(),
        cwd: "/home/x".into(),
        git_root: "x".into(),
        summary: "works".into(),
    };
    Announcement::sign(&identity, "node".into(), info, UnixMillis(5))
}

fn frames(rng: &mut Rng) -> Vec<Vec<u8>> {
    EventKind::ALL
        .iter()
        .map(|kind| {
            let (seq, at) = (Seq(7), UnixMillis(8));
            match kind.store() {
                StoreKind::Bus => {
                    let event = bus_event(*kind, rng).unwrap();
                    Recorded { seq, at, event }.to_frame().unwrap()
                }
                StoreKind::Agent => {
                    let event = agent_event(*kind, rng).unwrap();
                    Recorded { seq, at, event }.to_frame().unwrap()
                }
            }
        })
        .collect()
}

fn payloads(rng: &mut Rng) -> Vec<Vec<u8>> {
    EventKind::ALL
        .iter()
        .enumerate()
        .map(|(n, kind)| {
            let mut bytes = vec![u8::try_from(n).unwrap()];
            bytes.extend(match kind.store() {
                StoreKind::Bus => bus_event(*kind, rng).unwrap().encode().unwrap(),
                StoreKind::Agent => agent_event(*kind, rng).unwrap().encode().unwrap(),
            });
            bytes
        })
        .collect()
}

/// What a parser should be able to read.
fn originals(name: &str, rng: &mut Rng) -> Vec<Vec<u8>> {
    let (message, announcement) = (sample_message(), sample_announcement());
    let delivery = json!({ "ack": "q\u{0}7", "envelope": { "payload": message, "ts": 1 } });
    let key = announcement.pubkey.to_string();
    let texts: Vec<String> = match name {
        "message" => vec![serde_json::to_string(&message).unwrap()],
        "announcement" => vec![serde_json::to_string(&announcement).unwrap()],
        "roster" => vec![json!({ "roster": [announcement, announcement, 7] }).to_string()],
        "recv" => vec![
            json!({ "status": "message", "ack": "k", "envelope": delivery["envelope"] })
                .to_string(),
            json!({ "status": "message", "messages": [delivery, delivery] }).to_string(),
            json!({ "status": "timeout" }).to_string(),
        ],
        "send_reply" => {
            vec![json!({ "reason": "overflow", "dropped": [{ "seq": 1, "ts": 2 }] }).to_string()]
        }
        "problem" => vec![json!({ "title": "no", "detail": "a\u{1b}[2Jb\u{202e}c" }).to_string()],
        "bus_requests" => vec![
            json!({ "to": "q", "payload": { "a": [1.0, 1e300, -5, u64::MAX, null] } }).to_string(),
            json!({ "me": "q", "ack": "q\u{0}1", "acks": ["q\u{0}2"] }).to_string(),
        ],
        "peers" => vec![json!({ "a": { "key": key, "may": ["x"] } }).to_string()],
        "public_state" => {
            let record = json!({ "message": message, "peer": "a", "state": "inbox_queued", "superseded_by": null });
            let entry = json!({ "key": key, "name": "n", "request_id": "1", "reply_to": format!("{key}#s") });
            let job = json!({ "route": format!("{}#s", message.to), "msg": message });
            vec![
                json!({ "records": [record, record], "notice": null }).to_string(),
                json!({ "inbound": [entry], "outbound": [entry], "queued": [job] }).to_string(),
                json!({ "s": [key], "t": [key, key] }).to_string(),
                json!([{ "id": "1", "msg_id": "m", "sender": "x", "text": "t" }]).to_string(),
                json!({ "payload": message, "ts": 5 }).to_string(),
                json!({ "content": "c", "sender": "s", "msg_id": "m" }).to_string() + "\n",
            ]
        }
        "key_file" => vec![format!("{key}\n")],
        "ids" => vec![
            key.clone(),
            message.sig.to_string(),
            format!("{key}#s-1"),
            "s-1".into(),
        ],
        "relay_urls" => vec![
            "http://127.0.0.1:9440".into(),
            "http://[::1]:9440/,HTTP://Host.Example:80//".into(),
            "http://xn--bcher-kva.example".into(),
        ],
        "bond_code" => vec!["AbCd-1234-XyZw".into(), "0a".repeat(32)],
        "bond_sealed" => vec![
            json!({ "v": 2, "iv": "0".repeat(24), "encrypted": "ab", "authTag": "1".repeat(32) })
                .to_string(),
        ],
        "audit_lines" => {
            let mut chain = Chain::begin();
            let mut text = String::new();
            for entry in lines(&agent_event(EventKind::BondOffered, &mut Rng::new(1)).unwrap()) {
                text += &chain.append("abcdefgh", UnixMillis(1), Some(Seq(4)), &entry);
            }
            text += &chain.rotate("abcdefgh", UnixMillis(2), 7, "audit.log.1");
            vec![text, r#"{"do":"show","id":"f1"}"#.to_owned()]
        }
        "bond_packet" => vec![
            json!({ "type": "chat", "nonce": "a".repeat(32), "timestamp": 1.5, "content": "c" })
                .to_string(),
            json!({ "type": "file_transfer", "nonce": "b".repeat(32), "timestamp": 7,
                    "filename": "a.rs", "content": "\r\n", "message": "", "preview": {} })
            .to_string(),
            json!({ "type": "key_confirm", "nonce": "c".repeat(32), "timestamp": 7,
                    "role": "host", "tag": "d".repeat(64) })
            .to_string(),
        ],
        "bond_own_code" => vec![
            "4821-9037-acorn-almond-alpine".into(),
            "48 21 90 37, Acorn almond ALPINE".into(),
        ],
        "bond_own" => vec![
            json!({ "i": 1, "from": "host", "hello": { "e": "0a".repeat(32), "c": "0b".repeat(32) } })
                .to_string(),
            json!({ "i": 1, "from": "guest", "refused": true }).to_string(),
            json!({ "i": 1, "from": "guest", "r": [["c", 7, "AAAA"], ["d", 0, "_-8"]] }).to_string(),
        ],
        "bond_card" => {
            let identity = SigningIdentity::from_seed(&Secret::new([0x11; 32]));
            let card = PinCard::write(&identity, &[7; 32], Role::Host, "ann", "");
            vec![String::from_utf8_lossy(&card).into_owned()]
        }
        "frame" => return frames(rng),
        "event" | "row" => return payloads(rng),
        other => panic!("no original for {other}"),
    };
    texts.into_iter().map(String::into_bytes).collect()
}

/// Pieces that mean something to some parser.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "1e999",
    "-1",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{202e}",
    "\u{feff}",
    "#",
    "http://",
    "://",
    "@",
    "%00",
    "..",
    "\"kind\":\"pair_request\",",
    "\"session\":null,",
    "\"status\":\"\",",
    "\"text\":\"\",",
    "ILOG",
    "\u{1}\u{0}\u{0}\u{0}",
];

/// Damages an original: bits, cuts, repetitions, pieces, numbers.
fn damage(rng: &mut Rng, original: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + rng.index(4) {
        let at = rng.index(bytes.len() + 1);
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 => bytes.truncate(at),
            2 => {
                let end = at + rng.index(bytes.len() - at + 1);
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => {
                let piece = PIECES[rng.index(PIECES.len())].as_bytes().to_vec();
                bytes.splice(at..at, piece);
            }
            4 => {
                let end = at + rng.index((bytes.len() - at).min(16) + 1);
                bytes.drain(at..end);
            }
            _ => {
                // A length or a number at its limits.
                let number = [0u64, 1, 0xff, u64::MAX, 1 << 31][rng.index(5)].to_le_bytes();
                for (into, byte) in bytes.iter_mut().skip(at).zip(number) {
                    *into = byte;
                }
            }
        }
    }
    bytes
}

#[test]
fn originals_are_read() {
    // Else the damaged ones prove little.
    let mut rng = Rng::new(seed());
    for (name, target) in ALL {
        for original in originals(name, &mut rng) {
            target(&original);
        }
    }
    let message = serde_json::to_string(&sample_message()).unwrap();
    assert_eq!(Message::from_json(&message).unwrap().verify(), Ok(()));
}

#[test]
fn damaged_originals_panic_no_parser_and_stay_within_bounds() {
    let mut rng = Rng::new(seed());
    for (name, target) in ALL {
        let originals = originals(name, &mut rng);
        for round in 0..ROUNDS {
            let bytes = damage(&mut rng, &originals[round % originals.len()]);
            let outcome = std::panic::catch_unwind(|| target(&bytes));
            assert!(
                outcome.is_ok(),
                "{name}, round {round}: {:?}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }
}

#[test]
fn nesting_and_length_panic_no_parser() {
    let deep = |open: &str, n: usize| open.repeat(n).into_bytes();
    let inputs = [
        deep("[", 1_000_000),
        deep("{\"a\":", 500_000),
        format!("{{\"payload\":{}", "[".repeat(1_000_000)).into_bytes(),
        format!(
            "{{\"roster\":[{}1{}]}}",
            "[".repeat(300_000),
            "]".repeat(300_000)
        )
        .into_bytes(),
        vec![b'"'; 1 << 20],
        vec![0; 1 << 20],
        "http://".repeat(100_000).into_bytes(),
    ];
    for (name, target) in ALL {
        for input in &inputs {
            let outcome = std::panic::catch_unwind(|| target(input));
            assert!(outcome.is_ok(), "{name}: {} bytes", input.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn noise_panics_no_parser(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        for (_, target) in ALL {
            target(&bytes);
        }
    }

    #[test]
    fn text_panics_no_parser(text in "\\PC{0,200}") {
        for (_, target) in ALL {
            target(text.as_bytes());
        }
    }
}
