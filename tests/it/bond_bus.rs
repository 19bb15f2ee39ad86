//! Sealed sessions through the relay of `interlink-bus`, and what is left of them on the disk.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::admin_peers::{admin, answer};
use crate::bond_support::{ask, bonded, event, good, start};
use crate::mcp_support::{Agent, Home, eventually};

const TOOL: &[(&str, &str)] = &[("INTERLINK_CONSENT", "tool")];

/// A bus with a relay; killed on drop.
pub(crate) struct Bus {
    child: Child,
    pub(crate) relay: SocketAddr,
}

impl Bus {
    pub(crate) fn start(home: &std::path::Path) -> Bus {
        Bus::start_on(home, "127.0.0.1:0")
    }

    fn start_on(home: &std::path::Path, relay: &str) -> Bus {
        use std::io::BufRead as _;
        let mut child = Command::new(env!("CARGO_BIN_EXE_interlink-bus"))
            .env_clear()
            .env("HOME", home)
            .args(["--addr", "127.0.0.1:0", "--relay-addr", relay])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let relay = loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended");
            if let Some((_, rest)) = line.split_once("sealed sessions on ") {
                break rest.split_whitespace().next().unwrap().parse().unwrap();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Bus { child, relay }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.relay)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_strangers_meet_at_the_bus_and_what_they_did_is_on_record() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = start(&homes[0], &bus.url(), TOOL);
    let mut guest = start(&homes[1], &bus.url(), TOOL);
    let code = bonded(&mut host, &mut guest);
    eventually("the host may speak", || {
        let said = json!({ "content": "SPOKEN-CANARY" });
        let (failed, _, _) = ask(&mut host, "bond_message", &said);
        (!failed).then_some(())
    });
    event(&mut guest, "message");
    let content = format!("{}\nFILE-CANARY\n", "a line\n".repeat(2000));
    std::fs::write(homes[1].path().join("long.txt"), &content).unwrap();
    let file = json!({ "filepath": "long.txt", "message": "NOTE-CANARY" });
    let (_, sent) = good(&mut guest, "bond_send", &file);
    let offer = event(&mut host, "file_offered");
    let id = &offer["transfer_id"];
    let (text, taken) = good(&mut host, "bond_accept", &json!({ "transferId": id }));
    assert_eq!(taken["sha256"], sent["sha256"]);
    assert_eq!(taken["truncated"], true);
    assert!(
        text.contains("Content truncated") && !text.contains("FILE-CANARY"),
        "{text}"
    );
    assert_eq!(
        std::fs::read_to_string(taken["path"].as_str().unwrap()).unwrap(),
        content
    );
    good(&mut host, "bond_end", &json!({}));
    event(&mut guest, "peer_left");
    // A line follows its record: who ends a program in between leaves it to the next one.
    for home in &homes {
        eventually("every record has its line", || {
            let proof = admin(home, &["audit", "--verify"]).output().unwrap();
            proof.status.success().then_some(())
        });
    }
    drop((host, guest));

    for (home, tools) in [
        (
            &homes[0],
            &[
                "session_created",
                "key_confirmed",
                "acceptTransfer",
                "session_ended",
            ][..],
        ),
        (
            &homes[1],
            &[
                "session_joined",
                "key_confirmed",
                "sendFile",
                "peer_disconnected",
            ][..],
        ),
    ] {
        let state = home
            .path()
            .join("state/interlink/agent")
            .join(home.key.to_string());
        let log = std::fs::read_to_string(state.join("audit.log")).unwrap();
        for tool in tools {
            assert!(
                log.contains(&format!("\"tool\":\"{tool}\"")),
                "{tool}: {log}"
            );
        }
        for secret in ["SPOKEN-CANARY", "NOTE-CANARY", "FILE-CANARY", &code] {
            assert!(!log.contains(secret), "{secret}: {log}");
        }
        let proof = answer(home, &["audit", "--verify"]);
        assert!(proof.is_object() || proof.is_array(), "{proof}");
        // Nor does the log itself hold any of it.
        let store = std::fs::read(state.join("agent.redb")).unwrap();
        for secret in ["SPOKEN-CANARY", "NOTE-CANARY", "FILE-CANARY", &code] {
            let found = store.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!found, "{secret}");
        }
    }
}

