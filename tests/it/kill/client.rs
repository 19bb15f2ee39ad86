//! A session of a coding agent: sends, looks, acknowledges, and writes down what it saw. Its
//! channel server may be killed at any moment; it starts the next one and goes on.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use interlink::testkit::Rng;
use serde_json::{Value, json};

use super::history::{Event, Msg, Recorder, Who};
use super::process::{Gone, Link, Slot};
use crate::mcp_support::Home;

/// So many messages of one sender may be on the way: a mailbox is read 100 at a time.
const ON_THE_WAY: usize = 40;

/// How others reach a session.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) who: Who,
    /// A peer's name, or `self`.
    pub(crate) name: &'static str,
    pub(crate) session: &'static str,
}

/// What all clients of a run share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) recorder: Recorder,
    /// No new messages.
    pub(crate) quiet: AtomicBool,
    /// Nothing any more; also after a failure anywhere.
    pub(crate) stop: AtomicBool,
}

impl Shared {
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Stops everybody when its thread fails.
    pub(crate) fn guard(&self) -> StopOnPanic<'_> {
        StopOnPanic(self)
    }
}

pub(crate) struct StopOnPanic<'a>(&'a Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop.store(true, Ordering::SeqCst);
        }
    }
}

/// One session.
pub(crate) struct Client {
    /// As a sender.
    pub(crate) who: Who,
    /// As a reader: processes of one session share a mailbox.
    pub(crate) mailbox: Who,
    pub(crate) session: &'static str,
    pub(crate) others: Vec<Address>,
    pub(crate) slot: Arc<Slot>,
    command: Box<dyn Fn() -> Command + Send>,
    link: Option<Link>,
    sent: Vec<u32>,
    rng: Rng,
    /// What the tools said instead of an answer.
    pub(crate) refusals: Vec<String>,
}

impl Client {
    pub(crate) fn new(
        who: Who,
        home: &Home,
        session: &'static str,
        relays: &str,
        others: Vec<Address>,
        seed: u64,
    ) -> Client {
        let relays = relays.to_owned();
        let (path, peers) = (home.path().to_owned(), home.peers_path());
        let log = path.join(format!("{session}-{who}.log"));
        Client {
            who,
            mailbox: who,
            session,
            sent: vec![0; others.len()],
            others,
            slot: Arc::new(Slot::new(log)),
            command: Box::new(move || channel_server(&path, &peers, &relays, session)),
            link: None,
            rng: Rng::new(seed),
            refusals: vec![],
        }
    }

    /// Does one thing; starts a channel server where there is none.
    pub(crate) fn step(&mut self, shared: &Shared) {
        let quiet = shared.quiet.load(Ordering::SeqCst);
        let full = quiet || shared.recorder.unseen_of(self.who) >= ON_THE_WAY;
        let outcome = if !full && self.rng.chance(60) {
            let to = self.rng.index(self.others.len());
            self.send(&shared.recorder, to).map(drop)
        } else {
            self.look_and_acknowledge(&shared.recorder, 70).map(drop)
        };
        if let Err(Gone) = outcome {
            self.bury();
        }
        thread::sleep(Duration::from_millis(self.rng.below(8)));
    }

    /// Works until told to stop.
    pub(crate) fn run(&mut self, shared: &Shared) {
        let _guard = shared.guard();
        while !shared.stopped() {
            self.step(shared);
        }
    }

    fn bury(&mut self) {
        self.link = None;
        self.slot.reap();
    }

    /// Kills and reaps its channel server.
    pub(crate) fn kill(&mut self) {
        self.slot.kill();
        self.bury();
    }

