//! Bodies of the bus's HTTP interface, as the server sees them.
//!
//! Requests are read only, replies are written only; what the agent needs of the other direction
//! is in [`client`]. Recipients are opaque text here: a bus does not know what a key is.
//!
//! Beyond the public 0.8 to 0.13 interface: `max` of a receive with its `messages` reply, `acks`
//! of an acknowledgement, and the body of a 202 that tells what an overflow dropped. Older
//! clients send and read none of them.

pub mod client;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Body of `POST /send`. Unknown members are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct SendRequest {
    /// The queue.
    pub to: String,
    /// Anything; it is kept and given back as JSON, never looked into.
    pub payload: Value,
}

/// Body of a 202 to `POST /send` when the queue was full and older mail made room. A send that
/// dropped nothing has an empty body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OverflowReply {
    /// Why mail was dropped.
    pub reason: DropReason,
    /// What was dropped, oldest first.
    pub dropped: Vec<DroppedMessage>,
}

/// Why a bus dropped mail that nobody acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The queue was full.
    Overflow,
}

/// One dropped message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DroppedMessage {
    /// Its position in the bus's log.
    #[schemars(with = "u64")]
    pub seq: Seq,
    /// The key with which it would have been acknowledged.
    pub ack: String,
    /// When the bus had received it, Unix milliseconds.
    #[schemars(with = "u64")]
    pub ts: UnixMillis,
}

/// Query of `GET /recv`. Unknown members are ignored, duplicates are an error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct RecvQuery {
    /// The queue.
    pub me: String,
    /// How long to wait for mail, milliseconds. 0 looks without waiting.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// How many messages to give at most. Given at all, the reply is
    /// [`RecvReply::Messages`].
    #[serde(default)]
    pub max: Option<u64>,
}

/// Reply of `GET /recv`, told apart by `status`. `P` is the payload in whatever form the server
/// keeps it, e.g. raw JSON text.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RecvReply<P> {
    /// The oldest message that is not acknowledged.
    Message {
        /// How to acknowledge it.
        ack: String,
        /// The message.
        envelope: Envelope<P>,
        /// Says `message`.
        status: StatusMessage,
    },
    /// The oldest messages, oldest first; only when asked with `max`.
    Messages {
        /// At least one.
        messages: Vec<Delivery<P>>,
        /// Says `message`.
        status: StatusMessage,
    },
    /// Nothing came.
    Timeout {
        /// Says `timeout`.
        status: StatusTimeout,
    },
}

impl<P> RecvReply<P> {
    /// One message.
    #[must_use]
    pub const fn message(ack: String, payload: P, ts: UnixMillis) -> RecvReply<P> {
        let envelope = Envelope { payload, ts };
        RecvReply::Message {
            ack,
            envelope,
            status: StatusMessage::Message,
        }
    }

    /// Several messages.
    #[must_use]
    pub const fn messages(messages: Vec<Delivery<P>>) -> RecvReply<P> {
        RecvReply::Messages {
            messages,
            status: StatusMessage::Message,
        }
    }

    /// Nothing came.
    #[must_use]
    pub const fn timeout() -> RecvReply<P> {
        RecvReply::Timeout {
            status: StatusTimeout::Timeout,
        }
    }
}

/// The word `message`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatusMessage {
    /// `message`
    Message,
}

/// The word `timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatusTimeout {
    /// `timeout`
    Timeout,
}

/// One message of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Delivery<P> {
    /// How to acknowledge it.
    pub ack: String,
    /// The message.
    pub envelope: Envelope<P>,
}

/// A payload with the bus's stamp.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Envelope<P> {
    /// What was sent.
    pub payload: P,
    /// When the bus received it, Unix milliseconds.
    #[schemars(with = "u64")]
    pub ts: UnixMillis,
}

/// Body of `POST /ack`: one `ack`, or several `acks`, or both.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct AckRequest {
    /// The queue.
    pub me: String,
    /// One key, as a receive gave it.
    #[serde(default)]
    pub ack: Option<String>,
    /// Several keys.
    #[serde(default)]
    pub acks: Option<Vec<String>>,
}

/// Reply of `GET /roster`: announcements as they were posted, each with `age_ms`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RosterReply {
    /// In no order.
    pub roster: Vec<Value>,
}
