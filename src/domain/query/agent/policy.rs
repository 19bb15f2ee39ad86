//! Who is admitted, which files are known, who holds which session.

use std::ops::ControlFlow;

use crate::domain::projection::agent::{
    HeldRow, PeerRow, PeersFileRow, PublishedRow, SessionRow, Standing, key,
};
use crate::domain::tables::{TableError, TableId, TableReader, get_row, scan_rows};
use crate::event::agent::Origin;
use crate::types::id::{PublicKey, SessionId};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A key in the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Local name.
    pub petname: String,
    /// The key.
    pub key: PublicKey,
    /// How it came in (or went).
    pub origin: Origin,
    /// Since when.
    pub since: UnixMillis,
    /// Position of the record that made it so.
    pub seq: Seq,
}

impl Peer {
    fn new(key: PublicKey, row: PeerRow) -> Peer {
        Peer {
            petname: row.petname,
            key,
            origin: row.origin,
            since: row.at,
            seq: row.seq,
        }
    }
}

fn with_standing(tables: &dyn TableReader, standing: Standing) -> Result<Vec<Peer>, TableError> {
    let mut peers = vec![];
    scan_rows::<PeerRow>(tables, TableId::Peers, &[], |key, row| {
        let key = key.try_into().map_err(|_| TableError::Key {
            table: TableId::Peers.name(),
        })?;
        if row.standing == standing {
            peers.push(Peer::new(PublicKey::from_bytes(key), row));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    peers.sort_by(|a, b| (&a.petname, a.key).cmp(&(&b.petname, b.key)));
    Ok(peers)
}

/// Admitted keys, by petname.
///
/// # Errors
///
/// [`TableError`].
pub fn peers(tables: &dyn TableReader) -> Result<Vec<Peer>, TableError> {
    with_standing(tables, Standing::Admitted)
}

/// Revoked keys that are remembered, by their last petname.
///
/// # Errors
///
/// [`TableError`].
pub fn revoked(tables: &dyn TableReader) -> Result<Vec<Peer>, TableError> {
    with_standing(tables, Standing::Revoked)
}

/// What the last hand edit of `peers.json` said in vain, by key: name and key. Keys that were admitted
/// since are not among them.
///
/// # Errors
///
/// [`TableError`].
pub fn held(tables: &dyn TableReader) -> Result<Vec<(String, PublicKey)>, TableError> {
    let table = TableId::PeersHeld;
    let mut held = vec![];
    scan_rows::<HeldRow>(tables, table, &[], |key, row| {
        let key = key.try_into().map_err(|_| TableError::Key {
            table: table.name(),
        })?;
        held.push((row.petname, PublicKey::from_bytes(key)));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(held)
}

/// The admitted key with this petname.
///
/// # Errors
///
/// [`TableError`].
pub fn peer_by_name(tables: &dyn TableReader, petname: &str) -> Result<Option<Peer>, TableError> {
    Ok(peers(tables)?.into_iter().find(|p| p.petname == petname))
}

/// The policy's entry for a key, if it is admitted.
///
/// # Errors
///
/// [`TableError`].
pub fn peer_by_key(tables: &dyn TableReader, key: &PublicKey) -> Result<Option<Peer>, TableError> {
    let row: Option<PeerRow> = get_row(tables, TableId::Peers, key.as_bytes())?;
    Ok(row
        .filter(|row| row.standing == Standing::Admitted)
        .map(|row| Peer::new(*key, row)))
}

/// What a version of `peers.json` is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVersion {
    /// The newest one that we wrote: in sync.
    Current,
    /// An older one, or a hand edit that was taken over and not rewritten yet: the file is behind.
    Behind,
    /// Somebody edited it.
    Unknown,
}

/// What the version of `peers.json` with this hash is to us.
///
/// # Errors
///
/// [`TableError`].
pub fn file_version(
    tables: &dyn TableReader,
    sha256: &[u8; 32],
) -> Result<FileVersion, TableError> {
    if latest_published(tables)?.is_some_and(|latest| latest.sha256 == *sha256) {
        return Ok(FileVersion::Current);
    }
    let known = tables.get(TableId::PeersPublished, &key::published(sha256))?;
    Ok(match known {
        Some(_) => FileVersion::Behind,
        None => FileVersion::Unknown,
    })
}

/// The newest version of `peers.json` that we wrote.
///
/// # Errors
///
/// [`TableError`].
pub fn latest_published(tables: &dyn TableReader) -> Result<Option<PublishedRow>, TableError> {
    get_row(tables, TableId::PeersPublished, &key::PUBLISHED_LATEST)
}

/// Whether the policy changed after the newest version of `peers.json` that is known.
///
/// # Errors
///
/// [`TableError`].
pub fn is_file_behind(tables: &dyn TableReader) -> Result<bool, TableError> {
    let known = latest_published(tables)?.map_or(Seq::ZERO, |latest| latest.seq);
    let mut changed = peers(tables)?;
    changed.extend(revoked(tables)?);
    Ok(changed.iter().any(|peer| peer.seq > known))
}

/// Which `peers.json` is the identity's, once one is.
///
/// # Errors
///
/// [`TableError`].
pub fn peers_file(tables: &dyn TableReader) -> Result<Option<PeersFileRow>, TableError> {
    get_row(tables, TableId::PeersFile, &key::PEERS_FILE)
}

/// A session with its newest lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLease {
    /// The session.
    pub session: SessionId,
    /// Its newest lease.
    pub row: SessionRow,
}

/// The newest lease of a session.
///
/// # Errors
///
/// [`TableError`].
pub fn lease(
    tables: &dyn TableReader,
    session: &SessionId,
) -> Result<Option<SessionRow>, TableError> {
    get_row(tables, TableId::Sessions, session.as_str().as_bytes())
}

/// Every session that was ever held, by id.
///
/// # Errors
///
/// [`TableError`].
pub fn leases(tables: &dyn TableReader) -> Result<Vec<SessionLease>, TableError> {
    let mut leases = vec![];
    scan_rows::<SessionRow>(tables, TableId::Sessions, &[], |key, row| {
        let session = std::str::from_utf8(key)
            .ok()
            .and_then(|text| SessionId::parse(text).ok())
            .ok_or(TableError::Key {
                table: TableId::Sessions.name(),
            })?;
        leases.push(SessionLease { session, row });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(leases)
}
