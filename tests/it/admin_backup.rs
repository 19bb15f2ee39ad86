//! `interlink-admin backup`, `restore`, `export`, `import`, `migrate`, `rebuild`, `completions`,
//! `man`: whole stores, from files and beside a running bus.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use interlink::domain::Domain;
use interlink::domain::decide::agent::Agent;
use interlink::domain::decide::bus::Bus;
use interlink::event::kind::StoreKind;
use interlink::store::{CopyError, Cut, Location, Mode, OpenOptions, Reader, Store, build};
use interlink::testkit::sample;
use interlink::types::seq::Seq;
use serde_json::Value;

use super::admin::{
    admin, agent_path, agent_store, assert_tame, bus_path, bus_store, enqueue, fill_agent,
    json as answer, ok, run, text,
};
use super::damage::{Kept, parts_of, write};
use super::support::{clock, long};

/// A bus and an identity with something in them, closed.
fn two_stores(dir: &Path) {
    let bus = bus_store(dir);
    for n in 0..6 {
        enqueue(&bus, "zoe\u{202e}", &format!("\"secret {n}\""));
    }
    bus.close();
    let agent = agent_store(dir);
    fill_agent(&agent);
    agent.close();
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The arguments with `--store` before them.
fn at<'a>(store: &'a Path, args: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["--store", path_text(store)];
    all.extend(args);
    all
}

/// Runs a command that must end with this code; gives what it said.
fn fails(dir: &Path, code: i32, args: &[&str]) -> String {
    let output = run(dir, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert_tame(&said);
    said
}

fn compact<D: Domain>(path: &Path) {
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    let store = Store::<D>::open(options, clock(), None).unwrap();
    let until = Seq(store.head().0 / 2);
    let cut = Cut { until, ..Cut::ALL };
    let done = store.compact(cut, Duration::from_secs(30)).unwrap();
    assert!(done.wait().unwrap().records > 0);
    store.close();
}

#[test]
fn a_backup_is_proven_private_and_holds_everything() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    for store in [bus_path(dir.path()), agent_path(dir.path())] {
        let copy = dir.path().join("copy.redb");
        let told = ok(dir.path(), &at(&store, &["backup", path_text(&copy)]));
        assert!(
            told.starts_with("backed up: ") && told.contains("proven"),
            "{told}"
        );
        assert_eq!(parts_of(&copy).unwrap(), parts_of(&store).unwrap());
        assert_eq!(
            fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
            0o600
        );
        // A file that is there stays.
        let before = fs::read(&copy).unwrap();
        let said = fails(dir.path(), 2, &at(&store, &["backup", path_text(&copy)]));
        assert!(said.contains("exists"), "{said}");
        assert_eq!(fs::read(&copy).unwrap(), before);
        fs::remove_file(&copy).unwrap();
        let told = answer(dir.path(), &at(&store, &["backup", "copy.redb"]));
        assert_eq!(told["ok"], true);
        assert_eq!(told["backup"], path_text(&copy));
        assert!(told["head"].as_u64() > Some(0) && told["backup_bytes"].as_u64() > Some(0));
        fs::remove_file(&copy).unwrap();
    }
    let said = fails(dir.path(), 2, &["backup", "copy.redb"]);
    assert!(said.contains("--store"), "{said}");
}

#[test]
fn a_store_that_its_sessions_use_is_backed_up_and_not_restored_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = agent_store(dir.path());
    fill_agent(&store);
    let (path, copy) = (agent_path(dir.path()), dir.path().join("copy.redb"));
    ok(dir.path(), &at(&path, &["backup", "copy.redb"]));
    let head = Reader::open(&copy, Mode::Exclusive).unwrap();
    assert_eq!(head.snapshot().unwrap().head().unwrap(), store.head());
    drop(head);
    let said = fails(
        dir.path(),
        4,
        &at(&path, &["restore", "copy.redb", "--yes"]),
    );
    assert!(said.contains("in use"), "{said}");
    for command in ["rebuild", "repair"] {
        let args: &[&str] = match command {
            "repair" => &["repair", "--out", "new.redb"],
            _ => &["rebuild", "--yes"],
        };
        fails(dir.path(), 4, &at(&path, args));
    }
    store.close();
    ok(dir.path(), &at(&path, &["restore", "copy.redb", "--yes"]));
}

