//! Text in lines of a width, for terminals.

use crate::types::text::{beginning, cells};

/// What becomes of a word that is longer than a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "persist"),
    allow(dead_code, reason = "only what reads stores prints more than errors")
)]
pub(super) enum Long {
    /// It is broken: everything is there, and nothing can be copied in one go.
    Broken,
    /// Its middle is left out.
    Shortened,
    /// It stays whole and so does what stands between backticks, a command to copy.
    Whole,
}

/// Lines of at most so many cells, broken between words; the text is spelled out already.
pub(super) fn fold(text: &str, room: usize, long: Long) -> Vec<String> {
    // One character of two cells has to fit, or two dots and one character.
    let room = room.max(4);
    let mut lines = vec![];
    let mut line = String::new();
    for word in words(text, long) {
        let mut word = match long {
            Long::Shortened => shortened(word, room),
            Long::Broken | Long::Whole => word.to_owned(),
        };
        if !line.is_empty() && cells(&line) + 1 + cells(&word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        while long == Long::Broken && cells(&word) > room {
            let head = beginning(&word, room).to_owned();
            word.drain(..head.len());
            lines.push(head);
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// The words of a text. With [`Long::Whole`] what stands between two backticks belongs to one word.
fn words(text: &str, long: Long) -> Vec<&str> {
    let mut words = vec![];
    let (mut begin, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            '`' if long == Long::Whole => quoted = !quoted,
            ' ' if !quoted => {
                words.extend(text.get(begin..at));
                begin = at + 1;
            }
            _ => {}
        }
    }
    words.extend(text.get(begin..));
    words
}

/// A word with two dots in place of its middle, where it is longer than a line.
pub(super) fn shortened(word: &str, room: usize) -> String {
    if cells(word) <= room {
        return word.to_owned();
    }
    let half = room.saturating_sub(2) / 2;
    let head = beginning(word, room.saturating_sub(2) - half);
    let mut tail = 0;
    let mut from = word.len();
    for (at, c) in word.char_indices().rev() {
        tail += cells(c.encode_utf8(&mut [0; 4]));
        if tail > half {
            break;
        }
        from = at;
    }
    format!("{head}..{}", word.get(from..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let lines = fold("one two three", 7, Long::Broken);
        assert_eq!(lines, ["one two", "three"]);
        assert_eq!(fold("", 7, Long::Whole), [""]);
        assert_eq!(fold("a  b", 7, Long::Whole), ["a  b"]);
    }

    #[test]
    fn a_word_that_is_too_long_is_broken_shortened_or_left() {
        let text = "see 0123456789abcdef now";
        let broken = fold(text, 8, Long::Broken);
        assert_eq!(broken, ["see", "01234567", "89abcdef", "now"]);
        let shortened = fold(text, 8, Long::Shortened);
        assert_eq!(shortened, ["see", "012..def", "now"]);
        let whole = fold(text, 8, Long::Whole);
        assert_eq!(whole, ["see", "0123456789abcdef", "now"]);
    }

    #[test]
    fn a_command_to_copy_stays_in_one_line() {
        let lines = fold("then `interlink-admin status` shows it", 12, Long::Whole);
        assert_eq!(lines, ["then", "`interlink-admin status`", "shows it"]);
        // A backtick that nobody closes.
        assert_eq!(fold("a `b c", 4, Long::Whole), ["a", "`b c"]);
    }

    #[test]
    fn characters_of_two_cells_count_as_two() {
        let wide = "\u{4e2d}".repeat(10);
        for room in 4..30 {
            for long in [Long::Broken, Long::Shortened] {
                let lines = fold(&wide, room, long);
                assert!(
                    lines.iter().all(|line| cells(line) <= room),
                    "{room} {lines:?}"
                );
            }
            assert_eq!(fold(&wide, room, Long::Broken).concat(), wide);
        }
    }
}
