//! The lossless flow between two of ours.

use serde_json::json;

use super::{Peer, Relay, id};

fn open(peer: &mut Peer) {
    for (path, who) in [("/create", 1), ("/join", 2)] {
        let said = peer.post(
            path,
            &json!({
                "routingId": id(9), "publicKey": id(who + 100), "peerId": id(who),
                "flow": "interlink-1",
            }),
        );
        assert_eq!(said.is_ok()["flow"], "interlink-1");
    }
}

#[test]
fn nothing_is_dropped_and_no_pace_is_kept() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    open(&mut peer);
    for n in 0..150 {
        peer.send(9, 1, &json!({ "n": n })).is_ok();
    }
    let said = peer.poll(9, 2, 0);
    assert_eq!(said.seqs().len(), 151);
    assert_eq!(said.is_ok()["oldestSeq"], 1);
}

#[test]
fn what_was_fetched_is_erased_at_once() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    open(&mut peer);
    for n in 0..5 {
        peer.send(9, 1, &json!({ "n": n })).is_ok();
    }
    peer.send(9, 2, &json!("other way")).is_ok();
    let bytes = || {
        let status = relay.bus.connect().get("/status").json();
        status["relay"]["bytes"].as_u64().unwrap()
    };
    let before = bytes();
    assert_eq!(peer.poll(9, 2, 0).seqs(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(bytes(), before);
    // Everything up to 4 is here; only the subject may see its own coming once more.
    assert_eq!(peer.poll(9, 2, 4).seqs(), [5, 6]);
    assert!(bytes() < before);
    assert_eq!(peer.poll(9, 2, 0).seqs(), [1, 5, 6]);
    // The reader of 7 has not polled.
    assert_eq!(peer.poll(9, 1, 1).seqs(), [7]);
    assert_eq!(peer.poll(9, 1, 7).seqs(), Vec::<u64>::new());
    assert_eq!(peer.poll(9, 2, 7).is_ok()["oldestSeq"], 8);
}

#[test]
fn a_sender_that_is_too_far_ahead_comes_back() {
    let relay = Relay::with(|_| {}, |relay| relay.limits.flow_bytes = 10_000);
    let mut peer = relay.connect();
    open(&mut peer);
    let part = json!("x".repeat(3_000));
    let mut sent = 0;
    loop {
        let said = peer.send(9, 1, &part);
        if said.0.status != 200 {
            let told = said.is(429, "ERR_RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
            assert_eq!(told["retryAfter"], 1);
            break;
        }
        sent += 1;
    }
    assert_eq!(sent, 3);
    peer.poll(9, 2, 2).is_ok();
    peer.send(9, 1, &part).is_ok();
    assert_eq!(peer.poll(9, 2, 2).seqs(), [3, 4, 5]);
}

#[test]
fn another_word_is_the_ordinary_flow() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    let body = json!({
        "routingId": id(9), "publicKey": id(1), "peerId": id(1), "flow": "interlink-2",
    });
    assert_eq!(peer.post("/create", &body).is_ok().get("flow"), None);
}
