//! Numbers, queues, pace, budgets and bounds.

use serde_json::json;

use super::{Relay, START, Said, id};

#[test]
fn of_15_quick_sends_ten_pass() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    let mut passed = 0;
    for n in 0..15u64 {
        relay.clock.set(START + n * 100);
        let said = peer.send(9, 1, &json!(n + 1));
        match said.0.status {
            200 => passed += 1,
            _ => {
                let told = said.is(429, "ERR_RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
                let left = (60_000 - n * 100).div_ceil(1000);
                assert_eq!(told["retryAfter"], left);
                let header = said.0.header("retry-after").unwrap();
                assert_eq!(header, left.to_string());
            }
        }
    }
    assert_eq!(passed, 10);
    // Each peer has its own pace, and the window slides: refused sends do not count.
    peer.send(9, 2, &json!(1)).is_ok();
    relay.clock.set(START + 59_999);
    assert_eq!(peer.send(9, 1, &json!(1)).0.status, 429);
    relay.clock.set(START + 60_000);
    peer.send(9, 1, &json!(1)).is_ok();
    assert_eq!(peer.send(9, 1, &json!(1)).0.status, 429);
}

#[test]
fn who_comes_back_has_not_become_another() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    for n in 0..10 {
        peer.send(9, 2, &json!(n + 1)).is_ok();
    }
    peer.disconnect(9, 2).is_ok();
    peer.join(9, 2).is_ok();
    assert_eq!(peer.send(9, 2, &json!(1)).0.status, 429);
    // Nor does it get its own words of before.
    assert_eq!(peer.poll(9, 2, 0).seqs(), [1, 12, 13]);
}

#[test]
fn of_120_sends_the_last_100_messages_are_kept() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    for n in 0..120u64 {
        relay.clock.set(START + n * 6_001);
        peer.send(9, 1, &json!({ "n": n })).is_ok();
    }
    let polled = peer.poll(9, 2, 0);
    let said = polled.is_ok();
    assert_eq!(said["oldestSeq"], 22);
    let seqs = polled.seqs();
    assert_eq!((seqs.len(), seqs[0], seqs[99]), (100, 22, 121));
    assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    let last = seqs[99];
    assert_eq!(peer.poll(9, 2, last).seqs(), Vec::<u64>::new());
    let (mut stored, mut conn) = (0, relay.bus.connect());
    let rows = conn.get("/status").json();
    stored += rows["relay"]["bytes"].as_u64().unwrap();
    assert!(stored < 100 * 64 + 500, "{rows}");
}

#[test]
fn three_large_messages_take_more_than_one_poll() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    for n in 0..3 {
        peer.send(9, 1, &json!(format!("{n}{}", "x".repeat(800_000))))
            .is_ok();
    }
    let (mut since, mut seen) = (1, vec![]);
    while seen.len() < 3 {
        let seqs = peer.poll(9, 2, since).seqs();
        assert!((1..3).contains(&seqs.len()), "{seqs:?}");
        since = *seqs.last().unwrap();
        seen.extend(seqs);
    }
    assert_eq!(seen, [2, 3, 4]);
}

#[test]
fn the_budget_counts_utf16_units_and_always_lets_one_through() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    // 400,000 characters of three bytes: too much in bytes, not in units.
    let wide = json!("\u{4e2d}".repeat(400_000));
    peer.send(9, 1, &wide).is_ok();
    peer.send(9, 1, &wide).is_ok();
    peer.send(9, 1, &json!("x".repeat(2_000_000))).is_ok();
    assert_eq!(peer.poll(9, 2, 1).seqs(), [2, 3]);
    assert_eq!(peer.poll(9, 2, 3).seqs(), [4]);
    // Characters beyond the basic plane are two units.
    peer.send(9, 2, &json!("\u{1f600}".repeat(300_000))).is_ok();
    peer.send(9, 2, &json!("\u{1f600}".repeat(300_000))).is_ok();
    assert_eq!(peer.poll(9, 1, 4).seqs(), [5]);
}

#[test]
fn a_full_relay_says_so_and_goes_on_with_what_it_has() {
    let relay = Relay::with(
        |_| {},
        |relay| {
            relay.limits.sessions = 2;
            relay.limits.bytes = 2_000;
        },
    );
    let mut peer = relay.paired();
    peer.create(8, 1).is_ok();
    let full = |said: Said| {
        let told = said.is(503, "ERR_RELAY_FULL", "The relay is full");
        assert_eq!(told["retryAfter"], 60);
    };
    full(peer.create(7, 1));
    full(peer.send(9, 1, &json!("x".repeat(2_000))));
    peer.send(9, 1, &json!("x".repeat(200))).is_ok();
    peer.disconnect(8, 1).is_ok();
    peer.create(7, 1).is_ok();
}

