//! What the log keeps of sessions, and what it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use interlink::domain::Domain as _;
use interlink::domain::decide::bus::{
    Bus as BusDomain, BusCommand, BusRefusal, BusReply, RelayCommand, RelayRefusal, RelayReply,
};
use interlink::domain::projection::apply_all;
use interlink::domain::tables::{MemTables, TableId};
use interlink::event::Recorded;
use interlink::event::bus_rendezvous::RelayFlow;
use interlink::store::{CommandError, Cut, Location, Mode, OpenOptions, Reader, Store, copy_to};
use interlink::testkit::sample_rendezvous::{
    relay_history, relay_join, relay_leave, relay_open, relay_send,
};
use interlink::testkit::{FakeClock, Rng};
use interlink::types::seq::Seq;
use interlink::types::time::UnixMillis;
use serde_json::json;

use super::{Relay, START, id};
use crate::support::{START as BEGIN, clock as test_clock, verified};

fn file_store(path: &Path) -> impl FnOnce(&mut interlink::bus::Config) {
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    move |config| config.store = options
}

fn contains(hay: &[u8], needle: &[u8]) -> bool {
    hay.windows(needle.len()).any(|window| window == needle)
}

/// Everything that a store holds, through its interface: records, bodies, rows, base rows.
fn everything(path: &Path) -> Vec<u8> {
    let reader = Reader::open(path, Mode::Exclusive).unwrap();
    let snapshot = reader.snapshot().unwrap();
    verified::<BusDomain>(&snapshot);
    let mut all = vec![];
    snapshot
        .frames(Seq::ZERO, |_, bytes| {
            all.extend_from_slice(bytes);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    snapshot
        .bodies(|_, bytes| {
            all.extend_from_slice(bytes);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    for table in interlink::domain::tables::TableId::ALL {
        use interlink::domain::tables::TableReader as _;
        use std::ops::Bound::Unbounded;
        let mut take = |key: &[u8], value: &[u8]| {
            all.extend_from_slice(key);
            all.extend_from_slice(value);
            ControlFlow::Continue(())
        };
        snapshot
            .scan(*table, Unbounded, Unbounded, &mut take)
            .unwrap();
        snapshot
            .base_rows()
            .scan(*table, Unbounded, Unbounded, &mut take)
            .unwrap();
    }
    all
}

/// What identifies the sessions of these tests, as bytes and as text.
fn secrets() -> Vec<Vec<u8>> {
    let mut secrets = vec![b"ciphertext-of-a-session".to_vec()];
    for n in [9, 1, 2, 101, 102] {
        let text = id(n);
        secrets.push(data_of(&text));
        secrets.push(text.into_bytes());
    }
    secrets
}

fn data_of(hex: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

#[test]
fn a_restart_keeps_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let relay = Relay::with(file_store(&path), |_| {});
    let mut peer = relay.paired();
    for n in 0..10 {
        peer.send(9, 1, &json!({ "n": n })).is_ok();
    }
    relay.bus.stop();
    let relay = Relay::with(file_store(&path), |_| {});
    let mut peer = relay.connect();
    assert_eq!(peer.poll(9, 2, 0).seqs(), (1..=11).collect::<Vec<u64>>());
    // Membership, pace and numbers as before.
    assert_eq!(peer.send(9, 3, &json!(1)).0.status, 403);
    assert_eq!(peer.send(9, 1, &json!(1)).0.status, 429);
    assert_eq!(peer.create(9, 1).0.status, 403);
    let joined = peer.join(9, 2).is_ok();
    assert_eq!(joined["hostPublicKey"], id(101));
    peer.send(9, 2, &json!(1)).is_ok();
    assert_eq!(peer.poll(9, 1, 1).seqs(), [12]);
}

#[test]
fn nothing_that_identifies_anybody_outlives_the_session() {
    for by_age in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bus.redb");
        let relay = Relay::with(file_store(&path), |_| {});
        let mut peer = relay.paired();
        peer.send(9, 1, &json!("ciphertext-of-a-session")).is_ok();
        peer.send(9, 2, &json!("ciphertext-of-a-session")).is_ok();
        if by_age {
            relay.clock.set(START + 30 * 60_000);
            relay
                .bus
                .until("it is over", |s| s["relay"]["sessions"] == 0);
        } else {
            peer.disconnect(9, 1).is_ok();
            peer.disconnect(9, 2).is_ok();
        }
        relay.bus.stop();
        let all = everything(&path);
        for secret in secrets() {
            assert!(!contains(&all, &secret), "{by_age} {}", secret.len());
        }
        // The log says that it was there.
        let reader = Reader::open(&path, Mode::Exclusive).unwrap();
        assert!(reader.snapshot().unwrap().head().unwrap() >= Seq(5));
    }
}

#[test]
fn while_it_lives_only_bodies_identify_anybody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let relay = Relay::with(file_store(&path), |_| {});
    let mut peer = relay.paired();
    peer.send(9, 1, &json!("ciphertext-of-a-session")).is_ok();
    relay.bus.stop();
    let reader = Reader::open(&path, Mode::Exclusive).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let mut frames = vec![];
    snapshot
        .frames(Seq::ZERO, |_, bytes| {
            frames.extend_from_slice(bytes);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    for secret in secrets() {
        assert!(!contains(&frames, &secret));
    }
    drop((snapshot, reader));
    assert!(
        contains(&everything(&path), &data_of(&id(9))),
        "the search finds what is there"
    );
}

/// What the operator is promised of a file, byte by byte, and not of what its interface shows.
#[cfg(all(target_os = "linux", feature = "agent", feature = "cli"))]
#[test]
fn a_shrunk_file_and_a_backup_hold_no_byte_of_an_ended_session() {
    use crate::admin::ok;

    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("bus.redb");
    let relay = Relay::with(file_store(&path), |_| {});
    let mut peer = relay.paired();
    for n in 0..10 {
        let payload = format!("ciphertext-of-a-session {n} {}", "x".repeat(40_000));
        peer.send(9, 1, &json!(payload)).is_ok();
    }
    peer.poll(9, 2, 0).is_ok();
    // One that goes on, and whose messages stand behind the others: the file cannot just be cut off.
    peer.create(8, 7).is_ok();
    for _ in 0..8 {
        peer.send(8, 7, &json!("y".repeat(40_000))).is_ok();
    }
    let half_hour = 30 * 60_000;
    relay.clock.set(START + half_hour - 1);
    peer.join(8, 6).is_ok();
    relay.clock.set(START + half_hour);
    relay
        .bus
        .until("the first is over", |s| s["relay"]["sessions"] == 1);
    relay.bus.stop();
    let raw = std::fs::read(&path).unwrap();
    assert!(
        contains(&raw, b"ciphertext-of-a-session"),
        "pages were used again before anybody looked"
    );
    let store = path.display().to_string();
    ok(home.path(), &["--store", &store, "backup", "copy.redb"]);
    ok(
        home.path(),
        &[
            "--store", &store, "compact", "--until", "999", "--shrink", "--yes",
        ],
    );
    for file in ["bus.redb", "copy.redb"] {
        let raw = std::fs::read(home.path().join(file)).unwrap();
        for secret in secrets() {
            assert!(!contains(&raw, &secret), "{file}: {} bytes", secret.len());
        }
        for alive in [8, 7, 6] {
            assert!(contains(&raw, &data_of(&id(alive))), "{file}: {alive}");
        }
    }
}

fn open(path: &Path, clock: &Arc<FakeClock>) -> Store<BusDomain> {
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    Store::open(options, clock.clone(), None).unwrap()
}

fn run(store: &Store<BusDomain>, wish: BusCommand) -> Result<RelayReply, RelayRefusal> {
    match store.submit(wish).unwrap().wait() {
        Ok(done) => match done.reply {
            BusReply::Relay(reply) => Ok(reply),
            other => panic!("{other:?}"),
        },
        Err(CommandError::Refused(BusRefusal::Relay(refusal))) => Err(refusal),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_compacted_store_keeps_its_sessions_and_the_file_forgets_the_ended_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let clock = test_clock();
    let store = open(&path, &clock);
    relay_history(BEGIN, &mut |wish| {
        store.submit(wish).unwrap().wait().unwrap().reply
    });
    store
        .compact(Cut::ALL, Duration::from_secs(20))
        .unwrap()
        .wait()
        .unwrap();
    let copy = dir.path().join("copy.redb");
    copy_to(&store.snapshot().unwrap(), &copy).unwrap();
    store.close();
    let raw = std::fs::read(&copy).unwrap();
    for gone in [[2u8; 32], [0x21; 32], [0x22; 32], [0x12; 32]] {
        assert_eq!(contains(&raw, &gone), gone == [0x12; 32], "{}", gone[0]);
    }
    let store = open(&path, &clock);
    store.with_index(|index, _| {
        let (at, session) = index.relay().find(&[1; 32]).unwrap();
        assert_eq!((at, index.relay().len()), (Seq(1), 1));
        assert_eq!(session.members.len(), 2);
        assert!(session.member(&[0x11; 32]).is_some());
    });
    run(&store, relay_send(1, 0x13, 1, 60, BEGIN)).unwrap();
}

/// The rows of a store whose bodies at some positions are lost, once it has let go of them.
fn let_go(store: &Store<BusDomain>, lost: &[u64]) -> MemTables {
    let snapshot = store.snapshot().unwrap();
    let mut tables = snapshot.replay::<BusDomain>().unwrap();
    let lost: BTreeSet<Seq> = lost.iter().copied().map(Seq).collect();
    let mut seq = snapshot.head().unwrap();
    for event in BusDomain::let_go(&tables, &lost).unwrap() {
        seq = seq.next();
        let at = BEGIN;
        let record = Recorded { seq, at, event };
        apply_all(BusDomain::projections(), &mut tables, &record).unwrap();
    }
    BusDomain::live_bodies(&tables, &mut |body| assert!(!lost.contains(&body.seq))).unwrap();
    tables
}

#[test]
fn a_session_outlives_a_lost_message_and_no_lost_peer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let store = open(&path, &test_clock());
    relay_history(BEGIN, &mut |wish| {
        store.submit(wish).unwrap().wait().unwrap().reply
    });
    let count = |tables: &MemTables| {
        (
            tables.count(TableId::RelaySessions),
            tables.count(TableId::RelayMessages),
            tables.count(TableId::RelayPeers),
        )
    };
    assert_eq!(count(&let_go(&store, &[])), (1, 8, 3));
    assert_eq!(count(&let_go(&store, &[4, 5])), (1, 6, 3));
    for peer in [1, 2, 12] {
        assert_eq!(count(&let_go(&store, &[peer, 4])), (0, 0, 0));
    }
    // A message that is found lost leaves at once.
    run(
        &store,
        BusCommand::Relay(RelayCommand::Lose { message: Seq(4) }),
    )
    .unwrap();
    run(
        &store,
        BusCommand::Relay(RelayCommand::Lose { message: Seq(4) }),
    )
    .unwrap();
    assert_eq!(count(&let_go(&store, &[])), (1, 7, 3));
    verified::<BusDomain>(&store.snapshot().unwrap());
}

/// A session as it should be, message by message.
#[derive(Default)]
struct Model {
    sessions: BTreeMap<u8, Session>,
}

struct Session {
    host: u8,
    flow: RelayFlow,
    used_at: u64,
    members: Vec<u8>,
    next: u64,
    /// Number, sender, whether it is a peer's own, time, bytes.
    messages: Vec<(u64, u8, bool, u64)>,
}

impl Session {
    fn push(&mut self, from: u8, sent: bool, now: u64) {
        self.messages.push((self.next, from, sent, now));
        self.next += 1;
        if self.flow == RelayFlow::Ordinary && self.messages.len() > 100 {
            self.messages.remove(0);
        }
    }
}

/// What a wish should lead to.
type Expected = Result<RelayReply, RelayRefusal>;

impl Model {
    fn live(&mut self, routing: u8, now: u64) -> Option<bool> {
        let session = self.sessions.get(&routing)?;
        let over = now.saturating_sub(session.used_at) >= 1_800_000;
        if over {
            self.sessions.remove(&routing);
        }
        Some(!over)
    }

    fn open(&mut self, routing: u8, peer: u8, flow: RelayFlow, now: u64) -> Expected {
        if self.live(routing, now) == Some(true) {
            return Err(RelayRefusal::Full);
        }
        let session = Session {
            host: peer,
            flow,
            used_at: now,
            members: vec![peer],
            next: 1,
            messages: vec![],
        };
        self.sessions.insert(routing, session);
        Ok(RelayReply::Opened)
    }

    fn join(&mut self, routing: u8, peer: u8, now: u64) -> Expected {
        match self.live(routing, now) {
            None => return Err(RelayRefusal::Unknown),
            Some(false) => return Ok(RelayReply::Over),
            Some(true) => {}
        }
        let session = self.sessions.get_mut(&routing).unwrap();
        if !session.members.contains(&peer) {
            if session.members.len() == 2 {
                return Err(RelayRefusal::Full);
            }
            session.members.push(peer);
            session.used_at = now;
            session.push(peer, false, now);
        }
        Ok(RelayReply::Joined {
            host_key: [session.host ^ 0x80; 32],
            count: session.members.len(),
            flow: session.flow,
        })
    }

    fn send(&mut self, routing: u8, peer: u8, now: u64) -> Expected {
        match self.live(routing, now) {
            None => return Err(RelayRefusal::Unknown),
            Some(false) => return Ok(RelayReply::Over),
            Some(true) => {}
        }
        let session = self.sessions.get_mut(&routing).unwrap();
        if !session.members.contains(&peer) {
            return Err(RelayRefusal::Stranger);
        }
        let recent: Vec<u64> = session
            .messages
            .iter()
            .filter(|(_, from, sent, at)| *sent && *from == peer && now - at < 60_000)
            .map(|(_, _, _, at)| *at)
            .collect();
        if session.flow == RelayFlow::Ordinary && recent.len() >= 10 {
            let after_ms = recent.iter().min().unwrap() + 60_000 - now;
            return Err(RelayRefusal::TooFast { after_ms });
        }
        session.used_at = now;
        session.push(peer, true, now);
        Ok(RelayReply::Done)
    }

    fn leave(&mut self, routing: u8, peer: u8, now: u64) -> Expected {
        match self.live(routing, now) {
            None => return Ok(RelayReply::Done),
            Some(false) => return Ok(RelayReply::Over),
            Some(true) => {}
        }
        let session = self.sessions.get_mut(&routing).unwrap();
        if session.members.contains(&peer) {
            session.members.retain(|member| *member != peer);
            if session.members.is_empty() {
                self.sessions.remove(&routing);
            } else {
                session.push(peer, false, now);
            }
        }
        Ok(RelayReply::Done)
    }

    fn fetched(&mut self, routing: u8, peer: u8, until: u64) {
        if let Some(session) = self.sessions.get_mut(&routing)
            && session.flow == RelayFlow::Lossless
        {
            let gone = |(n, from, ..): &(u64, u8, bool, u64)| *n <= until && *from != peer;
            session.messages.retain(|message| !gone(message));
        }
    }

    fn compare(&self, store: &Store<BusDomain>) {
        store.with_index(|index, _| {
            let index = index.relay();
            assert_eq!(index.len(), self.sessions.len());
            for (routing, expected) in &self.sessions {
                let (_, session) = index.find(&[*routing; 32]).unwrap();
                assert_eq!(session.used_at, UnixMillis(expected.used_at));
                assert_eq!(session.next, expected.next);
                let peer = |at: Seq| session.peer(at).unwrap().peer[0];
                let members: Vec<u8> = session.members.iter().map(|at| peer(*at)).collect();
                assert_eq!(members, expected.members);
                let have: Vec<(u64, u8, u64)> = session
                    .messages
                    .iter()
                    .map(|(n, m)| (*n, peer(m.from), m.at.0))
                    .collect();
                let want: Vec<(u64, u8, u64)> = expected
                    .messages
                    .iter()
                    .map(|(n, f, _, at)| (*n, *f, *at))
                    .collect();
                assert_eq!(have, want);
            }
        });
    }
}

#[test]
fn a_relay_does_what_its_model_does_also_after_reopening() {
    for seed in 1..=6 {
        let mut rng = Rng::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bus.redb");
        let clock = test_clock();
        let mut store = open(&path, &clock);
        let mut model = Model::default();
        let mut now = BEGIN.0;
        for step in 0..400 {
            let pause = [0, 100, 3_000, 9_000, 70_000, 1_000_000][rng.index(6)];
            if rng.chance(60) {
                clock.advance(pause);
                now += pause;
            }
            let at = UnixMillis(now);
            let routing = 1 + u8::try_from(rng.below(3)).unwrap();
            let peer = 0x11 + u8::try_from(rng.below(3)).unwrap();
            let context = format!("seed {seed}, step {step}");
            match rng.below(100) {
                0..15 => {
                    let flow = [RelayFlow::Ordinary, RelayFlow::Lossless][rng.index(2)];
                    let expected = model.open(routing, peer, flow, now);
                    let did = run(&store, relay_open(routing, peer, flow, at));
                    assert_eq!(did, expected, "{context}");
                }
                15..35 => {
                    let did = run(&store, relay_join(routing, peer, at));
                    if !matches!(did, Err(RelayRefusal::SessionFull { .. })) {
                        assert_eq!(did, model.join(routing, peer, now), "{context}");
                    }
                }
                35..75 => {
                    let did = run(&store, relay_send(routing, peer, step, 40, at));
                    let full = matches!(
                        did,
                        Err(RelayRefusal::RelayFull { .. }
                            | RelayRefusal::SessionFull { .. }
                            | RelayRefusal::TooFast { after_ms: 1000 })
                    );
                    if !full {
                        assert_eq!(did, model.send(routing, peer, now), "{context}");
                    }
                }
                75..85 => {
                    let expected = model.leave(routing, peer, now);
                    assert_eq!(
                        run(&store, relay_leave(routing, peer, at)),
                        expected,
                        "{context}"
                    );
                }
                85..92 => {
                    let session = store.with_index(|index, _| {
                        index.relay().find(&[routing; 32]).map(|(at, _)| at)
                    });
                    if let Some(session) = session {
                        let until = rng.below(20);
                        let wish = RelayCommand::Fetched {
                            session,
                            peer: [peer; 32],
                            until,
                        };
                        run(&store, BusCommand::Relay(wish)).unwrap();
                        model.fetched(routing, peer, until);
                    }
                }
                92..96 => {
                    let wish = RelayCommand::End {
                        session: None,
                        now: at,
                        max: 8,
                    };
                    run(&store, BusCommand::Relay(wish)).unwrap();
                    model.sessions.retain(|_, s| now - s.used_at < 1_800_000);
                }
                _ => {
                    store.close();
                    store = open(&path, &clock);
                }
            }
            model.compare(&store);
        }
        verified::<BusDomain>(&store.snapshot().unwrap());
        store.close();
    }
}
