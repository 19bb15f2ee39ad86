//! Two who met in a sealed session become peers, if both their humans say so.

use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::admin_peers::{admin, answer};
use crate::bond_support::{ask, bad, event, good};
use crate::mcp_support::{Agent, Home, Human, eventually, human};
use crate::terminal::Terminal;

pub(crate) const TOOL: &[(&str, &str)] = &[("INTERLINK_CONSENT", "tool")];

/// A bus with a relay for sealed sessions beside it; killed on drop.
pub(crate) struct Bus {
    child: Child,
    pub(crate) relay: String,
    url: String,
}

impl Bus {
    pub(crate) fn start(home: &std::path::Path) -> Bus {
        let mut child = Command::new(env!("CARGO_BIN_EXE_interlink-bus"))
            .env_clear()
            .env("HOME", home)
            .args(["--addr", "127.0.0.1:0", "--relay-addr", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut find = |words: &str| loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended");
            if let Some((_, rest)) = line.split_once(words) {
                let address = rest.split_whitespace().next().unwrap();
                break format!("http://{}", address.trim_end_matches(','));
            }
        };
        let relay = find("sealed sessions on ");
        let url = find("listening on ");
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Bus { child, relay, url }
    }

    pub(crate) fn command(&self, home: &Home, more: &[(&str, &str)]) -> Command {
        let mut command = home.command(&self.url, "s");
        command
            .env("INTERLINK_BOND_RELAY", &self.relay)
            .env("INTERLINK_BOND_ROOT", home.path())
            .env("INTERLINK_NOTIFICATIONS", "off")
            .env("RUST_LOG", "info,interlink::agent::bond=debug")
            .envs(more.iter().copied());
        command
    }

    pub(crate) fn agent(&self, home: &Home, more: &[(&str, &str)]) -> Agent {
        Agent::start(self.command(home, more))
    }

    fn agent_of(&self, home: &Home, name: &str, user: Human) -> Agent {
        let mut command = self.command(home, &[]);
        command.args(["--name", name]);
        Agent::start_with_user(command, user)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn meet(host: &mut Agent, guest: &mut Agent) {
    let (_, opened) = good(host, "bond_connect", &json!({ "spoken": true }));
    let code = json!({ "sessionCode": opened["session_code"] });
    good(guest, "bond_join", &code);
    event(host, "confirmed");
    event(guest, "confirmed");
}

pub(crate) fn peers(agent: &mut Agent) -> Vec<Value> {
    let (_, listed) = good(agent, "list_peers", &json!({}));
    listed["peers"].as_array().unwrap().clone()
}

/// Ends as a host ends it: all that happened is on record then, in the log and in `audit.log`.
pub(crate) fn leave(agents: [Agent; 2]) {
    for mut agent in agents {
        agent.close_stdin();
        agent.wait();
    }
}

pub(crate) fn audit(home: &Home) -> String {
    let state = home.path().join("state/interlink/agent");
    std::fs::read_to_string(state.join(home.key.to_string()).join("audit.log")).unwrap()
}

#[test]
fn two_humans_who_agree_make_peers_of_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = bus.agent_of(&homes[0], "ann", human("accept", Some("pin")));
    let mut guest = bus.agent_of(&homes[1], "bob", human("accept", Some("admit")));
    let said = bad(&mut host, "bond_pin", &json!({}));
    assert!(
        said.contains("confirmed session of a spoken code"),
        "{said}"
    );
    meet(&mut host, &mut guest);

    let (text, asked) = good(&mut host, "bond_pin", &json!({ "petname": "robert" }));
    assert!(text.starts_with("Pin Requested"), "{text}");
    assert_eq!(asked["state"], "asked", "{asked}");
    let form = host.asked[0]["params"]["message"].as_str().unwrap();
    assert!(
        form.contains("see these words") && form.contains("robert"),
        "{form}"
    );
    let told = event(&mut guest, "pin_asked");
    let text = told["text"].as_str().unwrap();
    assert!(
        text.contains(&homes[0].key.to_string()) && text.contains("\"ann\""),
        "{text}"
    );
    // A card is a request: it has changed nothing.
    assert_eq!(peers(&mut guest), [json!(null); 0]);
    assert_eq!(peers(&mut host), [json!(null); 0]);
    let listed = answer(&homes[1], &["bond", "list"]).to_string();
    assert!(
        listed.contains("\"waiting\"") && listed.contains(&homes[0].key.to_string()),
        "{listed}"
    );

    let (text, pinned) = good(&mut guest, "bond_pin", &json!({}));
    assert!(text.starts_with("Peer Pinned"), "{text}");
    assert_eq!(pinned["petname"], "ann", "{pinned}");
    let form = guest.asked[0]["params"]["message"].as_str().unwrap();
    assert!(form.contains(&homes[0].key.to_string()), "{form}");
    let told = event(&mut host, "pinned");
    assert!(told["text"].as_str().unwrap().contains("robert"), "{told}");
    for (agent, other, name) in [
        (&mut host, &homes[1], "robert"),
        (&mut guest, &homes[0], "ann"),
    ] {
        let there = peers(agent);
        assert_eq!(there.len(), 1, "{there:?}");
        assert_eq!(there[0]["petname"], name);
        assert_eq!(there[0]["key"], json!(other.key));
        assert_eq!(there[0]["origin"], "human");
        // Again is once; nobody is asked.
        let (_, again) = good(agent, "bond_pin", &json!({}));
        assert_eq!(again["state"], "pinned");
        assert_eq!(agent.asked.len(), 1);
    }
    good(&mut host, "bond_end", &json!({}));
    event(&mut guest, "peer_left");
    assert_eq!(peers(&mut guest).len(), 1);
    leave([host, guest]);
    for (home, tools) in [
        (
            &homes[0],
            ["pin_agreed", "pin_card_sent", "pin_card_received", "pinned"],
        ),
        (
            &homes[1],
            [
                "pin_card_received",
                "pinned",
                "pin_card_sent",
                "session_ended",
            ],
        ),
    ] {
        let log = audit(home);
        for tool in tools {
            assert!(
                log.contains(&format!("\"tool\":\"{tool}\"")),
                "{tool}: {log}"
            );
        }
        answer(home, &["audit", "--verify"]);
    }
}

#[test]
fn one_humans_word_admits_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = bus.agent_of(&homes[0], "ann", human("accept", Some("pin")));
    let mut guest = bus.agent_of(&homes[1], "bob", human("accept", Some("refuse")));
    meet(&mut host, &mut guest);
    good(&mut host, "bond_pin", &json!({}));
    event(&mut guest, "pin_asked");
    let (failed, _, data) = ask(&mut guest, "bond_pin", &json!({}));
    assert!(failed && data["state"] == "declined", "{data}");
    // What is said later comes later: had there been a card, it would be here.
    good(&mut guest, "bond_message", &json!({ "content": "no" }));
    event(&mut host, "message");
    assert_eq!(peers(&mut host), [json!(null); 0]);
    assert_eq!(peers(&mut guest), [json!(null); 0]);
    good(&mut guest, "bond_end", &json!({}));
    event(&mut host, "peer_left");
    leave([host, guest]);
    assert_eq!(homes[0].peers(), json!({}));
    assert_eq!(homes[1].peers(), json!({}));
    assert!(audit(&homes[1]).contains("\"tool\":\"pin_declined\""));
}

#[test]
fn the_operator_agrees_on_a_terminal_where_the_host_has_no_forms() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = bus.agent(&homes[0], &[]);
    let mut guest = bus.agent(&homes[1], &[]);
    meet(&mut host, &mut guest);
    let (failed, _, data) = ask(&mut host, "bond_pin", &json!({}));
    let line = data["command"].as_str().unwrap();
    assert!(
        failed && line.starts_with("interlink-admin bond pin"),
        "{data}"
    );
    let (_, status) = good(&mut host, "bond_status", &json!({}));
    let words = status["words"].as_str().unwrap().to_owned();
    let word = words.split_whitespace().next().unwrap();

