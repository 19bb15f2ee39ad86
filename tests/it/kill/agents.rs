//! A bus and three channel servers, two of them sessions of one identity, killed at random while
//! everybody writes to everybody.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use interlink::testkit::Rng;

use super::client::{Address, Client, Shared};
use super::process::{BusPlace, RawConn, Slot};
use super::stores;
use crate::mcp_support::{Home, eventually, friends};
use crate::support::{long, seed};

/// How long after the last kill everything must have arrived: the longest pause of a sender that
/// saw its relay die again and again, and more.
pub(crate) const DRAIN: Duration = Duration::from_secs(150);

const A: Address = Address {
    who: 0,
    name: "a",
    session: "sa",
};
const B1: Address = Address {
    who: 1,
    name: "b",
    session: "sb1",
};
const B2: Address = Address {
    who: 2,
    name: "b",
    session: "sb2",
};

fn sibling(of: &Address) -> Address {
    Address {
        name: "self",
        ..of.clone()
    }
}

/// Everybody who writes to everybody else.
pub(crate) fn three(a: &Home, b: &Home, relays: &str, rng: &mut Rng) -> Vec<Client> {
    let mut client = |at: &Address, home, others: [Address; 2]| {
        let seed = rng.next_u64();
        Client::new(at.who, home, at.session, relays, others.into(), seed)
    };
    vec![
        client(&A, a, [B1, B2]),
        client(&B1, b, [A, sibling(&B2)]),
        client(&B2, b, [A, sibling(&B1)]),
    ]
}

/// Kills at random until enough was killed; then lets everything arrive.
fn kill_at_random(
    shared: &Shared,
    bus: &BusPlace,
    slots: &[Arc<Slot>],
    rounds: u64,
    rng: &mut Rng,
) {
    let _guard = shared.guard();
    for round in 0..rounds {
        // Mostly in quick succession, sometimes with time to work.
        let pause = if rng.chance(10) { 1500 } else { 300 };
        thread::sleep(Duration::from_millis(rng.below(pause)));
        if shared.stopped() {
            return;
        }
        match rng.below(10) {
            0 => bus.kill_and_restart(),
            1 => {
                // Both ends at once.
                slots[rng.index(slots.len())].kill();
                bus.kill_and_restart();
            }
            _ => slots[rng.index(slots.len())].kill(),
        }
        if round % 50 == 49 {
            println!("{} kills", round + 1);
        }
    }
    shared.quiet.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    loop {
        let missing = shared.recorder.on_the_way();
        if missing.is_empty() || shared.stopped() {
            break;
        }
        assert!(begun.elapsed() < DRAIN, "still on the way: {missing:?}");
        thread::sleep(Duration::from_millis(20));
    }
    println!("drained after {:?}", begun.elapsed());
    shared.stop.store(true, Ordering::SeqCst);
}

/// Reads and acknowledges until nothing is unread.
pub(crate) fn empty(client: &mut Client, shared: &Shared) {
    eventually("an empty mailbox", || {
        let left = client.look_and_acknowledge(&shared.recorder, 100);
        (left.expect("nobody kills it now") == Some(0)).then_some(())
    });
}

/// One more message, seen alone: what was acknowledged does not come back behind it.
fn last_word(clients: &mut [Client], from: usize, to: usize, shared: &Shared) {
    let who = clients[to].who;
    let index = clients[from].others.iter().position(|o| o.who == who);
    eventually("a send", || {
        let sent = clients[from].send(&shared.recorder, index.unwrap());
        sent.expect("nobody kills it now").then_some(())
    });
    eventually("the last word", || {
        let mail = clients[to].look(&shared.recorder).expect("it lives")?;
        assert!(mail.len() <= 1, "{mail:?}");
        (mail.len() == 1).then_some(())
    });
    empty(&mut clients[to], shared);
}

#[test]
fn whoever_is_killed_nothing_is_lost_doubled_or_out_of_order() {
    let seed = seed();
    let mut rng = Rng::new(seed);
    let rounds = if long() { 300 } else { 30 };
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = friends();
    let bus = BusPlace::new(dir.path(), &[]);
    bus.start();
    let mut clients = three(&a, &b, &bus.url(), &mut rng);
    let slots: Vec<_> = clients.iter().map(|c| Arc::clone(&c.slot)).collect();
    let shared = Shared::default();
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| client.run(&shared));
        }
        kill_at_random(&shared, &bus, &slots, rounds, &mut rng);
    });
    for client in &mut clients {
        empty(client, &shared);
    }
    // Once more, everybody at once: acknowledged is acknowledged.
    for client in &mut clients {
        client.kill();
    }
    bus.kill_and_restart();
    bus.ready();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        last_word(&mut clients, from, to, &shared);
    }
    settle(&shared, &bus, &mut clients, &[&a, &b]);
    for client in &clients {
        let mut said = client.refusals.clone();
        said.sort();
        said.dedup();
        println!(
            "{}: {} refusals: {said:?}",
            client.session,
            client.refusals.len()
        );
    }
}

/// The end of a run: nothing is on its way any more, then the judgement and the stores. The channel
/// servers are killed: in an orderly end they would say good-bye by mail.
pub(crate) fn settle(shared: &Shared, bus: &BusPlace, clients: &mut [Client], homes: &[&Home]) {
    for client in clients.iter_mut() {
        eventually("an empty outbox", || {
            client.pending().is_empty().then_some(())
        });
    }
    eventually("an empty bus", || {
        let mut conn = RawConn::open(bus.addr).ok()?;
        let (_, body) = conn.request("GET", "/status", None).ok()?;
        let status: serde_json::Value = serde_json::from_slice(&body).ok()?;
        (status["messages"] == 0).then_some(())
    });
    for client in clients {
        client.kill();
    }
    bus.slot.terminate();
    let tally = shared.recorder.judge();
    assert!(tally.taken > 0 && tally.acknowledged > 0, "{tally:?}");
    stores::agree(&shared.recorder, &bus.db, homes);
}
