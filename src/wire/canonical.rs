//! The bytes that are signed: `schema/canonical.md`.
//!
//! A domain string separates the kinds of signed objects, every variable part carries its length,
//! and the order is fixed; so two different objects never share their bytes, and JSON's freedom
//! (order, escapes, white space) stays out of the signature.

use crate::types::id::PublicKey;
use crate::types::time::UnixMillis;

/// Domain of messages, version 2 of the format: ASCII and one zero byte.
pub const MESSAGE_DOMAIN: &[u8] = b"interlink-v2\0";

/// Domain of announcements: ASCII and one zero byte.
pub const ANNOUNCE_DOMAIN: &[u8] = b"interlink-announce-v1\0";

/// Domain of the hellos of sealed sessions between two pinned identities.
#[cfg(feature = "sealed")]
pub const SEALED_DOMAIN: &[u8] = b"interlink-sealed-v1\0";

/// Domain of the cards that two sides of a sealed session exchange.
#[cfg(feature = "sealed")]
pub const PIN_DOMAIN: &[u8] = b"interlink-pin-v1\0";

/// Builds canonical bytes front to back.
#[derive(Debug)]
pub(super) struct Canonical(Vec<u8>);

impl Canonical {
    /// Starts with a domain string. `room` is the expected size of the rest in bytes.
    pub(super) fn new(domain: &[u8], room: usize) -> Canonical {
        let mut bytes = Vec::with_capacity(domain.len().saturating_add(room));
        bytes.extend_from_slice(domain);
        Canonical(bytes)
    }

    /// A key: its 32 raw bytes.
    pub(super) fn key(mut self, key: &PublicKey) -> Canonical {
        self.0.extend_from_slice(key.as_bytes());
        self
    }

    /// 32 bytes as they are.
    #[cfg(feature = "sealed")]
    pub(super) fn raw(mut self, bytes: &[u8; 32]) -> Canonical {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A time: u64 milliseconds, little endian.
    pub(super) fn time(mut self, at: UnixMillis) -> Canonical {
        self.0.extend_from_slice(&at.0.to_le_bytes());
        self
    }

    /// A text: u32 length in bytes, little endian, then its UTF-8 as it is.
    pub(super) fn text(mut self, text: &str) -> Canonical {
        // Bodies are bounded far below 4 GiB before they get here; past it the length saturates
        // and the object simply fails to verify anywhere else.
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&len.to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// The bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}
