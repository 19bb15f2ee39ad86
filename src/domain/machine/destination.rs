//! Which session a message goes to.
//!
//! A destination is a key and one of its sessions, and it is never guessed. A name or a key names an
//! identity; of its sessions the one that wrote last gets the answer, else the only one that can be
//! meant. A session id alone names both, if it has an owner: the first key that was seen announcing
//! it, as the directory remembers. Whoever claims the same id later changes nothing for others; at
//! most its own claim is worthless.

use std::collections::{BTreeMap, BTreeSet};

use super::presence::{Presence, age_text};
use crate::types::id::{PublicKey, SessionId};
use crate::types::text::visible_id;

/// Most sessions that an answer lists.
const LISTED: usize = 12;

/// Who an identity is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// An admitted peer, by its local name.
    Peer(String),
    /// This very identity.
    Own,
}

/// A session of ours or of a peer, as relays show it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its identity.
    pub key: PublicKey,
    /// Its id.
    pub session: SessionId,
    /// Whether it runs.
    pub presence: Presence,
}

/// A session that was seen before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Its owner.
    pub key: PublicKey,
    /// Its id.
    pub session: SessionId,
    /// Milliseconds since it was heard.
    pub age_ms: u64,
    /// Whether it said good-bye.
    pub closed: bool,
}

/// Who owns a session id, as far as is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody was seen announcing it.
    Nobody,
    /// The first key that was. Others may claim it too, in vain.
    One(PublicKey),
    /// Several keys, none of them first.
    Contested,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Name, key, `self` or session id.
    pub to: &'a str,
    /// A session of the named identity.
    pub session: Option<&'a str>,
}

/// What is known when it is asked.
pub struct World<'a> {
    /// Our own key.
    pub me: PublicKey,
    /// Our own session.
    pub own: &'a SessionId,
    /// Admitted peers: local name and key.
    pub peers: &'a [(String, PublicKey)],
    /// What relays show of us and of peers; `None` when none could be asked.
    pub seen: Option<&'a [Seen]>,
    /// Owners of session ids, from the directory alone.
    pub owners: &'a BTreeMap<SessionId, Owner>,
    /// Sessions that were seen before, from the directory, in any order.
    pub remembered: &'a [Remembered],
    /// Sessions of this identity that the log knows of.
    pub siblings: &'a BTreeSet<SessionId>,
    /// Where answers to a key go: the session that wrote last, in this task if it is one.
    pub last: &'a BTreeMap<PublicKey, SessionId>,
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

/// Nobody, or too many.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unresolved {
    /// Nothing was named.
    #[error("`to` is empty: name a peer, a key or a full session id")]
    Empty,
    /// A session is named, but no identity.
    #[error(
        "`to` names no peer: {to:?} is not in the list of peers, and not `self`; a full session \
         id goes into `to` alone"
    )]
    NotAPeer {
        /// What was named.
        to: String,
    },
    /// No session id at all.
    #[error("`session` is not a session id")]
    NotASession,
    /// Oneself.
    #[error("that is this very session")]
    ThisSession,
    /// The beginning of several ids.
    #[error("several of its sessions begin like that; name one in full: {}", list(.sessions))]
    Prefix {
        /// They.
        sessions: Vec<SessionId>,
    },
    /// A name of one and a session of another.
    #[error(
        "{to:?} is the local name of a peer and the session id of another one; name the peer by \
         its key, or name peer and session"
    )]
    NameAndSession {
        /// What was named.
        to: String,
    },
    /// An identity has more than one session that can be meant.
    #[error("it has several {state} sessions; name one as `session`: {}", list(.sessions))]
    Several {
        /// They.
        sessions: Vec<SessionId>,
        /// `live` or `away`.
        state: &'static str,
    },
    /// An identity has no session that is known.
    #[error(
        "it is offline: no relay shows a session of it that runs; name its `session` to write \
         anyway{}", last_known(.known)
    )]
    Offline {
        /// Those that are remembered, the one heard last first.
        known: Vec<Remembered>,
    },
    /// No relay answers, and nobody wrote before.
    #[error(
        "no relay answers, and no session of it wrote before; name its `session`{}",
        last_known(.known)
    )]
    NoRelay {
        /// Those that are remembered, the one heard last first.
        known: Vec<Remembered>,
    },
    /// This identity has no other session.
    #[error("there is no other live session of this identity")]
    NoSibling,
    /// Neither a peer nor a session.
    #[error(
        "{to:?} is no peer and no session of one that is known; run discover, or name peer and session; \
         who is not admitted is asked with request_pair first"
    )]
    Nobody {
        /// What was named.
        to: String,
    },
    /// Several keys announced the id at once.
    #[error(
        "several peers claim the session id {}; name peer and session, or let the \
         operator run interlink-admin sessions clear",
        quoted(.session)
    )]
    Contested {
        /// The id.
        session: SessionId,
    },
    /// The owner of the session was revoked.
    #[error("session {} belongs to key {key}, which is not an admitted peer", quoted(.session))]
    Revoked {
        /// The id.
        session: SessionId,
        /// Its owner.
        key: PublicKey,
    },
}

