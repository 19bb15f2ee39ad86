//! What people read on a terminal of eighty columns: every command of the four programs, over stores that
//! hold the longest and oddest names that a peer, a user or a file system can choose.
//!
//! The rule: no line is wider than the terminal. On standard output what is longer than a line has its
//! middle left out (it is whole in a pipe and in JSON); on standard error it stays, alone in its line, and so
//! does a command between backticks: both are to be copied.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use interlink::crypto::hash::sha256;
use interlink::domain::decide::agent::{
    Agent, AgentCommand, AgentReply, Lease, QueueMessage, Receive, Window,
};
use interlink::domain::decide::bus::{Bus, BusCommand};
use interlink::event::agent::{AttemptError, MailKind, MailStatus, Origin};
use interlink::store::{Location, OpenOptions, Store};
use interlink::testkit::FakeClock;
use interlink::testkit::sample::{WIDE_LIMITS, enqueue};
use interlink::testkit::sample_agent::take_lease;
use interlink::testkit::sample_bond::bond_history;
use interlink::testkit::sample_care::care_history;
use interlink::testkit::sample_directory::directory_history;
use interlink::testkit::sample_pairing::{knock, pairing_history, request};
use interlink::testkit::sample_rendezvous::relay_history;
use interlink::types::id::{MsgId, PublicKey, SessionId};
use interlink::types::text::cells;
use interlink::types::time::UnixMillis;

use super::admin::assert_tame;
use super::admin_world::submit;
use super::terminal::Terminal;

const NOW: UnixMillis = UnixMillis(1_795_996_800_000);
const COLUMNS: usize = 80;
/// Identities with everything that can happen, under usual names.
const USUAL: [u8; 4] = [1, 5, 6, 8];

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

/// So many bytes at most, of characters that take two cells.
fn wide(bytes: usize) -> String {
    "\u{4e2d}".repeat(bytes / 3)
}

/// The same with one that is spelled out.
fn odd(bytes: usize) -> String {
    format!("{}\u{202e}", wide(bytes - 3))
}

fn id(prefix: &str, bytes: usize) -> String {
    format!("{prefix}{}", "x".repeat(bytes - prefix.len()))
}

/// A home whose path alone is longer than a line.
struct World {
    _dir: tempfile::TempDir,
    home: PathBuf,
    /// The identity with the odd names, whose key is in its usual place.
    own: PublicKey,
}

/// Where the output goes that is not looked at.
#[derive(Clone, Copy)]
enum Look {
    AtBoth,
    AtOutput,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("h".repeat(90)).join("a user's");
        fs::create_dir_all(&home).unwrap();
        let made = Command::new(env!("CARGO_BIN_EXE_interlink-keygen"))
            .env_clear()
            .env("HOME", &home)
            .output()
            .unwrap();
        let said = String::from_utf8(made.stdout).unwrap();
        let own = said.split_whitespace().find_map(|word| word.parse().ok());
        World {
            _dir: dir,
            home,
            own: own.unwrap(),
        }
    }

    fn state(&self) -> PathBuf {
        self.home.join(".local/state/interlink")
    }

    fn agent(&self, own: PublicKey) -> PathBuf {
        let folder = self.state().join("agent").join(own.to_string());
        folder.join("agent.redb")
    }

    fn bus(&self) -> PathBuf {
        self.state().join("bus.redb")
    }

    fn open_agent(&self, own: PublicKey) -> Store<Agent> {
        let options = OpenOptions::shared(Location::File(self.agent(own)));
        Store::open(options, Arc::new(FakeClock::new(NOW)), None).unwrap()
    }

    fn fill(&self) {
        for (n, history) in [care_history, directory_history, pairing_history]
            .into_iter()
            .enumerate()
        {
            let store = self.open_agent(key(USUAL[n]));
            history(NOW, &mut |command| submit(&store, command));
            store.close();
        }
        let store = self.open_agent(key(USUAL[3]));
        bond_history(&mut |command| submit(&store, command));
        store.close();
        let store = self.open_agent(self.own);
        odd_agent(&store, self.own);
        store.close();
        let options = OpenOptions::exclusive(Location::File(self.bus()));
        let store = Store::<Bus>::open(options, Arc::new(FakeClock::new(NOW)), None).unwrap();
        odd_bus(&store);
        store.close();
    }

    /// What a program shows on a terminal, both of its outputs, and how it ended.
    fn show(&self, look: Look, program: &str, args: &[&str]) -> (String, i32) {
        let errors = match look {
            Look::AtBoth => "/dev/tty",
            Look::AtOutput => "/dev/null",
        };
        let script = format!(
            "\"$0\" \"$@\" >/dev/tty 2>{errors} </dev/null; echo \"END $?.\" >/dev/tty; read end </dev/tty"
        );
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script])
            .arg(program)
            .args(args)
            .env("HOME", &self.home)
            .env("PWD", &self.home)
            .env("CLAUDECODE", "1")
            .env("NO_COLOR", "1");
        let mut terminal = Terminal::start(&shell);
        let shown = terminal.wait_for(".\r\n");
        let shown = match shown.rsplit_once("END ") {
            Some(_) => shown,
            None => terminal.wait_for("END "),
        };
        terminal.type_in("\n");
        assert_eq!(terminal.end().code, Some(0), "{args:?}: {shown}");
        let (text, code) = shown.rsplit_once("END ").unwrap();
        let code = code.split('.').next().unwrap().parse().unwrap();
        (text.replace('\r', ""), code)
    }
}

