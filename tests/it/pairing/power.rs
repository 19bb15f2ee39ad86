//! The power fails at every write and every sync of a pairing, on either side: what is left is a
//! request that waits, or a peer with everything that belongs to its admission; never something
//! between. Whatever was left, the same step once more finishes it.

use interlink::domain::decide::agent::{
    Acceptance, Agent, AgentCommand, AgentReply, Lease, PairingCommand, PairingReply,
    TakeAcceptance,
};
use interlink::domain::gate::Windows;
use interlink::domain::projection::agent::NewsKind;
use interlink::domain::query::agent as query;
use interlink::store::{Mode, Snapshot, Store};
use interlink::testkit::power::PLAIN_VARIANTS;
use interlink::testkit::sample_agent::take_lease;
use interlink::testkit::sample_pairing::{accept, knock, request};
use interlink::testkit::{Disk, Journal};
use interlink::types::id::{MsgId, PublicKey};

use crate::support::{START, clock, long, on_disk, seed, verified};

const OTHER: u8 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The store has not heard of the other side.
    Nothing,
    /// The request waits.
    Waiting,
    /// The other side is admitted.
    Admitted,
}

/// One side of a pairing.
#[derive(Clone, Copy, Debug)]
enum Side {
    /// The operator accepts a stranger's request.
    Accepter,
    /// The stranger's acceptance of our request arrives.
    Requester,
}

impl Side {
    /// What makes the request wait.
    fn first(self, lease: &Lease) -> AgentCommand {
        match self {
            Side::Accepter => knock(lease, OTHER, "k", "ann", START),
            Side::Requester => request(lease, OTHER, "k", "ann", START),
        }
    }

    /// What admits the other side.
    fn second(self, lease: &Lease) -> AgentCommand {
        match self {
            Side::Accepter => accept(OTHER, "k", None, START),
            Side::Requester => PairingCommand::TakeAcceptance(Box::new(TakeAcceptance {
                lease: lease.clone(),
                from: PublicKey::from_bytes([OTHER; 32]),
                ts: START,
                in_reply_to: Some(MsgId::parse("k").unwrap()),
                windows: Windows::default(),
                now: START,
            }))
            .into(),
        }
    }

    /// Says how far it came; fails on everything that is neither.
    fn state(self, s: &Snapshot, what: &str) -> State {
        match self {
            Side::Accepter => accepter(s, what),
            Side::Requester => requester(s, what),
        }
    }
}

fn petname(s: &Snapshot) -> Option<String> {
    let peer = query::peer_by_key(s, &PublicKey::from_bytes([OTHER; 32])).unwrap();
    peer.map(|peer| peer.petname)
}

fn news(s: &Snapshot) -> Vec<NewsKind> {
    let news = query::news(s, &"s1".parse().unwrap()).unwrap();
    news.iter().map(|n| n.kind).collect()
}

fn accepter(s: &Snapshot, what: &str) -> State {
    let key = PublicKey::from_bytes([OTHER; 32]);
    let waits = query::inbound_of(s, &key).unwrap();
    let confirmation = query::outbox_entry(s, &MsgId::parse("accept-k").unwrap()).unwrap();
    let answered = query::answered(s, &key, &MsgId::parse("k").unwrap()).unwrap();
    match (petname(s).as_deref(), waits, confirmation, answered) {
        (None, None, None, None) => State::Nothing,
        (None, Some(_), None, None) => {
            assert_eq!(news(s), [NewsKind::Knock], "{what}");
            State::Waiting
        }
        (Some("ann"), None, Some(mail), Some(row)) => {
            assert!(row.accepted, "{what}");
            assert_eq!(news(s), [NewsKind::Paired], "{what}");
            let body = s.body(mail.row.body).unwrap();
            assert!(body.is_some(), "{what}: the confirmation has its text");
            State::Admitted
        }
        other => panic!("{what}: {other:?}"),
    }
}

