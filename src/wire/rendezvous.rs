//! Bodies of a relay's HTTP interface: where two strangers meet who share a code.
//!
//! The interface is that of the public Covalent Bond 0.1 relay; its client works unchanged. One
//! member is ours: [`FLOW`], which another relay ignores. Both directions are here, because both
//! ends are ours as well: the relay writes what the client reads.
//!
//! What arrives at a relay is read by [`Posted`], which says of each member whether it is there and
//! well-formed, so that refusals come in the order that clients expect; the request types are what
//! a client writes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The value of `flow` that asks for lossless delivery: the relay keeps every message until its
/// reader has polled past it, and refuses further ones meanwhile.
pub const FLOW: &str = "interlink-1";

/// The sender of what the relay itself says.
pub const SYSTEM: &str = "system";

/// 32 bytes, written as 64 lower-case hex digits: a routing id, a peer id or an X25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelayId(pub [u8; 32]);

/// Not 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 64 lower-case hex digits")]
pub struct RelayIdError;

impl FromStr for RelayId {
    type Err = RelayIdError;

    fn from_str(text: &str) -> Result<Self, RelayIdError> {
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err(RelayIdError);
        }
        let decoded = data_encoding::HEXLOWER.decode_mut(text.as_bytes(), &mut bytes);
        decoded.map_err(|_| RelayIdError)?;
        Ok(RelayId(bytes))
    }
}

impl fmt::Display for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

/// Its beginning only: a peer id is a credential.
impl fmt::Debug for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "RelayId({a:02x}{b:02x}{c:02x}{d:02x}..)")
    }
}

impl Serialize for RelayId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RelayId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Body of `POST /create` and of `POST /join`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenRequest {
    /// The session.
    pub routing_id: RelayId,
    /// X25519 public key of the sender, for this session only.
    pub public_key: RelayId,
    /// What the sender is known by on this relay.
    pub peer_id: RelayId,
    /// [`FLOW`], or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
}

/// Body of `POST /send`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The session.
    pub routing_id: RelayId,
    /// The sender.
    pub from_peer_id: RelayId,
    /// Any JSON but null, false, 0 and "".
    pub encrypted_payload: Box<RawValue>,
}

/// Body of `POST /disconnect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisconnectRequest {
    /// The session.
    pub routing_id: RelayId,
    /// Who leaves.
    pub peer_id: RelayId,
}

/// Reply to `POST /create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateReply {
    /// Always true.
    #[serde(default)]
    pub ok: bool,
    /// The session.
    #[serde(default)]
    pub routing_id: String,
    /// When it ends unless something happens, Unix milliseconds.
    #[serde(default)]
    pub expires_at: u64,
    /// The flow in force; absent for the ordinary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
}

/// Reply to `POST /join`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinReply {
    /// Always true.
    #[serde(default)]
    pub ok: bool,
    /// The host's public key, hex.
    pub host_public_key: String,
    /// Peers in the session now.
    #[serde(default)]
    pub peer_count: u64,
    /// The flow in force; absent for the ordinary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
}

/// Reply to `POST /send` and `POST /disconnect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OkReply {
    /// Always true.
    #[serde(default)]
    pub ok: bool,
}

/// Reply to `GET /poll`. The payloads are the text that was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollReply {
    /// In order of `seq`; none of the reader's own.
    pub messages: Vec<PollMessage>,
    /// Whether there is no such session any more.
    #[serde(default)]
    pub disconnected: bool,
    /// The oldest message that is kept; absent where there is no session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_seq: Option<u64>,
}

/// One message of a poll.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PollMessage {
    /// Peer id of the sender, or [`SYSTEM`].
    pub from: String,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// What was sent, or a [`SystemPayload`].
    pub payload: Box<RawValue>,
    /// When it arrived, Unix milliseconds.
    #[serde(default)]
    pub timestamp: u64,
}

/// What a relay itself says. Nobody vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SystemPayload {
    /// A peer joined.
    PeerJoined {
        /// Who.
        #[serde(rename = "peerId")]
        peer_id: RelayId,
        /// Its public key.
        #[serde(rename = "publicKey")]
        public_key: RelayId,
    },
    /// A peer left.
    Disconnect {
        /// Who.
        #[serde(rename = "peerId")]
        peer_id: RelayId,
    },
}

