//! What the key schedule promises, and what a relay that swaps keys can and cannot do.

use interlink::crypto::aead::{self, AeadError, SealKey};
use interlink::crypto::agree::{AgreementPublic, EphemeralSecret};
use interlink::crypto::kdf::{self, CodeKey};
use interlink::domain::machine::bond::track::{Place, Track};
use interlink::testkit::SeededEntropy;
use interlink::types::secret::Secret;
use interlink::wire::bond::Role;
use interlink::wire::bond::code::{PeerId, RoutingId};
use proptest::prelude::*;

fn pair(entropy: &SeededEntropy) -> (EphemeralSecret, AgreementPublic) {
    let secret = EphemeralSecret::generate(entropy).unwrap();
    let public = secret.public();
    (secret, public)
}

fn copy(secret: &[u8; 32]) -> EphemeralSecret {
    EphemeralSecret::from_bytes(&Secret::new(*secret))
}

fn key(own: EphemeralSecret, other: &AgreementPublic, code: u8, transcript: &[u8; 32]) -> SealKey {
    let code_key = CodeKey::new(Secret::new([code; 32]));
    kdf::session_key(&own.agree(other).unwrap(), &code_key, transcript)
}

#[test]
fn fresh_keys_and_ids_differ() {
    let entropy = SeededEntropy::new(1);
    assert_ne!(pair(&entropy).1, pair(&entropy).1);
    let ids = [(); 2].map(|()| PeerId::generate(&entropy).unwrap());
    assert_ne!(ids[0], ids[1]);
    for text in [
        "",
        "ab",
        &"AB".repeat(32),
        &"ab".repeat(31),
        &"ab".repeat(33),
    ] {
        assert!(text.parse::<PeerId>().is_err());
        assert!(text.parse::<RoutingId>().is_err());
        assert!(text.parse::<AgreementPublic>().is_err());
    }
}

#[test]
fn the_session_key_needs_secret_code_and_transcript() {
    let entropy = SeededEntropy::new(2);
    let (host, host_public) = pair(&entropy);
    let guest_bytes = [3; 32];
    let guest_public = copy(&guest_bytes).public();
    let straight = kdf::transcript(&host_public, &guest_public);
    let swapped = kdf::transcript(&guest_public, &host_public);
    let ours = key(host, &guest_public, 1, &straight);
    let guest =
        |code, transcript: &[u8; 32]| key(copy(&guest_bytes), &host_public, code, transcript);
    assert_eq!(guest(1, &straight).expose(), ours.expose());
    assert_ne!(guest(2, &straight).expose(), ours.expose());
    assert_ne!(guest(1, &swapped).expose(), ours.expose());
    let tag = |key: &SealKey, role: Role| kdf::confirmation(key, role.word(), &straight);
    assert!(kdf::same(
        &tag(&ours, Role::Host),
        &tag(&guest(1, &straight), Role::Host)
    ));
    assert!(!kdf::same(
        &tag(&ours, Role::Host),
        &tag(&ours, Role::Guest)
    ));
    assert!(!kdf::same(
        &tag(&ours, Role::Host),
        &tag(&guest(2, &straight), Role::Host)
    ));
    assert!(!kdf::same(&[1, 2], &[1]));
    assert!(kdf::same(&[], &[]));
}

#[test]
fn a_relay_with_both_swapped_keys_lacks_the_code_and_nothing_else() {
    let (host, guest, for_host, for_guest) = ([1; 32], [2; 32], [3; 32], [4; 32]);
    let public = |secret: &[u8; 32]| copy(secret).public();
    // Each side sees the relay's key in place of the other's.
    let host_side = kdf::transcript(&public(&host), &public(&for_host));
    let guest_side = kdf::transcript(&public(&for_guest), &public(&guest));
    let host_key = key(copy(&host), &public(&for_host), 7, &host_side);
    let guest_key = key(copy(&guest), &public(&for_guest), 7, &guest_side);
    let relay = |code| key(copy(&for_guest), &public(&guest), code, &guest_side);
    assert_ne!(relay(8).expose(), guest_key.expose());
    assert_eq!(relay(7).expose(), guest_key.expose(), "the control");
    assert_ne!(host_key.expose(), guest_key.expose());
    let sealed = aead::seal(&guest_key, [0; 12], &[], b"x").unwrap();
    assert_eq!(
        aead::open(&host_key, &[], &sealed).map(drop),
        Err(AeadError)
    );
    let forged = kdf::confirmation(&relay(8), "guest", &host_side);
    let expected = kdf::confirmation(&host_key, "guest", &host_side);
    assert!(!kdf::same(&forged, &expected));
}