#[test]
fn sigkill_while_a_file_is_saved_leaves_a_whole_file_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let content = "0123456789abcde\n".repeat(15_000);
    std::fs::write(homes[0].path().join("big.txt"), &content).unwrap();
    let state = homes[1]
        .path()
        .join("state/interlink/agent")
        .join(homes[1].key.to_string());
    for wait in [0, 3, 9] {
        let mut host = start(&homes[0], &bus.url(), TOOL);
        let mut guest = start(&homes[1], &bus.url(), TOOL);
        bonded(&mut host, &mut guest);
        eventually("the file is sent", || {
            let (failed, _, _) = ask(&mut host, "bond_send", &json!({ "filepath": "big.txt" }));
            (!failed).then_some(())
        });
        let offer = event(&mut guest, "file_offered");
        let accept =
            json!({ "name": "bond_accept", "arguments": { "transferId": offer["transfer_id"] } });
        guest.post("tools/call", &accept);
        // Somewhere in between; that it is not the same place each time is the point.
        std::thread::sleep(Duration::from_millis(wait));
        guest.kill();
        let files = std::fs::read_dir(state.join("incoming"));
        for file in files.into_iter().flatten().flatten() {
            let name = file.file_name().into_string().unwrap();
            if !name.starts_with('.') {
                assert_eq!(
                    std::fs::read_to_string(file.path()).unwrap(),
                    content,
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn the_operator_accepts_on_a_terminal_and_the_model_hears_of_it() {
    use crate::terminal::Terminal;
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = start(&homes[0], &bus.url(), &[]);
    let mut guest = start(&homes[1], &bus.url(), &[]);
    bonded(&mut host, &mut guest);
    std::fs::write(homes[0].path().join("plan.md"), "# Plan\n\nCANARY\n").unwrap();
    eventually("the file is sent", || {
        let (failed, _, _) = ask(&mut host, "bond_send", &json!({ "filepath": "plan.md" }));
        (!failed).then_some(())
    });
    let offer = event(&mut guest, "file_offered");
    let id = offer["transfer_id"].as_str().unwrap().to_owned();
    let (failed, _, data) = ask(&mut guest, "bond_accept", &json!({ "transferId": id }));
    assert!(
        failed && data["command"].as_str().unwrap().contains(&id),
        "{data}"
    );
    let listed: Value = answer(&homes[1], &["bond", "list"]);
    assert!(listed.to_string().contains(&id), "{listed}");
    let shown: Value = answer(&homes[1], &["bond", "show", &id]);
    assert!(shown.to_string().contains("CANARY"), "{shown}");

    let mut terminal = Terminal::start(&admin(&homes[1], &["bond", "accept", &id]));
    terminal.wait_for("to stop: ");
    terminal.type_in(&data["sha256"].as_str().unwrap()[..8]);
    terminal.type_in("\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{} {}", ended.stderr, ended.shown);
    let told = event(&mut guest, "file_accepted");
    let text = told["text"].as_str().unwrap();
    assert!(
        text.contains("Saved to: ") && text.contains("CANARY"),
        "{text}"
    );
    let (_, status) = good(&mut guest, "bond_status", &json!({}));
    assert_eq!(status["pending"], json!([]));

    let over = answer(&homes[1], &["bond", "end"]);
    assert_eq!(over["was_open"], true, "{over}");
    event(&mut guest, "ended");
    event(&mut host, "peer_left");
}

#[test]
fn a_code_that_can_be_said_aloud_opens_a_session_of_our_own() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let mut host = start(&homes[0], &bus.url(), TOOL);
    let mut guest = start(&homes[1], &bus.url(), TOOL);
    let (_, opened) = good(&mut host, "bond_connect", &json!({ "spoken": true }));
    let code = opened["session_code"].as_str().unwrap().to_owned();
    assert!(code.split(['-', ' ']).count() >= 4, "{code}");
    // As somebody hears it.
    let heard = code.to_uppercase().replace('-', " ");
    good(&mut guest, "bond_join", &json!({ "sessionCode": heard }));
    event(&mut host, "confirmed");
    event(&mut guest, "confirmed");
    for (n, word) in ["one", "two", "three"].into_iter().enumerate() {
        let (from, to) = if n % 2 == 0 {
            (&mut host, &mut guest)
        } else {
            (&mut guest, &mut host)
        };
        good(from, "bond_message", &json!({ "content": word }));
        let heard = event(to, "message");
        assert!(heard["text"].as_str().unwrap().contains(word), "{heard}");
    }
    good(&mut guest, "bond_end", &json!({}));
    event(&mut host, "peer_left");
    let state = homes[0]
        .path()
        .join("state/interlink/agent")
        .join(homes[0].key.to_string());
    let log = std::fs::read_to_string(state.join("audit.log")).unwrap();
    assert!(log.contains("own") && !log.contains(&code), "{log}");
}

/// Bytes that are no text, different for every seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Two of ours in a session of our own mode.
pub(crate) fn spoken(homes: &[Home; 2], relay: &str) -> (Agent, Agent) {
    spoken_with(homes, relay, TOOL)
}

/// The same with further variables.
pub(crate) fn spoken_with(homes: &[Home; 2], relay: &str, more: &[(&str, &str)]) -> (Agent, Agent) {
    let mut host = start(&homes[0], relay, more);
    let mut guest = start(&homes[1], relay, more);
    let (_, opened) = good(&mut host, "bond_connect", &json!({ "spoken": true }));
    good(
        &mut guest,
        "bond_join",
        &json!({ "sessionCode": opened["session_code"] }),
    );
    event(&mut host, "confirmed");
    event(&mut guest, "confirmed");
    (host, guest)
}

pub(crate) fn offer(
    from: &mut Agent,
    home: &Home,
    name: &str,
    content: &[u8],
    to: &mut Agent,
) -> Value {
    let path = home.path().join(name);
    std::fs::write(&path, content).unwrap();
    let (text, sent) = good(from, "bond_send", &json!({ "filepath": path }));
    let hash = data_encoding::HEXLOWER.encode(&interlink::crypto::hash::sha256(content));
    assert!(text.contains(&hash), "{text}");
    assert_eq!(sent["size"], content.len() as u64, "{sent}");
    let offered = event(to, "file_offered");
    let text = offered["text"].as_str().unwrap();
    assert!(text.contains(name) && text.contains(&hash), "{text}");
    offered["transfer_id"].clone()
}

#[test]
fn files_of_any_content_move_in_our_own_mode_once_a_human_took_them() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let (mut host, mut guest) = spoken(&homes, &bus.url());
    let large = noise(7, 3 << 20);
    for (name, content) in [
        ("a.bin", large.as_slice()),
        ("empty.txt", b""),
        ("note.md", b"hi\n"),
    ] {
        let id = offer(&mut host, &homes[0], name, content, &mut guest);
        let (text, taken) = good(&mut guest, "bond_accept", &json!({ "transferId": id }));
        assert!(text.contains("Saved to: "), "{text}");
        let path = taken["path"].as_str().unwrap();
        assert!(std::fs::read(path).unwrap() == content, "{name}");
        assert!(
            event(&mut host, "file_delivered")["text"]
                .as_str()
                .unwrap()
                .contains(name)
        );
    }
    // The other way, and nothing moves against a human's word.
    let id = offer(&mut guest, &homes[1], "no.bin", &noise(8, 4096), &mut host);
    good(&mut host, "bond_decline", &json!({ "transferId": id }));
    event(&mut guest, "file_not_taken");
    let incoming = homes[0]
        .path()
        .join("state/interlink/agent")
        .join(homes[0].key.to_string());
    let there = std::fs::read_dir(incoming.join("incoming")).map_or(0, Iterator::count);
    assert_eq!(there, 0);
}

#[test]
fn a_file_goes_on_after_the_bus_was_killed_in_the_middle_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let (mut host, mut guest) = spoken(&homes, &bus.url());
    let content = noise(9, 24 << 20);
    let id = offer(&mut host, &homes[0], "big.bin", &content, &mut guest);
    let folder = homes[1]
        .path()
        .join("state/interlink/agent")
        .join(homes[1].key.to_string())
        .join("incoming");
    let taking = std::thread::spawn(move || {
        let said = ask(&mut guest, "bond_accept", &json!({ "transferId": id }));
        (guest, said)
    });
    let bytes = |folder: &std::path::Path| -> u64 {
        std::fs::read_dir(folder).map_or(0, |entries| {
            entries
                .flatten()
                .filter_map(|e| e.metadata().ok())
                .map(|m| m.len())
                .sum()
        })
    };
    eventually("a part of the file", || {
        (bytes(&folder) > 1 << 20).then_some(())
    });
    let relay = bus.relay.to_string();
    drop(bus);
    assert!(!folder.join("big.bin").exists());
    let _bus = Bus::start_on(dir.path(), &relay);
    let (mut guest, (failed, text, taken)) = taking.join().unwrap();
    let path = if failed {
        assert!(text.contains("on its way"), "{text}");
        event(&mut guest, "file_arrived");
        folder.join("big.bin")
    } else {
        taken["path"].as_str().unwrap().into()
    };
    assert!(std::fs::read(path).unwrap() == content);
    event(&mut host, "file_delivered");
}
