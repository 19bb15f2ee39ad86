//! Sizes and durations as people write them: `64MiB`, `14d`.

/// Text that is not a size or a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// No whole number in front.
    #[error("start with a whole number, e.g. {example}")]
    Number {
        /// A correct value.
        example: &'static str,
    },
    /// An unknown unit.
    #[error("unknown unit {unit:?}; known are {known}")]
    Unit {
        /// What was found.
        unit: String,
        /// What would do.
        known: &'static str,
    },
    /// Larger than 64 bits hold.
    #[error("too large")]
    Overflow,
}

fn split<'a>(text: &'a str, example: &'static str) -> Result<(u64, &'a str), UnitError> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.is_empty() {
        return Err(UnitError::Number { example });
    }
    let number = number.parse().map_err(|_| UnitError::Overflow)?;
    Ok((number, unit.trim()))
}

/// Bytes: a whole number with `B`, `KiB`, `MiB`, `GiB`, `TiB` (also `K`, `M`, `G`, `T`), or with
/// the decimal `KB`, `MB`, `GB`, `TB`; without a unit, bytes.
///
/// # Errors
///
/// See [`UnitError`].
pub fn size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, "64MiB")?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => {
            return Err(UnitError::Unit {
                unit: unit.to_owned(),
                known: "B, KiB, MiB, GiB, TiB, KB, MB, GB, TB",
            });
        }
    };
    number.checked_mul(factor).ok_or(UnitError::Overflow)
}

/// Milliseconds: a whole number with `ms`, `s`, `m`, `h`, `d` or `w`; without a unit, seconds.
///
/// # Errors
///
/// See [`UnitError`].
pub fn duration_ms(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, "14d")?;
    let factor: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => {
            return Err(UnitError::Unit {
                unit: unit.to_owned(),
                known: "ms, s, m, h, d, w",
            });
        }
    };
    number.checked_mul(factor).ok_or(UnitError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_as_people_write_them() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("1 kb"), Ok(1000));
        assert_eq!(size("7"), Ok(7));
        assert_eq!(duration_ms("14d"), Ok(14 * 86_400_000));
        assert_eq!(duration_ms("250ms"), Ok(250));
        assert_eq!(duration_ms("60"), Ok(60_000));
        assert!(matches!(size("MiB"), Err(UnitError::Number { .. })));
        assert!(matches!(size("-1"), Err(UnitError::Number { .. })));
        assert!(matches!(size("1.5GiB"), Err(UnitError::Unit { .. })));
        assert!(matches!(duration_ms("1y"), Err(UnitError::Unit { .. })));
        assert_eq!(size("99999999999TiB"), Err(UnitError::Overflow));
        assert_eq!(size("99999999999999999999"), Err(UnitError::Overflow));
    }
}
