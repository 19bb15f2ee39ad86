//! `interlink-admin` beside a bus whose log is compacted between two pages of a reading.
//!
//! A door between the tool and the bus passes every request on, and compacts before it passes the
//! second page: the one order of things that a test cannot wait for.
#![cfg(all(unix, feature = "bus"))]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use interlink::types::limit::MAX_ADMIN_ROWS;
use serde_json::{Value, json};

use super::admin::beside_a_bus::RunningBus;
use super::admin::{bus_path, bus_store, enqueue, json as answer, run, text};
use super::admin_schema::conforms;

/// A queue of ten holds them: all but the first ten push one out.
const MESSAGES: u64 = 1250;
/// Two pages and a half.
const RECORDS: u64 = 2 * MESSAGES - 10;
const PAGE: u64 = MAX_ADMIN_ROWS as u64;

/// Passes requests on to a bus.
struct Door {
    bus: String,
    token: String,
    /// Up to where to compact before the next page that does not begin at the beginning; 0: not.
    until: AtomicU64,
}

impl Door {
    /// Stands between the tool and the bus from now on.
    fn before(dir: &Path) -> Arc<Door> {
        let mut file = bus_path(dir).into_os_string();
        file.push(".admin");
        let mut led: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = format!("http://{}", listener.local_addr().unwrap());
        let word = |name: &str| led[name].as_str().unwrap().to_owned();
        let door = Arc::new(Door {
            bus: word("url"),
            token: word("token"),
            until: AtomicU64::new(0),
        });
        led["url"] = own.into();
        fs::write(&file, led.to_string()).unwrap();
        let keeper = Arc::clone(&door);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                keeper.pass(&stream.unwrap());
            }
        });
        door
    }

    fn pass(&self, stream: &TcpStream) {
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let Some(first) = lines.next() else { return };
        let rest: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(
            rest.iter().any(|line| line.contains(&self.token)),
            "{rest:?}"
        );
        let path = first.split(' ').nth(1).unwrap();
        let later = path.contains("records?from=") && !path.contains("from=0&");
        if later && !path.contains(&format!("from={}&", u64::MAX)) {
            let until = self.until.swap(0, Ordering::SeqCst);
            if until > 0 {
                self.compact(until);
            }
        }
        let answer = self.ask(reqwest::Method::GET, path);
        let (status, body) = (answer.status().as_u16(), answer.bytes().unwrap());
        let head = format!(
            "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        let mut stream = stream;
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
    }

    fn ask(&self, method: reqwest::Method, path: &str) -> reqwest::blocking::Response {
        let client = crate::support::web();
        let request = client.request(method, format!("{}{path}", self.bus));
        request.bearer_auth(&self.token).send().unwrap()
    }

    fn compact(&self, until: u64) {
        let path = format!("/admin/v1/compact?until={until}&before=0&dry_run=false");
        let done = self.ask(reqwest::Method::POST, &path);
        let done: Value = serde_json::from_slice(&done.bytes().unwrap()).unwrap();
        assert_eq!(done["base"], until);
    }

    /// Runs a command while the log loses what is before a position, between two of its pages.
    fn run(&self, dir: &Path, until: u64, args: &[&str]) -> Output {
        self.until.store(until, Ordering::SeqCst);
        let output = run(dir, args);
        assert_eq!(
            self.until.load(Ordering::SeqCst),
            0,
            "it read one page only"
        );
        output
    }
}

/// A bus with a long log behind a door.
fn world() -> (tempfile::TempDir, RunningBus, Arc<Door>) {
    let dir = tempfile::tempdir().unwrap();
    let store = bus_store(dir.path());
    for n in 0..MESSAGES {
        enqueue(&store, "q", &json!({ "n": n }).to_string());
    }
    store.close();
    let bus = RunningBus::with(dir.path(), &["--retain", "365d"]);
    let door = Door::before(dir.path());
    (dir, bus, door)
}

