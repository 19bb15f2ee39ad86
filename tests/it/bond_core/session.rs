//! The rules of a session, one by one.

use interlink::domain::machine::bond::{
    AbortReason, Action, Delivery, Dropped, Ending, Failure, Happening, Input, MAX_OFFERS, Phase,
    Polled, Refusal, RelayOddity, Request, Role, Row, SESSION_TTL_MS, SendError, Session,
    StepError,
};
use interlink::testkit::SeededEntropy;
use interlink::types::entropy::{Entropy, EntropyError};
use interlink::types::secret::Secret;
use interlink::wire::bond::code::SessionCode;
use serde_json::{Value, json};

use super::link::{GUEST, HOST, Kept, Pair, START, derived, policy};

fn refused(outcome: Result<(), StepError>) -> SendError {
    match outcome {
        Err(StepError::Send(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn count(pair: &Pair, side: usize, wanted: &Happening) -> usize {
    pair.told[side].iter().filter(|h| *h == wanted).count()
}

fn dropped(pair: &Pair, side: usize, reason: Dropped) -> usize {
    let row = Row::PacketDropped { reason };
    pair.rows[side].iter().filter(|r| **r == row).count()
}

/// Hands a side one more message, out of turn.
fn inject(pair: &mut Pair, side: usize, from: &str, payload: Value) {
    pair.link.push(from, payload);
    pair.give(side, Input::Tick).unwrap();
}

fn last_payload(pair: &Pair, side: usize) -> Value {
    pair.left[side].last().unwrap().1.clone()
}

fn id_of(pair: &Pair, side: usize) -> String {
    pair.sides[side].me().to_string()
}

#[test]
fn the_handshake_takes_one_poll_of_each_and_yields_one_key() {
    let mut pair = Pair::new(1, [9, 9]);
    assert_eq!(pair.phases(), [Phase::Opening; 2]);
    pair.meet();
    assert_eq!(pair.phases(), [Phase::Waiting, Phase::Keyed]);
    assert_eq!(count(&pair, HOST, &Happening::Opened), 1);
    pair.give(HOST, Input::Tick).unwrap();
    assert_eq!(pair.phases(), [Phase::Confirmed, Phase::Keyed]);
    pair.give(GUEST, Input::Tick).unwrap();
    assert_eq!(pair.phases(), [Phase::Confirmed; 2]);
    pair.send(HOST, "a.js", "one").unwrap();
    pair.send(GUEST, "b.js", "two").unwrap();
    pair.round();
    for (side, name, content) in [(GUEST, "a.js", "one"), (HOST, "b.js", "two")] {
        let offers = pair.sides[side].offers();
        assert_eq!(offers.len(), 1);
        assert_eq!(
            (offers[0].name.as_str(), offers[0].note.as_str()),
            (name, "a note")
        );
        assert_eq!(offers[0].content.expose(), content.as_bytes());
        let bad = pair.told[side].iter().any(|h| {
            matches!(
                h,
                Happening::Aborted { .. } | Happening::Gap { .. } | Happening::DroppedUnreadable
            )
        });
        assert!(!bad, "{:?}", pair.told[side]);
    }
}

#[test]
fn nothing_but_a_tag_leaves_before_the_proof() {
    let mut pair = Pair::new(1, [9, 9]);
    assert_eq!(refused(pair.say(HOST, "x")), SendError::NotConfirmed);
    pair.meet();
    for side in [HOST, GUEST] {
        assert_eq!(refused(pair.say(side, "x")), SendError::NotConfirmed);
        assert_eq!(
            refused(pair.send(side, "a.js", "x")),
            SendError::NotConfirmed
        );
    }
    // The host is confirmed, but its own tag is refused: the guest could not read words yet.
    pair.faults = vec![super::link::Fault::Refuse];
    pair.give(HOST, Input::Tick).unwrap();
    assert_eq!(pair.sides[HOST].phase(), Phase::Keyed);
    assert_eq!(refused(pair.say(HOST, "x")), SendError::NotConfirmed);
    pair.round();
    pair.round();
    assert_eq!(pair.phases(), [Phase::Confirmed; 2]);
    pair.say(HOST, "x").unwrap();
}

#[test]
fn a_relay_that_swaps_keys_is_found_out() {
    let mut pair = Pair::new(1, [9, 9]);
    pair.meet();
    // The relay's own key in place of the guest's.
    let swapped = "09".to_owned() + &"00".repeat(31);
    let Kept { payload, .. } = &mut pair.link.kept[0];
    payload["publicKey"] = swapped.into();
    pair.give(HOST, Input::Tick).unwrap();
    let reason = AbortReason::Decryption;
    assert_eq!(
        pair.sides[HOST].phase(),
        Phase::Over(Ending::Aborted(reason))
    );
    assert_eq!(count(&pair, HOST, &Happening::Aborted { reason }), 1);
    assert_eq!(pair.goodbyes[HOST], 1);
    assert!(reason.name().contains("decryption"));
}

#[test]
fn a_key_that_contributes_nothing_is_refused() {
    let entropy = SeededEntropy::new(1);
    for (host_key, posts) in [("00".repeat(32), 0), ("zz".into(), 0), ("AB".repeat(32), 0)] {
        let (mut guest, _) =
            Session::open(Role::Guest, derived(1), policy(), START, &entropy).unwrap();
        let out = guest
            .step(START, Input::Joined { host_key }, &entropy)
            .unwrap();
        let sent = out
            .iter()
            .filter(|a| matches!(a, Action::Post { .. }))
            .count();
        assert_eq!(sent, posts);
        assert!(out.iter().any(|a| matches!(a, Action::Goodbye)));
        let ending = Ending::Aborted(AbortReason::BadKey);
        assert_eq!(guest.phase(), Phase::Over(ending));
    }
}

#[test]
fn what_a_relay_hands_back_is_not_the_peers() {
    let mut pair = Pair::confirmed(3);
    pair.say(HOST, "my own words").unwrap();
    let (mine, guest) = (last_payload(&pair, HOST), id_of(&pair, GUEST));
    inject(&mut pair, HOST, &guest, mine);
    assert!(pair.chats(HOST).is_empty());
    assert_eq!(dropped(&pair, HOST, Dropped::Reflected), 1);
    let what = RelayOddity::Reflection;
    assert_eq!(count(&pair, HOST, &Happening::RelayOdd { what }), 1);
    assert_eq!(pair.sides[HOST].phase(), Phase::Confirmed);
}

#[test]
fn a_guest_that_gets_its_own_tag_back_goes_on() {
    let mut pair = Pair::new(3, [9, 9]);
    pair.meet();
    let (tag, host) = (last_payload(&pair, GUEST), id_of(&pair, HOST));
    inject(&mut pair, GUEST, &host, tag);
    assert_eq!(pair.sides[GUEST].phase(), Phase::Keyed);
    assert_eq!(dropped(&pair, GUEST, Dropped::Reflected), 1);
    pair.round();
    pair.round();
    assert_eq!(pair.phases(), [Phase::Confirmed; 2]);
}

#[test]
fn a_replay_is_heard_once_and_harms_nothing() {
    let mut pair = Pair::confirmed(4);
    pair.say(HOST, "once").unwrap();
    let (words, host) = (last_payload(&pair, HOST), id_of(&pair, HOST));
    pair.round();
    inject(&mut pair, GUEST, &host, words);
    assert_eq!(pair.chats(GUEST), ["once"]);
    assert_eq!(dropped(&pair, GUEST, Dropped::Replay), 1);
    assert_eq!(pair.sides[GUEST].phase(), Phase::Confirmed);
}

#[test]
fn garbage_ends_an_unproven_session_and_is_dropped_by_a_proven_one() {
    let mut pair = Pair::confirmed(5);
    let host = id_of(&pair, HOST);
    inject(&mut pair, GUEST, &host, json!({ "v": 2 }));
    inject(&mut pair, GUEST, &host, Value::Null);
    assert_eq!(pair.sides[GUEST].phase(), Phase::Confirmed);
    assert_eq!(count(&pair, GUEST, &Happening::DroppedUnreadable), 2);

    let mut pair = Pair::new(5, [9, 9]);
    pair.meet();
    let host = id_of(&pair, HOST);
    inject(&mut pair, GUEST, &host, json!("garbage"));
    let ending = Ending::Aborted(AbortReason::Decryption);
    assert_eq!(pair.sides[GUEST].phase(), Phase::Over(ending));
}

#[test]
fn clocks_that_differ_are_told_of() {
    let mut pair = Pair::new(6, [9, 9]);
    pair.skew = 7 * 60_000;
    pair.meet();
    pair.give(HOST, Input::Tick).unwrap();
    assert_eq!(pair.sides[HOST].phase(), Phase::Keyed);
    let clock_difference_ms = 7 * 60_000;
    let stale = Happening::DroppedStale {
        clock_difference_ms,
    };
    assert_eq!(count(&pair, HOST, &stale), 1);
}

#[test]
fn a_gap_moves_the_place_and_is_told_but_not_for_our_own() {
    let mut pair = Pair::confirmed(7);
    pair.say(HOST, "mine").unwrap();
    let at = pair.link.next;
    pair.link.next = at + 5;
    pair.link.oldest = at + 5;
    pair.link.kept.clear();
    let actions = {
        pair.give(HOST, Input::Tick).unwrap();
        pair.give(GUEST, Input::Tick).unwrap();
        pair.sides[HOST]
            .step(pair.now, Input::Tick, &pair.entropy)
            .unwrap()
    };
    let polls = actions
        .iter()
        .any(|a| matches!(a, Action::Poll { since } if *since == at + 4));
    assert!(polls, "{actions:?}");
    // The host's place was before its own message: that one is not missed.
    assert_eq!(
        count(&pair, HOST, &Happening::Gap { missed: 4 }),
        1,
        "{:?}",
        pair.told[HOST]
    );
    assert_eq!(
        count(&pair, GUEST, &Happening::Gap { missed: 5 }),
        1,
        "{:?}",
        pair.told[GUEST]
    );
}

#[test]
fn a_relay_cannot_push_the_place_out_of_sight() {
    let mut pair = Pair::confirmed(8);
    let since = pair.link.next;
    let push = Delivery {
        from: "system".into(),
        seq: 1 << 50,
        payload: Value::Null,
    };
    let polled = |oldest| Polled {
        messages: vec![push.clone()],
        oldest_seq: Some(oldest),
        disconnected: false,
    };
    for oldest in [1, 1 << 50] {
        pair.give(GUEST, Input::Polled(polled(oldest))).unwrap();
    }
    let what = RelayOddity::CursorPush;
    assert_eq!(count(&pair, GUEST, &Happening::RelayOdd { what }), 1);
    let out = pair.sides[GUEST]
        .step(pair.now, Input::Tick, &pair.entropy)
        .unwrap();
    assert!(matches!(out.last(), Some(Action::Poll { since: s }) if *s == since));
}

#[test]
fn a_quiet_confirmed_pair_lives_on_and_an_unused_code_does_not() {
    let mut pair = Pair::confirmed(9);
    for _ in 0..(2 * SESSION_TTL_MS / 5_000) {
        pair.round();
    }
    assert_eq!(pair.phases(), [Phase::Confirmed; 2]);
    pair.now = pair.now.plus(SESSION_TTL_MS);
    assert_eq!(
        refused(pair.say(HOST, "x")),
        SendError::Over(Ending::Expired)
    );
    pair.give(HOST, Input::Tick).unwrap();
    assert_eq!(pair.sides[HOST].phase(), Phase::Over(Ending::Expired));
    assert_eq!(count(&pair, HOST, &Happening::Expired), 1);
    assert_eq!(pair.goodbyes[HOST], 1);

    let entropy = SeededEntropy::new(9);
    let (mut host, _) = Session::open(Role::Host, derived(1), policy(), START, &entropy).unwrap();
    host.step(START, Input::Created, &entropy).unwrap();
    let mut now = START;
    for _ in 0..(SESSION_TTL_MS / 5_000) {
        now = now.plus(5_000);
        host.step(now, Input::Polled(Polled::default()), &entropy)
            .unwrap();
    }
    assert_eq!(host.phase(), Phase::Over(Ending::Expired));
}

#[test]
fn the_cooldown_is_shared_and_started_by_success_only() {
    let mut pair = Pair::confirmed(10);
    pair.faults = vec![super::link::Fault::Refuse];
    pair.say(HOST, "refused").unwrap();
    pair.say(HOST, "taken").unwrap();
    let error = refused(pair.send(HOST, "a.js", "x"));
    assert_eq!(error, SendError::Cooldown { left_ms: 10_000 });
    pair.now = pair.now.plus(9_001);
    let error = refused(pair.say(HOST, "x"));
    assert_eq!(error.to_string(), "too soon: wait 1 s");
    pair.now = pair.now.plus(999);
    pair.send(HOST, "a.js", "x").unwrap();
}

#[test]
fn words_are_bounded_and_never_empty() {
    let mut pair = Pair::confirmed(11);
    assert_eq!(refused(pair.say(HOST, "")), SendError::Empty);
    let long = "\u{1f600}".repeat(2_001);
    assert_eq!(
        refused(pair.say(HOST, &long)),
        SendError::TooLong { units: 4_002 }
    );
    pair.say(HOST, &"\u{1f600}".repeat(2_000)).unwrap();
}

#[test]
fn the_budget_is_given_back_when_sending_fails() {
    let mut pair = Pair::confirmed(12);
    let full = "x".repeat(1_000);
    for n in 0..8 {
        pair.faults = vec![super::link::Fault::Refuse];
        pair.send(HOST, "a.js", &full).unwrap();
        pair.send(HOST, "a.js", &full)
            .unwrap_or_else(|e| panic!("{n}: {e}"));
        pair.now = pair.now.plus(10_000);
    }
    let error = refused(pair.send(HOST, "a.js", "x"));
    assert_eq!(error, SendError::File(Refusal::Budget));
    let error = refused(pair.send(HOST, "a.js", &(full + "x")));
    assert_eq!(error, SendError::File(Refusal::TooLarge));
    assert_eq!(
        refused(pair.send(HOST, "a.exe", "x")),
        SendError::File(Refusal::Type)
    );
}

#[test]
fn offers_are_checked_bounded_and_named_by_us() {
    let mut pair = Pair::confirmed(13);
    // The peer's own rules are laxer than ours.
    let lax = interlink::domain::machine::bond::Policy {
        max_file_bytes: 1 << 20,
        name_rule: |_| Ok(()),
    };
    let mut ids = Vec::new();
    for (name, content, why) in [
        ("a.exe", "x".into(), Some(Refusal::Type)),
        ("credentials.json", "x".into(), Some(Refusal::BlockedName)),
        ("big.js", "x".repeat(1_001), Some(Refusal::TooLarge)),
        ("a.js", String::new(), None),
    ] {
        let mut pair = Pair::confirmed(13);
        pair.sides[HOST] = std::mem::replace(&mut pair.sides[HOST], fresh()).with_policy(lax);
        pair.send(HOST, name, &content).unwrap();
        pair.round();
        let rejected = pair.told[GUEST].iter().find_map(|h| match h {
            Happening::Rejected { why } => Some(*why),
            _ => None,
        });
        assert_eq!(rejected, why, "{name}");
        assert_eq!(pair.sides[GUEST].offers().len(), usize::from(why.is_none()));
    }
    for n in 0..=MAX_OFFERS {
        pair.now = pair.now.plus(10_000);
        pair.send(HOST, "same.js", &n.to_string()).unwrap();
        pair.round();
    }
    ids.extend(pair.sides[GUEST].offers().iter().map(|o| o.id.clone()));
    assert_eq!(ids.len(), MAX_OFFERS);
    let why = Refusal::TooManyPending;
    assert_eq!(count(&pair, GUEST, &Happening::Rejected { why }), 1);
    let host = id_of(&pair, HOST);
    assert!(ids.iter().all(|id| !host.contains(id.as_str())));
    assert_eq!(
        pair.sides[GUEST].offer(&ids[0]).unwrap().content.expose(),
        b"0"
    );
    let (first, second) = (ids[0].clone(), ids[1].clone());
    pair.give(GUEST, Input::Accepted { id: first.clone() })
        .unwrap();
    pair.give(GUEST, Input::Declined { id: second }).unwrap();
    assert!(pair.give(GUEST, Input::Accepted { id: first }).is_err());
    // What waits outlives the channel, not the session.
    pair.give(HOST, Input::End).unwrap();
    pair.round();
    assert_eq!(pair.sides[GUEST].phase(), Phase::Over(Ending::PeerGone));
    assert_eq!(pair.sides[GUEST].offers().len(), MAX_OFFERS - 2);
    pair.give(GUEST, Input::End).unwrap();
    assert!(pair.sides[GUEST].offers().is_empty());
}

fn fresh() -> Session {
    let entropy = SeededEntropy::new(99);
    Session::open(Role::Host, derived(1), policy(), START, &entropy)
        .unwrap()
        .0
}

#[test]
fn the_end_needs_nobody_and_says_goodbye_once() {
    for side in [HOST, GUEST] {
        let mut pair = Pair::confirmed(14);
        let out = pair.sides[side]
            .step(pair.now, Input::End, &NoEntropy)
            .unwrap();
        let goodbyes = |out: &[Action]| out.iter().filter(|a| matches!(a, Action::Goodbye)).count();
        assert_eq!(goodbyes(&out), 1);
        assert_eq!(pair.sides[side].phase(), Phase::Over(Ending::User));
        for input in [Input::End, Input::Tick] {
            let out = pair.sides[side].step(pair.now, input, &NoEntropy).unwrap();
            assert!(out.is_empty(), "{out:?}");
        }
        assert_eq!(refused(pair.say(side, "x")), SendError::Over(Ending::User));
    }
}

struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, _: &mut [u8]) -> Result<(), EntropyError> {
        Err(EntropyError {
            reason: "none".into(),
        })
    }
}

#[test]
fn without_randomness_nothing_is_lost() {
    let mut pair = Pair::confirmed(15);
    pair.say(HOST, "later").unwrap();
    assert!(
        pair.sides[HOST]
            .step(pair.now.plus(10_000), Input::Say("x".into()), &NoEntropy)
            .is_err()
    );
    let kept = pair.link.kept.last().unwrap();
    let polled = Polled {
        messages: vec![Delivery {
            from: kept.from.clone(),
            seq: kept.seq,
            payload: kept.payload.clone(),
        }],
        ..Polled::default()
    };
    let out = pair.sides[GUEST]
        .step(pair.now, Input::Polled(polled), &NoEntropy)
        .unwrap();
    assert!(out.is_empty());
    pair.round();
    assert_eq!(pair.chats(GUEST), ["later"]);
}

#[test]
fn a_relay_that_forgot_the_session_is_told_of() {
    let mut pair = Pair::confirmed(16);
    pair.link.gone = true;
    pair.round();
    assert_eq!(pair.phases(), [Phase::Over(Ending::RelayLost); 2]);
    assert_eq!(count(&pair, HOST, &Happening::RelayLost), 1);
    for failure in [Failure::NotAMember, Failure::NoSession] {
        let mut pair = Pair::confirmed(16);
        let request = Request::Poll;
        pair.give(HOST, Input::Failed { request, failure }).unwrap();
        assert_eq!(pair.sides[HOST].phase(), Phase::Over(Ending::RelayLost));
    }
    let mut pair = Pair::confirmed(16);
    for failure in [
        Failure::Unreachable,
        Failure::Refused { status: 500 },
        Failure::Limited { retry_after_ms: 5 },
    ] {
        let request = Request::Poll;
        pair.give(HOST, Input::Failed { request, failure }).unwrap();
    }
    assert_eq!(pair.sides[HOST].phase(), Phase::Confirmed);
}

#[test]
fn a_session_that_never_opened_is_over() {
    let entropy = SeededEntropy::new(17);
    for (role, request) in [(Role::Host, Request::Create), (Role::Guest, Request::Join)] {
        for (failure, goodbye) in [(Failure::Full, 0), (Failure::Unreachable, 1)] {
            let (mut session, _) =
                Session::open(role, derived(1), policy(), START, &entropy).unwrap();
            let out = session
                .step(START, Input::Failed { request, failure }, &entropy)
                .unwrap();
            assert_eq!(session.phase(), Phase::Over(Ending::OpenFailed(failure)));
            let said = out.iter().filter(|a| matches!(a, Action::Goodbye)).count();
            assert_eq!(said, goodbye);
        }
    }
}

#[test]
fn system_messages_are_believed_only_where_they_fit() {
    let mut pair = Pair::confirmed(18);
    let (host, stranger) = (id_of(&pair, HOST), "ab".repeat(32));
    for who in [host.clone(), stranger.clone(), "junk".into()] {
        inject(
            &mut pair,
            HOST,
            "system",
            json!({ "type": "disconnect", "peerId": who }),
        );
    }
    inject(
        &mut pair,
        HOST,
        "system",
        json!({ "type": "later", "x": 1 }),
    );
    inject(&mut pair, HOST, "system", json!([]));
    let joined = json!({ "type": "peer_joined", "peerId": stranger, "publicKey": "09".repeat(32) });
    inject(&mut pair, HOST, "system", joined.clone());
    inject(&mut pair, HOST, "system", joined);
    assert_eq!(pair.sides[HOST].phase(), Phase::Confirmed);
    assert_eq!(count(&pair, HOST, &Happening::SecondJoiner), 1);
    let guest = id_of(&pair, GUEST);
    inject(
        &mut pair,
        HOST,
        "system",
        json!({ "type": "disconnect", "peerId": guest }),
    );
    assert_eq!(pair.sides[HOST].phase(), Phase::Over(Ending::PeerGone));
    assert_eq!(pair.sides[HOST].members(), 1);
}

#[test]
fn a_waiting_host_ignores_junk_joiners() {
    let entropy = SeededEntropy::new(19);
    let (mut host, _) = Session::open(Role::Host, derived(1), policy(), START, &entropy).unwrap();
    host.step(START, Input::Created, &entropy).unwrap();
    let joined = |seq, id: &str, key: &str| Delivery {
        from: "system".into(),
        seq,
        payload: json!({ "type": "peer_joined", "peerId": id, "publicKey": key }),
    };
    let me = host.me().to_string();
    let messages = vec![
        joined(1, "short", &"09".repeat(32)),
        joined(2, &"ab".repeat(32), "AA"),
        joined(3, &me, &"09".repeat(32)),
    ];
    let polled = Polled {
        messages,
        ..Polled::default()
    };
    host.step(START, Input::Polled(polled), &entropy).unwrap();
    assert_eq!(host.phase(), Phase::Waiting);
}

#[test]
fn codes_are_drawn_evenly_and_never_shown_by_accident() {
    let entropy = SeededEntropy::new(20);
    let mut seen = std::collections::BTreeMap::<char, u32>::new();
    for _ in 0..2_000 {
        let code = SessionCode::generate(&entropy).unwrap();
        let again: SessionCode = code.reveal().parse().unwrap();
        assert_eq!(again.reveal(), code.reveal());
        let shown = format!("{code} {code:?}");
        assert!(!shown.contains(code.reveal()));
        for c in code.reveal().chars().filter(|c| *c != '-') {
            *seen.entry(c).or_default() += 1;
        }
    }
    assert_eq!(seen.len(), 58);
    // 24,000 draws, some 414 a symbol; six standard deviations are 122.
    assert!(seen.values().all(|n| (292..=536).contains(n)), "{seen:?}");
}

#[test]
fn secrets_are_erased_and_not_printed() {
    const fn erased<T: zeroize::ZeroizeOnDrop>() {}
    const {
        erased::<interlink::crypto::agree::EphemeralSecret>();
        erased::<interlink::crypto::agree::SharedSecret>();
        erased::<interlink::crypto::kdf::CodeKey>();
        erased::<interlink::crypto::aead::SealKey>();
        erased::<SessionCode>();
        erased::<Secret<Vec<u8>>>();
    }
    let pair = Pair::confirmed(21);
    let session = format!("{:?}", pair.sides[HOST]);
    let full = id_of(&pair, HOST);
    assert!(
        !session.contains(&full) && !session.contains(&"07".repeat(32)),
        "{session}"
    );
    fn consumed(secret: interlink::crypto::agree::EphemeralSecret) -> String {
        format!("{secret:?}")
    }
    let entropy = SeededEntropy::new(22);
    let secret = interlink::crypto::agree::EphemeralSecret::generate(&entropy).unwrap();
    assert!(consumed(secret).contains("secret hidden"));
}

#[test]
fn nothing_of_one_session_reaches_the_next() {
    // The guest leaves while the host's tag is still being refused; the same code is used again.
    let mut old = Pair::new(23, [9, 9]);
    old.meet();
    old.faults = vec![super::link::Fault::Refuse; 3];
    old.give(HOST, Input::Tick).unwrap();
    old.give(HOST, Input::End).unwrap();
    let kept = old.left[GUEST].clone();
    let mut new = Pair::confirmed(24);
    let host = id_of(&new, HOST);
    for (_, payload) in kept {
        inject(&mut new, GUEST, &host, payload);
    }
    assert_eq!(dropped(&new, GUEST, Dropped::Undecryptable), 1);
    let out = old.sides[HOST].step(old.now, Input::Tick, &old.entropy);
    assert!(out.unwrap().is_empty());
    assert_eq!(new.phases(), [Phase::Confirmed; 2]);
}

#[test]
fn what_is_remembered_of_nonces_is_bounded_and_nothing_fresh_is_forgotten() {
    use interlink::domain::machine::bond::replay::{MAX_NONCES, Replay};
    let mut replay = Replay::default();
    let nonce = |n: usize| (n as u128).to_be_bytes();
    let at = START.0 as f64;
    for n in 0..MAX_NONCES {
        replay.accept(START, Some(nonce(n)), Some(at)).unwrap();
    }
    let full = replay.accept(START, Some(nonce(MAX_NONCES)), Some(at));
    assert_eq!(full.unwrap_err().reason, Dropped::Full);
    let again = replay.accept(START, Some(nonce(0)), Some(at));
    assert_eq!(again.unwrap_err().reason, Dropped::Replay);
    // Once the old ones could not pass by their time, there is room again.
    let later = START.plus(300_001);
    replay
        .accept(later, Some(nonce(MAX_NONCES)), Some(at + 300_001.0))
        .unwrap();
}

#[test]
fn a_clock_set_back_starts_the_spans_anew() {
    let mut pair = Pair::confirmed(25);
    pair.say(HOST, "x").unwrap();
    pair.now = pair.now.minus(3_600_000);
    pair.give(HOST, Input::Tick).unwrap();
    assert!(pair.sides[HOST].cooldown_ms(pair.now) <= 10_000);
    pair.now = pair.now.plus(10_000);
    pair.say(HOST, "y").unwrap();
    assert!(pair.sides[HOST].expires_at() <= pair.now.plus(SESSION_TTL_MS));
}
