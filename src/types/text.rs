//! Foreign text on a terminal.
//!
//! What a peer sent may move the cursor, reorder the line around it or hide a part of itself.
//! Everything that does is spelled out, so that a reader sees what is there.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::id::is_unsafe_char;

/// True for characters that are not seen but change what is read: fillers, zero-width spaces,
/// tags, annotation marks, selectors beyond those of emoji. Joiners are not among them, because
/// scripts and emoji need them.
#[must_use]
pub const fn is_invisible_char(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// How many cells of a terminal a text takes, at most: those of East Asia and pictures take two.
#[must_use]
pub fn cells(text: &str) -> usize {
    text.chars().map(cells_of).sum()
}

/// The beginning of a text that takes no more than so many cells.
#[must_use]
pub fn beginning(text: &str, room: usize) -> &str {
    let mut left = room;
    let end = text.char_indices().find(|(_, c)| {
        let fits = left >= cells_of(*c);
        left = left.saturating_sub(cells_of(*c));
        !fits
    });
    match end {
        Some((at, _)) => text.get(..at).unwrap_or_default(),
        None => text,
    }
}

/// Wide and full-width characters (UAX 11), by their blocks: some narrow symbols are among them.
const fn cells_of(c: char) -> usize {
    match c {
        '\u{1100}'..='\u{115f}'
        | '\u{2600}'..='\u{27bf}'
        | '\u{2b1b}'..='\u{2b55}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe10}'..='\u{fe19}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{16fe0}'..='\u{1b2ff}'
        | '\u{1f000}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// Appends a character as `\u{..}`.
pub fn spell_out(into: &mut String, c: char) {
    // Writing to a String does not fail.
    let _ = write!(into, "\\u{{{:x}}}", u32::from(c));
}

/// A word of a command as a shell reads it back. There is no backslash in what quotes it: [`visible`]
/// would spell that out, and the command would be another one.
#[must_use]
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', "'\"'\"'")))
}

/// The text in one line, with everything that is not seen, or that acts on the terminal, spelled
/// out as `\u{..}`. A backslash is spelled out too, so that the result reads back unambiguously.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c == '\\' || is_unsafe_char(c) || is_invisible_char(c);
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) {
            spell_out(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// An id, which may be any text of a peer: as [`visible`], and without anything that could end a
/// quotation or pass for markup.
#[must_use]
pub fn visible_id(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '"' | '<' | '>' | '[' | ']' | '\u{200c}' | '\u{200d}' => spell_out(&mut out, c),
            c => out.push(c),
        }
    }
    out
}

/// JSON text in which the same characters stand as JSON escapes. They can occur inside strings
/// only, so the meaning stays.
#[must_use]
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let acts = |c: char| is_unsafe_char(c) || is_invisible_char(c);
    if !json.contains(acts) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_survive_a_shell() {
        assert_eq!(shell_word("/a/b-c.key"), "/a/b-c.key");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("a'; rm $x"), "'a'\"'\"'; rm $x'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn nothing_that_acts_on_a_terminal_survives() {
        let hostile = "a\u{1b}[2Jb\r\nc\u{202e}d\u{2028}e\u{200b}f\u{e0041}g\\u{1b}";
        let shown = visible(hostile);
        assert_eq!(
            shown,
            "a\\u{1b}[2Jb\\u{d}\\u{a}c\\u{202e}d\\u{2028}e\\u{200b}f\\u{e0041}g\\u{5c}u{1b}"
        );
        assert!(matches!(visible("plain \u{e9}"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_id_cannot_end_its_quotation() {
        assert_eq!(
            visible_id("a\"<b>[c]\u{200d}\\\n"),
            "a\\u{22}\\u{3c}b\\u{3e}\\u{5b}c\\u{5d}\\u{200d}\\u{5c}\\u{a}"
        );
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({ "a\u{202e}": "b\u{7f}\u{e0041}\n\\" });
        let text = value.to_string();
        let shown = visible_json(&text);
        assert!(shown.is_ascii());
        let back: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(back, value);
    }
}
