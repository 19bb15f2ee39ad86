//! The host's side of a channel server: JSON-RPC 2.0, one object a line, over its standard input
//! and output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{DemoError, NAP, Patience, io_error};

/// Longest line of an answer in bytes.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// A channel server that runs.
pub(super) struct Agent {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    patience: Patience,
}

impl Agent {
    /// Takes over a process whose standard input and output are pipes, and introduces itself.
    pub(super) fn introduce(
        name: &str,
        mut child: Child,
        patience: &Patience,
    ) -> Result<Agent, DemoError> {
        let input = child.stdin.take();
        let (sender, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            std::thread::Builder::new()
                .name("mcp-lines".into())
                .spawn(move || read_lines(output, &sender))
                .map_err(io_error("cannot start a thread"))?;
        }
        let mut agent = Agent {
            name: name.to_owned(),
            child,
            input,
            lines,
            next_id: 0,
            patience: patience.clone(),
        };
        agent.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "interlink-admin", "version": env!("CARGO_PKG_VERSION") },
            }),
        )?;
        agent.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(agent)
    }

    /// Calls a tool; gives its structured result.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, DemoError> {
        let params = json!({ "name": tool, "arguments": arguments });
        let mut result = self.request("tools/call", &params)?;
        let failed = result.get("isError").and_then(Value::as_bool) == Some(true);
        match result.get_mut("structuredContent").map(Value::take) {
            Some(content) if !failed => Ok(content),
            _ => Err(DemoError::Tool {
                program: self.name.clone(),
                tool: tool.to_owned(),
                reason: result
                    .pointer("/content/0/text")
                    .and_then(Value::as_str)
                    .unwrap_or("no structured result")
                    .to_owned(),
            }),
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, DemoError> {
        self.next_id += 1;
        let id = self.next_id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut answer = self.line(method)?;
            // Notifications, and requests of the server, are not what we wait for.
            if answer.get("id").and_then(Value::as_u64) != Some(id) {
                continue;
            }
            if let Some(error) = answer.get("error") {
                return Err(DemoError::Tool {
                    program: self.name.clone(),
                    tool: method.to_owned(),
                    reason: error.to_string(),
                });
            }
            return Ok(answer
                .get_mut("result")
                .map(Value::take)
                .unwrap_or_default());
        }
    }

    fn line(&mut self, what: &str) -> Result<Value, DemoError> {
        loop {
            match self.lines.recv_timeout(NAP) {
                Ok(line) => {
                    return serde_json::from_str(&line).map_err(|e| DemoError::Protocol {
                        program: self.name.clone(),
                        reason: e.to_string(),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {
                    let what = format!("{} to answer {what}", self.name);
                    self.patience.check(&what)?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            }
        }
    }

    fn ended(&mut self) -> DemoError {
        let status = self.child.wait();
        DemoError::Ended {
            program: self.name.clone(),
            status: status.map_or_else(|e| e.to_string(), |s| s.to_string()),
            last: "its log says why".to_owned(),
        }
    }

    fn write(&mut self, message: &Value) -> Result<(), DemoError> {
        let Some(input) = &mut self.input else {
            return Err(self.ended());
        };
        let written = writeln!(input, "{message}").and_then(|()| input.flush());
        written.map_err(|_| self.ended())
    }

    /// SIGKILL.
    pub(super) fn kill(mut self) -> Result<(), DemoError> {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map_err(io_error("cannot kill a channel server"))?;
        Ok(())
    }

    /// Ends it as a host does: by closing its standard input.
    pub(super) fn close(mut self) -> Result<ExitStatus, DemoError> {
        drop(self.input.take());
        let until = Instant::now() + Duration::from_secs(3);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(NAP),
                Ok(None) => {
                    return Err(DemoError::Late {
                        what: format!("{} to end", self.name),
                    });
                }
                Err(e) => return Err(io_error("cannot wait for a channel server")(e)),
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(output: ChildStdout, sender: &mpsc::Sender<String>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = String::new();
        match output.by_ref().take(MAX_LINE_BYTES).read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if sender.send(line).is_err() {
                    return;
                }
            }
        }
    }
}
