//! SPAKE2 (Abdalla and Pointcheval 2005, Ed25519 group): two sides that share a short password get
//! a common key, and whoever stands between them gets one guess per run and nothing to guess at
//! afterwards. ADR 0022 says why this construction and this crate.
//!
//! ```text
//! host:  X = x B + pw M          guest: Y = y B + pw N          pw = HKDF-SHA256(password) mod q
//! K    = x (Y - pw N) = y (X - pw M)
//! key  = SHA-256( H(password) || H(id host) || H(id guest) || X || Y || K )
//! ```
//!
//! The key is not confirmed: until the other side has proven it, nobody knows whom it is shared
//! with. No curve arithmetic of our own; elements of low order are refused before the crate sees
//! them. The crate does not erase its scalar, so a session key must never rest on this key alone
//! (`schema/bond-own.md` adds an X25519 agreement).

use std::convert::Infallible;
use std::fmt;

use ed25519_dalek::VerifyingKey;
use spake2::rand_core::{TryCryptoRng, TryRng};
use spake2::{Ed25519Group, Identity, Password, Spake2};

use crate::types::entropy::{Entropy, EntropyError};
use crate::types::secret::Secret;

/// Bytes of what each side sends.
pub const ELEMENT_BYTES: usize = 32;

/// Which of the two roles of the construction somebody plays. They differ, so that nobody can be
/// answered with his own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Blinds with `M`.
    A,
    /// Blinds with `N`.
    B,
}

impl Side {
    /// The byte that the crate puts before the element of this side.
    const fn mark(self) -> u8 {
        match self {
            Side::A => b'A',
            Side::B => b'B',
        }
    }

    const fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// One run, not finished. Used up by [`Run::finish`]; there is no second guess with it.
pub struct Run {
    side: Side,
    state: Spake2<Ed25519Group>,
    element: [u8; ELEMENT_BYTES],
}

impl Run {
    /// Starts a run. Both sides must name the same password and the same two ids in the same order.
    ///
    /// # Errors
    ///
    /// When there is no randomness to be had.
    pub fn start(
        side: Side,
        password: &[u8],
        id_a: &[u8],
        id_b: &[u8],
        entropy: &dyn Entropy,
    ) -> Result<Run, EntropyError> {
        let mut source = Source::new(entropy);
        let (password, id_a, id_b) = (
            Password::new(password),
            Identity::new(id_a),
            Identity::new(id_b),
        );
        let (state, message) = match side {
            Side::A => Spake2::start_a_with_rng(&password, &id_a, &id_b, &mut source),
            Side::B => Spake2::start_b_with_rng(&password, &id_a, &id_b, &mut source),
        };
        source.finish()?;
        let mut element = [0; ELEMENT_BYTES];
        for (to, from) in element.iter_mut().zip(message.iter().skip(1)) {
            *to = *from;
        }
        Ok(Run {
            side,
            state,
            element,
        })
    }

    /// What the other side needs. Tells nothing about the password.
    #[must_use]
    pub const fn element(&self) -> &[u8; ELEMENT_BYTES] {
        &self.element
    }

    /// The key of the run. The same on both sides if, and only if, password, ids and elements are.
    ///
    /// # Errors
    ///
    /// [`PakeError`] for bytes that are no point, a point of low order, or our own element.
    pub fn finish(self, theirs: &[u8; ELEMENT_BYTES]) -> Result<Secret<[u8; 32]>, PakeError> {
        let point = VerifyingKey::from_bytes(theirs).map_err(|_| PakeError)?;
        if point.is_weak() || *theirs == self.element {
            return Err(PakeError);
        }
        let mut message = vec![self.side.other().mark()];
        message.extend_from_slice(theirs);
        let key = Secret::new(self.state.finish(&message).map_err(|_| PakeError)?);
        key.expose()
            .as_slice()
            .try_into()
            .map(Secret::new)
            .map_err(|_| PakeError)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({:?}, secret hidden)", self.side)
    }
}

/// The other side's element is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other side's element is not a point of the group that it may be")]
pub struct PakeError;

/// Our randomness in the shape that the crate wants, which cannot fail: a failure is kept and
/// reported afterwards, and what was made of it is thrown away.
struct Source<'a> {
    entropy: &'a dyn Entropy,
    failed: Option<EntropyError>,
}

impl<'a> Source<'a> {
    const fn new(entropy: &'a dyn Entropy) -> Source<'a> {
        Source {
            entropy,
            failed: None,
        }
    }

    fn finish(self) -> Result<(), EntropyError> {
        self.failed.map_or(Ok(()), Err)
    }

    fn draw<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        if let Err(failed) = self.entropy.fill(bytes) {
            self.failed = Some(failed);
        }
    }
}

