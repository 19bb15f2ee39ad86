//! Everybody that relays show, strangers included: whom a pairing request can reach.
//!
//! A name on a roster is a claim, so a name finds somebody only when exactly one identity claims it. A
//! session counts when its announcement carries its key's signature.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::core::Core;
use crate::types::id::{PublicKey, SessionId};
use crate::wire::announce::Announcement;

/// A session that some relay shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    /// The name that the node gives itself.
    name: String,
    /// Age of its last announcement in milliseconds.
    age_ms: u64,
}

/// The merged rosters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    sessions: BTreeMap<(PublicKey, SessionId), Shown>,
    /// Relays that did not answer in time, or not sensibly.
    pub failed: Vec<String>,
}

/// Whom a text means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    /// The key.
    pub key: PublicKey,
    /// The session that was heard last.
    pub session: SessionId,
    /// The name that the node gives itself. A claim, unescaped.
    pub name: String,
}

/// A text means nobody, or several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalleeError {
    /// Nobody.
    #[error("no relay shows anybody with this key, fingerprint or name")]
    Nobody,
    /// Several identities.
    #[error("several identities fit; name one by its full key: {}", list(.keys))]
    Several {
        /// They.
        keys: Vec<PublicKey>,
    },
}

fn list(keys: &[PublicKey]) -> String {
    let texts: Vec<String> = keys.iter().take(8).map(ToString::to_string).collect();
    texts.join(", ")
}

impl Callers {
    /// Whether a session is there.
    #[must_use]
    pub fn shows(&self, key: &PublicKey, session: &SessionId) -> bool {
        self.sessions.contains_key(&(*key, session.clone()))
    }

    /// The session of whom a text means: a full key, else the first eight characters of one, else
    /// the name that exactly one identity gives itself.
    ///
    /// # Errors
    ///
    /// [`CalleeError`].
    pub fn find(&self, text: &str) -> Result<Callee, CalleeError> {
        let keys = |fits: &dyn Fn(&PublicKey, &Shown) -> bool| -> BTreeSet<PublicKey> {
            let fitting = self.sessions.iter().filter(|((key, _), s)| fits(key, s));
            fitting.map(|((key, _), _)| *key).collect()
        };
        let mut found = keys(&|key, _| key.to_string() == text);
        if found.is_empty() {
            found = keys(&|key, _| key.fingerprint().as_str() == text);
        }
        if found.is_empty() && !text.is_empty() {
            found = keys(&|_, shown| shown.name == text);
        }
        let keys: Vec<PublicKey> = found.into_iter().collect();
        let [key] = keys.as_slice() else {
            return Err(match keys.is_empty() {
                true => CalleeError::Nobody,
                false => CalleeError::Several { keys },
            });
        };
        let sessions = self.sessions.iter().filter(|((k, _), _)| k == key);
        let best = sessions.min_by_key(|(_, shown)| shown.age_ms);
        best.map(|((key, session), shown)| Callee {
            key: *key,
            session: session.clone(),
            name: shown.name.clone(),
        })
        .ok_or(CalleeError::Nobody)
    }
}

/// Asks every relay at once; what is not there in time is left out and named.
pub async fn ask(core: &Core, wait: Duration) -> Callers {
    let mut calls = JoinSet::new();
    for relay in &core.relays {
        let relay = Arc::clone(relay);
        calls.spawn(async move {
            let reply = relay.client.roster().await;
            (relay.client.url().to_owned(), reply)
        });
    }
    let mut callers = Callers {
        failed: core
            .relays
            .iter()
            .map(|r| r.client.url().to_owned())
            .collect(),
        ..Callers::default()
    };
    let deadline = tokio::time::Instant::now() + wait;
    while let Ok(Some(call)) = tokio::time::timeout_at(deadline, calls.join_next()).await {
        let Ok((url, Ok(reply))) = call else { continue };
        callers.failed.retain(|failed| *failed != url);
        for entry in reply.roster {
            let Ok(announcement) = Announcement::from_json(entry.get()) else {
                continue;
            };
            let Ok(session) = SessionId::parse(&announcement.session.session_id) else {
                continue;
            };
            if announcement.verify().is_err() {
                continue;
            }
            let shown = Shown {
                name: announcement.name,
                age_ms: announcement.age_ms.unwrap_or(0),
            };
            let place = callers.sessions.entry((announcement.pubkey, session));
            let known = place.or_insert_with(|| shown.clone());
            if shown.age_ms < known.age_ms {
                *known = shown;
            }
        }
    }
    callers
}
