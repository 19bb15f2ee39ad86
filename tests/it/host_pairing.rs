//! News of pairing wakes a host by every way that mail does; and whose words count when the host, its
//! hooks and the command line name the session.

use std::io::Write as _;
use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};

use crate::admin_peers::answer as admin_answer;
use crate::host_support::{
    FakeCodex, FakeSocket, THREAD, bind, channel_notices, codex_call, listen, notice_id, woken,
};
use crate::http::Bus;
use crate::mcp_discover::announce;
use crate::mcp_pairing::{agreeable, announced, stranger_knocks};
use crate::mcp_support::{Agent, Home, eventually, friends};

/// What strangers call themselves here: no notice may have a word of it.
const NAME: &str = "OBEY ME";

fn url(bus: &Bus) -> String {
    format!("http://{}", bus.addr)
}

/// Waits until so many strangers wait for the user.
fn asking(home: &Home, n: usize) {
    eventually("every request", || {
        let list = admin_answer(home, &["pair", "list"]);
        (list["inbound"].as_array().unwrap().len() == n).then_some(())
    });
}

/// The id of a notice that speaks of pairing, and of nothing else that is not ours.
fn of_pairing(text: &str) -> String {
    assert!(text.contains("list_pair_requests"), "{text}");
    assert!(!text.contains(NAME), "{text}");
    notice_id(text)
}

#[test]
fn news_of_pairing_comes_through_the_socket_once() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let socket = FakeSocket::start();
    let mut command = b.command(&url(&bus), "unused");
    socket.environment(&mut command);
    let mut bob = Agent::start(command);
    bind(&mut bob, "c1");
    // An answer from its store: the store is there.
    bob.inbox();
    for from in 20..24 {
        stranger_knocks(&bus, from, &b, "c1", NAME, "s");
    }
    asking(&b, 4);
    let frame = socket.frame(1);
    assert_eq!(frame[1]["session_id"], "c1");
    let id = of_pairing(frame[1]["message"]["content"].as_str().unwrap());
    // What comes later joins it.
    stranger_knocks(&bus, 24, &b, "c1", NAME, "s");
    asking(&b, 5);
    alice.send("b", "c1", "hello");
    bob.inbox_of(1);
    assert_eq!(socket.count(), 1);
    assert!(channel_notices(&mut bob).is_empty());
    // A look at the list follows it up, with what else it spoke for; then there is a new one.
    let mail = bob.call("receive_messages", &json!({ "notification_id": id }));
    bob.acknowledge(mail["messages"].as_array().unwrap());
    bob.call("list_pair_requests", &json!({}));
    stranger_knocks(&bus, 25, &b, "c1", NAME, "s");
    let frame = socket.frame(2);
    let next = of_pairing(frame[1]["message"]["content"].as_str().unwrap());
    assert_ne!(next, id);
    assert_eq!(socket.count(), 2);
}

#[test]
fn news_of_pairing_comes_through_the_codex_queue_once() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let codex = FakeCodex::new();
    let mut bob = codex.start(&b, &url(&bus));
    codex_call(&mut bob, "receive_messages", &json!({}), THREAD);
    for from in 20..24 {
        stranger_knocks(&bus, from, &b, THREAD, NAME, "s");
    }
    asking(&b, 4);
    let call = eventually("a call of codex", || codex.calls().into_iter().next());
    assert_eq!(call[..4], ["queue", "--thread", THREAD, "--message"]);
    let id = of_pairing(&call[4]);
    alice.send("b", THREAD, "hello");
    let mail = bob.inbox_of(1);
    assert_eq!(codex.calls().len(), 1);
    bob.call("receive_messages", &json!({ "notification_id": id }));
    bob.acknowledge(&mail);
    bob.call("list_pair_requests", &json!({}));
    stranger_knocks(&bus, 24, &b, THREAD, NAME, "s");
    let call = eventually("the next call", || codex.calls().into_iter().nth(1));
    assert_ne!(of_pairing(&call[4]), id);
    assert_eq!(codex.calls().len(), 2);
}