#[test]
fn a_restored_store_is_the_backup_and_the_old_one_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    for (path, words) in [
        (bus_path(dir.path()), "handed out once more"),
        (agent_path(dir.path()), "peers list"),
    ] {
        let then = parts_of(&path).unwrap();
        let copy = dir.path().join("copy.redb");
        ok(dir.path(), &at(&path, &["backup", "copy.redb"]));
        let agent = path == agent_path(dir.path());
        if agent {
            let store = agent_store(dir.path());
            fill_agent_more(&store);
            store.close();
        } else {
            let store = bus_store(dir.path());
            enqueue(&store, "later", "1");
            store.close();
        }
        let now = parts_of(&path).unwrap();
        assert_ne!(then, now);
        // Nobody can be asked, so nothing happens, and what it would mean is said.
        let said = fails(dir.path(), 2, &at(&path, &["restore", "copy.redb"]));
        assert!(said.contains(words) && said.contains("say --yes"), "{said}");
        assert_eq!(parts_of(&path).unwrap(), now);
        // A coding agent's shell does not bring back who was removed.
        let output = admin(dir.path())
            .args(at(&path, &["restore", "copy.redb", "--yes"]))
            .env("CLAUDECODE", "1")
            .output()
            .unwrap();
        assert_eq!(output.status.success(), !agent, "{}", text(&output.stderr));
        if agent {
            assert_eq!(parts_of(&path).unwrap(), now);
            ok(dir.path(), &at(&path, &["restore", "copy.redb", "--yes"]));
        }
        assert_eq!(parts_of(&path).unwrap(), then);
        let kept = PathBuf::from(format!("{}.before-restore-1", path.display()));
        assert_eq!(parts_of(&kept).unwrap(), now);
        // Once more: the first one that was kept stays.
        let told = answer(dir.path(), &at(&path, &["restore", "copy.redb", "--yes"]));
        assert!(
            told["kept"]
                .as_str()
                .unwrap()
                .ends_with(".before-restore-2")
        );
        assert_eq!(parts_of(&kept).unwrap(), now);
        ok(dir.path(), &at(&path, &["verify"]));
        fs::remove_file(copy).unwrap();
    }
}

fn fill_agent_more(store: &Store<Agent>) {
    use interlink::domain::decide::agent::AgentCommand;
    let command = AgentCommand::ForgetReplay {
        before: interlink::types::time::UnixMillis(u64::MAX),
        now: interlink::types::time::UnixMillis(1),
    };
    store.submit(command).unwrap().wait().unwrap();
}

