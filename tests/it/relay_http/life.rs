//! How long sessions live, and how long polls wait.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Relay, START};
use crate::http::{Bus, DEADLINE, FakeClock};

const HALF_HOUR: u64 = 30 * 60_000;

#[test]
fn a_session_ends_half_an_hour_after_its_last_use() {
    for use_it in [
        (|peer, relay| {
            let _: (&mut super::Peer, &Relay) = (peer, relay);
            peer.send(9, 1, &json!(1)).is_ok();
        }) as fn(&mut super::Peer, &Relay),
        |peer, _| {
            peer.poll(9, 1, 0).is_ok();
        },
        |peer, _| {
            peer.disconnect(9, 2).is_ok();
            peer.join(9, 3).is_ok();
        },
    ] {
        let relay = Relay::start();
        let mut peer = relay.paired();
        relay.clock.set(START + HALF_HOUR - 1);
        use_it(&mut peer, &relay);
        relay.clock.set(START + 2 * HALF_HOUR - 2);
        peer.send(9, 1, &json!(1)).is_ok();
    }
}

#[test]
fn what_does_not_count_as_use() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    relay.clock.set(START + HALF_HOUR - 1);
    peer.join(9, 2).is_ok();
    peer.disconnect(9, 2).is_ok();
    peer.send(9, 2, &json!(1))
        .is(403, "ERR_UNAUTHORIZED", "Unauthorized access");
    relay.clock.set(START + HALF_HOUR);
    peer.poll(9, 1, 0).is_gone();
}

#[test]
fn each_route_says_in_its_own_way_that_a_session_is_over() {
    let over = || {
        let relay = Relay::start();
        let peer = relay.paired();
        relay.clock.set(START + HALF_HOUR);
        (relay, peer)
    };
    let (_relay, mut peer) = over();
    peer.poll(9, 1, 0).is_gone();
    let (_relay, mut peer) = over();
    peer.send(9, 1, &json!(1))
        .is(404, "ERR_SESSION_NOT_FOUND", "Session not found");
    let (_relay, mut peer) = over();
    peer.create(9, 4).is_ok();
    peer.poll(9, 1, 0)
        .is(403, "ERR_UNAUTHORIZED", "Unauthorized access");
    let (relay, mut peer) = over();
    peer.disconnect(9, 1).is_ok();
    relay
        .bus
        .until("the session is wiped", |s| s["relay"]["sessions"] == 0);
}

#[test]
fn joining_an_expired_session_wipes_it() {
    // Upkeep ends such a session by itself; whoever comes first is told.
    for _ in 0..20 {
        let relay = Relay::start();
        let mut peer = relay.paired();
        relay.clock.set(START + HALF_HOUR);
        let said = peer.join(9, 5);
        if said.0.status == 410 {
            said.is(410, "ERR_SESSION_EXPIRED", "Session expired");
            peer.join(9, 5)
                .is(404, "ERR_SESSION_NOT_FOUND", "Session not found");
            return;
        }
    }
    panic!("upkeep was always first");
}

#[test]
fn an_abandoned_session_is_wiped_without_anybody_asking() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    peer.send(9, 1, &json!(1)).is_ok();
    relay.clock.set(START + HALF_HOUR);
    let status = relay
        .bus
        .until("it is wiped", |s| s["relay"]["sessions"] == 0);
    assert_eq!(status["relay"]["bytes"], 0);
}

#[test]
fn a_poll_without_news_is_held_and_woken() {
    let relay = Relay::with(|_| {}, |relay| relay.hold = DEADLINE);
    let mut host = relay.paired();
    let mut guest = relay.connect();
    let begun = Instant::now();
    let target = format!(
        "/poll?routingId={}&peerId={}&since=1",
        super::id(9),
        super::id(2)
    );
    guest.0.start("GET", &target, &[], None);
    // What the guest itself says wakes nobody for good.
    host.send(9, 2, &json!("mine")).is_ok();
    host.send(9, 1, &json!("yours")).is_ok();
    let said = super::Said(guest.0.finish("GET"));
    assert_eq!(said.seqs(), [3]);
    // The end of the session wakes as well.
    guest
        .0
        .start("GET", &target.replace("since=1", "since=3"), &[], None);
    host.disconnect(9, 1).is_ok();
    assert_eq!(super::Said(guest.0.finish("GET")).seqs(), [4]);
    guest
        .0
        .start("GET", &target.replace("since=1", "since=4"), &[], None);
    host.disconnect(9, 2).is_ok();
    super::Said(guest.0.finish("GET")).is_gone();
    assert!(begun.elapsed() < DEADLINE);
}

#[test]
fn a_held_poll_is_answered_in_time_as_an_empty_one() {
    let hold = Duration::from_millis(300);
    let relay = Relay::with(|_| {}, |relay| relay.hold = hold);
    let mut peer = relay.paired();
    let begun = Instant::now();
    let said = peer.poll(9, 2, 1).is_ok();
    assert!(begun.elapsed() >= hold);
    assert_eq!(
        said,
        json!({"messages": [], "disconnected": false, "oldestSeq": 1})
    );
    // The usual one ends before the next poll of a client comes.
    assert_eq!(
        interlink::bus::RelayConfig::new(String::new()).hold,
        Duration::from_secs(4)
    );
}

#[test]
fn a_poll_prolongs_at_most_once_a_minute() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    let commits = || relay.bus.connect().get("/status").json()["commits"].clone();
    let before = commits();
    relay.clock.set(START + 59_999);
    peer.poll(9, 1, 0).is_ok();
    assert_eq!(commits(), before);
    relay.clock.set(START + 60_000);
    peer.poll(9, 1, 0).is_ok();
    peer.poll(9, 1, 0).is_ok();
    assert_eq!(commits(), before.as_u64().unwrap() + 1);
}

#[test]
fn there_is_no_relay_unless_it_is_asked_for() {
    let bus = Bus::with(|config| config.clock = FakeClock::new(START));
    assert_eq!(bus.relay_addr(), None);
    bus.connect().get("/poll").is_problem(404);
    bus.stop();
}

#[test]
fn the_two_listeners_keep_to_their_own() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    peer.get("/status")
        .is(404, "ERR_NOT_FOUND", "Endpoint not found");
    relay.bus.connect().get("/health").is_problem(404);
}