fn odd_agent(store: &Store<Agent>, own: PublicKey) {
    let session = SessionId::parse(&wide(256)).unwrap();
    let AgentReply::Lease(lease) = submit(
        store,
        AgentCommand::TakeLease {
            session: session.clone(),
            pid: std::process::id(),
            process_start: 1,
            now: NOW,
        },
    ) else {
        panic!("a free session's lease is given");
    };
    submit(store, take_lease(&id("plain", 256), NOW));
    submit(
        store,
        AgentCommand::AddPeer {
            petname: "\u{4e2d}".repeat(64),
            key: key(2),
            origin: Origin::Admin,
            lease: None,
            now: NOW,
        },
    );
    for (n, task) in [(1, odd(1024)), (2, id("task", 1024))] {
        queue_odd(store, &lease, n, task.clone());
        receive_odd(store, &lease, own, n, task);
    }
    submit(store, knock(&lease, 3, &id("knock", 256), &wide(190), NOW));
    submit(store, request(&lease, 4, &id("ask", 256), &wide(190), NOW));
}

fn relays() -> Vec<String> {
    vec![
        format!("http://{}:9440", id("relay-", 240)),
        "http://127.0.0.1:1".to_owned(),
    ]
}

fn queue_odd(store: &Store<Agent>, lease: &Lease, n: u64, task: String) {
    let body = br#"{"text":"words"}"#.to_vec();
    let reply = submit(
        store,
        AgentCommand::QueueMessage(QueueMessage {
            lease: lease.clone(),
            msg_id: MsgId::parse(&id(&format!("out{n}-"), 256)).unwrap(),
            to: key(2),
            to_session: SessionId::parse(&wide(256)).unwrap(),
            kind: MailKind::Message,
            task_id: Some(task),
            status: Some(MailStatus::Update),
            in_reply_to: Some(MsgId::parse(&id("in-", 256)).unwrap()),
            ts: NOW,
            sha256: sha256(&body),
            body: body.into(),
            relays: relays(),
            now: NOW,
        }),
    );
    let AgentReply::Queued { seq } = reply else {
        panic!("{reply:?}");
    };
    for (attempt, relay) in relays().into_iter().enumerate() {
        submit(
            store,
            AgentCommand::RecordAttempt {
                msg_seq: seq,
                relay,
                attempt: u32::MAX - u32::try_from(attempt).unwrap(),
                error: AttemptError::Connect,
                detail: odd(300),
                next_at: NOW.plus(1000),
                now: NOW,
            },
        );
    }
}