/// A session id between quotes.
fn quoted(session: &SessionId) -> String {
    format!("\"{}\"", visible_id(session.as_str()))
}

fn list(sessions: &[SessionId]) -> String {
    let mut ids: Vec<String> = sessions.iter().take(LISTED).map(quoted).collect();
    if sessions.len() > LISTED {
        ids.push(format!("and {} more", sessions.len() - LISTED));
    }
    ids.join(", ")
}

/// What can be named instead, with what is known of it.
fn last_known(known: &[Remembered]) -> String {
    if known.is_empty() {
        return String::new();
    }
    let mut ids: Vec<String> = known
        .iter()
        .take(LISTED)
        .map(|s| {
            let closed = if s.closed { ", said good-bye" } else { "" };
            let age = age_text(s.age_ms);
            format!("{} (heard {age} ago{closed})", quoted(&s.session))
        })
        .collect();
    if known.len() > LISTED {
        ids.push(format!("and {} more", known.len() - LISTED));
    }
    format!("; known so far: {}", ids.join(", "))
}

impl World<'_> {
    /// Who a key is.
    #[must_use]
    pub fn who(&self, key: PublicKey) -> Option<Who> {
        match self.peers.iter().find(|(_, k)| *k == key) {
            Some((name, _)) => Some(Who::Peer(name.clone())),
            None => (key == self.me).then_some(Who::Own),
        }
    }

    /// The identity that a word names: `self`, a local name, a full key.
    fn identity(&self, to: &str) -> Option<(PublicKey, Who)> {
        // The word is ours, also when a hand gave it to a peer as a name.
        if to.eq_ignore_ascii_case("self") {
            return Some((self.me, Who::Own));
        }
        // A full key is that key, also when a hand gave it to another one as a name.
        if let Ok(key) = to.parse::<PublicKey>() {
            return self.who(key).map(|who| (key, who));
        }
        let (name, key) = self.peers.iter().find(|(name, _)| name == to)?;
        Some((*key, Who::Peer(name.clone())))
    }

    /// The owner of a session id: of ours the log is certain, then the directory, then what relays
    /// show now.
    #[must_use]
    pub fn owner(&self, session: &SessionId) -> Owner {
        if self.siblings.contains(session) || session == self.own {
            return Owner::One(self.me);
        }
        match self.owners.get(session) {
            None | Some(Owner::Nobody) => {}
            Some(known) => return known.clone(),
        }
        let mut keys = self
            .seen
            .unwrap_or_default()
            .iter()
            .filter(|s| s.session == *session)
            .map(|s| s.key);
        match (keys.next(), keys.next()) {
            (Some(key), None) => Owner::One(key),
            (Some(_), Some(_)) => Owner::Contested,
            _ => Owner::Nobody,
        }
    }

    fn presence(&self, key: &PublicKey, session: &SessionId) -> Presence {
        let Some(seen) = self.seen else {
            return Presence::Unknown;
        };
        seen.iter()
            .find(|s| s.key == *key && s.session == *session)
            .map_or(Presence::Gone, |s| s.presence)
    }

    fn sessions_of(&self, key: PublicKey) -> impl Iterator<Item = &Seen> {
        self.seen.unwrap_or_default().iter().filter(move |s| {
            s.key == key
                && !(s.key == self.me && s.session == *self.own)
                && matches!(s.presence, Presence::Live { .. } | Presence::Away { .. })
        })
    }

    /// What is remembered of an identity's sessions, the one heard last first.
    fn remembered_of(&self, key: PublicKey) -> Vec<Remembered> {
        let of_key = self.remembered.iter().filter(|s| s.key == key);
        let mut known: Vec<Remembered> = of_key.cloned().collect();
        known.sort_by(|a, b| (a.age_ms, &a.session).cmp(&(b.age_ms, &b.session)));
        known
    }

    fn at(&self, key: PublicKey, who: Who, session: SessionId) -> Destination {
        Destination {
            presence: self.presence(&key, &session),
            key,
            session,
            who,
        }
    }
}

/// Finds the destination that a wish names.
///
/// # Errors
///
/// [`Unresolved`] says what to name instead.
pub fn resolve(world: &World<'_>, wish: Wish<'_>) -> Result<Destination, Unresolved> {
    let to = wish.to.trim();
    if to.is_empty() {
        return Err(Unresolved::Empty);
    }
    let identity = world.identity(to);
    let session = wish.session.map(str::trim).filter(|s| !s.is_empty());
    match (identity, session) {
        (Some((key, who)), Some(session)) => named(world, key, who, session),
        (None, Some(_)) => Err(Unresolved::NotAPeer { to: to.to_owned() }),
        (identity, None) => match by_session(world, to, identity.as_ref())? {
            Some(there) => Ok(there),
            None => match identity {
                Some((key, who)) => by_identity(world, key, who),
                None => Err(Unresolved::Nobody { to: to.to_owned() }),
            },
        },
    }
}

