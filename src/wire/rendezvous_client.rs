//! The interface of a relay for sealed sessions, as its client sees it.
//!
//! The relay may be anybody's, so nothing that it says has to be there: members that are missing or
//! of another type read as absent, and payloads stay JSON text until the session reads them one by
//! one. Unknown members are ignored.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Messages of one batch that are looked at; a relay of this kind keeps a hundred. The rest comes
/// with the next poll.
pub const MAX_BATCH: usize = 256;

/// Body of `POST /create` and `POST /join`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Opened<'a> {
    /// Where the two meet: 64 hexadecimal digits.
    pub routing_id: &'a str,
    /// The sender's public key for this session: 64 hexadecimal digits.
    pub public_key: &'a str,
    /// The sender's name at the relay: 64 hexadecimal digits.
    pub peer_id: &'a str,
    /// Asks a relay that knows it for another way of keeping messages. Others ignore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<&'a str>,
}

/// Body of `POST /send`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Said<'a> {
    /// The session.
    pub routing_id: &'a str,
    /// Who sends.
    pub from_peer_id: &'a str,
    /// What is sent; opaque to the relay.
    pub encrypted_payload: &'a RawValue,
}

/// Body of `POST /disconnect`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leave<'a> {
    /// The session.
    pub routing_id: &'a str,
    /// Who leaves.
    pub peer_id: &'a str,
}

/// A good answer of which nothing needs to be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Done {}

/// A good answer to `POST /join`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinReply {
    /// The host's public key.
    #[serde(default, deserialize_with = "lax_text")]
    pub host_public_key: Option<String>,
}

/// A good answer to `GET /poll`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollReply {
    /// What the caller has not seen, in order; at most [`MAX_BATCH`].
    #[serde(deserialize_with = "a_batch")]
    pub messages: Vec<Polled>,
    /// Whether the relay knows nothing of the session.
    #[serde(default, deserialize_with = "lax_flag")]
    pub disconnected: bool,
    /// Number of the oldest message that is kept.
    #[serde(default, deserialize_with = "lax_number")]
    pub oldest_seq: Option<u64>,
}

/// One message of a batch.
#[derive(Clone, Debug, Deserialize)]
pub struct Polled {
    /// The sender's name at the relay, or `system`.
    #[serde(default, deserialize_with = "lax_text")]
    pub from: Option<String>,
    /// Its number.
    #[serde(default, deserialize_with = "lax_number")]
    pub seq: Option<u64>,
    /// What was sent.
    #[serde(default)]
    pub payload: Option<Box<RawValue>>,
}

/// What a relay says with an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// In words. Foreign text.
    #[serde(default, deserialize_with = "lax_text")]
    pub error: Option<String>,
    /// How many seconds to wait.
    #[serde(default, deserialize_with = "lax_number")]
    pub retry_after: Option<u64>,
}

/// A value of whatever type, reduced to what was hoped for.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lax {
    Text(String),
    Number(u64),
    Flag(bool),
    Other(IgnoredAny),
}

fn lax_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Ok(match Lax::deserialize(d)? {
        Lax::Text(text) => Some(text),
        Lax::Number(_) | Lax::Flag(_) | Lax::Other(_) => None,
    })
}

fn lax_number<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    Ok(match Lax::deserialize(d)? {
        Lax::Number(number) => Some(number),
        Lax::Text(_) | Lax::Flag(_) | Lax::Other(_) => None,
    })
}

fn lax_flag<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    Ok(matches!(Lax::deserialize(d)?, Lax::Flag(true)))
}

fn a_batch<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Polled>, D::Error> {
    d.deserialize_seq(Batch)
}

/// Takes the first items of a list and reads over the rest: a list of a million empty objects is
/// short as text and large in memory.
struct Batch;

impl<'de> Visitor<'de> for Batch {
    type Value = Vec<Polled>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut out = vec![];
        while out.len() < MAX_BATCH {
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
    use super::*;

    #[test]
    fn a_batch_is_read_whatever_else_the_relay_says() {
        let text = r#"{"messages":[
            {"from":"system","seq":1,"payload":{"type":"peer_joined"},"timestamp":5},
            {"from":7,"seq":"x"},
            {"from":"ab","seq":3,"payload":null,"more":[]}
        ],"disconnected":"no","oldestSeq":2,"more":{}}"#;
        let reply: PollReply = serde_json::from_str(text).unwrap();
        assert!(!reply.disconnected);
        assert_eq!(reply.oldest_seq, Some(2));
        let seen: Vec<_> = reply
            .messages
            .iter()
            .map(|m| (m.from.as_deref(), m.seq, m.payload.is_some()))
            .collect();
        assert_eq!(seen[0], (Some("system"), Some(1), true));
        assert_eq!(seen[1], (None, None, false));
        assert_eq!(seen[2].1, Some(3));
        for bad in ["[]", "{}", r#"{"messages":1}"#, r#"{"messages":[1]}"#] {
            assert!(serde_json::from_str::<PollReply>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_without_end_is_read_to_its_bound() {
        let text = format!(r#"{{"messages":[{}]}}"#, vec!["{}"; 10_000].join(","));
        let reply: PollReply = serde_json::from_str(&text).unwrap();
        assert_eq!(reply.messages.len(), MAX_BATCH);
    }

    #[test]
    fn what_is_sent_has_the_members_that_every_relay_of_this_kind_knows() {
        let open = Opened {
            routing_id: "r",
            public_key: "k",
            peer_id: "p",
            flow: None,
        };
        let text = serde_json::to_string(&open).unwrap();
        assert_eq!(text, r#"{"routingId":"r","publicKey":"k","peerId":"p"}"#);
        let payload = RawValue::from_string(r#"{"v":2}"#.to_owned()).unwrap();
        let said = Said {
            routing_id: "r",
            from_peer_id: "p",
            encrypted_payload: &payload,
        };
        let text = serde_json::to_string(&said).unwrap();
        assert_eq!(
            text,
            r#"{"routingId":"r","fromPeerId":"p","encryptedPayload":{"v":2}}"#
        );
    }
}
