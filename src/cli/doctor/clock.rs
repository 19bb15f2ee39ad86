//! The time that a relay's answer carries.

/// Reads an HTTP date in its usual form, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section
/// 5.6.7); milliseconds since 1970.
pub(super) fn http_date_ms(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, rest) = text.trim().split_once(", ")?;
    let rest = rest.strip_suffix(" GMT")?;
    let [day, month, year, time] = split(rest, ' ')?;
    let month = MONTHS.iter().position(|m| *m == month)?;
    let [hours, minutes, seconds] = split(time, ':')?;
    let number = |text: &str| text.parse::<u64>().ok();
    let days = days_before(number(year)?, u64::try_from(month).ok()?, number(day)?)?;
    let time = number(hours)? * 3600 + number(minutes)? * 60 + number(seconds)?;
    Some((days * 86_400 + time) * 1000)
}

fn split<const N: usize>(text: &str, by: char) -> Option<[&str; N]> {
    text.split(by).collect::<Vec<_>>().try_into().ok()
}

/// Days from 1970-01-01 to a date; months from 0, days from 1.
fn days_before(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let years: u64 = (1970..year).map(|y| if leap(y) { 366 } else { 365 }).sum();
    let lengths = [
        31,
        if leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let months: u64 = lengths.iter().take(usize::try_from(month).ok()?).sum();
    Some(years + months + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_answers_are_read() {
        for (text, ms) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000),
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199_000),
            ("Fri, 01 Jan 2100 00:00:00 GMT", 4_102_444_800_000),
        ] {
            assert_eq!(http_date_ms(text), Some(ms), "{text}");
        }
        for odd in [
            "",
            "yesterday",
            "Thu, 01 Foo 1970 00:00:00 GMT",
            "Thu, 1-1-70 0:0:0 GMT",
        ] {
            assert_eq!(http_date_ms(odd), None, "{odd}");
        }
    }
}
