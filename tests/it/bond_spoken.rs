//! Sessions with a spoken code between two channel servers and the relay of `interlink-bus`: wrong
//! codes, processes that die, files that change, progress, caps.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::bond_bus::{Bus, noise, offer, spoken, spoken_with};
use crate::bond_support::{ask, bad, event, good, start};
use crate::mcp_support::{Agent, Home, eventually};

const TOOL: &[(&str, &str)] = &[("INTERLINK_CONSENT", "tool")];

fn state(home: &Home) -> PathBuf {
    let agents = home.path().join("state/interlink/agent");
    agents.join(home.key.to_string())
}

/// The names in the folder of accepted files.
fn incoming(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(state(home).join("incoming"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// Waits until a part of a file is on the disk, under no name that anybody would take for it.
fn part_of(home: &Home) {
    eventually("a part of the file", || {
        let names = incoming(home);
        let len = |name: &String| {
            std::fs::metadata(state(home).join("incoming").join(name)).map_or(0, |meta| meta.len())
        };
        names.iter().any(|name| len(name) > 1 << 20).then_some(())
    });
    let names = incoming(home);
    assert!(names.iter().all(|name| name.starts_with('.')), "{names:?}");
}

#[test]
fn a_wrong_spoken_code_is_told_to_both_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2), Home::new(3)];
    let mut host = start(&homes[0], &bus.url(), TOOL);
    let mut guest = start(&homes[1], &bus.url(), TOOL);
    let (_, opened) = good(&mut host, "bond_connect", &json!({ "spoken": true }));
    let code = opened["session_code"].as_str().unwrap().to_owned();
    let (rest, last) = code.rsplit_once('-').unwrap();
    let other = if last == "acorn" { "almond" } else { "acorn" };
    let misheard = format!("{rest}-{other}");
    good(&mut guest, "bond_join", &json!({ "sessionCode": misheard }));
    for agent in [&mut host, &mut guest] {
        let told = event(agent, "aborted");
        let text = told["text"].as_str().unwrap();
        assert!(
            text.contains("SESSION ABORTED") && text.contains("Nothing was sent"),
            "{text}"
        );
        let (_, status) = good(agent, "bond_status", &json!({}));
        assert_eq!(status["state"], "aborted", "{status}");
        assert_eq!(status["connected"], false);
        assert!(status["words"].is_null(), "{status}");
        bad(
            agent,
            "bond_message",
            &json!({ "content": "SPOKEN-CANARY" }),
        );
        std::fs::write(homes[0].path().join("x.md"), "x").unwrap();
        bad(agent, "bond_send", &json!({ "filepath": "x.md" }));
    }
    // One guess was all: who knows the code comes too late.
    let mut late = start(&homes[2], &bus.url(), TOOL);
    let (failed, text, _) = ask(&mut late, "bond_join", &json!({ "sessionCode": code }));
    if !failed {
        let told = event(&mut late, "aborted");
        panic!("{text} {told}");
    }
    for home in &homes[..2] {
        assert_eq!(incoming(home), [] as [&str; 0]);
        let log = std::fs::read_to_string(state(home).join("audit.log")).unwrap();
        assert!(log.contains("session_aborted"), "{log}");
        for secret in [code.as_str(), &misheard, "CANARY"] {
            assert!(!log.contains(secret), "{secret}: {log}");
        }
    }
}

#[test]
fn a_receiver_that_is_killed_under_way_leaves_no_file_and_the_next_start_no_part() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let (mut host, mut guest) = spoken(&homes, &bus.url());
    let id = offer(
        &mut host,
        &homes[0],
        "big.bin",
        &noise(1, 32 << 20),
        &mut guest,
    );
    let accept = json!({ "name": "bond_accept", "arguments": { "transferId": id } });
    guest.post("tools/call", &accept);
    part_of(&homes[1]);
    guest.kill();
    let left = incoming(&homes[1]);
    assert!(left.iter().all(|name| name.starts_with('.')), "{left:?}");
    assert_eq!(left.len(), 1, "killed too late to prove something");
    let _next = start(&homes[1], &bus.url(), TOOL);
    eventually("the part is gone", || {
        incoming(&homes[1]).is_empty().then_some(())
    });
}

