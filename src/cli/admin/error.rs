//! Why a command of the admin tool failed, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::super::exit::Exit;
use super::super::paths::PathsError;
use super::demo::DemoError;
use super::endpoint::EndpointError;
use crate::domain::tables::TableId;
use crate::event::kind::EventKind;
use crate::store::{OpenError, ReadError};
#[cfg(feature = "agent")]
use crate::types::id::PublicKey;

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
    #[error("no store knows a message or a task {text:?}")]
    NoMessage { text: String },
    #[error("cannot write {}: {source}", path.display())]
    Plot { path: PathBuf, source: io::Error },
    #[error("no store has a table {name:?}")]
    Table { name: String },
    #[error("{store} has no record {seq} yet: its log ends at {head}")]
    NotYet { store: String, seq: u64, head: u64 },
    #[error("positions differ from store to store, and there are {stores} stores")]
    Positions { stores: usize },
    #[error("there is no {what} {text:?}")]
    NoSuch { what: &'static str, text: String },
    #[error("{text:?} fits several {what}s")]
    SeveralFit { what: &'static str, text: String },
    #[error("the bus refuses: {0}")]
    BusRefuses(String),
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Demo(#[from] DemoError),
    #[cfg(feature = "agent")]
    #[error("the store cannot be shared now: {0}")]
    Held(#[source] OpenError),
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Key(#[from] crate::keystore::LoadKeyError),
    #[cfg(feature = "agent")]
    #[error("--url: {0}")]
    Relays(#[from] crate::agent::config::RelayListError),
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Peers(crate::agent::peers_file::PeersFileError),
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Ledger(#[from] crate::agent::ledger::LedgerError),
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Terminal(#[from] super::terminal::TerminalError),
    /// Nobody was asked about what may also be done unasked.
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Unasked(super::terminal::TerminalError),
    #[cfg(feature = "agent")]
    #[error(
        "this identity has no list of peers yet, and {} may be another one's; nothing has changed",
        usual.display()
    )]
    WhichPeers { usual: PathBuf },
    #[cfg(all(feature = "agent", unix))]
    #[error(transparent)]
    Bond(#[from] super::bond::BondError),
    #[cfg(feature = "agent")]
    #[error("not confirmed; nothing has changed")]
    NotTyped,
    #[cfg(feature = "agent")]
    #[error("{petname:?} is no name for a peer: {source}")]
    Petname {
        petname: String,
        source: crate::wire::peers::PetnameError,
    },
    #[cfg(feature = "agent")]
    #[error("{text:?} is not a public key: {reason}")]
    NotAKey { text: String, reason: String },
    #[cfg(feature = "agent")]
    #[error("there is no peer {text:?}")]
    NoPeer { text: String },
    #[cfg(feature = "agent")]
    #[error("nobody asks who is {text:?}")]
    NobodyAsks { text: String },
    #[cfg(feature = "agent")]
    #[error("no request to {text:?} waits for another name")]
    NoConflict { text: String },
    #[cfg(feature = "agent")]
    #[error("what it calls itself cannot be its name here, or is taken")]
    NameNeeded,
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Entropy(#[from] crate::types::entropy::EntropyError),
    #[cfg(feature = "agent")]
    #[error("the message cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    #[cfg(feature = "agent")]
    #[error("unexpected answer: {0}")]
    Unexpected(String),
    #[cfg(feature = "agent")]
    #[error("{text:?} fits several keys")]
    Ambiguous { text: String },
    #[cfg(feature = "agent")]
    #[error(transparent)]
    Import(#[from] super::import::ImportError),
    #[error("{what} Nobody can be asked here")]
    Unconfirmed { what: String },
    #[error("not confirmed; nothing has changed")]
    Declined,
    #[error("a file that is open elsewhere cannot be made smaller")]
    ShrinkInUse,
    #[error(transparent)]
    Compact(#[from] crate::store::CompactError),
    #[error(transparent)]
    Care(#[from] super::care::CareError),
    #[error("there is no command called {name:?}")]
    NoCommand { name: String },
    #[cfg(feature = "agent")]
    #[error(
        "that is this identity's own key: what its sessions wrote to each other is no peer's history"
    )]
    OwnKey,
    #[cfg(feature = "agent")]
    #[error(
        "{} is the store of {owner}, and {} is the key of another identity",
        path.display(),
        key.display()
    )]
    NotItsKey {
        path: PathBuf,
        owner: PublicKey,
        key: PathBuf,
    },
    #[cfg(feature = "agent")]
    #[error("{text:?} is no public key, and no fingerprint that `pair list` shows here")]
    NoSuchKey { text: String },
}

impl AdminError {
    /// How the program ends.
    pub(super) fn exit(&self) -> Exit {
        match self {
            AdminError::Kind { .. }
            | AdminError::Table { .. }
            | AdminError::Positions { .. }
            | AdminError::SeveralFit { .. }
            | AdminError::Unconfirmed { .. } => Exit::Usage,
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
            // Whatever reads such a store is told the same: it is damaged.
            AdminError::Read { source, .. } if source.is_damage() => Exit::StoreCorrupt,
            AdminError::Care(e) => e.exit(),
            AdminError::NoCommand { .. } => Exit::Usage,
            AdminError::Endpoint(EndpointError::Refused { .. }) => Exit::Failure,
            AdminError::Endpoint(_) | AdminError::ShrinkInUse => Exit::StoreInUse,
            #[cfg(feature = "agent")]
            AdminError::Held(_) => Exit::StoreInUse,
            #[cfg(feature = "agent")]
            AdminError::Import(e) => e.exit(),
            #[cfg(all(feature = "agent", unix))]
            AdminError::Bond(e) if e.is_usage() => Exit::Usage,
            #[cfg(feature = "agent")]
            AdminError::Unasked(super::terminal::TerminalError::None(_))
            | AdminError::Relays(_)
            | AdminError::Petname { .. }
            | AdminError::NotAKey { .. }
            | AdminError::NoSuchKey { .. }
            | AdminError::OwnKey => Exit::Usage,
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
                "this command cannot go through the process that has it: end that one, then try again"
            }
            AdminError::Open(OpenError::File { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                "name a store, or a folder with stores, that is there: `interlink-admin status` lists \
                 those of the usual place"
            }
            AdminError::Open(OpenError::FormatTooNew { .. }) => "use a newer interlink-admin",
            AdminError::Unconfirmed { .. } => "say --yes",
            AdminError::Read { source, .. } if source.is_damage() => {
                "it is damaged: `interlink-admin repair` makes a new store of what is left"
            }
            AdminError::Open(OpenError::Corrupt { .. }) => {
                "if it was a store, `interlink-admin repair` makes a new one of what is left"
            }
            AdminError::Endpoint(EndpointError::Refused { .. }) => return None,
            AdminError::Endpoint(_) => "is the bus frozen? `kill -CONT` or restart it",
            AdminError::NoSuch { .. } => {
                "the same command without an id lists what there is; `outbox` and `inbox` list \
                 finished messages with --all"
            }
            AdminError::SeveralFit { .. } => "give more of the id, or the position",
            AdminError::Positions { .. } => "choose one with --store PATH",
            AdminError::ShrinkInUse => "stop the bus first, or leave --shrink out",
            AdminError::NoMessage { .. } => {
                "is its store among those of `interlink-admin status`? name others with --store \
                 PATH; what was compacted is known as long as rows tell of it"
            }
            AdminError::Plot { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                "nothing is overwritten: choose another name, or remove it first"
            }
            AdminError::Table { .. } => {
                let names: Vec<_> = TableId::ALL.iter().map(|table| table.name()).collect();
                return Some(format!("there are: {}", names.join(", ")));
            }
            AdminError::Read {
                source: ReadError::Compacted { .. },
                ..
            } => "a longer --retain keeps more; `trace` shows what rows still know of a message",
            AdminError::Kind { .. } => {
                let names: Vec<_> = EventKind::ALL.iter().map(|k| k.name()).collect();
                return Some(format!("there are: {}", names.join(", ")));
            }
            AdminError::Demo(e) => return e.next(),
            AdminError::Care(e) => return e.next(),
            #[cfg(feature = "agent")]
            e => return e.next_for_operators().map(ToOwned::to_owned),
            #[cfg(not(feature = "agent"))]
            _ => return None,
        };
        Some(next.to_owned())
    }

    /// The same for the commands that change something.
    #[cfg(feature = "agent")]
    fn next_for_operators(&self) -> Option<&'static str> {
        use super::terminal::TerminalError;
        use crate::agent::ledger::LedgerError;
        use crate::domain::decide::agent::AgentRefusal;
        use crate::keystore::LoadKeyError;
        Some(match self {
            AdminError::Ledger(LedgerError::Refused(AgentRefusal::StillAdmitted { .. })) => {
                "remove the peer first: its history is part of what an admitted peer may refer to"
            }
            AdminError::NotItsKey { .. } => "name its own key with --key PATH",
            AdminError::NoSuchKey { .. } => {
                "give the whole key, 43 characters; its first eight, the fingerprint, will do for a \
                 key that `interlink-admin pair list` shows"
            }
            AdminError::WhichPeers { .. } => "name its list with --peers PATH",
            AdminError::Held(_) => {
                "a session that was started with --store-mode exclusive keeps it for itself; a \
                 frozen one has to be continued or ended"
            }
            AdminError::Key(LoadKeyError::Missing { .. }) => "or name another with --key PATH",
            AdminError::Terminal(TerminalError::AgentsShell { .. })
            | AdminError::Unasked(TerminalError::AgentsShell { .. }) => {
                "run it in a terminal of your own; if this is one, add --i-am-the-operator"
            }
            AdminError::Terminal(_) => "run it in a terminal",
            AdminError::Unasked(_) => "run it in a terminal, or say --yes in a script",
            AdminError::Ledger(LedgerError::Refused(
                AgentRefusal::PetnameTaken { .. } | AgentRefusal::KeyKnown { .. },
            )) => "nothing has changed; `interlink-admin peers list` shows who there is",
            AdminError::NoPeer { .. } => "`interlink-admin peers list` shows who there is",
            AdminError::NobodyAsks { .. } | AdminError::NoConflict { .. } => {
                "`interlink-admin pair list` shows what waits"
            }
            AdminError::Import(e) => return e.next(),
            #[cfg(unix)]
            AdminError::Bond(e) => return e.next(),
            AdminError::NameNeeded => "choose one with --petname NAME",
            AdminError::Ambiguous { .. } => "give the whole key",
            _ => return None,
        })
    }
}
