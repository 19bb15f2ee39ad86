//! `interlink-admin compact`: beside a running bus, and on closed stores.
#![cfg(all(unix, feature = "bus"))]

use std::fs;

use interlink::domain::decide::agent::Agent;
use interlink::domain::decide::bus::Bus;
use interlink::store::{Mode, Reader};
use interlink::types::seq::Seq;
use rustix::process::Signal;
use serde_json::json;

use super::admin::beside_a_bus::RunningBus;
use super::admin::{
    agent_path, agent_store, assert_tame, bus_path, bus_store, enqueue, fill_agent, json as answer,
    ok, run, text,
};
use super::support::verified;

#[test]
fn a_running_bus_is_compacted_through_its_endpoint() {
    let dir = tempfile::tempdir().unwrap();
    let bus = RunningBus::start(dir.path());
    for n in 0..30 {
        bus.send("b", &json!({ "n": n }));
    }
    let dry = answer(dir.path(), &["compact", "--until", "20", "--dry-run"]);
    assert_eq!(dry["records"], 20);
    assert_eq!(answer(dir.path(), &["status"])["stores"][0]["first"], 1);

    // Nobody can be asked, and nothing is done.
    let refused = run(dir.path(), &["compact", "--until", "20"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("say --yes"));
    let shrink = run(dir.path(), &["compact", "--shrink", "--yes"]);
    assert_eq!(shrink.status.code(), Some(4), "{}", text(&shrink.stderr));

    let done = answer(dir.path(), &["compact", "--until", "20", "--yes"]);
    for field in ["records", "bytes", "base", "head"] {
        assert_eq!(done[field], dry[field], "{field}");
    }
    assert_eq!(
        (&done["base"], &done["records_left"]),
        (&20.into(), &10.into())
    );
    let status = answer(dir.path(), &["status"]);
    assert_eq!(status["stores"][0]["first"], 21);
    assert_eq!(status["stores"][0]["bus"]["messages"], 30);
    assert!(ok(dir.path(), &["verify"]).starts_with("ok"));
    bus.send("b", &json!("one more"));

    bus.stop(Signal::KILL);
    let snapshot = Reader::open(&bus_path(dir.path()), Mode::Shared).unwrap();
    let snapshot = snapshot.snapshot().unwrap();
    assert_eq!(snapshot.base().unwrap(), Seq(20));
    assert_eq!(snapshot.head().unwrap(), Seq(31));
    verified::<Bus>(&snapshot);
}

#[test]
fn a_bus_that_keeps_nothing_compacts_by_itself_and_keeps_mail() {
    let dir = tempfile::tempdir().unwrap();
    let bus = RunningBus::with(dir.path(), &["--retain", "0"]);
    for n in 0..50 {
        bus.send("b", &json!({ "n": n }));
    }
    super::mcp_support::eventually("the log is compacted", || {
        let status = answer(dir.path(), &["status"]);
        (status["stores"][0]["first"] == 50).then_some(())
    });
    let status = answer(dir.path(), &["status"]);
    assert_eq!(status["stores"][0]["bus"]["messages"], 50);
    assert!(ok(dir.path(), &["verify"]).starts_with("ok"));
}

#[test]
fn closed_stores_are_compacted_and_shrunk() {
    let dir = tempfile::tempdir().unwrap();
    let store = bus_store(dir.path());
    for n in 0..300 {
        enqueue(&store, "q", &format!("{{\"n\":{n:0600}}}"));
    }
    store.close();
    let path = bus_path(dir.path());
    let before = fs::metadata(&path).unwrap().len();
    let place = path.to_str().unwrap();
    let shown = ok(
        dir.path(),
        &[
            "compact", "--store", place, "--until", "999", "--shrink", "--yes",
        ],
    );
    assert_tame(&shown);
    assert!(shown.contains("were taken out of the log"), "{shown}");
    assert!(fs::metadata(&path).unwrap().len() < before / 2, "{shown}");
    let snapshot = Reader::open(&path, Mode::Shared).unwrap();
    verified::<Bus>(&snapshot.snapshot().unwrap());
    let log = run(dir.path(), &["log", "--store", place, "--from", "1"]);
    assert_eq!(log.status.code(), Some(0));
    let said = text(&log.stderr);
    assert!(said.contains("were compacted"), "{said}");

    let store = agent_store(dir.path());
    fill_agent(&store);
    let path = agent_path(dir.path());
    let place = path.to_str().unwrap();
    // Beside its owner: an identity's store is shared.
    let done = answer(
        dir.path(),
        &["compact", "--store", place, "--until", "3", "--yes"],
    );
    assert_eq!((&done["kind"], &done["base"]), (&"agent".into(), &3.into()));
    store.close();
    let snapshot = Reader::open(&path, Mode::Shared).unwrap();
    verified::<Agent>(&snapshot.snapshot().unwrap());

    // Two stores: which one?
    let both = run(dir.path(), &["compact", "--yes"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
}
