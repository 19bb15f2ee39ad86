//! Rows of the policy and of the leases.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, inconsistent, key};
use crate::domain::tables::{TableId, Tables, get_row, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::room::{
    bond_event, directory_event, mailbox_event, outbox_event, pairing_event,
};
use crate::event::agent::{AgentEvent, Origin};
use crate::types::limit::MAX_PEERS;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Whether a key may write to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It may.
    Admitted,
    /// It may not any more. The row stays as a tombstone, so that an old copy of `peers.json`
    /// does not bring the key back.
    Revoked,
}

/// Value of table `peers`; the key is the public key's 32 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerRow {
    /// Local name.
    pub petname: String,
    /// Whether it may write to us.
    pub standing: Standing,
    /// How the last change came in.
    pub origin: Origin,
    /// Position of the last change.
    pub seq: Seq,
    /// Time of the last change.
    pub at: UnixMillis,
}

/// Value of table `peers_published`; keys in [`key`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// SHA-256 of the file's bytes.
    pub sha256: [u8; 32],
    /// Position of the record that made the version known, the last time.
    pub seq: Seq,
    /// Its time.
    pub at: UnixMillis,
}

/// Admitted and revoked keys, and every version of `peers.json` that is known.
pub struct Peers;

impl Projection<AgentEvent> for Peers {
    fn name(&self) -> &'static str {
        "peers"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Peers, TableId::PeersPublished]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        let row = |petname: &str, standing, origin| PeerRow {
            petname: petname.to_owned(),
            standing,
            origin,
            seq: rec.seq,
            at: rec.at,
        };
        match &rec.event {
            AgentEvent::PeerAdded(e) => {
                let key = e.key.as_bytes();
                let old: Option<PeerRow> = get_row(tables, TableId::Peers, key)?;
                if old.is_some_and(|old| old.standing == Standing::Admitted) {
                    return inconsistent("peer is admitted already");
                }
                let row = row(&e.petname, Standing::Admitted, e.origin);
                put_row(tables, TableId::Peers, key, &row)?;
            }
            AgentEvent::PeerRemoved(e) => {
                let key = e.key.as_bytes();
                let old: Option<PeerRow> = get_row(tables, TableId::Peers, key)?;
                if old.is_none_or(|old| old.standing != Standing::Admitted) {
                    return inconsistent("peer is not admitted");
                }
                let row = row(&e.petname, Standing::Revoked, e.origin);
                put_row(tables, TableId::Peers, key, &row)?;
                bury(tables)?;
            }
            AgentEvent::PeersPublished(e) => {
                let row = PublishedRow {
                    sha256: e.sha256,
                    seq: rec.seq,
                    at: rec.at,
                };
                let table = TableId::PeersPublished;
                put_row(tables, table, &key::published(&e.sha256), &row)?;
                if !e.imported {
                    put_row(tables, table, &key::PUBLISHED_LATEST, &row)?;
                }
            }
            outbox_event!()
            | mailbox_event!()
            | directory_event!()
            | pairing_event!()
            | AgentEvent::PeersFileAdopted(_)
            | AgentEvent::PeersHeld(_)
            | AgentEvent::LeaseTaken(_)
            | AgentEvent::LeaseReleased(_)
            | bond_event!()
            | AgentEvent::HostChanged(_)
            | AgentEvent::Imported(_) => {}
        }
        Ok(())
    }
}

/// Forgets the oldest tombstone past the bound.
fn bury(tables: &mut dyn Tables) -> Result<(), ApplyError> {
    let mut revoked = 0;
    let mut oldest: Option<(Seq, Vec<u8>)> = None;
    scan_rows::<PeerRow>(tables, TableId::Peers, &[], |key, row| {
        if row.standing == Standing::Revoked {
            revoked += 1;
            if oldest.as_ref().is_none_or(|(seq, _)| row.seq < *seq) {
                oldest = Some((row.seq, key.to_vec()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let (true, Some((_, key))) = (revoked > MAX_PEERS, oldest) {
        tables.delete(TableId::Peers, &key)?;
    }
    Ok(())
}

/// Value of table `peers_file`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersFileRow {
    /// The path, as [`PeersFileAdopted`](crate::event::agent::PeersFileAdopted) has it.
    pub path: String,
    /// Since when.
    pub at: UnixMillis,
}

/// Which `peers.json` is the identity's.
pub struct PeersFile;

impl Projection<AgentEvent> for PeersFile {
    fn name(&self) -> &'static str {
        "peers_file"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::PeersFile]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::PeersFileAdopted(e) => {
                let row = PeersFileRow {
                    path: e.path.clone(),
                    at: rec.at,
                };
                put_row(tables, TableId::PeersFile, &key::PEERS_FILE, &row)?;
            }
            outbox_event!()
            | mailbox_event!()
            | directory_event!()
            | pairing_event!()
            | AgentEvent::PeerAdded(_)
            | AgentEvent::PeerRemoved(_)
            | AgentEvent::PeersPublished(_)
            | AgentEvent::PeersHeld(_)
            | AgentEvent::LeaseTaken(_)
            | AgentEvent::LeaseReleased(_)
            | bond_event!()
            | AgentEvent::HostChanged(_)
            | AgentEvent::Imported(_) => {}
        }
        Ok(())
    }
}

/// The process that polls for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// The kernel's start time of the process.
    pub process_start: u64,
    /// When it took the session over.
    pub since: UnixMillis,
}

/// Value of table `sessions`; the key is the session id's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Number of the newest lease. It outlives the holder, so that a stale lease never fits again.
    pub epoch: u64,
    /// Who holds it; `None` after it was given up.
    pub holder: Option<Holder>,
}

/// Who polls for a session.
pub struct Sessions;

impl Projection<AgentEvent> for Sessions {
    fn name(&self) -> &'static str {
        "sessions"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Sessions]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        let (session, row) = match &rec.event {
            AgentEvent::LeaseTaken(e) => {
                let holder = Holder {
                    pid: e.pid,
                    process_start: e.process_start,
                    since: rec.at,
                };
                let row = SessionRow {
                    epoch: e.epoch,
                    holder: Some(holder),
                };
                (&e.session, row)
            }
            AgentEvent::LeaseReleased(e) => {
                let row = SessionRow {
                    epoch: e.epoch,
                    holder: None,
                };
                (&e.session, row)
            }
            outbox_event!()
            | mailbox_event!()
            | directory_event!()
            | pairing_event!()
            | AgentEvent::PeerAdded(_)
            | AgentEvent::PeerRemoved(_)
            | AgentEvent::PeersPublished(_)
            | AgentEvent::PeersFileAdopted(_)
            | AgentEvent::PeersHeld(_)
            | bond_event!()
            | AgentEvent::HostChanged(_)
            | AgentEvent::Imported(_) => return Ok(()),
        };
        let key = session.as_str().as_bytes();
        let old: Option<SessionRow> = get_row(tables, TableId::Sessions, key)?;
        let epoch = old.map_or(0, |old| old.epoch);
        let fits = match row.holder {
            Some(_) => row.epoch > epoch,
            None => row.epoch == epoch,
        };
        if !fits {
            return inconsistent("lease epoch does not follow the session's last one");
        }
        put_row(tables, TableId::Sessions, key, &row)?;
        Ok(())
    }
}
