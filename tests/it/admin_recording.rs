//! `trace` and `stats` against an independent recording of the same run.
//!
//! A bus and two channel servers are processes; between them stands a proxy that writes down every
//! request and answer with the time, and the test writes down what it asked the channel servers as
//! their host. Nothing of that comes from a store. Then what the operator's tool says is compared,
//! message by message: which steps there were, and that each happened within the time in which the
//! recording says it must have.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::admin_world::{json_of, ok};
use super::mcp_support::{Agent, Home, eventually, friends};

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// One request with its answer.
#[derive(Clone, Debug)]
struct Exchange {
    /// When the request had been read.
    began: u64,
    /// When the answer had been read.
    ended: u64,
    path: String,
    request: Value,
    status: u16,
    reply: Value,
}

/// Hands requests on to the bus, and writes them down.
struct Recorder {
    seen: Arc<Mutex<Vec<Exchange>>>,
}

impl Recorder {
    fn start(at: SocketAddr, bus: SocketAddr) -> Recorder {
        let listener = TcpListener::bind(at).unwrap();
        let seen = Arc::new(Mutex::new(vec![]));
        let into = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let into = Arc::clone(&into);
                thread::spawn(move || hand_on(stream, bus, &into));
            }
        });
        Recorder { seen }
    }

    fn exchanges(&self, path: &str) -> Vec<Exchange> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .filter(|e| e.path.starts_with(path))
            .cloned()
            .collect()
    }
}

/// Head and body of what comes; the body ends with its length, or with the stream.
fn message(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = vec![];
    let mut chunk = [0u8; 8192];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut chunk).ok()? {
            0 => return None,
            n => bytes.extend_from_slice(&chunk[..n]),
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8(bytes).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let own = name.eq_ignore_ascii_case("content-length");
        own.then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    while body.len() < length.unwrap_or(0) {
        match stream.read(&mut chunk).ok()? {
            0 => return None,
            n => body.extend_from_slice(&chunk[..n]),
        }
    }
    Some((head, body))
}

fn hand_on(mut client: TcpStream, bus: SocketAddr, into: &Mutex<Vec<Exchange>>) -> Option<()> {
    let (head, body) = message(&mut client)?;
    let began = now();
    let path = head.split_whitespace().nth(1)?.to_owned();
    let mut upstream = TcpStream::connect(bus).ok()?;
    // One request a connection: the answer then ends with the stream.
    for line in head.trim_end().split("\r\n") {
        if !line.to_ascii_lowercase().starts_with("connection:") {
            upstream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
        }
    }
    upstream.write_all(b"connection: close\r\n\r\n").ok()?;
    upstream.write_all(&body).ok()?;
    let (answer_head, answer) = message(&mut upstream)?;
    let ended = now();
    let status = answer_head.split_whitespace().nth(1)?.parse().ok()?;
    // A long poll outlives its reader that was killed: what it brings reaches nobody.
    client.set_nonblocking(true).ok()?;
    if matches!(client.peek(&mut [0]), Ok(0)) {
        return None;
    }
    client.set_nonblocking(false).ok()?;
    into.lock().unwrap().push(Exchange {
        began,
        ended,
        path,
        request: serde_json::from_slice(&body).unwrap_or_default(),
        status,
        reply: serde_json::from_slice(&answer).unwrap_or_default(),
    });
    client.write_all(answer_head.as_bytes()).ok()?;
    client.write_all(&answer).ok()
}

/// What the host did: a call with its id, and when it was.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    began: u64,
    ended: u64,
}

fn during<T>(f: impl FnOnce() -> T) -> (Call, T) {
    let began = now();
    let value = f();
    let ended = now();
    (Call { began, ended }, value)
}

/// What the recording knows of one message.
#[derive(Clone, Debug, Default)]
struct Seen {
    sent: Option<Call>,
    read: Option<Call>,
    /// The request that brought it to the bus.
    taken: Option<Call>,
    /// When an answer first had it.
    fetched: Option<u64>,
    acked: Option<Call>,
    /// The request whose answer says that it was dropped.
    dropped: Option<Call>,
}

