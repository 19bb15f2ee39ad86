//! The interface of a relay for sealed sessions, as its client sees it.
//!
//! The relay may be anybody's, so nothing that it says has to be there: members that are missing or
//! of another type read as absent, and payloads stay JSON text until the session reads them one by
//! one. Unknown members are ignored.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, Value};

/// Messages of one batch that are looked at; a relay of this kind keeps a hundred. The rest comes
/// with the next poll.
pub const MAX_BATCH: usize = 256;

/// Values of a payload that are looked at; the largest message of ours has some five hundred.
const MAX_VALUES: usize = 1024;

/// How deep they may lie.
const MAX_DEPTH: usize = 3;

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
    #[serde(default, deserialize_with = "shallow")]
    pub payload: Value,
}

/// What a relay says with an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// As a word.
    #[serde(default, deserialize_with = "lax_text")]
    pub code: Option<String>,
    /// In words. Foreign text.
    #[serde(default, deserialize_with = "lax_text")]
    pub error: Option<String>,
    /// How many seconds to wait.
    #[serde(default, deserialize_with = "lax_number")]
    pub retry_after: Option<u64>,
}

/// A value of whatever type, reduced to what was hoped for. Nothing else of it is kept, however
/// large it is.
enum Lax {
    Text(String),
    Number(u64),
    Flag(bool),
    Other,
}

impl<'de> Deserialize<'de> for Lax {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Lax, D::Error> {
        d.deserialize_any(AnyOf)
    }
}

struct AnyOf;

impl<'de> Visitor<'de> for AnyOf {
    type Value = Lax;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Lax, E> {
        Ok(Lax::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Lax, E> {
        Ok(Lax::Number(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Lax, E> {
        Ok(Lax::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Lax, E> {
        Ok(Lax::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Lax, E> {
        Ok(Lax::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Lax, E> {
        Ok(Lax::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Lax, E> {
        Ok(Lax::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Lax, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Lax::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Lax, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Lax::Other)
    }
}

fn lax_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Ok(match Lax::deserialize(d)? {
        Lax::Text(text) => Some(text),
        Lax::Number(_) | Lax::Flag(_) | Lax::Other => None,
    })
}

fn lax_number<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    Ok(match Lax::deserialize(d)? {
        Lax::Number(number) => Some(number),
        Lax::Text(_) | Lax::Flag(_) | Lax::Other => None,
    })
}

fn lax_flag<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    Ok(matches!(Lax::deserialize(d)?, Lax::Flag(true)))
}

fn shallow<'de, D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
    let left = Cell::new(MAX_VALUES);
    let depth = MAX_DEPTH;
    Part { depth, left: &left }.deserialize(d)
}

/// Keeps what is not too deep and not too many; the rest reads as null, or not at all.
#[derive(Clone, Copy)]
struct Part<'a> {
    depth: usize,
    left: &'a Cell<usize>,
}

impl Part<'_> {
    /// Whether one more value is kept.
    fn has_room(self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    const fn inner(self) -> Self {
        Part {
            depth: self.depth.saturating_sub(1),
            left: self.left,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a payload")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut out = serde_json::Map::new();
        while self.depth > 0 && self.has_room() {
            let Some(name) = members.next_key::<String>()? else {
                return Ok(Value::Object(out));
            };
            out.insert(name, members.next_value_seed(self.inner())?);
        }
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(if self.depth > 0 {
            Value::Object(out)
        } else {
            Value::Null
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = vec![];
        while self.depth > 0 && self.has_room() {
            match items.next_element_seed(self.inner())? {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(if self.depth > 0 {
            Value::Array(out)
        } else {
            Value::Null
        })
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::from(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::from(text))
    }
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
            .map(|m| (m.from.as_deref(), m.seq, m.payload.is_object()))
            .collect();
        assert_eq!(seen[0], (Some("system"), Some(1), true));
        assert_eq!(seen[1], (None, None, false));
        assert_eq!(seen[2].1, Some(3));
        for bad in ["[]", "{}", r#"{"messages":1}"#, r#"{"messages":[1]}"#] {
            assert!(serde_json::from_str::<PollReply>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_payload_is_kept_as_far_as_a_session_looks_and_no_further() {
        let read = |payload: &str| {
            let text = format!(r#"{{"payload":{payload},"seq":1}}"#);
            serde_json::from_str::<Polled>(&text).unwrap().payload
        };
        for whole in [
            r#"{"v":2,"iv":"ab","yes":true}"#,
            r#"{"i":1,"from":"host","r":[["d",0,"eHg"],["c",7,"eHg"]]}"#,
            r#"{"i":1,"hello":{"e":"00","c":"11"}}"#,
            "null",
            "-1",
            "\"x\"",
        ] {
            let wanted: Value = serde_json::from_str(whole).unwrap();
            assert_eq!(read(whole), wanted, "{whole}");
        }
        let deep = read(r#"{"a":{"b":{"c":{"d":1}}}}"#);
        assert_eq!(deep, serde_json::json!({"a": {"b": {"c": null}}}));
        let many = vec!["0"; 1_000_000].join(",");
        assert!(read(&format!("[{many}]")).as_array().unwrap().len() <= MAX_VALUES);
        let many: Vec<String> = (0..100_000).map(|n| format!("\"k{n}\":[]")).collect();
        let kept = read(&format!("{{{}}}", many.join(",")));
        assert!(kept.as_object().unwrap().len() <= MAX_VALUES);
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