#[test]
fn a_sender_that_is_killed_under_way_leaves_no_part_with_the_receiver() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let (mut host, mut guest) = spoken(&homes, &bus.url());
    let id = offer(
        &mut host,
        &homes[0],
        "big.bin",
        &noise(2, 32 << 20),
        &mut guest,
    );
    let accept = json!({ "name": "bond_accept", "arguments": { "transferId": id } });
    let accepting = guest.post("tools/call", &accept);
    part_of(&homes[1]);
    host.kill();
    if std::env::var_os("INTERLINK_LONG").is_some_and(|v| v == "1") {
        // Two minutes of silence.
        let said = guest.answer_to_within(accepting, std::time::Duration::from_secs(60));
        assert!(said.to_string().contains("on its way"), "{said}");
        let since = std::time::Instant::now();
        let told = loop {
            let (_, _, data) = ask(&mut guest, "bond_wait", &json!({ "timeoutSeconds": 10 }));
            let events = data["events"].as_array().cloned().unwrap_or_default();
            if let Some(told) = events.into_iter().find(|e| e["kind"] == "interrupted") {
                break told;
            }
            assert!(since.elapsed().as_secs() < 150, "{data}");
        };
        assert!(told["text"].as_str().unwrap().contains("silent"), "{told}");
    }
    // The session outlives silence; whoever gives it up keeps nothing of the file.
    good(&mut guest, "bond_end", &json!({}));
    event(&mut guest, "file_failed");
    eventually("the part is gone", || {
        incoming(&homes[1]).is_empty().then_some(())
    });
}

#[test]
fn a_file_that_changed_after_it_was_offered_does_not_leave() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let (mut host, mut guest) = spoken(&homes, &bus.url());
    let content = noise(3, 1 << 20);
    let path = homes[0].path().join("a.bin");
    let change = |at: u64| {
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        let mut byte = [0];
        file.read_exact(&mut byte).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[!byte[0]]).unwrap();
    };
    for way in ["first byte", "last byte", "shorter"] {
        let id = offer(&mut host, &homes[0], "a.bin", &content, &mut guest);
        match way {
            "first byte" => change(0),
            "last byte" => change((1 << 20) - 1),
            _ => std::fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(7)
                .unwrap(),
        }
        let said = bad(&mut guest, "bond_accept", &json!({ "transferId": id }));
        assert!(said.contains("its sender withdrew it"), "{way}: {said}");
        let told = event(&mut host, "file_failed");
        let text = told["text"].as_str().unwrap();
        assert!(
            text.contains("a.bin was not delivered")
                && text.contains("changed after it was offered"),
            "{way}: {text}"
        );
        assert_eq!(incoming(&homes[1]), [] as [&str; 0], "{way}");
    }
    // The session goes on, and so does an honest file.
    let id = offer(&mut host, &homes[0], "a.bin", &content, &mut guest);
    good(&mut guest, "bond_accept", &json!({ "transferId": id }));
    event(&mut host, "file_delivered");
}

fn post(agent: &mut Agent, tool: &str, arguments: &Value, token: &Value) -> u64 {
    let call = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": token } });
    agent.post("tools/call", &call)
}

/// Takes out what was told under a token, and sees to it that it only grew.
fn progress(agent: &mut Agent, token: &Value) -> Vec<(u64, u64, String)> {
    let is = |notice: &Value| {
        notice["method"] == "notifications/progress" && notice["params"]["progressToken"] == *token
    };
    let (told, rest) = std::mem::take(&mut agent.notices).into_iter().partition(is);
    agent.notices = rest;
    let told: Vec<Value> = told;
    let number = |value: &Value| value.as_f64().unwrap() as u64;
    let told: Vec<_> = told
        .iter()
        .map(|notice| {
            let params = &notice["params"];
            let message = params["message"].as_str().unwrap().to_owned();
            (
                number(&params["progress"]),
                number(&params["total"]),
                message,
            )
        })
        .collect();
    assert!(told.windows(2).all(|two| two[0].0 < two[1].0), "{told:?}");
    assert!(
        told.iter().all(|(done, total, _)| done <= total),
        "{told:?}"
    );
    told
}

