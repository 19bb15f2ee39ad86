//! The session directory, and what is erased.
//!
//! None of these carries a lease: what a relay showed is the same for every session of the identity,
//! and the rest is the operator's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::{AgentRefusal, AgentReply, Decided, changed, done, refuse};
use crate::domain::machine::presence::{Heard, is_news};
use crate::domain::projection::agent::{MailRow, OutboxRow, seq_key};
use crate::domain::query::agent::{directory_entry, peer_by_key, unused_sessions};
use crate::domain::tables::{TableError, TableId, TableReader, scan_rows};
use crate::event::agent::{
    AgentEvent, ForgetReason, PeerForgotten, SessionClosed, SessionsForgotten, SessionsSeen,
    Sighting,
};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{MAX_ERASED_PER_RECORD, MAX_SIGHTINGS_PER_RECORD};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A wish about what is remembered of others.
#[derive(Clone, Debug)]
pub enum DirectoryCommand {
    /// Remember verified announcements; those that are no news, or of keys that are not admitted,
    /// change nothing.
    Sighted {
        /// Our own key, which is always admitted.
        own: PublicKey,
        /// What was seen; beyond 256 nothing is remembered.
        sightings: Vec<Sighting>,
        /// Now.
        now: UnixMillis,
    },
    /// A session said good-bye.
    Closed {
        /// Our own key.
        own: PublicKey,
        /// The verified sender.
        key: PublicKey,
        /// The session that ends.
        session: SessionId,
        /// Signed time.
        ts: UnixMillis,
    },
    /// Forget sessions that were not used since a time; at most 256 a call.
    ExpireSessions {
        /// Time bound.
        before: UnixMillis,
    },
    /// Forget sessions, whoever claims them; unknown ones are no error.
    ForgetSessions {
        /// At most 256.
        sessions: Vec<SessionId>,
    },
    /// Erase what was exchanged with a key that is not admitted. To be repeated while there is more.
    ForgetPeer {
        /// The key.
        key: PublicKey,
    },
}

pub(super) fn decide(tables: &dyn TableReader, command: &DirectoryCommand) -> Decided {
    match command {
        DirectoryCommand::Sighted {
            own,
            sightings,
            now,
        } => sighted(tables, own, sightings, *now),
        DirectoryCommand::Closed {
            own,
            key,
            session,
            ts,
        } => {
            if !is_ours(tables, own, key)? {
                return changed(None);
            }
            let event = SessionClosed {
                key: *key,
                session: session.clone(),
                ts: *ts,
            };
            changed(Some(event.into()))
        }
        DirectoryCommand::ExpireSessions { before } => {
            let sessions = unused_sessions(tables, *before, MAX_SIGHTINGS_PER_RECORD)?;
            forget(sessions, ForgetReason::Unused)
        }
        DirectoryCommand::ForgetSessions { sessions } => {
            let mut known = BTreeSet::new();
            for session in sessions.iter().take(MAX_SIGHTINGS_PER_RECORD) {
                if directory_entry(tables, session)?.is_some() {
                    known.insert(session.clone());
                }
            }
            forget(known.into_iter().collect(), ForgetReason::Operator)
        }
        DirectoryCommand::ForgetPeer { key } => forget_peer(tables, key),
    }
}

fn is_ours(tables: &dyn TableReader, own: &PublicKey, key: &PublicKey) -> Result<bool, TableError> {
    Ok(key == own || peer_by_key(tables, key)?.is_some())
}

fn sighted(
    tables: &dyn TableReader,
    own: &PublicKey,
    sightings: &[Sighting],
    now: UnixMillis,
) -> Decided {
    let mut seen = BTreeSet::new();
    let mut news = vec![];
    for sighting in sightings {
        if news.len() == MAX_SIGHTINGS_PER_RECORD {
            break;
        }
        let stored = directory_entry(tables, &sighting.session)?
            .and_then(|row| row.claim(&sighting.key).map(|claim| claim.heard));
        let heard = Heard {
            ts: sighting.ts,
            at: sighting.heard,
        };
        if is_news(stored, heard, now)
            && is_ours(tables, own, &sighting.key)?
            && seen.insert((sighting.key, sighting.session.clone()))
        {
            news.push(sighting.clone());
        }
    }
    changed((!news.is_empty()).then(|| SessionsSeen { sightings: news }.into()))
}

fn forget(sessions: Vec<SessionId>, reason: ForgetReason) -> Decided {
    let reply = AgentReply::Forgotten {
        rows: sessions.len(),
        more: sessions.len() == MAX_SIGHTINGS_PER_RECORD,
    };
    if sessions.is_empty() {
        return done(vec![], reply);
    }
    done(vec![SessionsForgotten { sessions, reason }.into()], reply)
}

fn forget_peer(tables: &dyn TableReader, key: &PublicKey) -> Decided {
    if let Some(peer) = peer_by_key(tables, key)? {
        return refuse(AgentRefusal::StillAdmitted {
            petname: peer.petname,
        });
    }
    let mut event = PeerForgotten {
        key: *key,
        received: vec![],
        sent: vec![],
        bodies: vec![],
        last: true,
    };
    scan_rows::<MailRow>(tables, TableId::Mailbox, &[], |at, row| {
        if row.from == *key {
            if event.received.len() == MAX_ERASED_PER_RECORD {
                event.last = false;
                return Ok(ControlFlow::Break(()));
            }
            let seq = seq_key(TableId::Mailbox, at)?;
            event.received.push(seq);
            event.bodies.push(seq);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<OutboxRow>(tables, TableId::Outbox, &[], |at, row| {
        if row.to == *key {
            if event.received.len() + event.sent.len() >= MAX_ERASED_PER_RECORD {
                event.last = false;
                return Ok(ControlFlow::Break(()));
            }
            event.sent.push(seq_key(TableId::Outbox, at)?);
            event.bodies.push(row.body);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    event.bodies.sort_unstable();
    let reply = AgentReply::Forgotten {
        rows: event.received.len() + event.sent.len(),
        more: !event.last,
    };
    done(vec![event.into()], reply)
}

/// Erases the messages whose bodies are lost, by peer.
pub(super) fn let_go(
    tables: &dyn TableReader,
    lost: &BTreeSet<Seq>,
) -> Result<Vec<AgentEvent>, TableError> {
    let mut erased: BTreeMap<PublicKey, Vec<(bool, Seq)>> = BTreeMap::new();
    scan_rows::<MailRow>(tables, TableId::Mailbox, &[], |at, row| {
        let seq = seq_key(TableId::Mailbox, at)?;
        if lost.contains(&seq) {
            erased.entry(row.from).or_default().push((true, seq));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    scan_rows::<OutboxRow>(tables, TableId::Outbox, &[], |at, row| {
        if lost.contains(&row.body) {
            let seq = seq_key(TableId::Outbox, at)?;
            erased.entry(row.to).or_default().push((false, seq));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut events = vec![];
    for (key, messages) in erased {
        for some in messages.chunks(MAX_ERASED_PER_RECORD) {
            let of = |received| some.iter().filter(move |m| m.0 == received).map(|m| m.1);
            events.push(
                PeerForgotten {
                    key,
                    received: of(true).collect(),
                    sent: of(false).collect(),
                    bodies: vec![],
                    last: false,
                }
                .into(),
            );
        }
    }
    Ok(events)
}
