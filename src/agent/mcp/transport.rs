//! MCP over standard input and output, line by line.
//!
//! The MCP library gets only what it can handle, and a client gets an answer to everything that
//! wants one:
//!
//! - `server/discover` is answered "method not found", before and after `initialize`: a client that
//!   gets a result selects a protocol without unsolicited notifications, and wake-ups with it.
//! - Notifications before `initialize` (a cancelled probe) are dropped; requests get an error. The
//!   library would end the connection at either.
//! - A line over the bound is answered with an error and skipped; the connection stays.
//! - Requests that are worked on, and answers that the client has not read, have a bounded number.
//!   Past it nothing more is read, so a client that only writes fills its own pipe and not our memory.
//!
//! Standard input is read by a thread of its own: a read of it cannot be interrupted, and must not
//! keep the process from ending.

use std::collections::HashMap;
use std::io::{self, BufRead, Read as _};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rmcp::model::{
    ClientNotification, ErrorCode, ErrorData, GetExtensions as _, JsonRpcMessage, RequestId,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::types::limit::{MAX_CALLS_IN_FLIGHT, MAX_HTTP_BODY_BYTES};

/// Longest line in bytes. The largest message has 2 MiB of JSON; a client that escapes every
/// character of a text as six needs six times as much for the same text.
pub const MAX_LINE_BYTES: usize = 6 * MAX_HTTP_BODY_BYTES + 64 * 1024;

/// Lines that wait for the library. It reads as fast as it answers.
const WAITING_LINES: usize = 16;

/// How long the end waits for a client to read what is ours.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A place among the requests in flight. It is given back when both the work and the answer to it
/// are over: one half goes with the request, the other waits here for the answer.
type Place = Arc<OwnedSemaphorePermit>;

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Its bytes, without the line feed.
    Whole(Vec<u8>),
    /// It was longer than the bound and is gone.
    TooLong,
}

/// Reads lines on a thread of its own. The channel closes at the end of the input.
///
/// # Errors
///
/// When the thread cannot be started.
pub fn read_lines(
    input: impl io::Read + Send + 'static,
    max: usize,
) -> io::Result<mpsc::Receiver<Line>> {
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    thread::Builder::new()
        .name("mcp-stdin".into())
        .spawn(move || {
            let mut input = io::BufReader::with_capacity(64 * 1024, input);
            while let Ok(Some(line)) = next_line(&mut input, max) {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        })?;
    Ok(receiver)
}

/// The next line; `None` at the end. A last line without a line feed is torn and dropped.
fn next_line(input: &mut impl BufRead, max: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    input.take(limit).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(Line::Whole(line)));
    }
    if line.len() <= max {
        return Ok(None);
    }
    drop(line);
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            return Ok(None);
        }
        let end = chunk.iter().position(|b| *b == b'\n');
        let used = end.map_or(chunk.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(Line::TooLong));
        }
    }
}

/// The connection.
pub struct StdioTransport<W> {
    lines: mpsc::Receiver<Line>,
    output: Arc<Mutex<W>>,
    initialized: bool,
    ended: watch::Sender<bool>,
    places: Arc<Semaphore>,
    /// Requests without an answer so far.
    open: HashMap<RequestId, Place>,
    /// Our own answers that are being written. Not awaited where input is read: that is given up
    /// whenever something else happens, and half a line would be left.
    own: JoinSet<()>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> StdioTransport<W> {
    /// Over lines and an output that nothing else writes to.
    pub fn new(lines: mpsc::Receiver<Line>, output: W) -> Self {
        StdioTransport {
            lines,
            output: Arc::new(Mutex::new(output)),
            initialized: false,
            ended: watch::Sender::new(false),
            places: Arc::new(Semaphore::new(MAX_CALLS_IN_FLIGHT)),
            open: HashMap::new(),
            own: JoinSet::new(),
        }
    }

    /// Turns true when the input ends. A call that waits for the client must give up then: the library
    /// waits for calls before it lets the process end.
    #[must_use]
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.subscribe()
    }

    fn answer(&mut self, answer: Box<TxJsonRpcMessage<RoleServer>>, place: OwnedSemaphorePermit) {
        let output = Arc::clone(&self.output);
        while self.own.try_join_next().is_some() {}
        self.own.spawn(async move {
            if let Err(e) = write(&output, &answer).await {
                tracing::debug!("the client does not read: {e}");
            }
            drop(place);
        });
    }

    /// Keeps the place of a request until it is answered, and gives it back when nobody wants the
    /// answer any more: the library drops that.
    fn place(&mut self, message: &mut RxJsonRpcMessage<RoleServer>, place: OwnedSemaphorePermit) {
        match message {
            JsonRpcMessage::Request(request) => {
                let place = Arc::new(place);
                request.request.extensions_mut().insert(Arc::clone(&place));
                self.open.insert(request.id.clone(), place);
            }
            JsonRpcMessage::Notification(notice) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
            }
            _ => {}
        }
    }
}

