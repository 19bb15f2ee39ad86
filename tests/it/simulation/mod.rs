//! Whole worlds in virtual time: two to five agents, one to three relays, a link that loses,
//! repeats and reorders, partitions, restarts, clocks that jump. The real decisions, projections and
//! schedules run on rows in memory, so thousands of hours pass in seconds and a seed is a run.

mod memory;
mod pairing;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use interlink::testkit::Rng;
use world::{Weather, World};

fn seeds(short: u64, long: u64) -> impl Iterator<Item = u64> {
    let first = std::env::var("INTERLINK_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let first = first.unwrap_or(1u64);
    let count = if std::env::var_os("INTERLINK_LONG").is_some() {
        long
    } else {
        short
    };
    first..first + count
}

fn weather(seed: u64) -> Weather {
    let mut rng = Rng::new(seed ^ 0x5157);
    Weather {
        agents: 2 + rng.index(4),
        relays: 1 + rng.index(3),
        loss: rng.below(40),
        mischief: rng.below(30),
        jumps: rng.chance(50),
        strangers: false,
    }
}

fn check(seed: u64, world: &World) {
    let book = &world.book;
    let mut read = BTreeMap::new();
    for (at, ids) in &book.read {
        for id in ids {
            let (_, to) = book.queued[id];
            assert_eq!(to, *at, "seed {seed}: {id} reached somebody else");
            *read.entry(id.clone()).or_insert(0) += 1;
        }
    }
    for id in book.queued.keys() {
        let times = read.get(id).copied().unwrap_or(0);
        let recorded =
            book.expired.contains(id) || book.future.contains(id) || book.refused.contains(id);
        assert!(times <= 1, "seed {seed}: {id} was read {times} times");
        assert!(times == 1 || recorded, "seed {seed}: {id} is lost");
    }
}

#[test]
fn whatever_the_link_does_no_queued_message_is_lost_or_read_twice() {
    let mut total = 0;
    for seed in seeds(60, 3000) {
        let weather = weather(seed);
        let mut world = World::new(seed, weather);
        world.introduce();
        for _ in 0..1500 {
            world.step();
        }
        world.settle();
        check(seed, &world);
        total += world.book.queued.len();
        if !weather.jumps {
            let odd: BTreeSet<_> = world.book.future.union(&world.book.expired).collect();
            assert!(odd.is_empty(), "seed {seed}: {odd:?} with good clocks");
        }
        assert!(world.book.refused.is_empty(), "seed {seed}");
    }
    println!("{total} messages");
    assert!(total > 1000);
}

#[test]
fn through_one_honest_relay_each_recipient_gets_each_senders_mail_in_order() {
    for seed in seeds(30, 1000) {
        let weather = Weather {
            relays: 1,
            mischief: 0,
            jumps: false,
            ..weather(seed)
        };
        let mut world = World::new(seed, weather);
        world.introduce();
        for _ in 0..1500 {
            world.step();
        }
        world.settle();
        check(seed, &world);
        for (at, ids) in &world.book.read {
            for from in 0..world.nodes.len() {
                let of = |id: &&_| world.book.queued[*id] == (from, *at);
                let sent = world.book.order.iter().filter(of);
                let seen = ids.iter().filter(of);
                assert!(sent.eq(seen), "seed {seed}: {from} -> {at}");
            }
        }
    }
}

#[test]
fn trust_changes_by_an_operators_wish_only_and_both_sides_of_a_pairing_agree() {
    let mut pairs = 0;
    for seed in seeds(60, 3000) {
        let weather = Weather {
            strangers: true,
            ..weather(seed)
        };
        let mut world = World::new(seed, weather);
        for _ in 0..1500 {
            world.step();
        }
        world.settle();
        // Operators who look once more find nothing that is half done.
        world.accept_everybody();
        world.settle();
        world.check_trust(seed);
        check(seed, &world);
        for (asker, asked) in &world.wishes.accepted {
            assert!(world.lists(*asked, *asker), "seed {seed}: {asked} said yes");
            let spoiled = world.wishes.spoiled.contains(&(*asker, *asked));
            let agree = world.lists(*asker, *asked);
            assert!(agree || spoiled, "seed {seed}: {asker} waits for {asked}");
            pairs += usize::from(agree);
        }
    }
    println!("{pairs} pairs");
    assert!(pairs > 30);
}
