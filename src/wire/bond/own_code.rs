//! The code of our own mode, and telling it from the legacy one.
//!
//! ```text
//! 4821-9037-lunar-pebble-violin
//! ^^^^^^^^^ where: 8 digits        ^ password: three words of 1,024
//! ```
//!
//! The digits say where a relay files the session; the words are the password of a PAKE and nothing
//! else, so what a relay sees tells nothing about them. Three words are 30 bits: one guess in
//! 1,073,741,824 for every run, and a run is all that anybody gets.
//!
//! The form decides the mode, and only the human who passes it on decides the form: a relay has no
//! say in it. A legacy code has exactly 14 characters; a code with eight digits and three words has
//! at least 23, so no text is both.

use std::fmt;
use std::str::FromStr;

use super::code::{CodeError, RoutingId, SessionCode};
use crate::crypto::hash;
use crate::types::entropy::{Entropy, EntropyError};
use crate::types::secret::Secret;

/// The words, one a line: sorted, lower-case, of 5 to 8 letters, no two with the same first four
/// letters, no two that differ in one letter only.
const LIST: &str = include_str!("words.txt");

/// Words of the list.
pub const WORDS: usize = 1024;

/// Words of a code.
pub const CODE_WORDS: usize = 3;

/// Digits of a code.
pub const CODE_DIGITS: usize = 8;

/// The most bytes of a text that is looked at.
const MAX_TEXT: usize = 128;

/// A code of our own mode. Erased on drop; neither `Debug` nor `Display` shows it.
pub struct OwnCode {
    route: Secret<[u8; CODE_DIGITS]>,
    words: Secret<[usize; CODE_WORDS]>,
}

impl OwnCode {
    /// A fresh code.
    ///
    /// # Errors
    ///
    /// When there is no randomness to be had.
    pub fn generate(entropy: &dyn Entropy) -> Result<OwnCode, EntropyError> {
        let mut route = Secret::new([0; CODE_DIGITS]);
        let mut left: usize = 0;
        let mut pool = [0u8; 16];
        for digit in route.expose_mut() {
            *digit = loop {
                if left == 0 {
                    entropy.fill(&mut pool)?;
                    left = pool.len();
                }
                left -= 1;
                // 250 is the largest multiple of 10 in a byte.
                if let Some(byte) = pool.get(left)
                    && *byte < 250
                {
                    break b'0' + byte % 10;
                }
            };
        }
        let mut words = Secret::new([0; CODE_WORDS]);
        for word in words.expose_mut() {
            let mut drawn = Secret::new([0u8; 2]);
            entropy.fill(drawn.expose_mut())?;
            // 1,024 divides what two bytes can be.
            *word = usize::from(u16::from_le_bytes(*drawn.expose())) % WORDS;
        }
        Ok(OwnCode { route, words })
    }

    /// The text, for the human who is to pass it on.
    #[must_use]
    pub fn reveal(&self) -> Secret<String> {
        let mut out = String::with_capacity(40);
        for (at, digit) in self.route.expose().iter().enumerate() {
            if at == CODE_DIGITS / 2 {
                out.push('-');
            }
            out.push(char::from(*digit));
        }
        for at in self.words.expose() {
            out.push('-');
            out.push_str(word(*at));
        }
        Secret::new(out)
    }

    /// A second copy.
    #[must_use]
    pub const fn duplicate(&self) -> OwnCode {
        OwnCode {
            route: Secret::new(*self.route.expose()),
            words: Secret::new(*self.words.expose()),
        }
    }

    /// Where a relay files the session: `SHA-256("interlink-1 route" || digits)`.
    #[must_use]
    pub fn routing(&self) -> RoutingId {
        let mut text = b"interlink-1 route".to_vec();
        text.extend_from_slice(self.route.expose());
        RoutingId::from_bytes(hash::sha256(&text))
    }

    /// The password: the three words in lower case with one space between them.
    #[must_use]
    pub fn password(&self) -> Secret<Vec<u8>> {
        let words = self.words.expose().map(word);
        Secret::new(words.join(" ").into_bytes())
    }
}

/// Whatever people make of it: case does not count, and between the parts may stand spaces,
/// hyphens, dots, commas or underscores, in any number.
impl FromStr for OwnCode {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<OwnCode, CodeError> {
        if text.len() > MAX_TEXT {
            return Err(CodeError);
        }
        let mut route = Secret::new([0; CODE_DIGITS]);
        let mut words = Secret::new([0; CODE_WORDS]);
        let (mut digits, mut found) = (0, 0);
        let separates = |c: char| c.is_whitespace() || matches!(c, '-' | '.' | ',' | '_');
        for part in text.split(separates).filter(|part| !part.is_empty()) {
            if part.bytes().all(|b| b.is_ascii_digit()) && found == 0 {
                for digit in part.bytes() {
                    *route.expose_mut().get_mut(digits).ok_or(CodeError)? = digit;
                    digits += 1;
                }
            } else {
                let at = find(part).ok_or(CodeError)?;
                *words.expose_mut().get_mut(found).ok_or(CodeError)? = at;
                found += 1;
            }
        }
        if digits != CODE_DIGITS || found != CODE_WORDS {
            return Err(CodeError);
        }
        Ok(OwnCode { route, words })
    }
}

impl fmt::Debug for OwnCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnCode(..)")
    }
}

