//! What a relay carries in our own mode: an exchange in the open, then sealed records
//! (`schema/bond-own.md`).
//!
//! ```text
//! {"i":1,"from":"host","hello":{"e":64 digits,"c":64 digits,"s":128 digits or absent}}
//! {"i":1,"from":"host","refused":true}
//! {"i":1,"from":"host","r":[["d",0,"base64url"],["c",7,"base64url"]]}
//! ```
//!
//! Each says who sent it, so that a message that comes back to its sender is told from a damaged
//! one; the seal binds the same word.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde_json::{Value, json};

use super::Role;

/// The only version there is.
pub const VERSION: u64 = 1;

/// The most records of one message.
pub const MAX_RECORDS: usize = 128;

/// The most characters of one record's sealed bytes.
pub const MAX_RECORD_CHARS: usize = 1 << 20;

/// The member that our relay understands in `/create` and `/join`, and others ignore.
pub const FLOW: &str = "interlink-1";

/// One message as a relay carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who claims to have sent it.
    pub from: Role,
    /// What it is.
    pub body: Body,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A proof of the code.
    Hello(Hello),
    /// The sender gave up: the proof was wrong. Anybody could have written it.
    Refused,
    /// Sealed records.
    Records(Vec<Record>),
}

/// A proof that its sender knows the code, and the other half of the session's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's X25519 public key.
    pub ephemeral: [u8; 32],
    /// The proof.
    pub confirmation: [u8; 32],
    /// The sender's identity vouches for it; only in sessions that are keyed by identities.
    pub signature: Option<[u8; 64]>,
}

/// The two streams of records of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Sent until it is acknowledged, handled in order.
    Data,
    /// Sent once; only the newest counts.
    Control,
}

impl Lane {
    /// The letter on the wire and in what a seal binds.
    #[must_use]
    pub const fn letter(self) -> u8 {
        match self {
            Lane::Data => b'd',
            Lane::Control => b'c',
        }
    }
}

/// A sealed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of which stream.
    pub lane: Lane,
    /// Its number there, from 0.
    pub seq: u64,
    /// Ciphertext and tag.
    pub sealed: Vec<u8>,
}

/// Reads a message. Members that are not known are ignored.
#[must_use]
pub fn read(payload: &Value) -> Option<Message> {
    if payload.get("i").and_then(Value::as_u64) != Some(VERSION) {
        return None;
    }
    let from = match payload.get("from").and_then(Value::as_str)? {
        "host" => Role::Host,
        "guest" => Role::Guest,
        _ => return None,
    };
    let body = if let Some(hello) = payload.get("hello") {
        Body::Hello(Hello {
            ephemeral: hex(hello.get("e")?)?,
            confirmation: hex(hello.get("c")?)?,
            signature: match hello.get("s") {
                Some(signature) => Some(hex(signature)?),
                None => None,
            },
        })
    } else if let Some(records) = payload.get("r") {
        let records = records.as_array().filter(|all| all.len() <= MAX_RECORDS)?;
        Body::Records(records.iter().map(record).collect::<Option<_>>()?)
    } else if payload.get("refused").and_then(Value::as_bool) == Some(true) {
        Body::Refused
    } else {
        return None;
    };
    Some(Message { from, body })
}

fn record(value: &Value) -> Option<Record> {
    let [lane, seq, sealed] = value.as_array()?.as_slice() else {
        return None;
    };
    let lane = match lane.as_str()? {
        "d" => Lane::Data,
        "c" => Lane::Control,
        _ => return None,
    };
    let sealed = sealed.as_str().filter(|s| s.len() <= MAX_RECORD_CHARS)?;
    Some(Record {
        lane,
        seq: seq.as_u64()?,
        sealed: BASE64URL_NOPAD.decode(sealed.as_bytes()).ok()?,
    })
}

fn hex<const N: usize>(value: &Value) -> Option<[u8; N]> {
    let bytes = HEXLOWER.decode(value.as_str()?.as_bytes()).ok()?;
    bytes.try_into().ok()
}

