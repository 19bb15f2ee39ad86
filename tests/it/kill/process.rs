//! Real processes that may be killed at any moment, and ways to talk to them that expect it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use interlink::testkit::Rng;
use serde_json::{Value, json};

use crate::mcp_support::{eventually, initialize, signal};

/// Longer than any answer takes; who waits longer has found a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Where a process stands, one after the other. What stands there is killed and reaped at the end,
/// also that of a failed test.
pub(crate) struct Slot {
    child: Mutex<Option<Child>>,
    killed: AtomicBool,
    log: PathBuf,
}

impl Slot {
    /// Its processes write their standard error to `log`.
    pub(crate) fn new(log: PathBuf) -> Slot {
        Slot {
            child: Mutex::default(),
            killed: AtomicBool::new(false),
            log,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the next process.
    pub(crate) fn start(&self, command: &mut Command) -> (Option<ChildStdin>, Option<Lines>) {
        let mut slot = self.lock();
        assert!(slot.is_none(), "the place is taken");
        let log: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        self.killed.store(false, Ordering::SeqCst);
        let mut child = command.stderr(log).spawn().unwrap();
        let pipes = (child.stdin.take(), child.stdout.take().map(Lines::of));
        *slot = Some(child);
        pipes
    }

    /// SIGKILL, if something runs there.
    pub(crate) fn kill(&self) {
        if let Some(child) = self.lock().as_mut() {
            self.killed.store(true, Ordering::SeqCst);
            child.kill().unwrap();
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.lock().as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Reaps a process that must have been killed.
    pub(crate) fn reap(&self) {
        let Some(mut child) = self.lock().take() else {
            return;
        };
        let status = eventually("the end of a process", || child.try_wait().unwrap());
        let ours = self.killed.load(Ordering::SeqCst) && status.signal() == Some(9);
        assert!(ours, "it ended by itself: {status}\n{}", self.log());
    }

    /// Asks for an orderly end.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
        let mut child = self.lock().take().unwrap();
        let status = eventually("the end of a process", || child.try_wait().unwrap());
        assert!(status.success(), "{status}\n{}", self.log());
    }

    /// What its processes said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(mut child) = self.lock().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            let log = self.log();
            let tail = log.len().saturating_sub(4000);
            let tail = (tail..log.len()).find(|at| log.is_char_boundary(*at));
            eprintln!(
                "--- {}:\n{}",
                self.log.display(),
                &log[tail.unwrap_or(log.len())..]
            );
        }
    }
}

/// JSON lines of a process.
pub(crate) struct Lines(Receiver<Value>);

impl Lines {
    fn of(stdout: std::process::ChildStdout) -> Lines {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = String::new();
            // A killed process may leave half a line: that one has no line feed.
            while reader.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
                let value = serde_json::from_str(&line)
                    .unwrap_or_else(|e| panic!("not JSON on standard output: {e}: {line:?}"));
                if sender.send(value).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Lines(receiver)
    }
}

/// A free port below those that outgoing connections get: nobody takes it while the bus is dead,
/// and nobody connects to himself on it.
pub(crate) fn quiet_addr() -> SocketAddr {
    let mut rng = Rng::new(u64::from(std::process::id()) ^ u64::from(unique()) << 32);
    loop {
        let port = 20_000 + u16::try_from(rng.below(10_000)).unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(addr).is_ok() {
            return addr;
        }
    }
}

fn unique() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A bus with one address and one store, whichever process serves it.
pub(crate) struct BusPlace {
    pub(crate) slot: Slot,
    pub(crate) addr: SocketAddr,
    pub(crate) db: PathBuf,
    home: PathBuf,
    args: Vec<String>,
    pub(crate) rust_log: Option<&'static str>,
}

impl BusPlace {
    pub(crate) fn new(home: &Path, args: &[&str]) -> BusPlace {
        BusPlace {
            slot: Slot::new(home.join("bus.log")),
            addr: quiet_addr(),
            db: home.join("bus.redb"),
            home: home.to_owned(),
            args: args.iter().map(|&a| a.to_owned()).collect(),
            rust_log: None,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn start(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-bus"));
        command
            .env_clear()
            .env("HOME", &self.home)
            .args(["--addr", &self.addr.to_string(), "--db"])
            .arg(&self.db)
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Some(filter) = self.rust_log {
            command.env("RUST_LOG", filter);
        }
        self.slot.start(&mut command);
    }

    /// Waits until it answers.
    pub(crate) fn ready(&self) {
        eventually("an answer of the bus", || {
            let mut conn = RawConn::open(self.addr).ok()?;
            let (status, _) = conn.request("GET", "/readyz", None).ok()?;
            (status == 200).then_some(())
        });
    }

    pub(crate) fn kill_and_restart(&self) {
        self.slot.kill();
        self.slot.reap();
        self.start();
    }
}

/// An HTTP connection whose other end may die.
pub(crate) struct RawConn {
    stream: BufReader<TcpStream>,
    host: String,
}

impl RawConn {
    pub(crate) fn open(addr: SocketAddr) -> io::Result<RawConn> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(RawConn {
            stream: BufReader::new(stream),
            host: addr.to_string(),
        })
    }

    /// Status and body; an error leaves open whether the request was carried out.
    pub(crate) fn request(
        &mut self,
        method: &str,
        target: &str,
        body: Option<&Value>,
    ) -> io::Result<(u16, Vec<u8>)> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.stream.get_mut().write_all(head.as_bytes())?;
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 || !line.ends_with('\n') {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if status.is_none() {
                let code = line.strip_prefix("HTTP/1.1 ").and_then(|l| l.get(..3));
                status = Some(code.and_then(|c| c.parse().ok()).ok_or_else(broken)?);
            } else if let Some(n) = line.strip_prefix("content-length: ") {
                length = n.parse().map_err(|_| broken())?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status.ok_or_else(broken)?, body))
    }
}

/// The process at the other end is gone.
#[derive(Debug)]
pub(crate) struct Gone;

/// A connection to one channel server process.
pub(crate) struct Link {
    stdin: ChildStdin,
    lines: Lines,
    slot: Arc<Slot>,
    id: u64,
}

impl Link {
    /// Starts a channel server and opens the session.
    pub(crate) fn open(slot: &Arc<Slot>, command: &mut Command) -> Result<Link, Gone> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (stdin, lines) = slot.start(command);
        let mut link = Link {
            stdin: stdin.unwrap(),
            lines: lines.unwrap(),
            slot: Arc::clone(slot),
            id: 0,
        };
        let hello = link.request("initialize", &initialize("2025-06-18"))?;
        assert!(hello["result"]["serverInfo"].is_object(), "{hello}");
        link.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(link)
    }

    fn write(&mut self, value: &Value) -> Result<(), Gone> {
        self.stdin
            .write_all(format!("{value}\n").as_bytes())
            .map_err(|_| Gone)
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Gone> {
        self.id += 1;
        let id = self.id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            match self.lines.0.recv_timeout(PATIENCE) {
                Ok(value) if value["id"] == id => return Ok(value),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Gone),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no answer to {params}\n{}", self.slot.log())
                }
            }
        }
    }

    /// Calls a tool: its data, or what it said instead.
    pub(crate) fn call(
        &mut self,
        tool: &str,
        arguments: &Value,
    ) -> Result<Result<Value, String>, Gone> {
        let params = json!({ "name": tool, "arguments": arguments });
        let mut answer = self.request("tools/call", &params)?;
        if answer["result"]["isError"] == false {
            return Ok(Ok(answer["result"]["structuredContent"].take()));
        }
        Ok(Err(answer["error"]["message"]
            .as_str()
            .map_or_else(|| answer.to_string(), str::to_owned)))
    }
}