/// A code of either mode: its form says which.
#[derive(Debug)]
pub enum AnyCode {
    /// `XXXX-XXXX-XXXX`: for the public client.
    Legacy(SessionCode),
    /// Digits and words: both sides are this program.
    Own(OwnCode),
}

impl FromStr for AnyCode {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<AnyCode, CodeError> {
        text.parse()
            .map(AnyCode::Legacy)
            .or_else(|CodeError| text.parse().map(AnyCode::Own))
    }
}

/// Words that both sides may compare aloud, of bytes that both have.
#[must_use]
pub fn spoken(bytes: &[u8; 6]) -> String {
    let [a, b, c, d, e, f] = *bytes;
    [[a, b], [c, d], [e, f]]
        .map(|pair| word(usize::from(u16::from_be_bytes(pair)) % WORDS))
        .join(" ")
}

fn word(at: usize) -> &'static str {
    LIST.lines().nth(at).unwrap_or_default()
}

fn find(text: &str) -> Option<usize> {
    let text = Secret::new(text.to_ascii_lowercase());
    LIST.lines().position(|word| word == text.expose())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Weyl(AtomicU64);

    impl Entropy for Weyl {
        fn fill(&self, buf: &mut [u8]) -> Result<(), EntropyError> {
            for byte in buf {
                let n = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
                *byte = u8::try_from((n ^ (n >> 29)) >> 56).unwrap();
            }
            Ok(())
        }
    }

    fn near(a: &str, b: &str) -> bool {
        let (a, b): (Vec<_>, Vec<_>) = (a.bytes().collect(), b.bytes().collect());
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        let front = short.iter().zip(&long).take_while(|(x, y)| x == y).count();
        match long.len() - short.len() {
            0 => short[front..]
                .iter()
                .skip(1)
                .eq(long[front..].iter().skip(1)),
            1 => short[front..] == long[front + 1..],
            _ => false,
        }
    }

    #[test]
    fn the_words_are_told_apart_easily() {
        let words: Vec<_> = LIST.lines().collect();
        assert_eq!(words.len(), WORDS);
        assert!(words.is_sorted());
        let mut fronts = HashSet::new();
        for (at, word) in words.iter().enumerate() {
            assert!((5..=8).contains(&word.len()), "{word}");
            assert!(word.bytes().all(|b| b.is_ascii_lowercase()), "{word}");
            assert!(fronts.insert(&word[..4]), "{word} begins like another");
            for other in &words[at + 1..] {
                assert!(!near(word, other), "{word} is near {other}");
            }
        }
        assert!(near("lilac", "lilacs") && near("bagel", "babel") && !near("amber", "abbey"));
    }

    #[test]
    fn a_code_reads_back_however_it_is_written() {
        let entropy = Weyl(AtomicU64::new(7));
        for _ in 0..200 {
            let code = OwnCode::generate(&entropy).unwrap();
            let text = code.reveal();
            let text = text.expose();
            for spelled in [
                text.clone(),
                text.to_uppercase(),
                text.replace('-', " "),
                format!("  {}\n", text.replace('-', ", ")),
                text.replacen('-', "", 1),
            ] {
                let read: OwnCode = spelled.parse().unwrap();
                assert_eq!(read.routing(), code.routing());
                assert_eq!(read.password().expose(), code.password().expose());
                assert!(matches!(spelled.parse(), Ok(AnyCode::Own(_))));
            }
            assert_eq!(format!("{code:?}"), "OwnCode(..)");
        }
    }

    #[test]
    fn routing_and_password_do_not_depend_on_each_other() {
        let code = |text: &str| text.parse::<OwnCode>().unwrap();
        let one = code("1234-5678-acorn-almond-alpine");
        let other_words = code("1234-5678-acorn-almond-amber");
        let other_digits = code("1234-5679-acorn-almond-alpine");
        assert_eq!(one.routing(), other_words.routing());
        assert_ne!(one.routing(), other_digits.routing());
        assert_eq!(one.password().expose(), b"acorn almond alpine");
        assert_eq!(one.password().expose(), other_digits.password().expose());
    }

    #[test]
    fn no_code_is_of_both_modes() {
        let entropy = Weyl(AtomicU64::new(3));
        for _ in 0..200 {
            let legacy = SessionCode::generate(&entropy).unwrap();
            let text = legacy.reveal();
            assert!(text.parse::<OwnCode>().is_err());
            assert!(matches!(text.parse(), Ok(AnyCode::Legacy(_))));
            let own = OwnCode::generate(&entropy).unwrap();
            assert!(own.reveal().expose().parse::<SessionCode>().is_err());
        }
    }

    #[test]
    fn what_is_no_code_is_refused_without_an_echo() {
        let long = format!("1234-5678-acorn-almond-alpine{}", " ".repeat(120));
        for text in [
            "",
            "1234-5678",
            "1234-567-acorn-almond-alpine",
            "1234-56789-acorn-almond-alpine",
            "1234-5678-acorn-almond",
            "1234-5678-acorn-almond-alpine-amber",
            "1234-5678-acorn-almond-alpinist",
            "1234-acorn-5678-almond-alpine",
            "acorn-almond-alpine-1234-5678",
            "1234-5678-acorn-almond-\u{430}lpine",
            "\u{661}234-5678-acorn-almond-alpine",
            long.as_str(),
        ] {
            let refused = text.parse::<AnyCode>();
            assert!(refused.is_err(), "{text}");
            let told = refused.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(!told.contains("acorn"), "{told}");
        }
    }
}
