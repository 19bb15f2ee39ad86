//! A relay for sealed sessions that does as it is told, and two channel servers around it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp_support::{Agent, Home, Human, eventually};

/// What a relay was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// What it answers: status, further header lines, body. `None` keeps silent.
pub(crate) type Said = Option<(u16, String, String)>;

/// An answer in the relay's place; the outer `None` leaves it to the relay.
pub(crate) type Meddler = Box<dyn FnMut(&Asked) -> Option<Said> + Send>;

#[derive(Default)]
struct Room {
    peers: Vec<String>,
    host_key: String,
    next: u64,
    oldest: u64,
    queue: Vec<(u64, String, Value)>,
}

impl Room {
    fn push(&mut self, from: &str, payload: Value) {
        self.queue.push((self.next, from.to_owned(), payload));
        self.next += 1;
    }
}

#[derive(Default)]
struct Inner {
    rooms: BTreeMap<String, Room>,
    log: Vec<Asked>,
    meddler: Option<Meddler>,
}

/// A relay on a port of its own.
pub(crate) struct BondRelay {
    pub(crate) addr: SocketAddr,
    inner: Arc<(Mutex<Inner>, Condvar)>,
}

impl BondRelay {
    pub(crate) fn start() -> BondRelay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let inner: Arc<(Mutex<Inner>, Condvar)> = Arc::default();
        let into = Arc::clone(&inner);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let inner = Arc::clone(&into);
                thread::spawn(move || converse(stream, &inner));
            }
        });
        BondRelay { addr, inner }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Answers in the relay's place from now on.
    pub(crate) fn meddle(&self, meddler: impl FnMut(&Asked) -> Option<Said> + Send + 'static) {
        self.inner.0.lock().unwrap().meddler = Some(Box::new(meddler));
    }

    /// Everything that was asked at a path so far.
    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        let inner = self.inner.0.lock().unwrap();
        let fits = |asked: &&Asked| asked.path == path;
        inner.log.iter().filter(fits).cloned().collect()
    }

    /// The session is gone, as after the relay's restart.
    pub(crate) fn forget(&self) {
        self.inner.0.lock().unwrap().rooms.clear();
        self.inner.1.notify_all();
    }

    /// Puts something into every session, as if somebody had sent it.
    pub(crate) fn inject(&self, from: &str, payload: &Value) {
        for room in self.inner.0.lock().unwrap().rooms.values_mut() {
            room.push(from, payload.clone());
        }
        self.inner.1.notify_all();
    }

    /// Members of the only session.
    pub(crate) fn members(&self) -> usize {
        let inner = self.inner.0.lock().unwrap();
        inner.rooms.values().map(|room| room.peers.len()).sum()
    }
}

