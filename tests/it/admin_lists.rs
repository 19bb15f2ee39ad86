//! The operator's lists and actions, as a process: over closed stores, beside a bus and beside who
//! writes to an identity.

use std::fs;
use std::path::Path;
use std::process::Command;

use interlink::crypto::sign::SigningIdentity;
use interlink::domain::decide::agent::{AgentCommand, AgentReply};
use interlink::event::agent::Origin;
use interlink::store::{Mode, Reader, Store};
use interlink::testkit::sample_agent::agent_history;
use interlink::types::secret::Secret;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::admin::beside_a_bus::RunningBus;
use super::admin::{
    agent_path, agent_store, assert_tame, bus_path, bus_store, enqueue, fill_agent, json as answer,
    ok, run, text,
};
use super::admin_sessions::{self as identity, submit};
use super::support::{START, verified};
use super::terminal::Terminal;

const HOSTILE_QUEUE: &str = "zoe\u{202e}\u{2028}";

fn fill_bus(dir: &Path) {
    let store = bus_store(dir);
    for n in 0..3 {
        enqueue(&store, "ann", &format!("{{\"n\":{n}}}"));
    }
    enqueue(&store, HOSTILE_QUEUE, "\"\u{1b}[31m\"");
    store.close();
}

/// What differs between a closed store and a running bus is only who does it.
fn queues_are_looked_into_and_emptied(dir: &Path) {
    let shown = answer(dir, &["queue", "show", "ann"]);
    let seqs: Vec<u64> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [1, 2, 3]);
    assert_eq!(shown["messages"][0]["body"], Value::Null);
    let one = answer(dir, &["queue", "show", "2", "--body"]);
    assert_eq!(one["message"]["to"], "ann");
    assert_eq!(one["message"]["body"], "{\"n\":1}");
    for args in [
        &["queue"][..],
        &["queue", "show", "4", "--body"],
        &["queue", "show", "zoe"],
    ] {
        let shown = ok(dir, args);
        assert_tame(&shown);
        assert!(shown.contains("zoe\\u{202e}"), "{shown}");
    }

    // Nobody can be asked, and nothing is done; the refusal says what would have been.
    let refused = run(dir, &["queue", "drop", "ann", "--all"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let said = text(&refused.stderr);
    assert!(
        said.contains("3 messages") && said.contains("--yes"),
        "{said}"
    );
    assert_eq!(run(dir, &["queue", "drop", "ann"]).status.code(), Some(2));
    let foreign = run(dir, &["queue", "drop", "ann", "4", "--yes"]);
    assert_eq!(foreign.status.code(), Some(1), "{}", text(&foreign.stderr));
    assert_eq!(
        run(dir, &["queue", "drop", "bob", "--all", "--yes"])
            .status
            .code(),
        Some(1)
    );

    let one = answer(dir, &["queue", "drop", "ann", "2", "--yes"]);
    assert_eq!((&one["queue"], &one["dropped"]), (&json!("ann"), &json!(1)));
    let rest = answer(dir, &["queue", "drop", "an", "--all", "--yes"]);
    assert_eq!(rest["dropped"], 2);
    let log = answer_lines(dir, &["log", "--kind", "discarded"]);
    let events: Vec<&Value> = log.iter().map(|line| &line["event"]).collect();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["seqs"], json!([2]));
    assert_eq!(events[1]["seqs"], json!([1, 3]));
    assert!(events.iter().all(|event| event["origin"] == "admin"));
    let status = answer(dir, &["status"]);
    assert_eq!(status["stores"][0]["bus"]["messages"], 1);
    assert_eq!(status["stores"][0]["bus"]["drops"]["admin"], 3);
    assert!(ok(dir, &["verify"]).starts_with("ok"));
}

