//! Pairing as a whole: two identities over a link that loses, doubles, delays and reorders; and the
//! power failing in the middle of an acceptance.

mod power;
mod world;

use interlink::testkit::Rng;

use super::support::{long, seed};
use world::World;

/// Whatever two operators and the link between them do, in whatever order: nobody is admitted
/// without an operator's act, no petname ever names another key, and once both sides want it and
/// mail gets through, both sides list each other.
#[test]
fn two_identities_over_a_bad_link_agree_in_the_end() {
    let runs = if long() { 5_000 } else { 150 };
    let first = seed();
    let mut total = world::Tally::default();
    for seed in first..first + runs {
        let mut world = World::new(Rng::new(seed));
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            world.trouble(200);
            world.heal();
        }));
        if let Err(why) = ran {
            println!("seed {seed}, the last steps:\n{}", world.story());
            std::panic::resume_unwind(why);
        }
        total.add(&world.tally);
    }
    println!("{total:?}");
    // The runs reached what they are there for.
    assert!(total.paired > 0 && total.conflicts > 0, "{total:?}");
    assert!(total.answers > 0 && total.unsolicited > 0, "{total:?}");
    assert!(total.copies > 0 && total.expired > 0, "{total:?}");
}
