//! What a process remembers of announcements, and what it makes of rosters with it.
//!
//! Pure but for the memory itself: the answers of relays and the time come in as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::{RosterSession, Whom};
use crate::crypto::hash::sha256;
use crate::domain::machine::presence::{Heard, Presence, hear, is_news, outdated, presence};
use crate::domain::query::agent as query;
use crate::event::agent::Sighting;
use crate::store::{ReadError, Snapshot};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{LIVE_MS, MAX_ROSTER_ENTRIES, MAX_SIGHTINGS_PER_RECORD};
use crate::types::time::UnixMillis;
use crate::wire::announce::Announcement;

/// How long a hint that was not found is not looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Sessions that a process remembers, and signatures that it need not check again.
const MEMORY: usize = 2 * MAX_ROSTER_ENTRIES;

/// What a process remembers of announcements that it has seen.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    heard: BTreeMap<(PublicKey, String), Seen>,
    /// Digests of announcements whose signature holds.
    verified: BTreeSet<[u8; 32]>,
    /// Hints that were looked for, and when.
    looked: BTreeMap<(PublicKey, SessionId), Instant>,
}

/// What a process remembers of a session of a key.
#[derive(Clone, Copy, Debug)]
struct Seen {
    heard: Heard,
    /// Whether it was on no relay in a later look, when every relay answered: it left, and only a
    /// newer announcement brings it back.
    left: bool,
}

/// What the log remembers of a session of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) heard: Heard,
    pub(super) closed: Option<UnixMillis>,
}

pub(super) type StoredMap = BTreeMap<(PublicKey, String), Stored>;

/// What the log remembers of every session.
pub(super) fn stored(s: &Snapshot) -> Result<StoredMap, ReadError> {
    let mut stored = StoredMap::new();
    for known in query::directory(s)? {
        for claim in known.row.claims {
            let place = (claim.key, known.session.to_string());
            let (heard, closed) = (claim.heard, claim.closed);
            stored.insert(place, Stored { heard, closed });
        }
    }
    Ok(stored)
}

/// Whose announcements are taken.
#[derive(Clone, Copy)]
pub(super) struct Filter<'a> {
    pub(super) whom: Whom,
    pub(super) known: &'a BTreeSet<PublicKey>,
    /// Whether every relay answered, so that who is not shown has left.
    pub(super) complete: bool,
}

impl Filter<'_> {
    fn takes(&self, key: &PublicKey) -> bool {
        self.whom == Whom::Everybody || self.known.contains(key)
    }
}

/// Checks and merges rosters; what is gone is left out.
pub(super) fn merge(
    memory: &Memory,
    rosters: Vec<Vec<Box<RawValue>>>,
    filter: Filter<'_>,
    stored: &StoredMap,
    now: UnixMillis,
) -> Vec<RosterSession> {
    let mut newest: BTreeMap<(PublicKey, String), (Announcement, u64)> = BTreeMap::new();
    for entry in rosters
        .into_iter()
        .flat_map(|roster| roster.into_iter().take(MAX_ROSTER_ENTRIES))
    {
        let Ok(announcement) = Announcement::from_json(entry.get()) else {
            continue;
        };
        let id = &announcement.session.session_id;
        // Checked before the signature, which costs more.
        if !filter.takes(&announcement.pubkey)
            || !(id.is_empty() || SessionId::parse(id).is_ok())
            || !memory.is_verified(&announcement)
        {
            continue;
        }
        let place = (announcement.pubkey, id.clone());
        let age = announcement.age_ms.unwrap_or(0);
        match newest.get_mut(&place) {
            Some((known, _)) if known.ts > announcement.ts => {}
            Some((known, known_age)) if known.ts == announcement.ts => {
                *known_age = age.min(*known_age);
            }
            _ => {
                newest.insert(place, (announcement, age));
            }
        }
    }
    let mut remembered = memory.lock();
    let mut sessions = vec![];
    if filter.complete {
        for (place, seen) in &mut remembered.heard {
            seen.left |= filter.takes(&place.0) && !newest.contains_key(place);
        }
    }
    for (place, (a, age_ms)) in newest {
        let presence = remembered.judge(place, a.ts, age_ms, stored, now);
        if presence == Presence::Gone {
            continue;
        }
        sessions.push(RosterSession {
            key: a.pubkey,
            session: SessionId::parse(&a.session.session_id).ok(),
            name: a.name,
            cwd: a.session.cwd,
            git_root: a.session.git_root,
            summary: a.session.summary,
            ts: a.ts,
            presence,
        });
    }
    remembered.bound(filter.known);
    sessions
}