fn answer_lines(dir: &Path, args: &[&str]) -> Vec<Value> {
    let text = ok(dir, &[args, &["--json"]].concat());
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn queues_of_a_closed_store_are_looked_into_and_emptied() {
    let dir = tempfile::tempdir().unwrap();
    fill_bus(dir.path());
    queues_are_looked_into_and_emptied(dir.path());
    let reader = Reader::open(&bus_path(dir.path()), Mode::Shared).unwrap();
    verified::<interlink::domain::decide::bus::Bus>(&reader.snapshot().unwrap());
}

#[test]
fn what_was_typed_before_the_question_is_no_answer_to_it() {
    let dir = tempfile::tempdir().unwrap();
    fill_bus(dir.path());
    let program = super::admin::admin(dir.path());
    for (early, late, code) in [("y\n", "\n", 1), ("n\n", "y\n", 0)] {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec \"$0\" \"$@\" </dev/tty 2>/dev/tty"])
            .arg(program.get_program())
            .args(["queue", "drop", "ann", "--all"])
            .current_dir(dir.path());
        for (name, value) in program.get_envs() {
            shell.env(name, value.unwrap());
        }
        let mut terminal = Terminal::start(&shell);
        terminal.type_in(early);
        terminal.wait_for("Go on?");
        terminal.type_in(late);
        assert_eq!(terminal.end().code, Some(code));
    }
}

#[test]
fn queues_of_a_running_bus_are_looked_into_and_emptied() {
    let dir = tempfile::tempdir().unwrap();
    fill_bus(dir.path());
    let bus = RunningBus::start(dir.path());
    queues_are_looked_into_and_emptied(dir.path());
    bus.stop(Signal::TERM);
}

