//! Wall-clock time as data.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Unix time in milliseconds, UTC. The whole `u64` range is valid: signed timestamps of peers are
/// arbitrary, so all arithmetic saturates.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// This time plus a span, saturating.
    #[must_use]
    pub const fn plus(self, ms: u64) -> UnixMillis {
        UnixMillis(self.0.saturating_add(ms))
    }

    /// This time minus a span, saturating at the epoch.
    #[must_use]
    pub const fn minus(self, ms: u64) -> UnixMillis {
        UnixMillis(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to this time; 0 when the clock went backwards.
    #[must_use]
    pub const fn since(self, earlier: UnixMillis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A source of wall-clock time. Only the edges and the command line own a real one.
pub trait Clock: Send + Sync {
    /// The current wall-clock time. May jump in either direction.
    fn now(&self) -> UnixMillis;
}

/// Milliseconds of a duration, saturating.
#[must_use]
pub fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
