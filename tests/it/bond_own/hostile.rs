//! A relay that does on purpose what it can, each with the honest control beside it.

use interlink::crypto::pake::{Run, Side};
use interlink::domain::machine::bond::{
    AbortReason, Dropped, Ending, Happening, Phase, RelayOddity, Row,
};
use interlink::testkit::SeededEntropy;
use serde_json::{Value, json};

use super::world::{CODE, GUEST, HOST, World};

fn aborted(phase: Phase) -> bool {
    matches!(phase, Phase::Over(Ending::Aborted(_)))
}

/// Elements of somebody in the middle who does not know the words.
fn element(seed: u64) -> String {
    let entropy = SeededEntropy::new(seed);
    let run = Run::start(Side::A, b"guess", b"a", b"b", &entropy).unwrap();
    data_encoding::HEXLOWER.encode(run.element())
}

#[test]
fn swapped_elements_end_in_abort_on_both_sides() {
    // Control: the same meddling that changes nothing.
    for swap in [false, true] {
        let mut world = World::open(20, CODE, CODE);
        let middle = element(99);
        world.meddle = Some(Box::new(move |side, message| {
            if side == HOST && swap && message.payload.get("publicKey").is_some() {
                message.payload["publicKey"] = json!(middle);
            }
        }));
        world.rounds(5, 1_000);
        if swap {
            assert!(
                world.phases().into_iter().all(aborted),
                "{:?}",
                world.phases()
            );
            assert!(world.seen.iter().all(|seen| !seen.contains("\"r\":")));
        } else {
            assert_eq!(world.phases(), [Phase::Confirmed; 2]);
        }
    }
}

#[test]
fn elements_of_low_order_end_in_abort() {
    for element in [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "not hexadecimal",
    ] {
        let mut world = World::open(21, CODE, CODE);
        world.meddle = Some(Box::new(move |side, message| {
            if side == HOST && message.payload.get("publicKey").is_some() {
                message.payload["publicKey"] = json!(element);
            }
        }));
        world.rounds(2, 1_000);
        let reason = AbortReason::BadKey;
        assert_eq!(
            world.sides[HOST].phase(),
            Phase::Over(Ending::Aborted(reason))
        );
    }
}

#[test]
fn swapped_ephemerals_end_in_abort_on_both_sides() {
    for (victim, left) in [(HOST, GUEST), (GUEST, HOST)] {
        let mut world = World::open(22, CODE, CODE);
        world.meddle = Some(Box::new(move |side, message| {
            if side == victim && message.payload.get("hello").is_some() {
                message.payload["hello"]["e"] = json!("09".repeat(32));
            }
        }));
        world.rounds(400, 5_000);
        assert!(aborted(world.sides[victim].phase()));
        // A host that is left alone by its guest hears nothing more: it ends by itself.
        assert!(world.sides[left].is_over());
        assert!(world.chats(left).is_empty());
    }
}

#[test]
fn what_comes_back_is_dropped_and_told() {
    for claim in [false, true] {
        let mut world = World::met(23);
        world.faults.reflect = 100;
        if claim {
            // The relay writes the other role on it.
            world.meddle = Some(Box::new(|side, message| {
                let other = if side == HOST { "guest" } else { "host" };
                if message.payload.get("r").is_some() {
                    message.payload["from"] = json!(other);
                }
            }));
        }
        world.say(HOST, "mine").unwrap();
        world.rounds(3, 1_000);
        assert_eq!(world.chats(HOST), Vec::<&str>::new());
        assert_eq!(world.chats(GUEST), ["mine"]);
        if claim {
            // It does not open: the keys of the two directions differ.
            assert_eq!(world.phases(), [Phase::Confirmed; 2]);
            continue;
        }
        let what = RelayOddity::Reflection;
        assert!(world.told[HOST].contains(&Happening::RelayOdd { what }));
        let reason = Dropped::Reflected;
        assert!(world.rows[HOST].contains(&Row::PacketDropped { reason }));
    }
}

