//! The key schedule of sealed sessions (`schema/bond.md`), and the two primitives it is made of.
//!
//! ```text
//! routing id = PBKDF2-HMAC-SHA256(code, "CovalentBond-Routing", 100,000, 32)      RFC 8018 5.2
//! code key   = PBKDF2-HMAC-SHA256(code, "CovalentBond-CodeKey", 600,000, 32)
//! transcript = SHA-256(host public || guest public)
//! seal key   = HKDF-SHA256(ikm = shared || code key, salt = transcript,           RFC 5869
//!                          info = "CovalentBond-SessionKey", 32)
//! tag(role)  = HMAC-SHA256(seal key, "CovalentBond-Confirm|" role "|" transcript) RFC 2104
//! ```
//!
//! The two PBKDF2 calls take up to half a second: they belong on a thread that may block.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, ZeroizeOnDrop};

use crate::crypto::aead::SealKey;
use crate::crypto::agree::{AgreementPublic, SharedSecret};
use crate::types::secret::Secret;

/// Rounds of the routing id.
pub const ROUTING_ROUNDS: u32 = 100_000;

/// Rounds of the code key.
pub const CODE_KEY_ROUNDS: u32 = 600_000;

/// What a code is worth as key material. Erased on drop.
#[derive(Debug)]
pub struct CodeKey(Secret<[u8; 32]>);

impl ZeroizeOnDrop for CodeKey {}

impl CodeKey {
    /// Takes key material made elsewhere.
    #[must_use]
    pub const fn new(bytes: Secret<[u8; 32]>) -> CodeKey {
        CodeKey(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }
}

/// Where a relay files the session of this code. Takes some 50 ms.
#[must_use]
pub fn routing_id(code: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(code, b"CovalentBond-Routing", ROUTING_ROUNDS, &mut out);
    out
}

/// The code's share of the session key. Takes some 300 ms.
#[must_use]
pub fn code_key(code: &[u8]) -> CodeKey {
    let mut out = Secret::new([0; 32]);
    pbkdf2::pbkdf2_hmac::<Sha256>(
        code,
        b"CovalentBond-CodeKey",
        CODE_KEY_ROUNDS,
        out.expose_mut(),
    );
    CodeKey(out)
}

/// Both public keys in one digest, the host's first.
#[must_use]
pub fn transcript(host: &AgreementPublic, guest: &AgreementPublic) -> [u8; 32] {
    Sha256::new()
        .chain_update(host.as_bytes())
        .chain_update(guest.as_bytes())
        .finalize()
        .into()
}

/// The key that seals every packet of the session, in both directions.
#[must_use]
pub fn session_key(shared: &SharedSecret, code: &CodeKey, transcript: &[u8; 32]) -> SealKey {
    let mut ikm = Secret::new([0; 64]);
    let (first, second) = ikm.expose_mut().split_at_mut(32);
    first.copy_from_slice(shared.expose());
    second.copy_from_slice(code.expose());
    SealKey::new(hkdf_sha256(
        transcript,
        ikm.expose(),
        b"CovalentBond-SessionKey",
    ))
}

/// The proof that its sender holds the session key, stating the sender's role.
#[must_use]
pub fn confirmation(key: &SealKey, role: &str, transcript: &[u8; 32]) -> [u8; 32] {
    hmac_sha256(
        key.expose(),
        &[
            b"CovalentBond-Confirm|",
            role.as_bytes(),
            b"|",
            transcript.as_slice(),
        ],
    )
}

/// HKDF with SHA-256, extract and expand, one block of output (RFC 5869).
#[must_use]
pub fn hkdf_sha256(salt: &[u8], ikm: &[u8], info: &[u8]) -> Secret<[u8; 32]> {
    let mut out = Secret::new([0; 32]);
    let expanded = hkdf::Hkdf::<Sha256>::new(Some(salt), ikm).expand(info, out.expose_mut());
    debug_assert!(expanded.is_ok(), "32 bytes are within HKDF's limit");
    out
}

/// HMAC with SHA-256 over the parts, one after the other (RFC 2104).
#[must_use]
pub fn hmac_sha256(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // A short key is padded with zeros to a block (RFC 2104 section 2).
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let mut mac = Hmac::<Sha256>::new(&block);
    block.iter_mut().zeroize();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Whether two values are equal, in time that depends on the lengths only.
#[must_use]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let differences = a.iter().zip(b).fold(0u8, |all, (x, y)| {
        // Without the barrier an optimizer may leave early.
        std::hint::black_box(all | (x ^ y))
    });
    std::hint::black_box(differences) == 0
}
