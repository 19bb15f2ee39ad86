//! Points of a log as people name them: a position, a time, or how long ago.

use std::str::FromStr;

use super::super::units;
use super::print;
use crate::types::time::UnixMillis;

/// Text that names no point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(super) enum WhenError {
    #[error("{text:?} is no time: write 2026-11-30T14:44:35Z, or an age like 10m")]
    Time { text: String },
}

/// A time: RFC 3339, or an age (`10m`, `2h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) UnixMillis);

impl FromStr for Time {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<Time, WhenError> {
        let bad = || WhenError::Time {
            text: text.to_owned(),
        };
        // A bare number would be seconds to one reader and a position to another.
        if text.ends_with(|c: char| c.is_ascii_alphabetic() && c != 'Z' && c != 'z') {
            let age = units::duration_ms(text).map_err(|_| bad())?;
            return Ok(Time(print::now().minus(age)));
        }
        rfc3339(text).map(Time).ok_or_else(bad)
    }
}

/// A position or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// The record at this position is the newest one.
    Seq(u64),
    /// The newest record that was written then or before.
    Time(UnixMillis),
}

impl FromStr for Point {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<Point, WhenError> {
        match text.parse() {
            Ok(seq) => Ok(Point::Seq(seq)),
            Err(_) => text.parse().map(|Time(at)| Point::Time(at)),
        }
    }
}

/// `2026-11-30T14:44:35.123Z`, with `+01:00` in place of `Z`, a space in place of `T`, or a date
/// alone for its midnight in UTC (RFC 3339, section 5.6). Fractions beyond milliseconds are cut.
fn rfc3339(text: &str) -> Option<UnixMillis> {
    let (date, rest) = match text.split_once(['T', 't', ' ']) {
        Some((date, rest)) => (date, rest),
        None => (text, "00:00:00Z"),
    };
    let days = days(date)?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone);
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, millis(fraction)?),
        None => (clock, 0),
    };
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2, 23)?;
    let minute = digits(parts.next()?, 2, 59)?;
    // A leap second counts as the second before it, as in Unix time.
    let second = digits(parts.next()?, 2, 60)?.min(59);
    if parts.next().is_some() {
        return None;
    }
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    let local = seconds.checked_mul(1000)?.checked_add(fraction)?;
    shifted(local, zone).map(UnixMillis)
}

/// Takes the offset away.
fn shifted(local: u64, zone: &str) -> Option<u64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(local);
    }
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let offset = (digits(hours, 2, 23)? * 60 + digits(minutes, 2, 59)?) * 60_000;
    match zone.as_bytes().first()? {
        b'+' => local.checked_sub(offset),
        b'-' => local.checked_add(offset),
        _ => None,
    }
}

fn millis(fraction: &str) -> Option<u64> {
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<3}").get(..3)?.parse().ok()
}

/// A number of exactly so many digits.
fn digits(text: &str, len: usize, most: u64) -> Option<u64> {
    let plain = text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| plain && *n <= most)
}

/// Days since 1970-01-01, by the same calendar as [`print::date`].
fn days(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4, 9999)?;
    let month = digits(parts.next()?, 2, 12)?;
    let day = digits(parts.next()?, 2, 31)?;
    if parts.next().is_some() || year < 1970 || month == 0 || day == 0 {
        return None;
    }
    // Years begin in March, so that the leap day is the last one.
    let shifted_year = year - u64::from(month <= 2);
    let shifted_month = (month + 9) % 12;
    let era_day = shifted_year * 365 + shifted_year / 4 - shifted_year / 100 + shifted_year / 400;
    let days = (era_day + (153 * shifted_month + 2) / 5 + day - 1).checked_sub(719_468)?;
    // The thirty-first of February is none.
    (print::date(days * 86_400_000) == date).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<u64> {
        rfc3339(text).map(|at| at.0)
    }

    #[test]
    fn times_of_rfc_3339_are_read() {
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(at("2026-11-30T14:44:04.123Z"), Some(1_796_049_844_123));
        assert_eq!(
            at("2026-11-30 15:44:04.1239+01:00"),
            Some(1_796_049_844_123)
        );
        assert_eq!(at("2026-11-30T09:14:04.1-05:30"), Some(1_796_049_844_100));
        assert_eq!(at("2000-02-29"), Some(951_782_400_000));
        assert_eq!(at("2100-03-01t00:00:60z"), Some(4_107_542_459_000));
        for bad in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "2100-02-29",
            "2026-11-30T1:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T10:00:00",
            "2026-11-30T10:00:00+1:00",
            "1969-12-31",
            "2026-11-30T10:00:00.Z",
            "+026-11-30",
        ] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_number_is_a_position_and_an_age_is_a_time() {
        assert_eq!("17".parse(), Ok(Point::Seq(17)));
        let Ok(Point::Time(ago)) = "10m".parse() else {
            panic!("no time");
        };
        let age = print::now().since(ago);
        assert!((600_000..660_000).contains(&age), "{age}");
        assert!("10".parse::<Time>().is_err());
        assert!("10y".parse::<Point>().is_err());
    }
}
