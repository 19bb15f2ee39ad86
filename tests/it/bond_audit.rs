//! `audit.log`: written from the log, by several processes' handles, over crashes and full files.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use interlink::agent::bond::audit::{AuditFile, FILE_NAME, files};
use interlink::domain::audit::{Chain, Fault, Taken, lines};
use interlink::domain::decide::agent::{Agent, AgentCommand, AgentReply, BondCommand, BondNews};
use interlink::event::agent::{AgentEvent, BondMode, BondRole};
use interlink::event::kind::EventKind;
use interlink::store::{Cut, Location, OpenOptions, Store};
use interlink::testkit::Rng;
use interlink::testkit::sample_agent::agent_event;
use interlink::testkit::sample_bond::bond_history;
use interlink::types::id::{PublicKey, SessionId};
use interlink::types::seq::Seq;

use crate::support::{START, clock};

fn me(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

fn store(dir: &Path) -> Store<Agent> {
    let options = OpenOptions::shared(Location::File(dir.join("agent.redb")));
    Store::<Agent>::open(options, clock(), None).unwrap()
}

fn run(store: &Store<Agent>, command: AgentCommand) -> AgentReply {
    store.submit(command).unwrap().wait().unwrap().reply
}

fn open(store: &Store<Agent>) -> Seq {
    let command = BondCommand::Open {
        session: SessionId::parse("s").unwrap(),
        pid: 7,
        process_start: 0,
        role: BondRole::Host,
        mode: BondMode::Legacy,
        routing: [1; 6],
    };
    match run(store, AgentCommand::Bond(command)) {
        AgentReply::Bond { seq } => seq.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn say(store: &Store<Agent>, bond: Seq) {
    let news = BondNews::Said { chars: 5 };
    run(
        store,
        AgentCommand::Bond(BondCommand::Tell { bond, pid: 7, news }),
    );
}

/// Every line of a folder's files; each must fit.
fn read(dir: &Path) -> (Vec<interlink::domain::audit::Line>, Chain) {
    let mut chain = Chain::begin();
    let mut all = vec![];
    for path in files(dir) {
        chain.next_file();
        for line in fs::read_to_string(&path).unwrap().lines() {
            match chain.take(line.as_bytes()) {
                Ok(Taken::Ours(line)) => all.push(line),
                Ok(_) => {}
                Err((n, fault)) => panic!("{} line {n}: {fault}", path.display()),
            }
        }
    }
    (all, chain)
}

#[test]
fn every_event_of_sealed_sessions_has_its_lines_in_order_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    bond_history(&mut |command| run(&store, command));
    let audit = AuditFile::new(dir.path().join("state"), &me(1));
    let snapshot = store.snapshot().unwrap();
    let head = snapshot.head().unwrap();
    let written = audit.catch_up(&snapshot, Seq(1), START).unwrap();
    assert!(written > 20, "{written}");
    assert_eq!(audit.catch_up(&snapshot, head, START).unwrap(), 0);
    let (all, _) = read(&dir.path().join("state"));
    assert_eq!(all.len(), written);
    let mut expected = vec![];
    for seq in 1..=head.0 {
        let record = snapshot.record::<AgentEvent>(Seq(seq)).unwrap().unwrap();
        for entry in lines(&record.event) {
            expected.push((seq, entry.tool.to_owned(), entry.params.to_string()));
        }
    }
    let found: Vec<_> = all
        .iter()
        .map(|l| (l.record.unwrap(), l.tool.clone(), l.params.clone()))
        .collect();
    assert_eq!(found, expected);
    // Every row that the public client writes, and what it misses.
    for tool in [
        "session_created",
        "session_joined",
        "key_exchange_completed",
        "key_confirmed",
        "bond_message",
        "outbound",
        "sendFile",
        "sendFile_blocked",
        "transfer_offer_received",
        "injection_patterns_detected",
        "transfer_blocked_inbound",
        "safeWrite",
        "acceptTransfer",
        "declineTransfer",
        "chat_dropped_malformed",
        "packet_dropped_replay",
        "packet_dropped_undecryptable",
        "relay_gap_detected",
        "session_aborted",
        "peer_disconnected",
        "session_ended",
        "messages_received",
        "call_failed",
        "relay_lost",
        "packet_dropped",
        "peer_joined",
    ] {
        assert!(found.iter().any(|(_, t, _)| t == tool), "no {tool}");
    }
    let path = dir.path().join("state").join(FILE_NAME);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[test]
fn any_event_gives_lines_of_one_line_each() {
    let mut rng = Rng::new(5);
    for kind in EventKind::ALL {
        let Some(event) = agent_event(*kind, &mut rng) else {
            continue;
        };
        let is_bond = interlink::domain::audit::is_bond(kind.number());
        let all = lines(&event);
        assert_eq!(all.is_empty(), !is_bond, "{}", kind.name());
        assert!(all.iter().all(|l| !l.params.to_string().contains('\n')));
    }
}

#[test]
fn handles_of_one_identity_and_identities_of_one_folder_share_a_chain() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    fs::create_dir_all(&one).unwrap();
    fs::create_dir_all(&two).unwrap();
    let (one, two) = (Arc::new(store(&one)), Arc::new(store(&two)));
    let folder = dir.path().join("home");
    let writers = [(&one, 1), (&one, 1), (&two, 2)].map(|(store, n)| {
        let store = Arc::clone(store);
        let audit = AuditFile::new(folder.clone(), &me(n));
        std::thread::spawn(move || {
            let bond = open(&store);
            for _ in 0..20 {
                say(&store, bond);
                let log = store.snapshot().unwrap();
                audit.catch_up(&log, log.head().unwrap(), START).unwrap();
            }
        })
    });
    for writer in writers {
        writer.join().unwrap();
    }
    let (all, _) = read(&folder);
    // Whichever came first wrote what the other had not written yet; nothing stands there twice.
    let of = |n: u8| {
        let identity = me(n).fingerprint().to_string();
        let records = all.iter().filter(|l| l.identity == identity);
        records.map(|l| l.record.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of(1), (1..=42).collect::<Vec<_>>());
    assert_eq!(of(2), (1..=21).collect::<Vec<_>>());
}

#[test]
fn a_line_that_a_crash_cut_off_is_owned_up_to_and_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let bond = open(&store);
    say(&store, bond);
    let audit = || AuditFile::new(dir.path().to_owned(), &me(1));
    let log = store.snapshot().unwrap();
    audit().catch_up(&log, bond, START).unwrap();
    let path = dir.path().join(FILE_NAME);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 30]).unwrap();
    // A process that starts, and one that had read the file before, both see it.
    assert_eq!(audit().catch_up(&log, bond, START).unwrap(), 1);
    let (all, chain) = read(dir.path());
    let tools: Vec<_> = all.iter().map(|l| l.tool.as_str()).collect();
    assert_eq!(tools, ["session_created", "audit_torn", "bond_message"]);
    assert_eq!(chain.counts(), (3, 0, 1));
    // Half a character is no text, and a whole line without its end is no loss.
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\xc3").unwrap();
    assert_eq!(audit().catch_up(&log, bond, START).unwrap(), 0);
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 1]).unwrap();
    say(&store, bond);
    let log = store.snapshot().unwrap();
    assert_eq!(audit().catch_up(&log, bond, START).unwrap(), 1);
    let bytes = fs::read(&path).unwrap();
    let mut chain = Chain::begin();
    for line in bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        chain.take(line).unwrap();
    }
    assert_eq!(chain.counts(), (5, 0, 2));
}