#[test]
fn a_host_that_asks_hears_how_far_files_are_and_nothing_after_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let (mut host, mut guest) = spoken(&homes, &bus.url());
    let size = 12 << 20;
    let content = noise(4, size);
    std::fs::write(homes[0].path().join("a b.bin"), &content).unwrap();
    let token = json!("offer");
    let offering = post(
        &mut host,
        "bond_send",
        &json!({ "filepath": "a b.bin" }),
        &token,
    );
    host.answer_to(offering);
    assert_eq!(progress(&mut host, &token), [], "an offer is no transfer");
    let id = event(&mut guest, "file_offered")["transfer_id"].clone();

    let sending = std::thread::spawn(move || {
        let (mut tokens, mut delivered) = (0, false);
        let mut told = vec![];
        while !delivered {
            let token = json!(tokens);
            let waiting = post(
                &mut host,
                "bond_wait",
                &json!({ "timeoutSeconds": 20 }),
                &token,
            );
            let said = host.answer_to(waiting);
            let events = &said["result"]["structuredContent"]["events"];
            delivered = events.to_string().contains("file_delivered");
            told.push(progress(&mut host, &token));
            tokens += 1;
            assert!(tokens < 30, "{said}");
        }
        (host, told)
    });
    let token = json!("t\u{e4}ken");
    let taking = post(
        &mut guest,
        "bond_accept",
        &json!({ "transferId": id }),
        &token,
    );
    let said = guest.answer_to(taking);
    assert_eq!(said["result"]["isError"], false, "{said}");
    let size = size as u64;
    let told = progress(&mut guest, &token);
    assert!(told.len() > 1, "{told:?}");
    for (_, total, message) in &told {
        assert_eq!((*total, message.as_str()), (size, "receiving a b.bin"));
    }
    assert_eq!(told.last().map(|told| told.0), Some(size));
    let (mut host, told) = sending.join().unwrap();
    let all: Vec<_> = told.concat();
    assert!(
        all.iter()
            .all(|(_, total, what)| *total == size && what == "sending a b.bin")
    );
    assert_eq!(all.last().map(|told| told.0), Some(size), "{told:?}");
    // Whoever asks for nothing hears nothing, and nothing comes late.
    for agent in [&mut host, &mut guest] {
        good(agent, "bond_status", &json!({}));
        let late = |notice: &&Value| notice["method"] == "notifications/progress";
        assert_eq!(agent.notices.iter().find(late), None);
    }
    let id = offer(&mut host, &homes[0], "b.bin", &content, &mut guest);
    good(&mut guest, "bond_accept", &json!({ "transferId": id }));
    event(&mut host, "file_delivered");
    for agent in [&host, &guest] {
        let any = |notice: &&Value| notice["method"] == "notifications/progress";
        assert_eq!(agent.notices.iter().find(any), None);
    }
}

#[test]
fn whoever_goes_away_while_a_file_comes_is_not_held_up() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let (mut host, mut guest) = spoken(&homes, &bus.url());
    let id = offer(
        &mut host,
        &homes[0],
        "big.bin",
        &noise(5, 32 << 20),
        &mut guest,
    );
    post(
        &mut guest,
        "bond_accept",
        &json!({ "transferId": id }),
        &json!(1),
    );
    part_of(&homes[1]);
    // It does not come any further.
    drop(bus);
    let begun = std::time::Instant::now();
    guest.close_stdin();
    guest.wait();
    let took = begun.elapsed();
    // The library lets go of a call by itself after five seconds, without its answer.
    assert!(took < std::time::Duration::from_millis(4_500), "{took:?}");
    eventually("the part is gone", || {
        incoming(&homes[1]).is_empty().then_some(())
    });
}

/// The most memory that a process had, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// A file of noise as large as is wanted, written in pieces.
fn large(path: &Path, mib: u64) {
    let piece = noise(6, 1 << 20);
    let mut file = std::fs::File::create(path).unwrap();
    for _ in 0..mib {
        file.write_all(&piece).unwrap();
    }
}

