//! `interlink-admin` as a process, over stores made by the library and beside a running bus.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use interlink::crypto::hash::sha256;
use interlink::domain::Domain;
use interlink::domain::decide::agent::{
    Agent, AgentCommand, AgentReply, Lease, QueueMessage, Receive, Window,
};
use interlink::domain::decide::bus::{Bus, BusCommand, Overflow, QueueLimits};
use interlink::event::agent::{AttemptError, MailKind, Origin};
use interlink::store::{Location, OpenOptions, Store};
use interlink::types::id::{MsgId, PublicKey, SessionId};
use interlink::types::seq::Seq;
use interlink::types::time::{Clock, UnixMillis};
use serde_json::Value;

/// 2026-11-30 00:00 UTC.
const DAY: u64 = 1_795_996_800_000;

const HOSTILE: &str = "x\u{1b}]0;pwned\u{7}\u{202e}\u{2028}\r\ny";

struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(Ticking(AtomicU64::new(DAY)))
}

pub(crate) fn admin(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-admin"));
    command.current_dir(dir).env_clear().env("HOME", dir);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn run(dir: &Path, args: &[&str]) -> Output {
    admin(dir).args(args).output().unwrap()
}

/// Standard output of a command that must succeed.
pub(crate) fn ok(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

pub(crate) fn json(dir: &Path, args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.push("--json");
    let answer = serde_json::from_str(&ok(dir, &all)).unwrap();
    #[cfg(feature = "testkit")]
    super::admin_schema::answers(args, &answer);
    answer
}

fn submit<D: Domain>(store: &Store<D>, command: D::Command) -> D::Reply {
    let receipt = store.submit(command).map_err(|e| e.to_string()).unwrap();
    receipt.wait().map_err(|e| e.to_string()).unwrap().reply
}

pub(crate) fn bus_path(dir: &Path) -> PathBuf {
    dir.join(".local/state/interlink/bus.redb")
}

pub(crate) fn bus_store(dir: &Path) -> Store<Bus> {
    let options = OpenOptions::exclusive(Location::File(bus_path(dir)));
    Store::open(options, clock(), None).unwrap()
}

pub(crate) fn enqueue(store: &Store<Bus>, to: &str, payload: &str) {
    let command = BusCommand::Enqueue {
        to: to.into(),
        payload: Arc::from(payload.as_bytes()),
        sha256: sha256(payload.as_bytes()),
        msg_id: String::new(),
        limits: QueueLimits {
            messages: 10,
            bytes: 1 << 20,
            store_bytes: 1 << 20,
            queues: 10,
            overflow: Overflow::DropOldest,
        },
    };
    submit(store, command);
}

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

pub(crate) fn agent_path(dir: &Path) -> PathBuf {
    let own = key(1).to_string();
    dir.join(".local/state/interlink/agent")
        .join(own)
        .join("agent.redb")
}

pub(crate) fn agent_store(dir: &Path) -> Store<Agent> {
    let options = OpenOptions::shared(Location::File(agent_path(dir)));
    Store::open(options, clock(), None).unwrap()
}

fn session() -> SessionId {
    SessionId::parse("s1").unwrap()
}

fn take_lease(store: &Store<Agent>) -> Lease {
    let command = AgentCommand::TakeLease {
        session: session(),
        pid: std::process::id(),
        process_start: 1,
        now: UnixMillis(DAY),
    };
    match submit(store, command) {
        AgentReply::Lease(lease) => lease,
        reply => panic!("{reply:?}"),
    }
}

fn queue_message(store: &Store<Agent>, lease: &Lease, id: &str) -> Seq {
    let body = br#"{"text":"secret words"}"#.to_vec();
    let command = AgentCommand::QueueMessage(QueueMessage {
        lease: lease.clone(),
        msg_id: MsgId::parse(id).unwrap(),
        to: key(2),
        to_session: SessionId::parse("there").unwrap(),
        kind: MailKind::Message,
        task_id: Some(HOSTILE.into()),
        status: None,
        in_reply_to: None,
        ts: UnixMillis(DAY),
        sha256: sha256(&body),
        body: body.into(),
        relays: vec!["http://127.0.0.1:1".into(), "http://127.0.0.1:2".into()],
        now: UnixMillis(DAY),
    });
    match submit(store, command) {
        AgentReply::Queued { seq } => seq,
        reply => panic!("{reply:?}"),
    }
}

/// An identity with a message to send, tried in vain on one relay and taken by the other, and a
/// received message with a hostile id.
pub(crate) fn fill_agent(store: &Store<Agent>) -> Lease {
    let lease = take_lease(store);
    submit(
        store,
        AgentCommand::AddPeer {
            petname: "ben".into(),
            key: key(2),
            origin: Origin::Admin,
            lease: None,
            now: UnixMillis(DAY),
        },
    );
    let seq = queue_message(store, &lease, "00112233445566778899aabbccddeeff");
    submit(
        store,
        AgentCommand::RecordAttempt {
            msg_seq: seq,
            relay: "http://127.0.0.1:1".into(),
            attempt: 1,
            error: AttemptError::Connect,
            detail: HOSTILE.into(),
            next_at: UnixMillis(DAY + 1000),
            now: UnixMillis(DAY),
        },
    );
    submit(
        store,
        AgentCommand::RecordAccepted {
            msg_seq: seq,
            relay: "http://127.0.0.1:2".into(),
            dropped: false,
            now: UnixMillis(DAY),
        },
    );
    let body = br#"{"text":"hello"}"#.to_vec();
    submit(
        store,
        AgentCommand::Receive(Box::new(Receive {
            lease: lease.clone(),
            own: key(1),
            from: key(2),
            msg_id: MsgId::parse(HOSTILE).unwrap(),
            ts: UnixMillis(DAY),
            kind: MailKind::Message,
            task_id: None,
            status: None,
            in_reply_to: None,
            reply_to: None,
            sha256: sha256(&body),
            body: body.into(),
            window: Window {
                past_ms: 1000,
                future_ms: 1000,
            },
            now: UnixMillis(DAY),
        })),
    );
    lease
}

pub(crate) fn assert_tame(output: &str) {
    for c in output.chars() {
        assert!(
            c == '\n' || !interlink::types::id::is_unsafe_char(c),
            "{c:?} in {output}"
        );
    }
}

#[test]
fn a_bus_file_is_shown_in_text_and_json() {
    let dir = tempfile::tempdir().unwrap();
    let store = bus_store(dir.path());
    enqueue(&store, &format!("{}#s", key(3)), "1");
    enqueue(&store, "zoe\u{202e}", "22");
    enqueue(&store, "zoe\u{202e}", "333");
    store.close();

    let status = ok(dir.path(), &["status"]);
    assert!(status.starts_with("bus\n"), "{status}");
    assert!(status.contains("records 1 to 3"), "{status}");
    assert!(status.contains("3 messages in 2 queues, 6 B"), "{status}");
    let stores = json(dir.path(), &["status"]);
    let bus = &stores["stores"][0];
    assert_eq!(bus["kind"], "bus");
    assert_eq!(bus["source"], "file");
    assert_eq!(bus["head"], 3);
    assert_eq!(bus["bus"]["messages"], 3);

    let queue = ok(dir.path(), &["queue"]);
    assert_tame(&queue);
    assert!(queue.contains("zoe\\u{202e}"), "{queue}");
    let head: String = key(3).to_string().chars().take(8).collect();
    assert!(queue.contains(&format!("{head}..#s")), "{queue}");
    let queues = json(dir.path(), &["queue"]);
    let zoe = &queues["stores"][0]["queues"][1];
    assert_eq!(zoe["to"], "zoe\u{202e}");
    assert_eq!((&zoe["messages"], &zoe["bytes"]), (&2.into(), &5.into()));
    assert_eq!(zoe["oldest_seq"], 2);

    let verify = ok(dir.path(), &["verify"]);
    assert!(verify.starts_with("ok: "), "{verify}");
    assert!(
        verify.contains("3 records read, head 3, 3 rows compared, 3 bodies"),
        "{verify}"
    );
    assert_eq!(json(dir.path(), &["verify"])["stores"][0]["ok"], true);
}

#[test]
fn a_log_can_be_cut_and_filtered() {
    let dir = tempfile::tempdir().unwrap();
    let store = bus_store(dir.path());
    for n in 0..5 {
        enqueue(&store, "a", &n.to_string());
    }
    let seqs = vec![Seq(1), Seq(2)];
    submit(
        &store,
        BusCommand::Ack {
            me: "a".into(),
            seqs,
        },
    );
    store.close();
    let path = bus_path(dir.path());
    let path = path.to_str().unwrap();

    let all = ok(dir.path(), &["log"]);
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.len(), 7, "{all}");
    assert_eq!(lines[0], "-- 2026-11-30 UTC");
    assert!(lines[1].starts_with("       1  00:00:00."), "{all}");
    assert!(lines[6].ends_with("acked             1 2"), "{all}");

    let seqs = |args: &[&str]| -> Vec<u64> {
        let mut args = args.to_vec();
        args.extend(["--json", "--store", path]);
        let out = ok(dir.path(), &args);
        let line = |line| {
            serde_json::from_str::<Value>(line).unwrap()["seq"]
                .as_u64()
                .unwrap()
        };
        out.lines().map(line).collect()
    };
    assert_eq!(seqs(&["log", "--from", "4"]), [4, 5, 6]);
    assert_eq!(seqs(&["log", "--last", "2"]), [5, 6]);
    assert_eq!(seqs(&["log", "--kind", "acked"]), [6]);
    assert_eq!(seqs(&["log", "--from", "99"]), [0u64; 0]);

    let wrong = run(dir.path(), &["log", "--kind", "enqeued"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("enqueued"),
        "{}",
        text(&wrong.stderr)
    );
}

#[test]
fn an_identity_is_shown_beside_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    // Open all the while: the tool shares the file with its writers.
    let store = agent_store(dir.path());
    let lease = fill_agent(&store);

    let status = ok(dir.path(), &["status"]);
    assert!(
        status.starts_with(&format!("identity {}\n", key(1))),
        "{status}"
    );
    assert!(status.contains("1 admitted"), "{status}");
    let agent = &json(dir.path(), &["status"])["stores"][0]["agent"];
    assert_eq!(agent["key"], key(1).to_string());
    assert_eq!(agent["sessions"][0]["unread"], 1);
    assert_eq!(agent["sessions"][0]["alive"], true);
    // One relay has it.
    assert_eq!(agent["outbox"], 0);

    let outbox = ok(dir.path(), &["outbox"]);
    assert_tame(&outbox);
    assert!(outbox.contains("bus_accepted"), "{outbox}");
    assert!(
        outbox.contains("http://127.0.0.1:1: 1 failed attempt"),
        "{outbox}"
    );
    assert!(outbox.contains("http://127.0.0.1:2: accepted"), "{outbox}");
    assert!(!outbox.contains("secret words"));
    let message = &json(dir.path(), &["outbox"])["stores"][0]["messages"][0];
    assert_eq!(message["msg_id"], "00112233445566778899aabbccddeeff");
    assert_eq!(message["relays"][0]["state"], "waiting");
    assert_eq!(message["relays"][0]["next_at"], DAY + 1000);
    assert_eq!(message["relays"][1]["state"], "accepted");

    submit(
        &store,
        AgentCommand::Acknowledge {
            lease,
            items: vec![(key(2), MsgId::parse(HOSTILE).unwrap())],
            now: UnixMillis(DAY),
        },
    );
    let agent = &json(dir.path(), &["status"])["stores"][0]["agent"];
    assert_eq!(agent["sessions"][0]["unread"], 0);
    assert_eq!(json(dir.path(), &["verify"])["stores"][0]["ok"], true);
}

#[test]
fn what_did_not_fare_well_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = agent_store(dir.path());
    let lease = fill_agent(&store);
    let fared = ok(dir.path(), &["status"]);
    let line = "troubles   none refused, pushed out or expired";
    assert!(fared.contains(line), "{fared}");
    let relays = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
    let refused = |seq: Seq, relay: &str| AgentCommand::RecordRefused {
        msg_seq: seq,
        relay: relay.into(),
        status: 413,
        reason: "too large".into(),
        now: UnixMillis(DAY),
    };
    let accepted = |seq: Seq, relay: &str| AgentCommand::RecordAccepted {
        msg_seq: seq,
        relay: relay.into(),
        dropped: true,
        now: UnixMillis(DAY),
    };
    for n in 0..5 {
        let seq = queue_message(&store, &lease, &format!("m{n}"));
        match n {
            // By all, by one, and two that cost others their place.
            0 => {
                submit(&store, refused(seq, relays[0]));
                submit(&store, refused(seq, relays[1]));
            }
            1 => drop(submit(&store, refused(seq, relays[0]))),
            2 => drop(submit(&store, accepted(seq, relays[1]))),
            3 => {
                submit(&store, accepted(seq, relays[0]));
                submit(&store, accepted(seq, relays[1]));
            }
            _ => {}
        }
    }
    let agent = &json(dir.path(), &["status"])["stores"][0]["agent"];
    assert_eq!(agent["refused"], 1);
    assert_eq!(agent["pushed_out"], 2);
    assert_eq!(agent["counted_from"], 1);
    let fared = ok(dir.path(), &["status"]);
    for line in ["refused    1 message that", "pushed out 2 messages for"] {
        assert!(fared.contains(line), "{line}: {fared}");
    }
}