fn receive_odd(store: &Store<Agent>, lease: &Lease, own: PublicKey, n: u64, task: String) {
    let body = br#"{"text":"hello"}"#.to_vec();
    let command = Receive {
        lease: lease.clone(),
        own,
        from: key(2),
        msg_id: MsgId::parse(&id(&format!("in{n}-"), 256)).unwrap(),
        ts: NOW,
        kind: MailKind::Message,
        task_id: Some(task),
        status: Some(MailStatus::Update),
        in_reply_to: Some(MsgId::parse(&odd(256)).unwrap()),
        reply_to: None,
        sha256: sha256(&body),
        body: body.into(),
        window: Window {
            past_ms: 1000,
            future_ms: 1000,
        },
        now: NOW,
    };
    submit(store, AgentCommand::Receive(Box::new(command)));
}

fn odd_bus(store: &Store<Bus>) {
    relay_history(NOW, &mut |command| submit(store, command));
    for to in [
        odd(512),
        id("queue", 512),
        format!("{}#{}", key(2), wide(256)),
    ] {
        for _ in 0..2 {
            let long = "y".repeat(3000);
            submit(
                store,
                enqueue(&to, format!("{{\"n\":\"{long}\"}}").as_bytes(), WIDE_LIMITS),
            );
        }
    }
    let words = serde_json::json!({
        "sessionId": wide(256), "pubkey": key(2).to_string(), "name": odd(190), "cwd": odd(500),
    });
    for entry in [odd(512), id("entry", 512)] {
        submit(
            store,
            BusCommand::Announce {
                entry,
                announcement: Arc::from(words.to_string().as_bytes()),
                max_entries: 100,
            },
        );
    }
}

/// Everything that a program showed fits.
fn judge(look: Look, what: &[&str], shown: &str) {
    let mut quoted = false;
    for line in shown.lines() {
        let opened = quoted;
        quoted ^= line.matches('`').count() % 2 == 1;
        let to_copy = opened || line.contains('`') || !line.contains(' ');
        let may = matches!(look, Look::AtBoth) && to_copy;
        let width = cells(line);
        assert!(
            width <= COLUMNS || may,
            "{what:?}: {width}: {line}\n{shown}"
        );
    }
    assert_tame(shown);
}