#[test]
fn memory_does_not_grow_with_the_file_and_the_cap_is_the_operators() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let cap = |mib| [TOOL[0], ("INTERLINK_BOND_MAX_SPOKEN_FILE_MIB", mib)];
    let mut host = start(&homes[0], &bus.url(), &cap("50"));
    let mut guest = start(&homes[1], &bus.url(), &cap("2"));
    let (_, opened) = good(&mut host, "bond_connect", &json!({ "spoken": true }));
    let code = &opened["session_code"];
    good(&mut guest, "bond_join", &json!({ "sessionCode": code }));
    event(&mut host, "confirmed");
    event(&mut guest, "confirmed");
    large(&homes[0].path().join("large.bin"), 40);
    let before = peak(host.pid());
    let call = json!({ "name": "bond_send", "arguments": { "filepath": "large.bin" } });
    let offering = host.post("tools/call", &call);
    // Every byte of it is looked at, on a machine that has other things to do.
    let said = host.answer_to_within(offering, std::time::Duration::from_secs(180));
    assert_eq!(said["result"]["isError"], false, "{said}");
    let grown = peak(host.pid()) - before;
    assert!(grown < 20 << 10, "{grown} KiB more for a file of 40 MiB");
    // The other side takes no more than its own operator lets it.
    let refused = event(&mut guest, "file_rejected");
    assert!(
        refused["text"].as_str().unwrap().contains("too large"),
        "{refused}"
    );
    event(&mut host, "file_not_taken");
    large(&homes[1].path().join("mine.bin"), 3);
    let said = bad(&mut guest, "bond_send", &json!({ "filepath": "mine.bin" }));
    assert!(said.contains("at most 2097152"), "{said}");
    large(&homes[1].path().join("mine.bin"), 2);
    good(&mut guest, "bond_send", &json!({ "filepath": "mine.bin" }));
}

#[test]
fn the_operator_says_what_kind_of_session_is_opened_and_the_call_may_say_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let home = Home::new(1);
    let parts = |agent: &mut Agent, arguments: Value| {
        let (_, opened) = good(agent, "bond_connect", &arguments);
        let code = opened["session_code"].as_str().unwrap().to_owned();
        good(agent, "bond_end", &json!({}));
        code.split('-').count()
    };
    for (mode, usual) in [(None, 3), (Some("legacy"), 3), (Some("spoken"), 5)] {
        let mut more = TOOL.to_vec();
        more.extend(mode.map(|mode| ("INTERLINK_BOND_MODE", mode)));
        let mut agent = start(&home, &bus.url(), &more);
        assert_eq!(parts(&mut agent, json!({})), usual, "{mode:?}");
        assert_eq!(parts(&mut agent, json!({ "spoken": true })), 5, "{mode:?}");
        assert_eq!(parts(&mut agent, json!({ "spoken": false })), 3, "{mode:?}");
    }
}

#[test]
fn files_of_a_session_are_on_record_each_with_its_own_hash() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::start(dir.path());
    let homes = [Home::new(1), Home::new(2)];
    let (mut host, mut guest) = spoken_with(&homes, &bus.url(), TOOL);
    let contents = [noise(7, 1000), noise(8, 2000)];
    let ids: Vec<Value> = ["a.bin", "b.bin"]
        .iter()
        .zip(&contents)
        .map(|(name, content)| offer(&mut host, &homes[0], name, content, &mut guest))
        .collect();
    // In another order than they were offered.
    for id in ids.iter().rev() {
        good(&mut guest, "bond_accept", &json!({ "transferId": id }));
        event(&mut host, "file_delivered");
    }
    good(&mut host, "bond_end", &json!({}));
    let sent = eventually("both are on record", || {
        let log = std::fs::read_to_string(state(&homes[0]).join("audit.log")).ok()?;
        let lines = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let sent: Vec<String> = lines
            .filter(|line| line["tool"] == "sendFile")
            .map(|line| line.to_string())
            .collect();
        (sent.len() >= 2).then_some(sent)
    });
    for (name, content) in ["a.bin", "b.bin"].iter().zip(&contents) {
        let hash = data_encoding::HEXLOWER.encode(&interlink::crypto::hash::sha256(content));
        let of: Vec<&String> = sent.iter().filter(|line| line.contains(name)).collect();
        assert!(
            !of.is_empty() && of.iter().all(|line| line.contains(&hash)),
            "{of:?}"
        );
    }
}