    pub(crate) fn link(&mut self) -> Result<&mut Link, Gone> {
        if self.link.is_none() {
            self.link = Some(Link::open(&self.slot, &mut (self.command)())?);
        }
        self.link.as_mut().ok_or(Gone)
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Option<Value>, Gone> {
        match self.link()?.call(tool, arguments)? {
            Ok(data) => Ok(Some(data)),
            Err(text) => {
                self.refusals.push(text);
                Ok(None)
            }
        }
    }

    /// Sends the next message to one of the others; whether it was taken.
    pub(crate) fn send(&mut self, recorder: &Recorder, to: usize) -> Result<bool, Gone> {
        self.link()?;
        let address = self.others[to].clone();
        self.sent[to] += 1;
        let msg = Msg {
            from: self.who,
            to: address.who,
            n: self.sent[to],
        };
        let pad = "x".repeat(self.rng.index(600));
        let arguments = json!({
            "to": address.name, "session": address.session, "text": format!("{}{pad}", msg.text()),
        });
        recorder.add(Event::SendBegan(msg));
        let Some(sent) = self.call("send_message", &arguments)? else {
            return Ok(false);
        };
        let id = sent["msg_id"].as_str().unwrap().to_owned();
        recorder.add(Event::SendDone(msg, Some(id)));
        Ok(true)
    }

    /// Looks; what is unread, if the tool says.
    pub(crate) fn look(&mut self, recorder: &Recorder) -> Result<Option<Vec<Value>>, Gone> {
        self.link()?;
        let look = recorder.look();
        let Some(inbox) = self.call("receive_messages", &json!({ "limit": 100 }))? else {
            return Ok(None);
        };
        let messages = inbox["messages"].as_array().unwrap();
        let seen = messages.iter().map(|m| {
            let id = m["receipt"]["msg_id"].as_str().unwrap().to_owned();
            let content = m["content"].as_str().unwrap();
            (id, content.lines().find_map(Msg::parse).unwrap())
        });
        recorder.add(Event::LookDone {
            look,
            reader: self.mailbox,
            seen: seen.collect(),
            whole: inbox["unread"] == messages.len(),
        });
        Ok(Some(messages.clone()))
    }

    /// Looks and acknowledges some of it, each message in `percent` of a hundred cases; how many
    /// there were.
    pub(crate) fn look_and_acknowledge(
        &mut self,
        recorder: &Recorder,
        percent: u64,
    ) -> Result<Option<usize>, Gone> {
        let Some(mail) = self.look(recorder)? else {
            return Ok(None);
        };
        let receipts: Vec<&Value> = mail
            .iter()
            .map(|m| &m["receipt"])
            .filter(|_| self.rng.chance(percent))
            .collect();
        if !receipts.is_empty() {
            self.acknowledge(recorder, &receipts)?;
        }
        Ok(Some(mail.len()))
    }

    /// Messages that no relay has taken. Nobody may kill the server meanwhile.
    pub(crate) fn pending(&mut self) -> Vec<Value> {
        let link = self.link().expect("it lives");
        let answer = link.call("list_pending", &json!({})).expect("it lives");
        let pending = answer.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(pending["refused"], json!([]));
        pending["pending"].as_array().unwrap().clone()
    }

    fn acknowledge(&mut self, recorder: &Recorder, receipts: &[&Value]) -> Result<(), Gone> {
        let keys: Vec<String> = receipts
            .iter()
            .map(|r| r["msg_id"].as_str().unwrap().to_owned())
            .collect();
        let reader = self.mailbox;
        recorder.add(Event::AckBegan {
            reader,
            keys: keys.clone(),
        });
        let arguments = json!({ "messages": receipts });
        if self.call("acknowledge_messages", &arguments)?.is_some() {
            recorder.add(Event::AckDone { reader, keys });
        }
        Ok(())
    }
}

fn channel_server(home: &PathBuf, peers: &PathBuf, relays: &str, session: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-mcp"));
    command
        .env_clear()
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .current_dir(home)
        .args(["--session", session, "--url", relays])
        .arg("--key")
        .arg(home.join("id.key"))
        .arg("--peers")
        .arg(peers);
    command
}
