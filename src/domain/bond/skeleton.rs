//! What a text looks like to a reader, as plain lower-case ASCII.
//!
//! Comparing characters is not enough where somebody wants to pass: a zero-width space inside a
//! word, a Cyrillic letter, a full-width bracket look like the real thing. The skeleton drops what
//! is not seen, folds what looks like ASCII, and remembers where each byte came from, so that a
//! match can be cut out of the text.

use std::ops::Range;

use crate::types::id::is_unsafe_char;
use crate::types::text::is_invisible_char;

/// Stands for every character that looks like no ASCII character.
pub(super) const OTHER: u8 = 0xff;

/// The skeleton of a text of at most 4 GiB; what is longer is left out.
pub(super) struct Skeleton<'t> {
    text: &'t str,
    bytes: Vec<u8>,
    at: Vec<u32>,
}

impl<'t> Skeleton<'t> {
    pub(super) fn of(text: &'t str) -> Skeleton<'t> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut at = Vec::with_capacity(text.len());
        for (offset, c) in text.char_indices() {
            let Ok(offset) = u32::try_from(offset) else {
                break;
            };
            if let Some(byte) = fold(c) {
                bytes.push(byte);
                at.push(offset);
            }
        }
        Skeleton { text, bytes, at }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where a range of the skeleton stands in the text. Unseen characters at its edges are not in.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        let offset = |at: usize| {
            self.at
                .get(at)
                .and_then(|offset| usize::try_from(*offset).ok())
                .unwrap_or(self.text.len())
        };
        let start = offset(range.start);
        let end = range.end.checked_sub(1).map_or(start, |last| {
            let last = offset(last);
            let wide = self
                .text
                .get(last..)
                .and_then(|rest| rest.chars().next())
                .map_or(0, char::len_utf8);
            last.saturating_add(wide)
        });
        start..end.max(start)
    }
}

/// The character as ASCII, [`OTHER`], or nothing if it is not seen.
pub(super) fn fold(c: char) -> Option<u8> {
    Some(match c {
        '\t' | ' ' => b' ',
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => b'\n',
        '!'..='~' => low(u32::from(c)),
        c if is_unseen(c) => return None,
        c if c.is_whitespace() => b' ',
        c => lookalike(c).unwrap_or(OTHER),
    })
}

fn low(ascii: u32) -> u8 {
    u8::try_from(ascii).map_or(OTHER, |byte| byte.to_ascii_lowercase())
}

/// Characters that leave no mark of their own.
fn is_unseen(c: char) -> bool {
    is_unsafe_char(c)
        || is_invisible_char(c)
        || matches!(c,
            '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{fe20}'..='\u{fe2f}' | '\u{200c}' | '\u{200d}')
}

/// The letter at a place of an alphabet.
fn letter(place: u32) -> u8 {
    u8::try_from(place % 26).map_or(OTHER, |place| b'a'.saturating_add(place))
}

fn digit(place: u32) -> u8 {
    u8::try_from(place % 10).map_or(OTHER, |place| b'0'.saturating_add(place))
}

