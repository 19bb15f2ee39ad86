//! Where a message to somebody goes: what is known, gathered for
//! [`crate::domain::machine::destination`], which decides.
//!
//! Relays are asked only as long as their word changes the answer: where the session is named,
//! presence is but a word in the reply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::core::{ActError, Core};
use super::roster::{CHOOSE_WAIT, PRESENCE_WAIT, RelayTrouble, Roster, Whom, fetch};
use crate::domain::machine::destination::{
    self, Destination, Remembered, Seen, Unresolved, Wish, World,
};
use crate::domain::query::agent as query;
use crate::domain::tables::TableError;
use crate::store::Snapshot;
use crate::types::id::{PublicKey, SessionId};
use crate::types::time::{Clock as _, UnixMillis};

pub use crate::domain::machine::destination::Who;
pub use crate::domain::machine::presence::Presence;

/// What a caller wants to reach.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// Name, key, `self` or session id.
    pub to: &'a str,
    /// A session of the named identity.
    pub session: Option<&'a str>,
    /// The task that it is about: answers in a task go where that task is.
    pub task_id: Option<&'a str>,
}

/// Nobody, or too many.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The caller has to say something else.
    #[error("{reason}{}", silent(.failed))]
    Ask {
        /// What.
        reason: Unresolved,
        /// Relays that did not answer: what they show is not known.
        failed: Vec<RelayTrouble>,
    },
    /// The store did not answer.
    #[error(transparent)]
    Act(#[from] ActError),
}

fn silent(failed: &[RelayTrouble]) -> String {
    if failed.is_empty() {
        return String::new();
    }
    let urls: Vec<&str> = failed.iter().map(|f| f.url.as_str()).collect();
    format!(" (no roster from {})", urls.join(", "))
}

/// What the log knows of destinations.
struct Known {
    peers: Vec<(String, PublicKey)>,
    owners: BTreeMap<SessionId, destination::Owner>,
    remembered: Vec<Remembered>,
    siblings: BTreeSet<SessionId>,
    last: BTreeMap<PublicKey, SessionId>,
}

impl Known {
    /// Whether a session is named in full.
    fn has(&self, session: Option<&str>) -> bool {
        session
            .and_then(|text| SessionId::parse(text.trim()).ok())
            .is_some_and(|id| self.owners.contains_key(&id) || self.siblings.contains(&id))
    }
}

/// Finds the destination that an address names.
///
/// # Errors
///
/// [`ResolveError`].
pub async fn resolve(core: &Arc<Core>, address: Address<'_>) -> Result<Destination, ResolveError> {
    let (me, own) = (core.me, core.session.clone());
    let task_id = address.task_id.map(ToOwned::to_owned);
    let now = core.clock.now();
    let known = core
        .ledger
        .read(move |s| Ok(known(s, me, &own, task_id.as_deref(), now)?))
        .await
        .map_err(ActError::from)?;
    let wait = if known.has(address.session) {
        PRESENCE_WAIT
    } else {
        CHOOSE_WAIT
    };
    let roster = fetch(core, wait, Whom::Known).await?;
    let seen = roster.is_usable().then(|| shown(&roster));
    let world = World {
        me: core.me,
        own: &core.session,
        peers: &known.peers,
        seen: seen.as_deref(),
        owners: &known.owners,
        remembered: &known.remembered,
        siblings: &known.siblings,
        last: &known.last,
    };
    let wish = Wish {
        to: address.to,
        session: address.session,
    };
    destination::resolve(&world, wish).map_err(|reason| ResolveError::Ask {
        reason,
        failed: roster.failed,
    })
}

fn shown(roster: &Roster) -> Vec<Seen> {
    roster
        .sessions
        .iter()
        .filter_map(|s| {
            Some(Seen {
                key: s.key,
                session: s.session.clone()?,
                presence: s.presence,
            })
        })
        .collect()
}

fn known(
    s: &Snapshot,
    me: PublicKey,
    own: &SessionId,
    task_id: Option<&str>,
    now: UnixMillis,
) -> Result<Known, TableError> {
    let peers: Vec<(String, PublicKey)> = query::peers(s)?
        .into_iter()
        .map(|peer| (peer.petname, peer.key))
        .collect();
    let directory = query::directory(s)?;
    let mut last = BTreeMap::new();
    for key in peers.iter().map(|(_, key)| *key).chain([me]) {
        let route = query::route(s, own, &key)?.map(|row| row.session);
        // Within a task, answers go where that task is, unless that session has said good-bye.
        let of_task = match task_id {
            Some(id) => query::task(s, own, &key, id)?.and_then(|row| row.peer_session),
            None => None,
        };
        let of_task = of_task.filter(|session| !is_closed(&directory, session, &key));
        last.extend(of_task.or(route).map(|session| (key, session)));
    }
    let remembered = directory.iter().filter_map(|known| {
        let destination::Owner::One(key) = known.row.owner() else {
            return None;
        };
        Some(Remembered {
            key,
            session: known.session.clone(),
            age_ms: now.since(known.row.claim(&key)?.heard.at),
            closed: is_closed(&directory, &known.session, &key),
        })
    });
    Ok(Known {
        remembered: remembered.collect(),
        peers,
        owners: directory
            .into_iter()
            .map(|known| (known.session, known.row.owner()))
            .collect(),
        siblings: query::leases(s)?.into_iter().map(|l| l.session).collect(),
        last,
    })
}

fn is_closed(directory: &[query::KnownSession], session: &SessionId, key: &PublicKey) -> bool {
    let known = directory.iter().find(|known| known.session == *session);
    known
        .and_then(|known| known.row.claim(key))
        .is_some_and(|claim| claim.closed.is_some_and(|closed| closed >= claim.heard.ts))
}