#[test]
fn what_a_peer_chose_cannot_act_on_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let store = agent_store(dir.path());
    fill_agent(&store);
    store.close();
    for args in [&["log"][..], &["outbox", "--all"], &["status"], &["verify"]] {
        let human = ok(dir.path(), args);
        assert_tame(&human);
        let mut json_args = args.to_vec();
        json_args.push("--json");
        let machine = ok(dir.path(), &json_args);
        assert_tame(&machine);
    }
    // Nothing is lost in JSON.
    let log = ok(dir.path(), &["log", "--json", "--kind", "received"]);
    let record: Value = serde_json::from_str(log.trim()).unwrap();
    assert_eq!(record["event"]["msg_id"], HOSTILE);
    let human = ok(dir.path(), &["log", "--kind", "received"]);
    assert!(human.contains("x\\u{1b}"), "{human}");
}

#[test]
fn a_store_that_a_crash_left_is_read_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let store = bus_store(dir.path());
    enqueue(&store, "a", "1");
    // The bytes of an open store are those that a SIGKILL leaves.
    let crashed = dir.path().join("crashed.redb");
    fs::copy(bus_path(dir.path()), &crashed).unwrap();
    store.close();
    let before = fs::read(&crashed).unwrap();
    let modified = fs::metadata(&crashed).unwrap().modified().unwrap();

    for command in ["status", "log", "queue", "verify"] {
        let output = run(dir.path(), &[command, "--store", "crashed.redb"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains("copy in memory, the file is unchanged"),
            "{command}: {}",
            text(&output.stderr)
        );
    }
    let status = json(dir.path(), &["status", "--store", "crashed.redb"]);
    assert_eq!(status["stores"][0]["source"], "repaired_copy");
    assert_eq!(status["stores"][0]["bus"]["messages"], 1);
    assert_eq!(fs::read(&crashed).unwrap(), before);
    assert_eq!(
        fs::metadata(&crashed).unwrap().modified().unwrap(),
        modified
    );
}