fn newer(memory: Option<Heard>, stored: Option<Stored>) -> Option<Heard> {
    match (memory, stored.map(|s| s.heard)) {
        (Some(a), Some(b)) if b.ts > a.ts => Some(b),
        (None, stored) => stored,
        (memory, _) => memory,
    }
}

/// What the directory should learn.
pub(super) fn news(
    memory: &Memory,
    known: &BTreeSet<PublicKey>,
    stored: &StoredMap,
    now: UnixMillis,
) -> Vec<Sighting> {
    let remembered = memory.lock();
    let mut news: Vec<Sighting> = remembered
        .heard
        .iter()
        .filter(|((key, _), _)| known.contains(key))
        .map(|(place, seen)| (place, seen.heard))
        .filter(|(place, heard)| is_news(stored.get(*place).map(|s| s.heard), *heard, now))
        .filter_map(|((key, id), heard)| {
            Some(Sighting {
                key: *key,
                session: SessionId::parse(id).ok()?,
                ts: heard.ts,
                heard: heard.at,
            })
        })
        .collect();
    // Whoever claims one id in one look stands in one record.
    news.sort_by(|a, b| (&a.session, a.key).cmp(&(&b.session, b.key)));
    news.truncate(MAX_SIGHTINGS_PER_RECORD);
    news
}

impl Memory {
    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some hint was not looked for lately.
    pub(super) fn is_worth_a_look(&self, hints: Vec<(PublicKey, SessionId)>, now: Instant) -> bool {
        let mut remembered = self.lock();
        remembered
            .looked
            .retain(|_, at| now.saturating_duration_since(*at) < LOOK_AGAIN);
        let room = MEMORY.saturating_sub(remembered.looked.len());
        let new: Vec<_> = hints
            .into_iter()
            .filter(|hint| !remembered.looked.contains_key(hint))
            .take(room)
            .collect();
        let worth = !new.is_empty();
        remembered
            .looked
            .extend(new.into_iter().map(|hint| (hint, now)));
        worth
    }

    /// Whether the signature holds; checked once for each announcement.
    fn is_verified(&self, announcement: &Announcement) -> bool {
        let mut bytes = announcement.canonical_bytes();
        bytes.extend_from_slice(announcement.sig.as_bytes());
        let digest = sha256(&bytes);
        if self.lock().verified.contains(&digest) {
            return true;
        }
        let holds = announcement.verify().is_ok();
        if holds {
            self.lock().verified.insert(digest);
        }
        holds
    }
}

impl Remembered {
    /// What the newest announcement that relays show of a session says about it.
    fn judge(
        &mut self,
        place: (PublicKey, String),
        ts: UnixMillis,
        age_ms: u64,
        stored: &StoredMap,
        now: UnixMillis,
    ) -> Presence {
        let stored = stored.get(&place).copied();
        let seen = self.heard.get(&place).copied();
        let known = newer(seen.map(|s| s.heard), stored);
        let heard = hear(known, ts, age_ms, now);
        let left = seen.is_some_and(|s| s.left && s.heard.ts >= ts);
        self.heard.insert(place, Seen { heard, left });
        let closed = stored.and_then(|s| s.closed);
        if left {
            Presence::Gone
        } else if heard.ts > ts {
            outdated(heard, closed, now)
        } else {
            presence(heard, closed, now)
        }
    }

    /// Keeps the bounds. Anybody can sign announcements without number: what is remembered of
    /// strangers goes first, and of known keys what is oldest.
    fn bound(&mut self, known: &BTreeSet<PublicKey>) {
        if self.verified.len() > MEMORY {
            self.verified.clear();
        }
        if self.heard.len() > MEMORY {
            self.heard.retain(|(key, _), _| known.contains(key));
        }
        if self.heard.len() > MEMORY {
            let newest = self.heard.values().map(|s| s.heard.at).max();
            let newest = newest.unwrap_or_default();
            self.heard
                .retain(|_, seen| newest.since(seen.heard.at) < LIVE_MS);
        }
        while self.heard.len() > MEMORY {
            self.heard.pop_last();
        }
    }
}
