//! An identity as its operator acts for it, beside whatever sessions run.
//!
//! The store is the one that the sessions share; what is decided here is a record like theirs, and the
//! file of peers is brought up to it before the command ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::FalseyValueParser;

use super::super::mcp::DEFAULT_URL;
use super::super::paths;
use super::error::AdminError;
use super::file::FileReader;
use super::locate::identity_of;
use super::print::{note, note_source};
use super::reader::StoreReader as _;
use crate::agent::config::parse_relays;
use crate::agent::ledger::Ledger;
use crate::agent::peers_file::{PeersFile, PeersFileError, digest as peers_file_digest};
use crate::crypto::sign::SigningIdentity;
use crate::domain::decide::agent::{Agent, AgentCommand, AgentReply, DirectoryCommand};
use crate::domain::query::agent::{self as query, FileVersion};
use crate::event::kind::StoreKind;
use crate::keystore::{self, KeyPermissions};
use crate::store::{Location, OpenOptions, Snapshot, Store};
use crate::store::{OpenError, ReadError};
use crate::system::SystemClock;
use crate::types::id::PublicKey;

/// Which identity.
#[derive(Debug, clap::Args)]
pub(super) struct Who {
    /// The secret key of the identity [default: ~/.config/interlink/id.key]
    #[arg(long, value_name = "PATH", env = "INTERLINK_KEY", global = true)]
    key: Option<PathBuf>,

    /// Load a key that other users of this machine can read
    #[arg(long, env = "INTERLINK_INSECURE_KEY_PERMISSIONS", value_parser = FalseyValueParser::new(), global = true)]
    insecure_key_permissions: bool,

    /// The list of who may write, where the identity has none yet
    /// [default: ~/.config/interlink/peers.json]
    #[arg(long, value_name = "PATH", env = "INTERLINK_PEERS", global = true)]
    peers: Option<PathBuf>,
}

impl Who {
    fn key_path(&self) -> Result<PathBuf, AdminError> {
        Ok(match &self.key {
            Some(path) => path.clone(),
            None => paths::key_file(&paths::process_env)?,
        })
    }

    /// The secret key.
    pub(super) fn identity(&self) -> Result<SigningIdentity, AdminError> {
        let permissions = if self.insecure_key_permissions {
            KeyPermissions::AllowOpen
        } else {
            KeyPermissions::Private
        };
        Ok(keystore::load(&self.key_path()?, permissions)?)
    }

    /// The list of peers, given the one that the identity has, and whether it is sure that it is
    /// the identity's: another one's list must not become this one's because it stands at the usual
    /// place.
    pub(super) fn list(&self, adopted: Option<PathBuf>) -> Result<(PathBuf, bool), AdminError> {
        let env = paths::process_env;
        if let Some(path) = adopted.or_else(|| self.peers.clone()) {
            return Ok((path, true));
        }
        let key = self.key_path()?;
        let usual_key = paths::key_file(&env).is_ok_and(|usual| usual == key);
        Ok((paths::peers_file(&env)?, usual_key))
    }
}

/// Through which relays answers go.
#[derive(Debug, clap::Args)]
pub(super) struct Relays {
    /// The relays, separated by commas
    #[arg(long, value_name = "URL,...", env = "INTERLINK_URL", default_value = DEFAULT_URL)]
    url: String,
}

impl Relays {
    /// Their addresses, normalised.
    pub(super) fn list(&self) -> Result<Vec<String>, AdminError> {
        let list = parse_relays(self.url.split(','))?;
        Ok(list.iter().map(ToString::to_string).collect())
    }
}

/// An identity whose store is open for writing.
pub(super) struct Operator {
    /// The secret key.
    pub(super) identity: SigningIdentity,
    /// Its public half.
    pub(super) me: PublicKey,
    ledger: Ledger,
    peers: PeersFile,
    /// Whether the file of peers is the identity's, or was meant to be.
    sure: bool,
    adopted: bool,
}

impl Operator {
    /// Opens the store of an identity, and creates it where there is none. `place` is the store
    /// where it is not at the usual place.
    pub(super) fn open(who: &Who, place: Option<&Path>) -> Result<Operator, AdminError> {
        let identity = who.identity()?;
        let me = identity.public();
        let path = own_store(who, place, &me)?;
        let options = OpenOptions::shared(Location::File(path));
        let clock = Arc::new(SystemClock);
        let store = Store::<Agent>::open(options, clock.clone(), None).map_err(|e| match e {
            e @ OpenError::InUse { .. } => AdminError::Held(e),
            e => AdminError::Open(e),
        })?;
        let ledger = Ledger::over(store);
        let adopted = ledger.read_blocking(|s| Ok(query::peers_file(s)?))?;
        let has_file = adopted.is_some();
        let (file, sure) = who.list(adopted.map(|row| PathBuf::from(row.path)))?;
        Ok(Operator {
            identity,
            me,
            ledger,
            peers: PeersFile::new(file, false, clock),
            sure,
            adopted: has_file,
        })
    }

    /// Takes hand edits of the peers file over, so that what is read next is in force. A file that
    /// is not the identity's yet stays alone.
    pub(super) fn catch_up(&self) -> Result<(), AdminError> {
        if self.adopted {
            self.peers.ensure_blocking(&self.ledger)?;
        }
        Ok(())
    }