#[test]
fn what_cannot_be_restored_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    let (bus, agent) = (bus_path(dir.path()), agent_path(dir.path()));
    let before = fs::read(&bus).unwrap();
    ok(dir.path(), &at(&agent, &["backup", "agent-copy"]));
    fails(
        dir.path(),
        7,
        &at(&bus, &["restore", "agent-copy", "--yes"]),
    );
    fs::write(dir.path().join("junk"), b"junk".repeat(5000)).unwrap();
    fails(dir.path(), 6, &at(&bus, &["restore", "junk", "--yes"]));
    // A backup that is not what its log says.
    let mut parts = parts_of(&bus).unwrap();
    parts.retain(|part| !matches!(part, Kept::Record(3, _)));
    write(&parts, StoreKind::Bus, &dir.path().join("torn.redb"));
    let said = fails(dir.path(), 8, &at(&bus, &["restore", "torn.redb", "--yes"]));
    assert!(said.contains("record 3 is missing"), "{said}");
    let torn = dir.path().join("torn.redb");
    let said = fails(dir.path(), 8, &at(&torn, &["backup", "copy.redb"]));
    assert!(said.contains("repair"), "{said}");
    assert!(!dir.path().join("copy.redb").exists());
    assert_eq!(fs::read(&bus).unwrap(), before);
    let left: Vec<_> = fs::read_dir(bus.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("restor") || name.contains("copy"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn an_export_is_imported_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    let paths = [bus_path(dir.path()), agent_path(dir.path())];
    for compacted in [false, true] {
        if compacted {
            compact::<Bus>(&paths[0]);
            compact::<Agent>(&paths[1]);
        }
        for path in &paths {
            let parts = parts_of(path).unwrap();
            assert_eq!(parts.iter().any(|p| matches!(p, Kept::Base(..))), compacted);
            let lines = ok(dir.path(), &at(path, &["export"]));
            assert_tame(&lines);
            assert!(ok(dir.path(), &at(path, &["export", "-"])) == lines);
            assert!(!dir.path().join("-").exists());
            for line in lines.lines() {
                serde_json::from_str::<Value>(line).unwrap();
            }
            ok(dir.path(), &at(path, &["export", "out.jsonl"]));
            let file = dir.path().join("out.jsonl");
            assert_eq!(fs::read_to_string(&file).unwrap(), lines);
            assert_eq!(
                fs::metadata(&file).unwrap().permissions().mode() & 0o777,
                0o600
            );
            fails(dir.path(), 1, &at(path, &["export", "out.jsonl"]));
            let new = dir.path().join("new/store.redb");
            let told = answer(dir.path(), &at(&new, &["import", "out.jsonl"]));
            assert_eq!(
                (&told["ok"], &told["store"]),
                (&true.into(), &path_text(&new).into())
            );
            assert_eq!(parts_of(&new).unwrap(), parts);
            // Into what is there nothing is imported.
            let said = fails(dir.path(), 2, &at(&new, &["import", "out.jsonl"]));
            assert!(said.contains("exists"), "{said}");
            fs::remove_file(&new).unwrap();
            // From a pipe.
            let mut child = admin(dir.path())
                .args(at(&new, &["import", "-"]))
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let mut to = child.stdin.take().unwrap();
            std::io::Write::write_all(&mut to, lines.as_bytes()).unwrap();
            drop(to);
            assert!(child.wait().unwrap().success());
            assert_eq!(parts_of(&new).unwrap(), parts);
            fs::remove_dir_all(dir.path().join("new")).unwrap();
            fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn an_export_that_was_changed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    let lines = ok(dir.path(), &at(&bus_path(dir.path()), &["export"]));
    let new = dir.path().join("new.redb");
    let refused = |text: String, code: i32, words: &str| {
        fs::write(dir.path().join("bad.jsonl"), text).unwrap();
        let said = fails(dir.path(), code, &at(&new, &["import", "bad.jsonl"]));
        assert!(said.contains(words), "{said}");
        assert!(!new.exists());
    };
    let cut = |n: usize| {
        lines
            .lines()
            .take(n)
            .map(|l| format!("{l}\n"))
            .collect::<String>()
    };
    let all = lines.lines().count();
    refused(String::new(), 6, "no export");
    refused("{}\n".into(), 6, "no export");
    refused(cut(all - 1), 6, "too early");
    refused(cut(1), 6, "too early");
    refused(lines.trim_end().to_owned(), 6, "too early");
    refused(format!("{lines}{lines}"), 6, "changed");
    refused(lines.replacen("\"at\":1", "\"at\":2", 1), 6, "changed");
    refused(
        lines.replacen("\"part\":\"row\"", "\"part\":\"odd\"", 1),
        6,
        "line ",
    );
    refused(
        lines.replacen("\"format\":2", "\"format\":9", 1),
        5,
        "format 9",
    );
    refused(
        lines.replacen("_export\":1", "_export\":7", 1),
        5,
        "version 7",
    );
    // Consistent with itself, and still no store.
    let mut body: Vec<&str> = lines
        .lines()
        .filter(|l| !l.contains("\"part\":\"end\""))
        .collect();
    let at = body
        .iter()
        .position(|l| l.contains("\"part\":\"body\""))
        .unwrap();
    body.remove(at);
    let mut text: String = body.iter().map(|l| format!("{l}\n")).collect();
    let sha256 = interlink::crypto::hash::sha256(text.as_bytes());
    let hex: String = sha256.iter().map(|b| format!("{b:02x}")).collect();
    let n = body.len();
    text.push_str(&format!(
        "{{\"part\":\"end\",\"lines\":{n},\"sha256\":\"{hex}\"}}\n"
    ));
    refused(text, 8, "is missing");
}

#[test]
fn a_redacted_export_says_nothing_and_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    for path in [bus_path(dir.path()), agent_path(dir.path())] {
        let lines = ok(dir.path(), &at(&path, &["export", "--redact"]));
        for secret in [
            "zoe",
            "secret",
            "hello",
            "ben",
            "AgICAg",
            "AQEBAQ",
            "127.0.0.1",
            "00112233",
            "there",
            "pwned",
            "c2VjcmV0",
            "frame",
        ] {
            assert!(!lines.contains(secret), "{secret}: {lines}");
        }
        let all = ok(dir.path(), &at(&path, &["log", "--json"]));
        let records = lines
            .lines()
            .filter(|l| l.contains("\"part\":\"record\""))
            .count();
        assert_eq!(records, all.lines().count());
        assert!(lines.contains("\"len\":"));
        fs::write(dir.path().join("red.jsonl"), lines).unwrap();
        let new = dir.path().join("new.redb");
        let said = fails(dir.path(), 1, &at(&new, &["import", "red.jsonl"]));
        assert!(said.contains("redacted"), "{said}");
        assert!(!new.exists());
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/db")
        .join(name)
}

#[test]
fn an_older_store_is_read_or_migration_is_named_and_migrates() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["v1-bus.redb", "v1-agent.redb"] {
        let path = dir.path().join(name);
        fs::copy(golden(name), &path).unwrap();
        let before = fs::read(&path).unwrap();
        let refused = fails(dir.path(), 1, &at(&path, &["rebuild", "--yes"]));
        assert!(refused.contains("migrate"), "{refused}");
        let doctor = run(dir.path(), &at(&path, &["doctor"])).stdout;
        let doctor = text(&doctor);
        assert!(doctor.contains("interlink-admin migrate"), "{doctor}");
        let check = answer(dir.path(), &at(&path, &["migrate", "--check"]));
        let store = &check["stores"][0];
        assert_eq!((&store["format"], &store["needed"]), (&1.into(), &2.into()));
        assert_eq!(
            (&store["needs_migration"], &store["migrated"]),
            (&true.into(), &false.into())
        );
        let told = ok(dir.path(), &at(&path, &["migrate", "--check"]));
        assert!(
            told.contains("1 (this program: 2)") && told.contains(".bak-v1"),
            "{told}"
        );
        // What reads the log reads this one as well.
        ok(dir.path(), &at(&path, &["log"]));
        ok(dir.path(), &at(&path, &["verify"]));
        ok(dir.path(), &at(&path, &["backup", &format!("{name}.copy")]));
        ok(dir.path(), &at(&path, &["export"]));
        for command in ["status", "queue", "outbox", "sessions"] {
            let args: &[&str] = if command == "sessions" {
                &["sessions", "list"]
            } else {
                &[command]
            };
            let output = run(dir.path(), &at(&path, args));
            let said = text(&output.stderr);
            let named = said.contains("interlink-admin migrate") || output.status.code() == Some(7);
            assert!(output.status.success() || named, "{command}: {said}");
        }
        let said = fails(dir.path(), 2, &at(&path, &["migrate", "--json"]));
        assert!(said.contains("say --yes"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), before);
        let done = answer(dir.path(), &at(&path, &["migrate", "--yes"]));
        assert_eq!(done["stores"][0]["migrated"], true);
        assert!(dir.path().join(format!("{name}.bak-v1")).exists());
        ok(dir.path(), &at(&path, &["status"]));
        ok(dir.path(), &at(&path, &["verify"]));
        let again = answer(dir.path(), &at(&path, &["migrate", "--yes"]));
        assert_eq!(again["stores"][0]["needs_migration"], false);
    }
}

#[test]
fn a_record_that_does_not_read_is_damage_to_every_command() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    let mut parts = parts_of(&bus_path(dir.path())).unwrap();
    for part in &mut parts {
        if let Kept::Record(3, frame) = part {
            frame[40] ^= 1;
        }
    }
    let path = dir.path().join("damaged.redb");
    write(&parts, StoreKind::Bus, &path);
    for args in [&["log"][..], &["trace", "secret"], &["stats"]] {
        let output = run(dir.path(), &at(&path, args));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{args:?}: {said}");
        assert!(said.contains("interlink-admin repair"), "{said}");
    }
    let proof = run(dir.path(), &at(&path, &["verify"]));
    assert_eq!(proof.status.code(), Some(8));

    // It stands in nobody's way: the other stores of the folder are shown.
    fs::rename(&path, bus_path(dir.path()).with_file_name("a.redb")).unwrap();
    let log = run(dir.path(), &["log", "--json"]);
    assert_eq!(log.status.code(), Some(6), "{}", text(&log.stderr));
    for store in [bus_path(dir.path()), agent_path(dir.path())] {
        let shown = text(&log.stdout);
        assert!(shown.contains(path_text(&store)), "{shown}");
    }
}

#[test]
fn a_newer_store_is_refused_by_every_command() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    for (path, kind) in [
        (bus_path(dir.path()), StoreKind::Bus),
        (agent_path(dir.path()), StoreKind::Agent),
    ] {
        let mut parts = parts_of(&path).unwrap();
        for part in &mut parts {
            if let Kept::Meta(key, value) = part
                && key == "format"
            {
                *value = 99u32.to_le_bytes().to_vec();
            }
        }
        let newer = dir.path().join("newer.redb");
        write(&parts, kind, &newer);
        let before = fs::read(&newer).unwrap();
        let commands: [&[&str]; 9] = [
            &["status"],
            &["log"],
            &["verify"],
            &["backup", "copy.redb"],
            &["export"],
            &["migrate", "--yes"],
            &["rebuild", "--yes"],
            &["repair", "--out", "new.redb"],
            &["restore", "newer.redb", "--yes"],
        ];
        for command in commands {
            let said = fails(dir.path(), 5, &at(&newer, command));
            assert!(said.contains("99") && said.contains("newer"), "{said}");
        }
        assert_eq!(fs::read(&newer).unwrap(), before);
        fs::remove_file(newer).unwrap();
    }
}

