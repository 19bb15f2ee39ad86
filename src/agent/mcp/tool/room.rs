//! How much of an answer a host passes on.
//!
//! Hosts cut long answers, each in its own way, and some cut out the middle without a word: a model
//! would then acknowledge what it never saw. So an answer is bounded here, to what the host is known to
//! pass on, and says what is left. What is measured is the JSON, the longer one of the two forms.

use std::io;

use serde::Serialize;

use crate::agent::core::Core;
use crate::agent::host::HostConfig;
use crate::types::limit::{
    MAX_RESULT_BYTES_CLAUDE, MAX_RESULT_BYTES_CODEX, MAX_RESULT_BYTES_OTHER,
};

/// Bytes of an answer that go to its frame: names of members, counts, what to do next.
const FRAME_BYTES: usize = 512;
/// A text is not cut to less than this.
const MIN_PART_BYTES: usize = 256;

/// The room that is left in an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    left: usize,
    empty: bool,
}

impl Room {
    /// All of it, for the host of a session.
    pub(super) const fn of(core: &Core) -> Room {
        Room::with(match core.config.host {
            HostConfig::Codex { .. } => MAX_RESULT_BYTES_CODEX,
            HostConfig::Claude { .. } => MAX_RESULT_BYTES_CLAUDE,
            HostConfig::Other => MAX_RESULT_BYTES_OTHER,
        })
    }

    const fn with(bytes: usize) -> Room {
        Room {
            left: bytes.saturating_sub(FRAME_BYTES),
            empty: true,
        }
    }

    /// Bytes that are left.
    pub(super) const fn left(&self) -> usize {
        self.left
    }

    /// A part of it, for what must not push the rest out.
    pub(super) const fn share(&self, of: usize) -> Room {
        Room {
            left: self.left / of,
            empty: false,
        }
    }

    /// Takes something in that is there anyhow.
    pub(super) fn less(&mut self, item: &impl Serialize) {
        self.left = self.left.saturating_sub(size(item));
    }

    /// Whether something would fit.
    pub(super) fn fits(&self, item: &impl Serialize) -> bool {
        size(item) <= self.left
    }

    /// Takes something in if it fits; what comes first always does.
    pub(super) fn takes(&mut self, item: &impl Serialize) -> bool {
        let size = size(item);
        if size > self.left && !self.empty {
            return false;
        }
        self.left = self.left.saturating_sub(size);
        self.empty = false;
        true
    }

    /// The first of a list, as far as they fit, and how many are left out.
    pub(super) fn first_of<T: Serialize>(&mut self, mut items: Vec<T>) -> (Vec<T>, u64) {
        let fitting = items.iter().take_while(|item| self.takes(item)).count();
        let left_out = items.len().saturating_sub(fitting);
        items.truncate(fitting);
        (items, u64::try_from(left_out).unwrap_or(u64::MAX))
    }
}

/// Bytes of JSON, and the comma.
fn size(item: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(1);
    // What cannot be written is refused when the answer is.
    let _ = serde_json::to_writer(&mut count, item);
    count.0
}

/// Where a part of a text begins and ends, in bytes of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The longest part of a text from `offset` on for which what `show` makes of it has at most `max`
/// bytes of JSON, or the shortest that makes sense; with what was made of it. Characters stay whole.
pub(super) fn longest<T: Serialize, E>(
    text: &str,
    offset: usize,
    max: usize,
    mut show: impl FnMut(Span) -> Result<T, E>,
) -> Result<T, E> {
    let from = boundary(text, offset);
    // Nothing becomes shorter by being shown.
    let mut take = text.len().saturating_sub(from).min(max);
    loop {
        let span = Span {
            from,
            to: boundary(text, from.saturating_add(take)).max(next(text, from)),
        };
        let shown = show(span)?;
        let size = size(&shown);
        if size <= max || take <= MIN_PART_BYTES {
            return Ok(shown);
        }
        let fitting = take.saturating_mul(max) / size;
        take = fitting.min(take.saturating_sub(64)).max(MIN_PART_BYTES);
    }
}

/// The last place at or before `at` where a character begins, or the end.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at = at.saturating_sub(1);
    }
    at
}

/// The end of the character that begins at `from`, so that a part is never empty before the end.
fn next(text: &str, from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_first_is_taken_and_what_does_not_fit_is_counted() {
        let mut room = Room::with(FRAME_BYTES + 20);
        let (taken, left) = room.first_of(vec!["x".repeat(100), "y".to_owned()]);
        assert_eq!((taken.len(), left), (1, 1));
        let mut room = Room::with(FRAME_BYTES + 20);
        // Five of four bytes each.
        let (taken, left) = room.first_of(vec!["y"; 9]);
        assert_eq!((taken.len(), left), (5, 4));
    }

    #[test]
    fn parts_of_a_text_fit_are_in_order_and_leave_nothing_out() {
        for text in [
            "plain words, ".repeat(500),
            "\u{1f468}\u{e9}\n\u{202e}\"".repeat(300),
            "\u{e0041}".repeat(1000),
        ] {
            let (mut whole, mut at) = (String::new(), 0);
            while at < text.len() {
                let mut last = Span { from: 0, to: 0 };
                let part = longest(&text, at, 2000, |span| {
                    last = span;
                    let part = text.get(span.from..span.to).unwrap();
                    Ok::<_, ()>(crate::agent::mcp::render::body(part))
                })
                .unwrap();
                assert!(size(&part) <= 2000 || last.to - last.from <= MIN_PART_BYTES);
                assert!(last.to > last.from && last.from == at);
                whole.push_str(text.get(last.from..last.to).unwrap());
                at = last.to;
            }
            assert_eq!(whole, text);
        }
    }
}
