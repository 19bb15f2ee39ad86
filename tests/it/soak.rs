//! A bus that keeps no history, run for a long time: its file, its memory and its open files stay
//! what they were. `INTERLINK_LONG=1` runs a million cycles of send, receive and acknowledge.

use std::fs;
use std::thread;

use serde_json::{Value, json};

use crate::kill::process::{BusPlace, RawConn};
use crate::mcp_support::eventually;
use crate::support::long;

const CLIENTS: u64 = 8;
const BATCH: u64 = 20;

/// What a process uses.
#[derive(Clone, Copy, Debug)]
struct Use {
    file: u64,
    memory: u64,
    handles: usize,
}

fn used(bus: &BusPlace) -> Use {
    let pid = bus.slot.pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap();
    Use {
        file: fs::metadata(&bus.db).unwrap().len(),
        memory: kib.parse::<u64>().unwrap() << 10,
        handles: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
    }
}

/// Sends, fetches and acknowledges `cycles` messages over a connection of its own.
fn cycle(bus: &BusPlace, client: u64, cycles: u64) {
    let mut conn = RawConn::open(bus.addr).unwrap();
    let queue = format!("soak{client}");
    for batch in 0..cycles / BATCH {
        for n in 0..BATCH {
            let payload = json!({ "n": batch * BATCH + n, "text": "x".repeat(200) });
            let body = json!({ "to": queue, "payload": payload });
            let (status, _) = conn.request("POST", "/send", Some(&body)).unwrap();
            assert_eq!(status, 202);
        }
        let target = format!("/recv?me={queue}&timeout_ms=0&max={BATCH}");
        let mut left = BATCH;
        while left > 0 {
            let (status, body) = conn.request("GET", &target, None).unwrap();
            assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
            let mail: Value = serde_json::from_slice(&body).unwrap();
            let acks = mail["messages"].as_array().unwrap().iter();
            let acks: Vec<_> = acks.map(|m| m["ack"].clone()).collect();
            left -= acks.len() as u64;
            let body = json!({ "me": queue, "acks": acks });
            let (status, _) = conn.request("POST", "/ack", Some(&body)).unwrap();
            assert_eq!(status, 200);
        }
    }
}

fn run(bus: &BusPlace, cycles: u64) -> Use {
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || cycle(bus, client, cycles / CLIENTS));
        }
    });
    // The connections are gone, and the log is folded.
    let mut last = used(bus);
    eventually("the bus at rest", || {
        let now = used(bus);
        let rests = now.handles == last.handles && now.file == last.file;
        last = now;
        let mut conn = RawConn::open(bus.addr).ok()?;
        let (_, status) = conn.request("GET", "/status", None).ok()?;
        let status: Value = serde_json::from_slice(&status).ok()?;
        (rests && status["messages"] == 0).then_some(())
    });
    used(bus)
}

#[test]
fn a_bus_that_runs_for_long_stays_as_it_is() {
    let cycles = if long() { 1_000_000 } else { 8_000 };
    let dir = tempfile::tempdir().unwrap();
    let bus = BusPlace::new(dir.path(), &["--retain", "0"]);
    bus.start();
    bus.ready();
    let early = run(&bus, cycles / 10);
    let late = run(&bus, cycles - cycles / 10);
    println!("{early:?} {late:?}");
    let slack = 1 << 20;
    assert!(late.file <= early.file + slack, "{early:?} {late:?}");
    assert!(
        late.memory <= early.memory * 5 / 4 + 16 * slack,
        "{early:?} {late:?}"
    );
    assert!(late.handles <= early.handles + 4, "{early:?} {late:?}");
    bus.slot.terminate();
}
