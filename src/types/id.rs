//! Identities and the ids that people and programs choose.
//!
//! Every id is its own type so that a key is never mistaken for a session or a queue name. Text
//! is checked once, where it enters; past that point an id is valid by construction.
//!
//! Parsing here checks text only. Whether 32 bytes are a point of the curve is a cryptographic
//! question: `crypto::sign::decode_public_key` answers it.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::entropy::{Entropy, EntropyError};
use super::limit::{MAX_MSG_ID_BYTES, MAX_SESSION_ID_BYTES};

/// Characters of a public key's text.
pub const PUBLIC_KEY_CHARS: usize = 43;

/// Characters of a fingerprint: the first 48 bits of the key's text. Short enough to read aloud,
/// too short to be an identity.
pub const FINGERPRINT_CHARS: usize = 8;

/// An Ed25519 public key: the identity of a peer. Equality is on the 32 encoded bytes.
///
/// Text form: base64url without padding, 43 characters (RFC 4648 section 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Takes the encoded point as it is; no check that it lies on the curve.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> PublicKey {
        PublicKey(bytes)
    }

    /// The encoded point.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first characters of the text form, for people.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut text = self.to_string();
        text.truncate(FINGERPRINT_CHARS);
        Fingerprint(text)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BASE64URL_NOPAD.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({}..)", self.fingerprint())
    }
}

impl FromStr for PublicKey {
    type Err = KeyTextError;

    /// Strict: exactly 43 characters of the base64url alphabet, no padding, unused bits zero,
    /// never trimmed.
    fn from_str(text: &str) -> Result<PublicKey, KeyTextError> {
        decode_32(text).map(PublicKey)
    }
}

/// Decodes the strict 43-character text of 32 bytes.
///
/// # Errors
///
/// [`KeyTextError::Length`] when the text cannot hold 32 bytes, [`KeyTextError::Encoding`] for
/// anything else that is not canonical base64url.
pub fn decode_32(text: &str) -> Result<[u8; 32], KeyTextError> {
    if text.len() != PUBLIC_KEY_CHARS {
        return Err(KeyTextError::Length { bytes: text.len() });
    }
    let bytes = BASE64URL_NOPAD
        .decode(text.as_bytes())
        .map_err(|e| KeyTextError::Encoding { at: e.position })?;
    bytes
        .try_into()
        .map_err(|_| KeyTextError::Length { bytes: text.len() })
}

/// Text that is not 32 bytes of canonical base64url.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyTextError {
    /// Wrong number of bytes of text.
    #[error("a key is 43 characters of base64url, this text has {bytes} bytes")]
    Length {
        /// Length of the text in bytes.
        bytes: usize,
    },
    /// Foreign character, padding, or unused bits that are not zero.
    #[error("not base64url without padding, at byte {at}")]
    Encoding {
        /// Offset of the offending byte.
        at: usize,
    },
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            s.collect_str(self)
        } else {
            self.0.serialize(s)
        }
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<PublicKey, D::Error> {
        if d.is_human_readable() {
            let text = String::deserialize(d)?;
            text.parse().map_err(D::Error::custom)
        } else {
            <[u8; 32]>::deserialize(d).map(PublicKey)
        }
    }
}

/// The first eight characters of a public key's text. For logs and for people; several keys can
/// share one, so never a lookup key on its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The eight characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True for characters that move the cursor, end a line, or reorder the text around them: control
/// characters (Unicode Cc), line and paragraph separators, and bidirectional controls.
///
/// Ids and names that contain them could imitate other output, so they are refused everywhere.
#[must_use]
pub fn is_unsafe_char(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200e}' | '\u{200f}'      // marks
            | '\u{2028}' | '\u{2029}'                 // separators
            | '\u{202a}'..='\u{202e}'                 // embeddings and overrides
            | '\u{2066}'..='\u{2069}') // isolates
}

