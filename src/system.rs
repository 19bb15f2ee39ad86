//! The machine's clock, behind the trait of floor 0: the one place that asks it for the time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::types::time::{Clock, UnixMillis, millis};

/// The wall clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        // A clock before 1970 is a broken clock; the epoch is as good as any other wrong time.
        UnixMillis(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, millis),
        )
    }
}
