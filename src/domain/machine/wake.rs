//! Noticing that the machine slept.
//!
//! While a machine sleeps its wall clock goes on and its monotonic clock does not (or, on some
//! systems, both jump at once while nobody looked). After that every connection is suspect and the
//! presence boards have counted this session away, so both are to be mended at once, not at the next
//! heartbeat.

use std::time::Duration;

use crate::types::time::{UnixMillis, millis};

/// How far the two clocks may drift apart between two looks, in milliseconds. A clock that is
/// stepped by less is not worth a new connection.
pub const MAX_DRIFT_MS: u64 = 5_000;

/// How late a look may be, in milliseconds, before the process counts as stopped.
pub const MAX_GAP_MS: u64 = 30_000;

/// What happened between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// The wall clock went this many milliseconds further than the monotonic one: sleep, or a clock
    /// that was set forward.
    Forward(u64),
    /// The wall clock was set back by this many milliseconds.
    Back(u64),
    /// Nobody looked for this many milliseconds.
    Stopped(u64),
}

/// The clocks at the last look.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    wall: UnixMillis,
    mono: Duration,
}

impl Watch {
    /// Starts to look.
    #[must_use]
    pub const fn new(wall: UnixMillis, mono: Duration) -> Watch {
        Watch { wall, mono }
    }

    /// Looks again. `mono` is any clock that only goes forward.
    pub fn look(&mut self, wall: UnixMillis, mono: Duration) -> Option<Jump> {
        let passed = millis(mono.saturating_sub(self.mono));
        let expected = self.wall.plus(passed);
        *self = Watch { wall, mono };
        let (ahead, behind) = (wall.since(expected), expected.since(wall));
        if ahead > MAX_DRIFT_MS {
            Some(Jump::Forward(ahead))
        } else if behind > MAX_DRIFT_MS {
            Some(Jump::Back(behind))
        } else if passed > MAX_GAP_MS {
            Some(Jump::Stopped(passed))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_told_from_time_that_passes() {
        let t0 = UnixMillis(1_800_000_000_000);
        let mut watch = Watch::new(t0, Duration::ZERO);
        let mut mono = 0;
        let mut wall = 0;
        for (mono_ms, wall_ms, jump) in [
            (2_000, 2_000, None),
            (2_000, 2_000 + MAX_DRIFT_MS, None),
            (
                2_000,
                2_001 + MAX_DRIFT_MS,
                Some(Jump::Forward(MAX_DRIFT_MS + 1)),
            ),
            // A night.
            (2_000, 28_800_000, Some(Jump::Forward(28_798_000))),
            (2_000, 2_000, None),
            // The system's monotonic clock went on, too.
            (28_800_000, 28_800_000, Some(Jump::Stopped(28_800_000))),
            (2_000, 2_000, None),
        ] {
            mono += mono_ms;
            wall += wall_ms;
            assert_eq!(
                watch.look(t0.plus(wall), Duration::from_millis(mono)),
                jump,
                "{mono_ms} {wall_ms}"
            );
        }
        let back = watch.look(t0, Duration::from_millis(mono));
        assert_eq!(back, Some(Jump::Back(wall)));
    }
}
