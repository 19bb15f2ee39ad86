//! Two sessions over a relay that loses, doubles, changes, reflects, delays and refuses.

use interlink::domain::machine::bond::{Carries, Ending, Happening, Phase, Row};
use proptest::prelude::*;
use serde_json::Value;

use super::link::{Fault, GUEST, HOST, Pair};

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Lose),
        1 => Just(Fault::Double),
        1 => Just(Fault::Tamper),
        1 => Just(Fault::Reflect),
        1 => Just(Fault::Late),
        1 => Just(Fault::Refuse),
        1 => Just(Fault::Silent),
    ]
}

/// What the receiver was told to have missed, in messages.
fn told_losses(told: &[Happening]) -> u64 {
    told.iter()
        .map(|happening| match happening {
            Happening::Gap { missed } => *missed,
            Happening::DroppedUnreadable
            | Happening::DroppedMalformed
            | Happening::DroppedStale { .. } => 1,
            _ => 0,
        })
        .sum()
}

/// What each side tried to say, and whether the relay said that it took it.
type Said = [Vec<(String, bool)>; 2];

fn say(pair: &mut Pair, said: &mut Said, side: usize, text: String) {
    let taken = |pair: &Pair| {
        let sent = |row: &&Row| matches!(row, Row::ChatSent { .. });
        pair.rows[side].iter().filter(sent).count()
    };
    let before = taken(pair);
    if pair.say(side, &text).is_ok() {
        said[side].push((text, taken(pair) > before));
    }
}

/// Plays a session: both talk in turns, every message meets its fate.
fn play(seed: u64, faults: Vec<Fault>, turns: &[bool]) -> (Pair, Said) {
    let mut pair = Pair::new(seed, [9, 9]);
    pair.faults = faults;
    pair.meet();
    let mut said = Said::default();
    for (n, guest) in turns.iter().enumerate() {
        pair.round();
        let side = usize::from(*guest);
        say(&mut pair, &mut said, side, format!("plain words {n}"));
    }
    // The relay comes to its senses; whatever is missing shows now.
    pair.faults.clear();
    pair.link.flush();
    for _ in 0..56 {
        pair.round();
    }
    // One after the other: a hole is told for certain once the peer speaks after our own words.
    for (n, side) in [HOST, GUEST, HOST].into_iter().enumerate() {
        say(&mut pair, &mut said, side, format!("last plain words {n}"));
        for _ in 0..3 {
            pair.round();
        }
    }
    (pair, said)
}

fn payload_text(payload: &Value) -> String {
    payload.to_string()
}

fn check(pair: &Pair, said: &Said) -> Result<(), TestCaseError> {
    let over = pair.phases().map(|phase| matches!(phase, Phase::Over(_)));
    let confirmed = pair.phases() == [Phase::Confirmed; 2];
    prop_assert!(confirmed || over == [true; 2], "{:?}", pair.phases());
    for side in [HOST, GUEST] {
        let (heard, told) = (pair.chats(side), &pair.told[side]);
        let spoken = &said[1 - side];
        // Nothing twice, nothing that was not said, nothing of one's own.
        let mut once = heard.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), heard.len(), "{:?}", heard);
        prop_assert!(
            heard
                .iter()
                .all(|text| spoken.iter().any(|(said, _)| said == text))
        );
        // Nothing before the proof.
        let proof = told
            .iter()
            .position(|h| matches!(h, Happening::Confirmed { .. }));
        let first = told
            .iter()
            .position(|h| matches!(h, Happening::Chat { .. }));
        prop_assert!(first.is_none() || proof < first && proof.is_some());
        // Nothing lost in silence.
        if confirmed {
            let lost = spoken
                .iter()
                .filter(|(text, taken)| *taken && !heard.contains(text))
                .count() as u64;
            prop_assert!(lost <= told_losses(told), "{} lost, told {:?}", lost, told);
        }
        // No plaintext, and what is no tag leaves after the proof only (the link asserts that).
        for (kind, payload) in &pair.left[side] {
            prop_assert!(!payload_text(payload).contains("plain"));
            prop_assert!(*kind != Carries::Control);
        }
        prop_assert_eq!(pair.goodbyes[side], usize::from(over[side]));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn both_end_alike_and_nothing_is_lost_in_silence(
        seed in any::<u64>(),
        faults in prop::collection::vec(fault(), 0..40),
        turns in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let (pair, said) = play(seed, faults, &turns);
        check(&pair, &said)?;
    }

    #[test]
    fn an_honest_relay_delivers_everything(
        seed in any::<u64>(),
        turns in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let (pair, said) = play(seed, Vec::new(), &turns);
        check(&pair, &said)?;
        prop_assert_eq!(pair.phases(), [Phase::Confirmed; 2]);
        for side in [HOST, GUEST] {
            let spoken: Vec<String> = said[1 - side].iter().map(|(text, _)| text.clone()).collect();
            prop_assert_eq!(pair.chats(side), spoken);
            prop_assert_eq!(told_losses(&pair.told[side]), 0);
            prop_assert!(!said[side].is_empty());
        }
    }
}

#[test]
fn a_lost_tag_of_either_side_is_made_good() {
    // Faults are taken from the end: the guest's tag comes first.
    for faults in [
        vec![Fault::Lose],
        vec![Fault::Refuse],
        vec![Fault::Silent],
        vec![Fault::Lose, Fault::None],
        vec![Fault::Refuse, Fault::None],
        vec![Fault::Lose, Fault::Lose, Fault::Refuse],
    ] {
        let mut pair = Pair::new(1, [9, 9]);
        pair.faults.clone_from(&faults);
        pair.meet();
        for _ in 0..56 {
            pair.round();
        }
        assert_eq!(pair.phases(), [Phase::Confirmed; 2], "{faults:?}");
        for side in [HOST, GUEST] {
            let proofs = pair.told[side]
                .iter()
                .filter(|h| matches!(h, Happening::Confirmed { .. }))
                .count();
            assert_eq!(proofs, 1, "{faults:?}");
        }
    }
}

#[test]
fn another_code_ends_both_sides() {
    let mut pair = Pair::new(2, [9, 8]);
    pair.meet();
    for _ in 0..4 {
        pair.round();
    }
    assert!(matches!(
        pair.sides[HOST].phase(),
        Phase::Over(Ending::Aborted(_))
    ));
    assert_eq!(pair.sides[GUEST].phase(), Phase::Over(Ending::PeerGone));
    assert!(pair.say(GUEST, "x").is_err());
}

#[test]
fn the_mix_of_faults_leaves_some_sessions_standing_and_ends_some() {
    // Else the property above would prove one half only.
    let all = [
        Fault::None,
        Fault::Lose,
        Fault::None,
        Fault::Tamper,
        Fault::Double,
        Fault::Late,
        Fault::Refuse,
        Fault::Reflect,
        Fault::Silent,
    ];
    let (mut standing, mut ended) = (0, 0);
    for start in 0..all.len() {
        let mut faults = all.to_vec();
        faults.rotate_left(start);
        let (pair, said) = play(3, faults, &[true, false, true, true, false, false]);
        check(&pair, &said).unwrap();
        if pair.phases() == [Phase::Confirmed; 2] {
            standing += 1;
        } else {
            ended += 1;
        }
    }
    assert!(standing > 0 && ended > 0, "{standing} stand, {ended} ended");
}