impl TryRng for Source<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.draw()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.draw()))
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        self.fill(dst);
        Ok(())
    }
}

impl TryCryptoRng for Source<'_> {}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use data_encoding::HEXLOWER;

    use super::*;

    /// Gives out prepared bytes.
    struct Fixed(Mutex<Vec<u8>>);

    impl Fixed {
        /// The scalar in decimal digits, wide enough to be reduced to itself.
        fn scalar(decimal: &str) -> Fixed {
            let mut bytes = vec![0u8; 64];
            for digit in decimal.bytes() {
                let mut carry = u32::from(digit - b'0');
                for byte in &mut bytes {
                    carry += u32::from(*byte) * 10;
                    *byte = u8::try_from(carry & 0xff).unwrap();
                    carry >>= 8;
                }
            }
            Fixed(Mutex::new(bytes))
        }
    }

    impl Entropy for Fixed {
        fn fill(&self, buf: &mut [u8]) -> Result<(), EntropyError> {
            let mut left = self.0.lock().unwrap();
            if left.len() < buf.len() {
                return Err(EntropyError {
                    reason: "used up".to_owned(),
                });
            }
            let rest = left.split_off(buf.len());
            buf.copy_from_slice(&left);
            *left = rest;
            Ok(())
        }
    }

    struct Counter(Mutex<u8>);

    impl Entropy for Counter {
        fn fill(&self, buf: &mut [u8]) -> Result<(), EntropyError> {
            let mut n = self.0.lock().unwrap();
            for byte in buf {
                *n = n.wrapping_mul(31).wrapping_add(7);
                *byte = *n;
            }
            Ok(())
        }
    }

    /// The compatibility vector that the crate shares with the first implementation, in Python.
    #[test]
    fn the_published_run_gives_the_published_key() {
        let a = Fixed::scalar(
            "2611694063369306139794446498317402240796898290761098242657700742213257926693",
        );
        let b = Fixed::scalar(
            "7002393159576182977806091886122272758628412261510164356026361256515836884383",
        );
        let a = Run::start(Side::A, b"password", b"idA", b"idB", &a).unwrap();
        let b = Run::start(Side::B, b"password", b"idA", b"idB", &b).unwrap();
        assert_eq!(
            HEXLOWER.encode(a.element()),
            "6fc960df73c9cf8ed7198b0c9534e2e96a5984bfc5edc023fd24dacf371f2af9"
        );
        assert_eq!(
            HEXLOWER.encode(b.element()),
            "354e97b88406922b1df4bea1d7870f17aed3dba7c720b313edae315b00959309"
        );
        let (to_a, to_b) = (*b.element(), *a.element());
        let (a, b) = (a.finish(&to_a).unwrap(), b.finish(&to_b).unwrap());
        assert_eq!(
            HEXLOWER.encode(a.expose()),
            "712295de7219c675ddd31942184aa26e0a957cf216bc230d165b215047b520c1"
        );
        assert_eq!(a.expose(), b.expose());
    }

    #[test]
    fn another_password_or_another_id_is_another_key() {
        let entropy = Counter(Mutex::new(1));
        let run = |side, password: &str, id: &str| {
            Run::start(side, password.as_bytes(), b"a", id.as_bytes(), &entropy).unwrap()
        };
        for (password, id, same) in [
            ("one two three", "b", true),
            ("one two four", "b", false),
            ("one two three", "c", false),
        ] {
            let a = run(Side::A, "one two three", "b");
            let b = run(Side::B, password, id);
            let (to_a, to_b) = (*b.element(), *a.element());
            let (a, b) = (a.finish(&to_a).unwrap(), b.finish(&to_b).unwrap());
            assert_eq!(a.expose() == b.expose(), same, "{password} {id}");
        }
    }

    #[test]
    fn points_that_are_none_or_of_low_order_are_refused() {
        let entropy = Counter(Mutex::new(1));
        let start = || Run::start(Side::A, b"pw", b"a", b"b", &entropy).unwrap();
        let low = [
            // The neutral element, the point of order 2, two of order 4, two of order 8.
            "0100000000000000000000000000000000000000000000000000000000000000",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0000000000000000000000000000000000000000000000000000000000000080",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            // No point at all.
            "0200000000000000000000000000000000000000000000000000000000000000",
        ];
        for hex in low {
            let bytes: [u8; 32] = HEXLOWER.decode(hex.as_bytes()).unwrap().try_into().unwrap();
            assert!(start().finish(&bytes).is_err(), "{hex}");
        }
        let run = start();
        let own = *run.element();
        assert!(run.finish(&own).is_err(), "our own element");
    }

    #[test]
    fn a_run_without_randomness_does_not_start() {
        assert!(Run::start(Side::A, b"pw", b"a", b"b", &Fixed(Mutex::new(vec![1]))).is_err());
    }
}
