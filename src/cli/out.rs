//! What people read on the terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use super::fold::{Long, fold};

/// Columns of a terminal that does not say.
pub(super) const WIDTH: usize = 80;

/// Narrowest width that lines are fitted to.
pub(super) const MIN_WIDTH: usize = 40;

/// Columns of a terminal.
#[cfg(unix)]
pub(super) fn columns(terminal: &impl std::os::fd::AsFd) -> usize {
    let told = rustix::termios::tcgetwinsize(terminal).ok();
    let told = told.map(|size| usize::from(size.ws_col));
    told.filter(|columns| *columns > 0)
        .unwrap_or(WIDTH)
        .max(MIN_WIDTH)
}

/// Columns of a terminal.
#[cfg(not(unix))]
pub(super) fn columns<T>(_terminal: &T) -> usize {
    WIDTH
}

/// Says a sentence on standard error: one line, on a terminal as many as it takes. A command in it, and a
/// word that is longer than a line, stay whole. A closed standard error is no reason to fail differently.
pub fn say(text: &str) {
    let mut err = io::stderr().lock();
    if !err.is_terminal() {
        let _ = writeln!(err, "{text}");
        return;
    }
    for line in fold(text, columns(&err), Long::Whole) {
        let _ = writeln!(err, "{line}");
    }
}

/// Reports why a program ends: the cause, then what to do next.
pub fn failure(program: &str, cause: &dyn Display, next: Option<&str>) {
    match next {
        Some(next) => say(&format!("{program}: {cause}; {next}")),
        None => say(&format!("{program}: {cause}")),
    }
}
