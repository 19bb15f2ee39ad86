//! Pairing under SIGKILL, outages, and several hands on one `peers.json`.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use interlink::domain::decide::agent::Agent as Domain;
use interlink::domain::projection::agent::OutboxRow;
use interlink::domain::query::agent as query;
use interlink::domain::tables::{TableId, scan_rows};
use interlink::event::agent::MailKind;
use interlink::store::{Location, OpenOptions, Store};
use interlink::system::SystemClock;
use interlink::testkit::Rng;
use interlink::types::id::PublicKey;
use interlink::types::seq::Seq;
use serde_json::{Value, json};

use crate::admin_peers::{admin, answer as admin_answer};
use crate::http::Bus;
use crate::mcp_pairing::{announced, knocked, state, wait_state};
use crate::mcp_support::{Agent, DEADLINE, Home, eventually};
use crate::support::{long, seed};

fn start(home: &Home, url: &str, session: &str, name: &str) -> Agent {
    let mut command = home.command(url, session);
    command.args(["--name", name, "--consent", "tool"]);
    Agent::start(command)
}

/// The log of an identity, opened beside its sessions.
struct Watch(Store<Domain>);

impl Watch {
    fn open(home: &Home) -> Watch {
        let place: PathBuf = home.path().join("state/interlink/agent");
        let path = place.join(home.key.to_string()).join("agent.redb");
        let options = OpenOptions::shared(Location::File(path));
        Watch(Store::open(options, Arc::new(SystemClock), None).unwrap())
    }

    /// Opens it anew after a kill: whoever opens the file next finishes a commit that was cut short
    /// when all of it but its mark was written. What was open all the while does not see that one.
    fn again(self, home: &Home) -> Watch {
        drop(self);
        Watch::open(home)
    }

    fn head(&self) -> Seq {
        self.0.refresh_head().unwrap()
    }

    /// Waits for a position, or until nothing comes any more.
    fn reach(&self, wanted: Seq) {
        let mut last = (self.head(), Instant::now());
        while last.0 < wanted && last.1.elapsed() < Duration::from_millis(700) {
            let head = self.head();
            if head != last.0 {
                last = (head, Instant::now());
            }
        }
    }

