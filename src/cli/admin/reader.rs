//! What every command reads, wherever it comes from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use crate::domain::tables::TableId;
use crate::event::kind::StoreKind;
use crate::types::seq::Seq;
use crate::wire::admin::{Depths, Queues, Records, RelayNumbers, TableRows, Verification};

/// How a store is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// The file, as it is.
    File,
    /// A copy in memory, repaired after a crash; the file is unchanged.
    RepairedCopy,
    /// The bus that owns it.
    Endpoint,
}

/// Which store this is, and how it is read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Origin {
    /// Its path; absent for a bus in memory.
    pub(super) store: Option<String>,
    /// `bus` or `agent`.
    #[serde(serialize_with = "kind_name")]
    #[schemars(with = "String")]
    pub(super) kind: StoreKind,
    /// How it is read.
    pub(super) source: Source,
}

fn kind_name<S: serde::Serializer>(kind: &StoreKind, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(kind.name())
}

impl Origin {
    /// What people call it.
    pub(super) fn name(&self) -> &str {
        self.store.as_deref().unwrap_or("(memory)")
    }
}

/// A store as commands see it. Implementations never change what they read.
pub(super) trait StoreReader {
    /// Which store this is, and how it is read.
    fn origin(&self) -> &Origin;
    /// Numbers.
    fn status(&self) -> Result<StoreStatus, AdminError>;
    /// At most `limit` records from a position on.
    fn records(&self, from: u64, limit: usize) -> Result<Records, AdminError>;
    /// What waits on a bus.
    fn queues(&self) -> Result<Queues, AdminError>;
    /// What an identity sends: all of it, or what some relay has not answered for good.
    fn outbox(&self, all: bool) -> Result<Vec<OutboxView>, AdminError>;
    /// Whose sessions an identity knows.
    fn directory(&self) -> Result<Vec<KnownSessionView>, AdminError>;
    /// All rows of tables, in order of their keys, as they are now or as they were when the record
    /// at a position was the newest.
    fn rows(&self, tables: &[TableId], at: Option<Seq>) -> Result<Vec<TableRows>, AdminError>;
    /// How much waited when.
    fn depths(&self) -> Result<Depths, AdminError>;
    /// What a bus has as the SHA-256 of the message whose body stands at a position; `None` where
    /// no body is.
    fn digest(&self, body: Seq) -> Result<Option<String>, AdminError>;
    /// Proves it; `progress` gets the number of records read, now and then.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verification, AdminError>;

    /// Refuses a store of the other kind.
    fn expect(&self, wanted: StoreKind) -> Result<(), AdminError> {
        let origin = self.origin();
        if origin.kind == wanted {
            return Ok(());
        }
        Err(AdminError::WrongKind {
            store: origin.name().to_owned(),
            found: owner(origin.kind).to_owned(),
            wanted: owner(wanted),
        })
    }
}

/// Whose store it is, in words.
pub(super) const fn owner(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Bus => "a bus",
        StoreKind::Agent => "an identity",
    }
}

/// Numbers of a store.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct StoreStatus {
    #[serde(flatten)]
    pub(super) origin: Origin,
    /// Size of the file.
    pub(super) file_bytes: Option<u64>,
    /// Position of the oldest record.
    pub(super) first: Option<u64>,
    /// Position of the newest record.
    pub(super) head: u64,
    /// When the newest record was written, Unix milliseconds.
    pub(super) head_at: Option<u64>,
    /// The compaction point: records up to it are gone. 0 while nothing was compacted.
    pub(super) base: u64,
    /// Records in the log.
    pub(super) records: u64,
    /// Bytes of their frames, estimated.
    pub(super) log_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bus: Option<BusNumbers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<AgentNumbers>,
}

/// Numbers of a bus.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(super) struct BusNumbers {
    pub(super) queues: u64,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) drops: BTreeMap<String, u64>,
    pub(super) roster: u64,
    /// What is relayed of sealed sessions.
    pub(super) relay: RelayNumbers,
}

/// The process that owns the store.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Running {
    pub(super) pid: u32,
    pub(super) url: String,
    pub(super) version: String,
    pub(super) uptime_ms: u64,
    pub(super) commits: u64,
    pub(super) waiters: u64,
    /// Messages that were refused for want of room (507) since it started.
    pub(super) refused: u64,
    /// How long finished records are kept, milliseconds.
    pub(super) retain_ms: u64,
    /// Bytes of records that are kept at most.
    pub(super) retain_bytes: u64,
    pub(super) health: String,
    pub(super) read_only_reason: Option<String>,
}

