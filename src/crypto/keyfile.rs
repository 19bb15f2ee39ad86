//! The text of a secret key file: one line, the 32-byte seed in base64url without padding.
//!
//! Reading is forgiving at the ends (people's editors add blank lines) and strict inside: a
//! padded, truncated, hexadecimal or otherwise foreign text is more likely the wrong file than a
//! sloppy key. Errors never quote the text.

use data_encoding::BASE64URL_NOPAD;

use crate::types::id::{KeyTextError, PUBLIC_KEY_CHARS};
use crate::types::secret::Secret;

/// Reads the seed from the text of a key file. White space (Unicode) at both ends is ignored; a
/// byte order mark is not white space.
///
/// # Errors
///
/// [`KeyTextError`]; offsets count from the first character after the leading white space.
pub fn parse_key_text(text: &str) -> Result<Secret<[u8; 32]>, KeyTextError> {
    let text = text.trim();
    if text.len() != PUBLIC_KEY_CHARS {
        return Err(KeyTextError::Length { bytes: text.len() });
    }
    // Decoded in place: no copy of the seed is left on the heap.
    let mut seed = Secret::new([0u8; 32]);
    BASE64URL_NOPAD
        .decode_mut(text.as_bytes(), seed.expose_mut())
        .map_err(|partial| KeyTextError::Encoding {
            at: partial.error.position,
        })?;
    Ok(seed)
}

/// The text of a key file: 43 characters and a line feed.
#[must_use]
pub fn print_key_text(seed: &Secret<[u8; 32]>) -> Secret<String> {
    // Reserved up front, so that growing never leaves a stale copy behind.
    let mut text = String::with_capacity(PUBLIC_KEY_CHARS + 1);
    BASE64URL_NOPAD.encode_append(seed.expose(), &mut text);
    text.push('\n');
    Secret::new(text)
}
