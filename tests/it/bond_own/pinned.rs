//! Two that have pinned each other need no code, and two that met by a code can pin each other.

use std::sync::Arc;

use interlink::crypto::sign::SigningIdentity;
use interlink::domain::machine::bond::{
    AbortReason, Ending, Input, OwnHappening, OwnInput, OwnSession, Phase, Pinned, Role,
};
use interlink::types::secret::Secret;
use interlink::wire::bond::code::RoutingId;
use interlink::wire::bond::identity::PinCard;
use serde_json::json;

use super::world::{CODE, GUEST, HOST, Opened, World, policy};

fn identity(seed: u8) -> Arc<SigningIdentity> {
    Arc::new(SigningIdentity::from_seed(&Secret::new([seed; 32])))
}

/// Opens a side as identity `own` that wants to talk to identity `peer`.
fn pinned(own: u8, peer: u8) -> impl Fn(Role, &World) -> Opened {
    move |role, world| {
        let pinned = Pinned {
            identity: identity(own),
            peer: identity(peer).public(),
        };
        let routing = RoutingId::from_bytes([0x77; 32]);
        OwnSession::open_pinned(role, routing, pinned, policy(), world.now, world.entropy())
            .expect("randomness")
    }
}

#[test]
fn two_that_know_each_other_meet_without_a_code() {
    let mut world = World::open_with(40, pinned(1, 2), pinned(2, 1));
    world.rounds(4, 1_000);
    assert_eq!(world.phases(), [Phase::Confirmed; 2]);
    let content = vec![7; 1_000_000];
    world.offer(HOST, "thing.bin", content.clone());
    world.rounds(20, 1_000);
    let id = world.offered(GUEST);
    assert_eq!(world.disk[GUEST].whole[&id], content);
}

#[test]
fn nobody_else_gets_in() {
    let aborted = Phase::Over(Ending::Aborted(AbortReason::WrongTag));
    for (name, host, guest) in [
        ("a stranger joins", (1, 2), (3, 1)),
        ("a stranger waits", (3, 2), (2, 1)),
        ("each wants another", (1, 3), (2, 3)),
        ("with oneself", (1, 1), (2, 1)),
    ] {
        let mut world = World::open_with(41, pinned(host.0, host.1), pinned(guest.0, guest.1));
        world.rounds(5, 1_000);
        assert_eq!(world.phases(), [aborted; 2], "{name}");
        assert!(world.seen.iter().all(|seen| !seen.contains("\"r\":")));
    }
}

#[test]
fn a_signature_is_not_left_out_and_not_moved() {
    for change in ["none", "absent", "another"] {
        let mut world = World::open_with(42, pinned(1, 2), pinned(2, 1));
        world.meddle = Some(Box::new(move |side, message| {
            if let Some(hello) = message.payload.get_mut("hello") {
                match change {
                    "absent" if side == HOST => {
                        hello.as_object_mut().unwrap().remove("s");
                    }
                    "another" if side == HOST => hello["s"] = json!("07".repeat(64)),
                    _ => {}
                }
            }
        }));
        world.rounds(5, 1_000);
        let confirmed = world.phases() == [Phase::Confirmed; 2];
        assert_eq!(confirmed, change == "none", "{change}");
    }
}

#[test]
fn who_met_by_a_code_can_say_who_he_is() {
    let mut world = World::open(43, CODE, CODE);
    assert_eq!(world.sides[HOST].binding(), None, "not before the proof");
    world.rounds(4, 1_000);
    let binding = world.sides[HOST].binding().expect("confirmed");
    assert_eq!(world.sides[GUEST].binding(), Some(binding));
    assert_ne!(World::met(44).sides[HOST].binding(), Some(binding));
    for (side, role) in [(HOST, Role::Host), (GUEST, Role::Guest)] {
        let who = identity(u8::try_from(side).unwrap() + 1);
        let card = PinCard::write(&who, &binding, role, "somebody", "");
        world.feed(side, Input::Own(OwnInput::Pin(card))).unwrap();
    }
    world.rounds(2, 1_000);
    for (side, role, seed) in [(HOST, Role::Guest, 2), (GUEST, Role::Host, 1)] {
        let told = world.own(side);
        let Some(OwnHappening::Pin(bytes)) = told.last() else {
            panic!("a card");
        };
        let card = PinCard::read(bytes, &binding, role).expect("a card of this session");
        assert_eq!(card.key, identity(seed).public());
        assert!(PinCard::read(bytes, &binding, role.other()).is_err());
    }
}
