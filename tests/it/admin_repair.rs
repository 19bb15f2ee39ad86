//! `interlink-admin repair`, and what the other commands say about a damaged store.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use interlink::event::kind::StoreKind;
use interlink::testkit::Rng;

use super::admin::{
    agent_path, agent_store, assert_tame, bus_path, bus_store, enqueue, fill_agent, json, ok, run,
    text,
};
use super::damage::{Kept, parts_of, write};
use super::support::{long, seed};

fn fill(dir: &Path) {
    let bus = bus_store(dir);
    for n in 0..8 {
        enqueue(
            &bus,
            &format!("q{}\u{202e}", n % 2),
            &format!("\"text {n}\""),
        );
    }
    bus.close();
    let agent = agent_store(dir);
    fill_agent(&agent);
    agent.close();
}

#[test]
fn what_was_lost_is_said_exactly_and_the_damaged_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let path = bus_path(dir.path());
    let store = path.to_str().unwrap().to_owned();
    let mut parts = parts_of(&path).unwrap();
    parts.retain(|part| !matches!(part, Kept::Record(3 | 4, _) | Kept::Body(6, _)));
    fs::remove_file(&path).unwrap();
    write(&parts, StoreKind::Bus, &path);
    let before = fs::read(&path).unwrap();

    let told = ok(
        dir.path(),
        &["--store", &store, "repair", "--out", "new.redb"],
    );
    assert_tame(&told);
    for words in [
        "repaired, with losses",
        "records 3 to 4",
        "the body of 6",
        "6 records found; 4 in the new log, 2 in its base rows, 1 added",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(
        told.lines()
            .all(|line| line.chars().count() <= 80 || line.contains('/')),
        "{told}"
    );
    fs::remove_file(dir.path().join("new.redb")).unwrap();
    let told = json(
        dir.path(),
        &["--store", &store, "repair", "--out", "new.redb"],
    );
    assert_eq!(told["complete"], false);
    assert_eq!(told["missing"], serde_json::json!([{ "from": 3, "to": 4 }]));
    assert_eq!(told["bodies_lost"], serde_json::json!([6]));
    assert_eq!((&told["base"], &told["head"]), (&4.into(), &9.into()));
    assert_eq!(fs::read(&path).unwrap(), before);
    ok(dir.path(), &["--store", "new.redb", "verify"]);
    // What is there already is left alone.
    let output = run(
        dir.path(),
        &["--store", &store, "repair", "--out", "new.redb"],
    );
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    // The repaired store takes its place, and the damaged one is kept.
    ok(
        dir.path(),
        &["--store", &store, "restore", "new.redb", "--yes"],
    );
    let queue = ok(dir.path(), &["--store", &store, "queue"]);
    assert!(queue.contains("q0"), "{queue}");
    let reopened = bus_store(dir.path());
    enqueue(&reopened, "later", "1");
    assert_eq!(reopened.head().0, 10);
    reopened.close();
    ok(dir.path(), &["--store", &store, "verify"]);
}

#[test]
fn a_sound_store_is_repaired_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    for path in [bus_path(dir.path()), agent_path(dir.path())] {
        let store = path.to_str().unwrap();
        let told = ok(
            dir.path(),
            &["--store", store, "repair", "--out", "new.redb"],
        );
        assert!(told.starts_with("repaired, nothing is lost"), "{told}");
        let new = dir.path().join("new.redb");
        let same = |part: &Kept| !matches!(part, Kept::Meta(..));
        let of = |path: &Path| -> Vec<Kept> {
            parts_of(path).unwrap().into_iter().filter(same).collect()
        };
        assert_eq!(of(&new), of(&path));
        fs::remove_file(new).unwrap();
    }
}

#[test]
fn no_command_panics_on_a_damaged_store() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let mut rng = Rng::new(seed());
    for path in [bus_path(dir.path()), agent_path(dir.path())] {
        let sound = fs::read(&path).unwrap();
        let used: Vec<usize> = (0..sound.len()).filter(|at| sound[*at] != 0).collect();
        let damaged = dir.path().join("damaged.redb");
        for round in 0..if long() { 200 } else { 12 } {
            let mut file = sound.clone();
            let at = used[rng.index(used.len())];
            let end = (at + [1, 64, 4096, 16_384][round % 4]).min(file.len());
            match round % 3 {
                0 => file[at..end].fill(0),
                1 => rng.fill(&mut file[at..end]),
                _ => file.truncate(at / 512 * 512),
            }
            let commands: [&[&str]; 10] = [
                &["status"],
                &["log"],
                &["queue"],
                &["outbox"],
                &["sessions", "list"],
                &["verify"],
                &["backup", "copy.redb"],
                &["export"],
                &["migrate", "--check"],
                &["repair", "--out", "new.redb"],
            ];
            for command in commands {
                fs::write(&damaged, &file).unwrap();
                let mut args = vec!["--store", "damaged.redb"];
                args.extend(command);
                let output = run(dir.path(), &args);
                let said = text(&output.stderr);
                let code = output.status.code();
                assert!(
                    code.is_some_and(|code| code <= 8),
                    "{command:?} {code:?}: {said}"
                );
                assert!(
                    !said.contains("panicked") && !said.contains("RUST_BACKTRACE"),
                    "{said}"
                );
                assert_tame(&said);
                assert_eq!(fs::read(&damaged).unwrap(), file, "{command:?} changed it");
                for made in ["copy.redb", "new.redb"] {
                    let made = dir.path().join(made);
                    if made.exists() {
                        let store = made.to_str().unwrap();
                        ok(dir.path(), &["--store", store, "verify"]);
                        fs::remove_file(made).unwrap();
                    }
                }
            }
            for command in ["rebuild", "migrate"] {
                fs::write(&damaged, &file).unwrap();
                let output = run(dir.path(), &["--store", "damaged.redb", command, "--yes"]);
                let said = text(&output.stderr);
                assert!(
                    output.status.code().is_some_and(|code| code <= 8),
                    "{command}: {said}"
                );
                assert!(!said.contains("panicked"), "{said}");
            }
        }
    }
}
