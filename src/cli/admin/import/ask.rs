//! The question before an import changes anything.

use std::fmt::Write as _;

use super::super::error::AdminError;
use super::super::terminal::{self, TerminalError};
use super::Args;
use super::report::{How, Report};
use crate::types::text::visible;

/// Asks, unless it was agreed to on the command line. An import that lets keys in is not for the
/// shell of a coding agent, whatever the command line says.
pub(super) fn consent(args: &Args, report: &Report) -> Result<(), AdminError> {
    if !report.admits.is_empty() {
        args.shell.check().map_err(AdminError::Terminal)?;
    }
    if args.yes {
        return Ok(());
    }
    let agreed = terminal::agree(&text(report)).map_err(unasked)?;
    if agreed {
        Ok(())
    } else {
        Err(AdminError::NotTyped)
    }
}

fn unasked(e: TerminalError) -> AdminError {
    AdminError::Unasked(e)
}

fn text(report: &Report) -> String {
    let mut text = format!("Take over from {}:\n\n", visible(&report.from));
    for part in report.parts().filter(|part| part.taken > 0) {
        let _ = writeln!(text, "  {:>6}  {}", part.taken, part.name);
    }
    for (how, head) in [
        (How::List, "These keys can write to your agents afterwards:"),
        (
            How::Request,
            "These are let in as soon as they accept your request:",
        ),
    ] {
        let mut some = report.admits.iter().filter(|key| key.how == how).peekable();
        if some.peek().is_none() {
            continue;
        }
        let _ = writeln!(text, "\n{head}");
        for key in some {
            let _ = writeln!(
                text,
                "  {}  {}  {}",
                key.fingerprint,
                key.key,
                visible(&key.petname)
            );
        }
    }
    text.push('\n');
    text
}
