//! Why an import stops before it changes anything.

use std::path::PathBuf;

use super::super::super::exit::Exit;
use crate::domain::decide::agent::AgentRefusal;
use crate::domain::decide::bus::BusRefusal;
use crate::domain::rehearsal::RehearsalError;
use crate::store::{CommandError, OpenError, ReadError, SubmitError};
use crate::types::text::visible;

/// See the module's documentation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::cli::admin) enum ImportError {
    #[error("{} is no folder", place.display())]
    NoFolder { place: PathBuf },
    #[error("nothing of the public program is in {}", place.display())]
    NothingThere { place: PathBuf },
    #[error(
        "{} is the public bus's file, and this bus would keep its mail under the same name; \
         nothing has changed",
        place.display()
    )]
    SamePlace { place: PathBuf },
    #[error("the public bus runs: {0}; nothing has changed")]
    PublicBusRuns(#[source] OpenError),
    #[error(
        "the public program still serves {}: what it receives and marks from now on would be missed; \
         nothing has changed",
        visible(&sessions.join(", "))
    )]
    SessionsRun { sessions: Vec<String> },
    #[error("the bus that shall get the mail runs: {0}; nothing has changed")]
    BusRuns(#[source] OpenError),
    #[error("the public bus's file cannot be read: {0}")]
    PublicBus(#[source] ReadError),
    #[error("{}: {source}", place.display())]
    Store { place: PathBuf, source: ReadError },
    #[error("it would fail: {0}; nothing has changed")]
    Rehearsal(#[from] RehearsalError),
    #[error("it would be refused: {0}; nothing has changed")]
    Refused(#[source] AgentRefusal),
    #[error("the bus takes no command: {0}")]
    Submit(#[from] SubmitError),
    #[error("the bus did not take a message: {0}")]
    Bus(#[from] CommandError<BusRefusal>),
    #[error("this identity's list of peers does not read: {}", visible(reason))]
    OwnPeers { reason: String },
    #[error("unexpected answer: {0}")]
    Unexpected(String),
}

impl ImportError {
    /// How the program ends.
    pub(in crate::cli::admin) const fn exit(&self) -> Exit {
        match self {
            ImportError::PublicBusRuns(_)
            | ImportError::BusRuns(_)
            | ImportError::SessionsRun { .. } => Exit::StoreInUse,
            ImportError::NoFolder { .. } | ImportError::SamePlace { .. } => Exit::Usage,
            _ => Exit::Failure,
        }
    }

    /// What to do next.
    pub(in crate::cli::admin) const fn next(&self) -> Option<&'static str> {
        Some(match self {
            ImportError::NoFolder { .. } | ImportError::NothingThere { .. } => {
                "name the folder that has `mailbox` in it, usually ~/.local/state/interlink"
            }
            ImportError::SamePlace { .. } => {
                "rename the public bus's file and name it with --from-bus, or name another file \
                 for this bus with --bus-store; --only identity leaves the bus alone"
            }
            ImportError::PublicBusRuns(_)
            | ImportError::BusRuns(_)
            | ImportError::SessionsRun { .. } => "end it, then try again",
            ImportError::PublicBus(_) => {
                "let the public programs read their mail first; --only identity leaves the bus alone"
            }
            ImportError::OwnPeers { .. } => "mend the file first",
            _ => return None,
        })
    }
}
