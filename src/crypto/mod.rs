//! Floor 1, lower half: signatures, hashes, the text of keys.
//!
//! A peer *is* its key, so everything that decides who somebody is goes through [`sign`], and
//! only there: strict verification, one domain string per kind of signed object (see `wire`), and
//! a secret that never leaves its wrapper.
//!
//! - [`sign`]: Ed25519 identities, signatures, strict verification
//! - [`hash`] is SHA-256
//! - [`keyfile`]: the text of a secret key file, no files
//! - `agree`, `kdf`, `aead`, `pake` (feature `sealed`): key agreement, key derivation, authenticated
//!   encryption and the exchange on a short password of sealed sessions
//!
//! `wire` stands on this module; this module knows nothing of `wire`.

pub mod hash;
pub mod keyfile;
pub mod sign;

#[cfg(feature = "sealed")]
pub mod aead;
#[cfg(feature = "sealed")]
pub mod agree;
#[cfg(feature = "sealed")]
pub mod kdf;
#[cfg(feature = "sealed")]
pub mod pake;
