//! AES-256-GCM (NIST SP 800-38D) with a 96-bit nonce and a 128-bit tag, and nothing shorter.
//!
//! GCM with a short tag can be forged by trying; readers that take any length hand that choice to
//! the attacker. Here both lengths are in the types.

use std::fmt;

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Key};
use zeroize::ZeroizeOnDrop;

use crate::types::entropy::{Entropy, EntropyError};
use crate::types::secret::Secret;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// A key for sealing. Erased on drop, never printed.
#[derive(Debug)]
pub struct SealKey(Secret<[u8; 32]>);

impl ZeroizeOnDrop for SealKey {}

impl SealKey {
    /// Takes the key.
    #[must_use]
    pub const fn new(bytes: Secret<[u8; 32]>) -> SealKey {
        SealKey(bytes)
    }

    /// The raw key, for deriving further values from it.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    fn cipher(&self) -> Aes256Gcm {
        // By reference: a copy of the key would not be erased.
        Aes256Gcm::new(<&Key<Aes256Gcm>>::from(self.0.expose()))
    }
}

/// What only the holder of the key can read, and nobody else can make.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The nonce: unique for the key.
    pub nonce: [u8; NONCE_BYTES],
    /// As long as the plaintext.
    pub ciphertext: Vec<u8>,
    /// Over the associated data and the ciphertext.
    pub tag: [u8; TAG_BYTES],
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.ciphertext.len())
    }
}

/// A random nonce. Safe for fewer than 2^32 seals under one key (SP 800-38D section 8.3).
///
/// # Errors
///
/// When there is no randomness to be had.
pub fn random_nonce(entropy: &dyn Entropy) -> Result<[u8; NONCE_BYTES], EntropyError> {
    let mut nonce = [0; NONCE_BYTES];
    entropy.fill(&mut nonce)?;
    Ok(nonce)
}

/// Seals `plaintext`; `aad` is authenticated and does not travel. The nonce must be new for `key`.
///
/// # Errors
///
/// [`AeadError`] above the cipher's limit of 64 GiB.
pub fn seal(
    key: &SealKey,
    nonce: [u8; NONCE_BYTES],
    aad: &[u8],
    plaintext: &[u8],
) -> Result<Sealed, AeadError> {
    let payload = Payload {
        msg: plaintext,
        aad,
    };
    let mut ciphertext = key
        .cipher()
        .encrypt(&nonce.into(), payload)
        .map_err(|_| AeadError)?;
    let at = ciphertext.len().saturating_sub(TAG_BYTES);
    let tag = ciphertext.split_off(at).try_into().map_err(|_| AeadError)?;
    Ok(Sealed {
        nonce,
        ciphertext,
        tag,
    })
}

/// Opens what [`seal`] made with the same key and the same associated data.
///
/// # Errors
///
/// [`AeadError`] when anything differs: key, nonce, data, ciphertext or tag.
pub fn open(key: &SealKey, aad: &[u8], sealed: &Sealed) -> Result<Secret<Vec<u8>>, AeadError> {
    let mut bytes = Vec::with_capacity(sealed.ciphertext.len().saturating_add(TAG_BYTES));
    bytes.extend_from_slice(&sealed.ciphertext);
    bytes.extend_from_slice(&sealed.tag);
    key.cipher()
        .decrypt(&sealed.nonce.into(), Payload { msg: &bytes, aad })
        .map(Secret::new)
        .map_err(|_| AeadError)
}

/// The bytes were not sealed with this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sealed with this key, or changed on the way")]
pub struct AeadError;