struct BusProcess(Child);

impl Drop for BusProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl BusProcess {
    /// A bus with queues of two, and where it listens.
    fn start(root: &Path) -> (BusProcess, SocketAddr) {
        let db = root.join("bus.redb");
        let child = Command::new(env!("CARGO_BIN_EXE_interlink-bus"))
            .env_clear()
            .env("HOME", root)
            .args(["--addr", "127.0.0.1:0", "--queue-cap", "2", "--db"])
            .arg(&db)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let bus = BusProcess(child);
        let admin = root.join("bus.redb.admin");
        let addr = eventually("the bus", || {
            let file: Value = serde_json::from_slice(&std::fs::read(&admin).ok()?).ok()?;
            file["url"].as_str()?.strip_prefix("http://")?.parse().ok()
        });
        (bus, addr)
    }

    fn stop(mut self) {
        super::mcp_support::signal(self.0.id(), "TERM");
        self.0.wait().unwrap();
    }
}

/// The run: what was done, by message.
struct Run {
    root: tempfile::TempDir,
    bus: BusProcess,
    recorder: Recorder,
    calls: BTreeMap<String, Seen>,
    /// Was queued while its relay was dead.
    delayed: String,
    /// Gave way in a full queue.
    dropped: String,
    /// Waited until it was too old for its reader.
    late: [String; 2],
    /// Went straight through, there and back.
    prompt: [String; 2],
}

fn start(home: &Home, root: &Path, relay: &str, session: &str, more: &[&str]) -> Agent {
    let mut command = home.command(relay, session);
    command
        .arg("--db")
        .arg(root.join(session).join("agent.redb"));
    Agent::start({
        command.args(more);
        command
    })
}

/// How old mail may be for its reader, where that matters: longer than a message takes that goes
/// straight through.
const MAX_AGE_MS: u64 = 6000;

