//! The real randomness, behind the trait of floor 0.

use crate::types::entropy::{Entropy, EntropyError};

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, buf: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(buf).map_err(|e| EntropyError {
            reason: e.to_string(),
        })
    }
}

/// A random number for jitter; its quality does not matter, so a failing source gives 0.
#[must_use]
pub(super) fn jitter() -> u32 {
    let mut bytes = [0u8; 4];
    let _ = OsEntropy.fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

/// Lowercase hexadecimal digits of `N` random bytes.
///
/// # Errors
///
/// When the operating system has no randomness to give.
pub fn random_hex<const N: usize>(entropy: &dyn Entropy) -> Result<String, EntropyError> {
    let mut bytes = [0u8; N];
    entropy.fill(&mut bytes)?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}
