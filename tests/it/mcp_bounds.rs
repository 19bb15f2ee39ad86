//! What a host cannot take in is not thrown at it: answers fit, and calls wait for their reader.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host_support::{FakeCodex, THREAD, codex_call};
use crate::http::Bus;
use crate::mcp_support::{Agent, DEADLINE, Home, eventually, friends, initialize};

/// What Codex shows of an answer without cutting it.
const CODEX_BYTES: usize = 10_000;

fn url(bus: &Bus) -> String {
    format!("http://{}", bus.addr)
}

/// A tool's answer as Codex shows it to a model.
fn codex(agent: &mut Agent, tool: &str, arguments: &Value) -> Value {
    let answer = codex_call(agent, tool, arguments, THREAD);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let data = answer["result"]["structuredContent"].clone();
    let bytes = data.to_string().len();
    assert!(bytes <= CODEX_BYTES, "{tool} gives {bytes} bytes");
    data
}

fn unread(bob: &mut Agent, n: u64) {
    eventually("mail", || {
        let inbox = codex(bob, "receive_messages", &json!({ "limit": 1 }));
        (inbox["unread"] == n).then_some(())
    });
}

fn acknowledge(bob: &mut Agent, messages: &[Value]) {
    let receipts: Vec<&Value> = messages.iter().map(|m| &m["receipt"]).collect();
    codex(
        bob,
        "acknowledge_messages",
        &json!({ "messages": receipts }),
    );
}

#[test]
fn mail_comes_in_answers_that_the_host_shows_whole_and_none_is_left_out() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let mut bob = FakeCodex::new().start(&b, &url(&bus));
    codex(&mut bob, "get_my_session_id", &json!({}));
    let sent: Vec<String> = (0..25)
        .map(|n| alice.send("b", THREAD, &format!("{n} {}", "\u{e9}\n\"".repeat(300))))
        .collect();
    unread(&mut bob, 25);
    let (mut read, mut answers) = (vec![], 0);
    while read.len() < sent.len() {
        let inbox = codex(&mut bob, "receive_messages", &json!({ "limit": 100 }));
        let messages = inbox["messages"].as_array().unwrap();
        assert!(!messages.is_empty(), "{inbox}");
        let left = sent.len() - read.len() - messages.len();
        assert_eq!(inbox["remaining"], left, "{inbox}");
        let note = inbox["note"].as_str().unwrap();
        assert_eq!(note.contains("more unread"), left > 0, "{note}");
        for message in messages {
            assert_eq!(message.get("part"), None, "{message}");
            read.push(message["receipt"]["msg_id"].as_str().unwrap().to_owned());
        }
        acknowledge(&mut bob, messages);
        answers += 1;
    }
    assert!(answers > 2, "{answers}");
    assert_eq!(read, sent);
    // What is looked at again fits as well, the newest first.
    let history = codex(
        &mut bob,
        "conversation_history",
        &json!({ "peer": "a", "limit": 25 }),
    );
    let messages = history["messages"].as_array().unwrap();
    assert_eq!(history["left_out"], 25 - messages.len());
    let last = &messages.last().unwrap()["received"]["receipt"]["msg_id"];
    assert_eq!(*last, *sent.last().unwrap());
}

