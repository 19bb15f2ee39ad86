//! `interlink-bus` as a process: exit codes, signals, files, a failing disk.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::{Conn, DEADLINE};

fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-bus"));
    command.env_clear().env("HOME", home);
    command
}

/// A run that must end by itself.
fn run(home: &Path, args: &[&str]) -> (i32, String) {
    let output: Output = command(home).args(args).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), stderr)
}

/// A running bus; killed on drop.
struct Running {
    child: Child,
    addr: SocketAddr,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut running = Running {
            child,
            addr: ([127, 0, 0, 1], 0).into(),
            stderr,
        };
        let mut seen = String::new();
        while running.addr.port() == 0 {
            let mut line = String::new();
            let read = running.stderr.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "it ended: {seen}");
            seen.push_str(&line);
            if let Some((_, rest)) = line.split_once("listening on ") {
                running.addr = rest.split_whitespace().next().unwrap().parse().unwrap();
            }
        }
        running
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_bus_that_hangs_on_its_input_ends_with_it() {
    let home = tempfile::tempdir().unwrap();
    let mut command = command(home.path());
    command.args(["--addr", "127.0.0.1:0", "--end-with-stdin"]);
    let mut bus = Running::start({
        command.stdin(Stdio::piped());
        command
    });
    assert_eq!(
        Conn::open(bus.addr).get("/healthz").status,
        200,
        "it runs while its input is open"
    );
    drop(bus.child.stdin.take());
    assert_eq!(bus.wait().code(), Some(0));
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn version_and_help_go_to_standard_output() {
    let home = tempfile::tempdir().unwrap();
    let output = command(home.path()).arg("--version").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let version = format!("interlink-bus {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), version);
    let output = command(home.path()).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(
        help.contains("Exit codes:") && help.contains("INTERLINK_QUEUE_CAP"),
        "{help}"
    );
    assert_eq!(run(home.path(), &["--no-such-flag"]).0, 2);
    assert_eq!(run(home.path(), &["--memory", "--addr", "nonsense"]).0, 2);
    assert_eq!(run(home.path(), &["--memory", "--queue-bytes", "1.5"]).0, 2);
}

#[test]
fn a_port_or_store_in_use_has_its_own_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let (code, stderr) = run(home.path(), &["--memory", "--addr", &addr]);
    assert_eq!(code, 3, "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains(&addr) && stderr.contains("--addr"),
        "{stderr}"
    );

    let db = home.path().join("bus.redb");
    let db = db.to_str().unwrap();
    let mut first = command(home.path());
    first.args(["--addr", "127.0.0.1:0", "--db", db]);
    let first = Running::start(first);
    let (code, stderr) = run(home.path(), &["--addr", "127.0.0.1:0", "--db", db]);
    assert_eq!(code, 4, "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(&first.child.id().to_string()), "{stderr}");
}

#[test]
fn a_damaged_store_is_reported_and_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let db = home.path().join("bus.redb");
    let junk = b"this is no store".repeat(1000);
    std::fs::write(&db, &junk).unwrap();
    let args = ["--addr", "127.0.0.1:0", "--db", db.to_str().unwrap()];
    let (code, stderr) = run(home.path(), &args);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("bus.redb"), "{stderr}");
    assert_eq!(std::fs::read(&db).unwrap(), junk);
}

#[test]
fn a_store_of_a_newer_program_is_reported_and_left_alone() {
    const META: redb::TableDefinition<'static, &'static str, &'static [u8]> =
        redb::TableDefinition::new("meta");
    let home = tempfile::tempdir().unwrap();
    let db = home.path().join("bus.redb");
    let args = ["--addr", "127.0.0.1:0", "--db", db.to_str().unwrap()];
    let mut bus = command(home.path());
    bus.args(args);
    let mut bus = Running::start(bus);
    bus.signal("TERM");
    bus.wait();
    let set = |key: &str, value: &[u8]| {
        let store = redb::Database::open(&db).unwrap();
        let txn = store.begin_write().unwrap();
        txn.open_table(META).unwrap().insert(key, value).unwrap();
        txn.commit().unwrap();
    };
    set("format", &99u32.to_le_bytes());
    let (code, stderr) = run(home.path(), &args);
    assert_eq!(code, 5, "{stderr}");
    assert!(stderr.contains("99"), "{stderr}");
    set("format", &1u32.to_le_bytes());
    set("kind", b"agent");
    let (code, stderr) = run(home.path(), &args);
    assert_eq!(code, 7, "{stderr}");
}

#[test]
fn the_default_store_is_private_and_found_again() {
    let home = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = command(home.path());
        command
            .env("INTERLINK_ADDR", "localhost:0")
            .env("INTERLINK_QUEUE_CAP", "0");
        Running::start(command)
    };
    let mut bus = start();
    Conn::open(bus.addr).send("a", json!("kept"));
    let dir = home.path().join(".local/state/interlink");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o700);
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
    assert!(dir.join("bus.redb.admin").exists());
    bus.signal("KILL");
    bus.wait();

    let mut bus = start();
    let mut conn = Conn::open(bus.addr);
    assert_eq!(conn.peek("a")["envelope"]["payload"], "kept");
    assert_eq!(conn.get("/status").json()["limits"]["queue_messages"], 1);
    bus.signal("INT");
    assert_eq!(bus.wait().code(), Some(0));
    assert!(!dir.join("bus.redb.admin").exists());
}