#[test]
fn a_session_is_taken_off_the_board_until_it_announces_itself_again() {
    let dir = tempfile::tempdir().unwrap();
    let bus = RunningBus::start(dir.path());
    let announce = |name: &str| {
        let body = json!({
            "pubkey": "k\u{202e}", "name": name, "session": { "session_id": "s" }, "ts": 1,
        });
        let client = crate::support::web();
        let answer = client
            .post(format!("{}/announce", bus.url))
            .json(&body)
            .send();
        assert!(answer.unwrap().status().is_success());
    };
    announce("one");
    let board = answer(dir.path(), &["roster"]);
    assert_eq!(board["sessions"][0]["entry"], "k\u{202e}#s");
    for args in [&["roster"][..], &["roster", "show", "k"]] {
        assert_tame(&ok(dir.path(), args));
    }
    let refused = run(dir.path(), &["roster", "remove", "k"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("next announcement"));
    let gone = answer(dir.path(), &["roster", "remove", "k", "--yes"]);
    assert_eq!(gone["removed"], true);
    assert_eq!(answer(dir.path(), &["roster"])["sessions"], json!([]));
    // The bus itself shows it no more, and takes it in again.
    let public: Value = crate::support::web()
        .get(format!("{}/status", bus.url))
        .send()
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(public["roster"], 0);
    announce("one");
    bus.stop(Signal::TERM);
    assert_eq!(
        answer(dir.path(), &["roster"])["sessions"][0]["entry"],
        "k\u{202e}#s"
    );
    let log = answer_lines(dir.path(), &["log", "--kind", "presence_removed"]);
    assert_eq!(log[0]["event"]["origin"], "admin");
    // The same on a closed store.
    answer(dir.path(), &["roster", "remove", "k", "--yes"]);
    assert_eq!(answer(dir.path(), &["roster"])["sessions"], json!([]));
    assert_eq!(
        run(dir.path(), &["roster", "remove", "k", "--yes"])
            .status
            .code(),
        Some(1)
    );
}

/// A store in which one message waits for one of its two relays, and the session that writes there.
fn with_history(dir: &Path) -> Store<interlink::domain::decide::agent::Agent> {
    let store = identity::open(dir);
    agent_history(START, &mut |command| submit(&store, command));
    store
}

fn message(dir: &Path, id: &str) -> Value {
    identity::json(dir, &["outbox", "show", id])["message"].clone()
}

#[test]
fn a_message_is_hurried_and_given_up_beside_the_session_that_sends_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = with_history(dir.path());
    let before = message(dir.path(), "out-1");
    let seq = before["seq"].as_u64().unwrap();
    let waits = |m: &Value| {
        m["relays"]
            .as_array()
            .unwrap()
            .iter()
            .any(|r| r["state"] == "waiting")
    };
    assert!(waits(&before));
    let attempt = AgentCommand::RecordAttempt {
        msg_seq: interlink::types::seq::Seq(seq),
        relay: "http://127.0.0.1:8766".into(),
        attempt: 4,
        error: interlink::event::agent::AttemptError::Connect,
        detail: "no".into(),
        next_at: interlink::types::time::UnixMillis(u64::MAX),
        now: START,
    };
    submit(&store, attempt);

    let hurried = identity::json(dir.path(), &["outbox", "retry", &seq.to_string()]);
    assert_eq!(
        (&hurried["msg_id"], &hurried["changed"]),
        (&json!("out-1"), &json!(true))
    );
    let after = message(dir.path(), "out-1");
    let relay = after["relays"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["state"] == "waiting");
    assert_eq!(relay.unwrap()["attempts"], 4);
    assert_ne!(relay.unwrap()["next_at"], u64::MAX);

    let refused = identity::admin(dir.path(), &["outbox", "drop", "out-1"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("A relay has it already"), "{said}");
    let dropped = ["outbox", "drop", "out-1", "--yes"];
    assert_eq!(identity::json(dir.path(), &dropped)["changed"], true);
    assert_eq!(identity::json(dir.path(), &dropped)["changed"], false);
    let after = message(dir.path(), "out-1");
    assert!(!waits(&after));
    assert_eq!(
        after["state"], "bus_accepted",
        "a relay has it and keeps it"
    );
    let text = identity::ok(dir.path(), &["outbox", "show", "out-1"]);
    assert!(text.contains("given up by the operator"), "{text}");
    for kind in ["outbox_retried", "outbox_dropped"] {
        let log = identity::ok(dir.path(), &["log", "--kind", kind, "--json"]);
        let line: Value = serde_json::from_str(&log).unwrap();
        assert_eq!(line["event"], json!({ "message": seq, "origin": "admin" }));
    }
    let life = identity::json(dir.path(), &["trace", "out-1"]);
    let steps: Vec<&str> = life["messages"][0]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    assert!(
        steps.contains(&"retried") && steps.contains(&"given_up"),
        "{steps:?}"
    );
    // The session goes on in the same store.
    submit(
        &store,
        interlink::testkit::sample_agent::take_lease("other", START),
    );
    assert_eq!(
        identity::admin(dir.path(), &["outbox", "retry", "nothing"])
            .status
            .code(),
        Some(1)
    );
}

#[test]
fn looking_at_received_mail_and_tasks_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = identity::open(dir.path());
    let parties = interlink::testkit::sample_directory::directory_history;
    parties(START, &mut |command| match &command {
        // Its history ends with forgetting a peer; this one does not.
        AgentCommand::RemovePeer { .. } => AgentReply::Done { changed: false },
        _ if matches!(&command, AgentCommand::Directory(c) if format!("{c:?}").starts_with("ForgetPeer")) => {
            AgentReply::Done { changed: false }
        }
        _ => submit(&store, command),
    });
    let unread = identity::json(dir.path(), &["inbox"]);
    let list = unread["stores"][0]["messages"].as_array().unwrap();
    assert!(list.iter().all(|m| m["state"] == "unread") && !list.is_empty());
    let all = identity::json(dir.path(), &["inbox", "list", "--all"]);
    assert!(all["stores"][0]["messages"].as_array().unwrap().len() > list.len());
    let id = list[0]["msg_id"].as_str().unwrap();
    let shown = identity::json(dir.path(), &["inbox", "show", id, "--body"]);
    assert!(shown["message"]["body"].is_string());
    assert_eq!(identity::json(dir.path(), &["inbox"]), unread);
    assert!(!identity::ok(dir.path(), &["inbox", "show", id]).contains("text"));

    let open = identity::json(dir.path(), &["tasks"]);
    let tasks = open["stores"][0]["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|t| t["ended"] == false) && !tasks.is_empty());
    let shown = identity::json(dir.path(), &["tasks", "show", "task"]);
    assert_eq!(shown["task"]["state"], "result");
    let words: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["msg_id"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["r1", "r2", "r3"]);
    for args in [
        &["tasks", "--all"][..],
        &["tasks", "show", "task"],
        &["inbox", "--all"],
        &["sessions"],
    ] {
        assert_tame(&identity::ok(dir.path(), args));
    }
}

#[test]
fn a_peer_and_what_waits_to_be_paired_are_shown_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = identity::open(dir.path());
    let key = SigningIdentity::from_seed(&Secret::new([3; 32])).public();
    let add = AgentCommand::AddPeer {
        petname: "ann".into(),
        key,
        origin: Origin::Tool,
        lease: None,
        now: START,
    };
    submit(&store, add);
    store.close();
    let peers = identity::json(dir.path(), &["peers"]);
    let peer = identity::json(dir.path(), &["peers", "show", &key.to_string()]);
    assert_eq!(peer["peer"], peers["peers"][0]);
    assert_eq!(peer["fingerprint"], key.fingerprint().as_str());
    let shown = identity::ok(dir.path(), &["peers", "show", "ann"]);
    assert_tame(&shown);
    let fingerprint = format!("fingerprint {}", key.fingerprint());
    assert!(shown.contains(&fingerprint), "{shown}");
    assert!(identity::json(dir.path(), &["pair"])["inbound"].is_array());
    let unknown = identity::admin(dir.path(), &["pair", "show", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
}

#[test]
fn a_list_of_another_kind_of_store_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = agent_store(dir.path());
    fill_agent(&store);
    store.close();
    let place = agent_path(dir.path());
    let place = place.to_str().unwrap();
    for args in [&["queue", "show", "x"][..], &["roster"]] {
        let refused = run(dir.path(), &[args, &["--store", place]].concat());
        assert_eq!(
            refused.status.code(),
            Some(7),
            "{args:?} {}",
            text(&refused.stderr)
        );
    }
    let before = fs::read(place).unwrap();
    for args in [
        &["inbox", "--all"][..],
        &["outbox", "--all"],
        &["tasks", "--all"],
        &["status"],
    ] {
        assert_tame(&ok(dir.path(), args));
    }
    assert_eq!(fs::read(place).unwrap(), before, "looking changes no byte");
}

#[test]
fn status_of_a_bus_and_an_identity_fits_one_screen() {
    let dir = tempfile::tempdir().unwrap();
    let store = agent_store(dir.path());
    fill_agent(&store);
    for n in 0..9 {
        let lease = interlink::testkit::sample_agent::take_lease(&format!("s-{n}"), START);
        submit(&store, lease);
    }
    fill_bus(dir.path());
    let bus = RunningBus::start(dir.path());
    let screen = ok(dir.path(), &["status"]);
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.contains("and 7 more"), "{screen}");
    assert!(
        screen.contains("last error") && screen.contains("http://127.0.0.1:1"),
        "{screen}"
    );
    assert!(screen.contains("kept for 7d00h or 256.0 MiB"), "{screen}");
    assert_tame(&screen);
    let all = answer(dir.path(), &["status"]);
    let agent = &all["stores"][1];
    assert_eq!(agent["agent"]["sessions"].as_array().unwrap().len(), 10);
    assert_eq!(agent["agent"]["last_error"]["relay"], "http://127.0.0.1:1");
    assert_eq!(agent["base"], 0);
    assert_eq!(agent["records"], agent["head"]);
    bus.stop(Signal::TERM);
}

