//! The shared vectors: what the public program 0.13.0 signs, accepts and refuses.
//!
//! One test per group; every entry is a named case in the failure message. The gate scenarios are
//! in `gate_scenarios`.

use std::collections::BTreeSet;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use interlink::crypto::hash::sha256;
use interlink::crypto::keyfile::{parse_key_text, print_key_text};
use interlink::crypto::sign::{KeyError, Signature, SigningIdentity, decode_public_key};
use interlink::types::id::{MsgId, PublicKey};
use interlink::types::limit::{MAX_FUTURE_MS, MAX_PAST_STRANGER_MS};
use interlink::types::route::{Route, split};
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::announce::{Announcement, ReadAnnouncementError, SessionInfo};
use interlink::wire::canonical::{ANNOUNCE_DOMAIN, MESSAGE_DOMAIN};
use interlink::wire::envelope::{
    Draft, Message, MessageKind, ReadMessageError, TaskStatus, VerifyMessageError,
};
use interlink::wire::pair::{PairRequest, renew};
use interlink::wire::peers::{Peers, Petname};
use serde_json::Value;

pub(crate) fn vectors() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/vectors/interlink-v2.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The entries of a group. An empty group would pass every loop, so it fails here.
pub(crate) fn group(name: &str, expected: usize) -> Vec<Value> {
    let entries = vectors()[name].as_array().unwrap().clone();
    assert_eq!(entries.len(), expected, "group {name}");
    entries
}

pub(crate) fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry[field]
        .as_str()
        .unwrap_or_else(|| panic!("no text {field} in {entry}"))
}

fn seed_of(signer: &str) -> Secret<[u8; 32]> {
    let keys = group("keys", 5);
    let entry = keys.iter().find(|k| text(k, "name") == signer).unwrap();
    let bytes = HEXLOWER.decode(text(entry, "seed_hex").as_bytes()).unwrap();
    Secret::new(bytes.try_into().unwrap())
}

pub(crate) fn identity_of(signer: &str) -> SigningIdentity {
    SigningIdentity::from_seed(&seed_of(signer))
}