#[test]
fn a_record_that_was_renumbered_moved_or_changed_does_not_count() {
    type Change = fn(&mut Value);
    let changes: [Change; 5] = [
        |record| record[1] = json!(record[1].as_u64().unwrap() + 1),
        |record| record[0] = json!(if record[0] == "d" { "c" } else { "d" }),
        |record| record[2] = json!(record[2].as_str().unwrap().to_lowercase()),
        |record| record[2] = json!(&record[2].as_str().unwrap()[4..]),
        |record| record[2] = json!(""),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut world = World::met(24);
        world.meddle = Some(Box::new(move |_, message| {
            if let Some(records) = message.payload.get_mut("r") {
                records.as_array_mut().unwrap().iter_mut().for_each(change);
            }
        }));
        world.say(HOST, "intact or not at all").unwrap();
        world.rounds(5, 1_000);
        assert_eq!(world.chats(GUEST), Vec::<&str>::new(), "{n}");
        // Once the relay stops, it arrives after all: nothing was lost by the noise.
        world.meddle = None;
        world.rounds(60, 1_000);
        assert_eq!(world.chats(GUEST), ["intact or not at all"], "{n}");
    }
}

#[test]
fn garbage_and_false_alarms_do_not_end_a_session() {
    let mut world = World::met(25);
    world.meddle = Some(Box::new(|side, message| {
        message.payload = match message.seq % 5 {
            0 => {
                json!({ "i": 1, "from": if side == HOST { "guest" } else { "host" }, "refused": true })
            }
            1 => json!(null),
            2 => {
                json!({ "type": "peer_joined", "peerId": "cd".repeat(32), "publicKey": "00".repeat(32) })
            }
            3 => json!({ "i": 1, "from": if side == HOST { "guest" } else { "host" },
                         "hello": { "e": "09".repeat(32), "c": "00".repeat(32) } }),
            _ => json!({ "v": 2, "iv": "00", "encrypted": "", "authTag": "" }),
        };
    }));
    for n in 0..10 {
        world.say(HOST, &format!("{n}")).unwrap();
        world.say(GUEST, &format!("{n}")).unwrap();
        world.round(1_000);
    }
    assert_eq!(world.phases(), [Phase::Confirmed; 2]);
    world.meddle = None;
    world.rounds(90, 1_000);
    assert_eq!(world.chats(GUEST).len(), 10);
    assert_eq!(world.chats(HOST).len(), 10);
}

#[test]
fn a_false_goodbye_of_the_relay_is_an_interruption_only() {
    let mut world = World::met(26);
    let peer = world.sides[GUEST].me().to_string();
    let mut once = true;
    world.meddle = Some(Box::new(move |side, message| {
        if side == HOST && std::mem::take(&mut once) {
            message.from = "system".to_owned();
            message.payload = json!({ "type": "disconnect", "peerId": peer });
        }
    }));
    world.say(GUEST, "still here").unwrap();
    world.rounds(200, 2_000);
    assert_eq!(world.phases(), [Phase::Confirmed; 2]);
    assert_eq!(world.chats(HOST), ["still here"]);
}

#[test]
fn a_pushed_cursor_is_not_followed() {
    let mut world = World::met(27);
    world.meddle = Some(Box::new(|_, message| message.seq = u64::MAX));
    world.say(HOST, "hidden").unwrap();
    world.round(1_000);
    world.meddle = None;
    let what = RelayOddity::CursorPush;
    assert!(world.told[GUEST].contains(&Happening::RelayOdd { what }));
    world.rounds(2, 1_000);
    assert_eq!(world.chats(GUEST), ["hidden"]);
}

#[test]
fn somebody_who_joins_first_costs_the_session_and_learns_nothing() {
    let mut world = World::open(28, CODE, CODE);
    world.meddle = Some(Box::new(|side, message| {
        // The first hello that the host sees is not the guest's.
        if side == HOST && message.payload.get("hello").is_some() {
            message.payload["hello"]["c"] = json!("00".repeat(32));
        }
    }));
    world.rounds(3, 1_000);
    assert!(
        world.phases().into_iter().all(aborted),
        "{:?}",
        world.phases()
    );
    assert_eq!(world.posts[HOST], 1, "a refusal, and no second guess");
}
