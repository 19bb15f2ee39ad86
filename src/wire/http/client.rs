//! The bus's HTTP interface as a client sees it.
//!
//! A relay is not trusted: every member that may be missing is optional, unknown words are kept
//! apart from known ones, and payloads stay JSON text until they are read one by one: parsed
//! without knowing their shape, they could take up 50 times as much memory.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::types::route::Route;
use crate::types::time::UnixMillis;
use crate::wire::envelope::Message;

/// Body of `POST /send`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SendBody<'a> {
    /// The signed message.
    pub payload: &'a Message,
    /// The queue: the recipient's key and session.
    pub to: &'a Route,
}

/// Body of a 202 to `POST /send`; a bus that dropped nothing sends none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SendReply {
    /// What the bus dropped to make room.
    #[serde(default)]
    pub dropped: Vec<Dropped>,
}

/// One message that the bus dropped.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Dropped {
    /// When the bus had received it.
    #[serde(default)]
    pub ts: UnixMillis,
}

/// Body of `POST /ack`.
#[derive(Clone, Debug, Serialize)]
pub struct AckBody<'a> {
    /// The queue.
    pub me: &'a Route,
    /// One key; a public bus reads this one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<&'a str>,
    /// Several keys.
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    pub acks: &'a [&'a str],
}

/// Reply of `GET /recv`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RecvReply {
    /// What kind of reply.
    #[serde(default)]
    pub status: RecvStatus,
    /// Key of the single message.
    #[serde(default)]
    pub ack: Option<String>,
    /// The single message.
    #[serde(default)]
    pub envelope: Option<ReceivedEnvelope>,
    /// The messages of a batch.
    #[serde(default)]
    pub messages: Vec<ReceivedDelivery>,
}

impl RecvReply {
    /// Everything that was delivered, in order: the single message first, then the batch.
    #[must_use]
    pub fn into_deliveries(self) -> Vec<ReceivedDelivery> {
        let single = self.ack.map(|ack| ReceivedDelivery {
            ack,
            envelope: self.envelope,
        });
        single.into_iter().chain(self.messages).collect()
    }
}

/// Kind of a receive's reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecvStatus {
    /// There is mail.
    Message,
    /// Nothing came.
    Timeout,
    /// The bus failed, or said something we do not know.
    #[default]
    #[serde(other)]
    Error,
}

/// One delivery. Without an envelope there is nothing to read; it is acknowledged and dropped.
#[derive(Clone, Debug, Deserialize)]
pub struct ReceivedDelivery {
    /// How to acknowledge it; opaque.
    pub ack: String,
    /// The message.
    #[serde(default)]
    pub envelope: Option<ReceivedEnvelope>,
}

/// A payload with the bus's stamp.
#[derive(Clone, Debug, Deserialize)]
pub struct ReceivedEnvelope {
    /// What was sent; for [`Message::from_json`].
    #[serde(default)]
    pub payload: Option<Box<RawValue>>,
    /// When the bus says it received it.
    #[serde(default)]
    pub ts: UnixMillis,
}

/// Reply of `GET /roster`. Entries that are not announcements are skipped one by one.
#[derive(Clone, Debug, Deserialize)]
pub struct RosterReply {
    /// For [`crate::wire::announce::Announcement::from_json`].
    pub roster: Vec<Box<RawValue>>,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::wire::http as server;

    #[test]
    fn replies_of_the_server_are_read_by_the_client() {
        let one = server::RecvReply::message("k".into(), Value::from(1), UnixMillis(5));
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(
            text,
            r#"{"ack":"k","envelope":{"payload":1,"ts":5},"status":"message"}"#
        );
        let read: RecvReply = serde_json::from_str(&text).unwrap();
        assert_eq!(read.status, RecvStatus::Message);
        assert_eq!(read.into_deliveries().len(), 1);

        let envelope = server::Envelope {
            payload: Value::Null,
            ts: UnixMillis(6),
        };
        let delivery = server::Delivery {
            ack: "a".into(),
            envelope,
        };
        let many = server::RecvReply::messages(vec![delivery.clone(), delivery]);
        let read: RecvReply = serde_json::from_value(serde_json::to_value(&many).unwrap()).unwrap();
        assert_eq!(read.into_deliveries().len(), 2);

        let none = serde_json::to_string(&server::RecvReply::<Value>::timeout()).unwrap();
        assert_eq!(none, r#"{"status":"timeout"}"#);
        let read: RecvReply = serde_json::from_str(&none).unwrap();
        assert_eq!(read.status, RecvStatus::Timeout);
        let odd: RecvReply = serde_json::from_str(r#"{"status":"later","x":1}"#).unwrap();
        assert_eq!(odd.status, RecvStatus::Error);
    }

    #[test]
    fn an_overflow_names_what_was_dropped() {
        let reply = server::OverflowReply {
            reason: server::DropReason::Overflow,
            dropped: vec![server::DroppedMessage {
                seq: crate::types::seq::Seq(7),
                ack: "q\u{0}7".into(),
                ts: UnixMillis(9),
            }],
        };
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(
            text,
            r#"{"reason":"overflow","dropped":[{"seq":7,"ack":"q\u00007","ts":9}]}"#
        );
        let read: SendReply = serde_json::from_str(&text).unwrap();
        assert_eq!(read.dropped.len(), 1);
    }
}
