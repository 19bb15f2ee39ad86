//! `interlink-admin peers`: the operator admits and revokes without a model, beside running sessions.

use std::process::Command;

use serde_json::{Value, json};

use crate::mcp_support::{Agent, Home, eventually};
use crate::terminal::{Ended, Terminal};

const NOWHERE: &str = "http://127.0.0.1:9";

/// `interlink-admin` for an identity.
pub(crate) fn admin(home: &Home, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-admin"));
    command
        .current_dir(home.path())
        .env_clear()
        .env("HOME", home.path())
        .env("XDG_STATE_HOME", home.path().join("state"))
        .env("INTERLINK_KEY", home.path().join("id.key"))
        .env("INTERLINK_PEERS", home.peers_path())
        .args(args);
    command
}

/// The answer of a command that must succeed, as JSON.
pub(crate) fn answer(home: &Home, args: &[&str]) -> Value {
    let mut command = admin(home, args);
    let output = command.arg("--json").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a command on a terminal and types the beginning of a key when it is asked for.
pub(crate) fn on_terminal(command: &Command, typed: &str) -> Ended {
    let mut terminal = Terminal::start(command);
    terminal.wait_for("to stop: ");
    terminal.type_in(typed);
    terminal.type_in("\n");
    terminal.end()
}

fn first4(home: &Home) -> String {
    home.key.to_string()[..4].to_owned()
}

#[test]
fn the_operator_admits_on_a_terminal_and_a_running_session_follows() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let mut agent = home.start(NOWHERE, "s");
    assert_eq!(agent.call("list_peers", &json!({}))["peers"], json!([]));
    let key = bob.key.to_string();
    let command = admin(&home, &["peers", "add", "bob", &key, "--json"]);
    let ended = on_terminal(&command, &first4(&bob));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for part in ["bob", &key, bob.key.fingerprint().as_str()] {
        assert!(ended.shown.contains(part), "{}", ended.shown);
    }
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        told,
        json!({ "petname": "bob", "key": key, "changed": true })
    );
    assert_eq!(home.peers(), json!({ "bob": { "key": key } }));
    let listed = eventually("the session sees it", || {
        let listed = agent.call("list_peers", &json!({}));
        (listed["peers"][0]["key"] == *key).then_some(listed)
    });
    assert_eq!(listed["peers"][0]["origin"], "admin");
    let listed = answer(&home, &["peers", "list"]);
    assert_eq!(listed["peers"][0]["petname"], "bob");

    // Once there, nothing is asked, and no terminal is needed; nor to revoke in a script.
    let again = answer(&home, &["peers", "add", "bob", &key]);
    assert_eq!(again["changed"], false);
    let fingerprint = bob.key.fingerprint();
    let removed = answer(&home, &["peers", "remove", "--yes", fingerprint.as_str()]);
    assert_eq!(
        (&removed["petname"], &removed["changed"]),
        (&json!("bob"), &json!(true))
    );
    assert_eq!(home.peers(), json!({}));
    eventually("the session sees that too", || {
        (agent.call("list_peers", &json!({}))["peers"] == json!([])).then_some(())
    });
}

#[test]
fn nothing_but_the_fingerprint_typed_at_the_question_is_consent() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let key = bob.key.to_string();
    for typed in ["", "y", "yes", &key[..3]] {
        let command = admin(&home, &["peers", "add", "bob", &key, "--yes"]);
        let ended = on_terminal(&command, typed);
        assert_eq!(ended.code, Some(1), "{typed:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("not confirmed"), "{}", ended.stderr);
    }
    assert_eq!(home.peers(), json!({}));
}

#[test]
fn what_was_typed_before_the_prompt_stood_there_is_no_answer() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let key = bob.key.to_string();
    let mut terminal = Terminal::start(&admin(&home, &["peers", "add", "bob", &key]));
    terminal.type_in(&format!("{}\n", first4(&bob)));
    terminal.wait_for("to stop: ");
    terminal.type_in("\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("not confirmed"), "{}", ended.stderr);
    assert_eq!(home.peers(), json!({}));
}

#[test]
fn without_a_terminal_and_in_an_agents_shell_nobody_is_admitted() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let key = bob.key.to_string();
    let args = ["peers", "add", "bob", &key, "--yes"];
    let stderr = refused_without_terminal(&home, &args, 1);
    assert!(stderr.contains("no terminal"), "{stderr}");

    let mut command = admin(&home, &args);
    command.env("CLAUDECODE", "1");
    let ended = Terminal::start(&command).end();
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("--i-am-the-operator"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.shown, "", "nothing is asked");
    assert_eq!(home.peers(), json!({}));

    command.arg("--i-am-the-operator");
    assert_eq!(on_terminal(&command, &first4(&bob)).code, Some(0));
    assert_eq!(home.peers(), json!({ "bob": { "key": key } }));
}

