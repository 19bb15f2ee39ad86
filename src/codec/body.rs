//! The only bincode call sites.
//!
//! Fixed-width little-endian bincode 2 (`config::legacy()`), serde flavour, on plain stored structs:
//! no maps (their key order is not canonical), no zero-sized items (a hostile length would spin), no
//! field attributes that skip. Decoding is bounded by the input's own length and by a limit, and the
//! whole input must be consumed. Never used on network input.

use bincode::config::{self, Configuration, Fixint, Limit, LittleEndian};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decoder allocation limit in bytes; larger than any value [`encode`] is allowed to make.
const DECODE_LIMIT: usize = 4 * 1024 * 1024;

type Config = Configuration<LittleEndian, Fixint, Limit<DECODE_LIMIT>>;

fn config() -> Config {
    config::legacy().with_limit::<DECODE_LIMIT>()
}

/// A stored value could not be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value is larger than its place allows.
    #[error("{len} bytes do not fit into {max}")]
    TooLarge {
        /// Encoded length in bytes.
        len: usize,
        /// Largest allowed length in bytes.
        max: usize,
    },
    /// The serialiser refused the value's shape.
    #[error("value cannot be encoded: {reason}")]
    Shape {
        /// What the serialiser said.
        reason: String,
    },
}

/// Stored bytes are not a value of the expected shape.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes do not decode.
    #[error("stored bytes do not decode: {reason}")]
    Shape {
        /// What the deserialiser said.
        reason: String,
    },
    /// The value decoded, but bytes are left over.
    #[error("stored value ends after {consumed} of {len} bytes")]
    TrailingBytes {
        /// Bytes that belong to the value.
        consumed: usize,
        /// Bytes given.
        len: usize,
    },
}

/// Encodes a stored struct into at most `max` bytes.
///
/// # Errors
///
/// [`EncodeError::TooLarge`] when the encoding is longer than `max`.
pub fn encode<T: Serialize>(value: &T, max: usize) -> Result<Vec<u8>, EncodeError> {
    let bytes = bincode::serde::encode_to_vec(value, config()).map_err(|e| EncodeError::Shape {
        reason: e.to_string(),
    })?;
    if bytes.len() > max {
        return Err(EncodeError::TooLarge {
            len: bytes.len(),
            max,
        });
    }
    Ok(bytes)
}

/// Decodes a stored struct; every byte must belong to it.
///
/// # Errors
///
/// [`DecodeError`] when the bytes are not exactly one value of this shape.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (value, consumed) =
        bincode::serde::decode_from_slice(bytes, config()).map_err(|e| DecodeError::Shape {
            reason: e.to_string(),
        })?;
    if consumed != bytes.len() {
        return Err(DecodeError::TrailingBytes {
            consumed,
            len: bytes.len(),
        });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Row {
        n: u32,
        text: String,
        opt: Option<u8>,
    }

    fn row() -> Row {
        Row {
            n: 7,
            text: "ab".into(),
            opt: Some(9),
        }
    }

    #[test]
    fn layout_is_fixed_width_little_endian() {
        let bytes = encode(&row(), 100).unwrap();
        assert_eq!(
            bytes,
            [7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', 1, 9]
        );
        assert_eq!(decode::<Row>(&bytes).unwrap(), row());
    }

    #[test]
    fn trailing_truncated_and_hostile_lengths_are_errors() {
        let mut bytes = encode(&row(), 100).unwrap();
        bytes.push(0);
        assert!(matches!(
            decode::<Row>(&bytes),
            Err(DecodeError::TrailingBytes {
                consumed: 16,
                len: 17
            })
        ));
        for cut in 0..16 {
            assert!(decode::<Row>(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let mut hostile = vec![7, 0, 0, 0];
        hostile.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(decode::<Row>(&hostile).is_err());
    }

    #[test]
    fn encoding_is_bounded() {
        assert!(matches!(
            encode(&row(), 15),
            Err(EncodeError::TooLarge { len: 16, max: 15 })
        ));
    }
}