    /// Whether a key is admitted, whether it still asks, whether we still ask it, and how many
    /// confirmations to it exist.
    fn about(&self, key: PublicKey) -> (bool, bool, bool, usize) {
        let s = self.0.snapshot().unwrap();
        let mut confirmations = 0;
        scan_rows::<OutboxRow>(&s, TableId::Outbox, &[], |_, row| {
            confirmations += usize::from(row.kind == MailKind::PairAccept && row.to == key);
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
        (
            query::peer_by_key(&s, &key).unwrap().is_some(),
            query::inbound_of(&s, &key).unwrap().is_some(),
            query::outbound_of(&s, &key).unwrap().is_some(),
            confirmations,
        )
    }
}

fn verified(home: &Home) {
    let output = admin(home, &["verify"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
}

fn accept(agent: &mut Agent, knock: &Value) -> u64 {
    let arguments = json!({ "fingerprint": knock["fingerprint"] });
    let call = json!({ "name": "accept_pair", "arguments": arguments });
    agent.post("tools/call", &call)
}

/// Both sides trust each other, in the log and in the file.
fn both_finish(a: &Home, b: &Home, alice: &mut Agent, bob: &mut Agent) {
    wait_state(alice, "bob", "peer");
    wait_state(bob, "alice", "peer");
    let file = |home: &Home, name: &str, key: PublicKey| {
        eventually("the file follows", || {
            (home.peers() == json!({ name: { "key": key } })).then_some(())
        });
    };
    file(a, "bob", b.key);
    file(b, "alice", a.key);
    verified(a);
    verified(b);
}

/// Two homes, their sessions, and Alice's request as Bob sees it.
struct Scene {
    bus: Bus,
    a: Home,
    b: Home,
    alice: Agent,
    bob: Agent,
    knock: Value,
}

fn scene() -> Scene {
    let bus = Bus::start();
    let url = format!("http://{}", bus.addr);
    let (a, b) = (Home::new(0x0a), Home::new(0x0b));
    let mut alice = start(&a, &url, "sa", "alice");
    let mut bob = start(&b, &url, "sb", "bob");
    announced(&bus, "sb");
    alice.call("request_pair", &json!({ "target": "bob" }));
    let knock = knocked(&mut bob);
    Scene {
        bus,
        a,
        b,
        alice,
        bob,
        knock,
    }
}

/// The accepter dies once its log holds so many more records, or at once.
fn kill_accepter_after(records: u64, pause: Duration) -> bool {
    let mut s = scene();
    let url = format!("http://{}", s.bus.addr);
    let watch = Watch::open(&s.b);
    let wanted = Seq(watch.head().0 + records);
    accept(&mut s.bob, &s.knock);
    thread::sleep(pause);
    watch.reach(wanted);
    s.bob.kill();
    let watch = watch.again(&s.b);
    let (admitted, asks, _, confirmations) = watch.about(s.a.key);
    assert_eq!(
        (asks, confirmations),
        (!admitted, usize::from(admitted)),
        "all of it or nothing, {records} records"
    );
    drop(watch);
    let mut bob = start(&s.b, &url, "sb", "bob");
    if !admitted {
        let knock = knocked(&mut bob);
        let id = accept(&mut bob, &knock);
        assert_eq!(bob.answer_to(id)["result"]["isError"], false);
    }
    both_finish(&s.a, &s.b, &mut s.alice, &mut bob);
    let (_, asks, _, confirmations) = Watch::open(&s.b).about(s.a.key);
    assert_eq!(
        (asks, confirmations),
        (false, 1),
        "one confirmation, whatever died"
    );
    admitted
}

/// The requester dies once its log holds so many more records after the answer.
fn kill_requester_after(records: u64) {
    let mut s = scene();
    let url = format!("http://{}", s.bus.addr);
    let watch = Watch::open(&s.a);
    let wanted = Seq(watch.head().0 + records);
    accept(&mut s.bob, &s.knock);
    watch.reach(wanted);
    s.alice.kill();
    let watch = watch.again(&s.a);
    let (admitted, _, asking, _) = watch.about(s.b.key);
    assert_eq!(asking, !admitted, "all of it or nothing, {records} records");
    drop(watch);
    let mut alice = start(&s.a, &url, "sa", "alice");
    both_finish(&s.a, &s.b, &mut alice, &mut s.bob);
}

#[test]
fn an_accepter_killed_at_any_record_has_accepted_all_or_nothing_and_both_sides_finish() {
    let mut admitted = vec![];
    for records in 0..=6 {
        admitted.push(kill_accepter_after(records, Duration::ZERO));
    }
    assert!(
        admitted.contains(&true),
        "some kill came after the acceptance"
    );
}

#[test]
fn an_accepter_killed_at_any_moment_has_accepted_all_or_nothing_and_both_sides_finish() {
    let mut rng = Rng::new(seed());
    for _ in 0..if long() { 100 } else { 4 } {
        let pause = Duration::from_micros(rng.next_u64() % 40_000);
        kill_accepter_after(0, pause);
    }
}

#[test]
fn a_requester_killed_at_any_record_of_the_answer_trusts_all_or_nothing_and_both_sides_finish() {
    for records in 0..=4 {
        kill_requester_after(records);
    }
}

#[test]
fn a_confirmation_outlives_an_outage_and_a_restart_of_its_sender() {
    let mut s = scene();
    let addr = s.bus.addr;
    let url = format!("http://{addr}");
    s.bus.stop();
    let id = accept(&mut s.bob, &s.knock);
    assert_eq!(s.bob.answer_to(id)["result"]["isError"], false);
    assert_eq!(state(&mut s.alice, "bob"), "requested");
    s.bob.kill();
    let mut bob = start(&s.b, &url, "sb", "bob");
    let bus = Bus::with(|config| config.addr = addr.to_string());
    both_finish(&s.a, &s.b, &mut s.alice, &mut bob);
    drop(bus);
}

/// A hand that knows no locks: reads the file, thinks, and replaces it.
fn edit(home: &Home, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let mut peers = home.peers();
    change(peers.as_object_mut().unwrap());
    home.write_peers(&peers);
}

#[test]
fn two_sessions_and_an_editor_on_one_list_leave_log_and_file_alike_and_lose_nothing_silently() {
    const EACH: u8 = 12;
    let home = Home::new(1);
    let mut sessions: Vec<Agent> = ["s1", "s2"]
        .iter()
        .map(|session| start(&home, "http://127.0.0.1:9", session, "x"))
        .collect();
    let key = |n: u8| Home::new(n).key;
    thread::scope(|scope| {
        for (i, agent) in sessions.iter_mut().enumerate() {
            scope.spawn(move || {
                for n in 0..EACH {
                    let petname = format!("s{i}-{n}");
                    let key = key(10 + n + EACH * u8::try_from(i).unwrap());
                    agent.call("add_peer", &json!({ "petname": petname, "key": key }));
                }
            });
        }
        scope.spawn(|| {
            for n in 0..EACH {
                let name = format!("hand-{n}");
                let key = key(100 + n);
                edit(&home, |peers| {
                    peers.insert(name, json!({ "key": key, "note": n }));
                });
                thread::sleep(Duration::from_millis(30));
            }
        });
    });
    // A hand that saves in the very instant in which a session rewrites the file loses to it. Once
    // they are quiet it is heard.
    edit(&home, |peers| {
        peers.insert("hand-last".into(), json!({ "key": key(200) }));
    });
    let end = Instant::now() + DEADLINE;
    let listed = loop {
        let listed = sessions[0].call("list_peers", &json!({}));
        let listed: Vec<(String, Value)> = listed["peers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| (p["petname"].as_str().unwrap().to_owned(), p["key"].clone()))
            .collect();
        let file = home.peers();
        let file: Vec<(String, Value)> = file
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, entry)| (name.clone(), entry["key"].clone()))
            .collect();
        if listed == file && listed.iter().any(|(name, _)| name == "hand-last") {
            break listed;
        }
        assert!(Instant::now() < end, "log {listed:?}, file {file:?}");
    };
    // Whoever is missing was struck from the file by the hand, which had not seen them: a record says so.
    let log = admin(&home, &["log", "--json"]).output().unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    for n in 0..EACH {
        for who in [format!("s0-{n}"), format!("s1-{n}")] {
            let removed = log
                .lines()
                .any(|line| line.contains("peer_removed") && line.contains(&format!("\"{who}\"")));
            let there = listed.iter().any(|(name, _)| *name == who);
            assert!(there || removed, "{who} is gone without a word");
        }
    }
    verified(&home);
    assert_eq!(
        admin_answer(&home, &["peers", "list"])["peers"]
            .as_array()
            .unwrap()
            .len(),
        listed.len()
    );
}