#[test]
fn a_message_that_is_longer_than_an_answer_is_read_in_parts_and_unread_until_then() {
    let bus = Bus::start();
    let (a, b) = friends();
    let mut alice = a.start(&url(&bus), "sa");
    let mut bob = FakeCodex::new().start(&b, &url(&bus));
    codex(&mut bob, "get_my_session_id", &json!({}));
    let text: String = (0..3000).map(|n| format!("line {n}\n")).collect();
    let long = alice.send("b", THREAD, &text);
    let short = alice.send("b", THREAD, "short");
    unread(&mut bob, 2);
    let inbox = codex(&mut bob, "receive_messages", &json!({}));
    assert_eq!(inbox["messages"].as_array().unwrap().len(), 1, "{inbox}");
    assert_eq!(inbox["remaining"], 1);
    let mut message = inbox["messages"][0].clone();
    assert_eq!(message["receipt"]["msg_id"], *long);
    // A look at the history does not take it for read.
    let ask = json!({ "peer": "a", "consume": true });
    let history = codex(&mut bob, "conversation_history", &ask);
    assert_eq!(history["acknowledged"], 1, "{history}");
    let mut read = String::new();
    loop {
        let part = message["part"].clone();
        assert_eq!(part["of"], text.len(), "{part}");
        assert_eq!(part["from"], read.len(), "{part}");
        let content = message["content"].as_str().unwrap();
        let (_, body) = content.split_once(">\n").unwrap();
        let (body, after) = body.rsplit_once("\n</interlink-").unwrap();
        read.push_str(body);
        let Some(more) = part["more"].as_str() else {
            break;
        };
        // What says so stands behind the end marker.
        assert!(after.contains("Cut here"), "{after}");
        assert!(more.contains("message_status"), "{more}");
        let ask = json!({ "msg_id": long, "offset": part["to"] });
        message = codex(&mut bob, "message_status", &ask)["received"].clone();
    }
    assert!(read == text, "{} of {} bytes", read.len(), text.len());
    let inbox = codex(&mut bob, "receive_messages", &json!({}));
    assert_eq!(inbox["unread"], 1, "the long one still is: {inbox}");
    acknowledge(&mut bob, std::slice::from_ref(&inbox["messages"][0]));
    let inbox = codex(&mut bob, "receive_messages", &json!({}));
    assert_eq!(
        (&inbox["unread"], &inbox["remaining"]),
        (&json!(0), &json!(0))
    );
    // Its sender reads it in parts too.
    let status = alice.call("message_status", &json!({ "msg_id": short }));
    assert_eq!(status["sent"]["text"], "short");
}

#[test]
fn lists_fit_into_an_answer_and_say_what_is_left_out() {
    let home = Home::new(1);
    let peers: serde_json::Map<String, Value> = (0..200)
        .map(|n| {
            let key = Home::new(u8::try_from(n + 10).unwrap()).key;
            (format!("peer number {n}"), json!({ "key": key }))
        })
        .collect();
    home.write_peers(&Value::Object(peers));
    let mut agent = FakeCodex::new().start(&home, "http://127.0.0.1:9");
    let listed = codex(&mut agent, "list_peers", &json!({}));
    let shown = listed["peers"].as_array().unwrap().len();
    assert!(shown > 10, "{shown}");
    assert_eq!(listed["left_out"], 200 - shown);
}

#[test]
fn a_host_that_writes_and_does_not_read_is_not_read_on_and_loses_nothing() {
    const CALLS: usize = 20_000;
    let home = Home::new(1);
    let mut child = home
        .command("http://127.0.0.1:9", "s")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let hello = json!({
        "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": initialize("2025-06-18"),
    });
    writeln!(stdin, "{hello}").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    writeln!(
        stdin,
        r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#
    )
    .unwrap();
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let writer = thread::spawn(move || {
        for id in 0..CALLS {
            // Some are withdrawn at once, some are answered by the transport itself.
            let call = match id % 3 {
                0 => json!({ "jsonrpc": "2.0", "id": id, "method": "server/discover" }),
                _ => json!({
                    "jsonrpc": "2.0", "id": id, "method": "tools/call",
                    "params": { "name": "get_my_session_id", "arguments": {} },
                }),
            };
            writeln!(stdin, "{call}").unwrap();
            if id % 100 == 1 {
                let cancel = json!({
                    "jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": { "requestId": id },
                });
                writeln!(stdin, "{cancel}").unwrap();
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
        stdin
    });
    // It stands still before everything is written.
    let (mut last, mut since) = (0, Instant::now());
    let begun = Instant::now();
    while since.elapsed() < Duration::from_secs(2) || last == 0 {
        let now = written.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        assert!(begun.elapsed() < DEADLINE, "it never stands still");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(last < CALLS / 2, "{last} calls were read without a reader");
    let mut answered = BTreeSet::new();
    // Cancelled ones may be answered or not.
    let wanted = CALLS - (0..CALLS).filter(|id| id % 100 == 1).count();
    while answered.len() < wanted {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "the end");
        let value: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = value["id"].as_u64() else {
            continue;
        };
        if id % 100 != 1 {
            assert!(answered.insert(id), "{id} is answered twice");
        }
    }
    drop(writer.join().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
}
