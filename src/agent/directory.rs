//! Where a message to somebody goes.
//!
//! A destination is a key and one of its sessions. Who is meant is never guessed: a name or key
//! names the identity, a session id alone names both only when exactly one admitted identity has
//! it. What relays say about presence is a hint; that an announcement is signed is checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::core::{ActError, Core};
use crate::domain::query::agent::{self as query, Peer};
use crate::types::id::{PublicKey, SessionId};
use crate::wire::announce::Announcement;

/// Longest time that a call waits for rosters. The slowest relay does not decide.
const ROSTER_WAIT: Duration = Duration::from_secs(1);
/// The same where the destination is known and presence is only a word in the answer.
const PRESENCE_WAIT: Duration = Duration::from_millis(200);
/// Age of an announcement below which its session counts as live, in milliseconds.
const LIVE_MS: u64 = 90_000;

/// Who an identity is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// An admitted peer, by its local name.
    Peer(String),
    /// This very identity.
    Own,
}

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The recipient.
    pub key: PublicKey,
    /// Its session.
    pub session: SessionId,
    /// Who that is.
    pub who: Who,
    /// What is known of its presence.
    pub presence: Presence,
}

/// What relays say about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Heard within the last minute and a half.
    Live,
    /// Heard before, this many milliseconds ago.
    Away {
        /// Age of its last announcement.
        age_ms: u64,
    },
    /// No relay shows it. Mail waits for it all the same.
    Gone,
    /// No relay could be asked.
    Unknown,
}

/// A session on a roster, its announcement verified, its key ours or admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    key: PublicKey,
    session: SessionId,
    age_ms: u64,
}

/// Nobody, or too many.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The caller has to say something else.
    #[error("{0}")]
    Ask(String),
    /// The store did not answer.
    #[error(transparent)]
    Act(#[from] ActError),
}

fn ask<T>(text: impl Into<String>) -> Result<T, ResolveError> {
    Err(ResolveError::Ask(text.into()))
}

/// Finds the destination that `to` and `session` name.
///
/// # Errors
///
/// [`ResolveError`].
pub async fn resolve(
    core: &Core,
    to: &str,
    session: Option<&str>,
) -> Result<Destination, ResolveError> {
    let to = to.trim();
    if to.is_empty() {
        return ask("`to` is empty: name a peer, a key or a full session id");
    }
    let peers = core
        .ledger
        .read(|s| Ok(query::peers(s)?))
        .await
        .map_err(ActError::from)?;
    let identity = identity(core, &peers, to);
    let session = session.map(str::trim).filter(|s| !s.is_empty());
    match (identity, session) {
        (Some((key, who)), Some(session)) => {
            let Ok(session) = SessionId::parse(session) else {
                return ask("`session` is not a session id");
            };
            if key == core.me && session == core.session {
                return ask("that is this very session");
            }
            let presence = presence(core, &peers, &key, &session).await;
            Ok(Destination {
                key,
                session,
                who,
                presence,
            })
        }
        (None, Some(_)) => ask(format!(
            "`to` names no peer: {to:?} is not in the list of peers, and not `self`"
        )),
        (Some((key, who)), None) => by_identity(core, &peers, key, who).await,
        (None, None) => by_session(core, &peers, to).await,
    }
}

fn identity(core: &Core, peers: &[Peer], to: &str) -> Option<(PublicKey, Who)> {
    // The word is ours, also when a hand gave it to a peer as a name.
    if to.eq_ignore_ascii_case("self") {
        return Some((core.me, Who::Own));
    }
    if let Some(peer) = peers.iter().find(|p| p.petname == to) {
        return Some((peer.key, Who::Peer(peer.petname.clone())));
    }
    let key: PublicKey = to.parse().ok()?;
    who(core, peers, key).map(|who| (key, who))
}

fn who(core: &Core, peers: &[Peer], key: PublicKey) -> Option<Who> {
    if let Some(peer) = peers.iter().find(|p| p.key == key) {
        return Some(Who::Peer(peer.petname.clone()));
    }
    (key == core.me).then_some(Who::Own)
}

/// The one session of an identity that can be meant.
async fn by_identity(
    core: &Core,
    peers: &[Peer],
    key: PublicKey,
    who: Who,
) -> Result<Destination, ResolveError> {
    let seen = roster(core, peers, ROSTER_WAIT).await;
    let unknown = seen.is_none();
    let seen: Vec<Seen> = seen
        .unwrap_or_default()
        .into_iter()
        .filter(|s| s.key == key && !(s.key == core.me && s.session == core.session))
        .collect();
    let own = core.session.clone();
    let last = core
        .ledger
        .read(move |s| Ok(query::route(s, &own, &key)?))
        .await
        .map_err(ActError::from)?
        .map(|row| row.session);
    let at = |session: SessionId, presence| Destination {
        key,
        session,
        who: who.clone(),
        presence,
    };
    // Who wrote last gets the answer, as long as it is not gone.
    if let Some(last) = &last
        && let Some(there) = seen.iter().find(|s| s.session == *last)
    {
        return Ok(at(last.clone(), there.presence()));
    }
    let live: Vec<&Seen> = seen.iter().filter(|s| s.age_ms < LIVE_MS).collect();
    let candidates = if live.is_empty() {
        seen.iter().collect()
    } else {
        live
    };
    match candidates.as_slice() {
        [one] => Ok(at(one.session.clone(), one.presence())),
        [] => match last {
            Some(last) if unknown => Ok(at(last, Presence::Unknown)),
            Some(last) => Ok(at(last, Presence::Gone)),
            None => ask("it has no session that a relay knows of; name its `session`"),
        },
        several => {
            let ids: Vec<String> = several
                .iter()
                .map(|s| format!("{:?}", s.session.as_str()))
                .collect();
            ask(format!(
                "it has several sessions; name one as `session`: {}",
                ids.join(", ")
            ))
        }
    }
}

