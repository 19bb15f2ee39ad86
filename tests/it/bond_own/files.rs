//! Files: asked for, moved, checked, stopped.

use interlink::crypto::hash::sha256;
use interlink::domain::machine::bond::SESSION_TTL_MS;
use interlink::domain::machine::bond::own::{CHUNK_BYTES, SILENCE_MS};
use interlink::domain::machine::bond::{
    Happening, Input, LocalFile, OutgoingFile, OwnHappening, OwnInput, Phase, Refusal, Row,
    TransferFailure,
};
use interlink::testkit::Rng;
use interlink::types::secret::Secret;

use super::world::{GUEST, HOST, World};

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

fn failure(world: &World, side: usize) -> Option<TransferFailure> {
    world.own(side).into_iter().find_map(|told| match told {
        OwnHappening::FileFailed { why, .. } => Some(*why),
        _ => None,
    })
}

fn delivered(world: &World, side: usize) -> usize {
    let is = |told: &&OwnHappening| matches!(told, OwnHappening::FileDelivered { .. });
    world.own(side).into_iter().filter(is).count()
}

#[test]
fn files_of_any_size_and_content_arrive_whole() {
    for (n, len) in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 9 * CHUNK_BYTES + 7]
        .into_iter()
        .enumerate()
    {
        let mut world = World::met(30);
        let content = bytes(n as u64, len);
        world.offer(GUEST, "thing.bin", content.clone());
        world.rounds(20, 1_000);
        let id = world.offered(HOST);
        assert_eq!(world.disk[HOST].whole.get(&id), Some(&content), "{len}");
        assert!(world.disk[HOST].largest_chunk <= CHUNK_BYTES);
        assert_eq!(delivered(&world, GUEST), 1);
        assert!(
            world
                .own(HOST)
                .contains(&&OwnHappening::FileReceived { id })
        );
        assert!(world.disk[GUEST].local.is_empty(), "released");
        assert!(world.disk[HOST].temporary.is_empty());
        assert_eq!(world.sides[GUEST].undelivered(), (0, 0));
        let sent = |row: &&Row| matches!(row, Row::FileSent { .. });
        assert_eq!(world.rows[GUEST].iter().filter(sent).count(), 1);
    }
}

#[test]
fn several_files_and_words_go_both_ways_at_once() {
    let mut world = World::met(31);
    let content = |n: u64| bytes(n, 300_000 + usize::try_from(n).unwrap());
    for n in 0..3 {
        world.offer(HOST, &format!("host-{n}"), content(n));
        world.offer(GUEST, &format!("guest-{n}"), content(10 + n));
        world.say(HOST, &format!("{n}")).unwrap();
    }
    let text = OutgoingFile {
        name: "note.md".to_owned(),
        content: "# held in memory\n".repeat(40_000),
        note: String::new(),
    };
    world.feed(HOST, Input::SendFile(text.clone())).unwrap();
    let held = Input::Own(OwnInput::OfferContent {
        name: "held.bin".to_owned(),
        content: Secret::new(bytes(77, 600_000)),
        note: String::new(),
    });
    world.feed(HOST, held).unwrap();
    world.rounds(40, 1_000);
    let stored = |side: usize| world.disk[side].whole.values().cloned().collect::<Vec<_>>();
    let (at_guest, at_host) = (stored(GUEST), stored(HOST));
    assert_eq!((at_guest.len(), at_host.len()), (5, 3));
    for n in 0..3 {
        assert!(at_guest.contains(&content(n)));
        assert!(at_host.contains(&content(10 + n)));
    }
    assert!(at_guest.contains(&text.content.into_bytes()));
    assert!(at_guest.contains(&bytes(77, 600_000)));
    assert_eq!(world.chats(GUEST), ["0", "1", "2"]);
}

#[test]
fn nothing_moves_before_the_human_said_so() {
    let mut world = World::met(32);
    world.accept = false;
    world.offer(HOST, "thing.bin", bytes(1, 500_000));
    world.rounds(20, 1_000);
    assert_eq!(world.disk[GUEST].largest_chunk, 0);
    let [offer] = world.sides[GUEST].offers() else {
        panic!("one offer waits");
    };
    assert_eq!((offer.name.as_str(), offer.size), ("thing.bin", 500_000));
    assert_eq!(offer.note, "about thing.bin");
    assert_eq!(offer.sha256, sha256(&bytes(1, 500_000)));
    let before: usize = world.seen.iter().map(String::len).sum();
    assert!(before < 50_000, "only the offer went over: {before}");
    let id = world.offered(GUEST);
    world
        .feed(GUEST, Input::Accepted { id: id.clone() })
        .unwrap();
    world.rounds(20, 1_000);
    assert_eq!(world.disk[GUEST].whole[&id].len(), 500_000);
    assert!(world.feed(GUEST, Input::Accepted { id }).is_err(), "once");
}

