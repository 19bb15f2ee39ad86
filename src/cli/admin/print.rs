//! What people and scripts read.
//!
//! Text for people fits the terminal and is coloured there; in a pipe or a file lines are whole,
//! since whoever searches them must find what is there. Everything that a peer chose is spelled out
//! ([`crate::types::text`]). JSON says the same in full, and is as safe to print.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use schemars::JsonSchema;
use serde::Serialize;

use super::super::fold::{Long, fold};
use super::super::out::{self, MIN_WIDTH, WIDTH};
use super::error::AdminError;
use super::reader::{Origin, Source};
use crate::system::SystemClock;
use crate::types::id::is_unsafe_char;
use crate::types::text::{beginning, cells, is_invisible_char, visible, visible_id, visible_json};
use crate::types::time::{Clock as _, UnixMillis};

/// Where a field's value begins.
const LABEL: usize = 13;

/// How far the second line of a sentence is indented.
const CONTINUED: usize = 2;

/// Ways to stand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "\u{1b}[1m",
            Style::Dim => "\u{1b}[2m",
            Style::Good => "\u{1b}[32m",
            Style::Bad => "\u{1b}[31m",
        }
    }
}

/// Standard output, and what the command wants of it.
pub(super) struct Printer {
    out: Box<dyn Write>,
    color: bool,
    /// Columns of a line.
    width: usize,
    /// Whether to answer in JSON.
    pub(super) json: bool,
    /// How the program ends.
    pub(super) code: u8,
}

impl Printer {
    /// A printer on standard output.
    pub(super) fn stdout(json: bool) -> Printer {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        JSON.store(json, Ordering::Relaxed);
        Printer {
            color: terminal && crate::cli::args::variable("NO_COLOR").is_none(),
            width: if terminal {
                out::columns(&stdout)
            } else {
                usize::MAX
            },
            out: Box::new(io::BufWriter::new(stdout)),
            json,
            code: 0,
        }
    }

    /// Hands on what was written.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// One JSON document in one line.
    pub(super) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(value)?;
        writeln!(self.out, "{}", visible_json(&text))
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.color && style != Style::Plain {
            format!("{}{text}\u{1b}[0m", style.code())
        } else {
            text.to_owned()
        }
    }

    /// Columns that are left of a line for text that is broken between words. Such text is broken
    /// also where lines are not cut.
    pub(super) fn room(&self, indent: usize) -> usize {
        let width = if self.width == usize::MAX {
            WIDTH
        } else {
            self.width
        };
        width.saturating_sub(indent).max(MIN_WIDTH / 2)
    }

    /// One line, cut at the terminal's edge.
    pub(super) fn line(&mut self, style: Style, text: &str) -> io::Result<()> {
        let text = self.paint(style, &fit(text, self.width));
        writeln!(self.out, "{text}")
    }

    /// A sentence or a heading: one line where lines are whole, else as many as it takes. What is longer
    /// than a line, as a path or an id may be, has its middle left out there.
    pub(super) fn whole_line(&mut self, style: Style, text: &str) -> io::Result<()> {
        let mut indent = 0;
        for line in fold(
            &visible(text),
            self.width.saturating_sub(CONTINUED),
            Long::Shortened,
        ) {
            let line = self.paint(style, &line);
            writeln!(self.out, "{:indent$}{line}", "")?;
            indent = CONTINUED;
        }
        Ok(())
    }

    /// A label with its value, broken between words.
    pub(super) fn field(&mut self, label: &str, value: &str) -> io::Result<()> {
        let room = self.width.saturating_sub(LABEL).max(MIN_WIDTH / 2);
        self.labelled(label, &visible(value), room)
    }

    /// The same for prose, which is broken also where lines are not cut.
    pub(super) fn prose(&mut self, label: &str, value: &str) -> io::Result<()> {
        self.labelled(label, &visible(value), self.room(LABEL))
    }

    /// The same for a value that is spelled out already: twice would double its backslashes.
    pub(super) fn spelled_field(&mut self, label: &str, value: &str) -> io::Result<()> {
        self.labelled(label, value, self.room(LABEL))
    }

    fn labelled(&mut self, label: &str, value: &str, room: usize) -> io::Result<()> {
        let label = format!("  {label:<width$} ", width = LABEL - 3);
        let mut lead = self.paint(Style::Dim, &label);
        // In a pipe prose is broken, and every word is whole.
        let long = match self.width {
            usize::MAX => Long::Whole,
            _ => Long::Shortened,
        };
        for line in fold(value, room, long) {
            writeln!(self.out, "{lead}{line}")?;
            lead = " ".repeat(LABEL);
        }
        Ok(())
    }

    /// Aligned columns with a head; cells are spelled out already. Columns whose name starts with a space are flush right; the
    /// last one takes what is left of the line.
    pub(super) fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        let names: Vec<String> = head.iter().map(|name| name.trim().to_owned()).collect();
        let mut widths: Vec<usize> = names.iter().map(|name| cells(name)).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cells(cell));
            }
        }
        self.row(Style::Dim, head, &widths, &names)?;
        for row in rows {
            self.row(Style::Plain, head, &widths, row)?;
        }
        Ok(())
    }

    fn row(
        &mut self,
        style: Style,
        head: &[&str],
        widths: &[usize],
        row: &[String],
    ) -> io::Result<()> {
        let mut line = String::from("  ");
        for (at, ((cell, width), name)) in row.iter().zip(widths).zip(head).enumerate() {
            if at > 0 {
                line.push_str("  ");
            }
            let pad = " ".repeat(width.saturating_sub(cells(cell)));
            if name.starts_with(' ') {
                line.push_str(&pad);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&pad);
            }
        }
        self.line(style, line.trim_end())
    }
}

