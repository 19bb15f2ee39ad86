//! X25519 (RFC 7748), one key pair per session, one agreement per key pair.
//!
//! A sealed session is only as private as its ephemeral keys are short-lived, so the type allows
//! nothing else: [`EphemeralSecret::agree`] consumes the secret, and what is left of it is erased.
//!
//! ```text
//! public = X25519(secret, 9)              RFC 7748 section 5
//! shared = X25519(secret, other public)   refused when all zero (section 6.1)
//! ```

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use x25519_dalek::StaticSecret;
use zeroize::ZeroizeOnDrop;

use crate::types::entropy::{Entropy, EntropyError};
use crate::types::secret::Secret;

/// Bytes of a public key.
pub const PUBLIC_BYTES: usize = 32;

/// The public half of one session's key pair: the raw u-coordinate.
///
/// Text form: 64 lower-case hexadecimal digits. The top bit is kept as it came and masked in the
/// agreement (RFC 7748 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AgreementPublic([u8; PUBLIC_BYTES]);

impl AgreementPublic {
    /// Takes the bytes as they are; whether they are usable shows in the agreement.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; PUBLIC_BYTES]) -> AgreementPublic {
        AgreementPublic(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; PUBLIC_BYTES] {
        &self.0
    }
}

impl FromStr for AgreementPublic {
    type Err = AgreeError;

    fn from_str(text: &str) -> Result<AgreementPublic, AgreeError> {
        hex32(text).map(AgreementPublic).ok_or(AgreeError::Text)
    }
}

/// Exactly 64 lower-case hexadecimal digits.
fn hex32(text: &str) -> Option<[u8; 32]> {
    (text.len() == 64)
        .then(|| HEXLOWER.decode(text.as_bytes()).ok())
        .flatten()
        .and_then(|bytes| bytes.try_into().ok())
}

impl fmt::Display for AgreementPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

impl fmt::Debug for AgreementPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgreementPublic({self})")
    }
}

/// A key that cannot be agreed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgreeError {
    /// Not 64 lower-case hexadecimal digits.
    #[error("a session key is 64 lower-case hexadecimal digits")]
    Text,
    /// A point of low order: the shared secret would not depend on our half (RFC 7748 section 6.1).
    #[error("the other side's session key contributes nothing")]
    NotContributory,
}

/// The secret half of one session's key pair. Erased on drop and by its one use.
pub struct EphemeralSecret {
    secret: StaticSecret,
    public: AgreementPublic,
}

impl ZeroizeOnDrop for EphemeralSecret {}

impl EphemeralSecret {
    /// A fresh key pair.
    ///
    /// # Errors
    ///
    /// When there is no randomness to be had.
    pub fn generate(entropy: &dyn Entropy) -> Result<EphemeralSecret, EntropyError> {
        let mut bytes = Secret::new([0; 32]);
        entropy.fill(bytes.expose_mut())?;
        Ok(EphemeralSecret::from_bytes(&bytes))
    }

    /// The key pair of 32 given bytes: for known answers. Any 32 bytes are valid.
    #[must_use]
    pub fn from_bytes(bytes: &Secret<[u8; 32]>) -> EphemeralSecret {
        let secret = StaticSecret::from(*bytes.expose());
        let public = AgreementPublic(x25519_dalek::PublicKey::from(&secret).to_bytes());
        EphemeralSecret { secret, public }
    }

    /// The public half.
    #[must_use]
    pub const fn public(&self) -> AgreementPublic {
        self.public
    }

    /// The secret shared with the owner of `other`. Uses the secret up.
    ///
    /// # Errors
    ///
    /// [`AgreeError::NotContributory`] for the zero point and every other point of low order.
    pub fn agree(self, other: &AgreementPublic) -> Result<SharedSecret, AgreeError> {
        let other = x25519_dalek::PublicKey::from(other.0);
        let shared = self.secret.diffie_hellman(&other);
        if !shared.was_contributory() {
            return Err(AgreeError::NotContributory);
        }
        Ok(SharedSecret(Secret::new(shared.to_bytes())))
    }
}

impl fmt::Debug for EphemeralSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EphemeralSecret({}, secret hidden)", self.public)
    }
}

/// What two key pairs have in common. Never a key itself: it goes through a key derivation.
#[derive(Debug)]
pub struct SharedSecret(Secret<[u8; 32]>);

impl ZeroizeOnDrop for SharedSecret {}

impl SharedSecret {
    /// The raw bytes.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }
}