#[test]
fn reading_a_closed_store_does_not_change_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = agent_store(dir.path());
    fill_agent(&store);
    store.close();
    let path = agent_path(dir.path());
    let before = fs::read(&path).unwrap();
    for command in ["status", "log", "outbox", "verify"] {
        ok(dir.path(), &[command]);
    }
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[test]
fn verify_names_the_record_behind_a_difference() {
    const PENDING: redb::TableDefinition<'static, &[u8], &[u8]> =
        redb::TableDefinition::new("pending");
    let dir = tempfile::tempdir().unwrap();
    let store = bus_store(dir.path());
    enqueue(&store, "a", "1");
    enqueue(&store, "b", "2");
    store.close();
    let db = redb::Database::open(bus_path(dir.path())).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(PENDING)
        .unwrap()
        .remove(Seq(2).to_key().as_slice())
        .unwrap();
    txn.commit().unwrap();
    drop(db);

    let output = run(dir.path(), &["verify"]);
    let human = text(&output.stdout);
    assert_eq!(output.status.code(), Some(8), "{human}");
    assert!(human.contains("DIFFERS: "), "{human}");
    assert!(human.contains("table pending"), "{human}");
    assert!(
        human
            .lines()
            .any(|l| l.trim_start().starts_with("2  ") && l.contains("1 B to b")),
        "{human}"
    );
    let output = run(dir.path(), &["verify", "--json"]);
    assert_eq!(output.status.code(), Some(8));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["stores"][0]["ok"], false);
    assert_eq!(answer["stores"][0]["record"], 2);
    assert_eq!(answer["stores"][0]["cause"]["event"]["to"], "b");
}

