//! What people read on the terminal.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Reports why a program ends: one line with the cause, then what to do next. A closed standard
/// error is no reason to fail differently.
pub fn failure(program: &str, cause: &dyn Display, next: Option<&str>) {
    let mut err = io::stderr().lock();
    let _ = match next {
        Some(next) => writeln!(err, "{program}: {cause}; {next}"),
        None => writeln!(err, "{program}: {cause}"),
    };
}