#[test]
fn rows_are_rebuilt_and_nothing_is_hidden_by_it() {
    let dir = tempfile::tempdir().unwrap();
    two_stores(dir.path());
    for (path, kind, projection) in [
        (bus_path(dir.path()), StoreKind::Bus, "pending"),
        (agent_path(dir.path()), StoreKind::Agent, "outbox"),
    ] {
        let sound = parts_of(&path).unwrap();
        let mut parts = sound.clone();
        parts.retain(|part| !matches!(part, Kept::Row(table, ..) if table.name() == projection));
        fs::remove_file(&path).unwrap();
        write(&parts, kind, &path);
        assert_eq!(
            run(dir.path(), &at(&path, &["verify"])).status.code(),
            Some(8)
        );
        fails(dir.path(), 2, &at(&path, &["rebuild"]));
        let said = fails(dir.path(), 2, &at(&path, &["rebuild", "nonsense", "--yes"]));
        assert!(said.contains(projection), "{said}");
        let told = ok(dir.path(), &at(&path, &["rebuild", projection, "--yes"]));
        assert!(
            told.starts_with("rebuilt: ") && told.contains("table "),
            "{told}"
        );
        let rows = |parts: &[Kept]| -> Vec<Kept> {
            let is_row = |part: &&Kept| matches!(part, Kept::Row(..));
            parts.iter().filter(is_row).cloned().collect()
        };
        assert_eq!(rows(&parts_of(&path).unwrap()), rows(&sound));
        let told = answer(dir.path(), &at(&path, &["rebuild", projection, "--yes"]));
        assert_eq!(told["rebuilt"], false);
        // A log whose end is gone is no source.
        let mut torn = sound.clone();
        let last = torn
            .iter()
            .rposition(|p| matches!(p, Kept::Record(..)))
            .unwrap();
        torn.remove(last - 1);
        fs::remove_file(&path).unwrap();
        write(&torn, kind, &path);
        let before = fs::read(&path).unwrap();
        fails(dir.path(), 8, &at(&path, &["rebuild", "--yes"]));
        assert_eq!(fs::read(&path).unwrap(), before);
        fs::remove_file(&path).unwrap();
        write(&sound, kind, &path);
    }
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let help = ok(dir.path(), &["--help"]);
    assert!(help.contains("backup") && help.contains("repair"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = ok(dir.path(), &["completions", shell]);
        for word in ["backup", "restore", "export", "import", "repair", "redact"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    let page = ok(dir.path(), &["man"]);
    assert!(page.contains(".TH") && page.contains("repair"), "{page}");
    let page = ok(dir.path(), &["man", "restore"]);
    assert!(
        page.contains("interlink") && page.contains("backup"),
        "{page}"
    );
    fails(dir.path(), 2, &["man", "nonsense"]);
    // The shell itself has no objection.
    fs::write(
        dir.path().join("words"),
        ok(dir.path(), &["completions", "bash"]),
    )
    .unwrap();
    let bash = Command::new("bash")
        .arg("-n")
        .arg(dir.path().join("words"))
        .status();
    assert!(bash.is_ok_and(|status| status.success()));
}

#[test]
fn a_store_that_nobody_filled_is_copied_and_moved_as_well() {
    let dir = tempfile::tempdir().unwrap();
    bus_store(dir.path()).close();
    let path = bus_path(dir.path());
    ok(dir.path(), &["backup", "copy.redb"]);
    ok(dir.path(), &["export", "out.jsonl"]);
    ok(dir.path(), &["restore", "copy.redb", "--yes"]);
    fs::remove_file(&path).unwrap();
    // The bus's usual place.
    ok(dir.path(), &["import", "out.jsonl"]);
    ok(dir.path(), &["verify"]);
    fs::remove_file(&path).unwrap();
    ok(dir.path(), &["restore", "copy.redb", "--yes"]);
    assert_eq!(
        parts_of(&path).unwrap(),
        parts_of(&dir.path().join("copy.redb")).unwrap()
    );
    // An identity's place is not guessed.
    agent_store(dir.path()).close();
    let agent = agent_path(dir.path());
    ok(dir.path(), &at(&agent, &["backup", "agent-copy"]));
    fs::remove_file(&agent).unwrap();
    let said = fails(dir.path(), 2, &["restore", "agent-copy", "--yes"]);
    assert!(said.contains("--store"), "{said}");
    ok(dir.path(), &at(&agent, &["restore", "agent-copy", "--yes"]));
}

#[test]
fn a_new_store_of_parts_is_whole_or_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.redb");
    let failed = build::<CopyError>(
        &path,
        StoreKind::Bus,
        |_| Ok(()),
        |_| Err(CopyError::Exists { path: path.clone() }),
    );
    assert!(failed.is_err() && !path.exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A bus's store with much in it.
fn large(dir: &Path, messages: u64) -> PathBuf {
    let store = bus_store(dir);
    for n in 0..messages {
        let body = sample::payload(n, 2_000);
        store
            .submit(sample::enqueue("q", &body, sample::WIDE_LIMITS))
            .unwrap()
            .wait()
            .unwrap();
    }
    store.close();
    bus_path(dir)
}

/// Runs a command and kills it after a while; says whether it had ended by itself.
fn killed(dir: &Path, args: &[&str], after: Duration) -> bool {
    let mut child = admin(dir)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    let ended = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    ended
}

#[test]
fn a_kill_leaves_no_half_copy_and_no_half_restored_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = large(dir.path(), if long() { 4_000 } else { 400 });
    let old = parts_of(&path).unwrap();
    let store = bus_store(dir.path());
    enqueue(&store, "later", "1");
    store.close();
    ok(dir.path(), &["backup", "newer.redb"]);
    let new = parts_of(&dir.path().join("newer.redb")).unwrap();
    let copy = dir.path().join("copy.redb");
    let (mut cut, mut ms) = (0, 0);
    // From the start of the process to its end, in steps.
    loop {
        let after = Duration::from_millis(ms);
        let ended = killed(dir.path(), &["backup", "copy.redb"], after);
        if copy.exists() {
            assert_eq!(parts_of(&copy).unwrap(), new);
            fs::remove_file(&copy).unwrap();
        } else {
            assert!(!ended);
            cut += 1;
        }
        assert_eq!(parts_of(&path).unwrap(), new);
        if ended {
            break;
        }
        ms += 1 + ms / 4;
    }
    assert!(cut > 0);
    // Back and forth.
    let older = dir.path().join("older.redb");
    write(&old, StoreKind::Bus, &older);
    let mut ms = 0;
    loop {
        let after = Duration::from_millis(ms);
        let ended = killed(dir.path(), &["restore", "older.redb", "--yes"], after);
        let there = parts_of(&path).unwrap();
        assert!(there == old || there == new);
        if ended {
            assert!(there == old);
            break;
        }
        if there == old {
            ok(dir.path(), &["restore", "newer.redb", "--yes"]);
        }
        ms += 1 + ms / 4;
    }
}

#[cfg(feature = "bus")]
mod beside_a_bus {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::process::Signal;
    use serde_json::json;

    use super::super::admin::beside_a_bus::RunningBus;
    use super::*;

    /// The texts that wait in a store.
    fn waiting(path: &Path) -> BTreeSet<u64> {
        let bodies = parts_of(path)
            .unwrap()
            .into_iter()
            .filter_map(|part| match part {
                Kept::Body(_, bytes) => {
                    let body: Value = serde_json::from_slice(&bytes).unwrap();
                    body["n"].as_u64()
                }
                _ => None,
            });
        bodies.collect()
    }

    #[test]
    fn a_backup_under_load_holds_whatever_was_acknowledged_before_it_began() {
        let dir = tempfile::tempdir().unwrap();
        let bus = RunningBus::with(dir.path(), &["--queue-cap", "1000000"]);
        let (stop, next) = (AtomicBool::new(false), AtomicU64::new(0));
        // Every number below is acknowledged, by sender.
        const SENDERS: u64 = 6;
        let acknowledged: Vec<AtomicU64> = (0..SENDERS).map(|_| AtomicU64::new(0)).collect();
        let done = || {
            acknowledged
                .iter()
                .map(|a| a.load(Ordering::SeqCst))
                .collect::<Vec<_>>()
        };
        thread::scope(|scope| {
            for (sender, mine) in acknowledged.iter().enumerate() {
                let (stop, next, bus) = (&stop, &next, &bus);
                scope.spawn(move || {
                    let client = crate::support::web();
                    while !stop.load(Ordering::SeqCst) {
                        let k = mine.load(Ordering::SeqCst);
                        let n = k * SENDERS + sender as u64;
                        let body = json!({ "to": format!("q{sender}"), "payload": { "n": n } });
                        let sent = client.post(format!("{}/send", bus.url)).json(&body).send();
                        assert!(sent.unwrap().status().is_success());
                        mine.store(k + 1, Ordering::SeqCst);
                        next.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for round in 0..4 {
                let deadline = Instant::now() + Duration::from_secs(60);
                let before = next.load(Ordering::SeqCst);
                while next.load(Ordering::SeqCst) < before + 100 {
                    assert!(Instant::now() < deadline, "no traffic");
                    thread::sleep(Duration::from_millis(5));
                }
                let begun = done();
                let copy = format!("copy-{round}.redb");
                let told = answer(dir.path(), &["backup", &copy]);
                let ended = done();
                assert_eq!(
                    (&told["source"], &told["ok"]),
                    (&"endpoint".into(), &true.into())
                );
                let copy = dir.path().join(copy);
                assert_eq!(
                    fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
                    0o600
                );
                let held = waiting(&copy);
                for (sender, (begun, ended)) in begun.iter().zip(&ended).enumerate() {
                    let of = |k: u64| k * SENDERS + sender as u64;
                    for k in 0..*begun {
                        assert!(held.contains(&of(k)), "{} was acknowledged", of(k));
                    }
                    // A prefix: nothing that came later without what came before; one may be on its way.
                    let mine: Vec<u64> = held
                        .iter()
                        .filter(|n| *n % SENDERS == sender as u64)
                        .copied()
                        .collect();
                    let prefix: Vec<u64> = (0..mine.len() as u64).map(of).collect();
                    assert_eq!(mine, prefix);
                    assert!(mine.len() as u64 <= ended + 1);
                }
            }
            stop.store(true, Ordering::SeqCst);
        });
        bus.stop(Signal::TERM);
        // Elsewhere a bus goes on from the backup.
        let other = tempfile::tempdir().unwrap();
        let copy = dir.path().join("copy-3.redb");
        ok(other.path(), &["restore", path_text(&copy), "--yes"]);
        let held = waiting(&copy).len() as u64;
        let bus = RunningBus::with(other.path(), &["--queue-cap", "1000000"]);
        let status = answer(other.path(), &["status"]);
        assert_eq!(status["stores"][0]["bus"]["messages"], held);
        bus.send("q0", &json!({ "n": 1_000_000_000 }));
        ok(other.path(), &["verify"]);
        bus.stop(Signal::TERM);
        assert_eq!(waiting(&bus_path(other.path())).len() as u64, held + 1);
    }

    #[test]
    fn a_running_bus_is_exported_and_not_restored_over() {
        let dir = tempfile::tempdir().unwrap();
        let bus = RunningBus::start(dir.path());
        bus.send("a", &json!({ "n": 1 }));
        let copy = dir.path().join("copy.redb");
        ok(dir.path(), &["backup", "copy.redb"]);
        let said = fails(dir.path(), 2, &["backup", "copy.redb"]);
        assert!(said.contains("exists"), "{said}");
        let said = fails(dir.path(), 1, &["backup", "/proc/copy.redb"]);
        assert!(
            said.contains("refuses") && said.contains("/proc/copy.redb"),
            "{said}"
        );
        fails(dir.path(), 4, &["restore", "copy.redb", "--yes"]);
        fails(dir.path(), 4, &["repair", "--out", "new.redb"]);
        fails(dir.path(), 4, &["rebuild", "--yes"]);
        let lines = ok(dir.path(), &["export"]);
        bus.stop(Signal::TERM);
        assert_eq!(ok(dir.path(), &["export"]), lines);
        assert_eq!(waiting(&copy), BTreeSet::from([1]));
    }
}