#[test]
fn commands_say_when_there_is_nothing_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let none = run(dir.path(), &["status"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(
        text(&none.stderr).contains("no store in"),
        "{}",
        text(&none.stderr)
    );

    bus_store(dir.path()).close();
    let bus = run(dir.path(), &["outbox"]);
    assert_eq!(bus.status.code(), Some(7));
    assert!(text(&bus.stderr).contains("not of an identity"));
    assert_eq!(ok(dir.path(), &["queue"]), "nothing waits\n");

    fs::write(dir.path().join("text.redb"), "no store").unwrap();
    let damaged = run(dir.path(), &["status", "--store", "text.redb"]);
    assert_eq!(damaged.status.code(), Some(6), "{}", text(&damaged.stderr));

    let usage = run(dir.path(), &["frobnicate"]);
    assert_eq!(usage.status.code(), Some(2));
    let help = ok(dir.path(), &["--help"]);
    assert!(help.contains("8  verify found a difference"), "{help}");
}

#[test]
fn several_stores_are_shown_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let bus = bus_store(dir.path());
    enqueue(&bus, "a", "1");
    bus.close();
    let agent = agent_store(dir.path());
    fill_agent(&agent);
    agent.close();

    let stores = json(dir.path(), &["verify"]);
    let kinds: Vec<&str> = stores["stores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|store| store["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["bus", "agent"]);
    // Each command finds the stores that it is for.
    assert_eq!(
        json(dir.path(), &["queue"])["stores"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        json(dir.path(), &["outbox"])["stores"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let positions = run(dir.path(), &["log", "--from", "3"]);
    assert_eq!(positions.status.code(), Some(2));

    // One that cannot be read does not hide the others.
    fs::write(bus_path(dir.path()), "no store any more").unwrap();
    let output = run(dir.path(), &["status"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(text(&output.stdout).starts_with("identity "));
    assert!(text(&output.stderr).contains("bus.redb"));
}

#[test]
fn a_reader_that_closes_early_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let store = bus_store(dir.path());
    for n in 0..10 {
        enqueue(&store, "a", &n.to_string());
    }
    store.close();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = admin(dir.path())
        .arg("log")
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

struct Follower {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Follower {
    fn start(dir: &Path, args: &[&str]) -> Follower {
        let mut child = admin(dir)
            .args(["log", "--follow", "--json"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Follower { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("the follower goes on").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Interrupts it; it must end in order.
    fn interrupt(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert!(self.lines.next().is_none());
    }
}

#[test]
fn a_follower_sees_what_a_channel_server_writes_and_ends_on_interrupt() {
    let dir = tempfile::tempdir().unwrap();
    let store = agent_store(dir.path());
    let lease = take_lease(&store);
    let mut follower = Follower::start(dir.path(), &[]);
    assert_eq!(follower.next()["kind"], "lease_taken");
    queue_message(&store, &lease, "one");
    assert_eq!(follower.next()["event"]["msg_id"], "one");
    queue_message(&store, &lease, "two");
    assert_eq!(follower.next()["event"]["msg_id"], "two");
    follower.interrupt();
}

#[cfg(feature = "bus")]
pub(crate) mod beside_a_bus {
    use std::time::{Duration, Instant};

    use super::*;

    pub(crate) struct RunningBus {
        child: Child,
        pub(crate) url: String,
    }

    impl RunningBus {
        pub(crate) fn start(dir: &Path) -> RunningBus {
            RunningBus::with(dir, &[])
        }

        pub(crate) fn with(dir: &Path, args: &[&str]) -> RunningBus {
            let child = Command::new(env!("CARGO_BIN_EXE_interlink-bus"))
                .args(["--addr", "127.0.0.1:0"])
                .args(args)
                .env_clear()
                .env("HOME", dir)
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut bus = RunningBus {
                child,
                url: String::new(),
            };
            let mut name = bus_path(dir).into_os_string();
            name.push(".admin");
            let deadline = Instant::now() + Duration::from_secs(60);
            while bus.url.is_empty() {
                assert!(Instant::now() < deadline, "the bus does not come up");
                let file: Option<Value> = fs::read(&name)
                    .ok()
                    .and_then(|bytes| serde_json::from_slice(&bytes).ok());
                match file {
                    Some(file) if file["pid"] == bus.child.id() => {
                        bus.url = file["url"].as_str().unwrap().to_owned();
                    }
                    _ => std::thread::sleep(Duration::from_millis(10)),
                }
            }
            bus
        }

        pub(crate) fn send(&self, to: &str, payload: &Value) {
            let body = serde_json::json!({ "to": to, "payload": payload });
            let client = crate::support::web();
            let answer = client.post(format!("{}/send", self.url)).json(&body).send();
            assert!(answer.unwrap().status().is_success());
        }

        pub(crate) fn stop(mut self, signal: rustix::process::Signal) {
            let pid = rustix::process::Pid::from_child(&self.child);
            rustix::process::kill_process(pid, signal).unwrap();
            self.child.wait().unwrap();
        }
    }

    impl Drop for RunningBus {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn a_running_bus_and_its_file_give_the_same_answers() {
        let dir = tempfile::tempdir().unwrap();
        let bus = RunningBus::start(dir.path());
        bus.send("a\u{202e}", &1.into());
        bus.send("b", &2.into());

        let status = json(dir.path(), &["status"]);
        let store = &status["stores"][0];
        assert_eq!(store["source"], "endpoint");
        assert_eq!(store["running"]["pid"], bus.child.id());
        assert_eq!(store["running"]["health"], "read-write");
        assert_tame(&ok(dir.path(), &["queue"]));
        let commands: [&[&str]; 2] = [&["queue", "--json"], &["log", "--json"]];
        let live = commands.map(|args| ok(dir.path(), args));
        let proof = json(dir.path(), &["verify"]);
        assert_eq!(proof["stores"][0]["source"], "endpoint");
        assert_eq!(proof["stores"][0]["rows"], 2);

        bus.stop(rustix::process::Signal::TERM);
        let closed = commands.map(|args| ok(dir.path(), args));
        assert_eq!(live, closed);
        let after = json(dir.path(), &["status"]);
        assert_eq!(after["stores"][0]["source"], "file");
        assert_eq!(after["stores"][0]["bus"], store["bus"]);
    }

    #[test]
    fn a_follower_stays_through_the_death_and_return_of_a_bus() {
        let dir = tempfile::tempdir().unwrap();
        let bus = RunningBus::start(dir.path());
        bus.send("a", &1.into());
        let mut follower = Follower::start(dir.path(), &["--kind", "enqueued"]);
        assert_eq!(follower.next()["seq"], 1);
        bus.stop(rustix::process::Signal::KILL);
        let bus = RunningBus::start(dir.path());
        bus.send("a", &2.into());
        assert_eq!(follower.next()["event"]["to"], "a");
        follower.interrupt();
        bus.stop(rustix::process::Signal::TERM);
    }

    #[test]
    fn a_frozen_bus_is_reported_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let bus = RunningBus::start(dir.path());
        let pid = rustix::process::Pid::from_child(&bus.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let output = run(dir.path(), &["status"]);
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains(&bus.url),
            "{}",
            text(&output.stderr)
        );
        bus.stop(rustix::process::Signal::TERM);
    }
}

#[cfg(all(feature = "bus", feature = "agent"))]
mod demo {
    use super::*;

    /// The tool with a folder for temporary files of its own.
    fn demo(program: &Path, temp: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", temp)
            .env("TMPDIR", temp)
            .arg("demo");
        command
    }

    #[test]
    fn a_message_survives_the_kills_and_nothing_is_left_behind() {
        let temp = tempfile::tempdir().unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_interlink-admin"));
        let output = demo(program, temp.path()).arg("--json").output().unwrap();
        let stdout = text(&output.stdout);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(answer["ok"], true);
        assert_eq!(answer["folder"], Value::Null);
        let timeline = answer["timeline"].as_array().unwrap();
        let logs: Vec<&str> = timeline.iter().filter_map(|m| m["log"].as_str()).collect();
        // How the sender's receipt and the reader's log interleave is up to the system.
        for (log, records) in [("ada", 2), ("bus", 2), ("ben", 2)] {
            let told: std::collections::BTreeSet<u64> = timeline
                .iter()
                .filter(|m| m["log"] == log)
                .filter_map(|m| m["seq"].as_u64())
                .collect();
            assert_eq!(told.len(), records, "{stdout}");
        }
        assert_eq!(logs.first(), Some(&"ada"));
        assert_eq!(logs.last(), Some(&"ben"));
        assert_eq!(answer["proved"].as_array().unwrap().len(), 4);
        let left: Vec<_> = fs::read_dir(temp.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn the_folder_can_be_kept_and_looked_into() {
        let temp = tempfile::tempdir().unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_interlink-admin"));
        let output = demo(program, temp.path()).arg("--keep").output().unwrap();
        let stdout = text(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{stdout}{}",
            text(&output.stderr)
        );
        assert!(stdout.contains("the life of "), "{stdout}");
        assert!(
            stdout
                .lines()
                .all(|line| line.chars().count() <= 80 || line.contains("/"))
        );
        let folder = fs::read_dir(temp.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let stores = json(
            temp.path(),
            &["verify", "--store", folder.to_str().unwrap()],
        );
        assert_eq!(stores["stores"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn without_the_other_programs_it_says_what_to_do() {
        let temp = tempfile::tempdir().unwrap();
        let alone = temp.path().join("interlink-admin");
        fs::copy(env!("CARGO_BIN_EXE_interlink-admin"), &alone).unwrap();
        let output = demo(&alone, temp.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("interlink-bus is not beside this program"),
            "{stderr}"
        );
        assert!(
            stderr.contains("cargo run --release --bin interlink-admin -- demo"),
            "{stderr}"
        );
    }
}
