//! The power fails at every write and every sync of an acceptance: what is left is a stranger that
//! waits, or a peer whose confirmation waits to be sent; never something between.

use interlink::domain::decide::agent::{Agent, AgentReply, PairingReply};
use interlink::domain::projection::agent::NewsKind;
use interlink::domain::query::agent as query;
use interlink::store::{Mode, Snapshot, Store};
use interlink::testkit::power::PLAIN_VARIANTS;
use interlink::testkit::sample_agent::take_lease;
use interlink::testkit::sample_pairing::{accept, knock};
use interlink::testkit::{Disk, Journal};
use interlink::types::id::{MsgId, PublicKey};

use crate::support::{START, clock, long, on_disk, seed, verified};

const STRANGER: u8 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The store has not heard of the stranger.
    Nothing,
    /// The stranger waits.
    Waiting,
    /// The stranger is admitted and its confirmation waits.
    Admitted,
}

/// Says how far it came; fails on everything that is neither.
fn state(snapshot: &Snapshot, what: &str) -> State {
    let key = PublicKey::from_bytes([STRANGER; 32]);
    let peer = query::peer_by_key(snapshot, &key).unwrap();
    let waits = query::inbound_of(snapshot, &key).unwrap();
    let news = query::news(snapshot, &"s1".parse().unwrap()).unwrap();
    let kinds: Vec<_> = news.iter().map(|n| n.kind).collect();
    let confirmation = MsgId::parse("accept-k").unwrap();
    let confirmation = query::outbox_entry(snapshot, &confirmation).unwrap();
    let answered = query::answered(snapshot, &key, &MsgId::parse("k").unwrap()).unwrap();
    match (peer, waits, confirmation, answered) {
        (None, None, None, None) => State::Nothing,
        (None, Some(_), None, None) => {
            assert_eq!(kinds, [NewsKind::Knock], "{what}");
            State::Waiting
        }
        (Some(peer), None, Some(mail), Some(row)) => {
            assert_eq!(peer.petname, "ann", "{what}");
            assert!(row.accepted, "{what}");
            assert_eq!(kinds, [NewsKind::Paired], "{what}");
            let body = snapshot.body(mail.row.body).unwrap();
            assert!(body.is_some(), "{what}: the confirmation has its text");
            State::Admitted
        }
        other => panic!("{what}: {other:?}"),
    }
}

struct History {
    journal: Journal,
    /// Operations done when the store was open, the stranger waited, and the acceptance was
    /// answered.
    marks: [usize; 3],
}

fn history(mode: Mode) -> History {
    let disk = Disk::new();
    disk.record();
    let store = Store::<Agent>::open(on_disk(&disk, mode), clock(), None).unwrap();
    let opened = disk.mark();
    let lease = store.submit(take_lease("s1", START)).unwrap().wait();
    let AgentReply::Lease(lease) = lease.unwrap().reply else {
        panic!("a free session's lease is given");
    };
    let command = knock(&lease, STRANGER, "k", "ann", START);
    store.submit(command).unwrap().wait().unwrap();
    let waits = disk.mark();
    let command = accept(STRANGER, "k", None, START);
    store.submit(command).unwrap().wait().unwrap();
    let answered = disk.mark();
    store.close();
    History {
        journal: disk.journal(),
        marks: [opened, waits, answered],
    }
}

/// Opens what is left, looks, and finishes the acceptance.
fn check(history: &History, mode: Mode, at: usize, image: Vec<u8>, what: &str) -> Option<State> {
    let [opened, waits, answered] = history.marks;
    let disk = Disk::with_bytes(image);
    let store = match Store::<Agent>::open(on_disk(&disk, mode), clock(), None) {
        Ok(store) => store,
        Err(_) if at < opened => return None,
        Err(e) => panic!("{what}: {e}"),
    };
    let found = {
        let snapshot = store.snapshot().unwrap();
        verified::<Agent>(&snapshot);
        state(&snapshot, what)
    };
    if at >= waits {
        assert_ne!(found, State::Nothing, "{what}: it was answered for");
    }
    if at >= answered {
        assert_eq!(found, State::Admitted, "{what}: it was answered for");
    }
    let again = store.submit(accept(STRANGER, "k", None, START)).unwrap();
    match (found, again.wait()) {
        (State::Nothing, refused) => assert!(refused.is_err(), "{what}"),
        (found, done) => {
            let reply = done.unwrap_or_else(|e| panic!("{what}: {e}")).reply;
            let AgentReply::Pairing(PairingReply::Accepted { seq, .. }) = reply else {
                panic!("{what}: {reply:?}");
            };
            assert_eq!(seq.is_some(), found == State::Waiting, "{what}");
            let snapshot = store.snapshot().unwrap();
            verified::<Agent>(&snapshot);
            assert_eq!(state(&snapshot, what), State::Admitted, "{what}");
        }
    }
    store.close();
    Some(found)
}

fn cut_everywhere(mode: Mode) {
    let history = history(mode);
    let seed = seed();
    let random = if long() { 16 } else { 1 };
    let mut seen = vec![];
    let mut cuts = history.journal.cuts();
    loop {
        let variants = match cuts.unsynced() {
            0 => 1,
            _ => PLAIN_VARIANTS + random,
        };
        for variant in 0..variants {
            let variant = match variant {
                0..PLAIN_VARIANTS => variant,
                n => seed.wrapping_add(n).max(PLAIN_VARIANTS),
            };
            let what = format!("{mode:?}, cut {}, variant {variant}", cuts.at());
            let image = cuts.image(variant);
            seen.extend(check(&history, mode, cuts.at(), image, &what));
        }
        if !cuts.advance() {
            break;
        }
    }
    for wanted in [State::Nothing, State::Waiting, State::Admitted] {
        assert!(seen.contains(&wanted), "no cut left {wanted:?}");
    }
}

#[test]
fn an_acceptance_cut_short_is_whole_or_was_never_made_in_a_shared_store() {
    cut_everywhere(Mode::Shared);
}

#[test]
fn an_acceptance_cut_short_is_whole_or_was_never_made_in_an_exclusive_store() {
    cut_everywhere(Mode::Exclusive);
}