#[test]
fn what_a_full_bus_refuses_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let bus = RunningBus::with(dir.path(), &["--queue-cap", "1", "--overflow", "refuse"]);
    bus.send("b", &json!(1));
    let client = crate::support::web();
    let body = json!({ "to": "b", "payload": 2 });
    let refused = client
        .post(format!("{}/send", bus.url))
        .json(&body)
        .send()
        .unwrap();
    assert_eq!(refused.status().as_u16(), 507);
    let running = &answer(dir.path(), &["status"])["stores"][0]["running"];
    assert_eq!(running["refused"], 1);
    assert!(ok(dir.path(), &["status"]).contains("1 message refused since the start"));
    let found = answer(dir.path(), &["doctor"]);
    assert_eq!(found["ok"], true);
    assert!(
        found.to_string().contains("refused for want of room"),
        "{found}"
    );
    bus.stop(Signal::TERM);
}

/// The finding of a doctor about a store.
fn finding<'a>(report: &'a Value, place: &Path, name: &str) -> &'a Value {
    let patients = report["patients"].as_array().unwrap();
    let patient = patients
        .iter()
        .find(|p| p["place"] == place.to_str().unwrap());
    let findings = patient.unwrap()["findings"].as_array().unwrap();
    let found = findings.iter().find(|f| f["name"] == name);
    found.unwrap_or_else(|| panic!("nothing about {name}: {report}"))
}

