//! What two peers say over the bus in order to meet in a sealed session for a file: an invitation, and a
//! "no". It is the text of an ordinary signed message, so every bus carries it and nobody else can have
//! written it. It names a place where to meet and nothing that could be used there: the session is keyed
//! by the two identities. Only peers are invited whose program is known to understand it, or of which the user says
//! so.

use std::fmt;

use super::code::RoutingId;

/// What such a message begins with.
const HEAD: &str = "[interlink] file session 1: ";

/// For whoever sees it all the same.
const TAIL: &str =
    "\nThis is said by a program to a program. One that shows it cannot take a file this way.";

/// The most bytes of a relay's address.
pub const MAX_RELAY_BYTES: usize = 512;

/// The most bytes of such a message.
const MAX_BYTES: usize = 1_024;

/// Why an invited program does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the invited program says {}", self.word())]
pub enum NotComing {
    /// It is in another sealed session.
    Busy,
    /// It uses another relay for them.
    Relay,
    /// It could not join.
    Failed,
}

impl NotComing {
    /// The word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            NotComing::Busy => "busy",
            NotComing::Relay => "relay",
            NotComing::Failed => "failed",
        }
    }
}

/// Such a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileMail {
    /// Come to this session at this relay.
    Open {
        /// Where the relay files it: random.
        routing: RoutingId,
        /// The relay. Whoever reads it goes to its own relay, or nowhere.
        relay: String,
    },
    /// I do not come to this session.
    No {
        /// Which one.
        routing: RoutingId,
        /// Why.
        why: NotComing,
    },
}

impl fmt::Display for FileMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        match self {
            FileMail::Open { routing, relay } => write!(f, "open {routing} {relay}")?,
            FileMail::No { routing, why } => write!(f, "{} {routing}", why.word())?,
        }
        f.write_str(TAIL)
    }
}

impl FileMail {
    /// Reads a message's text; `None` for every other one. What stands on further lines is not read.
    #[must_use]
    pub fn parse(text: &str) -> Option<FileMail> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let line = text.lines().next()?.strip_prefix(HEAD)?;
        let mut words = line.split(' ');
        let (word, routing) = (words.next()?, words.next()?.parse::<RoutingId>().ok()?);
        let more = words.next();
        if words.next().is_some() {
            return None;
        }
        let no = |why| Some(FileMail::No { routing, why });
        match (word, more) {
            ("open", Some(relay)) if is_address(relay) => Some(FileMail::Open {
                routing,
                relay: relay.to_owned(),
            }),
            ("busy", None) => no(NotComing::Busy),
            ("relay", None) => no(NotComing::Relay),
            ("failed", None) => no(NotComing::Failed),
            _ => None,
        }
    }
}

fn is_address(text: &str) -> bool {
    (1..=MAX_RELAY_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_nothing_else_does() {
        let routing = RoutingId::from_bytes([0xab; 32]);
        let open = FileMail::Open {
            routing,
            relay: "http://127.0.0.1:9441".to_owned(),
        };
        let no = |why| FileMail::No { routing, why };
        for mail in [
            open.clone(),
            no(NotComing::Busy),
            no(NotComing::Relay),
            no(NotComing::Failed),
        ] {
            assert_eq!(FileMail::parse(&mail.to_string()), Some(mail));
        }
        let hex = "ab".repeat(32);
        for text in [
            String::new(),
            "hello".to_owned(),
            format!("{HEAD}open {hex}"),
            format!("{HEAD}open {hex} "),
            format!("{HEAD}open {hex} http://a b"),
            format!("{HEAD}open {hex} http://\u{202e}a"),
            format!("{HEAD}open {hex} {}", "a".repeat(MAX_RELAY_BYTES + 1)),
            format!("{HEAD}open {} http://a", &hex[1..]),
            format!("{HEAD}busy {hex} more"),
            format!("{HEAD}lazy {hex}"),
            format!(" {open}"),
            format!("said {open}"),
            format!("{open}{}", "x".repeat(MAX_BYTES)),
        ] {
            assert_eq!(FileMail::parse(&text), None, "{text}");
        }
    }
}
