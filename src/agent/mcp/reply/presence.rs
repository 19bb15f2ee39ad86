//! Results about who is there, and about tasks.

use schemars::JsonSchema;
use serde::Serialize;

use super::Outgoing;

/// `discover`
#[derive(Debug, Serialize, JsonSchema)]
pub struct Discovered {
    /// Everybody who is there: this identity, then peers, then others.
    pub identities: Vec<Identity>,
    /// How many more identities and sessions there are than are shown.
    pub left_out: u64,
    /// Relays that gave no roster in time: what only they know is missing here.
    pub failed_relays: Vec<FailedRelay>,
    /// What to know about it.
    pub note: String,
}

/// One identity.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Identity {
    /// The public key.
    pub key: String,
    /// Its first 8 characters.
    pub fingerprint: String,
    /// The name that it gives itself: untrusted text, in one line.
    pub name: String,
    /// The local name of a peer; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub petname: Option<String>,
    /// Of `you`, `already a peer`, `shared name`, those that apply.
    pub tags: Vec<String>,
    /// Its sessions, the one heard last first.
    pub sessions: Vec<IdentitySession>,
}

/// One session of an identity.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IdentitySession {
    /// The id, to be used in full. Absent where the identity chose one that cannot be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// `live`, `away` or `closed`.
    pub presence: String,
    /// How long ago it was heard, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<String>,
    /// The same in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// True for the session that asks.
    pub this_session: bool,
    /// Its working directory, in its own words: untrusted text, in one line.
    pub cwd: String,
    /// Its repository, in its own words: untrusted text, in one line.
    pub git_root: String,
    /// What it works on, in its own words: untrusted text, in one line.
    pub summary: String,
}

/// A relay that gave no roster.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedRelay {
    /// The relay.
    pub url: String,
    /// Why.
    pub problem: String,
}

/// `list_tasks`
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tasks {
    /// The tasks, the one that moved last first.
    pub tasks: Vec<TaskView>,
    /// How many more there are than are shown.
    pub left_out: u64,
}

/// One task.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TaskView {
    /// Its id; absent where the other side chose one that cannot be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// `inbound` when it was asked of this session, `outbound` when this session asked.
    pub direction: String,
    /// `open`, `needs_input`, `result`, `failed` or `canceled`. The last three are final.
    pub state: String,
    /// The other side's local name.
    pub peer: String,
    /// The other side's public key.
    pub key: String,
    /// The other side's session; a hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When its first message came or went, Unix milliseconds.
    pub since_ms: u64,
    /// When this session said something about it last, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_report_ms: Option<u64>,
}

/// `list_pending`
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pending {
    /// Messages that no relay has taken yet, oldest first.
    pub pending: Vec<Outgoing>,
    /// The newest messages that every relay refused for good.
    pub refused: Vec<Outgoing>,
    /// The newest messages for which a relay dropped the oldest mail of a full queue: an earlier
    /// message to that recipient may be lost.
    pub dropped: Vec<Outgoing>,
    /// Messages to this session that came too late to be read, newest first.
    pub expired: Vec<super::Expired>,
    /// How many more there are of all sorts than are shown.
    pub left_out: u64,
}