/// Reply to `/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthReply {
    /// `ok`
    pub status: String,
    /// Wall clock of the relay, Unix milliseconds.
    pub timestamp: u64,
}

/// Every refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorReply {
    /// For people. A client must not trust it.
    pub error: String,
    /// For programs: `ERR_...`.
    pub code: String,
    /// With 413: the largest body in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u64>,
    /// With 429 and 503: seconds until it is worth trying again, as in `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// A request body as a relay reads it. Of a member that stands there twice the last one counts;
/// what is malformed is as good as absent; others are ignored.
#[derive(Clone, Debug, Default)]
pub struct Posted {
    /// `routingId`
    pub routing_id: Option<RelayId>,
    /// `publicKey`
    pub public_key: Option<RelayId>,
    /// `peerId`
    pub peer_id: Option<RelayId>,
    /// `fromPeerId`
    pub from_peer_id: Option<RelayId>,
    /// `encryptedPayload`, where it is neither null, false, 0 nor empty text.
    pub encrypted_payload: Option<Box<RawValue>>,
    /// Whether `flow` is [`FLOW`].
    pub flow: bool,
}

/// What a request body is.
#[derive(Clone, Debug)]
pub enum Body {
    /// An object.
    Members(Box<Posted>),
    /// The word `null`.
    Null,
    /// JSON without members.
    Other,
}

/// A request body is not JSON that a relay takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadBodyError {
    /// There is none.
    #[error("Missing body")]
    Missing,
    /// It is not JSON, or nested deeper than `max_depth`.
    #[error("Invalid JSON body")]
    Invalid,
}

impl Body {
    /// Reads a request body. Bytes that are no UTF-8 count as U+FFFD.
    ///
    /// # Errors
    ///
    /// [`ReadBodyError`].
    pub fn read(bytes: &[u8], max_depth: usize) -> Result<Body, ReadBodyError> {
        if bytes.is_empty() {
            return Err(ReadBodyError::Missing);
        }
        if depth(bytes) > max_depth {
            return Err(ReadBodyError::Invalid);
        }
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let invalid = |_| ReadBodyError::Invalid;
        match text.trim_start().bytes().next() {
            Some(b'{') => {
                let posted: Posted = serde_json::from_str(text).map_err(invalid)?;
                Ok(Body::Members(Box::new(posted)))
            }
            _ => {
                serde_json::from_str::<IgnoredAny>(text).map_err(invalid)?;
                Ok(if text.trim() == "null" {
                    Body::Null
                } else {
                    Body::Other
                })
            }
        }
    }
}