    /// As [`Operator::catch_up`], before a change: the identity gets its file of peers.
    pub(super) fn prepare(&self) -> Result<(), AdminError> {
        if !self.sure {
            return Err(AdminError::WhichPeers {
                usual: self.peers.path().to_owned(),
            });
        }
        Ok(self.peers.ensure_blocking(&self.ledger)?)
    }

    /// Reads from a consistent view.
    pub(super) fn read<T>(
        &self,
        f: impl FnOnce(&Snapshot) -> Result<T, ReadError>,
    ) -> Result<T, AdminError> {
        Ok(self.ledger.read_blocking(f)?)
    }

    /// Carries out a command that may change who is admitted; the file follows. Durable when this
    /// returns; a file that could not be written is told and does not undo it.
    pub(super) fn change(&self, command: AgentCommand) -> Result<AgentReply, AdminError> {
        self.prepare()?;
        Ok(self.peers.change_blocking(&self.ledger, command)?)
    }

    /// Carries out a command that changes nobody's admission. Durable when this returns.
    pub(super) fn submit(&self, command: AgentCommand) -> Result<AgentReply, AdminError> {
        Ok(self.ledger.submit_blocking(command)?)
    }

    /// Carries out a command that forgets, until nothing of it is left; gives how much it concerned.
    /// Durable when this returns.
    pub(super) fn forget(&self, command: &DirectoryCommand) -> Result<usize, AdminError> {
        let mut all = 0;
        loop {
            match self.submit(AgentCommand::Directory(command.clone()))? {
                AgentReply::Forgotten { rows, more } => {
                    all += rows;
                    if !more {
                        return Ok(all);
                    }
                }
                reply => return Err(AdminError::Unexpected(format!("{reply:?}"))),
            }
        }
    }
}

/// An identity that is only looked at: its store is read beside whoever writes it. None is made, none
/// is changed, and no writer waits.
pub(super) struct Glance {
    /// The public key.
    pub(super) me: PublicKey,
    file: FileReader,
}

impl Glance {
    /// Opens the store of an identity. `place` is as for [`Operator::open`].
    pub(super) fn open(who: &Who, place: Option<&Path>) -> Result<Glance, AdminError> {
        let me = who.identity()?.public();
        let path = own_store(who, place, &me)?;
        if !path.exists() {
            return Err(AdminError::NoStore { place: path });
        }
        let file = FileReader::open(&path).map_err(|e| match e {
            AdminError::Open(e @ OpenError::InUse { .. }) => AdminError::Held(e),
            e => e,
        })?;
        file.expect(StoreKind::Agent)?;
        file.current()?;
        note_source(file.origin());
        let glance = Glance { me, file };
        glance.note_edits()?;
        Ok(glance)
    }

    /// Reads from a consistent view.
    pub(super) fn read<T>(
        &self,
        f: impl FnOnce(&Snapshot) -> Result<T, ReadError>,
    ) -> Result<T, AdminError> {
        self.file.read(f)
    }

    /// Says when the file of peers holds what the log has not taken over yet.
    fn note_edits(&self) -> Result<(), AdminError> {
        let Some(row) = self.read(|s| Ok(query::peers_file(s)?))? else {
            return Ok(());
        };
        let known = match peers_file_digest(Path::new(&row.path)) {
            Ok(hash) => self.read(|s| Ok(query::file_version(s, &hash)?))? == FileVersion::Current,
            Err(_) => false,
        };
        if !known {
            note(&format!(
                "{} is not what the log has of it; a session looks at it within a second, and so does \
                 a command that changes something",
                row.path
            ));
        }
        Ok(())
    }
}

/// The store that a key says is its own.
fn own_store(who: &Who, place: Option<&Path>, me: &PublicKey) -> Result<PathBuf, AdminError> {
    let path = store_path(place, me)?;
    match identity_of(&path).filter(|owner| owner != me) {
        Some(owner) => {
            let key = who.key_path()?;
            Err(AdminError::NotItsKey { path, owner, key })
        }
        None => Ok(path),
    }
}

/// The store of an identity: what was named, or the usual place; inside a folder of stores its own.
pub(super) fn store_path(place: Option<&Path>, me: &PublicKey) -> Result<PathBuf, AdminError> {
    match place {
        Some(place) if place.is_dir() => {
            let inside = [
                place.join("agent").join(me.to_string()).join("agent.redb"),
                place.join(me.to_string()).join("agent.redb"),
                place.join("agent.redb"),
            ];
            let found = inside.iter().find(|path| path.exists());
            found.cloned().ok_or_else(|| AdminError::NoStore {
                place: place.to_owned(),
            })
        }
        Some(place) => Ok(place.to_owned()),
        None => Ok(paths::agent_db(&paths::process_env, me)?),
    }
}

impl From<PeersFileError> for AdminError {
    fn from(e: PeersFileError) -> AdminError {
        match e {
            PeersFileError::Ledger(e) => AdminError::Ledger(e),
            e => AdminError::Peers(e),
        }
    }
}
