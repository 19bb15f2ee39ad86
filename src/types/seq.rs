//! Position in an event log.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Position of a record in one store's log.
///
/// The first record has `Seq(1)`; 0 is reserved for the base record of compaction and doubles as
/// "nothing yet". Sequence numbers of one store are gapless and never reused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first record.
    pub const ZERO: Seq = Seq(0);

    /// The next position. Saturates at the end of the number space, which a store that commits a
    /// million records a second reaches after half a million years.
    #[must_use]
    pub const fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }

    /// Key bytes: big endian, so that byte order is numeric order.
    #[must_use]
    pub const fn to_key(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Reads key bytes; `None` unless there are exactly eight.
    #[must_use]
    pub fn from_key(key: &[u8]) -> Option<Seq> {
        Some(Seq(u64::from_be_bytes(key.try_into().ok()?)))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