#[test]
fn a_signal_ends_the_bus_within_two_seconds_and_answers_the_waiters() {
    let home = tempfile::tempdir().unwrap();
    let mut command = command(home.path());
    command.args(["--addr", "127.0.0.1:0", "--memory"]);
    let mut bus = Running::start(command);
    let mut parked = Conn::open(bus.addr);
    parked.start("GET", "/recv?me=a&timeout_ms=20000", &[], None);
    // A request that never ends, and a connection that idles.
    let mut stuck = Conn::open(bus.addr);
    stuck.write(b"POST /send HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{");
    let mut idle = Conn::open(bus.addr);
    let end = Instant::now() + DEADLINE;
    while idle.get("/status").json()["waiters"] != 1 {
        assert!(Instant::now() < end);
    }
    let start = Instant::now();
    bus.signal("TERM");
    assert_eq!(parked.finish("GET").text(), r#"{"status":"timeout"}"#);
    assert_eq!(bus.wait().code(), Some(0));
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert!(idle.closed());
}

#[test]
fn at_the_end_every_waiter_is_answered_and_half_a_head_is_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let mut command = command(home.path());
    command.args(["--addr", "127.0.0.1:0", "--memory"]);
    let mut bus = Running::start(command);
    let mut half = Conn::open(bus.addr);
    assert_eq!(half.get("/healthz").status, 200);
    half.write(b"GET /recv?me=a HTT");
    // Its body is under way, so that the bus waits for it and everybody sees who is let go before.
    let mut sending = Conn::open(bus.addr);
    let body = json!({ "to": "b", "payload": 1 }).to_string();
    let (first, rest) = body.as_bytes().split_at(5);
    let head = format!(
        "POST /send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    sending.write(head.as_bytes());
    sending.write(first);
    let mut parked: Vec<Conn> = (0..60)
        .map(|i| {
            let mut conn = Conn::open(bus.addr);
            let target = format!("/recv?me=q{i}&timeout_ms=60000");
            conn.start("GET", &target, &[], None);
            conn
        })
        .collect();
    let end = Instant::now() + DEADLINE;
    let mut look = Conn::open(bus.addr);
    while look.get("/status").json()["waiters"] != 60 {
        assert!(Instant::now() < end);
    }
    bus.signal("TERM");
    for conn in &mut parked {
        assert_eq!(conn.finish("GET").text(), r#"{"status":"timeout"}"#);
        assert!(conn.closed());
    }
    assert!(half.closed() && look.closed());
    sending.write(rest);
    sending.finish("POST").is_empty(202);
    assert_eq!(bus.wait().code(), Some(0));
}

#[test]
fn a_disk_that_refuses_to_grow_stops_writes_and_not_reads() {
    let home = tempfile::tempdir().unwrap();
    // Files may grow to 512 KiB; the ignored signal turns the limit into an error of the write.
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" --addr 127.0.0.1:0 --db \"$1\"";
    let db = home.path().join("bus.redb");
    let mut command = Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_interlink-bus")])
        .arg(&db)
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin");
    let bus = Running::start(command);
    let mut conn = Conn::open(bus.addr);
    assert_eq!(conn.get("/readyz").status, 200);
    let mut accepted = 0u64;
    let refused = loop {
        let payload = format!("{accepted} {}", "x".repeat(20_000));
        let body = json!({"to": "a", "payload": payload}).to_string();
        let reply = conn.post("/send", &body);
        if reply.status != 202 {
            break reply;
        }
        accepted += 1;
        assert!(accepted < 1000, "the limit does not bite");
    };
    let problem = refused.is_problem(503);
    assert!(problem["reason"].is_string(), "{problem}");
    assert!(refused.header("retry-after").is_some());
    assert!(accepted > 0);
    conn.get("/readyz").is_problem(503);
    assert_eq!(conn.get("/healthz").status, 200);
    assert_eq!(conn.get("/status").json()["health"], "read-only");
    let got = conn.get("/recv?me=a&timeout_ms=0&max=256").json();
    assert_eq!(got["messages"].as_array().unwrap().len() as u64, accepted);
}

#[test]
fn bodies_and_tokens_are_in_no_log() {
    let home = tempfile::tempdir().unwrap();
    let mut command = command(home.path());
    command.args(["--addr", "127.0.0.1:0", "--db"]);
    command.arg(home.path().join("bus.redb"));
    command.env("RUST_LOG", "trace,hyper::proto=trace");
    let mut bus = Running::start(command);
    let admin = std::fs::read(home.path().join("bus.redb.admin")).unwrap();
    let admin: serde_json::Value = serde_json::from_slice(&admin).unwrap();
    let bearer = format!("Bearer {}", admin["token"].as_str().unwrap());
    let mut conn = Conn::open(bus.addr);
    conn.send("a", json!("needle-in-the-body"));
    assert_eq!(conn.peek("a")["status"], "message");
    let headers = [("authorization", bearer.as_str())];
    let got = conn.request("GET", "/admin/v1/status", &headers, None);
    assert_eq!(got.status, 200);
    bus.signal("TERM");
    bus.wait();
    let mut log = String::new();
    bus.stderr.read_to_string(&mut log).unwrap();
    assert!(log.contains("SIGTERM"), "{log}");
    for secret in ["needle", admin["token"].as_str().unwrap(), "\u{1b}["] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