/// Whether the answer is JSON; then so is what stands beside it.
static JSON: AtomicBool = AtomicBool::new(false);

/// What stands beside an answer in JSON, a line each on standard error.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Beside<'a> {
    /// The command did not do it, or not for one of several stores.
    Error {
        /// How the program ends when this was all that went wrong.
        exit: u8,
        /// The cause.
        message: &'a str,
        /// What to do about it.
        next: Option<&'a str>,
    },
    /// Worth knowing.
    Note {
        /// What.
        message: &'a str,
        /// How many records of a log were compacted away before they were read, where that is it.
        #[serde(skip_serializing_if = "Option::is_none")]
        missed: Option<u64>,
    },
}

/// Says something beside the answer, on standard error.
pub(super) fn note(text: &str) {
    beside(text, None);
}

/// Says that something is missing in the answer.
pub(super) fn note_missed_records(text: &str, missed: u64) {
    beside(text, Some(missed));
}

fn beside(message: &str, missed: Option<u64>) {
    if !say_json(&Beside::Note { message, missed }) {
        out::say(&format!("note: {}", visible(message)));
    }
}

/// Tells of a failure; a script that asked for JSON gets JSON.
pub(super) fn failure(program: &str, e: &AdminError) {
    let (message, next) = (e.to_string(), e.next());
    let error = Beside::Error {
        exit: e.exit().code(),
        message: &message,
        next: next.as_deref(),
    };
    if !say_json(&error) {
        out::failure(program, &Shown(&message), next.as_deref());
    }
}

fn say_json(what: &Beside<'_>) -> bool {
    if !JSON.load(Ordering::Relaxed) {
        return false;
    }
    let Ok(text) = serde_json::to_string(what) else {
        return false;
    };
    // A closed standard error is no reason to fail differently.
    let _ = writeln!(io::stderr().lock(), "{}", visible_json(&text));
    true
}

/// Says on standard error when what follows was not read from the file as it is.
pub(super) fn note_source(origin: &Origin) {
    if origin.source == Source::RepairedCopy {
        note(&format!(
            "{} was left open by its last process, as a kill or the quick end of a channel server \
             leaves it; this reads a copy in memory, the file is unchanged",
            origin.name()
        ));
    }
}

/// Foreign text, spelled out.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&visible(self.0))
    }
}

/// Foreign text that was spelled out when it was recorded: once more would double its backslashes. What is
/// not spelled out after all is.
pub(super) struct Spelled<'a>(pub(super) &'a str);

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let acts = |c: char| is_unsafe_char(c) || is_invisible_char(c);
        if self.0.contains(acts) {
            f.pad(&visible(self.0))
        } else {
            f.pad(self.0)
        }
    }
}