/// Writes a proof.
#[must_use]
pub fn write_hello(from: Role, hello: &Hello) -> String {
    let mut told = json!({
        "e": HEXLOWER.encode(&hello.ephemeral),
        "c": HEXLOWER.encode(&hello.confirmation),
    });
    if let (Some(signature), Some(told)) = (&hello.signature, told.as_object_mut()) {
        told.insert("s".to_owned(), HEXLOWER.encode(signature).into());
    }
    json!({ "i": VERSION, "from": from.word(), "hello": told }).to_string()
}

/// Writes that the sender gave up.
#[must_use]
pub fn write_refused(from: Role) -> String {
    json!({ "i": VERSION, "from": from.word(), "refused": true }).to_string()
}

/// Writes records.
#[must_use]
pub fn write_records<'a>(from: Role, records: impl IntoIterator<Item = &'a Record>) -> String {
    let mut out = format!("{{\"i\":{VERSION},\"from\":\"{}\",\"r\":[", from.word());
    for (at, record) in records.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str("[\"");
        out.push(char::from(record.lane.letter()));
        out.push_str("\",");
        out.push_str(&record.seq.to_string());
        out.push_str(",\"");
        BASE64URL_NOPAD.encode_append(&record.sealed, &mut out);
        out.push_str("\"]");
    }
    out.push_str("]}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(text: &str) -> Option<Message> {
        read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn what_is_written_is_read() {
        let hello = Hello {
            ephemeral: [7; 32],
            confirmation: [9; 32],
            signature: None,
        };
        let signed = Hello {
            signature: Some([5; 64]),
            ..hello
        };
        let records = vec![
            Record {
                lane: Lane::Data,
                seq: 0,
                sealed: vec![1, 2, 3],
            },
            Record {
                lane: Lane::Control,
                seq: u64::MAX,
                sealed: Vec::new(),
            },
        ];
        for (text, body) in [
            (write_hello(Role::Guest, &hello), Body::Hello(hello)),
            (write_hello(Role::Guest, &signed), Body::Hello(signed)),
            (write_refused(Role::Guest), Body::Refused),
            (
                write_records(Role::Guest, &records),
                Body::Records(records.clone()),
            ),
            (write_records(Role::Guest, []), Body::Records(Vec::new())),
        ] {
            let from = Role::Guest;
            assert_eq!(back(&text), Some(Message { from, body }), "{text}");
        }
    }

    #[test]
    fn nothing_else_is_read() {
        let many = format!(
            r#"{{"i":1,"from":"host","r":[{}["d",0,""]]}}"#,
            r#"["d",0,""],"#.repeat(MAX_RECORDS)
        );
        let bad_signature = format!(
            r#"{{"i":1,"from":"host","hello":{{"e":"{0}","c":"{0}","s":"{0}"}}}}"#,
            "00".repeat(32)
        );
        for text in [
            "null",
            "[]",
            r#"{"from":"host","r":[]}"#,
            r#"{"i":2,"from":"host","r":[]}"#,
            r#"{"i":1,"r":[]}"#,
            r#"{"i":1,"from":"relay","r":[]}"#,
            r#"{"i":1,"from":"host"}"#,
            r#"{"i":1,"from":"host","refused":false}"#,
            r#"{"i":1,"from":"host","r":[["x",0,""]]}"#,
            r#"{"i":1,"from":"host","r":[["d",-1,""]]}"#,
            r#"{"i":1,"from":"host","r":[["d",0.5,""]]}"#,
            r#"{"i":1,"from":"host","r":[["d",0,"AA=="]]}"#,
            r#"{"i":1,"from":"host","r":[["d",0,"AB"]]}"#,
            r#"{"i":1,"from":"host","r":[["d",0]]}"#,
            r#"{"i":1,"from":"host","hello":{"e":"00","c":"00"}}"#,
            bad_signature.as_str(),
            many.as_str(),
        ] {
            assert_eq!(back(text), None, "{text}");
        }
    }
}
