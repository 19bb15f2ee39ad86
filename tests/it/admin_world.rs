//! Two identities and a bus, as stores without processes, each with a clock of its own; and the
//! admin tool over them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use interlink::crypto::hash::sha256;
use interlink::domain::Domain;
use interlink::domain::decide::agent::{
    Agent, AgentCommand, AgentReply, Lease, QueueMessage, Receive, Window,
};
use interlink::domain::decide::bus::{Bus, BusCommand, BusReply, Overflow, QueueLimits};
use interlink::event::agent::{AttemptError, MailKind, MailStatus, NoticePath, Origin};
use interlink::store::{Cut, Location, OpenOptions, Store};
use interlink::testkit::FakeClock;
use interlink::types::id::{MsgId, PublicKey, SessionId};
use interlink::types::seq::Seq;
use interlink::types::time::{Clock as _, UnixMillis};
use serde_json::{Value, json};

/// 2026-11-30 00:00 UTC.
pub(crate) const DAY: u64 = 1_795_996_800_000;

pub(crate) const RELAY: &str = "http://127.0.0.1:1";

/// Text that acts on a terminal.
pub(crate) const HOSTILE: &str = "x\u{1b}]0;pwned\u{7}\u{202e}\u{2028}\r\ny";

pub(crate) fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

pub(crate) fn submit<D: Domain>(store: &Store<D>, command: D::Command) -> D::Reply {
    let receipt = store.submit(command).map_err(|e| e.to_string()).unwrap();
    receipt.wait().map_err(|e| e.to_string()).unwrap().reply
}

/// An identity's store with one session.
pub(crate) struct Party {
    pub(crate) key: PublicKey,
    pub(crate) clock: Arc<FakeClock>,
    store: Store<Agent>,
    lease: Lease,
}

/// What a message is, as far as tests care.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mail {
    pub(crate) id: &'static str,
    pub(crate) task: Option<&'static str>,
    pub(crate) status: Option<MailStatus>,
    pub(crate) relays: Vec<&'static str>,
}

impl Mail {
    pub(crate) fn of(id: &'static str) -> Mail {
        Mail {
            id,
            relays: vec![RELAY],
            ..Mail::default()
        }
    }

    fn body(&self) -> Vec<u8> {
        let mut body = json!({ "text": "secret words" });
        if self.id != HOSTILE {
            body["msg_id"] = self.id.into();
        }
        body.to_string().into_bytes()
    }
}

impl Party {
    fn open(root: &Path, own: u8, peer: u8) -> Party {
        let clock = Arc::new(FakeClock::new(UnixMillis(DAY)));
        let path = root
            .join("agent")
            .join(key(own).to_string())
            .join("agent.redb");
        let options = OpenOptions::shared(Location::File(path));
        let store = Store::open(options, Arc::clone(&clock) as _, None).unwrap();
        let command = AgentCommand::TakeLease {
            session: SessionId::parse("s").unwrap(),
            pid: std::process::id(),
            process_start: 1,
            now: UnixMillis(DAY),
        };
        let lease = match submit(&store, command) {
            AgentReply::Lease(lease) => lease,
            reply => panic!("{reply:?}"),
        };
        let party = Party {
            key: key(own),
            clock,
            store,
            lease,
        };
        party.run(AgentCommand::AddPeer {
            petname: format!("peer{peer}"),
            key: key(peer),
            origin: Origin::Admin,
            lease: None,
            now: UnixMillis(DAY),
        });
        party
    }

    pub(crate) fn run(&self, command: AgentCommand) -> AgentReply {
        self.clock.advance(1);
        submit(&self.store, command)
    }

    fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    /// Signs and queues a message to the other one.
    pub(crate) fn queue(&self, to: &Party, mail: &Mail) -> Seq {
        let body = mail.body();
        let command = AgentCommand::QueueMessage(QueueMessage {
            lease: self.lease.clone(),
            msg_id: MsgId::parse(mail.id).unwrap(),
            to: to.key,
            to_session: SessionId::parse("s").unwrap(),
            kind: MailKind::Message,
            task_id: mail.task.map(Into::into),
            status: mail.status,
            in_reply_to: None,
            ts: self.now(),
            sha256: sha256(&body),
            body: body.into(),
            relays: mail.relays.iter().map(|url| (*url).to_owned()).collect(),
            now: self.now(),
        });
        match self.run(command) {
            AgentReply::Queued { seq } => seq,
            reply => panic!("{reply:?}"),
        }
    }

    pub(crate) fn failed(&self, message: Seq, attempt: u32) {
        self.run(AgentCommand::RecordAttempt {
            msg_seq: message,
            relay: RELAY.into(),
            attempt,
            error: AttemptError::Connect,
            detail: HOSTILE.into(),
            next_at: self.now().plus(1000),
            now: self.now(),
        });
    }

    pub(crate) fn accepted(&self, message: Seq) {
        self.run(AgentCommand::RecordAccepted {
            msg_seq: message,
            relay: RELAY.into(),
            dropped: false,
            now: self.now(),
        });
    }

    pub(crate) fn receive(&self, from: &Party, mail: &Mail, signed: u64, window: u64) {
        let body = mail.body();
        self.run(AgentCommand::Receive(Box::new(Receive {
            lease: self.lease.clone(),
            own: self.key,
            from: from.key,
            msg_id: MsgId::parse(mail.id).unwrap(),
            ts: UnixMillis(signed),
            kind: MailKind::Message,
            task_id: mail.task.map(Into::into),
            status: mail.status,
            in_reply_to: None,
            reply_to: None,
            sha256: sha256(&body),
            body: body.into(),
            window: Window {
                past_ms: window,
                future_ms: 100_000_000,
            },
            now: self.now(),
        })));
    }

    pub(crate) fn read(&self, from: &Party, mail: &Mail) {
        self.run(AgentCommand::Acknowledge {
            lease: self.lease.clone(),
            items: vec![(from.key, MsgId::parse(mail.id).unwrap())],
            now: self.now(),
        });
    }

    /// Hands a notice to the host; `worked` says how that went.
    pub(crate) fn notify(&self, worked: bool) {
        let id = "0badcafe".to_owned();
        self.run(AgentCommand::ReserveNotice {
            lease: self.lease.clone(),
            id: id.clone(),
            path: NoticePath::Channel,
            patience_ms: None,
            now: self.now(),
        });
        self.run(AgentCommand::NoticeResult {
            lease: self.lease.clone(),
            id,
            accepted: worked.then_some(NoticePath::Channel),
            patience_ms: None,
            now: self.now(),
        });
    }

    /// Folds every record but the last.
    pub(crate) fn compact(&self) {
        compact(&self.store);
    }
}

fn compact<D: Domain>(store: &Store<D>) {
    let cut = Cut {
        before: UnixMillis(u64::MAX),
        ..Cut::ALL
    };
    let compaction = store.compact(cut, Duration::from_secs(60)).unwrap();
    compaction.wait().unwrap();
}

pub(crate) struct Relay {
    pub(crate) clock: Arc<FakeClock>,
    store: Store<Bus>,
}

impl Relay {
    pub(crate) fn run(&self, command: BusCommand) -> BusReply {
        self.clock.advance(1);
        submit(&self.store, command)
    }

    /// Takes a message into the other one's queue, which holds `room`.
    pub(crate) fn enqueue(&self, to: &Party, mail: &Mail, room: usize) -> Seq {
        let body = mail.body();
        let parsed: Value = serde_json::from_slice(&body).unwrap();
        let stored = parsed.to_string().into_bytes();
        let command = BusCommand::Enqueue {
            to: format!("{}#s", to.key),
            sha256: sha256(&stored),
            payload: stored.into(),
            msg_id: mail.id.chars().filter(char::is_ascii_graphic).collect(),
            limits: QueueLimits {
                messages: room,
                bytes: 1 << 20,
                store_bytes: 1 << 20,
                queues: 10,
                overflow: Overflow::DropOldest,
            },
        };
        match self.run(command) {
            BusReply::Enqueued { seq, .. } => seq,
            reply => panic!("{reply:?}"),
        }
    }

