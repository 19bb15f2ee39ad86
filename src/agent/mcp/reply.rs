//! Results of the tools as data. Hosts show a model either these or the text, so each has all.
//!
//! Peer text stands inside `content`, between its markers, and nowhere else. Ids that a peer chose
//! are given outside of it only when they are plain ([`super::render::is_plain_id`]).

pub mod bond;
pub mod pairing;
mod presence;

use schemars::JsonSchema;
use serde::Serialize;

pub use presence::{Discovered, FailedRelay, Identity, IdentitySession, Pending, TaskView, Tasks};

/// A result: for hosts that show text, and for hosts that show data.
#[derive(Debug)]
pub struct Answer<T> {
    /// The text.
    pub text: String,
    /// The data.
    pub data: T,
}

/// `send_message`
#[derive(Debug, Serialize, JsonSchema)]
pub struct Queued {
    /// The id of the message.
    pub msg_id: String,
    /// How far it is: `pending` until a relay has it.
    pub state: String,
    /// The recipient's session; spelled out if it is an odd one.
    pub session: String,
    /// The recipient's local name.
    pub peer: String,
    /// The recipient's public key.
    pub key: String,
    /// `live`, `away`, `gone` or `unknown`.
    pub presence: String,
    /// What to know about it.
    pub note: String,
}

/// One received message.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Received {
    /// What to pass to acknowledge_messages.
    pub receipt: Receipt,
    /// How far it is: `receiver_acknowledged` once it was acknowledged.
    pub state: String,
    /// The same in words: `stored`, `notified via` a way to wake the host, `read`.
    pub stage: String,
    /// When its sender signed it, Unix milliseconds.
    pub signed_at_ms: u64,
    /// The task that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Where that task stands, in the sender's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// The sender's session, where it is known to be the sender's: answers can go to it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session that the sender asks to be answered at; not signed. Write to the sender by name
    /// with this as `session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_session: Option<String>,
    /// The message that made this progress report obsolete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// Set when this is a part of a long text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The message between its markers: untrusted text of a peer.
    pub content: String,
}

/// Which part of a text is shown. Unread stays unread: acknowledge it after its last part.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Part {
    /// Its first byte.
    pub from: u64,
    /// The byte after its last: the `offset` of the next part.
    pub to: u64,
    /// Bytes of the whole text.
    pub of: u64,
    /// How to read on; absent in the last part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
}

/// What identifies a received message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Receipt {
    /// The sender's public key.
    pub sender: String,
    /// The message id, or `seq:` and a number when the sender chose an odd one.
    pub msg_id: String,
}

/// One sent message.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Outgoing {
    /// The id of the message.
    pub msg_id: String,
    /// `pending`, `bus_accepted` or `refused`.
    pub state: String,
    /// The same in words: `queued`, `on relay` or `refused`.
    pub stage: String,
    /// The recipient's local name.
    pub peer: String,
    /// The recipient's public key.
    pub key: String,
    /// The recipient's session; spelled out if it is an odd one.
    pub session: String,
    /// When it was queued, Unix milliseconds.
    pub queued_at_ms: u64,
    /// The task that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Where that task stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// How far it is on each relay.
    pub relays: Vec<RelayState>,
    /// Set when `text` is a part of a long text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The text that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A message on one relay.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RelayState {
    /// The relay.
    pub url: String,
    /// `waiting`, `accepted` or `refused`.
    pub state: String,
    /// Failed attempts so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// When it is tried again, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try_ms: Option<u64>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// `message_status`
#[derive(Debug, Serialize, JsonSchema)]
pub struct Status {
    /// `inbound`, `outbound` or `unknown`.
    pub direction: String,
    /// The received message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Received>,
    /// The sent message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<Outgoing>,
    /// What to know about it.
    pub note: String,
}

/// One message of a conversation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Line {
    /// Set for a received message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Received>,
    /// Set for a sent message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<Outgoing>,
}

/// `conversation_history`
#[derive(Debug, Serialize, JsonSchema)]
pub struct History {
    /// The newest that fit into an answer, oldest first.
    pub messages: Vec<Line>,
    /// How many older ones were asked for and did not fit.
    pub left_out: u64,
    /// Messages of that peer that came too late to be read, newest first.
    pub expired: Vec<Expired>,
    /// How many received messages this call acknowledged.
    pub acknowledged: u64,
}