fn play() -> Run {
    let root = tempfile::tempdir().unwrap();
    let (a, b) = friends();
    let at = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let relay = format!("http://{at}");
    let mut calls: BTreeMap<String, Seen> = BTreeMap::new();
    let mut send = |from: &mut Agent, to: &str, session: &str| {
        let (call, id) = during(|| from.send(to, session, "words"));
        calls.entry(id.clone()).or_default().sent = Some(call);
        id
    };

    // Nothing listens where the relay should be.
    let mut alice = start(&a, root.path(), &relay, "alice", &[]);
    let delayed = send(&mut alice, "b", "bob");
    eventually("a failed attempt", || {
        let state = alice.state_of(&delayed);
        state["relays"][0]["attempts"].as_u64().filter(|n| *n > 0)
    });
    let (bus, addr) = BusProcess::start(root.path());
    let recorder = Recorder::start(at, addr);
    let mut bob = start(&b, root.path(), &relay, "bob", &[]);
    let mail = bob.inbox_of(1);
    let mut read: BTreeMap<String, Call> = BTreeMap::new();
    let (call, _) = during(|| bob.acknowledge(&mail));
    read.insert(delayed.clone(), call);
    // The receipt reaches the bus before the reader is gone.
    eventually("the receipt", || {
        (!recorder.exchanges("/ack").is_empty()).then_some(())
    });
    bob.kill();

    // Three for a queue of two.
    let mut waiting = vec![];
    for _ in 0..3 {
        let id = send(&mut alice, "b", "bob");
        alice.wait_state(&id, "bus_accepted");
        waiting.push(id);
    }
    let young = now();
    eventually("its age", || {
        (now() > young + MAX_AGE_MS + 500).then_some(())
    });
    let age = format!("{MAX_AGE_MS}ms");
    let mut bob = start(&b, root.path(), &relay, "bob", &["--max-age", &age]);
    eventually("what came too late", || {
        let inbox = bob.call("receive_messages", &json!({}));
        (inbox["expired"].as_array()?.len() == 2).then_some(())
    });
    let there = send(&mut alice, "b", "bob");
    let mail = bob.inbox_of(1);
    let (call, _) = during(|| bob.acknowledge(&mail));
    read.insert(there.clone(), call);
    let back = send(&mut bob, "a", "alice");
    let mail = alice.inbox_of(1);
    let (call, _) = during(|| alice.acknowledge(&mail));
    read.insert(back.clone(), call);
    let [dropped, late @ ..] = <[String; 3]>::try_from(waiting).unwrap();
    let prompt = [there, back];
    eventually("every receipt", || {
        let bus = json_of(
            root.path(),
            &["queue", "--store", bus_of(root.path()).as_str()],
        );
        bus["stores"][0]["queues"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });
    for id in &prompt[..1] {
        alice.wait_state(id, "bus_accepted");
    }
    bob.wait_state(&prompt[1], "bus_accepted");
    // Without a good-bye, which would be a message too.
    bob.kill();
    alice.kill();
    for (id, call) in read {
        calls.get_mut(&id).unwrap().read = Some(call);
    }
    Run {
        root,
        bus,
        recorder,
        calls,
        delayed,
        dropped,
        late,
        prompt,
    }
}

fn bus_of(root: &Path) -> String {
    root.join("bus.redb").to_str().unwrap().to_owned()
}

impl Run {
    /// Adds what passed the proxy to what the host did.
    fn recording(&self) -> BTreeMap<String, Seen> {
        let mut all = self.calls.clone();
        let mut by_ack: BTreeMap<String, String> = BTreeMap::new();
        for exchange in self.recorder.exchanges("/recv") {
            for delivery in exchange.reply["messages"].as_array().into_iter().flatten() {
                let id = delivery["envelope"]["payload"]["msg_id"].as_str().unwrap();
                by_ack.insert(delivery["ack"].as_str().unwrap().to_owned(), id.to_owned());
                let seen = all.get_mut(id).expect("every message was sent by the host");
                let at = seen
                    .fetched
                    .map_or(exchange.ended, |at| at.min(exchange.ended));
                seen.fetched = Some(at);
            }
        }
        let mut enqueued_order = vec![];
        for exchange in self.recorder.exchanges("/send") {
            assert_eq!(exchange.status / 100, 2, "{exchange:?}");
            let id = exchange.request["payload"]["msg_id"].as_str().unwrap();
            let call = Call {
                began: exchange.began,
                ended: exchange.ended,
            };
            all.get_mut(id).unwrap().taken = Some(call);
            for _ in exchange.reply["dropped"].as_array().into_iter().flatten() {
                // The oldest that waited then and is not fetched ever.
                let given_way = enqueued_order
                    .iter()
                    .find(|id: &&String| all[*id].fetched.is_none());
                let given_way = given_way.unwrap().clone();
                all.get_mut(&given_way).unwrap().dropped = Some(call);
            }
            enqueued_order.push(id.to_owned());
        }
        for exchange in self.recorder.exchanges("/ack") {
            let one = exchange.request["ack"].as_str().into_iter();
            let several = exchange.request["acks"].as_array().into_iter().flatten();
            for ack in one.chain(several.filter_map(Value::as_str)) {
                let call = Call {
                    began: exchange.began,
                    ended: exchange.ended,
                };
                let seen = all.get_mut(&by_ack[ack]).unwrap();
                seen.acked.get_or_insert(call);
            }
        }
        all
    }

    fn admin(&self, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        let store = self.root.path().to_str().unwrap();
        all.extend(["--store", store]);
        json_of(self.root.path(), &all)
    }
}

/// The first step of a kind.
fn at(life: &Value, step: &str) -> Option<u64> {
    let steps = life["steps"].as_array().unwrap();
    let found = steps.iter().find(|found| found["step"] == step)?;
    found["at"].as_u64()
}

fn within(life: &Value, step: &str, from: u64, to: u64) {
    let found = at(life, step).unwrap_or_else(|| panic!("{step}: {life}"));
    assert!(
        from <= found && found <= to,
        "{step}: {from} {found} {to} in {life}"
    );
}

/// Compares a life with what was recorded of it.
fn compare(id: &str, life: &Value, seen: &Seen) {
    assert_eq!(life["msg_id"], id);
    assert_eq!(life["contradictions"], json!([]), "{life}");
    let sent = seen.sent.unwrap();
    let taken = seen.taken.unwrap();
    within(life, "signed", sent.began, sent.ended);
    within(life, "queued", sent.began, sent.ended);
    within(life, "enqueued", taken.began, taken.ended);
    within(life, "accepted", taken.ended, now());
    match (seen.acked, seen.dropped) {
        (Some(acked), None) => {
            let fetched = seen.fetched.unwrap();
            within(life, "acked", acked.began, acked.ended);
            within(life, "fetched", fetched, acked.ended);
            let arrived = if at(life, "late").is_some() {
                "late"
            } else {
                "received"
            };
            within(life, arrived, fetched, acked.began);
            assert_eq!(at(life, "dropped"), None, "{life}");
        }
        (None, Some(dropped)) => {
            within(life, "dropped", dropped.began, dropped.ended);
            for step in ["fetched", "received", "acked", "read"] {
                assert_eq!(at(life, step), None, "{life}");
            }
        }
        other => panic!("{other:?}"),
    }
    match seen.read {
        Some(read) => within(life, "read", read.began, read.ended),
        None => assert_eq!(at(life, "read"), None, "{life}"),
    }
}

/// The time between two recorded moments, at least and at most.
type Bounds = (u64, u64);

fn between(from: Call, to: Call) -> Bounds {
    (
        to.began.saturating_sub(from.ended),
        to.ended.saturating_sub(from.began),
    )
}

/// Every percentile of times that are bounded one by one lies between those of the bounds.
fn compare_percentiles(latency: &Value, mut bounds: Vec<Bounds>) {
    let n = bounds.len();
    assert_eq!(latency["messages"], n, "{latency}");
    assert_eq!(latency["contradicting"], 0, "{latency}");
    for (name, rank) in [
        ("min_ms", 1),
        ("p50_ms", (n * 50).div_ceil(100)),
        ("p90_ms", (n * 90).div_ceil(100)),
        ("p99_ms", (n * 99).div_ceil(100)),
        ("max_ms", n),
    ] {
        let found = latency[name].as_u64().unwrap();
        bounds.sort_by_key(|(least, _)| *least);
        let least = bounds[rank - 1].0;
        bounds.sort_by_key(|(_, most)| *most);
        let most = bounds[rank - 1].1;
        assert!(
            least <= found && found <= most,
            "{name}: {least} {found} {most} {latency}"
        );
    }
}

fn latency<'a>(stats: &'a Value, stage: &str) -> &'a Value {
    let all = stats["latencies"].as_array().unwrap();
    all.iter()
        .find(|latency| latency["stage"] == stage)
        .unwrap()
}

