//! When a relay is tried.
//!
//! A relay that is down is down for every message, so its backoff belongs to the relay: one message
//! probes it, the others wait, and all of them go as soon as it answers. Jitter comes in as data.

use crate::types::limit::{RELAY_BACKOFF_MAX_MS, RELAY_BACKOFF_MIN_MS};
use crate::types::time::UnixMillis;

/// Wait in milliseconds after failure number `attempt` (from 1): 1 s, doubling up to 60 s, then
/// lengthened by up to a quarter. `jitter` is any random number; all its bits count alike.
#[must_use]
pub const fn backoff_ms(attempt: u32, jitter: u32) -> u64 {
    let steps = attempt.saturating_sub(1);
    let base = if steps >= 6 {
        RELAY_BACKOFF_MAX_MS
    } else {
        RELAY_BACKOFF_MIN_MS << steps
    };
    base + (base / 4) * jitter as u64 / u32::MAX as u64
}

/// Longest wait that [`backoff_ms`] can give, in milliseconds.
pub const MAX_BACKOFF_MS: u64 = RELAY_BACKOFF_MAX_MS + RELAY_BACKOFF_MAX_MS / 4;

/// Whether a stored due time has passed. One that lies further ahead than any wait can be was
/// written under another clock and counts as passed.
#[must_use]
pub const fn is_due(next_at: UnixMillis, now: UnixMillis) -> bool {
    let remaining = next_at.since(now);
    remaining == 0 || remaining > MAX_BACKOFF_MS
}

/// What may be sent to a relay now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayGate {
    /// Everything.
    Open,
    /// One message, to see whether it is back.
    Probe,
    /// Nothing before this time.
    Closed {
        /// When to probe.
        until: UnixMillis,
    },
}

/// What is known of a relay; one per relay and process, in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayHealth {
    failures: u32,
    next_at: UnixMillis,
}

impl RelayHealth {
    /// A relay of which nothing is known: it may be tried.
    #[must_use]
    pub const fn new() -> Self {
        RelayHealth {
            failures: 0,
            next_at: UnixMillis(0),
        }
    }

    /// What may be sent now.
    #[must_use]
    pub const fn gate(&self, now: UnixMillis) -> RelayGate {
        if self.failures == 0 {
            RelayGate::Open
        } else if is_due(self.next_at, now) {
            RelayGate::Probe
        } else {
            RelayGate::Closed {
                until: self.next_at,
            }
        }
    }

    /// Consecutive failures.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// It could not be reached, or could not answer; says when to probe it.
    pub const fn failed(&mut self, now: UnixMillis, jitter: u32) -> UnixMillis {
        self.failures = self.failures.saturating_add(1);
        self.next_at = now.plus(backoff_ms(self.failures, jitter));
        self.next_at
    }

    /// It answered, to whatever request (a long-poll counts). Says whether it was down: then
    /// everything that waits for it is due at once.
    pub const fn answered(&mut self) -> bool {
        let was_down = self.failures > 0;
        self.failures = 0;
        was_down
    }
}