#[test]
fn one_session_does_not_fill_the_relay() {
    let relay = Relay::with(|_| {}, |relay| relay.limits.session_bytes = 2_000);
    let mut peer = relay.paired();
    peer.send(9, 1, &json!("x".repeat(1_000))).is_ok();
    let said = peer.send(9, 2, &json!("x".repeat(1_000)));
    let told = said.is(503, "ERR_RELAY_FULL", "The relay is full");
    assert_eq!(told["retryAfter"], 60);
    assert_eq!(said.0.header("retry-after"), Some("60"));
    // Nothing gave way for it, and what fits still passes.
    assert_eq!(peer.poll(9, 2, 0).seqs(), [1, 2]);
    peer.send(9, 2, &json!("x".repeat(100))).is_ok();
    // Neither is anybody else affected.
    peer.create(8, 1).is_ok();
    peer.send(8, 1, &json!("x".repeat(1_000))).is_ok();
}

#[test]
fn a_session_may_use_a_quarter_of_the_relay_and_always_one_large_message() {
    let relay = Relay::with(
        |_| {},
        |relay| {
            relay.limits.bytes = 8 << 20;
            relay.limits.session_bytes =
                interlink::domain::decide::bus::RelayLimits::one_of(8 << 20);
        },
    );
    let mut peer = relay.paired();
    let largest = 5_242_880 - 250;
    peer.send(9, 1, &json!("x".repeat(largest))).is_ok();
    peer.send(9, 1, &json!("x".repeat(8_000)))
        .is(503, "ERR_RELAY_FULL", "The relay is full");
    assert_eq!(
        interlink::bus::RelayConfig::new(String::new())
            .limits
            .session_bytes,
        128 << 20
    );
}

#[test]
fn without_a_limit_by_address_nobody_is_counted() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    for n in 0..400 {
        peer.create(n, 1).is_ok();
    }
}

#[test]
fn a_relay_without_room_takes_nobody_in() {
    let relay = Relay::with(|_| {}, |relay| relay.limits.bytes = 250);
    let mut peer = relay.connect();
    // Salt, routing id, peer id and key: 112 bytes each; a guest needs 80.
    peer.create(9, 1).is_ok();
    peer.create(8, 1).is_ok();
    for said in [peer.create(7, 1), peer.join(9, 2)] {
        said.is(503, "ERR_RELAY_FULL", "The relay is full");
    }
    peer.disconnect(8, 1).is_ok();
    peer.join(9, 2).is_ok();
}

#[test]
fn a_limit_by_address_holds_for_all_but_health() {
    let relay = Relay::with(|_| {}, |relay| relay.per_address = 100);
    let mut peer = relay.connect();
    let mut passed = 0;
    for n in 0..130 {
        match peer.create(n, 1).0.status {
            200 => passed += 1,
            status => assert_eq!(status, 429),
        }
    }
    assert_eq!(passed, 100);
    let said = peer.poll(1, 1, 0);
    let told = said.is(429, "ERR_RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    assert_eq!(told["retryAfter"], 60);
    peer.get("/health").is_ok();
    relay.clock.set(START + 60_000);
    peer.poll(1, 1, 0).is_ok();
}

#[test]
fn who_leaves_is_announced_and_the_place_is_free() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    peer.disconnect(9, 1).is_ok();
    let said = peer.poll(9, 2, 1).is_ok();
    let payload = json!({"type": "disconnect", "peerId": id(1)});
    assert_eq!(said["messages"][0]["payload"], payload);
    assert_eq!(said["messages"][0]["from"], "system");
    assert_eq!(peer.poll(9, 1, 0).0.status, 403);
    let joined = json!({"ok": true, "hostPublicKey": id(101), "peerCount": 2});
    assert_eq!(peer.join(9, 5).is_ok(), joined);
    assert_eq!(peer.poll(9, 5, 0).seqs(), [1, 2, 3]);
    peer.disconnect(9, 5).is_ok();
    peer.disconnect(9, 2).is_ok();
    peer.poll(9, 2, 0).is_gone();
    peer.create(9, 7).is_ok();
    assert_eq!(peer.poll(9, 7, 0).is_ok()["oldestSeq"], 1);
}

#[test]
fn joining_and_leaving_without_end_keeps_the_session_small() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    for n in 0..150 {
        peer.disconnect(9, if n == 0 { 2 } else { 1000 + n - 1 })
            .is_ok();
        peer.join(9, 1000 + n).is_ok();
    }
    let status = relay.bus.connect().get("/status").json();
    let bytes = status["relay"]["bytes"].as_u64().unwrap();
    assert!(bytes < 60 * 80 + 112, "{bytes}");
}