#[test]
fn a_refusal_is_told_to_the_sender() {
    let mut world = World::met(33);
    world.accept = false;
    world.offer(HOST, "thing.bin", bytes(1, 500_000));
    world.rounds(3, 1_000);
    let id = world.offered(GUEST);
    world.feed(GUEST, Input::Declined { id }).unwrap();
    world.rounds(3, 1_000);
    let declined =
        |told: &&OwnHappening| matches!(told, OwnHappening::FileAnswered { taken: false, .. });
    assert_eq!(world.own(HOST).into_iter().filter(declined).count(), 1);
    assert!(world.disk[HOST].local.is_empty(), "released");
    assert_eq!(world.sides[HOST].undelivered(), (0, 0));
    assert!(world.sides[GUEST].offers().is_empty());
}

#[test]
fn a_moving_file_can_be_stopped_from_either_end() {
    for side in [HOST, GUEST] {
        let mut world = World::met(34);
        // Slow enough to stop it in between.
        world.limit = Some(3);
        world.offer(HOST, "large.bin", bytes(1, 12 << 20));
        world.rounds(8, 1_000);
        let id = match side {
            HOST => world.disk[HOST].local.keys().next().unwrap().clone(),
            _ => world.offered(GUEST),
        };
        assert!(!world.disk[GUEST].temporary.is_empty(), "it moves");
        world
            .feed(side, Input::Own(OwnInput::Cancel { id }))
            .unwrap();
        world.limit = None;
        world.rounds(120, 1_000);
        for side in [HOST, GUEST] {
            assert!(failure(&world, side).is_some(), "{side}");
            assert!(world.disk[side].temporary.is_empty());
            assert!(world.disk[side].whole.is_empty());
        }
        assert!(world.disk[HOST].local.is_empty());
        // The session goes on.
        world.say(HOST, "never mind").unwrap();
        world.rounds(3, 1_000);
        assert_eq!(world.chats(GUEST), ["never mind"]);
    }
}

#[test]
fn a_file_that_changed_under_way_is_not_kept() {
    let mut world = World::met(35);
    world.accept = false;
    world.offer(HOST, "thing.bin", bytes(1, 400_000));
    let id = world.disk[HOST].local.keys().next().unwrap().clone();
    world.disk[HOST].local.insert(id, bytes(2, 400_000));
    world.rounds(2, 1_000);
    let id = world.offered(GUEST);
    world.feed(GUEST, Input::Accepted { id }).unwrap();
    world.rounds(10, 1_000);
    assert_eq!(failure(&world, GUEST), Some(TransferFailure::WrongContent));
    assert_eq!(failure(&world, HOST), Some(TransferFailure::NotStored));
    assert!(world.disk[GUEST].whole.is_empty() && world.disk[GUEST].temporary.is_empty());
}

#[test]
fn a_file_that_cannot_be_read_any_more_is_taken_back() {
    let mut world = World::met(36);
    world.offer(HOST, "thing.bin", bytes(1, 400_000));
    world.disk[HOST].local.clear();
    world.rounds(10, 1_000);
    assert_eq!(failure(&world, HOST), Some(TransferFailure::Unreadable));
    assert_eq!(failure(&world, GUEST), Some(TransferFailure::Withdrawn));
}

#[test]
fn a_file_that_changed_since_it_was_offered_is_taken_back_and_its_sender_knows_why() {
    let mut world = World::met(40);
    world.accept = false;
    world.offer(HOST, "thing.bin", bytes(1, 400_000));
    world.rounds(2, 1_000);
    let id = world.disk[HOST].local.keys().next().unwrap().clone();
    world
        .feed(HOST, Input::Own(OwnInput::Changed { id }))
        .unwrap();
    world.rounds(3, 1_000);
    assert_eq!(failure(&world, HOST), Some(TransferFailure::Changed));
    assert_eq!(failure(&world, GUEST), Some(TransferFailure::Withdrawn));
    assert!(world.sides[GUEST].offers().is_empty());
    assert!(world.disk[HOST].local.is_empty(), "released");
}

