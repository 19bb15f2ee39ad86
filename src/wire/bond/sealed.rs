//! The encrypted object: `{"v":2,"iv":24 digits,"encrypted":digits,"authTag":32 digits}`.
//!
//! The public client reads it laxly: any length of nonce, tags of four bytes, digits up to the
//! first that is none. A short tag can be forged by trying, so this reader takes exactly what
//! honest writers write.

use data_encoding::HEXLOWER;
use serde_json::Value;

use crate::crypto::aead::{NONCE_BYTES, Sealed, TAG_BYTES};

/// The only version there is.
pub const VERSION: u64 = 2;

/// The most digits of ciphertext: what a relay takes in one request, and so more than fits.
pub const MAX_CIPHERTEXT_DIGITS: usize = 5_242_880;

/// Bytes of the object around the ciphertext's digits.
const FRAME_BYTES: usize = 112;

/// Reads the object. Members in any order; members that are not known are ignored.
///
/// # Errors
///
/// Which member is wrong; nothing of what it holds.
pub fn read(payload: &Value) -> Result<Sealed, SealedError> {
    let object = payload.as_object().ok_or(SealedError::NotAnObject)?;
    if object.get("v").and_then(Value::as_u64) != Some(VERSION) {
        return Err(SealedError::Version);
    }
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let nonce = text("iv")
        .and_then(exact::<NONCE_BYTES>)
        .ok_or(SealedError::Iv)?;
    let tag = text("authTag")
        .and_then(exact::<TAG_BYTES>)
        .ok_or(SealedError::AuthTag)?;
    let ciphertext = text("encrypted")
        .filter(|digits| digits.len() <= MAX_CIPHERTEXT_DIGITS)
        .and_then(|digits| HEXLOWER.decode(digits.as_bytes()).ok())
        .ok_or(SealedError::Encrypted)?;
    Ok(Sealed {
        nonce,
        ciphertext,
        tag,
    })
}

fn exact<const N: usize>(digits: &str) -> Option<[u8; N]> {
    (digits.len() == N.saturating_mul(2))
        .then(|| HEXLOWER.decode(digits.as_bytes()).ok())
        .flatten()
        .and_then(|bytes| bytes.try_into().ok())
}

/// Writes the object as the public client does.
#[must_use]
pub fn write(sealed: &Sealed) -> String {
    let digits = sealed.ciphertext.len().saturating_mul(2);
    let mut out = String::with_capacity(digits.saturating_add(FRAME_BYTES));
    out.push_str("{\"v\":2,\"iv\":\"");
    HEXLOWER.encode_append(&sealed.nonce, &mut out);
    out.push_str("\",\"encrypted\":\"");
    HEXLOWER.encode_append(&sealed.ciphertext, &mut out);
    out.push_str("\",\"authTag\":\"");
    HEXLOWER.encode_append(&sealed.tag, &mut out);
    out.push_str("\"}");
    out
}

/// Not an encrypted object of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealedError {
    /// No JSON object.
    #[error("not an object")]
    NotAnObject,
    /// `v` is not the number 2.
    #[error("v is not 2")]
    Version,
    /// `iv` is not 24 lower-case hexadecimal digits.
    #[error("iv is not 24 lower-case hexadecimal digits")]
    Iv,
    /// `authTag` is not 32 lower-case hexadecimal digits.
    #[error("authTag is not 32 lower-case hexadecimal digits")]
    AuthTag,
    /// `encrypted` is not an even, bounded number of lower-case hexadecimal digits.
    #[error("encrypted is not an even, bounded number of lower-case hexadecimal digits")]
    Encrypted,
}