    let decide = |home: &Home, args: &[&str], typed: &str, code: i32| {
        let mut terminal = Terminal::start(&admin(home, args));
        terminal.wait_for("to stop: ");
        terminal.type_in(typed);
        terminal.type_in("\n");
        let ended = terminal.end();
        assert_eq!(ended.code, Some(code), "{} {}", ended.stderr, ended.shown);
    };
    let pin = ["bond", "pin", "--petname", "bob"];
    let mut wrong = Terminal::start(&admin(&homes[0], &pin));
    wrong.wait_for("to stop: ");
    wrong.type_in("yes\n");
    assert_ne!(wrong.end().code, Some(0));
    decide(&homes[0], &pin, word, 0);
    event(&mut guest, "pin_asked");
    let typed = homes[0].key.to_string();
    decide(
        &homes[1],
        &["bond", "pin", "--petname", "ann"],
        &typed[..4],
        0,
    );
    event(&mut host, "pinned");
    event(&mut guest, "pinned");
    for agent in [&mut host, &mut guest] {
        let there = peers(agent);
        assert_eq!(there.len(), 1, "{there:?}");
        assert_eq!(there[0]["origin"], "admin");
    }
}

#[test]
fn a_name_that_is_taken_admits_nobody_until_another_is_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let other = Home::new(3);
    homes[0].write_peers(&json!({ "bob": { "key": other.key } }));
    let mut host = bus.agent(&homes[0], TOOL);
    let mut guest = bus.agent(&homes[1], TOOL);
    meet(&mut host, &mut guest);
    good(&mut host, "bond_pin", &json!({ "petname": "bob" }));
    event(&mut guest, "pin_asked");
    good(&mut guest, "bond_pin", &json!({ "petname": "ann" }));
    event(&mut host, "pin_failed");
    assert_eq!(peers(&mut host).len(), 1);
    let said = bad(&mut host, "bond_pin", &json!({ "petname": "bob" }));
    assert!(said.contains("choose another"), "{said}");
    good(&mut host, "bond_pin", &json!({ "petname": "robert" }));
    let there = eventually("both", || {
        let there = peers(&mut host);
        (there.len() == 2).then_some(there)
    });
    assert!(
        there
            .iter()
            .any(|peer| peer["petname"] == "robert" && peer["key"] == json!(homes[1].key))
    );
}
