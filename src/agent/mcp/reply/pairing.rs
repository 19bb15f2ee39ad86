//! Results of the pairing tools.
//!
//! A stranger's name is a claim in one bounded line with everything odd spelled out; it stands in
//! members that are called `claimed_name` and nowhere else.

use schemars::JsonSchema;
use serde::Serialize;

/// `request_pair`
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct PairRequested {
    /// Whether a request stands and is sent, now or as soon as a relay can be reached.
    pub requested: bool,
    /// Who is asked.
    pub key: String,
    /// First characters of that key.
    pub fingerprint: String,
    /// What the key will be called here when it accepts.
    pub petname: String,
    /// The session that is asked.
    pub session: String,
    /// The id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// True when it was asked before and is asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<bool>,
    /// What to know about it.
    pub note: String,
    /// The line that the user can run in a terminal of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Somebody who asks to be admitted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Asking {
    /// Its public key.
    pub key: String,
    /// First characters of the key: what to pass to accept_pair.
    pub fingerprint: String,
    /// The name that it gives itself. Not verified.
    pub claimed_name: String,
    /// The name that it gets when accept_pair names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub petname: Option<String>,
    /// Why accept_pair has to name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Since when, Unix milliseconds.
    pub since_ms: u64,
}

/// A request of this identity that waits.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Asked {
    /// Who was asked.
    pub key: String,
    /// First characters of the key.
    pub fingerprint: String,
    /// What the key will be called here.
    pub petname: String,
    /// `pending` until a relay has the request, then `bus_accepted`; `refused` when no relay takes it.
    pub state: String,
    /// The session of this identity that asked.
    pub session: String,
    /// Since when, Unix milliseconds.
    pub since_ms: u64,
}

/// Somebody who accepted and cannot be admitted yet.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Conflict {
    /// Who accepted.
    pub key: String,
    /// First characters of the key: what to pass to accept_pair, with another petname.
    pub fingerprint: String,
    /// The name that it was to get.
    pub petname: String,
    /// What is in the way.
    pub problem: String,
}

/// Something that is new to this session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PairNews {
    /// `knock`, `paired`, `conflict` or `expired`.
    pub kind: String,
    /// The other side's key.
    pub key: String,
    /// What it is called here, where it is admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub petname: Option<String>,
}

/// `list_pair_requests`
#[derive(Debug, Serialize, JsonSchema)]
pub struct PairRequests {
    /// Who asks to be admitted; the user decides with accept_pair or reject_pair.
    pub inbound: Vec<Asking>,
    /// Whom this identity asked.
    pub outbound: Vec<Asked>,
    /// Who accepted and needs another name.
    pub conflicts: Vec<Conflict>,
    /// What this session has not seen before.
    pub news: Vec<PairNews>,
    /// How many more entries there are than fit into an answer; the user sees all with
    /// `interlink-admin pair list`.
    pub left_out: u64,
    /// What to do next.
    pub note: String,
}

/// `accept_pair`
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct PairAccepted {
    /// Whether it may write to this identity now.
    pub accepted: bool,
    /// Its public key.
    pub key: String,
    /// What it is called here.
    pub petname: String,
    /// What to know about it.
    pub note: String,
    /// The line that the user can run in a terminal of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// `reject_pair` and `cancel_pair_request`
#[derive(Debug, Serialize, JsonSchema)]
pub struct PairEnded {
    /// False when there was nothing to end.
    pub changed: bool,
    /// The other side's public key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What to know about it.
    pub note: String,
}

/// `pair_status`
#[derive(Debug, Serialize, JsonSchema)]
pub struct PairStatus {
    /// `peer`: it may write to this identity; `requested`: it was asked; `asking`: it asks; `conflict`:
    /// it accepted and needs another name; `blocked`; `unknown`.
    pub state: String,
    /// The public key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it is called here, or would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub petname: Option<String>,
    /// The name that it gives itself. Not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_name: Option<String>,
    /// Since when, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// What that means and what can be done.
    pub note: String,
}