fn progress(world: &World, side: usize) -> Vec<(u64, u64)> {
    let of = |told: &Happening| match told {
        Happening::FileProgress { done, total, .. } => Some((*done, *total)),
        _ => None,
    };
    world.told[side].iter().filter_map(of).collect()
}

#[test]
fn progress_is_what_the_other_side_has_and_only_grows() {
    let mut world = World::met(41);
    world.limit = Some(3);
    let size = 12 << 20;
    world.offer(HOST, "large.bin", bytes(1, size));
    let size = size as u64;
    for _ in 0..200 {
        world.round(1_000);
        let at = |side| progress(&world, side).last().map_or(0, |(done, _)| *done);
        assert!(at(HOST) <= at(GUEST), "what is on its way does not count");
    }
    for side in [HOST, GUEST] {
        let all = progress(&world, side);
        assert!(all.len() > 2, "{side}: {all:?}");
        assert!(
            all.windows(2).all(|two| two[0].0 < two[1].0),
            "{side}: {all:?}"
        );
        assert_eq!(all.last(), Some(&(size, size)), "{side}");
    }
}

#[test]
fn a_sender_that_falls_silent_is_told_and_leaves_no_part() {
    let mut world = World::met(42);
    world.limit = Some(3);
    world.offer(HOST, "large.bin", bytes(1, 12 << 20));
    world.rounds(8, 1_000);
    assert!(!world.disk[GUEST].temporary.is_empty(), "it moves");
    // From here on there is no sender.
    let alone = |world: &mut World, ms: u64| {
        for _ in 0..ms / 1_000 {
            world.now = world.now.plus(1_000);
            world.feed(GUEST, Input::Tick).unwrap();
        }
    };
    alone(&mut world, SILENCE_MS + 2_000);
    assert!(world.own(GUEST).contains(&&OwnHappening::Interrupted));
    assert!(!world.disk[GUEST].temporary.is_empty(), "it may go on");
    alone(&mut world, SESSION_TTL_MS);
    assert!(world.told[GUEST].contains(&Happening::Expired));
    assert_eq!(failure(&world, GUEST), Some(TransferFailure::SessionOver));
    assert!(world.disk[GUEST].temporary.is_empty());
    assert!(world.disk[GUEST].whole.is_empty());
}

#[test]
fn too_large_and_too_many_are_refused_without_asking() {
    let mut world = World::met(37);
    world.accept = false;
    let file = |size| {
        Input::Own(OwnInput::OfferFile(LocalFile {
            name: "thing.bin".to_owned(),
            size,
            sha256: [0; 32],
            note: String::new(),
        }))
    };
    assert!(world.feed(HOST, file((64 << 20) + 1)).is_err());
    for _ in 0..17 {
        world.feed(HOST, file(64 << 20)).unwrap();
    }
    world.rounds(3, 1_000);
    assert_eq!(world.sides[GUEST].offers().len(), 16);
    let why = Refusal::TooManyPending;
    assert!(world.told[GUEST].contains(&Happening::Rejected { why }));
    assert_eq!(world.sides[HOST].undelivered().1, 16, "it was told");
}

#[test]
fn a_file_goes_on_after_the_relay_was_lost() {
    let mut world = World::met(38);
    world.limit = Some(4);
    let content = bytes(1, 20 << 20);
    world.offer(GUEST, "large.bin", content.clone());
    for _ in 0..4 {
        world.rounds(6, 1_000);
        world.forget();
    }
    world.limit = None;
    world.rounds(240, 1_000);
    assert_eq!(world.phases(), [Phase::Confirmed; 2]);
    let id = world.offered(HOST);
    assert_eq!(world.disk[HOST].whole[&id], content);
    assert_eq!(delivered(&world, GUEST), 1);
}

#[test]
fn a_session_that_ends_leaves_no_part_of_a_file() {
    let mut world = World::met(39);
    world.limit = Some(3);
    world.offer(HOST, "large.bin", bytes(1, 12 << 20));
    world.rounds(8, 1_000);
    assert!(!world.disk[GUEST].temporary.is_empty(), "it moves");
    world.limit = None;
    world.feed(HOST, Input::End).unwrap();
    world.rounds(3, 1_000);
    for side in [HOST, GUEST] {
        assert_eq!(failure(&world, side), Some(TransferFailure::SessionOver));
        assert!(world.disk[side].temporary.is_empty());
        assert!(world.disk[side].local.is_empty());
    }
}
