//! The machine alone and in pairs, over an honest relay.

use interlink::domain::machine::bond::{
    AbortReason, Ending, Failure, Happening, Input, OwnHappening, Phase, Row,
};

use super::world::{CODE, GUEST, HOST, World};

#[test]
fn two_that_share_a_code_meet_and_talk() {
    let mut world = World::met(1);
    let words = |side: usize| {
        world.told[side].iter().find_map(|told| match told {
            Happening::Confirmed { verification } => verification.clone(),
            _ => None,
        })
    };
    assert_eq!(words(HOST), words(GUEST));
    assert!(words(HOST).is_some_and(|words| words.split(' ').count() == 3));
    for n in 0..20 {
        world.say(HOST, &format!("host {n}")).unwrap();
        world.say(GUEST, &format!("guest {n}")).unwrap();
    }
    world.rounds(3, 1_000);
    let expected = |who: &str| (0..20).map(|n| format!("{who} {n}")).collect::<Vec<_>>();
    assert_eq!(world.chats(GUEST), expected("host"));
    assert_eq!(world.chats(HOST), expected("guest"));
    for side in [HOST, GUEST] {
        assert_eq!(world.sides[side].undelivered(), (0, 0));
        let acknowledged = OwnHappening::Acknowledged { chats: 20 };
        assert!(world.own(side).contains(&&acknowledged));
    }
    assert!(world.seen.iter().all(|seen| !seen.contains("host 1")));
}

#[test]
fn a_wrong_code_gets_one_guess_and_both_hear_so() {
    let mut world = World::open(2, CODE, "4821-9037-acorn-almond-amber");
    world.rounds(3, 1_000);
    let aborted = Phase::Over(Ending::Aborted(AbortReason::WrongTag));
    assert_eq!(world.phases(), [aborted; 2]);
    // The guess was the only thing that went over: nobody has a key, nothing was sealed.
    assert_eq!(world.posts, [1, 1], "a refusal and a guess");
    assert!(world.seen.iter().all(|seen| !seen.contains("\"r\":")));
    for side in [HOST, GUEST] {
        let told = &world.told[side];
        let reason = AbortReason::WrongTag;
        assert!(told.contains(&Happening::Aborted { reason }));
        assert!(
            !told
                .iter()
                .any(|h| matches!(h, Happening::Confirmed { .. }))
        );
    }
    // The session is over: the right words come too late.
    assert!(world.say(HOST, "too late").is_err());
}

#[test]
fn nothing_but_a_proof_leaves_before_the_proof() {
    let mut world = World::open(3, CODE, CODE);
    for side in [HOST, GUEST] {
        assert!(world.say(side, "too early").is_err());
        assert!(world.sides[side].may_send(world.now).is_err());
    }
    world.rounds(4, 1_000);
    world.say(HOST, "now").unwrap();
    world.rounds(2, 1_000);
    for posts in &world.posts_before_proof {
        assert!(
            posts.iter().all(|post| post.contains("\"hello\"")),
            "{posts:?}"
        );
    }
    assert_eq!(world.chats(GUEST), ["now"]);
}

#[test]
fn a_session_outlives_its_relay() {
    let mut world = World::met(4);
    world.say(HOST, "before").unwrap();
    world.round(1_000);
    for n in 0..3 {
        let routing = world.sides[HOST].routing();
        world.forget();
        world.say(HOST, &format!("host {n}")).unwrap();
        world.say(GUEST, &format!("guest {n}")).unwrap();
        world.rounds(30, 1_000);
        assert_eq!(world.phases(), [Phase::Confirmed; 2]);
        assert_ne!(world.sides[HOST].routing(), routing);
        assert_eq!(world.sides[HOST].routing(), world.sides[GUEST].routing());
        for side in [HOST, GUEST] {
            assert_eq!(world.sides[side].undelivered(), (0, 0), "{side} {n}");
        }
    }
    assert_eq!(world.chats(GUEST), ["before", "host 0", "host 1", "host 2"]);
    assert_eq!(world.chats(HOST), ["guest 0", "guest 1", "guest 2"]);
    let told = world.own(HOST);
    let count = |what: &OwnHappening| told.iter().filter(|told| **told == what).count();
    assert_eq!(count(&OwnHappening::Interrupted), 3);
    assert_eq!(count(&OwnHappening::Resumed), 3);
}

#[test]
fn a_relay_that_forgets_all_the_time_is_outlived() {
    for (every, rounds) in [(1, 60usize), (2, 90), (7, 300)] {
        let mut world = World::met(13);
        for n in 0..rounds {
            if n % every == 0 {
                world.forget();
            }
            if n % 10 == 0 {
                world.say(HOST, &format!("{n}")).unwrap();
            }
            world.round(1_000);
        }
        world.rounds(120, 1_000);
        assert_eq!(world.phases(), [Phase::Confirmed; 2]);
        assert_eq!(world.chats(GUEST).len(), rounds.div_ceil(10), "{every}");
    }
}

