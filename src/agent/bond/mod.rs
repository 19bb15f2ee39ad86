//! Sealed sessions: the edge of `domain::machine::bond`.
//!
//! - [`books`]: what is recorded, in the log and in `audit.log`. [`page`]: what one session's machine
//!   says, as records. [`scribe`]: writes them beside the session. [`audit`]: that file.
//! - [`control`]: how the operator's terminal reaches a running server.

pub mod audit;
pub mod books;
#[cfg(unix)]
pub mod control;
pub mod page;
pub mod scribe;