#[test]
fn a_full_file_is_set_aside_and_the_chain_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let bond = open(&store);
    let audit = AuditFile::new(dir.path().to_owned(), &me(1));
    let log = store.snapshot().unwrap();
    audit.catch_up(&log, bond, START).unwrap();
    // Lines of a program that does not chain fill it.
    let foreign = format!(
        "{{\"timestamp\":\"t\",\"tool\":\"x\",\"source\":\"user\",\"params\":\"{}\",\"pid\":1}}\n",
        "a".repeat(60_000)
    );
    let path = dir.path().join(FILE_NAME);
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    for _ in 0..70 {
        file.write_all(foreign.as_bytes()).unwrap();
    }
    say(&store, bond);
    let log = store.snapshot().unwrap();
    assert_eq!(audit.catch_up(&log, bond, START).unwrap(), 1);
    assert_eq!(files(dir.path()).len(), 2);
    say(&store, bond);
    let log = store.snapshot().unwrap();
    // Also for a process that starts now.
    let other = AuditFile::new(dir.path().to_owned(), &me(1));
    assert_eq!(other.catch_up(&log, bond, START).unwrap(), 1);
    let (all, chain) = read(dir.path());
    let tools: Vec<_> = all.iter().map(|l| l.tool.as_str()).collect();
    let expected = [
        "session_created",
        "bond_message",
        "audit_rotated",
        "bond_message",
    ];
    assert_eq!(tools, expected);
    assert_eq!(chain.counts(), (4, 70, 0));
}