/// A session that was named with its identity: an id that is known, else the beginning of exactly
/// one, else the id as it stands, because mail waits for a session that nobody shows.
fn named(
    world: &World<'_>,
    key: PublicKey,
    who: Who,
    text: &str,
) -> Result<Destination, Unresolved> {
    let Ok(session) = SessionId::parse(text) else {
        return Err(Unresolved::NotASession);
    };
    if key == world.me && session == *world.own {
        return Err(Unresolved::ThisSession);
    }
    let shown = |s: &SessionId| world.sessions_of(key).any(|seen| seen.session == *s);
    let remembered = world.owners.get(&session) == Some(&Owner::One(key))
        || (key == world.me && world.siblings.contains(&session));
    if shown(&session) || remembered {
        return Ok(world.at(key, who, session));
    }
    let begins = |s: &&SessionId| s.as_str().starts_with(text);
    let mut fitting: BTreeSet<&SessionId> = world
        .sessions_of(key)
        .map(|seen| &seen.session)
        .filter(begins)
        .collect();
    if fitting.is_empty() {
        fitting = world
            .owners
            .iter()
            .filter(|(_, owner)| **owner == Owner::One(key))
            .map(|(session, _)| session)
            .filter(begins)
            .collect();
    }
    let mut fitting = fitting.into_iter();
    match (fitting.next(), fitting.next()) {
        (Some(one), None) if key != world.me || one != world.own => {
            Ok(world.at(key, who, one.clone()))
        }
        (Some(one), Some(two)) => Err(Unresolved::Prefix {
            sessions: [one.clone(), two.clone()]
                .into_iter()
                .chain(fitting.cloned())
                .collect(),
        }),
        _ => Ok(world.at(key, who, session)),
    }
}

/// A session that was named alone. `None`: nobody owns it.
fn by_session(
    world: &World<'_>,
    to: &str,
    identity: Option<&(PublicKey, Who)>,
) -> Result<Option<Destination>, Unresolved> {
    let Ok(session) = SessionId::parse(to) else {
        return Ok(None);
    };
    // Nor is a full key: whoever announced it as a session would make its owner unreachable.
    if to.parse::<PublicKey>().is_ok() {
        return Ok(None);
    }
    // The word for this identity is no session id, whoever announces it.
    if identity.is_some_and(|(_, who)| *who == Who::Own) {
        return Ok(None);
    }
    if session == *world.own && identity.is_none() {
        return Err(Unresolved::ThisSession);
    }
    let key = match (world.owner(&session), identity) {
        (Owner::Nobody, _) => return Ok(None),
        // A name keeps its meaning while nobody can say whose session it would be, and where it
        // means the same identity.
        (Owner::Contested, Some(_)) => return Ok(None),
        (Owner::One(key), Some((named, _))) if key == *named => return Ok(None),
        (Owner::Contested, None) => return Err(Unresolved::Contested { session }),
        (Owner::One(key), identity) => {
            let admitted = world.who(key).is_some();
            match (admitted, identity) {
                (true, Some(_)) => {
                    return Err(Unresolved::NameAndSession { to: to.to_owned() });
                }
                (false, Some(_)) => return Ok(None),
                _ => key,
            }
        }
    };
    match world.who(key) {
        Some(who) => Ok(Some(world.at(key, who, session))),
        None => Err(Unresolved::Revoked { session, key }),
    }
}

/// The one session of an identity that can be meant.
fn by_identity(world: &World<'_>, key: PublicKey, who: Who) -> Result<Destination, Unresolved> {
    let last = world
        .last
        .get(&key)
        .filter(|last| key != world.me || *last != world.own);
    let sessions: Vec<&Seen> = world.sessions_of(key).collect();
    // Who wrote last gets the answer, as long as it is not gone.
    if let Some(last) = last
        && sessions.iter().any(|s| s.session == *last)
    {
        return Ok(world.at(key, who, last.clone()));
    }
    let live: Vec<&Seen> = sessions
        .iter()
        .copied()
        .filter(|s| matches!(s.presence, Presence::Live { .. }))
        .collect();
    let (state, candidates) = if live.is_empty() {
        ("away", sessions)
    } else {
        ("live", live)
    };
    match candidates.as_slice() {
        [one] => Ok(world.at(key, who, one.session.clone())),
        [] => match last {
            Some(last) => Ok(world.at(key, who, last.clone())),
            None if world.seen.is_none() => Err(Unresolved::NoRelay {
                known: world.remembered_of(key),
            }),
            None if key == world.me => Err(Unresolved::NoSibling),
            None => Err(Unresolved::Offline {
                known: world.remembered_of(key),
            }),
        },
        several => Err(Unresolved::Several {
            sessions: several.iter().map(|s| s.session.clone()).collect(),
            state,
        }),
    }
}

#[cfg(test)]
mod tests;
