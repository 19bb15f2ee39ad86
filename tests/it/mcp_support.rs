//! A channel server as a process, spoken to in raw JSON lines; and a relay that does as it is told.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use interlink::crypto::sign::SigningIdentity;
use interlink::keystore::{Existing, create};
use interlink::types::id::PublicKey;
use interlink::types::secret::Secret;
use serde_json::{Value, json};

/// Longer than anything here takes; a test that waits longer fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Looks until a condition gives something, or the deadline has passed.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "never happened: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// An identity with its folder: key, peers, state.
pub(crate) struct Home {
    dir: tempfile::TempDir,
    pub(crate) key: PublicKey,
}

impl Home {
    /// The identity of a seed, which admits nobody.
    pub(crate) fn new(seed: u8) -> Home {
        let dir = tempfile::tempdir().unwrap();
        let secret = Secret::new([seed; 32]);
        create(&dir.path().join("id.key"), &secret, Existing::Keep).unwrap();
        let home = Home {
            key: SigningIdentity::from_seed(&secret).public(),
            dir,
        };
        home.write_peers(&json!({}));
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn peers_path(&self) -> PathBuf {
        self.dir.path().join("peers.json")
    }

    pub(crate) fn peers(&self) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.peers_path()).unwrap()).unwrap()
    }

    /// As an editor does: another file under the same name.
    pub(crate) fn write_peers(&self, peers: &Value) {
        self.write_peers_text(&serde_json::to_string_pretty(peers).unwrap());
    }

    pub(crate) fn write_peers_text(&self, text: &str) {
        let temp = self.dir.path().join("edited");
        std::fs::write(&temp, text).unwrap();
        std::fs::rename(&temp, self.peers_path()).unwrap();
    }

    /// The command of a channel server, with an environment of its own.
    pub(crate) fn command(&self, relays: &str, session: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlink-mcp"));
        // The list by the environment, so that a test can name another one.
        command
            .env_clear()
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("INTERLINK_PEERS", self.peers_path())
            .current_dir(self.path())
            .args(["--session", session, "--url", relays])
            .arg("--key")
            .arg(self.path().join("id.key"));
        command
    }

    pub(crate) fn start(&self, relays: &str, session: &str) -> Agent {
        Agent::start(self.command(relays, session))
    }
}

/// Two identities that admit each other as `a` and `b`.
pub(crate) fn friends() -> (Home, Home) {
    let (a, b) = (Home::new(0x0a), Home::new(0x0b));
    a.write_peers(&json!({ "b": { "key": b.key } }));
    b.write_peers(&json!({ "a": { "key": a.key } }));
    (a, b)
}

/// What a host's user answers to a form; `None` leaves it open.
pub(crate) type Human = Box<dyn FnMut(&Value) -> Option<Value> + Send>;

/// A user who decides so, after as long as a person takes at least.
pub(crate) fn human(action: &'static str, decision: Option<&'static str>) -> Human {
    Box::new(move |_| {
        // Not to wait for anything: an answer that comes at once is nobody's.
        thread::sleep(Duration::from_millis(800));
        Some(answer(action, decision))
    })
}

/// The result of a form.
pub(crate) fn answer(action: &str, decision: Option<&str>) -> Value {
    match decision {
        Some(word) => json!({ "action": action, "content": { "decision": word } }),
        None => json!({ "action": action }),
    }
}

/// A running channel server; killed on drop. Whatever it writes to standard output must be JSON.
pub(crate) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    stderr: Arc<Mutex<String>>,
    /// Everything that was not an answer.
    pub(crate) notices: Vec<Value>,
    /// The forms that the user was shown, with their request ids.
    pub(crate) asked: Vec<Value>,
    human: Option<Human>,
    id: u64,
}

impl Agent {
    /// Starts it and opens the session.
    pub(crate) fn start(command: Command) -> Agent {
        let mut agent = Agent::raw(command);
        let hello = agent.request("initialize", &initialize("2025-06-18"));
        assert_eq!(
            hello["result"]["serverInfo"]["name"], "interlink-mcp",
            "{hello}"
        );
        agent.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        agent
    }

    /// Starts it in a host whose user answers forms.
    pub(crate) fn start_with_user(command: Command, human: Human) -> Agent {
        let mut agent = Agent::raw(command);
        let mut hello = initialize("2025-06-18");
        hello["capabilities"] = json!({ "elicitation": {} });
        agent.request("initialize", &hello);
        agent.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        agent.human = Some(human);
        agent
    }

    /// Another user sits down.
    pub(crate) fn user(&mut self, human: Human) {
        self.human = Some(human);
    }

