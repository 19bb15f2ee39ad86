//! What relays show of who is there, merged and checked.
//!
//! Every relay is asked at once and none is waited for beyond a limit: one that accepts connections
//! and never answers costs that limit and no more, and is named. Only announcements whose signature
//! holds count; of several for one session the newest; and how long ago that was is judged by what
//! this process and the log remember, not by the relay alone
//! ([`crate::domain::machine::presence`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::core::{ActError, Core};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{AgentCommand, DirectoryCommand};
use crate::domain::machine::presence::{Heard, Presence, hear, is_news, outdated, presence};
use crate::domain::query::agent as query;
use crate::event::agent::Sighting;
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{LIVE_MS, MAX_ROSTER_ENTRIES, MAX_SIGHTINGS_PER_RECORD};
use crate::types::time::{Clock as _, UnixMillis};
use crate::wire::announce::Announcement;

/// Longest time that a tool waits for rosters whose point is the roster.
pub const DISCOVER_WAIT: Duration = Duration::from_secs(2);
/// The same where a session has to be chosen.
pub const CHOOSE_WAIT: Duration = Duration::from_secs(1);
/// The same where the destination is known and presence is only a word in the answer.
pub const PRESENCE_WAIT: Duration = Duration::from_millis(200);

/// Longest wait for the record of what was seen.
const REMEMBER_WAIT: Duration = Duration::from_millis(500);
/// How long a hint that was not found is not looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Sessions that a process remembers, and signatures that it need not check again.
const MEMORY: usize = 2 * MAX_ROSTER_ENTRIES;

/// A session on the merged roster. Its announcement is verified; what it says of itself is still
/// only what its owner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterSession {
    /// Its identity.
    pub key: PublicKey,
    /// Its id; `None` for an identity that announces itself without one.
    pub session: Option<SessionId>,
    /// The name that the node gives itself. A claim, unbounded, unescaped.
    pub name: String,
    /// Its working directory, as far as it says. Unescaped.
    pub cwd: String,
    /// Its repository, as far as it says. Unescaped.
    pub git_root: String,
    /// What it works on, as far as it says. Unescaped.
    pub summary: String,
    /// Signed time of the announcement.
    pub ts: UnixMillis,
    /// Whether it runs.
    pub presence: Presence,
}

/// A relay that gave no roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayTrouble {
    /// The relay.
    pub url: String,
    /// Why, in words. Unescaped.
    pub problem: String,
}

/// The rosters of all relays, as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// Every session that is not gone, by key and id.
    pub sessions: Vec<RosterSession>,
    /// Relays that gave no roster in time.
    pub failed: Vec<RelayTrouble>,
    /// How many relays gave one.
    pub answered: usize,
}

/// Whose announcements are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Everybody's.
    Everybody,
    /// Our own and those of admitted peers.
    Known,
}

/// Who a target text means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The identity.
    pub key: PublicKey,
    /// The name that it gives itself on the roster, if it is there.
    pub name: Option<String>,
    /// Its best session: live ones before others, the one heard last.
    pub session: Option<SessionId>,
    /// Whether that runs.
    pub presence: Presence,
}

/// A target text means nobody, or several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Nobody on the roster.
    #[error("nobody on the roster has this key, fingerprint or name")]
    Nobody,
    /// Several identities.
    #[error("several identities fit; name one by its full key: {}", key_list(.keys))]
    Several {
        /// They.
        keys: Vec<PublicKey>,
    },
}

fn key_list(keys: &[PublicKey]) -> String {
    let texts: Vec<String> = keys.iter().take(8).map(ToString::to_string).collect();
    texts.join(", ")
}

impl Roster {
    /// Whether any relay gave a roster, so that who is not on it is not there.
    #[must_use]
    pub const fn is_usable(&self) -> bool {
        self.answered > 0
    }

    /// The sessions of a key, by id.
    pub fn sessions_of(&self, key: &PublicKey) -> impl Iterator<Item = &RosterSession> {
        self.sessions.iter().filter(move |s| s.key == *key)
    }

    /// The best session of a key: live ones before others, the one heard last.
    #[must_use]
    pub fn best_of(&self, key: &PublicKey) -> Option<&RosterSession> {
        self.sessions_of(key)
            .filter(|s| s.session.is_some())
            .min_by_key(|s| rank(s.presence))
    }

    /// Resolves a target text as people give it: a full key, also one that no relay shows; else the
    /// first eight characters of one; else the name that exactly one identity gives itself.
    ///
    /// # Errors
    ///
    /// [`TargetError`].
    pub fn target(&self, text: &str) -> Result<Target, TargetError> {
        let text = text.trim();
        if let Ok(key) = text.parse::<PublicKey>() {
            return Ok(self.target_of(key));
        }
        let all = |fits: &dyn Fn(&RosterSession) -> bool| -> Vec<PublicKey> {
            let fitting = self.sessions.iter().filter(|s| fits(s)).map(|s| s.key);
            fitting.collect::<BTreeSet<_>>().into_iter().collect()
        };
        let mut fitting = all(&|s| s.key.fingerprint().as_str() == text);
        if fitting.is_empty() {
            fitting = all(&|s| !text.is_empty() && s.name == text);
        }
        match fitting.as_slice() {
            [] => Err(TargetError::Nobody),
            [key] => Ok(self.target_of(*key)),
            _ => Err(TargetError::Several { keys: fitting }),
        }
    }

    fn target_of(&self, key: PublicKey) -> Target {
        let best = self.best_of(&key);
        Target {
            key,
            name: self.sessions_of(&key).next().map(|s| s.name.clone()),
            session: best.and_then(|s| s.session.clone()),
            presence: best.map_or(Presence::Gone, |s| s.presence),
        }
    }
}

