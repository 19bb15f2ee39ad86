//! Fake hosts: a messaging socket, a codex program, hooks, and channel notices.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::mcp_support::{Agent, Home, eventually};

pub(crate) const THREAD: &str = "01a2b3c4-0000-7000-8000-000000000001";

/// Claude Code's messaging socket: takes frames, answers nothing.
pub(crate) struct FakeSocket {
    pub(crate) path: PathBuf,
    pub(crate) frames: Arc<Mutex<Vec<Vec<Value>>>>,
    _dir: tempfile::TempDir,
}

impl FakeSocket {
    pub(crate) fn start() -> FakeSocket {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("messages.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let frames = Arc::new(Mutex::new(vec![]));
        let into = Arc::clone(&frames);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut text = String::new();
                if stream.read_to_string(&mut text).is_ok() {
                    let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
                    into.lock().unwrap().push(lines.collect());
                }
            }
        });
        FakeSocket {
            path,
            frames,
            _dir: dir,
        }
    }

    pub(crate) fn environment(&self, command: &mut Command) {
        environment(command, &self.path);
    }

    /// Waits for hand-off number `n` (from 1); its two frames.
    pub(crate) fn frame(&self, n: usize) -> Vec<Value> {
        eventually("a frame", || {
            self.frames.lock().unwrap().get(n - 1).cloned()
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.frames.lock().unwrap().len()
    }
}

pub(crate) fn environment(command: &mut Command, socket: &Path) {
    command
        .env("CLAUDE_CODE_MESSAGING_SOCKET", socket)
        .env("CLAUDE_CODE_MESSAGING_TOKEN", "sesame");
}

/// The id in a notice's text.
pub(crate) fn notice_id(text: &str) -> String {
    let (_, rest) = text.split_once("notification_id=\"").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}

/// A tool call as a host's hook makes it: without an id of a call.
pub(crate) fn hook(agent: &mut Agent, tool: &str, arguments: &Value) -> Value {
    let answer = agent.call_raw(tool, arguments);
    let result = &answer["result"];
    assert_eq!(result["isError"], false, "{tool}: {answer}");
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{answer}");
    let text = result["content"][0]["text"].as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(value, result["structuredContent"], "{answer}");
    value
}

pub(crate) fn bind(agent: &mut Agent, session: &str) -> Value {
    hook(
        agent,
        "bind_claude_session",
        &json!({ "session_id": session, "cwd": "/", "hook_event_name": "UserPromptSubmit" }),
    )
}

/// A tool call as Codex makes it for a model.
pub(crate) fn codex_call(agent: &mut Agent, tool: &str, arguments: &Value, thread: &str) -> Value {
    agent.request(
        "tools/call",
        &json!({
            "name": tool,
            "arguments": arguments,
            "_meta": { "threadId": thread, "callId": "call_1" },
        }),
    )
}

/// A codex program that writes its arguments down and ends with `code`.
pub(crate) struct FakeCodex {
    pub(crate) bin: PathBuf,
    said: PathBuf,
    code: PathBuf,
    _dir: tempfile::TempDir,
}

impl FakeCodex {
    pub(crate) fn new() -> FakeCodex {
        let dir = tempfile::tempdir().unwrap();
        let (bin, said, code) = (
            dir.path().join("codex"),
            dir.path().join("said"),
            dir.path().join("code"),
        );
        let script = format!(
            "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\n' \"$a\"; done >> {0}\n\
             printf 'end\\n' >> {0}\nexit $(cat {1} 2>/dev/null || echo 0)\n",
            said.display(),
            code.display()
        );
        std::fs::write(&bin, script).unwrap();
        std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o755)).unwrap();
        FakeCodex {
            bin,
            said,
            code,
            _dir: dir,
        }
    }

    pub(crate) fn fail_with(&self, code: u8) {
        std::fs::write(&self.code, code.to_string()).unwrap();
    }

    /// The calls so far, each with its arguments.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        let calls = said.split("end\n").filter(|call| !call.is_empty());
        calls
            .map(|call| call.lines().map(ToOwned::to_owned).collect())
            .collect()
    }

    pub(crate) fn start(&self, home: &Home, url: &str) -> Agent {
        let mut command = home.command(url, "unused");
        command.args(["--host", "codex", "--codex-bin"]);
        command.arg(&self.bin).env("PATH", "/usr/bin:/bin");
        Agent::start(command)
    }
}

/// A listener, as an asynchronous hook keeps it.
pub(crate) fn listen(home: &Home, url: &str, session: &str) -> Child {
    let mut command = home.command(url, session);
    command.args(["wait", "--fallback"]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let state = home.path().join("state/interlink/agent");
    let state = state.join(home.key.to_string());
    eventually("the listener's lock", || {
        let mut files = std::fs::read_dir(&state).ok()?.flatten();
        files.find(|f| {
            f.file_name().to_string_lossy().starts_with("listener-")
                && std::fs::File::open(f.path()).is_ok_and(|f| f.try_lock_shared().is_err())
        })
    });
    child
}

/// Waits for a listener to wake its host; the text that the host sees.
pub(crate) fn woken(mut listener: Child) -> String {
    let status = eventually("the end of the listener", || listener.try_wait().unwrap());
    assert_eq!(status.code(), Some(2));
    let output = listener.wait_with_output().unwrap();
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// What came as channel notices so far.
pub(crate) fn channel_notices(agent: &mut Agent) -> Vec<Value> {
    agent.request("ping", &json!({}));
    let all = agent.notices.iter();
    all.filter(|n| n["method"] == "notifications/claude/channel")
        .cloned()
        .collect()
}