#[test]
fn the_doctor_says_what_is_in_the_way_and_what_to_do_next() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    fill_bus(dir.path());
    let place = bus_path(dir.path());
    let folder = place.parent().unwrap();
    let well = answer(dir.path(), &["doctor"]);
    assert_eq!(well["ok"], true, "{well}");
    for (name, verdict) in [("store", "ok"), ("format", "ok"), ("log", "ok")] {
        assert_eq!(finding(&well, &place, name)["verdict"], verdict, "{well}");
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let left = r#"{"url":"http://127.0.0.1:1","token":"t","pid":1}"#;
    fs::write(folder.join("bus.redb.admin"), left).unwrap();
    let hints = answer(dir.path(), &["doctor"]);
    let open = finding(&hints, folder, "folder");
    assert!(
        open["next"].as_str().unwrap().starts_with("chmod 700 "),
        "{open}"
    );
    assert_eq!(finding(&hints, &place, "endpoint")["verdict"], "hint");
    let text = ok(dir.path(), &["doctor"]);
    assert_tame(&text);
    assert!(text.ends_with("nothing is broken\n"), "{text}");
    assert!(!text.contains("\"t\""), "the token is nobody's business");

    // A page of the file is gone.
    let mut bytes = fs::read(&place).unwrap();
    bytes[..64].fill(0);
    fs::write(&place, &bytes).unwrap();
    let broken = run(dir.path(), &["doctor", "--json"]);
    assert_eq!(
        broken.status.code(),
        Some(1),
        "{}",
        super::admin::text(&broken.stderr)
    );
    let report: Value = serde_json::from_slice(&broken.stdout).unwrap();
    assert_eq!(report["ok"], false);
    let store = finding(&report, &place, "store");
    assert_eq!(store["verdict"], "broken");
    assert!(store["next"].is_string());
}

#[test]
fn the_doctor_finds_a_bus_that_does_not_answer_and_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let bus = RunningBus::start(dir.path());
    let place = bus_path(dir.path());
    let admin = place.with_extension("redb.admin");
    let real = fs::read(&admin).unwrap();
    let mut other: Value = serde_json::from_slice(&real).unwrap();
    other["token"] = json!("0".repeat(64));
    fs::write(&admin, other.to_string()).unwrap();
    let broken = run(dir.path(), &["doctor", "--json"]);
    assert_eq!(broken.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&broken.stdout).unwrap();
    assert_eq!(finding(&report, &place, "endpoint")["verdict"], "broken");
    fs::write(&admin, real).unwrap();
    bus.send("b", &json!(1));
    bus.stop(Signal::KILL);
    let after = answer(dir.path(), &["doctor"]);
    assert_eq!(
        finding(&after, &place, "store")["verdict"],
        "hint",
        "{after}"
    );
}
