//! Processes that stand still (a laptop's lid, a debugger, a full machine) and go on as if nothing
//! had happened; and clocks that jump.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use interlink::testkit::Rng;
use serde_json::json;

use crate::http::{Bus, FakeClock};
use crate::kill::agents::{empty, settle, three};
use crate::kill::client::Shared;
use crate::kill::history::Msg;
use crate::kill::process::{BusPlace, Slot};
use crate::mcp_support::{eventually, friends};
use crate::support::{long, seed};

/// How long a long-poll of a channel server waits.
const ONE_POLL: Duration = Duration::from_secs(25);

/// Waits until these have arrived.
fn arrived(shared: &Shared, wanted: &[Msg]) -> Duration {
    let begun = Instant::now();
    loop {
        let waiting = shared.recorder.on_the_way();
        let left = wanted.iter().filter(|msg| waiting.contains(msg)).count();
        if left == 0 || shared.stopped() {
            return begun.elapsed();
        }
        assert!(
            begun.elapsed() < ONE_POLL,
            "{left} of {} are still away",
            wanted.len()
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until more messages have been read.
fn flows(shared: &Shared) {
    let before = shared.recorder.seen();
    eventually("traffic", || {
        (shared.stopped() || shared.recorder.seen() > before + 5).then_some(())
    });
}

/// Stops a process for a while; what is on its way when it goes on arrives soon.
fn freeze(shared: &Shared, slot: &Slot, what: &str, pause: Duration) {
    flows(shared);
    slot.signal("STOP");
    thread::sleep(pause);
    let waiting = shared.recorder.on_the_way();
    slot.signal("CONT");
    let took = arrived(shared, &waiting);
    println!(
        "{what}: {} messages arrived {took:?} after the thaw",
        waiting.len()
    );
    flows(shared);
}

#[test]
fn a_frozen_bus_or_channel_server_loses_nothing_and_goes_on_within_one_poll() {
    let mut rng = Rng::new(seed());
    let pause = Duration::from_secs(if long() { 10 } else { 2 });
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = friends();
    let bus = BusPlace::new(dir.path(), &[]);
    bus.start();
    bus.ready();
    let mut clients = three(&a, &b, &bus.url(), &mut rng);
    let slots: Vec<_> = clients.iter().map(|c| Arc::clone(&c.slot)).collect();
    let shared = Shared::default();
    thread::scope(|scope| {
        let _guard = shared.guard();
        for client in &mut clients {
            scope.spawn(|| client.run(&shared));
        }
        freeze(&shared, &bus.slot, "bus", pause);
        freeze(&shared, &slots[0], "channel server", pause);
        freeze(&shared, &slots[1], "one of two siblings", pause);
        shared.quiet.store(true, Ordering::SeqCst);
        arrived(&shared, &shared.recorder.on_the_way());
        shared.stop.store(true, Ordering::SeqCst);
    });
    for client in &mut clients {
        empty(client, &shared);
    }
    settle(&shared, &bus, &mut clients, &[&a, &b]);
}

#[test]
fn a_sibling_frozen_inside_a_write_is_named_and_the_others_go_on_afterwards() {
    let mut rng = Rng::new(seed());
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = friends();
    let bus = BusPlace::new(dir.path(), &[]);
    bus.start();
    bus.ready();
    let mut clients = three(&a, &b, &bus.url(), &mut rng);
    let (alice, siblings) = clients.split_first_mut().unwrap();
    let (writer, sibling) = siblings.split_first_mut().unwrap();
    let sibling = &mut sibling[0];
    let slot = Arc::clone(&writer.slot);
    let shared = Shared::default();
    let recorder = &shared.recorder;
    thread::scope(|scope| {
        let shared = &shared;
        let _guard = shared.guard();
        scope.spawn(|| alice.run(shared));
        scope.spawn(|| {
            let _guard = shared.guard();
            while !shared.stopped() {
                // Nothing but writes, one after the other.
                let _ = writer.send(recorder, 0).expect("nobody kills it");
                let _ = writer.look_and_acknowledge(recorder, 100);
            }
        });
        flows(shared);
        eventually("a first send of the sibling", || {
            sibling.send(recorder, 0).expect("it lives").then_some(())
        });
        // The freeze hits a write only now and then.
        let (mut tries, named) = (0, format!("(pid {})", slot.pid()));
        let said = eventually("a freeze inside a write", || {
            tries += 1;
            thread::sleep(Duration::from_micros(rng.below(5_000)));
            slot.signal("STOP");
            sibling.refusals.clear();
            let sent = sibling.send(recorder, 0).expect("it lives");
            if sent {
                slot.signal("CONT");
                return None;
            }
            sibling.refusals.pop()
        });
        println!("after {tries} tries: {said}");
        assert!(
            said.starts_with("local state: ") && said.contains(&named),
            "{said}, not {named}"
        );
        // Reading is answered: with mail, or with who holds the store in the last step of a commit.
        let begun = Instant::now();
        let seen = sibling.look(recorder).expect("it lives");
        println!(
            "a look took {:?}: {:?}, {:?}",
            begun.elapsed(),
            seen.is_some(),
            sibling.refusals
        );
        slot.signal("CONT");
        eventually("a send after the thaw", || {
            sibling.send(recorder, 0).expect("it lives").then_some(())
        });
        shared.quiet.store(true, Ordering::SeqCst);
        let waiting = recorder.on_the_way();
        let begun = Instant::now();
        while waiting
            .iter()
            .any(|msg| recorder.on_the_way().contains(msg))
        {
            assert!(
                !shared.stopped() && begun.elapsed() < ONE_POLL,
                "{waiting:?}"
            );
            let _ = sibling.look_and_acknowledge(recorder, 100);
        }
        shared.stop.store(true, Ordering::SeqCst);
    });
    eventually("the rest", || {
        for client in &mut clients {
            let _ = client.look_and_acknowledge(recorder, 100);
        }
        recorder.on_the_way().is_empty().then_some(())
    });
    for client in &mut clients {
        empty(client, &shared);
    }
    settle(&shared, &bus, &mut clients, &[&a, &b]);
}

#[test]
fn a_clock_that_jumps_by_days_loses_and_reorders_nothing() {
    const DAY: u64 = 86_400_000;
    const NOW: u64 = 1_800_000_000_000;
    let clock = FakeClock::new(NOW);
    let bus = Bus::with(|config| {
        config.clock = clock.clone();
        config.upkeep = Duration::from_millis(5);
    });
    let mut rng = Rng::new(seed());
    let mut conn = bus.connect();
    let (mut sent, mut read) = (0u32, 0u32);
    for _ in 0..400 {
        // A message is at most 13 days old by any of these clocks.
        clock.set(NOW + rng.below(13 * DAY));
        for _ in 0..rng.below(4) {
            conn.send("q", json!(sent));
            sent += 1;
        }
        if rng.chance(50) {
            let got = conn.get("/recv?me=q&timeout_ms=0&max=3").json();
            for delivery in got["messages"].as_array().into_iter().flatten() {
                assert_eq!(delivery["envelope"]["payload"], read);
                read += 1;
                let ack = json!({ "me": "q", "ack": delivery["ack"] }).to_string();
                conn.post("/ack", &ack).is_empty(200);
            }
        }
    }
    let status = conn.get("/status").json();
    assert_eq!(status["messages"], sent - read);
    assert_eq!(status["drops"]["expired"], 0, "{status}");
    // A jump past the time to live takes what waits, and says so.
    clock.set(NOW + 40 * DAY);
    bus.until("expiry", |status| status["messages"] == 0);
    let status = conn.get("/status").json();
    assert_eq!(status["drops"]["expired"], sent - read, "{status}");
    assert!(sent > read);
    clock.set(NOW);
    conn.send("q", json!("back"));
    assert_eq!(conn.peek("q")["envelope"]["payload"], "back");
}
