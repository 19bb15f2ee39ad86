//! A question before something that cannot be taken back.

use std::io::{self, IsTerminal as _, Write as _};

use super::super::out;
use super::error::AdminError;
use crate::types::text::visible;

/// Longest answer that is read, in characters; the rest of the line is not looked at.
const MAX_ANSWER: usize = 16;

/// Whether the operator agrees: by flag, or on the terminal.
///
/// # Errors
///
/// [`AdminError::Unconfirmed`] when nobody can be asked, or the answer is not yes.
pub(super) fn agreed(what: &str, yes: bool) -> Result<(), AdminError> {
    if yes {
        return Ok(());
    }
    let (stdin, mut err) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !err.is_terminal() {
        return Err(AdminError::Unconfirmed {
            what: what.to_owned(),
        });
    }
    out::say(&visible(what));
    // What was typed before the question stood there is no answer to it.
    forget_typed(&stdin);
    write!(err, "Go on? [y/N] ")?;
    err.flush()?;
    let mut line = String::new();
    stdin.read_line(&mut line)?;
    let answer: String = line.trim().chars().take(MAX_ANSWER).collect();
    if matches!(answer.to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(AdminError::Declined)
}

#[cfg(unix)]
fn forget_typed(stdin: &io::Stdin) {
    let _ = rustix::termios::tcflush(stdin, rustix::termios::QueueSelector::IFlush);
}

#[cfg(not(unix))]
fn forget_typed(_stdin: &io::Stdin) {}
