//! What the public Node client derives, writes and refuses: `tests/golden/vectors/bond.json`.

use data_encoding::HEXLOWER;
use interlink::crypto::aead::{self, SealKey, Sealed};
use interlink::crypto::agree::{AgreeError, AgreementPublic, EphemeralSecret};
use interlink::crypto::kdf::{self, CodeKey};
use interlink::domain::machine::bond::Dropped;
use interlink::domain::machine::bond::replay::Replay;
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::bond::code::{CodeError, SessionCode};
use interlink::wire::bond::packet::{self, Body, FileBody};
use interlink::wire::bond::{Role, sealed};
use serde_json::Value;

fn all() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/vectors/bond.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The entries of a group. An empty group would pass every loop, so it fails here.
fn group(name: &str, expected: usize) -> Vec<Value> {
    let entries = all()[name].as_array().unwrap().clone();
    assert_eq!(entries.len(), expected, "group {name}");
    entries
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member]
        .as_str()
        .unwrap_or_else(|| panic!("{member} of {value}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    HEXLOWER.decode(hex.as_bytes()).unwrap()
}

fn array<const N: usize>(hex: &str) -> [u8; N] {
    bytes(hex).try_into().unwrap()
}

fn seal_key(hex: &str) -> SealKey {
    SealKey::new(Secret::new(array(hex)))
}

fn secret(hex: &str) -> EphemeralSecret {
    EphemeralSecret::from_bytes(&Secret::new(array(hex)))
}

fn handshake(id: &str) -> Value {
    let found = group("handshakes", 3);
    found.into_iter().find(|h| h["id"] == id).unwrap()
}

#[test]
fn codes_give_their_routing_id_and_code_key() {
    for case in group("session_codes", 4) {
        let code: SessionCode = text(&case, "code").parse().unwrap();
        assert_eq!(code.reveal().as_bytes(), bytes(text(&case, "password_hex")));
        let derived = code.derive();
        assert_eq!(derived.routing.to_string(), text(&case, "routing_id"));
        assert_eq!(
            HEXLOWER.encode(derived.code_key.expose()),
            text(&case, "code_key")
        );
    }
}

#[test]
fn what_is_not_a_code_is_refused_and_not_echoed() {
    for case in group("invalid_session_codes", 12) {
        let code = text(&case, "code");
        let refused = code.parse::<SessionCode>().map(drop);
        assert_eq!(refused, Err(CodeError), "{code:?}");
        assert!(code.is_empty() || !CodeError.to_string().contains(code));
    }
}

#[test]
fn derivation_normalises_nothing() {
    for case in group("code_is_not_normalised", 4) {
        let id = kdf::routing_id(text(&case, "input").as_bytes());
        assert_eq!(HEXLOWER.encode(&id), text(&case, "routing_id"));
    }
}

#[test]
fn handshakes_give_both_sides_the_same_key_and_tags() {
    for case in group("handshakes", 3) {
        let hex = |member: &str| text(&case, member);
        let (host, guest) = (secret(hex("host_private")), secret(hex("guest_private")));
        let (host_public, guest_public) = (host.public(), guest.public());
        assert_eq!(host_public.to_string(), hex("host_public"));
        assert_eq!(guest_public.to_string(), hex("guest_public"));
        let transcript = kdf::transcript(&host_public, &guest_public);
        assert_eq!(HEXLOWER.encode(&transcript), hex("transcript"));
        let code_key = CodeKey::new(Secret::new(array(hex("code_key"))));
        for (own, other) in [(host, guest_public), (guest, host_public)] {
            let shared = own.agree(&other).unwrap();
            assert_eq!(HEXLOWER.encode(shared.expose()), hex("shared_secret"));
            let key = kdf::session_key(&shared, &code_key, &transcript);
            assert_eq!(HEXLOWER.encode(key.expose()), hex("session_key"));
            for (role, expected) in [(Role::Host, "confirm_host"), (Role::Guest, "confirm_guest")] {
                let tag = kdf::confirmation(&key, role.word(), &transcript);
                assert_eq!(HEXLOWER.encode(&tag), hex(expected));
            }
        }
    }
}

/// The same packet, written by us.
fn rewritten(plaintext: &[u8], value: &Value) -> Option<Vec<u8>> {
    let read = packet::read(plaintext).unwrap();
    let (nonce, now) = (
        read.nonce.unwrap(),
        UnixMillis(value["timestamp"].as_u64().unwrap()),
    );
    match read.body {
        Body::KeyConfirm { tag } => {
            let role = if value["role"] == "host" {
                Role::Host
            } else {
                Role::Guest
            };
            Some(packet::key_confirm(nonce, now, role, &tag.unwrap()).unwrap())
        }
        Body::Chat { content } => Some(packet::chat(nonce, now, &content.unwrap()).unwrap()),
        Body::File(file) => Some(packet::file_transfer(nonce, now, &file.unwrap()).unwrap()),
        _ => None,
    }
}

#[test]
fn packets_are_opened_and_written_byte_for_byte() {
    let mut written = 0;
    for case in group("packets", 6) {
        let name = text(&case, "name");
        let key = seal_key(text(&case, "session_key"));
        let sealed = sealed::read(&case["wire"]).unwrap();
        let plaintext = aead::open(&key, &[], &sealed).unwrap();
        assert_eq!(plaintext.expose(), text(&case, "plaintext").as_bytes());
        let value: Value = serde_json::from_slice(plaintext.expose()).unwrap();
        if let Some(ours) = rewritten(plaintext.expose(), &value) {
            assert_eq!(ours, *plaintext.expose(), "{name}");
            written += 1;
        }
        let again = aead::seal(&key, array(text(&case, "iv")), &[], plaintext.expose()).unwrap();
        let wire = serde_json::from_str::<Value>(&sealed::write(&again)).unwrap();
        assert_eq!(wire, case["wire"], "{name}");
    }
    assert_eq!(written, 5, "all but the unknown type");
}

/// The cipher alone, without the rules of the object around it.
fn opens(case: &Value) -> bool {
    let wire = &case["wire"];
    let parts = |member: &str| {
        wire[member]
            .as_str()
            .and_then(|hex| HEXLOWER.decode(hex.as_bytes()).ok())
    };
    let (Some(nonce), Some(ciphertext), Some(tag)) =
        (parts("iv"), parts("encrypted"), parts("authTag"))
    else {
        return false;
    };
    let (Ok(nonce), Ok(tag)) = (nonce.try_into(), tag.try_into()) else {
        return false;
    };
    let sealed = Sealed {
        nonce,
        ciphertext,
        tag,
    };
    aead::open(&seal_key(text(case, "key")), &[], &sealed).is_ok()
}

/// Cases that the shared vectors would accept, and this reader does not: `v` is outside what is
/// authenticated, so a reader that takes any would let a relay choose how a packet is read once
/// there is a second format. Every honest writer writes 2.
const OURS_REFUSES: [&str; 2] = ["v absent", "v=1"];

#[test]
fn the_reader_is_strict_where_the_public_client_is_lax() {
    let (mut stricter, mut node_refuses, mut departures) = (0, 0, 0);
    for case in group("decrypt_cases", 18) {
        let name = text(&case, "name");
        let accept = text(&case, "ours").starts_with("accept");
        assert_eq!(opens(&case), accept, "{name}: the cipher");
        let key = seal_key(text(&case, "key"));
        let read = sealed::read(&case["wire"]).ok();
        let opened = read.and_then(|sealed| aead::open(&key, &[], &sealed).ok());
        let departs = OURS_REFUSES.contains(&name);
        assert_eq!(case["wire"]["v"] != 2, departs, "{name}: has another `v`");
        assert_eq!(opened.is_some(), accept && !departs, "{name}");
        departures += u32::from(accept && departs);
        if case["node"]["ok"] == false {
            assert!(opened.is_none(), "{name}");
            node_refuses += 1;
        } else if opened.is_none() {
            stricter += 1;
        } else {
            let expected = text(&case["node"], "plaintext").as_bytes();
            assert_eq!(opened.unwrap().expose(), expected, "{name}");
        }
    }
    assert_eq!(departures, 2);
    assert!(stricter >= 8, "{stricter}");
    assert!(node_refuses >= 7, "{node_refuses}");
}

#[test]
fn confirmation_tags_are_taken_from_the_right_role_only() {
    for case in group("confirm_cases", 10) {
        let name = text(&case, "name");
        let handshake = handshake(text(&case, "handshake"));
        let key = seal_key(text(&handshake, "session_key"));
        let transcript: [u8; 32] = array(text(&handshake, "transcript"));
        let expected = kdf::confirmation(&key, text(&case, "peer_role"), &transcript);
        let packet = serde_json::json!({
            "type": "key_confirm", "nonce": "0".repeat(32), "timestamp": 1, "tag": case["tag"]
        });
        let read = packet::read(packet.to_string().as_bytes()).unwrap();
        let Body::KeyConfirm { tag } = read.body else {
            panic!("{name}")
        };
        let accepted = tag.is_some_and(|tag| kdf::same(&tag, &expected));
        // Nobody writes a tag in upper case; the reader takes the written form only.
        let upper = name == "upper case";
        assert_eq!(accepted, case["accepted"] == true && !upper, "{name}");
    }
}

#[test]
fn public_keys_that_contribute_nothing_are_refused() {
    let mut refused = 0;
    for case in group("public_key_cases", 10) {
        let key = text(&case, "key");
        let host = secret(text(&case, "host_private"));
        let outcome = key
            .parse::<AgreementPublic>()
            .and_then(|key| host.agree(&key));
        let upper = key.chars().any(|c| c.is_ascii_uppercase());
        if case["node"]["ok"] == true && !upper {
            let expected = text(&case["node"], "shared_secret");
            assert_eq!(HEXLOWER.encode(outcome.unwrap().expose()), expected);
        } else if text(&case, "name") == "low-order/zero point" {
            assert_eq!(outcome.map(drop), Err(AgreeError::NotContributory), "{key}");
            refused += 1;
        } else {
            assert_eq!(outcome.map(drop), Err(AgreeError::Text), "{key}");
        }
    }
    assert_eq!(refused, 6);
}

#[test]
fn replays_are_judged_in_the_order_of_the_vectors() {
    let mut replay = Replay::default();
    let steps = all()["replay_sequence"]["steps"].clone();
    let steps = steps.as_array().unwrap();
    assert!(steps.len() >= 15);
    for step in steps {
        let packet = serde_json::json!({
            "type": "x", "nonce": step["nonce"], "timestamp": step["timestamp"]
        });
        let read = packet::read(packet.to_string().as_bytes()).unwrap();
        let now = UnixMillis(step["now"].as_u64().unwrap());
        let outcome = replay.accept(now, read.nonce, read.timestamp);
        assert_eq!(outcome.is_ok(), step["accepted"] == true, "{step}");
        let expected = match step["error"].as_str() {
            None => None,
            Some(e) if e.starts_with("Duplicate") => Some(Dropped::Replay),
            Some(e) if e.starts_with("Invalid") => Some(Dropped::Nonce),
            Some(_) => Some(Dropped::Stale),
        };
        assert_eq!(outcome.err().map(|e| e.reason), expected, "{step}");
    }
}

#[test]
fn half_a_surrogate_pair_costs_one_character_and_not_the_message() {
    let packet = |content: &str| {
        let json = format!(
            "{{\"nonce\":\"{}\",\"timestamp\":1,\"type\":\"chat\",\"content\":\"{content}\"}}",
            "0".repeat(32)
        );
        packet::read(json.as_bytes()).map(|read| read.body)
    };
    let chat = |text: &str| {
        Some(Body::Chat {
            content: Some(text.into()),
        })
    };
    assert_eq!(packet("a\\ud83d"), chat("a\u{fffd}"));
    assert_eq!(
        packet("\\udc00\\ud83d\\ude00\\ud83dx"),
        chat("\u{fffd}\u{1f600}\u{fffd}x")
    );
    assert_eq!(packet("\\\\ud83d\\ud83d"), chat("\\ud83d\u{fffd}"));
    assert_eq!(packet("\\ud83d\\q"), None);
}

#[test]
fn files_are_described_as_the_public_client_does() {
    assert_eq!(packet::size_text(26), "26 B");
    assert_eq!(packet::size_text(1023), "1023 B");
    assert_eq!(packet::size_text(1536), "1.5 KB");
    assert_eq!(packet::size_text(2 << 20), "2.0 MB");
    let body = FileBody {
        filename: "a.json".into(),
        content: "{}\n".into(),
        message: "\u{1}\u{7f}".into(),
    };
    let written = packet::file_transfer([0; 16], UnixMillis(5), &body).unwrap();
    let written = String::from_utf8(written).unwrap();
    assert!(
        written.contains("\"message\":\"\\u0001\u{7f}\""),
        "{written}"
    );
    assert!(written.ends_with(
        "\"preview\":{\"filename\":\"a.json\",\"size\":3,\"sizeFormatted\":\"3 B\",\"fileType\":\"json\",\"lineCount\":2}}"
    ));
}