#[test]
fn a_link_in_the_place_of_the_file_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let bond = open(&store);
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, dir.path().join(FILE_NAME)).unwrap();
    let audit = AuditFile::new(dir.path().to_owned(), &me(1));
    let log = store.snapshot().unwrap();
    assert!(audit.catch_up(&log, bond, START).is_err());
    assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
}

#[test]
fn a_changed_file_does_not_stop_the_record_and_is_still_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let bond = open(&store);
    let audit = || AuditFile::new(dir.path().to_owned(), &me(1));
    let log = store.snapshot().unwrap();
    audit().catch_up(&log, bond, START).unwrap();
    let path = dir.path().join(FILE_NAME);
    let text = fs::read_to_string(&path).unwrap().replace("host", "hose");
    fs::write(&path, text).unwrap();
    say(&store, bond);
    let log = store.snapshot().unwrap();
    assert_eq!(audit().catch_up(&log, bond, START).unwrap(), 1);
    let text = fs::read_to_string(&path).unwrap();
    let mut chain = Chain::begin();
    let mut faults = vec![];
    for line in text.lines() {
        faults.extend(chain.take(line.as_bytes()).err());
    }
    assert_eq!(faults, [(1, Fault::Changed)]);
}

#[test]
fn records_that_were_compacted_before_they_had_a_line_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let bond = open(&store);
    let audit = AuditFile::new(dir.path().to_owned(), &me(1));
    let write = |seq| {
        let log = store.snapshot().unwrap();
        audit.catch_up(&log, seq, START).unwrap()
    };
    assert_eq!(write(bond), 1);
    let compact = || {
        let folded = store.compact(Cut::ALL, Duration::from_secs(20)).unwrap();
        assert!(folded.wait().unwrap().records > 0);
    };
    // Nothing is lost: what went has its line. The newest record stays.
    say(&store, bond);
    assert_eq!(write(bond), 1);
    compact();
    say(&store, bond);
    assert_eq!(write(bond), 1);
    // A session of which no line tells.
    let second = open(&store);
    say(&store, second);
    compact();
    assert_eq!(write(second), 1);
    let (all, _) = read(dir.path());
    let tools: Vec<_> = all.iter().map(|l| l.tool.as_str()).collect();
    let said = "bond_message";
    let expected = ["session_created", said, said, "log_compacted", said];
    assert_eq!(tools, expected);
    assert_eq!(all[3].record, None);
}

#[test]
fn stores_of_one_identity_that_count_apart_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let open_at = |name: &str| {
        let path = dir.path().join(name);
        let options = OpenOptions::exclusive(Location::File(path.clone()));
        (Store::<Agent>::open(options, clock(), None).unwrap(), path)
    };
    for (name, texts) in [
        ("agent.redb", 5),
        ("session-1.redb", 1),
        ("session-2.redb", 2),
    ] {
        let (store, path) = open_at(name);
        let bond = open(&store);
        for _ in 0..texts {
            say(&store, bond);
        }
        let log = store.snapshot().unwrap();
        let audit = AuditFile::of_store(dir.path().to_owned(), &me(1), &path);
        assert_eq!(
            audit.catch_up(&log, bond, START).unwrap(),
            texts + 1,
            "{name}"
        );
        drop(log);
        store.close();
    }
    let (all, _) = read(dir.path());
    let labels: std::collections::BTreeSet<&str> =
        all.iter().map(|l| l.identity.as_str()).collect();
    assert_eq!(labels.len(), 3, "{labels:?}");
}
