//! A relay that wants to do harm: it answers each request as it is told, and keeps count.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request as the relay saw it.
pub(crate) struct Request {
    /// `GET /recv`, without the query.
    pub(crate) route: String,
    /// How many of this route came before it.
    pub(crate) n: u64,
    pub(crate) body: Vec<u8>,
}

/// What to do about a request.
pub(crate) enum Act {
    /// A whole answer.
    Reply(u16, String),
    /// The same with further header lines, each with its line end.
    Headers(u16, String, String),
    /// These bytes, and the connection is closed.
    Raw(Vec<u8>),
    /// These bytes, then the pattern again and again, until the client hangs up.
    Endless(Vec<u8>, Vec<u8>),
    /// One byte after the other, slowly, of an answer that never ends.
    Drip,
    /// The connection is reset.
    Reset,
    /// Nothing, ever.
    Silence,
}

/// What the relay saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) recv: AtomicU64,
    pub(crate) send: AtomicU64,
    pub(crate) ack: AtomicU64,
    pub(crate) announce: AtomicU64,
    pub(crate) roster: AtomicU64,
    other: AtomicU64,
    /// Bytes that a client took of one endless answer, at most.
    pub(crate) swallowed: AtomicU64,
    /// Endless answers that a client hung up on.
    pub(crate) hung_up: AtomicU64,
    /// Messages that were posted.
    pub(crate) posted: Mutex<Vec<serde_json::Value>>,
    /// Bodies of `POST /ack`.
    pub(crate) acks: Mutex<Vec<serde_json::Value>>,
}

impl Seen {
    fn counter(&self, route: &str) -> &AtomicU64 {
        match route {
            "GET /recv" => &self.recv,
            "POST /send" => &self.send,
            "POST /ack" => &self.ack,
            "POST /announce" => &self.announce,
            "GET /roster" => &self.roster,
            _ => &self.other,
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

pub(crate) struct Hostile {
    pub(crate) addr: SocketAddr,
    pub(crate) seen: Arc<Seen>,
}

impl Hostile {
    pub(crate) fn start(behave: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Hostile {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (behave, into) = (Arc::new(behave), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (behave, into) = (Arc::clone(&behave), Arc::clone(&into));
                thread::spawn(move || converse(stream, &*behave, &into));
            }
        });
        Hostile { addr, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

/// Reads requests and does as told until one side has enough.
fn converse(stream: TcpStream, behave: &dyn Fn(&Request) -> Act, seen: &Seen) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let request = read(&mut reader, seen)?;
        match behave(&request) {
            Act::Reply(status, body) => reply(&mut writer, status, "", &body)?,
            Act::Headers(status, headers, body) => reply(&mut writer, status, &headers, &body)?,
            Act::Raw(bytes) => return writer.write_all(&bytes).ok(),
            Act::Endless(start, pattern) => {
                endless(&mut writer, &start, &pattern, seen);
                return None;
            }
            Act::Drip => {
                let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{";
                writer.write_all(head).ok()?;
                loop {
                    thread::sleep(Duration::from_millis(200));
                    writer.write_all(b" ").ok()?;
                }
            }
            Act::Reset => {
                // Closing with unread input resets the connection; lingering is not needed.
                let _ = writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{");
                return None;
            }
            Act::Silence => {
                thread::park();
                return None;
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>, seen: &Seen) -> Option<Request> {
    let mut first = String::new();
    let mut length = 0;
    reader.read_line(&mut first).ok().filter(|n| *n > 0)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|n| *n > 0)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(n) = header.strip_prefix("content-length:") {
            length = n.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let route = format!("{method} {}", target.split('?').next()?);
    let n = seen.counter(&route).fetch_add(1, Ordering::SeqCst);
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(&body) {
        match route.as_str() {
            "POST /send" => seen.posted.lock().unwrap().push(value),
            "POST /ack" => seen.acks.lock().unwrap().push(value),
            _ => {}
        }
    }
    Some(Request { route, n, body })
}

fn reply(writer: &mut TcpStream, status: u16, headers: &str, body: &str) -> Option<()> {
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\ncontent-type: application/json\r\n{headers}\r\n",
        body.len()
    );
    writer.write_all(head.as_bytes()).ok()?;
    writer.write_all(body.as_bytes()).ok()
}

fn endless(writer: &mut TcpStream, start: &[u8], pattern: &[u8], seen: &Seen) {
    let mut taken = 0u64;
    let mut next = start;
    while writer.write_all(next).is_ok() {
        taken += next.len() as u64;
        seen.swallowed.fetch_max(taken, Ordering::SeqCst);
        next = pattern;
    }
    seen.hung_up.fetch_add(1, Ordering::SeqCst);
}
