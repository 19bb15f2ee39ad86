//! A bus alone, killed many times a second under plain HTTP clients: several connections send to
//! each queue, several read it, many messages at a time.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use interlink::crypto::hash::sha256;
use interlink::domain::decide::bus::Bus;
use interlink::store::{Mode, Reader};
use interlink::testkit::Rng;
use interlink::types::seq::Seq;
use serde_json::{Value, json};

use super::agents::DRAIN;
use super::client::Shared;
use super::history::{Event, Key, Msg, Who};
use super::process::{BusPlace, RawConn};
use super::stores;
use crate::mcp_support::eventually;
use crate::support::{long, seed, verified};

const QUEUES: u16 = 2;
const SENDERS: u16 = 4;

fn queue(who: Who) -> String {
    format!("q{who}#s")
}

fn payload(msg: Msg) -> Value {
    json!({ "text": msg.text(), "pad": "y".repeat(msg.n as usize % 700) })
}

/// Connections to a bus that dies all the time.
struct Wire<'a> {
    bus: &'a BusPlace,
    conn: Option<RawConn>,
}

impl Wire<'_> {
    /// `None`: whether it happened is not known.
    fn request(&mut self, method: &str, target: &str, body: Option<&Value>) -> Option<Value> {
        let outcome = self.try_request(method, target, body);
        if outcome.is_err() {
            self.conn = None;
            thread::sleep(Duration::from_millis(3));
        }
        let (status, body) = outcome.ok()?;
        match status {
            200 | 202 if body.is_empty() => Some(Value::Null),
            200 | 202 => Some(serde_json::from_slice(&body).unwrap()),
            // It is on its way down or up.
            503 => None,
            _ => panic!("{status}: {}", String::from_utf8_lossy(&body)),
        }
    }

    fn try_request(
        &mut self,
        method: &str,
        target: &str,
        body: Option<&Value>,
    ) -> io::Result<(u16, Vec<u8>)> {
        let conn = match &mut self.conn {
            Some(conn) => conn,
            none => none.insert(RawConn::open(self.bus.addr)?),
        };
        conn.request(method, target, body)
    }
}

/// Sends until told to be quiet, each message until it is taken. Its numbers are those of all
/// queues together, so that each queue gets them in rising order.
fn send(shared: &Shared, bus: &BusPlace, from: Who, sent: &AtomicU32, full: usize, mut rng: Rng) {
    let _guard = shared.guard();
    let mut wire = Wire { bus, conn: None };
    let mut n = 0;
    while !shared.stopped() && !shared.quiet.load(Ordering::SeqCst) {
        if shared.recorder.unseen_of(from) > full {
            thread::sleep(Duration::from_millis(5));
            continue;
        }
        n += 1;
        sent.store(n, Ordering::SeqCst);
        let to = u16::try_from(rng.below(u64::from(QUEUES))).unwrap();
        let msg = Msg { from, to, n };
        let body = json!({ "to": queue(to), "payload": payload(msg) });
        while !shared.stopped() {
            shared.recorder.add(Event::SendBegan(msg));
            if wire.request("POST", "/send", Some(&body)).is_some() {
                shared.recorder.add(Event::SendDone(msg, None));
                break;
            }
        }
        thread::sleep(Duration::from_micros(rng.below(3000)));
    }
}

/// Reads and acknowledges until told to stop.
fn read(shared: &Shared, bus: &BusPlace, reader: Who, mut rng: Rng) {
    let _guard = shared.guard();
    let mut wire = Wire { bus, conn: None };
    while !shared.stopped() {
        look(shared, &mut wire, reader, &mut rng);
        thread::sleep(Duration::from_micros(rng.below(5000)));
    }
}

/// Looks, and acknowledges some; how many there were, if the bus said.
fn look(shared: &Shared, wire: &mut Wire<'_>, reader: Who, rng: &mut Rng) -> Option<usize> {
    // 0 stands for the old form, which gives one message.
    let max = [0, 1, 2, 8, 64][rng.index(5)];
    let wait = [0, 50][rng.index(2)];
    let mut target = format!("/recv?me=q{reader}%23s&timeout_ms={wait}");
    if max > 0 {
        target.push_str(&format!("&max={max}"));
    }
    let look = shared.recorder.look();
    let reply = wire.request("GET", &target, None)?;
    let single = [reply.clone()];
    let deliveries: &[Value] = match (&reply["messages"], &reply["ack"]) {
        (Value::Array(messages), _) => messages,
        (_, Value::String(_)) => &single,
        _ => &[],
    };
    let seen: Vec<(Key, Msg)> = deliveries
        .iter()
        .map(|d| {
            let text = d["envelope"]["payload"]["text"].as_str().unwrap();
            (
                d["ack"].as_str().unwrap().to_owned(),
                Msg::parse(text).unwrap(),
            )
        })
        .collect();
    let count = seen.len();
    let keys: Vec<Key> = seen.iter().map(|(key, _)| key.clone()).collect();
    shared.recorder.add(Event::LookDone {
        look,
        reader,
        seen,
        whole: count < max.max(1),
    });
    // Mostly a prefix, sometimes only the last.
    let keys = match rng.below(8) {
        0 => &keys[..0],
        1 => &keys[count.saturating_sub(1)..],
        _ => &keys[..rng.index(count + 1)],
    };
    if !keys.is_empty() {
        acknowledge(shared, wire, reader, keys);
    }
    Some(count)
}