#[test]
fn news_of_pairing_wakes_the_listener_once() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    bob.inbox();
    let listener = listen(&b, &url(&bus), "sb");
    stranger_knocks(&bus, 20, &b, "sb", NAME, "s");
    let id = of_pairing(&woken(listener));
    // The next one is not woken by it again: it is there for what comes after it.
    let listener = listen(&b, &url(&bus), "sb");
    stranger_knocks(&bus, 21, &b, "sb", NAME, "s");
    asking(&b, 2);
    bob.call("receive_messages", &json!({ "notification_id": id }));
    bob.call("list_pair_requests", &json!({}));
    alice.send("b", "sb", "hello");
    let text = woken(listener);
    assert_ne!(notice_id(&text), id);
    assert!(text.contains("1 message waiting"), "{text}");
}

#[test]
fn news_of_pairing_that_one_way_lost_comes_by_the_next_each_once() {
    let bus = Bus::start();
    let b = Home::new(0x0b);
    let socket = FakeSocket::start();
    let mut command = b.command(&url(&bus), "sb");
    socket.environment(&mut command);
    command
        .env("INTERLINK_CHANNELS", "1")
        .args(["--notice-patience", "1500ms"]);
    let mut bob = Agent::start(command);
    bob.inbox();
    let listener = listen(&b, &url(&bus), "sb");
    stranger_knocks(&bus, 20, &b, "sb", NAME, "s");
    let first = eventually("the channel", || {
        channel_notices(&mut bob).into_iter().next()
    });
    let id = of_pairing(first["params"]["content"].as_str().unwrap());
    let frame = socket.frame(1);
    let text = frame[1]["message"]["content"].as_str().unwrap();
    assert_eq!(of_pairing(text), id);
    assert_eq!(of_pairing(&woken(listener)), id);
    assert_eq!((channel_notices(&mut bob).len(), socket.count()), (1, 1));
}

#[test]
fn a_look_without_the_notices_id_shows_it_and_a_lost_one_can_be_given_up() {
    let bus = Bus::start();
    let b = Home::new(0x0b);
    let mut command = b.command(&url(&bus), "sb");
    command.env("INTERLINK_CHANNELS", "1");
    let mut bob = Agent::start(command);
    bob.inbox();
    stranger_knocks(&bus, 20, &b, "sb", NAME, "s");
    let notice = |bob: &mut Agent, n: usize| {
        let found = eventually("a notice", || channel_notices(bob).into_iter().nth(n));
        of_pairing(found["params"]["content"].as_str().unwrap())
    };
    let id = notice(&mut bob, 0);
    let shown = eventually("its state", || {
        let looked = bob.call("receive_messages", &json!({}));
        let notice = looked["notice"].clone();
        (notice["state"] == "notification_sent").then_some(looked)
    });
    assert_eq!(shown["notice"]["notification_id"], *id);
    let note = shown["note"].as_str().unwrap();
    assert!(note.contains("list_pair_requests"), "{note}");
    // Another id retires nothing; looking takes nothing away.
    let other = json!({ "notification_id": "00000000" });
    let looked = bob.call("receive_messages", &other);
    assert_eq!(looked["notice"]["notification_id"], *id);
    // Given up, it is not shown any more, and what is new is told anew.
    let reset = json!({ "reset_notification": true });
    let looked = bob.call("receive_messages", &reset);
    assert_eq!(looked.get("notice"), None, "{looked}");
    stranger_knocks(&bus, 21, &b, "sb", NAME, "s");
    assert_ne!(notice(&mut bob, 1), id);
    let list = bob.call("list_pair_requests", &json!({}));
    assert_eq!(list["news"].as_array().unwrap().len(), 2, "{list}");
    let looked = bob.call("receive_messages", &json!({}));
    assert_eq!(looked.get("notice"), None, "{looked}");
}

