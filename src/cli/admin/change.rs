//! Changes of an identity's store, beside whatever sessions run: what is decided here is a record
//! like theirs.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::AdminError;
use super::locate::Target;
use super::reader::owner;
use crate::domain::decide::agent::{Agent, AgentCommand, AgentReply, DirectoryCommand};
use crate::event::kind::StoreKind;
use crate::store::{Location, OpenOptions, Store};
use crate::types::time::{Clock, UnixMillis, millis};

/// The machine's clock, for the times of records.
struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> UnixMillis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        UnixMillis(since.map_or(0, millis))
    }
}

/// The one identity that is meant.
pub(super) fn only_identity(targets: &[Target]) -> Result<&Target, AdminError> {
    let mut identities = vec![];
    for target in targets {
        if target.open()?.origin().kind == StoreKind::Agent {
            identities.push(target);
        }
    }
    match identities.as_slice() {
        [one] => Ok(one),
        [] => Err(AdminError::NoneOfKind {
            wanted: owner(StoreKind::Agent),
        }),
        several => Err(AdminError::Identities {
            stores: several.len(),
        }),
    }
}

/// Opens an identity's store for writing.
pub(super) fn open(target: &Target) -> Result<Store<Agent>, AdminError> {
    let Target::File(path) = target else {
        return Err(AdminError::NoneOfKind {
            wanted: owner(StoreKind::Agent),
        });
    };
    let options = OpenOptions::shared(Location::File(path.clone()));
    Ok(Store::open(options, Arc::new(WallClock), None)?)
}

/// Carries out a command until nothing of it is left; gives how much it concerned.
pub(super) fn forget(
    store: &Store<Agent>,
    command: &DirectoryCommand,
) -> Result<usize, AdminError> {
    let mut rows = 0;
    loop {
        let receipt = store.submit(AgentCommand::Directory(command.clone()))?;
        match receipt.wait()?.reply {
            AgentReply::Forgotten { rows: n, more } => {
                rows += n;
                if !more {
                    return Ok(rows);
                }
            }
            _ => return Ok(rows),
        }
    }
}
