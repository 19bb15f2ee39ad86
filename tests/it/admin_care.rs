//! What the operator's tool says where little is to be done, or nothing: typos, empty compactions, stores
//! that are in use, copies that are interrupted.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use interlink::domain::decide::agent::Agent;
use interlink::store::{CopyError, Location, Mode, OpenOptions, Reader, Store, copy_proven};
use interlink::types::id::PublicKey;
use interlink::wire::bond::code::SessionCode;

use super::admin::{
    agent_path, agent_store, assert_tame, bus_path, bus_store, enqueue, json as answer, ok, run,
    text,
};
use super::support::clock;

/// Runs a command that must end with this code; gives what it said.
fn fails(dir: &Path, code: i32, args: &[&str]) -> String {
    let output = run(dir, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert_tame(&said);
    said
}

fn a_bus(dir: &Path) {
    let bus = bus_store(dir);
    for n in 0..3 {
        enqueue(&bus, "q", &n.to_string());
    }
    bus.close();
}

#[cfg(feature = "bus")]
#[test]
fn a_running_bus_says_whether_there_is_anything_to_migrate() {
    let dir = tempfile::tempdir().unwrap();
    let bus = super::admin::beside_a_bus::RunningBus::start(dir.path());
    for args in [&["migrate", "--check"][..], &["migrate", "--yes"]] {
        let told = answer(dir.path(), args);
        let store = &told["stores"][0];
        assert_eq!(store["store"], bus_path(dir.path()).to_str().unwrap());
        assert_eq!(store["format"], store["needed"]);
        assert_eq!(store["needs_migration"], false);
    }
    assert!(ok(dir.path(), &["migrate", "--check"]).contains("nothing to do"));
    // Its backup goes nowhere either where no folder is.
    let said = fails(dir.path(), 2, &["backup", "no/where/x"]);
    assert!(said.contains("there is no folder"), "{said}");
    drop(bus);
}

#[test]
fn a_folder_that_is_not_there_is_no_place_for_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    a_bus(dir.path());
    let typo = dir.path().join("typo");
    let file = typo.join("dir").join("x");
    for command in ["backup", "export"] {
        let said = fails(dir.path(), 2, &[command, file.to_str().unwrap()]);
        for words in ["cannot write", "there is no folder", "make the folder"] {
            assert!(said.contains(words), "{said}");
        }
        assert!(!typo.exists());
    }
    ok(dir.path(), &["backup", "x"]);
    ok(dir.path(), &["export", "y"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_copy_has_no_name_that_an_interrupt_could_leave_behind() {
    let dir = tempfile::tempdir().unwrap();
    a_bus(dir.path());
    let to = tempfile::tempdir().unwrap();
    let reader = Reader::open(&bus_path(dir.path()), Mode::Exclusive).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let mut proven = 0;
    copy_proven::<CopyError>(&snapshot, &to.path().join("copy"), |copy| {
        assert_eq!(copy.head().unwrap(), snapshot.head().unwrap());
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
        proven += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(proven, 1);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
}

#[test]
fn nobody_is_asked_about_a_compaction_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    a_bus(dir.path());
    let told = ok(dir.path(), &["compact"]);
    assert!(told.contains("nothing to do"), "{told}");
    assert_eq!(answer(dir.path(), &["compact"])["records"], 0);
    // What is there still needs a word.
    fails(dir.path(), 2, &["compact", "--until", "1"]);

    agent_store(dir.path()).close();
    let said = fails(dir.path(), 2, &["compact"]);
    for words in ["2 stores", "--store PATH", "interlink-admin status"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_store_that_is_not_there_comes_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let said = fails(dir.path(), 1, &["--store", "/nope", "status"]);
    assert!(said.contains("/nope"), "{said}");
    assert!(said.contains("interlink-admin status"), "{said}");
}

#[test]
fn a_line_that_is_too_long_has_its_number() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("long"), "x".repeat(9 << 20)).unwrap();
    let said = text(&run(dir.path(), &["import", "long"]).stderr);
    assert!(said.contains("line 1: it is too long"), "{said}");
}

#[test]
fn lines_of_several_identities_say_whose_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let line = |who: &str| {
        format!(
            "{{\"timestamp\":\"2026-11-30T00:00:00Z\",\"tool\":\"bond_message\",\"source\":\"tool\",\
             \"params\":\"{{}}\",\"identity\":\"{who}\"}}\n"
        )
    };
    agent_store(dir.path()).close();
    let first = agent_path(dir.path()).with_file_name("audit.log");
    fs::write(&first, line("aaaa")).unwrap();
    let alone = ok(dir.path(), &["audit"]);
    assert!(!alone.contains("-- "), "{alone}");

    let folder = first.parent().unwrap().parent().unwrap();
    let folder = folder.join(PublicKey::from_bytes([9; 32]).to_string());
    let path = folder.join("agent.redb");
    let options = OpenOptions::shared(Location::File(path));
    Store::<Agent>::open(options, clock(), None)
        .unwrap()
        .close();
    fs::write(folder.join("audit.log"), line("bbbb\\u001b[2J")).unwrap();
    let told = ok(dir.path(), &["audit"]);
    assert_tame(&told);
    for words in ["-- aaaa in ", "-- bbbb\\u{1b}[2J in "] {
        assert_eq!(told.matches(words).count(), 1, "{told}");
    }
}

#[test]
fn the_server_names_what_it_reads_from_the_environment() {
    let help = Command::new(env!("CARGO_BIN_EXE_interlink-mcp"))
        .arg("--help")
        .output()
        .unwrap();
    let help = text(&help.stdout);
    for name in [
        "INTERLINK_CHANNELS",
        "INTERLINK_CLAUDE_DELIVERY",
        "INTERLINK_NOTIFICATIONS",
    ] {
        assert!(help.contains(name), "{name}");
    }
}

#[test]
fn whoever_mistypes_a_code_hears_that_case_counts() {
    let e = "abcd-efgh".parse::<SessionCode>().unwrap_err();
    assert!(e.to_string().contains("upper and lower case count"), "{e}");
}