fn requester(s: &Snapshot, what: &str) -> State {
    let waits = query::outbound_of(s, &PublicKey::from_bytes([OTHER; 32])).unwrap();
    let mail = query::outbox_entry(s, &MsgId::parse("k").unwrap()).unwrap();
    let sendable = mail.map(|mail| mail.row.is_open());
    match (petname(s).as_deref(), waits, sendable) {
        (None, None, None) => State::Nothing,
        (None, Some(_), Some(true)) => State::Waiting,
        (Some("ann"), None, Some(false)) => {
            assert_eq!(news(s), [NewsKind::Paired], "{what}");
            State::Admitted
        }
        other => panic!("{what}: {other:?}"),
    }
}

fn lease(store: &Store<Agent>) -> Lease {
    let done = store.submit(take_lease("s1", START)).unwrap().wait();
    match done.unwrap().reply {
        AgentReply::Lease(lease) => lease,
        other => panic!("{other:?}"),
    }
}

struct History {
    side: Side,
    mode: Mode,
    journal: Journal,
    /// Operations done when the store was open, the request waited, the other side was admitted.
    marks: [usize; 3],
}

fn history(side: Side, mode: Mode) -> History {
    let disk = Disk::new();
    disk.record();
    let store = Store::<Agent>::open(on_disk(&disk, mode), clock(), None).unwrap();
    let opened = disk.mark();
    let lease = lease(&store);
    store.submit(side.first(&lease)).unwrap().wait().unwrap();
    let waits = disk.mark();
    store.submit(side.second(&lease)).unwrap().wait().unwrap();
    let admitted = disk.mark();
    store.close();
    History {
        side,
        mode,
        journal: disk.journal(),
        marks: [opened, waits, admitted],
    }
}

/// Opens what is left, looks, and takes the last step once more.
fn check(history: &History, at: usize, image: Vec<u8>, what: &str) -> Option<State> {
    let [opened, waits, admitted] = history.marks;
    let side = history.side;
    let disk = Disk::with_bytes(image);
    let store = match Store::<Agent>::open(on_disk(&disk, history.mode), clock(), None) {
        Ok(store) => store,
        Err(_) if at < opened => return None,
        Err(e) => panic!("{what}: {e}"),
    };
    let look = |store: &Store<Agent>| {
        let snapshot = store.snapshot().unwrap();
        verified::<Agent>(&snapshot);
        side.state(&snapshot, what)
    };
    let found = look(&store);
    if at >= waits {
        assert_ne!(found, State::Nothing, "{what}: it was answered for");
    }
    if at >= admitted {
        assert_eq!(found, State::Admitted, "{what}: it was answered for");
    }
    let lease = lease(&store);
    let again = store.submit(side.second(&lease)).unwrap().wait();
    match (found, again.map(|done| done.reply)) {
        (State::Nothing, Err(_)) => {}
        (found, Ok(AgentReply::Pairing(PairingReply::Accepted { seq, .. }))) => {
            assert_eq!(seq.is_some(), found == State::Waiting, "{what}");
        }
        (found, Ok(AgentReply::Pairing(PairingReply::Acceptance(acceptance)))) => {
            let paired = matches!(acceptance, Acceptance::Paired { .. });
            assert_eq!(paired, found == State::Waiting, "{what}");
        }
        other => panic!("{what}: {other:?}"),
    }
    if found != State::Nothing {
        assert_eq!(look(&store), State::Admitted, "{what}");
    }
    store.close();
    Some(found)
}

fn cut_everywhere(side: Side, mode: Mode) {
    let history = history(side, mode);
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
            let what = format!("{side:?}, {mode:?}, cut {}, variant {variant}", cuts.at());
            seen.extend(check(&history, cuts.at(), cuts.image(variant), &what));
        }
        if !cuts.advance() {
            break;
        }
    }
    println!("{side:?}, {mode:?}: {} images", seen.len());
    for wanted in [State::Nothing, State::Waiting, State::Admitted] {
        assert!(seen.contains(&wanted), "no cut left {wanted:?}");
    }
}

#[test]
fn accepting_cut_short_is_whole_or_was_never_done() {
    for mode in [Mode::Shared, Mode::Exclusive] {
        cut_everywhere(Side::Accepter, mode);
    }
}

#[test]
fn an_acceptance_that_arrives_while_the_power_fails_counts_wholly_or_not_yet() {
    for mode in [Mode::Shared, Mode::Exclusive] {
        cut_everywhere(Side::Requester, mode);
    }
}
