//! HTTP/1.1 by hand, so that a test sees exactly what is on the wire; and a bus in this process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use interlink::bus::{Config, Handle, spawn};
use interlink::domain::decide::bus::{Overflow, QueueLimits};
use interlink::store::{Location, OpenOptions};
use interlink::system::SystemClock;
use interlink::types::time::{Clock, UnixMillis};
use serde_json::Value;

/// Longer than anything here takes; a test that waits longer fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A wall clock that stands still until it is moved.
#[derive(Debug)]
pub(crate) struct FakeClock(AtomicU64);

impl FakeClock {
    pub(crate) fn new(ms: u64) -> Arc<FakeClock> {
        Arc::new(FakeClock(AtomicU64::new(ms)))
    }

    pub(crate) fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }
}

/// A bus on a free port of this machine.
pub(crate) struct Bus {
    pub(crate) addr: SocketAddr,
    handle: Option<Handle>,
    runtime: tokio::runtime::Runtime,
}

impl Bus {
    /// In memory, with the usual bounds.
    pub(crate) fn start() -> Bus {
        Bus::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Bus {
        let mut config = Config {
            addr: "127.0.0.1:0".into(),
            store: OpenOptions::exclusive(Location::Memory),
            limits: QueueLimits {
                messages: 1024,
                bytes: 64 << 20,
                store_bytes: 4 << 30,
                queues: 65_536,
                overflow: Overflow::DropOldest,
            },
            max_waiters: 4096,
            message_ttl_ms: 14 * 86_400_000,
            allow_origins: vec![],
            admin: None,
            verify_presence: false,
            relay: None,
            clock: Arc::new(SystemClock),
            upkeep: Duration::from_secs(60),
        };
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.block_on(spawn(config)).unwrap();
        Bus {
            addr: handle.addr,
            handle: Some(handle),
            runtime,
        }
    }

    pub(crate) fn connect(&self) -> Conn {
        Conn::open(self.addr)
    }

    /// Where its relay listens, if it has one.
    pub(crate) fn relay_addr(&self) -> Option<SocketAddr> {
        self.handle.as_ref().and_then(|handle| handle.relay_addr)
    }

    /// Ends the bus in an orderly way.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.runtime.block_on(handle.shutdown());
        }
    }

    /// Waits until `/status` satisfies a condition.
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + DEADLINE;
        let mut conn = self.connect();
        loop {
            let status = conn.get("/status").json();
            if condition(&status) {
                return status;
            }
            assert!(Instant::now() < end, "never: {what}; last {status}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.end();
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n == name);
        let first = found.next()?;
        assert!(found.next().is_none(), "{name} twice");
        Some(&first.1)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Checks that this is a success without a body.
    #[track_caller]
    pub(crate) fn is_empty(&self, status: u16) {
        assert_eq!(
            (self.status, self.text(), self.header("content-type")),
            (status, "", None)
        );
        assert_eq!(self.header("content-length"), Some("0"));
    }

    /// Checks that this is a problem document (RFC 9457) with that status; returns it.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["type"].is_string());
        problem
    }
}

/// One connection.
pub(crate) struct Conn {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Conn {
    pub(crate) fn open(addr: SocketAddr) -> Conn {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Conn {
            stream: BufReader::new(stream),
            host: addr.to_string(),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Writes a request with `Host`, the given headers and, where there is a body, its length.
    pub(crate) fn start(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) {
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.write(&bytes);
    }

    /// Reads an answer; that to a HEAD has no body.
    pub(crate) fn finish(&mut self, method: &str) -> Reply {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3))
            .unwrap_or_else(|| panic!("no status line: {line:?}"))
            .parse()
            .unwrap();
        let mut headers = vec![];
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_owned(), value.to_owned()));
        }
        let mut reply = Reply {
            status,
            headers,
            body: vec![],
        };
        let length = reply
            .header("content-length")
            .map_or(0, |v| v.parse().unwrap());
        if method != "HEAD" {
            reply.body = vec![0; length];
            self.stream.read_exact(&mut reply.body).unwrap();
        }
        reply
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Reply {
        self.start(method, target, headers, body);
        self.finish(method)
    }

    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.request("GET", target, &[], None)
    }

    pub(crate) fn post(&mut self, target: &str, body: &str) -> Reply {
        let headers = [("content-type", "application/json")];
        self.request("POST", target, &headers, Some(body.as_bytes()))
    }

    /// Sends a payload and wants it accepted without remarks.
    #[track_caller]
    pub(crate) fn send(&mut self, to: &str, payload: Value) {
        let body = serde_json::json!({"to": to, "payload": payload}).to_string();
        self.post("/send", &body).is_empty(202);
    }

    /// Looks without waiting; the queue name goes into the query as it is.
    pub(crate) fn peek(&mut self, me: &str) -> Value {
        let reply = self.get(&format!("/recv?me={me}&timeout_ms=0"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    /// Whether the peer has closed this connection.
    pub(crate) fn closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.stream.read(&mut byte), Ok(0) | Err(_))
    }
}
