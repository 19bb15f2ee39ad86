//! Ed25519 (RFC 8032), pure mode, with the strict check only.
//!
//! Verifiers of Ed25519 differ at the edges: small-order keys, non-canonical encodings, cofactored
//! equations. Two nodes that differ there can be made to disagree about one message, so there is
//! exactly one check in this program, [`verify_strict`], and it matches the public network: `S`
//! below the group order, `R` and the key not of small order, and the recomputed `R` equal to the
//! given one byte for byte (no cofactor).
//!
//! What is signed is never built here; each signed object of `wire` starts its bytes with its own
//! domain string.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::id::{KeyTextError, PublicKey};
use crate::types::secret::Secret;

/// Characters of a signature's text.
pub const SIGNATURE_CHARS: usize = 86;

/// Reads a public key and checks that it is a point of the curve.
///
/// Points of small order pass: they can be named as a recipient, and every signature that claims
/// to come from one fails [`verify_strict`].
///
/// # Errors
///
/// [`KeyError::Text`] for text that is not 32 bytes of canonical base64url, [`KeyError::NotOnCurve`]
/// for bytes that do not decompress.
pub fn decode_public_key(text: &str) -> Result<PublicKey, KeyError> {
    let key: PublicKey = text.parse()?;
    check_point(&key)?;
    Ok(key)
}

/// Checks that the key's bytes decompress to a point of the curve.
///
/// # Errors
///
/// [`KeyError::NotOnCurve`] when they do not.
pub fn check_point(key: &PublicKey) -> Result<(), KeyError> {
    VerifyingKey::from_bytes(key.as_bytes())
        .map(drop)
        .map_err(|_| KeyError::NotOnCurve)
}

/// Text that is not a usable public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not 32 bytes of canonical base64url.
    #[error(transparent)]
    Text(#[from] KeyTextError),
    /// 32 bytes that are not a point of the curve.
    #[error("these 32 bytes are not an Ed25519 public key")]
    NotOnCurve,
}

/// A secret identity. Erased from memory on drop; `Debug` shows the public half's fingerprint.
pub struct SigningIdentity {
    key: SigningKey,
    public: PublicKey,
}

impl SigningIdentity {
    /// The identity of a 32-byte seed (RFC 8032 section 5.1.5). Any 32 bytes are valid.
    #[must_use]
    pub fn from_seed(seed: &Secret<[u8; 32]>) -> SigningIdentity {
        let key = SigningKey::from_bytes(seed.expose());
        let public = PublicKey::from_bytes(key.verifying_key().to_bytes());
        SigningIdentity { key, public }
    }

    /// The public half.
    #[must_use]
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs bytes. Deterministic: the same bytes give the same signature.
    ///
    /// The bytes must start with a domain string, or one kind of object could pass for another.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> Signature {
        Signature(self.key.sign(bytes).to_bytes())
    }
}

impl fmt::Debug for SigningIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SigningIdentity({}.., secret hidden)",
            self.public.fingerprint()
        )
    }
}

/// An Ed25519 signature as it travels, unchecked.
///
/// Text form: base64url without padding, 86 characters, unused bits zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature([u8; 64]);

impl Signature {
    /// Takes the bytes as they are.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 64]) -> Signature {
        Signature(bytes)
    }

    /// `R` then `S`, 32 bytes each.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BASE64URL_NOPAD.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({self})")
    }
}

impl FromStr for Signature {
    type Err = SignatureTextError;

    fn from_str(text: &str) -> Result<Signature, SignatureTextError> {
        if text.len() != SIGNATURE_CHARS {
            return Err(SignatureTextError::Length { bytes: text.len() });
        }
        let bytes = BASE64URL_NOPAD
            .decode(text.as_bytes())
            .map_err(|e| SignatureTextError::Encoding { at: e.position })?;
        let bytes: [u8; 64] = bytes
            .try_into()
            .map_err(|_| SignatureTextError::Length { bytes: text.len() })?;
        Ok(Signature(bytes))
    }
}

/// Text that is not 64 bytes of canonical base64url.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureTextError {
    /// Wrong number of bytes of text.
    #[error("a signature is 86 characters of base64url, this text has {bytes} bytes")]
    Length {
        /// Length of the text in bytes.
        bytes: usize,
    },
    /// Foreign character, padding, or unused bits that are not zero.
    #[error("signature is not base64url without padding, at byte {at}")]
    Encoding {
        /// Offset of the offending byte.
        at: usize,
    },
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            return s.collect_str(self);
        }
        let (r, rest) = self.0.split_first_chunk::<32>().unwrap_or((&[0; 32], &[]));
        let scalar = rest.first_chunk::<32>().unwrap_or(&[0; 32]);
        (r, scalar).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Signature, D::Error> {
        if d.is_human_readable() {
            return String::deserialize(d)?.parse().map_err(D::Error::custom);
        }
        let (r, scalar) = <([u8; 32], [u8; 32])>::deserialize(d)?;
        let mut bytes = [0u8; 64];
        for (to, from) in bytes.iter_mut().zip(r.iter().chain(scalar.iter())) {
            *to = *from;
        }
        Ok(Signature(bytes))
    }
}

/// Checks a signature strictly; see the module page for what strict means.
///
/// # Errors
///
/// [`VerifyError::Key`] when the key is not a point of the curve, [`VerifyError::Signature`] for
/// every other failure. Nothing more is said on purpose.
pub fn verify_strict(key: &PublicKey, bytes: &[u8], sig: &Signature) -> Result<(), VerifyError> {
    let key = VerifyingKey::from_bytes(key.as_bytes()).map_err(|_| VerifyError::Key)?;
    key.verify_strict(bytes, &ed25519_dalek::Signature::from_bytes(&sig.0))
        .map_err(|_| VerifyError::Signature)
}

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The signer's key is not a point of the curve.
    #[error("the signer's key is not an Ed25519 public key")]
    Key,
    /// The signature does not hold for these bytes and this key.
    #[error("the signature does not verify")]
    Signature,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(byte: u8) -> SigningIdentity {
        SigningIdentity::from_seed(&Secret::new([byte; 32]))
    }

    #[test]
    fn a_signature_holds_for_its_bytes_and_key_only() {
        let (a, b) = (identity(1), identity(2));
        let sig = a.sign(b"hello");
        assert_eq!(verify_strict(&a.public(), b"hello", &sig), Ok(()));
        assert_eq!(
            verify_strict(&a.public(), b"hellp", &sig),
            Err(VerifyError::Signature)
        );
        assert_eq!(
            verify_strict(&b.public(), b"hello", &sig),
            Err(VerifyError::Signature)
        );
    }

    #[test]
    fn debug_of_an_identity_hides_the_seed() {
        let shown = format!("{:?}", identity(0x11));
        assert_eq!(shown, "SigningIdentity(0EqyMnQr.., secret hidden)");
    }

    #[test]
    fn signatures_survive_both_kinds_of_serde() {
        let sig = identity(3).sign(b"x");
        let text = serde_json::to_string(&sig).unwrap();
        assert_eq!(text.len(), SIGNATURE_CHARS + 2);
        assert_eq!(serde_json::from_str::<Signature>(&text).unwrap(), sig);
        #[cfg(feature = "persist")]
        {
            let config = bincode::config::legacy();
            let bytes = bincode::serde::encode_to_vec(sig, config).unwrap();
            assert_eq!(bytes, sig.as_bytes());
            let (back, used): (Signature, usize) =
                bincode::serde::decode_from_slice(&bytes, config).unwrap();
            assert_eq!((back, used), (sig, 64));
        }
    }
}
