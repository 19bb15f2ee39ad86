//! The trust gate against the public program's scenarios, and where we differ on purpose.

use std::collections::BTreeSet;
use std::convert::Infallible;

use interlink::domain::gate::{
    Decision, Label, Outcome, Reject, Untimely, Windows, decide, decide_verified,
};
use interlink::types::id::{MsgId, PublicKey};
use interlink::types::time::UnixMillis;
use interlink::wire::envelope::{Draft, Message, MessageKind, VerifyMessageError};
use interlink::wire::peers::Peers;

use crate::vectors::{group, identity_of, text};

/// Where our outcomes differ from the recorded ones: scenario, ours, why.
const DEVIATIONS: &[(&str, &[&str], &str)] = &[
    (
        "dedupe_eviction_cap_2",
        &[
            "Inline:alice",
            "Inline:alice",
            "Inline:alice",
            "Reject::Replay",
            "Reject::Replay",
        ],
        "the replay set covers the whole window, nothing is evicted from it",
    ),
    (
        "past_one_over_stale",
        &["Reject::Expired"],
        "an admitted peer's late message is recorded and shown, not dropped",
    ),
    (
        "knock_from_peer_unexpected",
        &["KnownPeerKnock:alice", "Inline:alice"],
        "a knock of a peer that is still admitted is answered afresh, and uses up no message's id",
    ),
];

/// The public program's windows: a day for everybody.
const DAY: Windows = Windows {
    past_peer_ms: 86_400_000,
    past_stranger_ms: 86_400_000,
    future_ms: 60_000,
};

/// A receiver with its allowlist and its replay set.
struct Receiver {
    me: PublicKey,
    peers: Peers,
    seen: BTreeSet<(PublicKey, MsgId)>,
    windows: Windows,
}

impl Receiver {
    fn new(me: &str, peers: &str) -> Receiver {
        Receiver {
            me: me.parse().unwrap(),
            peers: Peers::parse(peers).unwrap(),
            seen: BTreeSet::new(),
            windows: DAY,
        }
    }