/// Numbers of an identity.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct AgentNumbers {
    /// Its public key, where the path tells.
    pub(super) key: Option<String>,
    /// Keys that it admits.
    pub(super) peers: u64,
    /// Messages that no relay has taken yet.
    pub(super) outbox: u64,
    /// Their bytes.
    pub(super) outbox_bytes: u64,
    /// Messages that came too late and were not put away: the newest of them.
    pub(super) expired: u64,
    /// Messages that every relay refused, from `counted_from` on.
    pub(super) refused: u64,
    /// Messages for which a relay dropped their recipient's oldest mail, from `counted_from` on.
    pub(super) pushed_out: u64,
    /// Position of the record from which outgoing messages are counted.
    pub(super) counted_from: u64,
    /// Requests and conflicts that wait for somebody.
    pub(super) pairing: PairingNumbers,
    /// Tasks that have not ended.
    pub(super) open_tasks: u64,
    /// The newest failure of a relay to take a message that still waits.
    pub(super) last_error: Option<LastError>,
    pub(super) sessions: Vec<SessionNumbers>,
}

/// What waits to be paired.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(super) struct PairingNumbers {
    /// Keys that ask to be admitted.
    pub(super) inbound: u64,
    /// Keys that were asked.
    pub(super) outbound: u64,
    /// Acceptances whose name is taken.
    pub(super) conflicts: u64,
    /// Keys whose requests are ignored.
    pub(super) blocked: u64,
}

/// Why a message still waits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct LastError {
    /// When, Unix milliseconds.
    pub(super) at: u64,
    pub(super) relay: String,
    pub(super) reason: String,
    /// Id of the message.
    pub(super) msg_id: String,
}

/// Numbers of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct SessionNumbers {
    pub(super) session: String,
    /// Number of its newest lease.
    pub(super) epoch: u64,
    /// The process that polls for it.
    pub(super) pid: Option<u32>,
    /// Whether a process with this id lives.
    pub(super) alive: Option<bool>,
    pub(super) unread: u64,
    pub(super) unread_bytes: u64,
    /// Unread messages that are worth waking somebody.
    pub(super) attention: u64,
}

/// An outgoing message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct OutboxView {
    pub(super) seq: u64,
    pub(super) msg_id: String,
    pub(super) session: String,
    pub(super) to: String,
    pub(super) to_session: String,
    pub(super) kind: &'static str,
    pub(super) task_id: Option<String>,
    /// When it was queued, Unix milliseconds.
    pub(super) at: u64,
    /// Signed time, Unix milliseconds.
    pub(super) ts: u64,
    pub(super) bytes: u64,
    /// `pending`, `bus_accepted` or `refused`.
    pub(super) state: &'static str,
    pub(super) relays: Vec<RelayView>,
    /// The signed message as it is stored, where it was asked for and is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<String>,
}

/// An outgoing message on one relay.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(super) struct RelayView {
    pub(super) url: String,
    /// `waiting`, `accepted` or `refused`.
    pub(super) state: &'static str,
    /// Failed attempts, while it waits.
    pub(super) attempts: Option<u32>,
    /// When it is tried again, Unix milliseconds; 0 is at once.
    pub(super) next_at: Option<u64>,
    /// When it was answered, or failed last, Unix milliseconds.
    pub(super) at: Option<u64>,
    /// HTTP status of a refusal.
    pub(super) status: Option<u16>,
    /// What went wrong.
    pub(super) reason: Option<String>,
    /// Whether the relay dropped older mail for it.
    pub(super) dropped: Option<bool>,
}

/// A session that was seen announced.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct KnownSessionView {
    pub(super) session: String,
    /// The key that owns it; absent when several were seen at once.
    pub(super) owner: Option<String>,
    /// Who claims it, in order of the first sighting.
    pub(super) claims: Vec<ClaimView>,
    /// When it was seen or written to last, Unix milliseconds.
    pub(super) used_at: u64,
}

/// A key that claims a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ClaimView {
    pub(super) key: String,
    /// Its local name, while it is admitted.
    pub(super) petname: Option<String>,
    /// When it was heard last, as far as that is recorded, Unix milliseconds.
    pub(super) heard_at: u64,
    /// Whether it said good-bye and was not heard since.
    pub(super) closed: bool,
}
