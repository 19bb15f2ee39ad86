//! The bus's HTTP interface as a client sees it.
//!
//! A relay is not trusted: every member that may be missing is optional, unknown words are kept
//! apart from known ones, and payloads stay JSON text until they are read one by one: parsed
//! without knowing their shape, they could take up 50 times as much memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::types::limit::{MAX_RECV_BATCH, MAX_ROSTER_ENTRIES};
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
    #[serde(default, deserialize_with = "at_most_a_batch")]
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
    /// The messages of a batch; what is beyond [`MAX_RECV_BATCH`] is left for the next time.
    #[serde(default, deserialize_with = "at_most_a_batch")]
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
    /// For [`crate::wire::announce::Announcement::from_json`]; at most [`MAX_ROSTER_ENTRIES`].
    #[serde(deserialize_with = "at_most_a_board")]
    pub roster: Vec<Box<RawValue>>,
}

fn at_most_a_batch<'de, T, D>(d: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    d.deserialize_seq(AtMost(MAX_RECV_BATCH, PhantomData))
}

fn at_most_a_board<'de, T, D>(d: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    d.deserialize_seq(AtMost(MAX_ROSTER_ENTRIES, PhantomData))
}

/// Takes the first items of a list and reads over the rest: a list of a million empty objects is
/// short as text and large in memory.
struct AtMost<T>(usize, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut out = vec![];
        while out.len() < self.0 {
            match items.next_element()? {
                Some(item) => out.push(item),
                None => return Ok(out),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(out)
    }
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
    fn lists_are_read_to_their_bound_and_over_the_rest() {
        let many = |item: &str, n: usize| vec![item; n].join(",");
        let text = format!(r#"{{"messages":[{}]}}"#, many(r#"{"ack":"k"}"#, 10_000));
        let read: RecvReply = serde_json::from_str(&text).unwrap();
        assert_eq!(read.messages.len(), MAX_RECV_BATCH);
        let text = format!(r#"{{"roster":[{}]}}"#, many("0", 10_000));
        let read: RosterReply = serde_json::from_str(&text).unwrap();
        assert_eq!(read.roster.len(), MAX_ROSTER_ENTRIES);
        // The rest must be JSON all the same.
        assert!(serde_json::from_str::<RosterReply>(&text.replace("0]", "0,]")).is_err());
        let text = format!(r#"{{"dropped":[{}]}}"#, many("{}", 10_000));
        let read: SendReply = serde_json::from_str(&text).unwrap();
        assert_eq!(read.dropped.len(), MAX_RECV_BATCH);
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
