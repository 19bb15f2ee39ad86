//! Real processes that share a store file: this binary starts itself in the role of a sibling.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use interlink::crypto::hash::sha256;
use interlink::domain::decide::bus::Bus;
use interlink::domain::projection::Projection;
use interlink::domain::tables::{TableError, TableReader};
use interlink::domain::{Decision, Domain, LiveBody, NewEvent, View};
use interlink::event::Recorded;
use interlink::event::bus::{BusEvent, Enqueued};
use interlink::event::kind::StoreKind;
use interlink::store::{CommandError, Location, Mode, OpenError, OpenOptions, Reader, Store};
use interlink::testkit::Rng;
use interlink::types::seq::Seq;
use rustix::process::{Pid, Signal, kill_process};

use super::support::{clock, long, records, seed, verified};

/// A domain without an index, as a shared store's must be: it appends lines.
pub(crate) struct Ledger;

pub(crate) enum Line {
    Append(String),
    /// Stops the whole process with SIGSTOP in the middle of the transaction, then appends.
    Freeze(String),
}

#[derive(Debug, thiserror::Error)]
#[error("never refused")]
pub(crate) struct Never;

impl Domain for Ledger {
    type Event = BusEvent;
    type Command = Line;
    type Reply = Seq;
    type Refusal = Never;
    type Index = ();

    const KIND: StoreKind = StoreKind::Bus;

    fn projections() -> &'static [&'static dyn Projection<BusEvent>] {
        Bus::projections()
    }

    fn decide(
        view: &View<'_, Self>,
        command: &Line,
    ) -> Result<Result<Decision<BusEvent, Seq>, Never>, TableError> {
        let text = match command {
            Line::Append(text) => text,
            Line::Freeze(text) => {
                println!("\nfrozen {}", std::process::id());
                kill_process(rustix::process::getpid(), Signal::STOP).unwrap();
                text
            }
        };
        let body: Arc<[u8]> = text.repeat(20).into_bytes().into();
        let event = Enqueued {
            to: text.clone(),
            len: u32::try_from(body.len()).unwrap(),
            sha256: sha256(&body),
            msg_id: String::new(),
        };
        let events = vec![NewEvent {
            event: BusEvent::Enqueued(event),
            body: Some(body),
        }];
        let reply = view.next;
        Ok(Ok(Decision { events, reply }))
    }

    fn weight(_: &Line) -> usize {
        0
    }

    fn build_index(_: &dyn TableReader) -> Result<(), TableError> {
        Ok(())
    }

    fn index((): &mut (), _: &Recorded<BusEvent>) {}

    fn releases(event: &BusEvent) -> &[Seq] {
        Bus::releases(event)
    }

    fn live_bodies(
        tables: &dyn TableReader,
        visit: &mut dyn FnMut(LiveBody),
    ) -> Result<(), TableError> {
        Bus::live_bodies(tables, visit)
    }

    fn body_lost(seq: Seq) -> Option<BusEvent> {
        Bus::body_lost(seq)
    }

    fn let_go(tables: &dyn TableReader, lost: &BTreeSet<Seq>) -> Result<Vec<BusEvent>, TableError> {
        Bus::let_go(tables, lost)
    }

    fn nothing() -> BusEvent {
        Bus::nothing()
    }
}

const ROLE: &str = "INTERLINK_TEST_ROLE";
const STORE: &str = "INTERLINK_TEST_STORE";

fn options(path: &Path, deadline: Duration) -> OpenOptions {
    OpenOptions {
        deadline,
        ..OpenOptions::shared(Location::File(path.to_owned()))
    }
}

fn open(path: &Path, deadline: Duration) -> Result<Store<Ledger>, OpenError> {
    Store::open(options(path, deadline), clock(), None)
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Not a test of its own: what a started sibling runs. Does nothing without a role.
#[test]
fn sibling() {
    let (Ok(role), Ok(path)) = (std::env::var(ROLE), std::env::var(STORE)) else {
        return;
    };
    let store = open(Path::new(&path), PATIENCE).unwrap();
    println!("\nopen");
    if role == "freezer" {
        let done = store.submit(Line::Freeze("frozen".into())).unwrap().wait();
        println!("\nack frozen {}", done.unwrap().reply);
        return;
    }
    for n in 0..u64::MAX {
        let text = format!("{role}.{n}");
        let done = store.submit(Line::Append(text.clone())).unwrap().wait();
        println!("\nack {text} {}", done.unwrap().reply);
        if Path::new(&path).with_extension("stop").exists() {
            return;
        }
    }
}

/// A started sibling and the lines that it says.
struct Sibling {
    child: Child,
    listener: Option<JoinHandle<()>>,
}

type Acks = Arc<Mutex<Vec<(String, u64)>>>;

impl Sibling {
    /// Starts one; its acknowledgements go to `acks`, all its lines to `said`.
    fn start(role: &str, path: &Path, acks: &Acks, said: mpsc::Sender<String>) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "multiprocess::sibling",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, role)
            .env(STORE, path)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let acks = Arc::clone(acks);
        let listener = std::thread::spawn(move || {
            // A killed process may leave half a line: those have no newline.
            for line in out.lines().map_while(Result::ok) {
                if let Some((text, seq)) = line
                    .strip_prefix("ack ")
                    .and_then(|rest| rest.split_once(' '))
                {
                    acks.lock()
                        .unwrap()
                        .push((text.into(), seq.parse().unwrap()));
                }
                let _ = said.send(line);
            }
        });
        Sibling {
            child,
            listener: Some(listener),
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    fn finish(&mut self) -> std::process::ExitStatus {
        let status = self.child.wait().unwrap();
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
        status
    }
}

impl Drop for Sibling {
    fn drop(&mut self) {
        // SIGKILL ends a stopped process too.
        let _ = self.child.kill();
        let _ = self.finish();
    }
}

/// Waits until a sibling says a line that starts so.
fn hear(said: &mpsc::Receiver<String>, start: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = said
            .recv_timeout(left)
            .unwrap_or_else(|e| panic!("waiting for {start:?}: {e}"));
        if line.starts_with(start) {
            return line;
        }
    }
}

