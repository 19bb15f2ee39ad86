//! What is inside a sealed object: one JSON object of type `key_confirm`, `chat` or
//! `file_transfer`.
//!
//! Reading goes in the order in which a session judges: the frame first (nonce, time), so that a
//! replay is known before anything is believed; then the body by its type. Members in any order;
//! members that are not known are ignored. Writing follows the public client member by member.

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::Value;

use crate::types::time::UnixMillis;
use crate::wire::bond::Role;

/// The most UTF-16 units of a chat text from an honest sender.
pub const CHAT_MAX_UNITS: usize = 4_000;

/// A packet's nonce: 16 random bytes, 32 lower-case hexadecimal digits on the wire.
pub type PacketNonce = [u8; 16];

/// A packet that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// As it came, if it is one.
    pub nonce: Option<PacketNonce>,
    /// Milliseconds since 1970 by the sender's clock, fractions allowed, if it is a number.
    pub timestamp: Option<f64>,
    /// The rest.
    pub body: Body,
}

/// A packet by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// A confirmation tag. The role it claims is not read: the tag says it.
    KeyConfirm {
        /// The tag, if it is 64 lower-case hexadecimal digits.
        tag: Option<[u8; 32]>,
    },
    /// Words.
    Chat {
        /// The text, unless it is missing, empty or no text.
        content: Option<String>,
    },
    /// A whole file.
    File(Option<FileBody>),
    /// A type that this program does not know, or none.
    Unknown,
}

/// A file as it travels. The preview that comes along is not read: it is the peer's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBody {
    /// The sender's name of it. Foreign text of any length.
    pub filename: String,
    /// All of it.
    pub content: String,
    /// The sender's note, empty if none. Foreign text of any length.
    pub message: String,
}

/// Reads a decrypted packet. `None` when it is not JSON, or not an object.
#[must_use]
pub fn read(plaintext: &[u8]) -> Option<Packet> {
    let value: Value = serde_json::from_slice(plaintext)
        .or_else(|error| match std::str::from_utf8(plaintext) {
            Ok(text) => serde_json::from_str(&mend(text)),
            Err(_) => Err(error),
        })
        .ok()?;
    let object = value.as_object()?;
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let owned = |name: &str| text(name).map(str::to_owned);
    let body = match text("type") {
        Some("key_confirm") => Body::KeyConfirm {
            tag: text("tag").and_then(exact),
        },
        Some("chat") => Body::Chat {
            content: owned("content").filter(|content| !content.is_empty()),
        },
        Some("file_transfer") => Body::File(file(&owned, object.get("message"))),
        _ => Body::Unknown,
    };
    Some(Packet {
        nonce: text("nonce").and_then(exact),
        timestamp: object.get("timestamp").and_then(Value::as_f64),
        body,
    })
}

/// JavaScript's strings may hold half a surrogate pair, which it writes as an escape that is no
/// character. Each such half becomes U+FFFD, so that one bad character does not cost the message.
fn mend(text: &str) -> String {
    let unit = |at: usize| {
        let digits = text.get(at..at.saturating_add(6))?.strip_prefix("\\u")?;
        let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0usize;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let (piece, length) = match (c, unit(at)) {
            ('\\', Some(0xd800..=0xdbff)) => match unit(at.saturating_add(6)) {
                Some(0xdc00..=0xdfff) => (None, 12),
                _ => (Some("\u{fffd}"), 6),
            },
            ('\\', Some(0xdc00..=0xdfff)) => (Some("\u{fffd}"), 6),
            ('\\', Some(_)) => (None, 6),
            ('\\', None) => (None, 2),
            _ => (None, c.len_utf8()),
        };
        let end = at.saturating_add(length);
        match (piece, text.get(at..end)) {
            (Some(piece), _) => out.push_str(piece),
            (None, Some(piece)) => out.push_str(piece),
            // A backslash before half of a character, or at the end: no JSON either way.
            (None, None) => {
                out.push_str(text.get(at..).unwrap_or_default());
                break;
            }
        }
        at = end;
    }
    out
}

