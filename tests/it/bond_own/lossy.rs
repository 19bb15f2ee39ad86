//! Two of ours over a relay that loses, doubles, reorders, reflects, changes, refuses, stays silent
//! and forgets: what was accepted arrives exactly once, in order, or the session says why not.

use interlink::domain::machine::bond::{Happening, OwnHappening, Phase};
use interlink::testkit::Rng;
use proptest::prelude::*;

use super::world::{CODE, Faults, GUEST, HOST, World};

fn faults() -> impl Strategy<Value = Faults> {
    let percent = || prop_oneof![2 => Just(0u64), 3 => 1u64..30];
    (
        percent(),
        percent(),
        percent(),
        percent(),
        percent(),
        percent(),
        percent(),
        prop_oneof![2 => Just(0u64), 1 => 1u64..8],
    )
        .prop_map(
            |(lose, double, tamper, reflect, late, refuse, silent, forget)| Faults {
                lose,
                double,
                tamper,
                reflect,
                late,
                refuse,
                silent,
                forget,
            },
        )
}

#[derive(Clone, Debug)]
enum Turn {
    Say(usize),
    Offer(usize, usize),
    Wait(u64),
}

fn turn() -> impl Strategy<Value = Turn> {
    let side = || prop_oneof![Just(HOST), Just(GUEST)];
    prop_oneof![
        5 => side().prop_map(Turn::Say),
        1 => (side(), 0usize..500_000).prop_map(|(side, len)| Turn::Offer(side, len)),
        4 => (100u64..8_000).prop_map(Turn::Wait),
    ]
}

/// Whether every ending of this side has been told.
fn ending_told(world: &World, side: usize) -> bool {
    world.told[side].iter().any(|told| {
        matches!(
            told,
            Happening::Ended
                | Happening::Aborted { .. }
                | Happening::Expired
                | Happening::RelayLost
                | Happening::PeerGone
                | Happening::OpenFailed { .. }
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_and_in_order(
        seed in any::<u64>(),
        faults in faults(),
        turns in prop::collection::vec(turn(), 1..60),
    ) {
        let mut world = World::met(seed);
        world.faults = faults;
        let mut said: [Vec<String>; 2] = Default::default();
        let mut files: [Vec<Vec<u8>>; 2] = Default::default();
        let mut rng = Rng::new(seed);
        for (n, turn) in turns.into_iter().enumerate() {
            match turn {
                Turn::Say(side) => {
                    let text = format!("plain words {n}");
                    world.say(side, &text).expect("there is room");
                    said[side].push(text);
                }
                Turn::Offer(side, len) => {
                    let bytes = rng.bytes(len);
                    world.offer(side, &format!("file-{n}"), bytes.clone());
                    files[side].push(bytes);
                }
                Turn::Wait(ms) => world.round(ms),
            }
        }
        // The relay comes to its senses.
        world.faults = Faults::default();
        world.rounds(900, 1_000);
        prop_assert_eq!(world.phases(), [Phase::Confirmed; 2]);
        for side in [HOST, GUEST] {
            let other = 1 - side;
            prop_assert_eq!(world.chats(other), said[side].iter().collect::<Vec<_>>());
            prop_assert_eq!(world.sides[side].undelivered(), (0, 0));
            let mut arrived: Vec<_> = world.disk[other].whole.values().cloned().collect();
            let mut sent = files[side].clone();
            arrived.sort();
            sent.sort();
            prop_assert!(arrived == sent, "{} of {}", arrived.len(), sent.len());
            prop_assert!(world.disk[side].temporary.is_empty());
            let delivered = world.own(side).into_iter()
                .filter(|told| matches!(told, OwnHappening::FileDelivered { .. }))
                .count();
            prop_assert_eq!(delivered, files[side].len());
        }
        prop_assert!(world.seen.iter().all(|seen| !seen.contains("plain words")));
    }

    #[test]
    fn a_bad_relay_at_the_door_gives_a_session_or_a_reason(
        seed in any::<u64>(),
        faults in faults(),
    ) {
        let mut world = World::open(seed, CODE, CODE);
        world.faults = faults;
        world.rounds(40, 2_000);
        world.faults = Faults::default();
        let early = world.say(HOST, "plain words").is_ok();
        world.rounds(300, 2_000);
        for side in [HOST, GUEST] {
            let phase = world.sides[side].phase();
            match phase {
                Phase::Confirmed => {}
                Phase::Over(_) => prop_assert!(ending_told(&world, side)),
                _ => prop_assert!(false, "{side} hangs in {phase:?}"),
            }
            let proven = world.told[side].iter()
                .any(|told| matches!(told, Happening::Confirmed { .. }));
            prop_assert!(proven || world.chats(side).is_empty());
            for post in &world.posts_before_proof[side] {
                let proof = post.contains("\"hello\"") || post.contains("\"refused\"");
                prop_assert!(proof || proven, "{post}");
            }
        }
        if world.phases() == [Phase::Confirmed; 2] && early {
            prop_assert_eq!(world.chats(GUEST), ["plain words"]);
        }
        prop_assert!(world.seen.iter().all(|seen| !seen.contains("plain words")));
    }
}