/// A message that came too late.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Expired {
    /// What to pass to acknowledge_messages, so that it is not shown again.
    pub receipt: Receipt,
    /// The sender's local name.
    pub peer: String,
    /// The sender's public key.
    pub sender: String,
    /// When it was signed, Unix milliseconds.
    pub signed_at_ms: u64,
}

/// The notice that nobody followed up yet.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Notice {
    /// Its id.
    pub notification_id: String,
    /// How far it came.
    pub state: String,
}

/// `receive_messages`
#[derive(Debug, Serialize, JsonSchema)]
pub struct Inbox {
    /// Unread messages, oldest first, progress reports last.
    pub messages: Vec<Received>,
    /// How many messages are unread in all.
    pub unread: u64,
    /// How many of them are not shown here: acknowledge these and call again.
    pub remaining: u64,
    /// Messages of peers that came too late to be read. Their senders may send again.
    pub expired: Vec<Expired>,
    /// The notice that is outstanding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
    /// What to do next.
    pub note: String,
}

/// `acknowledge_messages`
#[derive(Debug, Serialize, JsonSchema)]
pub struct Acknowledged {
    /// How many were not acknowledged before.
    pub acknowledged: u64,
    /// How many messages are still unread.
    pub unread: u64,
}

/// `add_peer`
#[derive(Debug, Serialize, JsonSchema)]
pub struct PeerAdded {
    /// The local name.
    pub petname: String,
    /// The public key.
    pub key: String,
    /// False when it was in the list already, or the user has not agreed.
    pub changed: bool,
    /// Why nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The line that the user can run in a terminal of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// `remove_peer`
#[derive(Debug, Serialize, JsonSchema)]
pub struct PeerRemoved {
    /// False when there is no such peer, or the user has not agreed.
    pub removed: bool,
    /// The key that may not write any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Why nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The line that the user can run in a terminal of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// One peer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Peer {
    /// The local name.
    pub petname: String,
    /// The public key.
    pub key: String,
    /// How it came in: `file`, `tool` or `admin`.
    pub origin: String,
    /// Since when, Unix milliseconds.
    pub since_ms: u64,
}

/// `list_peers`
#[derive(Debug, Serialize, JsonSchema)]
pub struct Peers {
    /// Everybody who may write to this identity, by name.
    pub peers: Vec<Peer>,
    /// How many more there are than fit into an answer.
    pub left_out: u64,
    /// Who was written into `peers.json` by hand and is not admitted: the key had been revoked.
    pub held: Vec<Held>,
}

/// An entry of a hand edit that does not count.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Held {
    /// The name that it was given.
    pub petname: String,
    /// The public key.
    pub key: String,
}

/// `get_my_session_id`
#[derive(Debug, Serialize, JsonSchema)]
pub struct MySession {
    /// The id of this session.
    pub session_id: String,
    /// The public key of this identity.
    pub public_key: String,
}

/// `set_summary`
#[derive(Debug, Serialize, JsonSchema)]
pub struct SummarySet {
    /// The summary as others see it.
    pub summary: String,
}

/// What a hook is told, in the host's own terms. Empty when there is nothing to tell.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HookAnswer {
    /// `block` when the turn must go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Why, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A warning for the user.
    #[serde(rename = "systemMessage", skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    /// More context for the model.
    #[serde(rename = "hookSpecificOutput", skip_serializing_if = "Option::is_none")]
    pub hook_specific_output: Option<HookContext>,
}

/// Context that a hook adds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HookContext {
    /// The hook.
    #[serde(rename = "hookEventName")]
    pub hook_event_name: String,
    /// The context.
    #[serde(rename = "additionalContext")]
    pub additional_context: String,
}

/// A notice that the host did not take.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedDelivery {
    /// Length of its text in bytes.
    pub bytes: u64,
    /// Its id.
    pub id: String,
    /// The id of the notice.
    pub msg_id: String,
    /// What was wrong.
    pub reason: String,
    /// Always `Interlink`: words of peers are never pushed.
    pub sender: String,
    /// When it failed, Unix milliseconds.
    pub failed_at_ms: u64,
}

/// `failed_deliveries`
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedDeliveries {
    /// What the host did not take.
    pub failed: Vec<FailedDelivery>,
    /// The notice, or what was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
