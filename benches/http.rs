//! The broker over loopback HTTP: send, and send + recv + ack, by keep-alive connections in a closed
//! loop. The comparison with another broker is `contrib/bench/compare.py`; this one tracks our own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use interlink::bus::{Config, Handle, spawn};
use interlink::domain::decide::bus::{Overflow, QueueLimits};
use interlink::store::{Location, OpenOptions};
use interlink::system::SystemClock;

/// Bytes of payload in every message.
const BODY: usize = 512;

struct Bus {
    addr: SocketAddr,
    handle: Option<Handle>,
    runtime: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Bus {
    fn start() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let config = Config {
            addr: "127.0.0.1:0".into(),
            store: OpenOptions::exclusive(Location::File(dir.path().join("bus.redb"))),
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
            verify_presence: false,
            relay: None,
            admin: None,
            clock: Arc::new(SystemClock),
            upkeep: Duration::from_secs(60),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let handle = runtime.block_on(spawn(config)).expect("a bus starts");
        Bus {
            addr: handle.addr,
            handle: Some(handle),
            runtime,
            _dir: dir,
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.runtime.block_on(handle.shutdown());
        }
    }
}

/// What a connection does in a closed loop.
type Op = fn(&mut Connection);

/// One keep-alive connection with its own recipient.
struct Connection {
    stream: TcpStream,
    addr: SocketAddr,
    me: String,
    sent: u64,
    buf: Vec<u8>,
}

impl Connection {
    fn new(addr: SocketAddr, n: usize) -> Self {
        let stream = TcpStream::connect(addr).expect("the bus listens");
        stream.set_nodelay(true).expect("a socket option");
        let me = format!("{n:0>43}");
        Connection {
            stream,
            addr,
            me,
            sent: 0,
            buf: vec![0; 64 * 1024],
        }
    }

    fn request(&mut self, head: &str, body: &str) -> String {
        let length = if body.is_empty() {
            String::new()
        } else {
            let len = body.len();
            format!("content-type: application/json\r\ncontent-length: {len}\r\n")
        };
        let text = format!(
            "{head} HTTP/1.1\r\nhost: {}\r\n{length}\r\n{body}",
            self.addr
        );
        self.stream.write_all(text.as_bytes()).expect("written");
        let mut have = 0;
        loop {
            have += self.stream.read(&mut self.buf[have..]).expect("answered");
            let text = std::str::from_utf8(&self.buf[..have]).expect("text");
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                assert!(head.starts_with("HTTP/1.1 20"), "{head}");
                let length = head
                    .lines()
                    .find_map(|l| l.strip_prefix("content-length: "));
                let length: usize = length.map_or(0, |l| l.parse().expect("a number"));
                if body.len() == length {
                    return body.to_owned();
                }
            }
        }
    }

    fn send(&mut self) {
        self.sent += 1;
        // A queue stays far from its cap.
        let to = format!("{}{}", self.me, self.sent / 32);
        let payload = format!(
            "{{\"n\":{},\"x\":\"{}\"}}",
            self.sent,
            "x".repeat(BODY - 20)
        );
        self.request(
            "POST /send",
            &format!("{{\"to\":\"{to}\",\"payload\":{payload}}}"),
        );
    }

    fn cycle(&mut self) {
        self.send();
        let me = format!("{}{}", self.me, self.sent / 32);
        let answer = self.request(&format!("GET /recv?me={me}&timeout_ms=5000"), "");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        let ack = serde_json::json!({ "me": me, "ack": answer["ack"] });
        self.request("POST /ack", &ack.to_string());
    }
}

/// Runs `rounds` operations on every connection at once; the time of the slowest.
fn rounds(connections: &mut [Connection], rounds: u64, op: Op) -> Duration {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for connection in connections {
            scope.spawn(move || (0..rounds).for_each(|_| op(connection)));
        }
    });
    started.elapsed()
}

fn http(c: &mut Criterion) {
    let mut group = c.benchmark_group("http");
    group
        .measurement_time(Duration::from_secs(4))
        .sample_size(10);
    let ops: [(&str, Op); 2] = [
        ("send", Connection::send),
        ("send_recv_ack", Connection::cycle),
    ];
    for (name, op) in ops {
        for conns in [1usize, 16, 64] {
            let bus = Bus::start();
            let mut connections: Vec<_> =
                (0..conns).map(|n| Connection::new(bus.addr, n)).collect();
            group.throughput(Throughput::Elements(conns as u64));
            group.bench_function(BenchmarkId::new(name, format!("conns={conns}")), |b| {
                b.iter_custom(|n| rounds(&mut connections, n, op));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, http);
criterion_main!(benches);
