//! The thing that an operator means: by its id, by its position, or by the beginning of its id.

use super::error::AdminError;
use super::print::short;

/// Shortest beginning of an id that is looked for.
const MIN_PREFIX: usize = 4;

/// What has an id and stands at a position.
pub(super) trait Named {
    /// Its id, as its maker chose it.
    fn id(&self) -> &str;
    /// Its position in the log.
    fn seq(&self) -> u64;
}

/// The one of `rows` that `text` means. A whole id counts before a position, and that before the
/// beginning of an id.
pub(super) fn pick<'a, T: Named>(
    rows: &'a [T],
    text: &str,
    what: &'static str,
) -> Result<&'a T, AdminError> {
    let by_id = |row: &&T| row.id() == text;
    let by_seq = |row: &&T| text.parse() == Ok(row.seq());
    let by_prefix = |row: &&T| text.len() >= MIN_PREFIX && row.id().starts_with(text);
    one(rows, [&by_id, &by_seq, &by_prefix], text, (what, what))
}

/// The one of `rows` whose name `text` is: whole, as lists shorten it, or the beginning of it.
/// `what` names one of them, and one that is not there.
pub(super) fn pick_name<'a, T>(
    rows: &'a [T],
    name: impl Fn(&T) -> &str,
    text: &str,
    what: (&'static str, &'static str),
) -> Result<&'a T, AdminError> {
    let exact = |row: &&T| name(row) == text;
    let shortened = |row: &&T| short(name(row)) == text;
    let begins = |row: &&T| !text.is_empty() && name(row).starts_with(text);
    one(rows, [&exact, &shortened, &begins], text, what)
}

/// The row that the first way finds which finds any.
fn one<'a, T>(
    rows: &'a [T],
    ways: [&dyn Fn(&&T) -> bool; 3],
    text: &str,
    (what, missing): (&'static str, &'static str),
) -> Result<&'a T, AdminError> {
    for way in ways {
        let mut fitting = rows.iter().filter(way);
        match (fitting.next(), fitting.next()) {
            (None, _) => {}
            (Some(row), None) => return Ok(row),
            (Some(_), Some(_)) => {
                return Err(AdminError::SeveralFit {
                    what,
                    text: text.to_owned(),
                });
            }
        }
    }
    Err(AdminError::NoSuch {
        what: missing,
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(&'static str, u64);

    impl Named for Row {
        fn id(&self) -> &str {
            self.0
        }

        fn seq(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn an_id_counts_before_a_position_and_that_before_a_beginning() {
        let rows = [Row("12", 7), Row("abcd1", 12), Row("abcd2", 13)];
        let seq = |text| pick(&rows, text, "message").map(|row| row.1);
        assert_eq!(seq("12").unwrap(), 7);
        assert_eq!(seq("13").unwrap(), 13);
        assert_eq!(seq("abcd2").unwrap(), 13);
        assert!(matches!(seq("abcd"), Err(AdminError::SeveralFit { .. })));
        assert!(matches!(seq("abc"), Err(AdminError::NoSuch { .. })));
        assert!(matches!(seq("99"), Err(AdminError::NoSuch { .. })));
    }
}
