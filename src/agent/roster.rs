//! What relays show of who is there, merged and checked.
//!
//! Every relay is asked at once and none is waited for beyond a limit: one that accepts connections
//! and never answers costs that limit and no more, and is named. Only announcements whose signature
//! holds count; of several for one session the newest; and how long ago that was is judged by what
//! this process and the log remember, not by the relay alone
//! ([`crate::domain::machine::presence`]).

mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::task::JoinSet;

pub use memory::Memory;
use memory::{Filter, merge, news, stored};

use super::core::{ActError, Core};
use crate::domain::decide::agent::{AgentCommand, DirectoryCommand};
use crate::domain::machine::presence::Presence;
use crate::domain::query::agent as query;
use crate::event::agent::Sighting;
use crate::types::id::{PublicKey, SessionId};
use crate::types::time::{Clock as _, UnixMillis};

/// Longest time that a tool waits for rosters whose point is the roster.
pub const DISCOVER_WAIT: Duration = Duration::from_secs(2);
/// The same where a session has to be chosen.
pub const CHOOSE_WAIT: Duration = Duration::from_secs(1);
/// The same where the destination is known and presence is only a word in the answer.
pub const PRESENCE_WAIT: Duration = Duration::from_millis(200);

/// Longest wait for the record of what was seen.
const REMEMBER_WAIT: Duration = Duration::from_millis(500);

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

#[cfg(test)]
mod tests;