fn store_path(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("agent.redb")
}

#[test]
fn four_writers_share_a_store_while_one_is_killed_again_and_again() {
    let mut rng = Rng::new(seed());
    let dir = tempfile::tempdir().unwrap();
    let path = store_path(&dir);
    let acks = Acks::default();
    let (said, _lines) = mpsc::channel();
    let mut steady: Vec<_> = (0..3)
        .map(|n| Sibling::start(&format!("steady{n}"), &path, &acks, said.clone()))
        .collect();
    let rounds = if long() { 300 } else { 25 };
    for round in 0..rounds {
        let role = format!("victim{round}");
        let (said, lines) = mpsc::channel();
        let mut victim = Sibling::start(&role, &path, &acks, said);
        // Killed at a random moment: while opening, or after some appends.
        for _ in 0..rng.below(60) {
            hear(&lines, "");
        }
        victim.signal(Signal::KILL);
        victim.finish();
    }
    std::fs::write(path.with_extension("stop"), "").unwrap();
    for sibling in &mut steady {
        assert!(sibling.finish().success());
    }
    let reader = Reader::open(&path, Mode::Shared).unwrap();
    verified::<Ledger>(&reader.snapshot().unwrap());
    drop(reader);
    let store = open(&path, PATIENCE).unwrap();
    let snapshot = store.snapshot().unwrap();
    verified::<Ledger>(&snapshot);
    let records = records(&snapshot);
    let acks = acks.lock().unwrap();
    println!("{} acknowledged, {} in the log", acks.len(), records.len());
    for (i, record) in records.iter().enumerate() {
        assert_eq!(record.seq, Seq(i as u64 + 1), "a gap");
    }
    let mut seen = std::collections::BTreeSet::new();
    for (text, seq) in acks.iter() {
        let at = usize::try_from(*seq).unwrap() - 1;
        let BusEvent::Enqueued(event) = &records[at].event else {
            panic!("not an append at {seq}");
        };
        assert_eq!(&event.to, text, "acknowledged at {seq}");
        assert!(seen.insert(seq), "{seq} was given to two appends");
    }
    for n in 0..3 {
        let mine = format!("steady{n}.");
        assert!(
            acks.iter().any(|(text, _)| text.starts_with(&mine)),
            "{mine}"
        );
    }
    assert!(acks.iter().any(|(text, _)| text.starts_with("victim")));
    // What one process appended stands in its own order.
    let order: Vec<_> = records
        .iter()
        .filter_map(|r| match &r.event {
            BusEvent::Enqueued(e) => e.to.strip_prefix("steady1.")?.parse::<u64>().ok(),
            _ => None,
        })
        .collect();
    assert!(order.iter().enumerate().all(|(i, n)| i as u64 == *n));
}

#[test]
fn a_process_frozen_inside_a_write_is_named_and_its_siblings_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = store_path(&dir);
    let short = Duration::from_millis(400);
    let store = open(&path, short).unwrap();
    store
        .submit(Line::Append("before".into()))
        .unwrap()
        .wait()
        .unwrap();
    let acks = Acks::default();
    let (said, lines) = mpsc::channel();
    let mut freezer = Sibling::start("freezer", &path, &acks, said);
    hear(&lines, "frozen ");
    let pid = freezer.child.id();
    let begun = Instant::now();
    let busy = store.submit(Line::Append("lost".into())).unwrap().wait();
    assert!(
        matches!(busy, Err(CommandError::StoreBusy { holder }) if holder == Some(pid)),
        "{busy:?}, expected {pid}"
    );
    let blocked = open(&path, short).err();
    assert!(
        matches!(blocked, Some(OpenError::InUse { holder, .. }) if holder == Some(pid)),
        "{blocked:?}, expected {pid}"
    );
    assert!(begun.elapsed() < PATIENCE, "the deadline holds");
    // Reading goes on meanwhile.
    assert_eq!(store.snapshot().unwrap().head().unwrap(), Seq(1));
    freezer.signal(Signal::CONT);
    hear(&lines, "ack frozen 2");
    assert!(freezer.finish().success());
    let after = store.submit(Line::Append("after".into())).unwrap().wait();
    assert_eq!(after.unwrap().reply, Seq(3));
    assert_eq!(store.refresh_head().unwrap(), Seq(3));
    verified::<Ledger>(&store.snapshot().unwrap());
}

#[test]
fn a_process_killed_inside_a_write_leaves_nothing_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = store_path(&dir);
    let store = open(&path, PATIENCE).unwrap();
    store
        .submit(Line::Append("before".into()))
        .unwrap()
        .wait()
        .unwrap();
    let acks = Acks::default();
    let (said, lines) = mpsc::channel();
    let mut freezer = Sibling::start("freezer", &path, &acks, said);
    hear(&lines, "frozen ");
    freezer.signal(Signal::KILL);
    freezer.finish();
    let after = store.submit(Line::Append("after".into())).unwrap().wait();
    assert_eq!(
        after.unwrap().reply,
        Seq(2),
        "the killed append left no trace"
    );
    verified::<Ledger>(&store.snapshot().unwrap());
}