#[test]
fn a_place_moves_up_to_what_the_relay_still_holds() {
    let mut track = Track::default();
    for seq in 1..=5 {
        assert_eq!(track.place(seq), Place::Next { missed: 0 });
        track.handled(seq);
    }
    assert_eq!(track.place(5), Place::Old);
    assert_eq!(track.oldest(10), Place::Next { missed: 4 });
    assert_eq!(track.since(), 9);
    assert_eq!(track.oldest(10), Place::Old);
    assert_eq!(track.oldest(0), Place::Old);
    assert_eq!(track.oldest(u64::MAX), Place::TooFar);
    assert_eq!(track.place(u64::MAX), Place::TooFar);
    assert_eq!(track.since(), 9);
    // Two of ours went out; one failed. A hole of two has one of the peer's in it.
    track.posting();
    track.posting();
    track.not_posted();
    assert_eq!(track.place(12), Place::Next { missed: 1 });
    track.handled(12);
    assert_eq!(track.place(14), Place::Next { missed: 1 });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sealed_opens_only_unchanged(
        plaintext in prop::collection::vec(any::<u8>(), 0..300),
        aad in prop::collection::vec(any::<u8>(), 0..40),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let key = SealKey::new(Secret::new([5; 32]));
        let sealed = aead::seal(&key, [6; 12], &aad, &plaintext).unwrap();
        prop_assert_eq!(sealed.ciphertext.len(), plaintext.len());
        let opened = aead::open(&key, &aad, &sealed).unwrap();
        prop_assert_eq!(opened.expose(), &plaintext);
        let mut longer = aad.clone();
        longer.push(0);
        prop_assert!(aead::open(&key, &longer, &sealed).is_err());
        let other = SealKey::new(Secret::new([4; 32]));
        prop_assert!(aead::open(&other, &aad, &sealed).is_err());
        let mut changed = sealed.clone();
        changed.tag[at.index(16)] ^= 1 << bit;
        prop_assert!(aead::open(&key, &aad, &changed).is_err());
        let mut changed = sealed.clone();
        changed.nonce[at.index(12)] ^= 1 << bit;
        prop_assert!(aead::open(&key, &aad, &changed).is_err());
        if !plaintext.is_empty() {
            let mut changed = sealed;
            changed.ciphertext[at.index(plaintext.len())] ^= 1 << bit;
            prop_assert!(aead::open(&key, &aad, &changed).is_err());
        }
    }

    #[test]
    fn a_session_survives_whatever_a_relay_answers(
        seed in any::<u64>(),
        froms in prop::collection::vec(0u8..4, 0..12),
        seqs in prop::collection::vec(any::<u64>(), 12),
        oldest in prop::option::of(any::<u64>()),
        noise in prop::collection::vec("\\PC{0,40}", 12),
        small in any::<bool>(),
    ) {
        use interlink::domain::machine::bond::{Action, Delivery, Input, Polled};
        use serde_json::{Value, json};
        for confirmed in [false, true] {
            let mut two = if confirmed {
                super::link::Pair::confirmed(seed)
            } else {
                let mut two = super::link::Pair::new(seed, [9, 9]);
                two.meet();
                two
            };
            for side in [super::link::HOST, super::link::GUEST] {
                let messages = froms.iter().zip(&seqs).zip(&noise).map(|((from, seq), noise)| {
                    let payload: Value = match from {
                        0 => json!({ "type": noise, "peerId": noise, "publicKey": noise }),
                        1 => json!({ "v": 2, "iv": noise, "encrypted": noise, "authTag": noise }),
                        2 => serde_json::from_str(noise).unwrap_or(Value::Null),
                        _ => json!([noise]),
                    };
                    Delivery {
                        from: if *from == 0 { "system".into() } else { noise.clone() },
                        seq: if small { seq % 20 } else { *seq },
                        payload,
                    }
                }).collect();
                let before = two.sides[side].phase();
                let polled = Polled { messages, oldest_seq: oldest, disconnected: false };
                let out = two.sides[side].step(two.now, Input::Polled(polled), &two.entropy).unwrap();
                // Noise proves nothing and is nobody's words.
                prop_assert!(two.sides[side].offers().is_empty());
                let chat = |a: &Action| matches!(
                    a,
                    Action::Tell(interlink::domain::machine::bond::Happening::Chat { .. })
                );
                prop_assert!(!out.iter().any(chat));
                prop_assert!(two.sides[side].is_over() || two.sides[side].phase() == before);
                prop_assert!(!(confirmed && two.sides[side].is_over()));
            }
        }
    }
}
