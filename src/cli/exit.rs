//! Exit codes. Scripts and service managers tell failures apart by them, so a code never changes
//! its meaning.

use std::process::ExitCode;

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok,
    /// A failure without a code of its own.
    Failure,
    /// Wrong arguments.
    Usage,
    /// The address is in use.
    PortInUse,
    /// Another process has the store.
    StoreInUse,
    /// A newer program wrote the store.
    StoreNewer,
    /// The store is damaged, or no store at all.
    StoreCorrupt,
    /// The store belongs to another kind of program.
    StoreWrongKind,
}

impl Exit {
    /// Every way to end.
    pub const ALL: [Exit; 8] = [
        Exit::Ok,
        Exit::Failure,
        Exit::Usage,
        Exit::PortInUse,
        Exit::StoreInUse,
        Exit::StoreNewer,
        Exit::StoreCorrupt,
        Exit::StoreWrongKind,
    ];

    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::PortInUse => 3,
            Exit::StoreInUse => 4,
            Exit::StoreNewer => 5,
            Exit::StoreCorrupt => 6,
            Exit::StoreWrongKind => 7,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// The codes of a program with a store, for `--help`.
pub const STORE_EXIT_CODES: &str = "\
Exit codes:
  0  ended by a signal, everything accepted is on disk
  1  any other failure
  2  wrong arguments
  3  the address is in use
  4  the store is in use by another process
  5  the store was written by a newer version
  6  the store is damaged, or is no store
  7  the store belongs to another program of this family";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented_once() {
        for exit in Exit::ALL {
            let line = format!("\n  {}  ", exit.code());
            assert_eq!(STORE_EXIT_CODES.matches(&line).count(), 1, "{exit:?}");
        }
    }
}
