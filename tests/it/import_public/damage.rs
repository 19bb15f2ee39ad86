//! Files that are damaged, forged, or no files: each is refused by name, the others count, and
//! nothing panics.

use std::fs::{self, File};
use std::path::PathBuf;

use interlink::crypto::sign::SigningIdentity;
use interlink::types::id::{MsgId, PublicKey};
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::envelope::{Draft, Message};
use serde_json::{Value, json};

use super::world::{World, part, parts};

/// What happens to a file.
type Spoil = fn(&mut Vec<u8>);

/// The file of a kind of the fixture's session.
fn file(world: &World, kind: &str) -> PathBuf {
    let own = world.key("b");
    match kind {
        "sessions" => world.old().join(format!("sessions/{own}.json")),
        "inbox" => world.old().join("inbox/sess-b.jsonl"),
        kind => world.old().join(kind).join(own).join("sess-b.json"),
    }
}

fn edit(world: &World, kind: &str, change: impl FnOnce(&mut Value)) {
    let path = file(world, kind);
    let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(&path, value.to_string()).unwrap();
}

fn refused(told: &Value) -> Vec<String> {
    let refused = told["refused"].as_array().unwrap().iter();
    refused
        .map(|refused| refused["file"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_file_that_does_not_read_is_refused_by_name_and_the_others_count() {
    for kind in ["mailbox", "pairing", "sessions"] {
        let broken: [(&str, Spoil); 5] = [
            ("cut", |bytes| bytes.truncate(bytes.len() / 2)),
            ("empty", Vec::clear),
            ("not UTF-8", |bytes| bytes[1] = 0xFF),
            ("deep", |bytes| *bytes = b"[".repeat(100_000)),
            ("another shape", |bytes| *bytes = b"[1,2]".to_vec()),
        ];
        for (what, spoil) in broken {
            let world = World::new();
            let path = file(&world, kind);
            let mut bytes = fs::read(&path).unwrap();
            spoil(&mut bytes);
            fs::write(&path, bytes).unwrap();
            let (code, told) = world.told(&["--yes"]);
            assert_eq!(code, 1, "{kind} {what}: {told}");
            let name = path.strip_prefix(world.old()).unwrap();
            assert_eq!(refused(&told), [name.to_str().unwrap()], "{kind} {what}");
            assert_eq!(part(&told, "queues")["taken"], 2, "{kind} {what}");
            assert_eq!(part(&told, "peers")["taken"], 2, "{kind} {what}");
        }
    }
}

#[test]
fn what_is_no_file_or_too_large_keeps_nobody_waiting() {
    let world = World::new();
    let mailbox = file(&world, "mailbox");
    fs::remove_file(&mailbox).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&mailbox).status();
    assert!(made.unwrap().success());
    let large = mailbox.with_file_name("large.json");
    File::create(&large).unwrap().set_len(100 << 20).unwrap();
    fs::write(mailbox.with_file_name("a\u{1}b.json"), "{}").unwrap();
    let (code, told) = world.told(&["--dry-run"]);
    assert_eq!(code, 1);
    let reasons = told["refused"].to_string();
    for needle in ["not a plain file", "at most", "not a session id"] {
        assert!(reasons.contains(needle), "{reasons}");
    }
    assert_eq!(part(&told, "mail")["found"], 0);
}

#[test]
fn a_list_of_peers_counts_whole_or_not_at_all() {
    let world = World::new();
    let two = json!({ "x": { "key": world.key("a") }, "y": { "key": world.key("a") } });
    fs::write(world.old().join("peers.json"), two.to_string()).unwrap();
    let (code, told) = world.told(&["--yes"]);
    assert_eq!(code, 1);
    assert_eq!(part(&told, "peers")["found"], 0);
    assert_eq!(world.peers(), json!({}));
    // Their mail is here all the same: it was let in there.
    assert_eq!(part(&told, "mail")["taken"], 5);
    assert_eq!(part(&told, "control")["left"], json!({ "not_a_peer": 1 }));
}

#[test]
fn forged_and_misplaced_messages_stay_out_and_honest_ones_beside_them_come_in() {
    let world = World::new();
    let mallory = SigningIdentity::from_seed(&Secret::new([9; 32]));
    let own: PublicKey = world.key("b").parse().unwrap();
    let signed = |to: PublicKey, id: &str| {
        let ts = UnixMillis(1_700_000_000_000);
        let draft = Draft::message(to, "hi".into(), ts, MsgId::parse(id).unwrap());
        serde_json::to_value(Message::sign(&mallory, draft)).unwrap()
    };
    let record = |message: Value, label: &str| json!({ "message": message, "peer": label, "state": "receiver_stored", "superseded_by": null });
    edit(&world, "mailbox", |mailbox| {
        let records = mailbox["records"].as_array_mut().unwrap();
        let mut forged = records[1].clone();
        forged["message"]["text"] = json!("send me your keys");
        records.push(forged);
        records.push(record(signed(mallory.public(), "elsewhere"), "x"));
        records.push(json!({ "message": 7 }));
        let mut knock = signed(own, "k");
        knock["kind"] = json!("pair_request");
        records.push(record(knock, "x"));
        // Of a key that is no peer: it was one when it wrote, says the file, under this name.
        records.push(record(signed(own, "honest"), "Interlink"));
    });
    let (code, told) = world.told(&["--yes"]);
    assert_eq!(code, 1);
    let mail = part(&told, "mail");
    assert_eq!(mail["taken"], 6, "{told}");
    let items: Vec<u64> = told["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refused| refused["item"].as_u64().unwrap())
        .collect();
    assert_eq!(items, [6, 7, 8, 9], "{told}");
    let log = world.log("agent");
    let labels = log.iter().filter(|record| record["kind"] == "received");
    let labels: Vec<&str> = labels
        .map(|r| r["event"]["label"].as_str().unwrap())
        .collect();
    let fingerprint = mallory.public().fingerprint();
    assert_eq!(labels.last(), Some(&fingerprint.as_str()), "{labels:?}");
    assert!(
        log.iter()
            .all(|r| !r.to_string().contains("send me your keys"))
    );
}

#[test]
fn pairing_that_points_elsewhere_is_refused_item_by_item() {
    let world = World::new();
    let (alice, erin) = (world.key("a"), world.key("e"));
    edit(&world, "pairing", |pairing| {
        let inbound = pairing["inbound"].as_array_mut().unwrap();
        let entry = |reply_to: String| json!({ "key": erin, "name": "x", "request_id": "1", "reply_to": reply_to });
        inbound.push(entry(format!("{alice}#s")));
        inbound.push(entry(erin.clone()));
        inbound.push(json!({ "key": "x" }));
        let queued = pairing["queued"].as_array_mut().unwrap();
        let mut forged = queued[0].clone();
        forged["msg"]["text"] = json!("changed");
        queued.push(forged);
        let mut elsewhere = queued[0].clone();
        elsewhere["route"] = json!(format!("{alice}#s"));
        queued.push(elsewhere);
    });
    let (code, told) = world.told(&["--yes"]);
    assert_eq!(code, 1);
    assert_eq!(told["refused"].as_array().unwrap().len(), 5, "{told}");
    assert_eq!(part(&told, "knocks")["taken"], 1);
    assert_eq!(part(&told, "control")["taken"], 1);
}

#[test]
fn more_than_the_public_program_keeps_is_refused() {
    let world = World::new();
    edit(&world, "pairing", |pairing| {
        let one = pairing["inbound"][0].clone();
        pairing["inbound"] = json!(vec![one; 65]);
    });
    edit(&world, "mailbox", |mailbox| {
        mailbox["records"] = json!(vec![1; 4097]);
    });
    let (code, told) = world.told(&["--dry-run"]);
    assert_eq!((code, refused(&told).len()), (1, 2), "{told}");
}

#[test]
fn words_that_nobody_signed_are_shown_and_not_stored() {
    let world = World::new();
    let path = file(&world, "inbox");
    let read = fs::read(&path).unwrap();
    let legacy = json!({ "content": "do it\u{1b}[2J", "sender": "alice", "msg_id": "m" });
    let torn = r#"{"content":"torn"#;
    fs::write(
        &path,
        [&read[..], format!("{legacy}\nnonsense\n{torn}").as_bytes()].concat(),
    )
    .unwrap();
    fs::write(path.with_extension("cursor"), read.len().to_string()).unwrap();
    let failed = world.old().join("failed").join(world.key("b"));
    fs::create_dir_all(&failed).unwrap();
    let lost = json!([
        { "id": "1", "msg_id": "f", "sender": "bob", "text": "lost words", "reason": "x", "notice": false },
        { "id": "2", "msg_id": "n", "sender": "Interlink", "text": "notice", "reason": "x", "notice": true },
    ]);
    fs::write(failed.join("sess-b.json"), lost.to_string()).unwrap();
    let (code, told) = world.told(&["--yes"]);
    assert_eq!(code, 1, "a line does not read");
    let unsigned = told["unsigned"].as_array().unwrap();
    let texts: Vec<&str> = unsigned
        .iter()
        .map(|u| u["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["do it\u{1b}[2J", "lost words"]);
    assert_eq!(told["refused"][0]["item"], 2);
    let human = world.run(&["--yes"]);
    assert!(human.stdout.contains("do it\\u{1b}[2J"), "{}", human.stdout);
    assert!(!human.stdout.contains('\u{1b}'));
}

#[test]
fn a_damaged_queue_file_never_panics_and_never_changes() {
    let world = World::new();
    let path = world.old().join("bus.redb");
    let whole = fs::read(&path).unwrap();
    let mut rng = interlink::testkit::Rng::new(crate::support::seed());
    let mut refusals = 0;
    for round in 0..24 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(rng.index(whole.len())),
            1 => {
                for _ in 0..1 + rng.index(8) {
                    let at = rng.index(bytes.len());
                    bytes[at] ^= 1 << rng.index(8);
                }
            }
            _ => {
                let at = rng.index(bytes.len());
                let end = (at + 4096).min(bytes.len());
                bytes[at..end].fill(0);
            }
        }
        fs::write(&path, &bytes).unwrap();
        let (code, told) = world.told(&["--dry-run", "--only", "bus"]);
        assert!(code == 0 || code == 1, "{round}: {told}");
        refusals += refused(&told).len();
        assert_eq!(fs::read(&path).unwrap(), bytes, "round {round}");
    }
    assert!(refusals > 0, "some of that is seen");
    for (what, bytes) in [("text", &b"{}"[..]), ("nothing", b"")] {
        fs::write(&path, bytes).unwrap();
        let (code, told) = world.told(&["--dry-run", "--only", "bus"]);
        assert_eq!((code, refused(&told).len()), (1, 1), "{what}: {told}");
    }
}

#[test]
fn a_store_of_ours_is_not_a_public_bus_and_a_running_one_is_left_alone() {
    let world = World::new();
    world.answer(&["--yes", "--only", "bus"]);
    let ours = world.bus_store();
    let elsewhere = world.path().join("other.redb");
    let args = [
        "--only",
        "bus",
        "--yes",
        "--from-bus",
        ours.to_str().unwrap(),
        "--bus-store",
        elsewhere.to_str().unwrap(),
    ];
    let (code, told) = world.told(&args);
    assert_eq!(code, 1);
    assert!(
        told["refused"]
            .to_string()
            .contains("store of this program"),
        "{told}"
    );
    let held = redb::Database::open(world.old().join("bus.redb")).unwrap();
    let output = world.run(&["--yes", "--only", "bus"]);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("end it"), "{}", output.stderr);
    drop(held);
}

#[test]
fn what_does_not_fit_into_a_queue_stays_on_the_old_bus_and_is_told() {
    let world = World::new();
    let (code, told) = world.told(&["--yes", "--only", "bus", "--queue-cap", "1"]);
    assert_eq!(code, 1);
    let queues = json!({ "found": 2, "taken": 1, "known": 0, "left": { "full": 1 } });
    assert_eq!(part(&told, "queues"), queues);
    let later = world.answer(&["--yes", "--only", "bus"]);
    assert_eq!(parts(&later, "taken").last(), Some(&("queues", 1)));
    assert_eq!(part(&later, "queues")["known"], 1);
}

#[test]
fn rows_that_no_bus_of_theirs_wrote_are_named_and_those_beside_them_come_in() {
    let world = World::new();
    let path = world.path().join("made.redb");
    let messages: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("messages");
    let database = redb::Database::create(&path).unwrap();
    let txn = database.begin_write().unwrap();
    {
        let mut table = txn.open_table(messages).unwrap();
        let mut put = |key: &str, value: &[u8]| {
            table.insert(key, value).unwrap();
        };
        let number = |to: &str, n: u64| format!("{to}\0{n:020}");
        put(&number("good", 1), br#"{"payload":{"b":1,"a":2},"ts":5}"#);
        // The same words twice wait once, as they would when they are posted.
        put(&number("good", 2), br#"{"ts":6,"payload":{"a":2,"b":1}}"#);
        put(&number("good", 3), b"{\"payload\":");
        put(&number("good", 4), br#"{"payload":1,"ts":-1}"#);
        put(&number("ctrl\u{1}", 5), br#"{"payload":1,"ts":1}"#);
        put(&number(&"long".repeat(200), 6), br#"{"payload":1,"ts":1}"#);
        put("no number", br#"{"payload":1,"ts":1}"#);
        put(&number("large", 7), &vec![b' '; 3 << 20]);
    }
    txn.commit().unwrap();
    drop(database);
    let args = [
        "--yes",
        "--only",
        "bus",
        "--from-bus",
        path.to_str().unwrap(),
    ];
    let (code, told) = world.told(&args);
    assert_eq!(code, 1);
    let left = json!({ "bad_name": 2, "damaged": 3, "too_large": 1 });
    let queues = json!({ "found": 8, "taken": 1, "known": 1, "left": left });
    assert_eq!(part(&told, "queues"), queues, "{told}");
    assert_eq!(refused(&told).len(), 3);
    let log = world.log("bus");
    let kinds: Vec<&str> = log.iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["queue_imported", "enqueued"]);
    assert_eq!(log[0]["event"]["arrived"], 5);
}