    /// Starts it and says nothing.
    pub(crate) fn raw(mut command: Command) -> Agent {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                let value: Value = serde_json::from_str(&line)
                    .unwrap_or_else(|e| panic!("not JSON on standard output: {e}: {line:?}"));
                assert_eq!(value["jsonrpc"], "2.0", "{line}");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut from, into) = (child.stderr.take().unwrap(), Arc::clone(&stderr));
        thread::spawn(move || {
            let mut chunk = [0u8; 4096];
            while let Ok(n @ 1..) = from.read(&mut chunk) {
                let text = String::from_utf8_lossy(&chunk[..n]).into_owned();
                into.lock().unwrap().push_str(&text);
            }
        });
        Agent {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr,
            notices: vec![],
            asked: vec![],
            human: None,
            id: 0,
        }
    }

    pub(crate) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// The next line of output.
    pub(crate) fn read(&mut self) -> Value {
        self.read_within(DEADLINE)
    }

    fn read_within(&mut self, patience: Duration) -> Value {
        match self.lines.recv_timeout(patience) {
            Ok(value) => value,
            Err(e) => panic!("no answer: {e}; it said: {}", self.stderr()),
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.post(method, params);
        self.answer_to(id)
    }

    /// Sends a request; its id.
    pub(crate) fn post(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        let id = self.id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write(&line.to_string());
        id
    }

    /// Waits for the answer to a request; what comes before it is heard.
    pub(crate) fn answer_to(&mut self, id: u64) -> Value {
        self.answer_to_within(id, DEADLINE)
    }

    /// The same for one that takes its time.
    pub(crate) fn answer_to_within(&mut self, id: u64, patience: Duration) -> Value {
        loop {
            let value = self.read_within(patience);
            // Requests of the server have ids too.
            if value["id"] == id && value["method"].is_null() {
                return value;
            }
            self.hear(value);
        }
    }

    /// Reads on until something that is no answer fits; gives it.
    pub(crate) fn heard(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let value = self.read();
            assert!(!value["method"].is_null(), "{what}: {value}");
            if fits(&value) {
                return value;
            }
            self.hear(value);
        }
    }

    fn hear(&mut self, value: Value) {
        if value["method"] != "elicitation/create" {
            self.notices.push(value);
            return;
        }
        self.asked.push(value.clone());
        let human = self
            .human
            .as_mut()
            .expect("a host without a user is not asked");
        if let Some(result) = human(&value["params"]) {
            let line = json!({ "jsonrpc": "2.0", "id": value["id"], "result": result });
            self.write(&line.to_string());
        }
    }

    /// Calls a tool; the whole answer.
    pub(crate) fn call_raw(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// Calls a tool that must succeed; its structured content.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.call_raw(tool, arguments);
        assert_eq!(
            answer["result"]["isError"],
            false,
            "{tool}: {answer}; {}",
            self.stderr()
        );
        assert!(answer["result"]["content"][0]["text"].is_string());
        answer["result"]["structuredContent"].clone()
    }

    /// Sends; the id of the message.
    pub(crate) fn send(&mut self, to: &str, session: &str, text: &str) -> String {
        let arguments = json!({ "to": to, "session": session, "text": text });
        let sent = self.call("send_message", &arguments);
        sent["msg_id"].as_str().unwrap().to_owned()
    }

    /// What is unread.
    pub(crate) fn inbox(&mut self) -> Vec<Value> {
        let inbox = self.call("receive_messages", &json!({ "limit": 100 }));
        inbox["messages"].as_array().unwrap().clone()
    }

    /// Waits until exactly `n` messages are unread.
    pub(crate) fn inbox_of(&mut self, n: usize) -> Vec<Value> {
        eventually("mail", || Some(self.inbox()).filter(|mail| mail.len() == n))
    }

    pub(crate) fn acknowledge(&mut self, messages: &[Value]) -> u64 {
        let receipts: Vec<&Value> = messages.iter().map(|m| &m["receipt"]).collect();
        let done = self.call("acknowledge_messages", &json!({ "messages": receipts }));
        done["acknowledged"].as_u64().unwrap()
    }

    pub(crate) fn state_of(&mut self, msg_id: &str) -> Value {
        self.call("message_status", &json!({ "msg_id": msg_id }))["sent"].clone()
    }

    pub(crate) fn wait_state(&mut self, msg_id: &str, state: &str) -> Value {
        eventually(state, || {
            Some(self.state_of(msg_id)).filter(|s| s["state"] == state)
        })
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the end of the process", || self.child.try_wait().unwrap())
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- it said:\n{}", self.stderr());
        }
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    })
}

/// A relay that answers `POST /send` as `judge` says (status by recipient), keeps no mail, and
/// never answers a long-poll. `None` leaves the request without an answer.
pub(crate) struct FakeRelay {
    pub(crate) addr: SocketAddr,
    pub(crate) taken: Arc<Mutex<Vec<Value>>>,
}

impl FakeRelay {
    pub(crate) fn start(judge: impl Fn(&str) -> Option<u16> + Send + Sync + 'static) -> FakeRelay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let taken = Arc::new(Mutex::new(vec![]));
        let (judge, into) = (Arc::new(judge), Arc::clone(&taken));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (judge, into) = (Arc::clone(&judge), Arc::clone(&into));
                thread::spawn(move || converse(stream, &*judge, &into));
            }
        });
        FakeRelay { addr, taken }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

fn converse(
    stream: TcpStream,
    judge: &dyn Fn(&str) -> Option<u16>,
    taken: &Mutex<Vec<Value>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
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
        let (status, text) = if first.starts_with("POST /send") {
            let sent: Value = serde_json::from_slice(&body).ok()?;
            let Some(status) = judge(sent["to"].as_str()?) else {
                thread::park();
                return None;
            };
            if status < 300 {
                taken.lock().unwrap().push(sent);
            }
            (status, String::new())
        } else if first.starts_with("GET /recv") {
            thread::park();
            return None;
        } else if first.starts_with("GET /roster") {
            (200, r#"{"roster":[]}"#.to_owned())
        } else {
            (202, String::new())
        };
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\ncontent-type: application/json\r\n\r\n{text}",
            text.len()
        );
        writer.write_all(answer.as_bytes()).ok()?;
    }
}