#[test]
fn a_request_goes_to_a_session_that_runs_before_one_that_was_heard_of() {
    let bus = Bus::start();
    let (a, b) = (Home::new(0x0a), Home::new(0x0b));
    let ten_minutes_ago = crate::mcp_discover::now().minus(600_000);
    // It comes first by every other order.
    announce(&bus, 0x0b, "a-sleeper", "bob", ten_minutes_ago);
    let mut command = b.command(&url(&bus), "sb");
    command.args(["--name", "bob"]);
    let mut bob = Agent::start(command);
    bob.inbox();
    announced(&bus, "sb");
    announce(&bus, 0x0b, "b-sleeper", "bob", ten_minutes_ago);
    let mut alice = Agent::start_with_user(a.command(&url(&bus), "sa"), agreeable());
    let asked = alice.call("request_pair", &json!({ "target": "bob" }));
    assert_eq!(asked["session"], "sb", "{asked}");
    asking(&b, 1);
    let list = bob.call("list_pair_requests", &json!({}));
    assert_eq!(list["inbound"][0]["key"], json!(a.key));
}

/// Runs a command of the channel server as a hook does, with what the hook says.
fn as_hook(home: &Home, url: &str, session: Option<&str>, args: &[&str], says: &Value) -> Child {
    let mut command = home.command(url, "unused");
    let key = home.path().join("id.key");
    // The session of the command line is the test's.
    let mut plain = std::process::Command::new(command.get_program());
    plain
        .env_clear()
        .envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .current_dir(home.path())
        .args(args)
        .args(["--url", url])
        .arg("--key")
        .arg(key);
    command = plain;
    if let Some(session) = session {
        command.args(["--session", session]);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever needs no word of the hook does not read it.
    let _ = writeln!(child.stdin.take().unwrap(), "{says}");
    child
}

fn ended(mut child: Child) -> Output {
    eventually("its end", || child.try_wait().unwrap());
    child.wait_with_output().unwrap()
}

#[test]
fn the_command_lines_session_is_the_hooks_and_the_servers_and_beats_what_the_host_says() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let mut command = b.command(&url(&bus), "named");
    command.env("CLAUDE_CODE_SESSION_ID", "hosts");
    let mut bob = Agent::start(command);
    let me = bob.call("get_my_session_id", &json!({}));
    assert_eq!(me["session_id"], "named");
    alice.send("b", "named", "hello");
    bob.inbox_of(1);
    let says = json!({ "session_id": "hosts", "stop_hook_active": false });
    let stop = |session| {
        let out = ended(as_hook(&b, &url(&bus), session, &["hook", "stop"], &says)).stdout;
        String::from_utf8(out).unwrap()
    };
    let held = stop(Some("named"));
    assert!(held.contains("\"block\""), "{held}");
    assert_eq!(stop(None), "", "the host's own session has no mail");
    // So does the listener: mail for the named session wakes it.
    let waiting = as_hook(&b, &url(&bus), Some("named"), &["wait"], &says);
    let output = ended(waiting);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("1 message waiting"), "{text}");
    // Without it, what the hook says beats the environment.
    alice.send("b", "hosts", "to the host's");
    let mut other = b.start(&url(&bus), "hosts");
    other.inbox_of(1);
    let waiting = as_hook(&b, &url(&bus), None, &["wait"], &says);
    assert_eq!(ended(waiting).status.code(), Some(2));
}

#[test]
fn the_listener_of_last_resort_is_never_renewed() {
    let bus = Bus::start();
    let (a, b) = friends();
    let (mut alice, mut bob) = (a.start(&url(&bus), "sa"), b.start(&url(&bus), "sb"));
    bob.inbox();
    let says = json!({});
    let renew = ["--renew-after-secs", "1"];
    let fallback = [&["wait", "--fallback"], &renew[..]].concat();
    let mut last = as_hook(&b, &url(&bus), Some("sb"), &fallback, &says);
    // Two others come and go in the meantime.
    for _ in 0..2 {
        let plain = [&["wait"], &renew[..]].concat();
        let output = ended(as_hook(&b, &url(&bus), Some("other"), &plain, &says));
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("renewed"), "{text}");
    }
    assert!(last.try_wait().unwrap().is_none(), "it listens on");
    alice.send("b", "sb", "hello");
    let output = ended(last);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("1 message waiting"), "{text}");
}
