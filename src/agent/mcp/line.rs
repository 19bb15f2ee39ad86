//! A line of `interlink-admin` that a user pastes into a terminal. Names are foreign text, so each
//! argument is quoted for a shell, and one that could be read as a flag stands behind `--`.

use crate::types::id::PublicKey;
use crate::types::text::shell_word;

/// What follows `interlink-admin`, before it is said for which identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    command: &'static str,
    /// Quoted, each with a blank before it.
    operands: String,
    /// Ready for a shell, each with a blank before it.
    flags: String,
    /// Whether an operand looks like a flag.
    guarded: bool,
}

impl Line {
    /// A command without arguments.
    #[must_use]
    pub const fn of(command: &'static str) -> Line {
        Line {
            command,
            operands: String::new(),
            flags: String::new(),
            guarded: false,
        }
    }

    /// With a key as the next operand. A key that begins with a hyphen is no flag: the program takes
    /// what it does not know as one for an operand, and no flag has 43 characters.
    #[must_use]
    pub fn key(mut self, key: &PublicKey) -> Line {
        self.operands.push_str(&format!(" {key}"));
        self
    }

    /// With a name as the next operand.
    #[must_use]
    pub fn name(mut self, name: &str) -> Line {
        self.guarded |= name.starts_with('-');
        self.operands.push_str(&format!(" {}", shell_word(name)));
        self
    }

    /// With flags that are ready for a shell: empty or beginning with a blank.
    #[must_use]
    pub fn flags(mut self, flags: &str) -> Line {
        self.flags.push_str(flags);
        self
    }

    /// The whole line, with the flags that name the identity.
    #[must_use]
    pub fn of_identity(&self, identity: &str) -> String {
        let Line {
            command,
            operands,
            flags,
            ..
        } = self;
        if self.guarded {
            format!("interlink-admin {command}{flags}{identity} --{operands}")
        } else {
            format!("interlink-admin {command}{operands}{flags}{identity}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_a_flag_stands_behind_all_flags() {
        let key = PublicKey::from_bytes([7; 32]);
        let line = |name: &str| {
            let line = Line::of("peers add").name(name).key(&key).flags(" -f");
            line.of_identity(" --key k")
        };
        let plain = format!("interlink-admin peers add bob {key} -f --key k");
        assert_eq!(line("bob"), plain);
        let guarded = format!("interlink-admin peers add -f --key k -- '-b b' {key}");
        assert_eq!(line("-b b"), guarded);
    }
}
