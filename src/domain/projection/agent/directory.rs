//! Rows of the session directory.
//!
//! One row a session id, with everybody who was seen announcing it under a verified signature. The
//! first of them owns the id; the others are remembered, because a conflict must not be forgotten,
//! and change nothing for the owner. A row goes as a whole, so that no later claimant inherits an id
//! by waiting.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, of_sender};
use crate::domain::machine::destination::Owner;
use crate::domain::machine::presence::Heard;
use crate::domain::tables::{TableError, TableId, Tables, get_row, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::room::{bond_event, mailbox_event, pairing_event, policy_event};
use crate::event::agent::{AgentEvent, OutboxQueued, SessionClosed, SessionsSeen};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{MAX_CLAIMANTS, MAX_DIRECTORY_PER_KEY, MAX_DIRECTORY_SESSIONS};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// How often a use of a session is written down, in milliseconds.
const USE_REFRESH_MS: u64 = 86_400_000;

/// Value of table `directory`; the key is the session id's bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectoryRow {
    /// Who was seen announcing it, in order of the first sighting; 1 to 8.
    pub claims: Vec<ClaimRow>,
    /// When it was seen or written to last, roughly.
    pub used_at: UnixMillis,
}

/// A key that announced a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// The key.
    pub key: PublicKey,
    /// Position of the record of its first sighting.
    pub first: Seq,
    /// Its newest announcement, as far as it was recorded.
    pub heard: Heard,
    /// Up to which signed time it is closed, once it said good-bye.
    pub closed: Option<UnixMillis>,
}

impl DirectoryRow {
    /// Who owns the session: the first key that was seen announcing it. Two that were seen in one
    /// look are both not first.
    #[must_use]
    pub fn owner(&self) -> Owner {
        let mut claims = self.claims.iter();
        match (claims.next(), claims.next()) {
            (None, _) => Owner::Nobody,
            (Some(one), Some(two)) if one.first == two.first => Owner::Contested,
            (Some(one), _) => Owner::One(one.key),
        }
    }

    /// What is known of one key's claim.
    #[must_use]
    pub fn claim(&self, key: &PublicKey) -> Option<&ClaimRow> {
        self.claims.iter().find(|claim| claim.key == *key)
    }
}

/// Whose sessions there are.
pub struct Directory;