fn file(owned: &dyn Fn(&str) -> Option<String>, message: Option<&Value>) -> Option<FileBody> {
    let message = match message {
        None | Some(Value::Null) => String::new(),
        Some(value) => value.as_str()?.to_owned(),
    };
    Some(FileBody {
        filename: owned("filename")?,
        content: owned("content")?,
        message,
    })
}

fn exact<const N: usize>(digits: &str) -> Option<[u8; N]> {
    (digits.len() == N.saturating_mul(2))
        .then(|| HEXLOWER.decode(digits.as_bytes()).ok())
        .flatten()
        .and_then(|bytes| bytes.try_into().ok())
}

/// Writes a confirmation.
///
/// # Errors
///
/// Never in practice: the value has only text members.
pub fn key_confirm(
    nonce: PacketNonce,
    now: UnixMillis,
    role: Role,
    tag: &[u8; 32],
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&KeyConfirmOut {
        nonce: HEXLOWER.encode(&nonce),
        timestamp: now.0,
        kind: "key_confirm",
        role: role.word(),
        tag: HEXLOWER.encode(tag),
    })
}

/// Writes words.
///
/// # Errors
///
/// Never in practice: the value has only text members.
pub fn chat(
    nonce: PacketNonce,
    now: UnixMillis,
    content: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&ChatOut {
        nonce: HEXLOWER.encode(&nonce),
        timestamp: now.0,
        kind: "chat",
        content,
    })
}

/// Writes a file with the preview the public client sends along.
///
/// # Errors
///
/// Never in practice: the value has only text members.
pub fn file_transfer(
    nonce: PacketNonce,
    now: UnixMillis,
    file: &FileBody,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&FileOut {
        kind: "file_transfer",
        nonce: HEXLOWER.encode(&nonce),
        timestamp: now.0,
        filename: &file.filename,
        content: &file.content,
        message: &file.message,
        preview: PreviewOut {
            filename: &file.filename,
            size: file.content.len(),
            size_formatted: size_text(file.content.len()),
            file_type: file_type(&file.filename),
            line_count: lines(&file.content),
        },
    })
}

/// Line feeds plus one: how the public client counts lines.
#[must_use]
pub fn lines(content: &str) -> usize {
    let feeds = content.bytes().filter(|byte| *byte == b'\n').count();
    feeds.saturating_add(1)
}

/// A size for people: `26 B`, `1.5 KB`, `2.0 MB`, 1024 to the next unit.
#[must_use]
pub fn size_text(bytes: usize) -> String {
    // Tenths, rounded half up, without floats.
    let tenths = |unit: usize| {
        let tenths = bytes.saturating_mul(10).saturating_add(unit / 2) / unit;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KB", tenths(1024)),
        _ => format!("{} MB", tenths(1_048_576)),
    }
}

/// The public client's class of a file, by the last extension of its name.
#[must_use]
pub fn file_type(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "js" | "ts" | "jsx" | "tsx" | "py" | "java" | "go" | "rs" => "code",
        "txt" => "text",
        "json" => "json",
        "md" => "markdown",
        "yml" | "yaml" | "toml" => "config",
        _ => "unknown",
    }
}

#[derive(Serialize)]
struct KeyConfirmOut {
    nonce: String,
    timestamp: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    tag: String,
}

#[derive(Serialize)]
struct ChatOut<'a> {
    nonce: String,
    timestamp: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct FileOut<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    nonce: String,
    timestamp: u64,
    filename: &'a str,
    content: &'a str,
    message: &'a str,
    preview: PreviewOut<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PreviewOut<'a> {
    filename: &'a str,
    size: usize,
    size_formatted: String,
    file_type: &'static str,
    line_count: usize,
}