/// The id of one conversation of an identity. Unique within an identity, chosen by the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    /// Checks a session id: 1 to [`MAX_SESSION_ID_BYTES`] bytes, no control, separator or
    /// bidirectional characters, no `#` (it separates key and session in a route).
    ///
    /// # Errors
    ///
    /// One variant per rule of [`SessionIdError`].
    pub fn parse(text: &str) -> Result<SessionId, SessionIdError> {
        if text.is_empty() {
            return Err(SessionIdError::Empty);
        }
        if text.len() > MAX_SESSION_ID_BYTES {
            return Err(SessionIdError::TooLong { bytes: text.len() });
        }
        for (at, c) in text.char_indices() {
            if c == '#' || is_unsafe_char(c) {
                return Err(SessionIdError::BadChar { at });
            }
        }
        Ok(SessionId(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(text: &str) -> Result<SessionId, SessionIdError> {
        SessionId::parse(text)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<SessionId, D::Error> {
        SessionId::parse(&String::deserialize(d)?).map_err(D::Error::custom)
    }
}

/// Text that cannot be a session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionIdError {
    /// Nothing there.
    #[error("a session id must not be empty")]
    Empty,
    /// Over the bound.
    #[error("a session id has at most {MAX_SESSION_ID_BYTES} bytes, this one has {bytes}")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
    },
    /// `#`, a control character, a separator or a bidirectional control.
    #[error("a session id has no '#' and no control characters (byte {at})")]
    BadChar {
        /// Offset of the character in bytes.
        at: usize,
    },
}

/// The id of a message, chosen by its sender: unique per sender, never across senders, so a
/// lookup key is always (sender, id). Any text up to [`MAX_MSG_ID_BYTES`] bytes, empty included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct MsgId(String);

impl MsgId {
    /// Checks the length.
    ///
    /// # Errors
    ///
    /// [`MsgIdError::TooLong`] past [`MAX_MSG_ID_BYTES`] bytes.
    pub fn parse(text: &str) -> Result<MsgId, MsgIdError> {
        if text.len() > MAX_MSG_ID_BYTES {
            return Err(MsgIdError::TooLong { bytes: text.len() });
        }
        Ok(MsgId(text.to_owned()))
    }

    /// A fresh id: 16 random bytes as 32 lowercase hexadecimal digits.
    ///
    /// # Errors
    ///
    /// When the entropy source fails.
    pub fn new_random(entropy: &dyn Entropy) -> Result<MsgId, EntropyError> {
        let mut bytes = [0u8; 16];
        entropy.fill(&mut bytes)?;
        Ok(MsgId(HEXLOWER.encode(&bytes)))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MsgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for MsgId {
    type Err = MsgIdError;

    fn from_str(text: &str) -> Result<MsgId, MsgIdError> {
        MsgId::parse(text)
    }
}

impl<'de> Deserialize<'de> for MsgId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<MsgId, D::Error> {
        MsgId::parse(&String::deserialize(d)?).map_err(D::Error::custom)
    }
}

/// Text that cannot be a message id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MsgIdError {
    /// Over the bound.
    #[error("a message id has at most {MAX_MSG_ID_BYTES} bytes, this one has {bytes}")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_refuse_what_could_forge_output() {
        for bad in [
            "",
            "a#b",
            "a\nb",
            "a\u{0}",
            "a\u{85}",
            "a\u{2028}",
            "a\u{202e}b",
            "\u{2066}",
        ] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(SessionId::parse(&"x".repeat(MAX_SESSION_ID_BYTES)).is_ok());
        assert_eq!(
            SessionId::parse(&"x".repeat(MAX_SESSION_ID_BYTES + 1)),
            Err(SessionIdError::TooLong { bytes: 257 })
        );
        assert!(SessionId::parse("sess-\u{e9} 1").is_ok());
    }

    #[test]
    fn serde_validates_ids_on_the_way_in() {
        assert!(serde_json::from_str::<SessionId>("\"a#b\"").is_err());
        let long = format!("\"{}\"", "m".repeat(MAX_MSG_ID_BYTES + 1));
        assert!(serde_json::from_str::<MsgId>(&long).is_err());
        assert_eq!(serde_json::from_str::<MsgId>("\"\"").unwrap().as_str(), "");
    }

    #[test]
    fn random_message_ids_are_32_lowercase_hex_digits() {
        struct Counting;
        impl Entropy for Counting {
            fn fill(&self, buf: &mut [u8]) -> Result<(), EntropyError> {
                for (i, b) in buf.iter_mut().enumerate() {
                    *b = 0xf0 + u8::try_from(i).unwrap();
                }
                Ok(())
            }
        }
        let id = MsgId::new_random(&Counting).unwrap();
        assert_eq!(id.as_str(), "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    }

    #[test]
    fn key_debug_shows_the_fingerprint_only() {
        let key = PublicKey::from_bytes([0; 32]);
        assert_eq!(format!("{key:?}"), "PublicKey(AAAAAAAA..)");
        assert_eq!(key.to_string().parse(), Ok(key));
    }
}