/// A session's id: any text. One with blanks stands in quotes, so that what follows it in a line is not
/// its own.
pub(super) struct Id<'a>(pub(super) &'a str);

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = visible_id(self.0);
        if id.contains(char::is_whitespace) {
            f.pad(&format!("\"{id}\""))
        } else {
            f.pad(&id)
        }
    }
}

/// The text, or its beginning with two dots.
pub(super) fn fit(text: &str, width: usize) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    format!("{}..", beginning(text, width.saturating_sub(2)))
}

/// A queue name, route or key in few characters: keys by their first eight.
pub(super) fn short(name: &str) -> String {
    let (key, session) = crate::types::route::split(name);
    if key.parse::<crate::types::id::PublicKey>().is_err() {
        return visible(name).into_owned();
    }
    let head: String = key.chars().take(8).collect();
    match session {
        Some(session) => format!("{head}..#{}", Id(session)),
        None => format!("{head}.."),
    }
}

/// A message id in few characters; short ones stay.
pub(super) fn short_id(id: &str) -> String {
    fit(&visible(id), 12)
}

/// Bytes for people.
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut tenths = u128::from(n) * 10 / 1024;
    let mut unit = "KiB";
    for next in UNITS {
        unit = next;
        if tenths < 10_240 {
            break;
        }
        if next != "TiB" {
            tenths /= 1024;
        }
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// A span for people: the two largest units.
pub(super) fn span(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0 => format!("{ms}ms"),
        1..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

/// The same with tenths of seconds below a minute.
pub(super) fn fine_span(ms: u64) -> String {
    match ms {
        1000..60_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        ms => span(ms),
    }
}

/// How long ago, for people.
pub(super) fn age(now: UnixMillis, then: u64) -> String {
    span(now.since(UnixMillis(then)))
}

/// The wall clock.
pub(super) fn now() -> UnixMillis {
    SystemClock.now()
}

/// `2026-11-30`, UTC.
pub(super) fn date(at: u64) -> String {
    UnixMillis(at).date()
}

/// `14:44:35.123`, UTC.
pub(super) fn time(at: u64) -> String {
    UnixMillis(at).time_of_day()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        for (at, expected) in [
            (0, "1970-01-01"),
            (951_782_400_000, "2000-02-29"),
            (951_868_800_000, "2000-03-01"),
            (1_796_049_844_123, "2026-11-30"),
            (4_107_542_400_000, "2100-03-01"),
        ] {
            assert_eq!(date(at), expected);
        }
        assert_eq!(time(1_796_049_844_123), "14:44:04.123");
        // Signed times are any number.
        assert!(!date(u64::MAX).is_empty());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert!(bytes(u64::MAX).ends_with("TiB"));
        assert_eq!(span(999), "999ms");
        assert_eq!(span(61_000), "1m01s");
        assert_eq!(fine_span(1187), "1.1s");
        assert_eq!(
            (fine_span(999), fine_span(60_000)),
            (span(999), span(60_000))
        );
        assert_eq!(span(90_000_000), "1d01h");
    }

    #[test]
    fn what_is_wide_counts_as_wide() {
        assert_eq!(
            fit("\u{6f22}\u{5b57}\u{6f22}\u{5b57}", 7),
            "\u{6f22}\u{5b57}.."
        );
        assert_eq!(
            fit("\u{6f22}\u{5b57}\u{6f22}", 6),
            "\u{6f22}\u{5b57}\u{6f22}"
        );
        assert_eq!(
            (fit("abcdef", 5), fit("abcde", 5)),
            ("abc..".into(), "abcde".into())
        );
        assert_eq!(fit("\u{1f469}abc", 1), "..");
    }

    #[test]
    fn keys_are_shortened_and_other_names_spelled_out() {
        let key = "A".repeat(43);
        assert_eq!(short(&format!("{key}#s\u{202e}")), "AAAAAAAA..#s\\u{202e}");
        assert_eq!(short("a\u{1b}[m"), "a\\u{1b}[m");
    }
}
