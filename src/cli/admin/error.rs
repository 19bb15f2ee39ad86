//! Why a command of the admin tool failed, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::super::exit::Exit;
use super::super::paths::PathsError;
use super::demo::DemoError;
use super::endpoint::EndpointError;
use crate::domain::decide::agent::AgentRefusal;
use crate::event::kind::EventKind;
use crate::store::{CommandError, OpenError, ReadError, SubmitError};

/// See the module's documentation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum AdminError {
    #[error(transparent)]
    Paths(#[from] PathsError),
    #[error("no store in {}", place.display())]
    NoStore { place: PathBuf },
    #[error("cannot look into {}: {source}", place.display())]
    Place { place: PathBuf, source: io::Error },
    #[error("none of the stores is one of {wanted}")]
    NoneOfKind { wanted: &'static str },
    #[error("{store} is a store of {found}, not of {wanted}")]
    WrongKind {
        store: String,
        found: String,
        wanted: &'static str,
    },
    #[error("{store} is of kind {found:?}, which this program does not know")]
    UnknownKind { store: String, found: String },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{store}: {source}")]
    Read { store: String, source: ReadError },
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("there is no kind of record called {name:?}")]
    Kind { name: String },
    #[error("positions differ from store to store, and there are {stores} stores")]
    Positions { stores: usize },
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Demo(#[from] DemoError),
    #[error("there are {stores} identities, and one is to be changed")]
    Identities { stores: usize },
    #[error("erasing cannot be undone")]
    NotConfirmed,
    #[error("the store takes no command: {0}")]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Command(#[from] CommandError<AgentRefusal>),
}

impl AdminError {
    /// How the program ends.
    pub(super) fn exit(&self) -> Exit {
        match self {
            AdminError::Kind { .. }
            | AdminError::Positions { .. }
            | AdminError::Identities { .. }
            | AdminError::NotConfirmed => Exit::Usage,
            AdminError::WrongKind { .. }
            | AdminError::UnknownKind { .. }
            | AdminError::NoneOfKind { .. } => Exit::StoreWrongKind,
            AdminError::Open(e) => match e {
                OpenError::InUse { .. } => Exit::StoreInUse,
                OpenError::FormatTooNew { .. } => Exit::StoreNewer,
                OpenError::Corrupt { .. } => Exit::StoreCorrupt,
                OpenError::WrongKind { .. } => Exit::StoreWrongKind,
                _ => Exit::Failure,
            },
            AdminError::Endpoint(_) => Exit::StoreInUse,
            _ => Exit::Failure,
        }
    }

    /// What to do next.
    pub(super) fn next(&self) -> Option<String> {
        let next = match self {
            AdminError::NoStore { .. } => "start a bus or a channel server, or name --store PATH",
            AdminError::WrongKind { .. } | AdminError::NoneOfKind { .. } => {
                "`interlink-admin status` lists the stores and their kinds"
            }
            AdminError::UnknownKind { .. } => "use the interlink-admin of the program that made it",
            AdminError::Open(OpenError::InUse { .. }) => {
                "its owner offers no admin endpoint: end it, then try again"
            }
            AdminError::Open(OpenError::FormatTooNew { .. }) => "use a newer interlink-admin",
            AdminError::Endpoint(_) => "is the bus frozen? `kill -CONT` or restart it",
            AdminError::NotConfirmed => "say --yes",
            AdminError::Command(CommandError::Refused(AgentRefusal::StillAdmitted { .. })) => {
                "remove the peer first: its history is part of what an admitted peer may refer to"
            }
            AdminError::Positions { .. } | AdminError::Identities { .. } => {
                "choose one with --store PATH"
            }
            AdminError::Kind { .. } => {
                let names: Vec<_> = EventKind::ALL.iter().map(|k| k.name()).collect();
                return Some(format!("there are: {}", names.join(", ")));
            }
            AdminError::Demo(e) => return e.next(),
            _ => return None,
        };
        Some(next.to_owned())
    }
}