    /// `bob` with `alice` listed, and our default windows.
    fn bob() -> Receiver {
        let (alice, bob) = (identity_of("alice").public(), identity_of("bob").public());
        let mut receiver = Receiver::new(
            &bob.to_string(),
            &format!(r#"{{"alice":{{"key":"{alice}"}}}}"#),
        );
        receiver.windows = Windows::default();
        receiver
    }

    fn receive(&mut self, message: &Message, now: u64) -> Decision {
        let decision = decide::<Infallible>(
            &self.me,
            message,
            UnixMillis(now),
            &self.windows,
            |key| Ok(self.peers.name_of(key).map(str::to_owned)),
            |key, id| Ok(self.seen.contains(&(*key, id.clone()))),
        )
        .unwrap();
        if decision.record_replay {
            self.seen.insert((message.from, message.msg_id.clone()));
        }
        decision
    }
}

fn word(outcome: &Outcome) -> String {
    let name = |label: &Label| match label {
        Label::Peer(name) => name.clone(),
        Label::SelfIdentity => "self".to_owned(),
    };
    match outcome {
        Outcome::Inline { label } => format!("Inline:{}", name(label)),
        Outcome::KnownPeerKnock { label } => format!("KnownPeerKnock:{}", name(label)),
        Outcome::PairRequest => "PairRequest".into(),
        Outcome::PairAccept => "PairAccept".into(),
        Outcome::Reject(Reject::BadSignature(_)) => "Reject::BadSignature".into(),
        Outcome::Reject(Reject::WrongRecipient) => "Reject::WrongRecipient".into(),
        Outcome::Reject(Reject::NotAllowlisted) => "Reject::NotAllowlisted".into(),
        Outcome::Reject(Reject::Stale(_)) => "Reject::Stale".into(),
        Outcome::Reject(Reject::Replay) => "Reject::Replay".into(),
        Outcome::Reject(Reject::Expired { .. }) => "Reject::Expired".into(),
        other => panic!("an outcome without a word: {other:?}"),
    }
}

fn message(from: &str, id: &str, ts: u64, kind: MessageKind) -> Message {
    let id = MsgId::parse(id).unwrap();
    let to = identity_of("bob").public();
    let mut draft = Draft::message(to, "t".into(), UnixMillis(ts), id);
    draft.kind = kind;
    Message::sign(&identity_of(from), draft)
}

const NOW: u64 = 1_700_000_000_000;

#[test]
fn recorded_scenarios_end_alike_except_where_we_differ_on_purpose() {
    let mut used = BTreeSet::new();
    for entry in group("gate", 16) {
        let case = text(&entry, "name");
        let mut receiver = Receiver::new(text(&entry, "me"), text(&entry, "peers_json"));
        let ours: Vec<String> = entry["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|json| {
                let message = Message::from_json(json.as_str().unwrap()).unwrap();
                word(
                    &receiver
                        .receive(&message, entry["now"].as_u64().unwrap())
                        .outcome,
                )
            })
            .collect();
        let theirs: Vec<&str> = entry["outcomes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o.as_str().unwrap())
            .collect();
        match DEVIATIONS.iter().find(|(name, _, _)| *name == case) {
            Some((name, expected, why)) => {
                used.insert(*name);
                assert_ne!(ours, theirs, "{case}: no deviation any more ({why})");
                assert_eq!(ours, *expected, "{case}: {why}");
            }
            None => assert_eq!(ours, theirs, "{case}"),
        }
    }
    assert_eq!(
        used.len(),
        DEVIATIONS.len(),
        "a deviation names no scenario"
    );
}

#[test]
fn the_same_id_of_two_senders_is_two_messages() {
    let mut bob = Receiver::bob();
    let carol = identity_of("carol").public();
    let both = format!(
        r#"{{"alice":{{"key":"{}"}},"carol":{{"key":"{carol}"}}}}"#,
        identity_of("alice").public()
    );
    bob.peers = Peers::parse(&both).unwrap();
    for (from, expected) in [
        ("alice", "Inline:alice"),
        ("carol", "Inline:carol"),
        ("alice", "Reject::Replay"),
        ("carol", "Reject::Replay"),
    ] {
        let decision = bob.receive(&message(from, "same", NOW, MessageKind::Message), NOW);
        assert_eq!(word(&decision.outcome), expected, "{from}");
    }
}

#[test]
fn a_stranger_takes_no_replay_slot() {
    let mut bob = Receiver::bob();
    for kind in [
        MessageKind::PairRequest,
        MessageKind::PairAccept,
        MessageKind::Message,
    ] {
        let decision = bob.receive(&message("eve", "id", NOW, kind), NOW);
        assert!(!decision.record_replay, "{kind:?}");
    }
    assert!(bob.seen.is_empty());
    // A stranger's knock may come again: it is kept once by key, not by id.
    let knock = message("eve", "id", NOW, MessageKind::PairRequest);
    assert_eq!(bob.receive(&knock, NOW).outcome, Outcome::PairRequest);
    let decision = bob.receive(&message("alice", "id", NOW, MessageKind::Message), NOW);
    assert_eq!(word(&decision.outcome), "Inline:alice");
}

#[test]
fn pairing_messages_of_a_peer_take_no_replay_slot_and_need_none() {
    let mut bob = Receiver::bob();
    let text = message("alice", "id", NOW, MessageKind::Message);
    for kind in [MessageKind::PairRequest, MessageKind::PairAccept] {
        let decision = bob.receive(&message("alice", "id", NOW, kind), NOW);
        assert!(!decision.record_replay, "{kind:?}");
    }
    assert_eq!(word(&bob.receive(&text, NOW).outcome), "Inline:alice");
    // Nor does a message that has the id stand in the way of a knock.
    let knock = message("alice", "id", NOW, MessageKind::PairRequest);
    assert_eq!(
        word(&bob.receive(&knock, NOW).outcome),
        "KnownPeerKnock:alice"
    );
    assert_eq!(
        bob.receive(&text, NOW).outcome,
        Outcome::Reject(Reject::Replay)
    );
}

#[test]
fn a_removed_peer_may_knock_again_whatever_its_old_slots_say() {
    let mut bob = Receiver::bob();
    let knock = message("alice", "knock", NOW, MessageKind::PairRequest);
    assert_eq!(
        word(&bob.receive(&knock, NOW).outcome),
        "KnownPeerKnock:alice"
    );
    bob.peers.remove("alice");
    assert_eq!(bob.receive(&knock, NOW).outcome, Outcome::PairRequest);
}

#[test]
fn windows_differ_for_peers_and_strangers_and_their_bounds_are_inclusive() {
    let w = Windows::default();
    let (peer, stranger, ahead) = (w.past_peer_ms, w.past_stranger_ms, w.future_ms);
    let (text, knock) = (MessageKind::Message, MessageKind::PairRequest);
    for (from, kind, ts, expected) in [
        ("alice", text, NOW - peer, "Inline:alice"),
        ("alice", text, NOW - peer - 1, "Reject::Expired"),
        ("alice", text, NOW + ahead, "Inline:alice"),
        ("alice", text, NOW + ahead + 1, "Reject::Stale"),
        ("bob", text, NOW - peer, "Inline:self"),
        ("bob", text, NOW - peer - 1, "Reject::Expired"),
        ("alice", knock, NOW - peer, "KnownPeerKnock:alice"),
        ("alice", knock, NOW - peer - 1, "Reject::Stale"),
        ("eve", knock, NOW - stranger, "PairRequest"),
        ("eve", knock, NOW - stranger - 1, "Reject::Stale"),
        ("eve", knock, NOW + ahead + 1, "Reject::Stale"),
        ("eve", text, NOW, "Reject::NotAllowlisted"),
        ("eve", text, 0, "Reject::NotAllowlisted"),
    ] {
        let decision = Receiver::bob().receive(&message(from, "w", ts, kind), NOW);
        assert_eq!(word(&decision.outcome), expected, "{from} {kind:?} {ts}");
        let rejected = expected.starts_with("Reject");
        assert_eq!(
            decision.record_replay,
            !rejected && from != "eve" && kind == text,
            "{from} {kind:?} {ts}"
        );
    }
}

#[test]
fn a_late_copy_of_a_delivered_message_is_a_repeat_and_not_expired() {
    let mut bob = Receiver::bob();
    let sent = message("alice", "late", NOW, MessageKind::Message);
    let later = NOW + bob.windows.past_peer_ms + 5;
    assert_eq!(word(&bob.receive(&sent, NOW).outcome), "Inline:alice");
    assert_eq!(
        bob.receive(&sent, later).outcome,
        Outcome::Reject(Reject::Replay)
    );
    let other = message("alice", "never seen", NOW, MessageKind::Message);
    assert_eq!(
        bob.receive(&other, later).outcome,
        Outcome::Reject(Reject::Expired {
            label: Label::Peer("alice".into()),
            age_ms: later - NOW
        })
    );
}

#[test]
fn a_replay_slot_is_needed_exactly_as_long_as_a_copy_could_pass() {
    let windows = Windows::default();
    let sent = message("alice", "slot", NOW, MessageKind::Message);
    let last = windows.replay_until(sent.ts).0;
    // Each time a receiver that has forgotten it.
    let at = |now: u64| word(&Receiver::bob().receive(&sent, now).outcome);
    assert_eq!(at(last), "Inline:alice");
    assert_eq!(at(last + 1), "Reject::Expired");
}

#[test]
fn only_our_own_key_gets_the_own_label() {
    let mut bob = Receiver::bob();
    let alice = identity_of("alice").public();
    bob.peers = Peers::parse(&format!(r#"{{"self":{{"key":"{alice}"}}}}"#)).unwrap();
    let decision = bob.receive(&message("alice", "a", NOW, MessageKind::Message), NOW);
    assert_eq!(
        decision.outcome,
        Outcome::Inline {
            label: Label::Peer("self".into())
        }
    );
    let decision = bob.receive(&message("bob", "b", NOW, MessageKind::Message), NOW);
    assert_eq!(
        decision.outcome,
        Outcome::Inline {
            label: Label::SelfIdentity
        }
    );
}

#[test]
fn a_message_for_another_key_is_refused_before_the_sender_is_looked_up() {
    let carol = identity_of("carol").public();
    let sent = message("alice", "x", NOW, MessageKind::Message);
    let decision = decide::<&str>(
        &carol,
        &sent,
        UnixMillis(NOW),
        &DAY,
        |_| Err("looked up"),
        |_, _| Err("looked up"),
    );
    assert_eq!(
        decision.unwrap().outcome,
        Outcome::Reject(Reject::WrongRecipient)
    );
}

#[test]
fn unreadable_policy_decides_nothing() {
    let bob = identity_of("bob").public();
    let sent = message("alice", "x", NOW, MessageKind::Message);
    let now = UnixMillis(NOW);
    let no_peers = decide(&bob, &sent, now, &DAY, |_| Err("peers"), |_, _| Ok(false));
    assert_eq!(no_peers, Err("peers"));
    let peer = |_: &PublicKey| Ok(Some("alice".to_owned()));
    let no_set = decide(&bob, &sent, now, &DAY, peer, |_, _| Err("replay set"));
    assert_eq!(no_set, Err("replay set"));
}

#[test]
fn a_failed_check_made_beforehand_counts_like_one_made_here() {
    let bob = identity_of("bob").public();
    let mut sent = message("alice", "x", NOW, MessageKind::Message);
    sent.text.push('!');
    let failed: Result<(), VerifyMessageError> = sent.verify();
    let reason = failed.unwrap_err();
    let decision = decide_verified::<Infallible>(
        &bob,
        &sent,
        failed,
        UnixMillis(NOW),
        &DAY,
        |_| Ok(Some("alice".into())),
        |_, _| Ok(false),
    )
    .unwrap();
    assert_eq!(
        decision.outcome,
        Outcome::Reject(Reject::BadSignature(reason))
    );
}

#[test]
fn a_wrong_clock_is_told_apart_from_a_slow_message() {
    let mut bob = Receiver::bob();
    let early = message("alice", "e", NOW + 60_001, MessageKind::Message);
    assert_eq!(
        bob.receive(&early, NOW).outcome,
        Outcome::Reject(Reject::Stale(Untimely::Ahead { by_ms: 60_001 }))
    );
}
