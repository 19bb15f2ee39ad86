//! The operator's view of a bus: what `/status` and the admin endpoint answer, and what the admin
//! tool prints from a file when no bus runs.
//!
//! Both ends are the same program, so every shape reads and writes. Fields that a reader does not
//! know are ignored, fields that are missing take their default: the tool may be newer than the
//! bus.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Content of the file beside a bus's store that leads the admin tool to the running bus. Whoever
/// can read it can administer the bus, hence mode 0600.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminFile {
    /// Base of the bus, e.g. `http://127.0.0.1:9440`.
    pub url: String,
    /// 64 hex digits, sent as `Authorization: Bearer`.
    pub token: String,
    /// Process id of the bus.
    pub pid: u32,
}

impl fmt::Debug for AdminFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminFile")
            .field("url", &self.url)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordRow {
    /// Position.
    pub seq: u64,
    /// When it was written, Unix milliseconds.
    pub at: u64,
    /// Name of the event's kind.
    pub kind: String,
    /// The event.
    pub event: Value,
}

/// Answer of `GET /admin/v1/records?from=SEQ&limit=N`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Records {
    /// Position of the newest record.
    pub head: u64,
    /// The compaction point: records up to it are gone. 0 while nothing was compacted.
    pub base: u64,
    /// In order of position.
    pub records: Vec<RecordRow>,
}

/// One queue in which something waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QueueRow {
    /// Its name.
    pub to: String,
    /// Messages waiting.
    pub messages: u64,
    /// Bytes of payload waiting.
    pub bytes: u64,
    /// Position of the oldest message.
    pub oldest_seq: u64,
    /// When the oldest message arrived, Unix milliseconds.
    pub oldest_at: u64,
}

/// Answer of `GET /admin/v1/queues`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queues {
    /// By name.
    pub queues: Vec<QueueRow>,
}

/// One row of a projection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableRow {
    /// The key: its parts in their own notation, separated by ` / `; hex where it is malformed.
    pub key: String,
    /// The key's bytes, hex; rows are in their order.
    #[serde(default)]
    pub raw: String,
    /// The value.
    pub value: Value,
}

/// Answer of `GET /admin/v1/tables/{name}?limit=N&after=RAW&at=SEQ`: at most N rows that follow the
/// key `after`, as they are now or as they were at a position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TableRows {
    /// Name of the table.
    pub table: String,
    /// In order of key.
    pub rows: Vec<TableRow>,
}

/// How many rows a table had in one span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DepthPoint {
    /// Name of the table: `pending`, `outbox_open` or `mailbox_unread`.
    pub table: String,
    /// Beginning of the span, Unix milliseconds.
    pub at: u64,
    /// Rows at its end.
    pub rows: u64,
    /// The most rows within it.
    pub most: u64,
}

/// Answer of `GET /admin/v1/depth`: spans in which nothing was recorded are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Depths {
    /// Length of a span in milliseconds.
    pub span_ms: u64,
    /// By table and time.
    pub points: Vec<DepthPoint>,
}

/// Answer of `POST /admin/v1/verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Verification {
    /// Whether everything fits.
    pub ok: bool,
    /// The first thing that does not.
    pub difference: Option<String>,
    /// Position of the record that it comes from, where one is to blame.
    pub record: Option<u64>,
    /// Records read.
    pub records: u64,
    /// Position of the last one.
    pub head: u64,
    /// Rows compared.
    pub rows: u64,
    /// Bodies checked.
    pub bodies: u64,
    /// Bytes of bodies checked.
    pub body_bytes: u64,
    /// Projections of another version of the program, whose rows were not compared.
    pub unbuilt: u64,
}

/// Answer of `POST /admin/v1/compact?until=SEQ&before=MS&dry_run=BOOL`. A call works for at most a
/// second; until `done` the next one goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Compaction {
    /// Records that left the log, or would.
    pub records: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// The compaction point after that.
    pub base: u64,
    /// Position of the newest record.
    pub head: u64,
    /// Whether nothing is left to fold.
    pub done: bool,
}

/// Body of `POST /admin/v1/backup`; the answer is a [`Verification`] of the copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// The copy: an absolute path on the machine of the bus, where no file is yet.
    pub file: String,
}

/// The bounds that a bus runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusLimits {
    /// Messages a queue.
    pub queue_messages: u64,
    /// Bytes a queue.
    pub queue_bytes: u64,
    /// Bytes in all queues.
    pub store_bytes: u64,
    /// Queues with waiting messages.
    pub queues: u64,
    /// Requests that wait for mail.
    pub waiters: u64,
    /// How long a message waits, milliseconds.
    pub message_ttl_ms: u64,
    /// How long finished records are kept, milliseconds.
    pub retain_ms: u64,
    /// Bytes of records that are kept at most.
    pub retain_bytes: u64,
    /// `drop-oldest` or `refuse`.
    pub overflow: String,
}

/// What a bus relays of sealed sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RelayNumbers {
    /// Sessions.
    pub sessions: u64,
    /// Messages that wait in them.
    pub messages: u64,
    /// Bytes of what is kept of them.
    pub bytes: u64,
}

/// Answer of `GET /status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Queues with waiting messages.
    pub queues: u64,
    /// Messages waiting.
    pub messages: u64,
    /// Bytes of payload waiting.
    pub bytes: u64,
    /// Messages that left unread since the store was made, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Messages that were refused for want of room (507) since the process started; their senders
    /// keep them.
    pub refused: u64,
    /// Sessions on the presence board.
    pub roster: u64,
    /// Requests that wait for mail.
    pub waiters: u64,
    /// What is relayed of sealed sessions.
    pub relay: RelayNumbers,
    /// Position of the newest record.
    pub head: u64,
    /// The compaction point: records up to it are gone. 0 while nothing was compacted.
    pub base: u64,
    /// Records in the log.
    pub records: u64,
    /// Bytes of their frames, estimated.
    pub log_bytes: u64,
    /// Durable commits since the start.
    pub commits: u64,
    /// Where the store is; absent for one in memory.
    pub store: Option<String>,
    /// `read-write` or `read-only`.
    pub health: String,
    /// Why the store is read-only.
    pub read_only_reason: Option<String>,
    /// Bounds.
    pub limits: StatusLimits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_printed() {
        let file = AdminFile {
            url: "u".into(),
            token: "secret-token".into(),
            pid: 1,
        };
        assert!(!format!("{file:?}").contains("secret"));
    }

    #[test]
    fn a_newer_tool_reads_an_older_bus() {
        let status: Status = serde_json::from_str(r#"{"version":"0","later":1}"#).unwrap();
        assert_eq!(status.version, "0");
    }
}
