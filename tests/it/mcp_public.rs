//! Ours beside the public program. `INTERLINK_PUBLIC_BIN` names the folder of its binaries; without
//! it there is nothing to compare with, and the test says so.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::http::Bus;
use crate::mcp_support::{Agent, Home, eventually, friends};

struct Public(PathBuf);

impl Public {
    fn find() -> Option<Public> {
        let found = std::env::var_os("INTERLINK_PUBLIC_BIN").map(PathBuf::from);
        if found.is_none() {
            eprintln!("skipped: INTERLINK_PUBLIC_BIN is not set");
        }
        found.map(Public)
    }

    fn bus(&self) -> (PublicBus, String) {
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let child = Command::new(self.0.join("interlink-bus"))
            .args(["--addr", &free.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let bus = PublicBus(child);
        eventually("the public bus", || {
            TcpStream::connect(free as SocketAddr).ok()
        });
        (bus, format!("http://{free}"))
    }

    fn agent(&self, home: &Home, url: &str, session: &str) -> Agent {
        let ours = home.command(url, session);
        let mut command = Command::new(self.0.join("interlink-mcp"));
        command.env_clear().args(ours.get_args());
        for (name, value) in ours.get_envs() {
            command.env(name, value.unwrap());
        }
        Agent::start(command)
    }
}

struct PublicBus(Child);

impl Drop for PublicBus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text of an answer of the public program, whose answers have no structure.
fn text(agent: &mut Agent, tool: &str, arguments: &Value) -> String {
    let answer = agent.call_raw(tool, arguments);
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// One message each way between ours and theirs.
fn exchange(public: &Public, url: &str) {
    let (a, b) = friends();
    let (mut ours, mut theirs) = (a.start(url, "sa"), public.agent(&b, url, "sb"));
    let arguments = json!({
        "to": "b", "session": "sb", "text": "from ours \u{e9}", "task_id": "t", "status": "result",
    });
    let id = ours.call("send_message", &arguments)["msg_id"].clone();
    let seen = eventually("ours at theirs", || {
        let seen = text(&mut theirs, "receive_messages", &json!({}));
        seen.contains("from ours \u{e9}").then_some(seen)
    });
    assert!(
        seen.contains(id.as_str().unwrap()) && seen.contains("sender=\"a\""),
        "{seen}"
    );
    let answer = json!({ "to": "sa", "text": "from theirs", "in_reply_to": id });
    // They know a session once it was announced.
    eventually("theirs sent", || {
        let answer = theirs.call_raw("send_message", &answer);
        answer.get("result").is_some().then_some(())
    });
    let mail = ours.inbox_of(1);
    assert!(
        mail[0]["content"]
            .as_str()
            .unwrap()
            .contains("\nfrom theirs\n")
    );
    assert_eq!(mail[0]["in_reply_to"], id);
    assert_eq!(ours.acknowledge(&mail), 1);
}

#[test]
fn ours_and_the_public_program_talk_through_our_bus() {
    let Some(public) = Public::find() else { return };
    let bus = Bus::start();
    exchange(&public, &format!("http://{}", bus.addr));
}

#[test]
fn ours_and_the_public_program_talk_through_the_public_bus() {
    let Some(public) = Public::find() else { return };
    let (_bus, url) = public.bus();
    exchange(&public, &url);
}

#[test]
fn two_of_ours_talk_through_the_public_bus() {
    let Some(public) = Public::find() else { return };
    let (_bus, url) = public.bus();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url, "sa"), b.start(&url, "sb"));
    let first = alice.send("b", "sb", "1");
    let second = alice.send("b", "sb", "2");
    let mail = bob.inbox_of(2);
    assert_eq!(mail[0]["receipt"]["msg_id"], *first);
    assert_eq!(mail[1]["receipt"]["msg_id"], *second);
    assert_eq!(bob.acknowledge(&mail), 2);
}