#[test]
fn a_relay_that_lies_to_one_side_is_left_by_both() {
    for liar in [HOST, GUEST] {
        let mut world = World::met(5);
        let failure = Failure::NoSession;
        let request = interlink::domain::machine::bond::Request::Poll;
        world
            .feed(liar, Input::Failed { request, failure })
            .unwrap();
        world.say(HOST, "are you there?").unwrap();
        world.say(GUEST, "and you?").unwrap();
        world.rounds(200, 2_000);
        assert_eq!(world.chats(GUEST), ["are you there?"], "{liar}");
        assert_eq!(world.chats(HOST), ["and you?"], "{liar}");
    }
}

#[test]
fn a_relay_that_counts_messages_is_respected() {
    let mut world = World::met(6);
    world.limit = Some(10);
    for n in 0..60 {
        world.say(HOST, &format!("{n}")).unwrap();
        world.round(500);
    }
    world.rounds(150, 1_000);
    assert_eq!(world.chats(GUEST).len(), 60);
    assert_eq!(world.sides[HOST].undelivered(), (0, 0));
}

#[test]
fn the_end_is_said_under_the_seal_and_carries_the_rest() {
    let mut world = World::met(7);
    world.say(GUEST, "last words").unwrap();
    world.feed(GUEST, Input::End).unwrap();
    world.round(1_000);
    assert_eq!(
        world.phases(),
        [Phase::Over(Ending::PeerGone), Phase::Over(Ending::User)]
    );
    assert_eq!(world.chats(HOST), ["last words"]);
    let undelivered = OwnHappening::Undelivered { chats: 1, files: 0 };
    assert!(world.own(GUEST).contains(&&undelivered), "it cannot know");
}

#[test]
fn what_is_lost_at_the_end_is_told() {
    let mut world = World::met(8);
    world.faults.lose = 100;
    world.say(GUEST, "one").unwrap();
    world.say(GUEST, "two").unwrap();
    world.faults.lose = 0;
    world.meddle = Some(Box::new(|_, message| {
        // Only the last record, the goodbye, gets through.
        if let Some(records) = message.payload.get_mut("r").and_then(|r| r.as_array_mut()) {
            records.drain(..records.len() - 1);
        }
    }));
    world.feed(GUEST, Input::End).unwrap();
    world.round(1_000);
    assert!(world.told[HOST].contains(&Happening::Gap { missed: 2 }));
    assert!(world.rows[HOST].contains(&Row::GapDetected { missed: 2 }));
}

#[test]
fn silence_ends_a_session_after_half_an_hour() {
    let mut world = World::met(9);
    world.faults.lose = 100;
    world.say(HOST, "hello?").unwrap();
    world.rounds(1_000, 2_000);
    assert_eq!(world.phases(), [Phase::Over(Ending::Expired); 2]);
    let undelivered = OwnHappening::Undelivered { chats: 1, files: 0 };
    assert!(world.own(HOST).contains(&&undelivered));
}

#[test]
fn a_quiet_session_lives() {
    let mut world = World::met(10);
    world.rounds(1_500, 5_000);
    assert_eq!(world.phases(), [Phase::Confirmed; 2]);
    assert!(!world.own(HOST).contains(&&OwnHappening::Interrupted));
}

#[test]
fn keys_move_on_under_long_sessions() {
    let mut world = World::met(11);
    for n in 0..700 {
        world.say(HOST, &format!("{n}")).unwrap();
        if n % 50 == 0 {
            world.round(1_000);
        }
    }
    world.rounds(30, 1_000);
    assert_eq!(world.chats(GUEST).len(), 700);
    assert_eq!(world.sides[HOST].undelivered(), (0, 0));
}

#[test]
fn what_two_need_to_pin_each_other_is_handed_over() {
    use interlink::domain::machine::bond::OwnInput;
    let mut world = World::met(12);
    for side in [HOST, GUEST] {
        let bytes = vec![u8::try_from(side).unwrap(); 100];
        world.feed(side, Input::Own(OwnInput::Pin(bytes))).unwrap();
    }
    world.rounds(2, 1_000);
    assert!(world.own(HOST).contains(&&OwnHappening::Pin(vec![1; 100])));
    assert!(world.own(GUEST).contains(&&OwnHappening::Pin(vec![0; 100])));
    let too_large = Input::Own(OwnInput::Pin(vec![0; 4_097]));
    assert!(world.feed(HOST, too_large).is_err());
}