#[rustfmt::skip]
fn lookalike(c: char) -> Option<u8> {
    let code = u32::from(c);
    Some(match c {
        '\u{ff01}'..='\u{ff5e}' => low(code.saturating_sub(0xfee0)),
        // Mathematical alphabets, circled and squared letters.
        '\u{1d400}'..='\u{1d6a3}' => letter(code.saturating_sub(0x1d400)),
        '\u{1d7ce}'..='\u{1d7ff}' => digit(code.saturating_sub(0x1d7ce)),
        '\u{24b6}'..='\u{24e9}' => letter(code.saturating_sub(0x24b6)),
        '\u{1f130}'..='\u{1f149}' => letter(code.saturating_sub(0x1f130)),
        '\u{1f150}'..='\u{1f169}' => letter(code.saturating_sub(0x1f150)),
        '\u{1f170}'..='\u{1f189}' => letter(code.saturating_sub(0x1f170)),
        // Brackets, bars, dashes, quotes.
        '\u{ab}' | '\u{2039}' | '\u{2329}' | '\u{27e8}' | '\u{27ea}' | '\u{3008}' | '\u{300a}'
        | '\u{226a}' | '\u{22d8}' | '\u{276e}' | '\u{2c2}' | '\u{fe64}' | '\u{1438}'
        | '\u{276c}' | '\u{2770}' | '\u{29fc}' => b'<',
        '\u{bb}' | '\u{203a}' | '\u{232a}' | '\u{27e9}' | '\u{27eb}' | '\u{3009}' | '\u{300b}'
        | '\u{226b}' | '\u{22d9}' | '\u{276f}' | '\u{2c3}' | '\u{fe65}' | '\u{1433}'
        | '\u{276d}' | '\u{2771}' | '\u{29fd}' => b'>',
        '\u{3010}' | '\u{3014}' | '\u{27e6}' | '\u{301a}' | '\u{2045}' => b'[',
        '\u{3011}' | '\u{3015}' | '\u{27e7}' | '\u{301b}' | '\u{2046}' => b']',
        '\u{2223}' | '\u{1c0}' | '\u{2502}' | '\u{23d0}' | '\u{2758}' => b'|',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{30fc}' => b'-',
        '\u{2581}' | '\u{2017}' => b'_',
        '\u{201c}'..='\u{201f}' | '\u{2033}' => b'"',
        '\u{2018}'..='\u{201b}' | '\u{2032}' => b'\'',
        '\u{2044}' | '\u{2215}' | '\u{29f8}' => b'/',
        '\u{2217}' | '\u{204e}' => b'*',
        '\u{a789}' | '\u{2236}' | '\u{fe55}' => b':',
        '\u{2024}' => b'.',
        // Cyrillic, Greek and Latin letters that look like a Latin one.
        '\u{430}' | '\u{410}' | '\u{3b1}' | '\u{391}' | '\u{251}' => b'a',
        '\u{412}' | '\u{392}' => b'b',
        '\u{441}' | '\u{421}' | '\u{3f2}' | '\u{3f9}' => b'c',
        '\u{501}' => b'd',
        '\u{435}' | '\u{415}' | '\u{395}' | '\u{451}' | '\u{401}' => b'e',
        '\u{261}' => b'g',
        '\u{4bb}' | '\u{41d}' | '\u{397}' => b'h',
        '\u{456}' | '\u{406}' | '\u{3b9}' | '\u{399}' | '\u{131}' | '\u{130}' | '\u{4c0}' | '\u{4cf}' => b'i',
        '\u{458}' | '\u{408}' => b'j',
        '\u{43a}' | '\u{41a}' | '\u{3ba}' | '\u{39a}' | '\u{212a}' => b'k',
        '\u{41c}' | '\u{39c}' => b'm',
        '\u{39d}' => b'n',
        '\u{43e}' | '\u{41e}' | '\u{3bf}' | '\u{39f}' => b'o',
        '\u{440}' | '\u{420}' | '\u{3c1}' | '\u{3a1}' => b'p',
        '\u{51b}' => b'q',
        '\u{455}' | '\u{405}' | '\u{17f}' => b's',
        '\u{442}' | '\u{422}' | '\u{3c4}' | '\u{3a4}' => b't',
        '\u{3c5}' => b'u',
        '\u{3bd}' | '\u{475}' => b'v',
        '\u{51d}' | '\u{461}' => b'w',
        '\u{445}' | '\u{425}' | '\u{3c7}' | '\u{3a7}' => b'x',
        '\u{443}' | '\u{423}' | '\u{3a5}' | '\u{4af}' => b'y',
        '\u{396}' => b'z',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skeleton_reads_like_the_text_and_knows_its_places() {
        let text = "\u{ff29}g\u{200b}n\u{43e}r\u{435}\u{301} \u{1d400}\u{ab}\u{e9}";
        let skeleton = Skeleton::of(text);
        assert_eq!(skeleton.bytes(), b"ignore a<\xff");
        let place = skeleton.source(&(0..6));
        assert_eq!(
            text.get(place).unwrap(),
            "\u{ff29}g\u{200b}n\u{43e}r\u{435}"
        );
        assert_eq!(skeleton.source(&(9..10)), text.len() - 2..text.len());
        assert!(skeleton.source(&(4..4)).is_empty());
        assert_eq!(Skeleton::of("").source(&(0..0)), 0..0);
    }
}