impl Projection<AgentEvent> for Directory {
    fn name(&self) -> &'static str {
        "directory"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Directory]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::SessionsSeen(e) => see(tables, rec.seq, rec.at, e),
            AgentEvent::SessionClosed(e) => close(tables, e),
            AgentEvent::OutboxQueued(e) => used(tables, rec.at, e),
            AgentEvent::SessionsForgotten(e) => {
                for session in &e.sessions {
                    tables.delete(TableId::Directory, session.as_str().as_bytes())?;
                }
                Ok(())
            }
            AgentEvent::PeerForgotten(e) if e.last => forget(tables, &e.key),
            policy_event!()
            | mailbox_event!()
            | pairing_event!()
            | AgentEvent::OutboxAttempted(_)
            | AgentEvent::OutboxAccepted(_)
            | AgentEvent::OutboxRefused(_)
            | AgentEvent::OutboxResigned(_)
            | AgentEvent::OutboxRequeued(_)
            | AgentEvent::OutboxDropped(_)
            | AgentEvent::OutboxRetried(_)
            | AgentEvent::HistoryForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | AgentEvent::PeerForgotten(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn read(tables: &dyn Tables, session: &SessionId) -> Result<Option<DirectoryRow>, TableError> {
    get_row(tables, TableId::Directory, session.as_str().as_bytes())
}

fn write(
    tables: &mut dyn Tables,
    session: &SessionId,
    row: &DirectoryRow,
) -> Result<(), TableError> {
    put_row(tables, TableId::Directory, session.as_str().as_bytes(), row)
}

fn see(
    tables: &mut dyn Tables,
    seq: Seq,
    at: UnixMillis,
    e: &SessionsSeen,
) -> Result<(), ApplyError> {
    let mut grown = false;
    for sighting in &e.sightings {
        let known = read(tables, &sighting.session)?;
        grown |= known.is_none();
        let mut row = known.unwrap_or_default();
        let heard = Heard {
            ts: sighting.ts,
            at: sighting.heard,
        };
        let room = row.claims.len() < MAX_CLAIMANTS;
        match row.claims.iter_mut().find(|c| c.key == sighting.key) {
            Some(claim) if claim.heard.ts >= heard.ts => continue,
            Some(claim) => claim.heard = heard,
            None if room => row.claims.push(ClaimRow {
                key: sighting.key,
                first: seq,
                heard,
                closed: None,
            }),
            None => continue,
        }
        // Who claims somebody else's id does not keep the row alive.
        if row.claims.first().is_some_and(|c| c.key == sighting.key) {
            row.used_at = row.used_at.max(at);
        }
        write(tables, &sighting.session, &row)?;
    }
    if grown { evict(tables) } else { Ok(()) }
}

fn close(tables: &mut dyn Tables, e: &SessionClosed) -> Result<(), ApplyError> {
    let Some(mut row) = read(tables, &e.session)? else {
        return Ok(());
    };
    let claim = row.claims.iter_mut().find(|c| c.key == e.key);
    if let Some(claim) = claim.filter(|c| c.closed.is_none_or(|closed| closed < e.ts)) {
        claim.closed = Some(e.ts);
        write(tables, &e.session, &row)?;
    }
    Ok(())
}

/// A session that is written to stays in the directory.
fn used(tables: &mut dyn Tables, at: UnixMillis, e: &OutboxQueued) -> Result<(), ApplyError> {
    let Some(mut row) = read(tables, &e.to_session)? else {
        return Ok(());
    };
    if row.claim(&e.to).is_some() && at.since(row.used_at) >= USE_REFRESH_MS {
        row.used_at = at;
        write(tables, &e.to_session, &row)?;
    }
    Ok(())
}

fn forget(tables: &mut dyn Tables, key: &PublicKey) -> Result<(), ApplyError> {
    let mut changed = vec![];
    scan_rows::<DirectoryRow>(tables, TableId::Directory, &[], |session, mut row| {
        if row.claim(key).is_some() {
            row.claims.retain(|claim| claim.key != *key);
            changed.push((session.to_vec(), row));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for (session, row) in changed {
        if row.claims.is_empty() {
            tables.delete(TableId::Directory, &session)?;
        } else {
            put_row(tables, TableId::Directory, &session, &row)?;
        }
    }
    Ok(())
}

/// Keeps the bounds: of each owner and of all, the session that was not used for longest goes.
fn evict(tables: &mut dyn Tables) -> Result<(), ApplyError> {
    let mut of_owner: BTreeMap<Option<PublicKey>, Vec<(UnixMillis, Vec<u8>)>> = BTreeMap::new();
    let mut rows = 0usize;
    scan_rows::<DirectoryRow>(tables, TableId::Directory, &[], |session, row| {
        rows += 1;
        let owner = row.claims.first().map(|claim| claim.key);
        let place = (row.used_at, session.to_vec());
        of_owner.entry(owner).or_default().push(place);
        Ok(ControlFlow::Continue(()))
    })?;
    let mut gone = vec![];
    let mut rest = vec![];
    for mut places in of_owner.into_values() {
        places.sort_unstable();
        let over = places.len().saturating_sub(MAX_DIRECTORY_PER_KEY);
        rest.extend(places.split_off(over));
        gone.extend(places);
    }
    rest.sort_unstable();
    let over = (rows - gone.len()).saturating_sub(MAX_DIRECTORY_SESSIONS);
    gone.extend(rest.into_iter().take(over));
    for (_, session) in gone {
        tables.delete(TableId::Directory, &session)?;
    }
    Ok(())
}

/// Deletes the rows of a table whose key names a key right behind the session.
pub(super) fn forget_keyed(
    tables: &mut dyn Tables,
    table: TableId,
    key: &PublicKey,
) -> Result<(), ApplyError> {
    let mut gone = vec![];
    tables.scan(
        table,
        std::ops::Bound::Unbounded,
        std::ops::Bound::Unbounded,
        &mut |row_key, _| {
            if of_sender(row_key, key) {
                gone.push(row_key.to_vec());
            }
            ControlFlow::Continue(())
        },
    )?;
    for row_key in gone {
        tables.delete(table, &row_key)?;
    }
    Ok(())
}
