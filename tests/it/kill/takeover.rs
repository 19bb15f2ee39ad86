//! A second process for a session takes it over while both work: the older one stops and says so.

use std::sync::atomic::Ordering;
use std::thread;

use interlink::testkit::Rng;
use serde_json::Value;

use super::agents::{DRAIN, empty, settle};
use super::client::{Address, Client, Shared};
use super::history::Who;
use super::process::{BusPlace, RawConn};
use crate::mcp_support::{eventually, friends};
use crate::support::{long, seed};

const SAID: &str = "local state: another process owns this session (pid ";

fn waiters(bus: &BusPlace) -> Option<Value> {
    let mut conn = RawConn::open(bus.addr).ok()?;
    let (_, body) = conn.request("GET", "/status", None).ok()?;
    let status: Value = serde_json::from_slice(&body).ok()?;
    Some(status["waiters"].clone())
}

/// Waits until something that this client sends has been taken; its steps go on meanwhile.
fn until_taken(shared: &Shared, from: Who) {
    let taken = || shared.recorder.taken_of(from);
    let before = taken();
    eventually("a send of the new owner", || {
        (shared.stopped() || taken() > before + 15).then_some(())
    });
}

#[test]
fn a_session_moves_to_the_newest_process_and_back_from_the_dead_without_a_loss() {
    let mut rng = Rng::new(seed());
    let generations = if long() { 20 } else { 3 };
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = friends();
    let bus = BusPlace::new(dir.path(), &[]);
    bus.start();
    bus.ready();
    let shared = Shared::default();
    let to_a = Address {
        who: 0,
        name: "a",
        session: "sa",
    };
    let to_b = Address {
        who: 1,
        name: "b",
        session: "sb",
    };
    let mut alice = Client::new(0, &a, "sa", &bus.url(), vec![to_b], rng.next_u64());
    let mut owners: Vec<Client> = (1..=generations)
        .map(|who| {
            let mut client = Client::new(
                who,
                &b,
                "sb",
                &bus.url(),
                vec![to_a.clone()],
                rng.next_u64(),
            );
            client.mailbox = 1;
            client
        })
        .collect();
    thread::scope(|scope| {
        let shared = &shared;
        let _guard = shared.guard();
        scope.spawn(|| alice.run(shared));
        let mut slots = vec![];
        for owner in &mut owners {
            let who = owner.who;
            slots.push(owner.slot.clone());
            scope.spawn(move || owner.run(shared));
            until_taken(shared, who);
        }
        for older in &slots[..slots.len() - 1] {
            eventually("word of the loss", || {
                let said = older
                    .log()
                    .contains("another process took this session over");
                (said || shared.stopped()).then_some(())
            });
        }
        // Two polls: the one of the other side and the newest owner's.
        eventually("the end of the other polls", || {
            (shared.stopped() || waiters(&bus)? == 2).then_some(())
        });
        shared.quiet.store(true, Ordering::SeqCst);
        let begun = std::time::Instant::now();
        while !shared.recorder.on_the_way().is_empty() && !shared.stopped() {
            assert!(
                begun.elapsed() < DRAIN,
                "{:?}",
                shared.recorder.on_the_way()
            );
            thread::sleep(std::time::Duration::from_millis(10));
        }
        shared.stop.store(true, Ordering::SeqCst);
    });
    let mut newest = owners.pop().unwrap();
    assert!(
        !newest.refusals.iter().any(|r| r.starts_with(SAID)),
        "{:?}",
        newest.refusals
    );
    let heir = newest.slot.pid();
    for older in &mut owners {
        let said = older.refusals.iter().any(|r| r.starts_with(SAID));
        assert!(said, "{:?}", older.refusals);
    }
    // What an older process reads is what the newest has written.
    empty(&mut newest, &shared);
    // The newest dies for good, and the one before takes the session back.
    let mut again = owners.pop().unwrap();
    // Which one of several would take it back is open.
    owners.iter_mut().for_each(Client::kill);
    newest.kill();
    eventually("a send of the one before", || {
        let sent = again.send(&shared.recorder, 0).expect("it lives");
        sent.then_some(())
    });
    let last = again.refusals.iter().rev().find(|r| r.starts_with(SAID));
    let named = format!("{SAID}{heir})");
    assert_eq!(last.map(String::as_str), Some(named.as_str()));
    eventually("mail for alice", || {
        let _ = alice.look_and_acknowledge(&shared.recorder, 100);
        shared.recorder.on_the_way().is_empty().then_some(())
    });
    eventually("mail for the heir", || {
        alice
            .send(&shared.recorder, 0)
            .expect("it lives")
            .then_some(())
    });
    eventually("mail for the heir", || {
        let _ = again.look_and_acknowledge(&shared.recorder, 100);
        shared.recorder.on_the_way().is_empty().then_some(())
    });
    empty(&mut again, &shared);
    empty(&mut alice, &shared);
    let mut clients = vec![alice, again];
    settle(&shared, &bus, &mut clients, &[&a, &b]);
}
