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

    /// `2026-11-30`, UTC.
    #[must_use]
    pub fn date(self) -> String {
        let (year, month, day) = civil(self.0 / 86_400_000);
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// `14:44:35.123`, UTC.
    #[must_use]
    pub fn time_of_day(self) -> String {
        let ms = self.0 % 86_400_000;
        let s = ms / 1000;
        format!(
            "{:02}:{:02}:{:02}.{:03}",
            s / 3600,
            s / 60 % 60,
            s % 60,
            ms % 1000
        )
    }

    /// `2026-11-30T14:44:35.123Z` (ISO 8601).
    #[must_use]
    pub fn iso8601(self) -> String {
        format!("{}T{}Z", self.date(), self.time_of_day())
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Year, month and day (UTC) of a day number since the Unix epoch, by the algorithm of the
/// proleptic Gregorian calendar with years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
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