    pub(crate) fn ack(&self, to: &Party, seq: Seq) {
        let me = format!("{}#s", to.key);
        let seqs = vec![seq];
        self.run(BusCommand::Ack { me, seqs });
    }

    pub(crate) fn expire(&self) {
        let before = self.clock.now();
        self.run(BusCommand::ExpireMessages { before, max: 100 });
    }

    pub(crate) fn compact(&self) {
        compact(&self.store);
    }
}

/// Two identities that admit each other, and a bus.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) ada: Party,
    pub(crate) ben: Party,
    pub(crate) relay: Relay,
}

impl World {
    pub(crate) fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join(".local/state/interlink");
        let clock = Arc::new(FakeClock::new(UnixMillis(DAY)));
        let options = OpenOptions::exclusive(Location::File(root.join("bus.redb")));
        let store = Store::open(options, Arc::clone(&clock) as _, None).unwrap();
        World {
            ada: Party::open(&root, 1, 2),
            ben: Party::open(&root, 2, 1),
            relay: Relay { clock, store },
            dir,
        }
    }

    /// Sends, takes in and reads a message; every step takes a millisecond of its clock.
    pub(crate) fn deliver(&self, mail: &Mail) {
        let sent = self.ada.queue(&self.ben, mail);
        let signed = self.ada.now().0 - 1;
        let waits = self.relay.enqueue(&self.ben, mail, 10);
        self.ada.accepted(sent);
        self.ben.clock.advance(10);
        self.ben.receive(&self.ada, mail, signed, 100_000_000);
        self.relay.ack(&self.ben, waits);
        self.ben.read(&self.ada, mail);
    }

    /// Sets every clock, so that what comes next is later everywhere.
    pub(crate) fn at(&self, ms: u64) {
        for clock in [&self.ada.clock, &self.ben.clock, &self.relay.clock] {
            clock.set(UnixMillis(DAY + ms));
        }
    }

    /// Ends every writer.
    pub(crate) fn close(self) -> Closed {
        self.ada.store.close();
        self.ben.store.close();
        self.relay.store.close();
        Closed { dir: self.dir }
    }
}

/// A folder with stores in it.
pub(crate) struct Closed {
    pub(crate) dir: tempfile::TempDir,
}

impl Closed {
    pub(crate) fn bus(&self) -> PathBuf {
        self.dir.path().join(".local/state/interlink/bus.redb")
    }

    pub(crate) fn agent(&self, n: u8) -> PathBuf {
        let root = self.dir.path().join(".local/state/interlink/agent");
        root.join(key(n).to_string()).join("agent.redb")
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        run(self.dir.path(), args)
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        ok(self.dir.path(), args)
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        json_of(self.dir.path(), args)
    }
}

pub(crate) fn run(home: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interlink-admin"))
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .args(args)
        .output()
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output of a command that must succeed; it acts on no terminal and is not wide.
pub(crate) fn ok(home: &Path, args: &[&str]) -> String {
    let output = run(home, args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {out}{err}");
    for c in out.chars() {
        let tame = c == '\n' || !interlink::types::id::is_unsafe_char(c);
        assert!(tame, "{c:?} in {out}");
    }
    if !args.contains(&"--json") {
        // Paths are printed whole.
        let wide = out
            .lines()
            .find(|l| l.chars().count() > 80 && !l.contains(".redb"));
        assert_eq!(wide, None, "{out}");
    }
    out
}

pub(crate) fn json_of(home: &Path, args: &[&str]) -> Value {
    let mut args = args.to_vec();
    args.push("--json");
    let out = ok(home, &args);
    let answer = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    super::admin_schema::conforms(args[0], &answer);
    answer
}