fn parse_word<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn opt(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[test]
fn constants_and_domains_are_those_of_the_network() {
    let v = vectors();
    assert_eq!(v["constants"]["MAX_FUTURE_MS"], MAX_FUTURE_MS);
    assert_eq!(v["constants"]["MAX_PAST_MS"], MAX_PAST_STRANGER_MS);
    assert_eq!(
        text(&v, "message_domain_hex"),
        HEXLOWER.encode(MESSAGE_DOMAIN)
    );
    assert_eq!(
        text(&v, "announce_domain_hex"),
        HEXLOWER.encode(ANNOUNCE_DOMAIN)
    );
}

#[test]
fn every_group_of_the_file_has_a_test() {
    let known = BTreeSet::from([
        "about",
        "announce_domain_hex",
        "announcements",
        "constants",
        "freshness",
        "gate",
        "key_text_decoding",
        "keys",
        "message_domain_hex",
        "messages",
        "negative",
        "pair_renewal",
        "pair_request_inbound",
        "peers_add",
        "peers_json_parse",
        "positive_edge",
        "routes",
    ]);
    let v = vectors();
    let found: BTreeSet<&str> = v.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(found, known);
}

#[test]
fn keys_and_key_files_match() {
    for entry in group("keys", 5) {
        let case = text(&entry, "name");
        let seed = seed_of(case);
        let identity = SigningIdentity::from_seed(&seed);
        let public = identity.public();
        assert_eq!(public.to_string(), text(&entry, "public_b64"), "{case}");
        assert_eq!(
            HEXLOWER.encode(public.as_bytes()),
            text(&entry, "public_hex"),
            "{case}"
        );
        assert_eq!(
            public.fingerprint().as_str(),
            text(&entry, "fingerprint"),
            "{case}"
        );
        assert_eq!(public.to_string().parse(), Ok(public), "{case}");
        let file = print_key_text(&seed);
        assert_eq!(file.expose(), text(&entry, "key_file_text"), "{case}");
        assert_eq!(
            HEXLOWER.encode(file.expose().as_bytes()),
            text(&entry, "key_file_hex")
        );
        assert_eq!(
            file.expose().len() as u64,
            entry["key_file_len"].as_u64().unwrap(),
            "{case}"
        );
        assert_eq!(
            file.expose().trim_end(),
            text(&entry, "secret_b64"),
            "{case}"
        );
        assert_eq!(
            parse_key_text(file.expose()).unwrap().expose(),
            seed.expose(),
            "{case}"
        );
    }
}

#[test]
fn key_texts_are_read_or_refused_alike() {
    for entry in group("key_text_decoding", 17) {
        let case = text(&entry, "name");
        let input = text(&entry, "text");
        let read: Option<PublicKey> = match text(&entry, "kind") {
            "secret" => parse_key_text(input)
                .ok()
                .map(|seed| SigningIdentity::from_seed(&seed).public()),
            "public" => decode_public_key(input).ok(),
            other => panic!("{case}: kind {other}"),
        };
        assert_eq!(read.is_some(), entry["ok"].as_bool().unwrap(), "{case}");
        assert_eq!(
            read.map(|key| key.to_string()),
            opt(&entry["public_b64"]),
            "{case}"
        );
    }
}

#[test]
fn messages_have_the_same_bytes_signature_and_json() {
    for entry in group("messages", 20) {
        let case = text(&entry, "name");
        let fields = &entry["fields"];
        let signer = identity_of(text(&entry, "signer"));
        let draft = Draft {
            to: text(fields, "to").parse().unwrap(),
            text: fields["text"]
                .as_str()
                .map_or_else(|| repeated_text(&fields["text"]), str::to_owned),
            ts: UnixMillis(fields["ts"].as_u64().unwrap()),
            msg_id: MsgId::parse(text(fields, "msg_id")).unwrap(),
            kind: parse_word::<MessageKind>(&fields["kind"]),
            task_id: opt(&fields["task_id"]),
            status: parse_word::<Option<TaskStatus>>(&fields["status"]),
            in_reply_to: opt(&fields["in_reply_to"]).map(|id| MsgId::parse(&id).unwrap()),
            reply_to: opt(&fields["reply_to"]).map(|r| r.parse::<Route>().unwrap()),
        };
        let message = Message::sign(&signer, draft);
        let bytes = message.canonical_bytes();
        assert_eq!(message.from.to_string(), text(fields, "from"), "{case}");
        assert_eq!(
            message.text.len() as u64,
            entry["text_len_bytes"].as_u64().unwrap(),
            "{case}"
        );
        assert_eq!(
            bytes.len() as u64,
            entry["canonical_len"].as_u64().unwrap(),
            "{case}"
        );
        assert_eq!(
            bytes.len(),
            bytes.capacity(),
            "{case}: the room is computed exactly"
        );
        assert_eq!(
            HEXLOWER.encode(&sha256(&bytes)),
            text(&entry, "canonical_sha256"),
            "{case}"
        );
        match entry["canonical_hex"].as_str() {
            Some(hex) => assert_eq!(HEXLOWER.encode(&bytes), hex, "{case}"),
            None => {
                let prefix = text(&entry, "canonical_prefix_hex");
                assert!(HEXLOWER.encode(&bytes).starts_with(prefix), "{case}");
            }
        }
        assert_eq!(message.sig.to_string(), text(&entry, "sig_b64"), "{case}");
        assert_eq!(
            HEXLOWER.encode(message.sig.as_bytes()),
            text(&entry, "sig_hex"),
            "{case}"
        );
        assert_eq!(
            message.verify().is_ok(),
            entry["verify"].as_bool().unwrap(),
            "{case}"
        );
        let json = serde_json::to_string(&message).unwrap();
        match entry["json_text"].as_str() {
            Some(expected) => assert_eq!(json, expected, "{case}"),
            None => {
                assert_eq!(
                    json.len() as u64,
                    entry["json_len"].as_u64().unwrap(),
                    "{case}"
                );
                let digest = HEXLOWER.encode(&sha256(json.as_bytes()));
                assert_eq!(digest, text(&entry, "json_sha256"), "{case}");
            }
        }
        assert_eq!(Message::from_json(&json).unwrap(), message, "{case}");
        let value = serde_json::from_str(&json).unwrap();
        assert_eq!(Message::from_value(value).unwrap(), message, "{case}");
    }
}

/// A text that the file gives as a piece and how often to repeat it.
fn repeated_text(text_field: &Value) -> String {
    let count = usize::try_from(text_field["count"].as_u64().unwrap()).unwrap();
    text(text_field, "repeat").repeat(count)
}

#[test]
fn announcements_have_the_same_bytes_signature_and_json() {
    for entry in group("announcements", 4) {
        let case = text(&entry, "name");
        let fields = &entry["fields"];
        let session: SessionInfo = parse_word(&fields["session"]);
        let signer = identity_of(text(&entry, "signer"));
        let ts = UnixMillis(fields["ts"].as_u64().unwrap());
        let announcement =
            Announcement::sign(&signer, text(fields, "name").to_owned(), session, ts);
        let bytes = announcement.canonical_bytes();
        assert_eq!(
            bytes.len() as u64,
            entry["canonical_len"].as_u64().unwrap(),
            "{case}"
        );
        assert_eq!(
            bytes.len(),
            bytes.capacity(),
            "{case}: the room is computed exactly"
        );
        assert_eq!(
            HEXLOWER.encode(&bytes),
            text(&entry, "canonical_hex"),
            "{case}"
        );
        assert_eq!(
            announcement.sig.to_string(),
            text(&entry, "sig_b64"),
            "{case}"
        );
        let sig = HEXLOWER_PERMISSIVE
            .decode(text(&entry, "sig_hex").as_bytes())
            .unwrap();
        assert_eq!(
            announcement.sig,
            Signature::from_bytes(sig.try_into().unwrap()),
            "{case}"
        );
        assert_eq!(
            announcement.verify().is_ok(),
            entry["verify"].as_bool().unwrap(),
            "{case}"
        );
        let json = serde_json::to_string(&announcement).unwrap();
        assert_eq!(json, text(&entry, "json_text"), "{case}");
        assert_eq!(
            Announcement::from_json(&json).unwrap(),
            announcement,
            "{case}"
        );
    }
}

/// What reading and verifying an object led to, in the words of the vectors.
fn outcome(kind: &str, json: &str) -> &'static str {
    match kind {
        "message" => match Message::from_json(json) {
            Ok(message) if message.verify().is_ok() => "ok",
            Ok(_) | Err(ReadMessageError::Verify(_)) => "verify_error",
            Err(_) => "decode_error",
        },
        "announcement" => match Announcement::from_json(json) {
            Ok(announcement) if announcement.verify().is_ok() => "ok",
            Ok(_) | Err(ReadAnnouncementError::Verify(_)) => "verify_error",
            Err(_) => "decode_error",
        },
        other => panic!("type {other}"),
    }
}