fn acknowledge(shared: &Shared, wire: &mut Wire<'_>, reader: Who, keys: &[Key]) {
    let body = match keys {
        [key] => json!({ "me": queue(reader), "ack": key }),
        keys => json!({ "me": queue(reader), "acks": keys }),
    };
    let keys = keys.to_vec();
    let began = keys.clone();
    shared.recorder.add(Event::AckBegan {
        reader,
        keys: began,
    });
    if wire.request("POST", "/ack", Some(&body)).is_some() {
        shared.recorder.add(Event::AckDone { reader, keys });
    }
}

/// Lets whatever bus runs compact its log, again and again; gives the records that went.
fn compact(shared: &Shared, bus: &BusPlace) -> u64 {
    let client = crate::support::web();
    let name = format!("{}.admin", bus.db.display());
    let mut folded = 0;
    while !shared.stopped() {
        let file = std::fs::read(&name).ok();
        let file: Option<Value> = file.and_then(|text| serde_json::from_slice(&text).ok());
        let Some(file) = file else { continue };
        let text = |member: &str| file[member].as_str().unwrap().to_owned();
        let url = format!("{}/admin/v1/compact?until={}", text("url"), u64::MAX);
        let request = client.post(url).bearer_auth(text("token"));
        // The bus may be dead, or another one by now.
        let answer = request.send().and_then(|answer| answer.json::<Value>());
        folded += answer.map_or(0, |answer| answer["records"].as_u64().unwrap_or(0));
    }
    folded
}

/// One run: kills, then calm until everything was read.
fn run(args: &[&str], kills: u32, readers: u16, full: usize) {
    run_with(args, kills, readers, full, false);
}

fn run_with(args: &[&str], kills: u32, readers: u16, full: usize, compacted: bool) {
    let mut rng = Rng::new(seed());
    let dir = tempfile::tempdir().unwrap();
    let bus = BusPlace::new(dir.path(), args);
    let shared = Shared::default();
    let sent: Vec<AtomicU32> = (0..SENDERS).map(|_| AtomicU32::new(0)).collect();
    bus.start();
    thread::scope(|scope| {
        let (shared, bus) = (&shared, &bus);
        for from in 0..SENDERS {
            let (sent, seed) = (&sent[usize::from(from)], rng.next_u64());
            scope.spawn(move || send(shared, bus, from, sent, full, Rng::new(seed)));
        }
        for n in 0..QUEUES * readers {
            let seed = rng.next_u64();
            scope.spawn(move || read(shared, bus, n % QUEUES, Rng::new(seed)));
        }
        if compacted {
            scope.spawn(move || {
                let folded = compact(shared, bus);
                assert!(folded > 0, "nothing was compacted");
            });
        }
        let _guard = shared.guard();
        for _ in 0..kills {
            // One in four dies while it starts.
            if !rng.chance(25) {
                bus.ready();
            }
            thread::sleep(Duration::from_micros(rng.below(60_000)));
            if shared.stopped() {
                break;
            }
            bus.kill_and_restart();
        }
        shared.quiet.store(true, Ordering::SeqCst);
        if readers > 0 {
            let begun = std::time::Instant::now();
            while !shared.recorder.on_the_way().is_empty() && !shared.stopped() {
                assert!(
                    begun.elapsed() < DRAIN,
                    "{:?}",
                    shared.recorder.on_the_way()
                );
                thread::sleep(Duration::from_millis(10));
            }
        }
        shared.stop.store(true, Ordering::SeqCst);
    });
    let mut wire = Wire {
        bus: &bus,
        conn: None,
    };
    for reader in 0..QUEUES {
        eventually("an empty queue", || {
            let whole = look(&shared, &mut wire, reader, &mut rng) == Some(0);
            whole.then_some(())
        });
    }
    bus.slot.terminate();
    if compacted {
        let tally = shared.recorder.judge();
        assert!(tally.taken > 0 && tally.acknowledged > 0, "{tally:?}");
        let snapshot = Reader::open(&bus.db, Mode::Exclusive).unwrap();
        let snapshot = snapshot.snapshot().unwrap();
        assert!(snapshot.base().unwrap() > Seq::ZERO);
        verified::<Bus>(&snapshot);
        return;
    }
    let payloads: BTreeMap<_, _> = (0..SENDERS)
        .flat_map(|from| {
            let last = sent[usize::from(from)].load(Ordering::SeqCst);
            (1..=last).flat_map(move |n| (0..QUEUES).map(move |to| Msg { from, to, n }))
        })
        .map(|msg| (sha256(&serde_json::to_vec(&payload(msg)).unwrap()), msg))
        .collect();
    for event in stores::drops(&bus.db, &payloads) {
        shared.recorder.add(event);
    }
    let tally = shared.recorder.judge();
    assert!(tally.taken > 0 && tally.acknowledged > 0, "{tally:?}");
    if args.is_empty() {
        assert_eq!(tally.dropped, 0);
    } else {
        assert!(tally.dropped > 0, "the queues never overflowed");
    }
}

#[test]
fn a_bus_killed_many_times_a_second_keeps_its_word() {
    run(&[], if long() { 600 } else { 40 }, 2, 200);
}

#[test]
fn a_bus_killed_while_it_compacts_keeps_its_word() {
    run_with(&[], if long() { 300 } else { 25 }, 2, 200, true);
}

#[test]
fn what_an_overflow_drops_under_kills_is_on_record_and_nothing_else_is_lost() {
    let kills = if long() { 100 } else { 10 };
    run(&["--queue-cap", "16"], kills, 0, usize::MAX);
}
