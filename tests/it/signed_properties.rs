//! Properties of the signed bytes and of the readers: different objects never share their bytes,
//! and no input makes a reader panic. Failing seeds are printed by proptest.

use interlink::crypto::keyfile::parse_key_text;
use interlink::crypto::sign::{Signature, SigningIdentity, decode_public_key};
use interlink::types::id::{MsgId, PublicKey, SessionId};
use interlink::types::route::Route;
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::announce::{Announcement, SessionInfo};
use interlink::wire::envelope::{Draft, Message, MessageKind, TaskStatus};
use interlink::wire::peers::{Peers, Petname};
use proptest::prelude::*;

/// Short strings over few characters, so that boundaries between fields collide often; the
/// characters include those of length prefixes.
fn piece() -> impl Strategy<Value = String> {
    "[ab\u{0}\u{1}\u{e9}]{0,3}"
}

fn identity(byte: u8) -> SigningIdentity {
    SigningIdentity::from_seed(&Secret::new([byte; 32]))
}

prop_compose! {
    fn draft()(
        to in 0u8..2,
        text in piece(),
        ts in 0u64..3,
        msg_id in piece(),
        kind in prop::sample::select(vec![
            MessageKind::Message, MessageKind::PairRequest, MessageKind::PairAccept,
        ]),
        task_id in prop::option::of(piece()),
        status in prop::option::of(prop::sample::select(vec![
            TaskStatus::Update, TaskStatus::NeedsInput, TaskStatus::Result, TaskStatus::Failed,
            TaskStatus::Canceled,
        ])),
        in_reply_to in prop::option::of(piece()),
    ) -> Draft {
        Draft {
            to: identity(to).public(),
            text,
            ts: UnixMillis(ts),
            msg_id: MsgId::parse(&msg_id).unwrap(),
            kind,
            task_id,
            status,
            in_reply_to: in_reply_to.map(|id| MsgId::parse(&id).unwrap()),
            reply_to: None,
        }
    }
}

prop_compose! {
    fn announced()(
        name in piece(),
        session_id in piece(),
        cwd in piece(),
        git_root in piece(),
        summary in piece(),
        ts in 0u64..3,
    ) -> Announcement {
        let session = SessionInfo { session_id, cwd, git_root, summary };
        Announcement::sign(&identity(7), name, session, UnixMillis(ts))
    }
}

proptest! {
    #[test]
    fn messages_share_signed_bytes_only_when_they_are_equal(a in draft(), b in draft()) {
        let (a, b) = (Message::sign(&identity(7), a), Message::sign(&identity(7), b));
        prop_assert_eq!(a.canonical_bytes() == b.canonical_bytes(), a == b);
    }

    #[test]
    fn announcements_share_signed_bytes_only_when_they_are_equal(
        a in announced(), b in announced(),
    ) {
        prop_assert_eq!(a.canonical_bytes() == b.canonical_bytes(), a == b);
    }

    #[test]
    fn a_signed_message_survives_the_wire_and_still_verifies(draft in draft()) {
        let message = Message::sign(&identity(7), draft);
        let value = serde_json::to_value(&message).unwrap();
        let back = Message::from_value(value).unwrap();
        prop_assert_eq!(&back, &message);
        prop_assert_eq!(back.verify(), Ok(()));
    }

    #[test]
    fn a_flipped_bit_anywhere_in_the_signature_is_noticed(bit in 0usize..512, draft in draft()) {
        let mut message = Message::sign(&identity(7), draft);
        let mut sig = *message.sig.as_bytes();
        sig[bit / 8] ^= 1 << (bit % 8);
        message.sig = Signature::from_bytes(sig);
        prop_assert!(message.verify().is_err());
    }

    #[test]
    fn readers_never_panic_on_text(text in any::<String>()) {
        let _ = decode_public_key(&text);
        let _ = text.parse::<Signature>();
        let _ = text.parse::<Route>();
        let _ = SessionId::parse(&text);
        let _ = MsgId::parse(&text);
        let _ = Petname::parse(&text);
        let _ = parse_key_text(&text);
        let _ = Peers::parse(&text);
        let _ = Message::from_json(&text);
        let _ = Announcement::from_json(&text);
    }

    #[test]
    fn readers_never_panic_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = serde_json::from_slice::<Message>(&bytes);
        let _ = serde_json::from_slice::<Announcement>(&bytes);
        if let Ok(bytes) = <[u8; 32]>::try_from(bytes.as_slice()) {
            let _ = interlink::crypto::sign::check_point(&PublicKey::from_bytes(bytes));
        }
    }

    #[test]
    fn a_mutilated_message_never_panics_and_never_verifies_as_another(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), draft in draft(),
    ) {
        let message = Message::sign(&identity(7), draft);
        let mut json = serde_json::to_vec(&message).unwrap();
        let at = at.index(json.len());
        json[at] = byte;
        if let Ok(read) = serde_json::from_slice::<Message>(&json)
            && read.verify().is_ok()
        {
            let same = Message { reply_to: message.reply_to.clone(), ..read };
            prop_assert_eq!(same.canonical_bytes(), message.canonical_bytes());
        }
    }

    #[test]
    fn every_key_survives_its_text(bytes in any::<[u8; 32]>()) {
        let key = PublicKey::from_bytes(bytes);
        prop_assert_eq!(key.to_string().parse::<PublicKey>(), Ok(key));
        prop_assert_eq!(key.to_string().len(), 43);
    }
}