#[test]
fn a_log_that_is_compacted_between_two_pages_is_read_with_a_word_about_what_went() {
    let (dir, bus, door) = world();
    let dir = dir.path();
    let seen = |output: &Output| -> Vec<u64> {
        let lines = text(&output.stdout);
        let rows = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        rows.filter_map(|row: Value| row["seq"].as_u64()).collect()
    };
    let log = door.run(dir, PAGE + 500, &["log", "--json"]);
    let beside: Value = serde_json::from_slice(&log.stderr).unwrap();
    conforms("stderr", &beside);
    assert_eq!(beside["note"]["missed"], 500, "{beside}");
    assert_eq!(log.status.code(), Some(0), "{}", text(&log.stderr));
    let expected: Vec<u64> = (1..=PAGE).chain(PAGE + 501..=RECORDS).collect();
    assert!(seen(&log) == expected, "{} records", seen(&log).len());
    assert!(
        text(&log.stderr).contains("500 records were not seen"),
        "{}",
        text(&log.stderr)
    );

    drop(bus);
}

#[test]
fn what_is_compacted_behind_the_page_that_was_read_is_not_missed() {
    let (dir, bus, door) = world();
    let log = door.run(dir.path(), PAGE, &["log", "--json"]);
    let lines = text(&log.stdout);
    let records = lines.lines().filter(|line| line.contains("\"seq\""));
    assert_eq!(records.count() as u64, RECORDS);
    assert!(
        !text(&log.stderr).contains("not seen"),
        "{}",
        text(&log.stderr)
    );
    drop(bus);
}

#[test]
fn numbers_say_how_many_records_they_lack() {
    let (dir, bus, door) = world();
    let stats = door.run(dir.path(), PAGE + 7, &["stats", "--json"]);
    assert_eq!(stats.status.code(), Some(0), "{}", text(&stats.stderr));
    let stats: Value = serde_json::from_slice(&stats.stdout).unwrap();
    // The walk for the latencies began behind the cut and lacks all of it.
    assert_eq!(stats["stores"][0]["missed"], PAGE + 7);
    drop(bus);
}

#[test]
fn a_time_is_found_or_refused_and_never_answered_with_another_one() {
    let (dir, bus, door) = world();
    let dir = dir.path();
    let place = PAGE + 200;
    let from = place.to_string();
    let record = answer(dir, &["log", "--from", &from, "--to", &from]);
    let at = record["at"].as_u64().unwrap() % 86_400_000;
    assert!(at < 60_000, "the rig's clock ticks a few times a record");
    let time = format!("2026-11-30T00:00:{:02}.{:03}Z", at / 1000, at % 1000);

    let then = door.run(dir, place - 1, &["at", &time, "--json"]);
    assert_eq!(then.status.code(), Some(0), "{}", text(&then.stderr));
    let then: Value = serde_json::from_slice(&then.stdout).unwrap();
    assert_eq!(then["stores"][0]["seq"], place);
    drop(bus);
}

#[test]
fn a_time_whose_record_goes_before_it_was_read_is_refused() {
    let (dir, bus, door) = world();
    let dir = dir.path();
    // The newest record of the first page: what came between it and the cut is not known any more.
    let first = answer(dir, &["log", "--from", "1", "--to", "1"]);
    let at = first["at"].as_u64().unwrap() % 86_400_000 + PAGE;
    let time = format!("2026-11-30T00:00:{:02}.{:03}Z", at / 1000, at % 1000);
    let then = door.run(dir, RECORDS - 1, &["at", &time, "--json"]);
    assert_eq!(then.status.code(), Some(1), "{}", text(&then.stderr));
    let beside: Value = serde_json::from_slice(&then.stderr).unwrap();
    conforms("stderr", &beside);
    assert_eq!(beside["error"]["exit"], 1);
    let message = beside["error"]["message"].as_str().unwrap();
    assert!(message.contains("compacted"), "{message}");
    drop(bus);
}
