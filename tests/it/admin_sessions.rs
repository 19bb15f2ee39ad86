//! `interlink-admin sessions` and `forget-peer`, as a process, over stores made by the library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use interlink::crypto::sign::SigningIdentity;
use interlink::domain::decide::agent::{Agent, AgentCommand, AgentReply, DirectoryCommand};
use interlink::event::agent::{Origin, Sighting};
use interlink::keystore::{Existing, create};
use interlink::store::{Location, OpenOptions, Store};
use interlink::testkit::sample_directory::directory_history;
use interlink::types::id::{PublicKey, SessionId};
use interlink::types::secret::Secret;
use serde_json::{Value, json};

use super::support::{START, clock};

/// Makes the key of an identity, and its store; gives the public key.
fn identity(dir: &Path, seed: u8, key: &str) -> PublicKey {
    let secret = Secret::new([seed; 32]);
    let path = dir.join(key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    create(&path, &secret, Existing::Keep).unwrap();
    let public = SigningIdentity::from_seed(&secret).public();
    open_of(dir, &public).close();
    public
}

fn store_path(dir: &Path, identity: &PublicKey) -> PathBuf {
    let path = dir.join(format!("state/interlink/agent/{identity}/agent.redb"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn open_of(dir: &Path, identity: &PublicKey) -> Store<Agent> {
    let options = OpenOptions::shared(Location::File(store_path(dir, identity)));
    Store::open(options, clock(), None).unwrap()
}

/// The identity whose key is at the usual place.
pub(crate) fn own(dir: &Path) -> PublicKey {
    let usual = ".config/interlink/id.key";
    if dir.join(usual).exists() {
        let secret = Secret::new([9; 32]);
        return SigningIdentity::from_seed(&secret).public();
    }
    identity(dir, 9, usual)
}

pub(crate) fn open(dir: &Path) -> Store<Agent> {
    open_of(dir, &own(dir))
}

pub(crate) fn submit(store: &Store<Agent>, command: AgentCommand) -> AgentReply {
    store.submit(command).unwrap().wait().unwrap().reply
}

pub(crate) fn admin(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-admin"));
    command
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .env("XDG_STATE_HOME", dir.join("state"));
    command.args(args).output().unwrap()
}

pub(crate) fn ok(dir: &Path, args: &[&str]) -> String {
    let output = admin(dir, args);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

pub(crate) fn json(dir: &Path, args: &[&str]) -> Value {
    let answer = serde_json::from_str(&ok(dir, &[&["--json"], args].concat())).unwrap();
    super::admin_schema::answers(args, &answer);
    answer
}

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

fn session(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

/// Two peers that were seen at once with the same session.
fn conflict(dir: &Path) {
    let store = open(dir);
    for (petname, n) in [("ann", 2), ("bob", 3)] {
        let command = AgentCommand::AddPeer {
            petname: petname.to_owned(),
            key: key(n),
            origin: Origin::Tool,
            lease: None,
            now: START,
        };
        submit(&store, command);
    }
    let seen = |n, id: &str| Sighting {
        key: key(n),
        session: session(id),
        ts: START,
        heard: START,
    };
    let command = DirectoryCommand::Sighted {
        own: key(1),
        sightings: vec![seen(2, "mine"), seen(2, "both"), seen(3, "both")],
        now: START,
    };
    submit(&store, AgentCommand::Directory(command));
    store.close();
}

#[test]
fn a_conflict_over_a_session_is_shown_and_can_be_cleared() {
    let dir = tempfile::tempdir().unwrap();
    conflict(dir.path());
    let shown = json(dir.path(), &["sessions", "list"]);
    let sessions = shown["stores"][0]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[0]["session"], "both");
    assert_eq!(sessions[0]["owner"], Value::Null);
    assert_eq!(sessions[0]["claims"].as_array().unwrap().len(), 2);
    assert_eq!(sessions[1]["owner"], json!(key(2)));
    assert_eq!(sessions[1]["claims"][0]["petname"], "ann");
    let text = ok(dir.path(), &["sessions", "list"]);
    assert!(text.contains("contested"), "{text}");
    assert_eq!(
        ok(
            dir.path(),
            &["sessions", "clear", "--yes", "both", "unknown"]
        ),
        "1 session forgotten\n"
    );
    let shown = json(dir.path(), &["sessions", "list"]);
    let sessions = shown["stores"][0]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1);
    let log = ok(dir.path(), &["log", "--kind", "sessions_forgotten"]);
    assert!(log.contains("operator"), "{log}");
    assert_eq!(
        admin(dir.path(), &["sessions", "clear", "a#b"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn sessions_are_forgotten_for_the_identity_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    conflict(dir.path());
    let other = identity(dir.path(), 8, "other.key");
    let cleared = |args: &[&str]| {
        json(
            dir.path(),
            &[&["sessions", "clear", "--yes"], args].concat(),
        )
    };
    let by_other = cleared(&["--key", "other.key", "both"]);
    assert_eq!(by_other["cleared"], 0, "it has a store of its own");
    let place = store_path(dir.path(), &other);
    let unasked = admin(dir.path(), &["sessions", "clear", "both"]);
    assert_eq!(unasked.status.code(), Some(2));
    let said = String::from_utf8(unasked.stderr).unwrap();
    assert!(
        said.contains("forgotten") && said.contains("--yes"),
        "{said}"
    );
    let args = ["sessions", "clear", "--yes", "both", "--store"];
    let refused = admin(
        dir.path(),
        &[&args[..], &[place.to_str().unwrap()]].concat(),
    );
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&other.to_string()) && said.contains("--key"),
        "{said}"
    );
    assert_eq!(cleared(&["both"])["cleared"], 1);
}

#[test]
fn the_own_key_has_no_history_to_erase() {
    let dir = tempfile::tempdir().unwrap();
    conflict(dir.path());
    let me = own(dir.path()).to_string();
    let refused = admin(dir.path(), &["forget-peer", "--yes", &me]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("this identity's own key"), "{said}");
    // Whose key it is depends on who asks.
    identity(dir.path(), 8, "other.key");
    ok(
        dir.path(),
        &["forget-peer", "--yes", "--key", "other.key", &me],
    );
}

#[test]
fn an_odd_session_id_is_spelled_out_wherever_it_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = "a\"<b>[c]  owner";
    let command = AgentCommand::AddPeer {
        petname: "ann".to_owned(),
        key: key(2),
        origin: Origin::Tool,
        lease: None,
        now: START,
    };
    submit(&store, command);
    let seen = Sighting {
        key: key(2),
        session: session(id),
        ts: START,
        heard: START,
    };
    let command = DirectoryCommand::Sighted {
        own: key(1),
        sightings: vec![seen],
        now: START,
    };
    submit(&store, AgentCommand::Directory(command));
    let command = AgentCommand::TakeLease {
        session: session(id),
        pid: 1,
        process_start: 1,
        now: START,
    };
    submit(&store, command);
    store.close();
    let shown = "\"a\\u{22}\\u{3c}b\\u{3e}\\u{5b}c\\u{5d}  owner\"";
    for args in [
        &["sessions", "list"][..],
        &["status"],
        &["log", "--kind", "lease_taken"],
    ] {
        let text = ok(dir.path(), args);
        assert!(text.contains(shown), "{args:?}: {text}");
    }
    let listed = json(dir.path(), &["sessions", "list"]);
    assert_eq!(listed["stores"][0]["sessions"][0]["session"], id);
}

#[test]
fn a_peers_history_is_erased_once_it_is_revoked_and_never_by_accident() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    directory_history(START, &mut |command| submit(&store, command));
    let (bob, text) = (key(3), "bob");
    store.close();
    let bob_key = bob.to_string();
    let refused = admin(dir.path(), &["forget-peer", &bob_key]);
    assert_eq!(refused.status.code(), Some(2), "not without --yes");
    let said = String::from_utf8(refused.stderr).unwrap();
    for part in [
        bob_key.as_str(),
        "read or not",
        "Nobody can be asked here; say --yes",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let refused = admin(dir.path(), &["forget-peer", "--yes", &bob_key]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains(text) && said.contains("remove the peer first"),
        "{said}"
    );
    let store = open(dir.path());
    let command = AgentCommand::RemovePeer {
        petname: text.to_owned(),
        key: bob,
        origin: Origin::Tool,
        lease: None,
        now: START,
    };
    submit(&store, command);
    // Beside a session that runs.
    let done = json(dir.path(), &["forget-peer", "--yes", &bob_key]);
    assert_eq!(done["messages"], 1);
    let left = json(dir.path(), &["outbox", "--all"]);
    assert_eq!(left["stores"][0]["messages"], json!([]));
    store.close();
    ok(dir.path(), &["verify"]);
}