/// Records of a kind in the only store of this name.
fn records(stats: &Value, store: &str, kind: &str) -> u64 {
    let stores = stats["stores"].as_array().unwrap();
    let store = stores.iter().find(|found| found["name"] == store).unwrap();
    let kinds = store["kinds"].as_array().unwrap();
    let found = kinds.iter().find(|found| found["kind"] == kind);
    found.map_or(0, |found| found["records"].as_u64().unwrap())
}

#[test]
fn trace_and_stats_agree_with_an_independent_recording_of_the_same_run() {
    let run = play();
    let recording = run.recording();
    assert_eq!(recording.len(), 6);

    // Each life, by the beginning of its id, while the bus runs.
    let mut lives = vec![];
    for (id, seen) in &recording {
        let answer = run.admin(&["trace", &id[..16]]);
        assert_eq!(answer["messages"].as_array().unwrap().len(), 1, "{answer}");
        assert_eq!(answer["stores"].as_array().unwrap().len(), 3, "{answer}");
        compare(id, &answer["messages"][0], seen);
        lives.push(answer["messages"][0].clone());
        ok(
            run.root.path(),
            &["trace", id, "--store", run.root.path().to_str().unwrap()],
        );
    }
    let life = |id: &String| lives.iter().find(|life| life["msg_id"] == **id).unwrap();
    let delayed = life(&run.delayed);
    assert_eq!(delayed["state"], "read");
    let tried = at(delayed, "attempted").unwrap();
    assert!(tried < recording[&run.delayed].taken.unwrap().began);
    assert_eq!(life(&run.dropped)["state"], "dropped");
    for id in &run.late {
        assert_eq!(life(id)["state"], "late");
    }
    for id in &run.prompt {
        assert_eq!(life(id)["state"], "read");
        assert_eq!(at(life(id), "attempted"), None);
    }

    let stats = run.admin(&["stats"]);
    assert_eq!(stats["messages"], recording.len());
    let count = |f: fn(&Seen) -> bool| recording.values().filter(|seen| f(seen)).count() as u64;
    assert_eq!(
        records(&stats, "bus", "enqueued"),
        count(|seen| seen.taken.is_some())
    );
    assert_eq!(
        records(&stats, "bus", "dropped"),
        count(|seen| seen.dropped.is_some())
    );
    assert_eq!(records(&stats, "alice", "outbox_queued"), 5);
    assert_eq!(records(&stats, "bob", "outbox_queued"), 1);
    assert_eq!(records(&stats, "bob", "received_expired"), 2);
    let read: Vec<&Seen> = recording
        .values()
        .filter(|seen| seen.read.is_some())
        .collect();
    compare_percentiles(
        latency(&stats, "signed_to_read"),
        read.iter()
            .map(|s| between(s.sent.unwrap(), s.read.unwrap()))
            .collect(),
    );
    compare_percentiles(
        latency(&stats, "on_bus"),
        recording
            .values()
            .map(|s| between(s.taken.unwrap(), s.acked.or(s.dropped).unwrap()))
            .collect(),
    );
    // How much waited, by the order in which the proxy saw answers.
    let mut changes: BTreeSet<(u64, i64, &String)> = BTreeSet::new();
    for (id, seen) in &recording {
        changes.insert((seen.taken.unwrap().ended, 1, id));
        changes.insert((seen.acked.or(seen.dropped).unwrap().ended, -1, id));
    }
    let (mut waits, mut most) = (0, 0);
    for (_, change, _) in changes {
        waits += change;
        most = most.max(waits);
    }
    let bus = stats["stores"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["name"] == "bus")
        .unwrap();
    let depth = bus["depth"]["points"].as_array().unwrap();
    let told = depth
        .iter()
        .map(|point| point["most"].as_i64().unwrap())
        .max()
        .unwrap();
    assert_eq!((told, waits), (most, 0), "{bus}");
    assert_eq!(depth.last().unwrap()["rows"], 0);

    // The bus as it was, asked through its endpoint, and the same from its file.
    let bus = bus_of(run.root.path());
    let commands: [&[&str]; 3] = [
        &["at", "2", "--store", &bus],
        &["diff", "1", "4", "--store", &bus],
        &["log", "--message", &run.dropped, "--store", &bus, "--json"],
    ];
    let answers = |dir: &Path| -> Vec<String> {
        commands
            .iter()
            .map(|args| {
                let mut args = args.to_vec();
                if !args.contains(&"--json") {
                    args.push("--json");
                }
                ok(dir, &args).replace("\"endpoint\"", "\"file\"")
            })
            .collect()
    };
    let live = answers(run.root.path());
    assert!(live[2].lines().count() == 2, "{}", live[2]);
    // Its last heartbeats are a record of their own at the end; the times of messages stay.
    let times = |dir: &Path| json_of(dir, &["stats", "--store", &bus])["latencies"].clone();
    let live_times = times(run.root.path());
    run.bus.stop();
    assert_eq!(answers(run.root.path()), live);
    assert_eq!(times(run.root.path()), live_times);
}