fn check_outcomes(name: &str, expected: usize) {
    for entry in group(name, expected) {
        let case = text(&entry, "name");
        let json = text(&entry, "json_text");
        let kind = text(&entry, "type");
        assert_eq!(outcome(kind, json), text(&entry, "outcome"), "{case}");
        let verified = outcome(kind, json) == "ok";
        assert_eq!(verified, entry["verify"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn what_must_not_verify_does_not() {
    check_outcomes("negative", 53);
}

#[test]
fn what_looks_wrong_but_must_verify_does() {
    check_outcomes("positive_edge", 10);
}

#[test]
fn a_recipient_that_is_no_key_fails_even_under_a_good_signature() {
    let mut not_a_point = [0; 32];
    not_a_point[0] = 2;
    let to = PublicKey::from_bytes(not_a_point);
    let draft = Draft::message(to, "t".into(), UnixMillis(1), MsgId::parse("x").unwrap());
    let message = Message::sign(&identity_of("alice"), draft);
    assert_eq!(
        message.verify(),
        Err(VerifyMessageError::To(KeyError::NotOnCurve))
    );
}

#[test]
fn an_empty_optional_is_read_as_absent() {
    let entries = group("positive_edge", 10);
    let case = "empty_string_optionals_equal_absent";
    let entry = entries.iter().find(|e| text(e, "name") == case).unwrap();
    let message = Message::from_json(text(entry, "json_text")).unwrap();
    assert_eq!((message.task_id, message.in_reply_to), (None, None));
}

#[cfg(feature = "persist")]
#[test]
fn freshness_agrees_at_every_bound() {
    use interlink::domain::gate::check_time;
    for entry in group("freshness", 7) {
        let n = |field: &str| entry[field].as_u64().unwrap();
        let fresh = check_time(
            UnixMillis(n("ts")),
            UnixMillis(n("now")),
            n("max_past_ms"),
            n("max_future_ms"),
        );
        assert_eq!(fresh.is_ok(), entry["fresh"].as_bool().unwrap(), "{entry}");
    }
}

#[test]
fn routes_come_apart_alike() {
    for entry in group("routes", 8) {
        let case = text(&entry, "text");
        let (key, session) = split(case);
        assert_eq!(key, text(&entry, "key"), "{case:?}");
        assert_eq!(session, entry["session"].as_str(), "{case:?}");
        let display = session.map_or_else(|| key.to_owned(), |s| format!("{key}#{s}"));
        assert_eq!(display, text(&entry, "display"), "{case:?}");
        // The typed route: the same parts, unless a part is not valid by itself.
        let public = identity_of("alice").public().to_string();
        let typed = case.replace("KEY", &public).parse::<Route>();
        let valid = key == "KEY" && !session.is_some_and(|s| s.contains('#'));
        assert_eq!(typed.is_ok(), valid, "{case:?}");
        if let Ok(route) = typed {
            assert_eq!(
                route.to_string(),
                display.replace("KEY", &public),
                "{case:?}"
            );
            assert_eq!(
                route.session.as_ref().map(|s| s.as_str()),
                session,
                "{case:?}"
            );
        }
    }
}

#[test]
fn knocks_are_answerable_only_at_a_session_of_their_own_key() {
    for entry in group("pair_request_inbound", 5) {
        let case = text(&entry, "name");
        let request = &entry["request"];
        let mut draft = Draft::message(
            identity_of("bob").public(),
            request["name"].as_str().unwrap_or("t").to_owned(),
            UnixMillis(1),
            MsgId::parse("kn").unwrap(),
        );
        draft.kind = MessageKind::PairRequest;
        let mut knock = Message::sign(&identity_of("eve"), draft);
        knock.reply_to = opt(&entry["reply_to"]);
        assert_eq!(knock.verify(), Ok(()), "{case}");
        let read = PairRequest::from_message(&knock);
        assert_eq!(
            read.is_ok(),
            entry["ok"].as_bool().unwrap(),
            "{case}: {read:?}"
        );
        assert_eq!(read.is_ok(), knock.reply_route().is_some(), "{case}");
        if let Ok(read) = read {
            assert_eq!(read.key.to_string(), text(request, "key"), "{case}");
            assert_eq!(read.name, text(request, "name"), "{case}");
            assert_eq!(
                read.request_id.as_str(),
                text(request, "request_id"),
                "{case}"
            );
            assert_eq!(
                read.reply_to.to_string(),
                text(request, "reply_to"),
                "{case}"
            );
        }
    }
}

#[test]
fn a_renewed_pairing_message_keeps_everything_but_time_and_signature() {
    let v = vectors();
    let v = &v["pair_renewal"];
    let job: Value = serde_json::from_str(text(v, "stored_job")).unwrap();
    let stored = Message::from_value(job["msg"].clone()).unwrap();
    let now = UnixMillis(v["renew_now"].as_u64().unwrap());
    let renewed = renew(&stored, &identity_of("bob"), now).unwrap();
    assert_eq!(serde_json::to_string(&renewed).unwrap(), text(v, "renewed"));
    assert_eq!(renewed.verify(), Ok(()));

    assert!(
        renew(&stored, &identity_of("alice"), now).is_err(),
        "only the sender renews"
    );
    let mut damaged = stored.clone();
    damaged.text.push('x');
    assert!(
        renew(&damaged, &identity_of("bob"), now).is_err(),
        "nothing unsigned is signed"
    );
    let plain = Draft::message(stored.to, String::new(), now, stored.msg_id.clone());
    let plain = Message::sign(&identity_of("bob"), plain);
    assert!(
        renew(&plain, &identity_of("bob"), now).is_err(),
        "pairing messages only"
    );
}

#[test]
fn peers_files_are_read_or_refused_alike() {
    for entry in group("peers_json_parse", 12) {
        let case = text(&entry, "name");
        let read = Peers::parse(text(&entry, "text"));
        assert_eq!(
            read.is_ok(),
            entry["ok"].as_bool().unwrap(),
            "{case}: {read:?}"
        );
        let Ok(read) = read else { continue };
        let expected = text(&entry, "reserialized");
        let printed = read.print().unwrap();
        if case == "extra_fields_ignored" {
            // We keep what others wrote beside the key; the public program loses it.
            let expected = expected.replace(
                "hzc\"\n",
                "hzc\",\n    \"note\": {\n      \"x\": 1\n    }\n",
            );
            assert_eq!(printed, expected, "{case}");
        } else {
            assert_eq!(printed, expected, "{case}");
        }
        let warned = case == "weird_petname_allowed";
        assert_eq!(!read.warnings().is_empty(), warned, "{case}");
    }
}

#[test]
fn peers_are_added_by_the_same_rules() {
    // Names that a file may have and that our tools do not write.
    let not_by_our_tools = ["empty_name_allowed", "name_self_allowed"];
    for entry in group("peers_add", 7) {
        let case = text(&entry, "name");
        let mut peers = Peers::parse(text(&entry, "start")).unwrap();
        let before = peers.clone();
        let name = Petname::parse(text(&entry, "petname"));
        assert_eq!(name.is_err(), not_by_our_tools.contains(&case), "{case}");
        let added = match (name, decode_public_key(text(&entry, "key"))) {
            (Ok(name), Ok(key)) => peers.add(&name, key).is_ok(),
            _ => false,
        };
        if not_by_our_tools.contains(&case) {
            assert_eq!(peers, before, "{case}");
            continue;
        }
        assert_eq!(added, entry["ok"].as_bool().unwrap(), "{case}");
        assert_eq!(
            peers.print().unwrap().trim_end(),
            text(&entry, "result"),
            "{case}"
        );
    }
}

#[test]
fn the_worked_example_of_the_documentation_is_the_first_vector() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/canonical.md");
    let page = std::fs::read_to_string(path).unwrap();
    let block = page
        .split("```text\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    // Hex comes in words of two digits and more; the last word of a line is the field's name.
    let hex: String = block
        .split_whitespace()
        .filter(|word| word.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')))
        .collect();
    let first = &group("messages", 20)[0];
    assert_eq!(hex, text(first, "canonical_hex"));
    assert!(page.contains(text(first, "sig_b64")));
}
