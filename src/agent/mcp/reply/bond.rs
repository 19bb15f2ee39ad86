//! Results of the tools of sealed sessions.
//!
//! What the other side wrote stands between markers, in `content` and in the texts of `events` and
//! nowhere else. Names of its files are bounded lines with everything odd spelled out.

use schemars::JsonSchema;
use serde::Serialize;

/// Something that happened between two calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BondEvent {
    /// `joined`, `confirmed`, `message`, `file_offered`, `file_accepted`, `file_declined`,
    /// `file_rejected`, `pin_asked`, `pinned`, `pin_failed`, `peer_left`, `relay_lost`, `expired`, `aborted`, `gap`, `dropped`, or `more` for
    /// how many are left out.
    pub kind: String,
    /// When, Unix milliseconds.
    pub at_ms: u64,
    /// The file that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_id: Option<String>,
    /// What happened. A peer's words stand between their markers: untrusted text.
    pub text: String,
}

/// A file that waits for the user's decision.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BondOffer {
    /// What to pass to bond_accept or bond_decline.
    pub transfer_id: String,
    /// The file's name as the peer gives it, spelled out. Not verified.
    pub name: String,
    /// Bytes of the file.
    pub size: u64,
    /// What kind of file the name says it is.
    pub file_type: String,
    /// SHA-256 of the bytes: 64 hexadecimal digits.
    pub sha256: String,
    /// Rules of the scan that its content breaks, by name.
    pub findings: Vec<String>,
}

/// `bond_connect`, `bond_join` and `bond_status`
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct BondState {
    /// Whether there is a session.
    pub connected: bool,
    /// `none`, `waiting` for the other side, `keyed`, `confirmed`, or `ended` with the peer gone.
    pub state: String,
    /// The code that opens the session. Whoever has it first can be the other side: the user gives it
    /// away by a way that the relay does not control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_code: Option<String>,
    /// `host` or `guest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// How many are in the session, this side included.
    pub peers: u64,
    /// The name of the peer whose session it is, where no code opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Words that both sides see alike, where the session has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// What is wrong with the relay at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay_trouble: Option<String>,
    /// When the session ends if nothing happens, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// By how much the peer's clock differs, milliseconds, where that made packets unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_difference_ms: Option<u64>,
    /// Messages of the peer that the relay threw away before they were fetched.
    pub missed: u64,
    /// Packets that were dropped because they could not be trusted.
    pub dropped: u64,
    /// Events that wait; they are in this answer.
    pub unread: u64,
    /// Files that wait for the user's decision.
    pub pending: Vec<BondOffer>,
    /// What to know or do next.
    pub note: String,
    /// What happened since the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<BondEvent>>,
}

/// `bond_send` and `bond_message`
#[derive(Debug, Serialize, JsonSchema)]
pub struct BondSent {
    /// Whether the relay has it.
    pub sent: bool,
    /// The file's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// SHA-256 of the file's bytes; the other side is shown the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Characters of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chars: Option<u64>,
    /// What to know about it.
    pub note: String,
    /// What happened since the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<BondEvent>>,
}

/// `bond_wait`
#[derive(Debug, Serialize, JsonSchema)]
pub struct BondWaited {
    /// `events`, `timeout`, or `ended` when there is no session any more.
    pub outcome: String,
    /// What to know or do next.
    pub note: String,
    /// What happened since the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<BondEvent>>,
}

/// `bond_accept` and `bond_decline`
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct BondDecided {
    /// Whether that is done now.
    pub done: bool,
    /// `accepted`, `declined`, or `waiting` for the user.
    pub state: String,
    /// Which file.
    pub transfer_id: String,
    /// Its name, spelled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// SHA-256 of its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The file between its markers: untrusted text of a peer, perhaps only its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Whether `content` is only the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// What to know about it.
    pub note: String,
    /// The line that the user can run in a terminal of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What happened since the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<BondEvent>>,
}

/// `bond_end`
#[derive(Debug, Serialize, JsonSchema)]
pub struct BondEnded {
    /// Whether there was a session to end.
    pub ended: bool,
    /// What to know about it.
    pub note: String,
    /// What happened since the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<BondEvent>>,
}

/// `bond_pin`
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct BondPinned {
    /// `pinned`: the other side is a peer here; `asked`: its user decides; `waiting` for this side's user;
    /// or `declined`.
    pub state: String,
    /// The key that the other side proved, once it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// First characters of that key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The name that the other side gives itself. Not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_name: Option<String>,
    /// Its name here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub petname: Option<String>,
    /// What to know about it.
    pub note: String,
    /// The line that the user can run in a terminal of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What happened since the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<BondEvent>>,
}
