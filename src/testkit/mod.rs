//! What tests and benches need to be adversaries: a disk that records, fails and loses power, a
//! clock that jumps, and randomness that comes from a seed.
//!
//! Not part of a release build: everything here hangs on the feature `testkit`.
//!
//! - [`disk`]: [`Disk`] stands under a store in place of a file.
//! - [`power`]: what a disk may hold after the power failed.
//! - [`sample`], [`sample_agent`], [`sample_directory`], [`sample_import`], [`sample_pairing`]: events and commands
//!   from a seed.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a broken test kit must stop the test, not report an error"
)]

pub mod disk;
pub mod power;
pub mod sample;
pub mod sample_agent;
pub mod sample_bond;
pub mod sample_care;
pub mod sample_directory;
pub mod sample_host;
pub mod sample_import;
pub mod sample_pairing;
pub mod sample_rendezvous;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use disk::{Counts, Disk, Fault, FaultKind, OpKind};
pub use power::{Journal, PowerCuts};

use crate::types::entropy::{Entropy, EntropyError};
use crate::types::time::{Clock, UnixMillis};

/// Pseudo-random numbers (SplitMix64): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that starts from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        match bound {
            0 => 0,
            _ => self.next_u64() % bound,
        }
    }

    /// An index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    /// True in `percent` of a hundred calls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Fills a buffer.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// That many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.fill(&mut out);
        out
    }

    /// Puts a slice into another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.index(i + 1));
        }
    }
}

/// A clock that tests set.
#[derive(Debug)]
pub struct FakeClock(AtomicU64);

impl FakeClock {
    /// A clock that stands at `at`.
    #[must_use]
    pub const fn new(at: UnixMillis) -> Self {
        FakeClock(AtomicU64::new(at.0))
    }

    /// Jumps, in either direction.
    pub fn set(&self, at: UnixMillis) {
        self.0.store(at.0, Ordering::SeqCst);
    }

    /// Goes forward by `ms` milliseconds.
    pub fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }
}

/// Randomness from a seed.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<Rng>);

impl SeededEntropy {
    /// A source that starts from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        SeededEntropy(Mutex::new(Rng::new(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, buf: &mut [u8]) -> Result<(), EntropyError> {
        let mut rng = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rng.fill(buf);
        Ok(())
    }
}