/// How deep brackets nest, outside of strings.
fn depth(bytes: &[u8]) -> usize {
    let (mut deepest, mut open, mut quoted, mut escaped) = (0usize, 0usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Whether JavaScript takes a value for true.
fn is_truthy(text: &str) -> bool {
    match text {
        "null" | "false" | "\"\"" => false,
        number if number.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            number.parse::<f64>().is_ok_and(|n| n != 0.0)
        }
        _ => true,
    }
}

impl<'de> Deserialize<'de> for Posted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Posted;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Posted, A::Error> {
                let mut posted = Posted::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "routingId" => posted.routing_id = id(&mut map)?,
                        "publicKey" => posted.public_key = id(&mut map)?,
                        "peerId" => posted.peer_id = id(&mut map)?,
                        "fromPeerId" => posted.from_peer_id = id(&mut map)?,
                        "encryptedPayload" => {
                            let raw: Box<RawValue> = map.next_value()?;
                            posted.encrypted_payload = is_truthy(raw.get()).then_some(raw);
                        }
                        "flow" => {
                            let raw: Box<RawValue> = map.next_value()?;
                            posted.flow = string(&raw).is_some_and(|flow| flow == FLOW);
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(posted)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

fn id<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<RelayId>, A::Error> {
    let raw: Box<RawValue> = map.next_value()?;
    Ok(string(&raw).and_then(|text| text.parse().ok()))
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// `since` of a poll as JavaScript's `parseInt` reads it: leading white space, a sign, leading
/// digits. Absent or empty is 0; `None` is no number, which no message follows.
#[must_use]
pub fn since(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit());
    let digits = digits
        .get(..end.unwrap_or(digits.len()))
        .unwrap_or_default();
    if digits.is_empty() {
        return None;
    }
    let n = digits.parse::<i64>().unwrap_or(i64::MAX);
    Some(if negative { -n } else { n })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_64_lower_case_hex_digits() {
        let good = "0f".repeat(32);
        assert_eq!(good.parse::<RelayId>().unwrap().to_string(), good);
        for bad in [
            String::new(),
            "0f".repeat(31),
            "0F".repeat(32),
            "0g".repeat(32),
            "0f".repeat(33),
            format!("{good}\n"),
            "\u{e9}".repeat(32),
        ] {
            assert!(bad.parse::<RelayId>().is_err(), "{bad:?}");
        }
        let shown = format!("{:?}", good.parse::<RelayId>().unwrap());
        assert!(shown.len() < 24, "{shown}");
    }

    #[test]
    fn since_is_read_as_parse_int_does() {
        for (text, n) in [
            ("", Some(0)),
            ("0", Some(0)),
            ("7", Some(7)),
            ("1.9", Some(1)),
            ("2abc", Some(2)),
            (" 3", Some(3)),
            ("+4", Some(4)),
            ("-5", Some(-5)),
            ("1e3", Some(1)),
            ("99999999999999999999", Some(i64::MAX)),
            ("-99999999999999999999", Some(-i64::MAX)),
            ("abc", None),
            ("-", None),
            ("NaN", None),
            (" ", None),
        ] {
            assert_eq!(since(text), n, "{text:?}");
        }
    }

    fn posted(text: &str) -> Posted {
        match Body::read(text.as_bytes(), 8).unwrap() {
            Body::Members(posted) => *posted,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn members_are_lenient_and_payloads_are_kept_as_they_came() {
        let hex = "a1".repeat(32);
        let text = format!(
            "{{\"routingId\":\"{}\",\"routingId\":\"{hex}\",\"peerId\":7,\
             \"encryptedPayload\": {{ \"b\": 1.50, \"a\": 2 }},\"x\":[{{}}],\
             \"flow\":\"interlink-1\"}}",
            "00".repeat(32)
        );
        let read = posted(&text);
        assert_eq!(read.routing_id, hex.parse().ok());
        assert_eq!((read.peer_id, read.public_key), (None, None));
        assert!(read.flow);
        let payload = read.encrypted_payload.unwrap();
        assert_eq!(payload.get(), "{ \"b\": 1.50, \"a\": 2 }");
    }

    #[test]
    fn falsy_payloads_are_no_payloads() {
        for (text, is) in [
            ("null", false),
            ("false", false),
            ("0", false),
            ("-0", false),
            ("0.0e7", false),
            ("\"\"", false),
            ("true", true),
            ("1", true),
            ("-0.5", true),
            ("\"0\"", true),
            ("[]", true),
            ("{}", true),
        ] {
            let read = posted(&format!("{{\"encryptedPayload\":{text}}}"));
            assert_eq!(read.encrypted_payload.is_some(), is, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_told_apart() {
        let read = |text: &str| Body::read(text.as_bytes(), 3);
        assert!(matches!(read(""), Err(ReadBodyError::Missing)));
        assert!(matches!(read("{"), Err(ReadBodyError::Invalid)));
        assert!(matches!(read("{} x"), Err(ReadBodyError::Invalid)));
        assert!(matches!(read("[[[[1]]]]"), Err(ReadBodyError::Invalid)));
        assert!(matches!(read("[[\"[[[[\\\"\"]]"), Ok(Body::Other)));
        assert!(matches!(read(" null "), Ok(Body::Null)));
        assert!(matches!(read("7"), Ok(Body::Other)));
        assert!(matches!(read("\u{feff}{}"), Ok(Body::Members(_))));
    }

    #[test]
    fn system_payloads_have_the_names_of_the_wire() {
        let id = RelayId([1; 32]);
        let joined = SystemPayload::PeerJoined {
            peer_id: id,
            public_key: id,
        };
        let text = serde_json::to_string(&joined).unwrap();
        let hex = "01".repeat(32);
        assert_eq!(
            text,
            format!("{{\"type\":\"peer_joined\",\"peerId\":\"{hex}\",\"publicKey\":\"{hex}\"}}")
        );
        assert_eq!(
            serde_json::from_str::<SystemPayload>(&text).unwrap(),
            joined
        );
    }
}