/// Order of preference.
const fn rank(presence: Presence) -> (u8, u64) {
    match presence {
        Presence::Live { age_ms } => (0, age_ms),
        Presence::Away { age_ms } => (1, age_ms),
        Presence::Unknown => (2, 0),
        Presence::Gone => (3, 0),
        Presence::Closed => (4, 0),
    }
}

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
struct Stored {
    heard: Heard,
    closed: Option<UnixMillis>,
}

type StoredMap = BTreeMap<(PublicKey, String), Stored>;

/// Asks every relay at once; what is not there within `wait` is left out and named. Sessions that
/// are new to the directory stand in it when this returns, unless the store is held.
///
/// # Errors
///
/// When the log cannot be read.
pub async fn fetch(core: &Arc<Core>, wait: Duration, whom: Whom) -> Result<Roster, ActError> {
    let (roster, news) = look(core, wait, whom).await?;
    if !news.is_empty() {
        let core = Arc::clone(core);
        let done = tokio::spawn(async move { remember(&core, news).await });
        // Who was seen first is decided by the log: the next look must find this one in it. A store
        // that is held does not hold up the answer for long.
        let _ = tokio::time::timeout(REMEMBER_WAIT, done).await;
    }
    Ok(roster)
}

/// Looks for the owners of sessions that a reader is about to see hints of; they stand in the
/// directory when this returns, as far as they were found. Bounded, and each hint is looked for
/// once in a while only.
pub async fn learn(core: &Arc<Core>, hints: Vec<(PublicKey, SessionId)>) {
    if !core.roster.is_worth_a_look(hints, Instant::now()) {
        return;
    }
    if let Ok((_, news)) = look(core, CHOOSE_WAIT, Whom::Known).await
        && !news.is_empty()
    {
        let _ = tokio::time::timeout(REMEMBER_WAIT, remember(core, news)).await;
    }
}

/// The merged roster, and what the directory should learn of it.
async fn look(
    core: &Arc<Core>,
    wait: Duration,
    whom: Whom,
) -> Result<(Roster, Vec<Sighting>), ActError> {
    let (answers, failed) = ask(core, wait).await;
    // Whose announcements count is for the list of peers to say, also right after the start. A
    // broken list is told by whoever sends or receives.
    let _ = core.peers.ensure(&core.ledger).await;
    let me = core.me;
    let (known, stored) = core
        .ledger
        .read(move |s| {
            let mut known: BTreeSet<PublicKey> = query::peers(s)?.iter().map(|p| p.key).collect();
            known.insert(me);
            Ok((known, stored(s)?))
        })
        .await?;
    let answered = answers.len();
    let complete = failed.is_empty();
    let now = core.clock.now();
    let judge = {
        let core = Arc::clone(core);
        // Checking signatures takes the time of a core.
        tokio::task::spawn_blocking(move || {
            let filter = Filter {
                whom,
                known: &known,
                complete,
            };
            let sessions = merge(&core.roster, answers, filter, &stored, now);
            let news = news(&core.roster, &known, &stored, now);
            (sessions, news)
        })
    };
    let (sessions, news) = judge.await.unwrap_or_default();
    let roster = Roster {
        sessions,
        failed,
        answered,
    };
    Ok((roster, news))
}

async fn ask(core: &Core, wait: Duration) -> (Vec<Vec<Box<RawValue>>>, Vec<RelayTrouble>) {
    let mut calls = JoinSet::new();
    for (at, relay) in core.relays.iter().enumerate() {
        let relay = Arc::clone(relay);
        calls.spawn(async move {
            let answer = relay.client.roster().await;
            if answer.is_ok() {
                relay.answered();
            }
            (at, answer)
        });
    }
    let mut answers = BTreeMap::new();
    let deadline = tokio::time::Instant::now() + wait;
    while let Ok(Some(done)) = tokio::time::timeout_at(deadline, calls.join_next()).await {
        if let Ok((at, answer)) = done {
            answers.insert(at, answer);
        }
    }
    let (mut rosters, mut failed) = (vec![], vec![]);
    for (at, relay) in core.relays.iter().enumerate() {
        let problem = match answers.remove(&at) {
            Some(Ok(reply)) => {
                rosters.push(reply.roster);
                continue;
            }
            Some(Err(e)) => e.to_string(),
            None => format!("no answer within {} ms", wait.as_millis()),
        };
        failed.push(RelayTrouble {
            url: relay.client.url().to_owned(),
            problem,
        });
    }
    (rosters, failed)
}

fn stored(s: &crate::store::Snapshot) -> Result<StoredMap, crate::store::ReadError> {
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
struct Filter<'a> {
    whom: Whom,
    known: &'a BTreeSet<PublicKey>,
    /// Whether every relay answered, so that who is not shown has left.
    complete: bool,
}

impl Filter<'_> {
    fn takes(&self, key: &PublicKey) -> bool {
        self.whom == Whom::Everybody || self.known.contains(key)
    }
}

/// Checks and merges rosters; what is gone is left out.
fn merge(
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
fn news(
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

async fn remember(core: &Core, sightings: Vec<Sighting>) {
    let command = DirectoryCommand::Sighted {
        own: core.me,
        sightings,
        now: core.clock.now(),
    };
    if let Err(e) = core.submit(AgentCommand::Directory(command)).await {
        tracing::debug!("the session directory learns nothing: {e}");
    }
}

impl Memory {
    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some hint was not looked for lately.
    fn is_worth_a_look(&self, hints: Vec<(PublicKey, SessionId)>, now: Instant) -> bool {
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

#[cfg(test)]
mod tests;