fn converse(stream: TcpStream, inner: &(Mutex<Inner>, Condvar)) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let asked = read(&mut reader)?;
        let meddled = {
            let mut inner = inner.0.lock().unwrap();
            inner.log.push(asked.clone());
            inner.meddler.as_mut().and_then(|meddler| meddler(&asked))
        };
        let (status, headers, text) = match meddled {
            Some(Some(said)) => said,
            Some(None) => {
                thread::park();
                return None;
            }
            None => {
                let (status, value) = serve(inner, &asked);
                (status, String::new(), value.to_string())
            }
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\ncontent-type: application/json\r\n{headers}\r\n",
            text.len()
        );
        writer.write_all(head.as_bytes()).ok()?;
        writer.write_all(text.as_bytes()).ok()?;
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|n| *n > 0)?;
    let mut length = 0;
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
    let target = first.split(' ').nth(1)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query.split('&').filter_map(|part| part.split_once('='));
    Some(Asked {
        path: path.to_owned(),
        query: query.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

fn refuse(status: u16, code: &str, text: &str) -> (u16, Value) {
    (status, json!({ "error": text, "code": code }))
}

fn serve(inner: &(Mutex<Inner>, Condvar), asked: &Asked) -> (u16, Value) {
    let (lock, bell) = inner;
    let text = |name: &str| asked.body[name].as_str().unwrap_or_default().to_owned();
    if asked.path == "/poll" {
        return poll(inner, asked);
    }
    let mut guard = lock.lock().unwrap();
    let rooms = &mut guard.rooms;
    let id = text("routingId");
    let answer = match asked.path.as_str() {
        "/create" => {
            if rooms.contains_key(&id) {
                return refuse(403, "ERR_SESSION_FULL", "Session is full");
            }
            let room = Room {
                peers: vec![text("peerId")],
                host_key: text("publicKey"),
                next: 1,
                oldest: 1,
                queue: vec![],
            };
            rooms.insert(id.clone(), room);
            json!({ "ok": true, "routingId": id, "expiresAt": 0 })
        }
        "/join" => {
            let Some(room) = rooms.get_mut(&id) else {
                return refuse(404, "ERR_SESSION_NOT_FOUND", "Session not found");
            };
            if room.peers.len() >= 2 {
                return refuse(403, "ERR_SESSION_FULL", "Session is full");
            }
            room.peers.push(text("peerId"));
            let joined = json!({ "type": "peer_joined", "peerId": text("peerId"), "publicKey": text("publicKey") });
            room.push("system", joined);
            json!({ "ok": true, "hostPublicKey": room.host_key, "peerCount": room.peers.len() })
        }
        "/send" => {
            let Some(room) = rooms.get_mut(&id) else {
                return refuse(404, "ERR_SESSION_NOT_FOUND", "Session not found");
            };
            let from = text("fromPeerId");
            if !room.peers.contains(&from) {
                return refuse(403, "ERR_UNAUTHORIZED", "Unauthorized access");
            }
            room.push(&from, asked.body["encryptedPayload"].clone());
            json!({ "ok": true })
        }
        "/disconnect" => {
            if let Some(room) = rooms.get_mut(&id) {
                let from = text("peerId");
                room.peers.retain(|peer| *peer != from);
                room.push("system", json!({ "type": "disconnect", "peerId": from }));
                if room.peers.is_empty() {
                    rooms.remove(&id);
                }
            }
            json!({ "ok": true })
        }
        _ => return refuse(404, "ERR_NOT_FOUND", "Endpoint not found"),
    };
    bell.notify_all();
    (200, answer)
}

/// Holds an empty answer for up to four seconds.
fn poll(inner: &(Mutex<Inner>, Condvar), asked: &Asked) -> (u16, Value) {
    let (lock, bell) = inner;
    let get = |name: &str| asked.query.get(name).cloned().unwrap_or_default();
    let (id, me) = (get("routingId"), get("peerId"));
    let since: u64 = get("since").parse().unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(4);
    let mut guard = lock.lock().unwrap();
    loop {
        let Some(room) = guard.rooms.get(&id) else {
            return (200, json!({ "messages": [], "disconnected": true }));
        };
        if !room.peers.contains(&me) {
            return refuse(403, "ERR_UNAUTHORIZED", "Unauthorized access");
        }
        let new = room.queue.iter().filter(|m| m.0 > since && m.1 != me);
        let messages: Vec<Value> = new
            .map(|(seq, from, payload)| json!({ "from": from, "seq": seq, "payload": payload, "timestamp": 0 }))
            .collect();
        let left = end.saturating_duration_since(Instant::now());
        if !messages.is_empty() || left.is_zero() {
            let oldest = room.oldest;
            let reply = json!({ "messages": messages, "disconnected": false, "oldestSeq": oldest });
            return (200, reply);
        }
        guard = bell.wait_timeout(guard, left).unwrap().0;
    }
}

/// Calls a tool; its text and its data, whether or not it failed.
pub(crate) fn ask(agent: &mut Agent, tool: &str, arguments: &Value) -> (bool, String, Value) {
    let answer = agent.call_raw(tool, arguments);
    if let Some(message) = answer["error"]["message"].as_str() {
        return (true, message.to_owned(), Value::Null);
    }
    let result = &answer["result"];
    let parts = result["content"].as_array().unwrap();
    let texts: Vec<&str> = parts.iter().filter_map(|p| p["text"].as_str()).collect();
    let failed = result["isError"].as_bool().unwrap_or(false);
    let data = result["structuredContent"].clone();
    // Events come with whatever answer is next; none may get lost to a test.
    let events = data["events"].as_array().cloned().unwrap_or_default();
    agent.notices.extend(events);
    (failed, texts.join("\n"), data)
}

/// Calls a tool that must succeed; its text and its data.
pub(crate) fn good(agent: &mut Agent, tool: &str, arguments: &Value) -> (String, Value) {
    let (failed, text, data) = ask(agent, tool, arguments);
    assert!(!failed, "{tool}: {text}\n{}", agent.stderr());
    (text, data)
}

/// Calls a tool that must fail; what it says.
pub(crate) fn bad(agent: &mut Agent, tool: &str, arguments: &Value) -> String {
    let (failed, text, _) = ask(agent, tool, arguments);
    assert!(failed, "{tool}: {text}");
    text
}

/// Waits for an event of a kind; its text. Others are passed over.
pub(crate) fn event(agent: &mut Agent, kind: &str) -> Value {
    eventually(kind, || {
        let at = agent.notices.iter().position(|n| n["kind"] == kind);
        if at.is_none() {
            ask(agent, "bond_wait", &json!({ "timeoutSeconds": 1 }));
        }
        at.map(|at| agent.notices.remove(at))
    })
}

pub(crate) fn start(home: &Home, relay: &str, more: &[(&str, &str)]) -> Agent {
    Agent::start(command(home, relay, more))
}

/// In a host whose user answers forms.
pub(crate) fn start_with(home: &Home, relay: &str, more: &[(&str, &str)], user: Human) -> Agent {
    Agent::start_with_user(command(home, relay, more), user)
}

fn command(home: &Home, relay: &str, more: &[(&str, &str)]) -> Command {
    let mut command = home.command("http://127.0.0.1:9", "s");
    // The home of a test is no home to send files from otherwise.
    command
        .env("INTERLINK_BOND_RELAY", relay)
        .env("INTERLINK_BOND_ROOT", home.path())
        .env("INTERLINK_NOTIFICATIONS", "off")
        .env("RUST_LOG", "info,interlink::agent::bond=debug")
        .envs(more.iter().copied());
    command
}

/// Opens a session of two; both are confirmed when this returns.
pub(crate) fn bonded(host: &mut Agent, guest: &mut Agent) -> String {
    let (text, opened) = good(host, "bond_connect", &json!({}));
    let code = opened["session_code"].as_str().unwrap().to_owned();
    assert!(text.contains(&format!("Session Code: {code}")), "{text}");
    good(guest, "bond_join", &json!({ "sessionCode": code }));
    event(host, "confirmed");
    event(guest, "confirmed");
    code
}