#[test]
fn the_lines_that_a_session_names_admit_the_peer_and_revoke_it_whatever_its_name() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let mut agent: Agent = home.start(NOWHERE, "s");
    for name in ["bob & co", "--key", "--yes", "-h", "--"] {
        let arguments = json!({ "petname": name, "key": bob.key });
        let refused = agent.call_raw("add_peer", &arguments);
        run_line(&refused, &bob);
        assert_eq!(home.peers(), json!({ name: { "key": bob.key } }));
        let refused = agent.call_raw("remove_peer", &json!({ "petname": name }));
        run_line(&refused, &bob);
        assert_eq!(home.peers(), json!({}));
    }
}

/// Runs the line that a refusal names, as its user does.
fn run_line(refused: &Value, about: &Home) {
    let line = refused["result"]["structuredContent"]["command"].as_str();
    let program = env!("CARGO_BIN_EXE_interlink-admin");
    let line = line.unwrap().replacen("interlink-admin", program, 1);
    // A user's terminal has nothing of the session's environment.
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).env("HOME", "/nonexistent");
    let ended = on_terminal(&shell, &first4(about));
    assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
}

/// Runs a command without a controlling terminal, whatever the tests run on; what it said.
fn refused_without_terminal(home: &Home, args: &[&str], code: i32) -> String {
    let mut command = Command::new("setsid");
    let program = admin(home, args);
    command
        .arg("--wait")
        .arg(program.get_program())
        .args(program.get_args());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_peer_is_removed_by_whoever_types_its_fingerprint_and_in_scripts_by_yes() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let admitted = json!({ "bob": { "key": bob.key } });
    home.write_peers(&admitted);
    // A store that has the file for its own.
    drop(home.start(NOWHERE, "s").call("list_peers", &json!({})));
    let args = ["peers", "remove", "bob"];
    let ended = on_terminal(&admin(&home, &args), "yes");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("not confirmed"), "{}", ended.stderr);
    for part in [&bob.key.to_string(), bob.key.fingerprint().as_str()] {
        assert!(ended.shown.contains(part), "{}", ended.shown);
    }
    let said = refused_without_terminal(&home, &args, 2);
    assert!(
        said.contains("no terminal") && said.contains("--yes"),
        "{said}"
    );
    // What a coding agent runs is no script of the operator's.
    let mut command = admin(&home, &["peers", "remove", "bob", "--yes"]);
    let output = command.env("CLAUDECODE", "1").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--i-am-the-operator"), "{said}");
    assert_eq!(home.peers(), admitted);

    let ended = on_terminal(&admin(&home, &args), &first4(&bob));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(home.peers(), json!({}));
    command.arg("--i-am-the-operator");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there is no peer"), "{said}");
}