/// The one admitted identity that has a session with this id.
async fn by_session(core: &Core, peers: &[Peer], to: &str) -> Result<Destination, ResolveError> {
    let nobody =
        || format!("{to:?} is no peer, and no session that is known; name peer and session");
    let Ok(session) = SessionId::parse(to) else {
        return ask(nobody());
    };
    if session == core.session {
        return ask("that is this very session");
    }
    let mut owners: BTreeMap<PublicKey, Presence> = BTreeMap::new();
    let seen = roster(core, peers, ROSTER_WAIT).await;
    let absent = if seen.is_some() {
        Presence::Gone
    } else {
        Presence::Unknown
    };
    let (own, keys) = (core.session.clone(), known_keys(core, peers));
    let routes = core
        .ledger
        .read(move |s| {
            let mut routes = vec![];
            for key in keys {
                routes.extend(query::route(s, &own, &key)?.map(|row| (key, row.session)));
            }
            Ok(routes)
        })
        .await
        .map_err(ActError::from)?;
    owners.extend(
        routes
            .into_iter()
            .filter(|(_, s)| *s == session)
            .map(|(key, _)| (key, absent)),
    );
    for there in seen.unwrap_or_default() {
        if there.session == session {
            owners.insert(there.key, there.presence());
        }
    }
    let mut owners = owners.into_iter();
    match (owners.next(), owners.next()) {
        (Some((key, presence)), None) => match who(core, peers, key) {
            Some(who) => Ok(Destination {
                key,
                session,
                who,
                presence,
            }),
            None => ask(nobody()),
        },
        (Some(_), Some(_)) => {
            ask("several peers have a session with this id; name peer and session")
        }
        _ => ask(nobody()),
    }
}

fn known_keys(core: &Core, peers: &[Peer]) -> Vec<PublicKey> {
    let mut keys: Vec<PublicKey> = peers.iter().map(|p| p.key).collect();
    if !keys.contains(&core.me) {
        keys.push(core.me);
    }
    keys
}

async fn presence(core: &Core, peers: &[Peer], key: &PublicKey, session: &SessionId) -> Presence {
    match roster(core, peers, PRESENCE_WAIT).await {
        None => Presence::Unknown,
        Some(seen) => seen
            .iter()
            .find(|s| s.key == *key && s.session == *session)
            .map_or(Presence::Gone, Seen::presence),
    }
}

impl Seen {
    const fn presence(&self) -> Presence {
        if self.age_ms < LIVE_MS {
            Presence::Live
        } else {
            Presence::Away {
                age_ms: self.age_ms,
            }
        }
    }
}

/// The sessions of ourselves and of peers that relays show; `None` when no relay answered.
async fn roster(core: &Core, peers: &[Peer], wait: Duration) -> Option<Vec<Seen>> {
    let mut calls = JoinSet::new();
    for relay in &core.relays {
        let relay = Arc::clone(relay);
        calls.spawn(async move { relay.client.roster().await });
    }
    let keys = known_keys(core, peers);
    let mut seen: Option<BTreeMap<(PublicKey, SessionId), u64>> = None;
    let deadline = tokio::time::Instant::now() + wait;
    while let Ok(Some(call)) = tokio::time::timeout_at(deadline, calls.join_next()).await {
        let Ok(Ok(reply)) = call else { continue };
        let seen = seen.get_or_insert_default();
        for entry in reply.roster {
            let Ok(announcement) = Announcement::from_json(entry.get()) else {
                continue;
            };
            let Ok(session) = SessionId::parse(&announcement.session.session_id) else {
                continue;
            };
            // Checked before the signature, which costs more.
            if !keys.contains(&announcement.pubkey) || announcement.verify().is_err() {
                continue;
            }
            let age = announcement.age_ms.unwrap_or(0);
            let age_ms = seen.entry((announcement.pubkey, session)).or_insert(age);
            *age_ms = age.min(*age_ms);
        }
    }
    seen.map(|seen| {
        seen.into_iter()
            .map(|((key, session), age_ms)| Seen {
                key,
                session,
                age_ms,
            })
            .collect()
    })
}