/// The request that a message answers.
const fn answered(message: &TxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

async fn write<W: AsyncWrite + Unpin>(
    output: &Mutex<W>,
    message: &TxJsonRpcMessage<RoleServer>,
) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&bytes).await?;
    output.flush().await
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for StdioTransport<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        let place = answered(&item).and_then(|id| self.open.remove(id));
        async move {
            let written = write(&output, &item).await;
            drop(place);
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // Nothing is lost when this is given up half way: a place goes back, a line stays.
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            let Some(line) = self.lines.recv().await else {
                self.ended.send_replace(true);
                return None;
            };
            let verdict = match line {
                Line::Whole(bytes) => judge(&bytes, self.initialized),
                Line::TooLong => Verdict::Answer(invalid(
                    &format!("a line has at most {MAX_LINE_BYTES} bytes"),
                    None,
                )),
            };
            match verdict {
                Verdict::Pass { mut message, opens } => {
                    self.initialized |= opens;
                    self.place(&mut message, place);
                    return Some(*message);
                }
                Verdict::Answer(answer) => self.answer(answer, place),
                Verdict::Skip => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.lines.close();
        let ours = async { while self.own.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS, ours).await;
        Ok(())
    }
}

/// What becomes of a line.
enum Verdict {
    /// The library's.
    Pass {
        message: Box<RxJsonRpcMessage<RoleServer>>,
        /// Whether it is `initialize`.
        opens: bool,
    },
    /// Ours.
    Answer(Box<TxJsonRpcMessage<RoleServer>>),
    /// Nobody's.
    Skip,
}

fn judge(bytes: &[u8], initialized: bool) -> Verdict {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    // Bytes that are no JSON have no id to answer to; an answer could start an error storm.
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return Verdict::Skip;
    };
    let Some(object) = value.as_object() else {
        return Verdict::Answer(invalid("not a request", None));
    };
    let method = object.get("method").and_then(Value::as_str);
    let id = object
        .get("id")
        .and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    match (method, &id) {
        (Some(method @ "server/discover"), Some(_)) => {
            return Verdict::Answer(error(ErrorCode::METHOD_NOT_FOUND, method, id));
        }
        (Some("initialize"), Some(_)) if initialized => {
            return Verdict::Answer(invalid("this connection is initialized already", id));
        }
        (Some("initialize" | "ping"), Some(_)) => {}
        (Some(_), Some(_)) if !initialized => {
            return Verdict::Answer(invalid("send initialize first", id));
        }
        (Some(_), None) if !initialized && !object.contains_key("id") => return Verdict::Skip,
        (None, _) if !initialized => {
            return Verdict::Answer(invalid("not a request", id));
        }
        _ => {}
    }
    let opens = method == Some("initialize");
    match serde_json::from_value(value) {
        Ok(message) => Verdict::Pass {
            message: Box::new(message),
            opens,
        },
        Err(e) if id.is_some() => {
            Verdict::Answer(error(ErrorCode::INVALID_PARAMS, &e.to_string(), id))
        }
        Err(_) => Verdict::Answer(invalid("not a request", None)),
    }
}

fn invalid(text: &str, id: Option<RequestId>) -> Box<TxJsonRpcMessage<RoleServer>> {
    error(ErrorCode::INVALID_REQUEST, text, id)
}

fn error(code: ErrorCode, text: &str, id: Option<RequestId>) -> Box<TxJsonRpcMessage<RoleServer>> {
    let error = ErrorData::new(code, text.to_owned(), None);
    Box::new(TxJsonRpcMessage::<RoleServer>::error(error, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], max: usize) -> Vec<Line> {
        let mut input = io::BufReader::with_capacity(4, text);
        std::iter::from_fn(|| next_line(&mut input, max).unwrap()).collect()
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn long_lines_are_skipped_and_the_next_one_is_whole() {
        assert_eq!(
            lines(b"ab\n12345\n123456\n\nxyz\ntorn", 5),
            [
                whole("ab"),
                whole("12345"),
                Line::TooLong,
                whole(""),
                whole("xyz")
            ]
        );
        assert_eq!(lines(b"1234567", 5), []);
    }

    fn answer(line: &str, initialized: bool) -> Option<Value> {
        match judge(line.as_bytes(), initialized) {
            Verdict::Answer(answer) => Some(serde_json::to_value(answer).unwrap()),
            Verdict::Skip => None,
            Verdict::Pass { opens, .. } => Some(Value::from(if opens { "opens" } else { "pass" })),
        }
    }

    #[test]
    fn a_probe_is_refused_by_method_whatever_its_params() {
        for params in [
            "",
            r#","params":{}"#,
            r#","params":{"_meta":{"a":1}}"#,
            r#","params":7"#,
        ] {
            for id in ["1", "\"x\""] {
                let line =
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover"{params}}}"#);
                for initialized in [false, true] {
                    let answer = answer(&line, initialized).unwrap();
                    assert_eq!(answer["error"]["code"], -32601, "{line}");
                    assert_eq!(answer["id"].to_string(), id, "{line}");
                }
            }
        }
    }

    #[test]
    fn before_initialize_requests_are_answered_and_notifications_dropped() {
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(answer(cancel, false), None);
        let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
        assert_eq!(answer(list, false).unwrap()["error"]["code"], -32600);
        assert_eq!(answer(list, true).unwrap(), "pass");
        let ping = r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#;
        assert_eq!(answer(ping, false).unwrap(), "pass");
        let init = r#"{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        assert_eq!(answer(init, false).unwrap(), "opens");
        assert_eq!(answer(init, true).unwrap()["error"]["code"], -32600);
        assert_eq!(answer("not json", false), None);
        for odd in ["[]", "7", "{}", "[{}]"] {
            assert_eq!(
                answer(odd, false).unwrap()["error"]["code"],
                -32600,
                "{odd}"
            );
        }
    }
}