#[test]
fn only_the_key_that_was_shown_is_removed() {
    let (home, bob, eve) = (Home::new(1), Home::new(2), Home::new(3));
    home.write_peers(&json!({ "bob": { "key": bob.key } }));
    drop(home.start(NOWHERE, "s").call("list_peers", &json!({})));
    let mut terminal = Terminal::start(&admin(&home, &["peers", "remove", "bob"]));
    terminal.wait_for("to stop: ");
    let edited = json!({ "bob": { "key": eve.key } });
    home.write_peers(&edited);
    terminal.type_in(&first4(&bob));
    terminal.type_in("\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let eves = eve.key.to_string();
    for part in [&eves, "nothing has changed"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    assert_eq!(home.peers(), edited);
}

#[test]
fn listing_makes_no_store_and_takes_no_file_over_and_a_change_names_its_file() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let usual = home.path().join(".config/interlink/peers.json");
    std::fs::create_dir_all(usual.parent().unwrap()).unwrap();
    std::fs::write(&usual, json!({ "bob": { "key": bob.key } }).to_string()).unwrap();
    let run = |args: &[&str]| {
        let mut command = admin(&home, args);
        command
            .env_remove("INTERLINK_PEERS")
            .env_remove("XDG_CONFIG_HOME");
        command.output().unwrap()
    };
    for what in ["pair", "peers"] {
        let listed = run(&[what, "list"]);
        assert_eq!(listed.status.code(), Some(1), "{what}");
        assert!(!home.path().join("state").exists(), "{what}");
    }
    let refused = run(&["peers", "remove", "--yes", "bob"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("--peers"), "{said}");
    let listed = answer(&home, &["peers", "list"]);
    assert_eq!(listed["peers"], json!([]), "nothing was taken over");
}

#[test]
fn looking_at_peers_and_requests_changes_no_file_and_says_what_is_not_in_the_log() {
    let (home, bob, eve) = (Home::new(1), Home::new(2), Home::new(3));
    home.write_peers(&json!({ "bob": { "key": bob.key } }));
    drop(home.start(NOWHERE, "s").call("list_peers", &json!({})));
    let folder = home.path().join("state/interlink/agent");
    let folder = folder.join(home.key.to_string());
    let files = || -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let edited = json!({ "bob": { "key": bob.key }, "eve": { "key": eve.key } });
    for (list, noted) in [(None, false), (Some(&edited), true)] {
        if let Some(list) = list {
            home.write_peers(list);
        }
        for args in [
            &["peers"][..],
            &["peers", "show", "bob"],
            &["pair", "list"],
            &["--json", "peers", "list"],
        ] {
            let output = admin(&home, args).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
            assert_eq!(
                said.contains("peers.json is not what the log has"),
                noted,
                "{said}"
            );
            assert!(!text.contains("eve"), "{text}");
            assert!(files() == before, "{args:?} changed a file");
        }
    }
    assert_eq!(home.peers(), edited);
}

#[test]
fn a_store_of_another_identity_is_refused_by_whatever_name_it_is_given() {
    let (home, bob) = (Home::new(1), Home::new(2));
    home.write_peers(&json!({ "bob": { "key": bob.key } }));
    drop(home.start(NOWHERE, "s").call("list_peers", &json!({})));
    let folder = home.path().join("state/interlink/agent");
    let folder = folder.join(home.key.to_string());
    let link = home.path().join("link.redb");
    std::os::unix::fs::symlink(folder.join("agent.redb"), &link).unwrap();
    for (from, name) in [
        (&folder, "agent.redb"),
        (&folder, "./agent.redb"),
        (&folder, link.to_str().unwrap()),
    ] {
        for args in [&["peers", "list"][..], &["peers", "remove", "--yes", "bob"]] {
            let mut command = admin(&home, args);
            command.current_dir(from).args(["--store", name]);
            command.env("INTERLINK_KEY", bob.path().join("id.key"));
            let output = command.output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{name} {args:?}: {said}");
            assert!(said.contains("the key of another identity"), "{said}");
        }
    }
    let mut command = admin(&home, &["peers", "list", "--json", "--store", "agent.redb"]);
    let own = command.current_dir(&folder).output().unwrap();
    let own: Value = serde_json::from_slice(&own.stdout).unwrap();
    assert_eq!(own["peers"][0]["petname"], "bob");
    // Nor is a store that is named by its name alone in a folder that cannot be looked at.
    let mut command = admin(&home, &["doctor", "--store", "agent.redb"]);
    let output = command.current_dir(&folder).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
}

#[test]
fn lines_are_cut_on_a_terminal_and_whole_elsewhere() {
    let home = Home::new(1);
    let name = "x".repeat(100);
    home.write_peers(&json!({ name.as_str(): { "key": Home::new(2).key } }));
    drop(home.start(NOWHERE, "s").call("list_peers", &json!({})));
    for args in [&["peers", "list"][..], &["log"]] {
        let program = admin(&home, args);
        let whole = admin(&home, args).output().unwrap().stdout;
        let whole = String::from_utf8(whole).unwrap();
        assert!(whole.contains(&name), "{whole}");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec \"$0\" \"$@\" >/dev/tty"])
            .arg(program.get_program())
            .args(program.get_args())
            .env("NO_COLOR", "1");
        for (name, value) in program.get_envs() {
            shell.env(name, value.unwrap());
        }
        let mut terminal = Terminal::start(&shell);
        let shown = terminal.wait_for("..\r\n");
        assert_eq!(terminal.end().code, Some(0));
        // A terminal that does not say how wide it is has 80 columns.
        let widest = shown.lines().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(80), "{shown}");
    }
}

#[test]
fn a_fingerprint_that_nothing_shows_is_told_what_would_do() {
    let home = Home::new(1);
    let unknown = Home::new(2).key.fingerprint().to_string();
    for what in ["block", "unblock", "cancel"] {
        let output = admin(&home, &["pair", what, &unknown]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{what}: {said}");
        for part in ["43 characters", "fingerprint", "pair list"] {
            assert!(said.contains(part), "{what}: {said}");
        }
    }
    let key = Home::new(2).key.to_string();
    assert_eq!(
        answer(&home, &["pair", "block", &key])["changed"],
        json!(true)
    );
    // It is listed by now.
    let heard = answer(&home, &["pair", "unblock", &unknown]);
    assert_eq!(
        (&heard["key"], &heard["changed"]),
        (&json!(key), &json!(true))
    );
}