/// The names of a help text's commands.
fn commands(help: &str) -> Vec<String> {
    let after = help.split("Commands:\n").nth(1).unwrap_or_default();
    let lines = after.lines().take_while(|line| !line.is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(ToOwned::to_owned)
        .collect()
}

const ADMIN: &str = env!("CARGO_BIN_EXE_interlink-admin");

#[test]
fn help_fits_eighty_columns() {
    let world = World::new();
    for program in [
        ADMIN,
        env!("CARGO_BIN_EXE_interlink-bus"),
        env!("CARGO_BIN_EXE_interlink-mcp"),
        env!("CARGO_BIN_EXE_interlink-keygen"),
    ] {
        let mut waiting = vec![vec![]];
        let mut seen = 0;
        while let Some(path) = waiting.pop() {
            let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
            args.push("--help");
            let (shown, code) = world.show(Look::AtBoth, program, &args);
            assert_eq!(code, 0, "{args:?}: {shown}");
            let wide: Vec<&str> = shown.lines().filter(|line| cells(line) > COLUMNS).collect();
            assert!(wide.is_empty(), "{program} {args:?}: {wide:#?}");
            for name in commands(&shown) {
                waiting.push(path.iter().cloned().chain([name]).collect());
            }
            seen += 1;
        }
        let fewest = if program == ADMIN { 50 } else { 1 };
        assert!(seen >= fewest, "{program}: {seen}");
    }
}

#[test]
fn every_list_and_every_answer_fits_eighty_columns() {
    let world = World::new();
    world.fill();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (odd_agent, bus) = (path(&world.agent(world.own)), path(&world.bus()));
    let mut agents = USUAL.map(|n| path(&world.agent(key(n)))).to_vec();
    agents.push(odd_agent.clone());
    let file = |name: &str| path(&world.home.join(name));
    let (backup, export, long) = (file("b.redb"), file("e.jsonl"), file(&id("nothing", 200)));
    let (second, third, fourth) = (file("r.redb"), file("s.redb"), file("t.redb"));
    let (key2, queue) = (key(2).to_string(), odd(512));
    let (message, task, peer) = (id("out1-", 256), id("task", 1024), "\u{4e2d}".repeat(64));
    let (received, session) = (id("in1-", 256), wide(256));
    let entry = odd(512);
    // How it ends is a matter of other tests, save that the first of a kind ends well.
    let of_agents: Vec<Vec<&str>> = vec![
        vec!["status"],
        vec!["doctor"],
        vec!["log"],
        vec!["log", "--last", "5"],
        vec!["stats"],
        vec!["at", "3"],
        vec!["at", "5", "outbox"],
        vec!["diff", "1", "9"],
        vec!["diff", "1", "9", "mailbox"],
        vec!["outbox", "--all"],
        vec!["inbox", "--all"],
        vec!["tasks", "--all"],
        vec!["sessions"],
        vec!["pair"],
        vec!["peers"],
        vec!["bond", "list", "--all"],
        vec!["audit"],
        vec!["audit", "--verify"],
        vec!["verify"],
        vec!["compact", "--dry-run", "--until", "3"],
        vec!["migrate", "--check"],
    ];
    let shown: Vec<Vec<&str>> = vec![
        vec!["trace", &message],
        vec!["trace", &task],
        vec!["trace", &received],
        vec!["trace", "nothing-of-that-name"],
        vec!["outbox", "show", &message],
        vec!["inbox", "show", &received],
        vec!["tasks", "show", &task],
        vec!["sessions", "show", &session],
        vec!["peers", "show", &peer],
        vec!["peers", "show", &key2],
        vec!["pair", "show", &key2],
        vec!["bond", "show", "0011223344556677"],
        vec!["outbox", "retry", &message],
        vec!["outbox", "drop", &message],
        vec!["sessions", "clear", &session],
        vec!["forget-peer", &key2],
        vec!["outbox", "retry", &message, "--yes"],
        vec!["outbox", "drop", &message, "--yes"],
        vec!["sessions", "clear", &session, "--yes"],
        vec!["peers", "remove", &peer],
        vec!["pair", "reject", &key2],
        vec!["backup", &backup],
        vec!["export", &export],
        vec!["restore", &backup, "--to", &second],
        vec!["import", &export, "--to", &third],
        vec!["repair", "--out", &fourth],
        vec!["rebuild", "outbox", "--yes"],
        vec!["compact", "--until", "3"],
        vec!["compact", "--until", "3", "--yes"],
    ];
    let of_bus: Vec<Vec<&str>> = vec![
        vec!["status"],
        vec!["log"],
        vec!["stats"],
        vec!["at", "9", "queues"],
        vec!["queue"],
        vec!["queue", "show", &queue],
        vec!["queue", "show", &queue, "--body"],
        vec!["roster"],
        vec!["roster", "show", &entry],
        vec!["relay"],
        vec!["queue", "drop", &queue, "--all"],
        vec!["queue", "drop", &queue, "--all", "--yes"],
        vec!["roster", "remove", &entry, "--yes"],
        vec!["verify"],
        vec!["compact", "--until", "9", "--yes"],
    ];
    let everywhere: Vec<Vec<&str>> = vec![
        vec!["status"],
        vec!["doctor"],
        vec!["log"],
        vec!["stats"],
        vec!["trace", &message],
        vec!["at", "3"],
        vec!["compact"],
        vec!["verify"],
        vec!["status", "--store", &long],
        vec!["no-such-command"],
    ];
    for args in &of_agents {
        for store in &agents {
            let args = [&args[..], &["--store", store]].concat();
            for look in [Look::AtOutput, Look::AtBoth] {
                judge(look, &args, &world.show(look, ADMIN, &args).0);
            }
        }
    }
    for (store, list) in [(&odd_agent, &shown), (&bus, &of_bus)] {
        for args in list {
            let args = [&args[..], &["--store", store]].concat();
            let reads = !args.contains(&"--yes");
            if reads {
                judge(
                    Look::AtOutput,
                    &args,
                    &world.show(Look::AtOutput, ADMIN, &args).0,
                );
            }
            judge(
                Look::AtBoth,
                &args,
                &world.show(Look::AtBoth, ADMIN, &args).0,
            );
        }
    }
    for args in &everywhere {
        for look in [Look::AtOutput, Look::AtBoth] {
            judge(look, args, &world.show(look, ADMIN, args).0);
        }
    }
}
