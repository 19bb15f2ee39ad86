//! Parameters of the tools. The comments of the members are what the model reads.

pub mod bond;

use schemars::JsonSchema;
use serde::Deserialize;

/// `send_message`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SendMessage {
    /// Who gets it: a peer's name, a 43-character public key, `self` for another session of this
    /// identity, or a full session id.
    pub to: String,
    /// The message.
    pub text: String,
    /// The recipient's session, where `to` is a name, a key or `self`. Without it the message goes
    /// to the session that wrote last, or to the only one.
    pub session: Option<String>,
    /// The task that it belongs to; keep it for every message of that task.
    pub task_id: Option<String>,
    /// Where the task stands: update, needs_input, result, failed or canceled.
    pub status: Option<String>,
    /// The id of the message that it answers.
    pub in_reply_to: Option<String>,
}

/// `message_status`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MessageStatus {
    /// The id of a message that was sent or received.
    pub msg_id: String,
    /// Where to begin in a text that does not fit into one answer: the `to` of the part before, in
    /// bytes. Default 0.
    pub offset: Option<u32>,
}

/// `conversation_history`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ConversationHistory {
    /// A peer's name, a public key, `self`, or a full session id.
    pub peer: String,
    /// How many messages at most, the newest: 1 to 100. Default 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
    /// Acknowledge the received messages that are shown. Default false.
    pub consume: Option<bool>,
}

/// `receive_messages`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReceiveMessages {
    /// The id in the notice that led here, if one did.
    pub notification_id: Option<String>,
    /// True when a notice was lost: lets the next message wake this session again. Default false.
    pub reset_notification: Option<bool>,
    /// How many messages at most: 1 to 100. Default 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// `acknowledge_messages`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AcknowledgeMessages {
    /// The receipts of messages that were read: 1 to 100.
    #[schemars(length(min = 1, max = 100))]
    pub messages: Vec<Receipt>,
}

/// What identifies a received message.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The sender's public key, as the receipt has it.
    pub sender: String,
    /// The message id, as the receipt has it.
    pub msg_id: String,
}

/// `add_peer`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AddPeer {
    /// The local name for the peer.
    pub petname: String,
    /// The peer's public key, 43 characters.
    pub key: String,
}

/// `remove_peer`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RemovePeer {
    /// The local name of the peer.
    pub petname: String,
}

/// `set_summary`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SetSummary {
    /// What this session works on, in one line. Everybody who can ask a relay sees it.
    pub summary: String,
}

/// `request_pair`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RequestPair {
    /// Who is asked: a 43-character public key, its first eight characters, or the name of exactly one
    /// identity on the roster.
    pub target: String,
    /// What the peer is to be called here. Default: `target` as it stands.
    pub petname: Option<String>,
}

/// `accept_pair`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AcceptPair {
    /// Who is admitted: the first eight characters of the key, or the whole key.
    pub fingerprint: String,
    /// What the peer is to be called here. Default: the name that it claims.
    pub petname: Option<String>,
}

/// `reject_pair`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RejectPair {
    /// Whose request: the first eight characters of the key, or the whole key.
    pub fingerprint: String,
}

/// `cancel_pair_request`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CancelPairRequest {
    /// Who was asked: a public key, its first eight characters, or the name that it was to get.
    pub target: String,
}

/// `pair_status`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PairStatus {
    /// A public key, its first eight characters, or a name.
    pub target: String,
}

/// `discover`
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Discover {
    /// Only who is called so: a peer's local name, a public key, its first 8 characters, or the name
    /// that an identity gives itself. Without it everybody is shown.
    pub peer: Option<String>,
}

/// `cancel_task`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CancelTask {
    /// Who works on it: a peer's name, a public key, `self`, or a full session id.
    pub to: String,
    /// The task.
    pub task_id: String,
    /// Why, in words.
    pub reason: Option<String>,
    /// The recipient's session. Without it the session that the task is at.
    pub session: Option<String>,
}

/// `list_tasks`
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct ListTasks {
    /// Show ended tasks too. Default false.
    pub all: Option<bool>,
}

/// Tools without parameters.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Nothing {}

/// `bind_claude_session`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BindClaudeSession {
    /// The conversation: 1 to 128 letters, digits, `-` and `_`.
    pub session_id: String,
    /// Its working directory.
    pub cwd: Option<String>,
    /// The prompt that begins the turn.
    pub prompt: Option<String>,
    /// The hook that calls.
    pub hook_event_name: Option<String>,
    /// Take the conversation over from another server of this identity that still serves it.
    /// Default false.
    pub take_over: Option<Flag>,
}

/// `end_claude_session`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EndClaudeSession {
    /// The conversation.
    pub session_id: String,
}

/// `check_claude_inbox`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CheckClaudeInbox {
    /// The conversation.
    pub session_id: String,
    /// Whether the turn was held up before.
    pub stop_hook_active: Flag,
}

/// A yes or no. Hosts put texts where their hooks ask for values.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Flag {
    /// As it should be.
    Plain(bool),
    /// As a text.
    Text(FlagText),
}

/// A yes or no as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlagText {
    /// Yes.
    True,
    /// No.
    False,
}

impl Flag {
    /// Which it is.
    #[must_use]
    pub fn get(self) -> bool {
        match self {
            Flag::Plain(yes) => yes,
            Flag::Text(text) => text == FlagText::True,
        }
    }
}

/// `bind_codex_session`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BindCodexSession {
    /// The thread, a UUID.
    pub thread_id: String,
    /// The prompt that begins the turn.
    pub prompt: Option<String>,
    /// The hook that calls.
    pub hook_event_name: Option<String>,
}

/// `check_codex_inbox`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CheckCodexInbox {
    /// The thread, a UUID.
    pub thread_id: String,
    /// Whether the turn was held up before.
    pub stop_hook_active: Flag,
}

/// `failed_deliveries`
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FailedDeliveries {
    /// `list`, `read`, `retry` or `discard`.
    pub action: String,
    /// Which one; not for `list`.
    pub id: Option<String>,
}
