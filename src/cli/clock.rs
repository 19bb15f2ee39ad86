//! The wall clock of the commands that write to a store themselves.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::types::time::{Clock, UnixMillis, millis};

/// The system's clock.
pub(super) struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> UnixMillis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        UnixMillis(since.map_or(0, millis))
    }
}
