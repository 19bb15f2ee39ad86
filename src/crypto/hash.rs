//! SHA-256 (FIPS 180-4), the only digest of the formats here.

use sha2::{Digest, Sha256};

/// The SHA-256 digest of `bytes`.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A digest of bytes that come one after the other.
#[derive(Clone, Default)]
pub struct Sha256Stream(Sha256);

impl Sha256Stream {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all of them.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_abc_is_the_published_one() {
        assert_eq!(
            data_encoding::HEXLOWER.encode(&sha256(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let mut stream = Sha256Stream::default();
        stream.update(b"a");
        stream.update(b"bc");
        assert_eq!(stream.finish(), sha256(b"abc"));
    }
}
