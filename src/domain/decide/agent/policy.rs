//! Leases and admission.

use std::collections::{BTreeMap, BTreeSet};

use super::pairing::call_off;
use super::{
    AgentCommand, AgentRefusal, AgentReply, Decided, ImportOutcome, Lease, changed, done, granted,
    nothing, refuse,
};
use crate::domain::query::agent::{
    FileVersion, file_version, held as query_held, latest_published, lease as newest_lease,
    peer_by_key, peer_by_name, peers, peers_file, revoked,
};
use crate::domain::tables::{TableError, TableReader};
use crate::event::agent::{
    AgentEvent, HeldPeer, LeaseReleased, LeaseTaken, Origin, PeerAdded, PeerRemoved,
    PeersFileAdopted, PeersHeld, PeersPublished,
};
use crate::types::id::PublicKey;
use crate::types::limit::{MAX_HELD_PEERS, MAX_PATH_BYTES, MAX_PEERS, MAX_PETNAME_BYTES};
use crate::types::seq::Seq;
use crate::wire::peers::{Petname, PetnameError};

/// Refuses a lease that is not the session's newest, or was given up.
pub(super) fn check_lease(
    tables: &dyn TableReader,
    lease: &Lease,
) -> Result<Result<(), AgentRefusal>, TableError> {
    let row = newest_lease(tables, &lease.session)?;
    let held = row.is_some_and(|row| row.epoch == lease.epoch && row.holder.is_some());
    Ok(if held {
        Ok(())
    } else {
        Err(AgentRefusal::LeaseLost {
            session: lease.session.clone(),
            holder_epoch: row.map_or(0, |row| row.epoch),
            holder_pid: row.and_then(|row| row.holder).map(|holder| holder.pid),
        })
    })
}

/// Decides `TakeLease` and `ReleaseLease` (whose lease was checked).
pub(super) fn lease(tables: &dyn TableReader, command: &AgentCommand) -> Decided {
    match command {
        AgentCommand::TakeLease {
            session,
            pid,
            process_start,
            ..
        } => {
            let last = newest_lease(tables, session)?.map_or(0, |row| row.epoch);
            let taken = LeaseTaken {
                session: session.clone(),
                epoch: last.saturating_add(1),
                pid: *pid,
                process_start: *process_start,
            };
            let lease = Lease {
                session: session.clone(),
                epoch: taken.epoch,
            };
            done(vec![taken.into()], AgentReply::Lease(lease))
        }
        AgentCommand::ReleaseLease { lease } => changed(Some(
            LeaseReleased {
                session: lease.session.clone(),
                epoch: lease.epoch,
            }
            .into(),
        )),
        _ => changed(None),
    }
}

pub(super) fn acceptable(petname: &str) -> Result<(), AgentRefusal> {
    Petname::parse(petname)
        .map(drop)
        .map_err(|source| AgentRefusal::Petname {
            petname: super::cut(petname, MAX_PETNAME_BYTES),
            source,
        })
}

/// How a key stands, or would.
pub(super) enum Admission {
    /// It is admitted under this name.
    Known(String),
    /// It can be admitted.
    New(PeerAdded),
}

/// What admitting a key under a name comes to. A key that is admitted keeps the name it has, and a
/// name that another key has is refused: neither is ever moved.
pub(super) fn admit(
    tables: &dyn TableReader,
    petname: &str,
    key: &PublicKey,
    origin: Origin,
) -> Result<Result<Admission, AgentRefusal>, TableError> {
    if let Some(known) = peer_by_key(tables, key)? {
        return Ok(Ok(Admission::Known(known.petname)));
    }
    granted!(acceptable(petname));
    let all = peers(tables)?;
    if let Some(holder) = all.iter().find(|peer| peer.petname == petname) {
        return Ok(Err(AgentRefusal::PetnameTaken {
            petname: petname.to_owned(),
            key: holder.key,
        }));
    }
    if all.len() >= MAX_PEERS {
        return Ok(Err(AgentRefusal::TooManyPeers));
    }
    Ok(Ok(Admission::New(PeerAdded {
        petname: petname.to_owned(),
        key: *key,
        origin,
    })))
}

/// How a key and a name stand to each other: the key is a peer under this name, or one of the two
/// belongs to another, which refuses a wish about both. `None`: neither is known, so to admit the key
/// would be news, and is the user's to decide.
///
/// # Errors
///
/// [`TableError`].
pub fn settled(
    tables: &dyn TableReader,
    petname: &str,
    key: &PublicKey,
) -> Result<Option<Result<(), AgentRefusal>>, TableError> {
    if let Some(known) = peer_by_key(tables, key)? {
        return Ok(Some(if known.petname == petname {
            Ok(())
        } else {
            Err(AgentRefusal::KeyKnown {
                petname: known.petname,
                key: *key,
            })
        }));
    }
    let holder = peer_by_name(tables, petname)?;
    Ok(holder.map(|holder| {
        Err(AgentRefusal::PetnameTaken {
            petname: holder.petname,
            key: holder.key,
        })
    }))
}

pub(super) fn add(
    tables: &dyn TableReader,
    petname: &str,
    key: &PublicKey,
    origin: Origin,
) -> Decided {
    granted!(acceptable(petname));
    match granted!(admit(tables, petname, key, origin)?) {
        Admission::Known(known) if known == petname => {
            nothing(AgentReply::PeerAdded { changed: false })
        }
        Admission::Known(known) => refuse(AgentRefusal::KeyKnown {
            petname: known,
            key: *key,
        }),
        Admission::New(added) => {
            let reply = AgentReply::PeerAdded { changed: true };
            done(vec![added.into()], reply)
        }
    }
}

pub(super) fn remove(
    tables: &dyn TableReader,
    petname: &str,
    key: &PublicKey,
    origin: Origin,
) -> Decided {
    let Some(standing) = settled(tables, petname, key)? else {
        return nothing(AgentReply::PeerRemoved { key: None });
    };
    // Whoever decided saw this name with this key: another pair is another question.
    granted!(standing);
    let removed = PeerRemoved {
        petname: petname.to_owned(),
        key: *key,
        origin,
    };
    let reply = AgentReply::PeerRemoved { key: Some(*key) };
    let mut events = vec![removed.into()];
    // Nor does it come back by accepting what it was asked before.
    events.extend(call_off(tables, key, origin)?);
    done(events, reply)
}

/// One identity has one allowlist file: two would contradict each other, and each would undo what
/// was written into the other.
pub(super) fn adopt_file(tables: &dyn TableReader, path: &str, switch: bool) -> Decided {
    if !(1..=MAX_PATH_BYTES).contains(&path.len()) {
        return refuse(AgentRefusal::FieldLength {
            field: "path",
            len: path.len(),
            max: MAX_PATH_BYTES,
        });
    }
    match peers_file(tables)? {
        Some(row) if row.path == path => changed(None),
        Some(row) if !switch => refuse(AgentRefusal::PeersElsewhere { path: row.path }),
        _ => {
            let path = path.to_owned();
            changed(Some(PeersFileAdopted { path }.into()))
        }
    }
}

pub(super) fn publish(tables: &dyn TableReader, sha256: &[u8; 32]) -> Decided {
    let event = PeersPublished {
        sha256: *sha256,
        imported: false,
    };
    let known = file_version(tables, sha256)? == FileVersion::Current;
    changed((!known).then(|| event.into()))
}

/// Takes over a hand edit: what stands in the file is admitted, what does not is revoked. A key
/// that a tool or the operator revoked stays revoked: the edit may come from an old copy, and
/// nothing in it tells a wish from a leftover.
pub(super) fn import(
    tables: &dyn TableReader,
    entries: &[(String, PublicKey)],
    sha256: &[u8; 32],
    newest: Option<Seq>,
) -> Decided {
    let wanted = granted!(check_entries(entries));
    if file_version(tables, sha256)? != FileVersion::Unknown {
        return nothing(AgentReply::Imported(ImportOutcome::default()));
    }
    let mut outcome = ImportOutcome::default();
    // Whoever was admitted after the newest version of the file cannot have been struck from it.
    let recorded = latest_published(tables)?.map_or(Seq(u64::MAX), |latest| latest.seq);
    let seen = newest.unwrap_or(recorded);
    for peer in peers(tables)? {
        let too_new = peer.seq > seen
            && !wanted.contains_key(&peer.key)
            && wanted.values().all(|name| *name != peer.petname);
        if wanted.get(&peer.key) != Some(&peer.petname) && !too_new {
            outcome.removed.push((peer.petname, peer.key));
        }
    }
    let held: BTreeSet<PublicKey> = revoked(tables)?
        .into_iter()
        .filter(|peer| peer.origin != Origin::File)
        .map(|peer| peer.key)
        .collect();
    for (key, petname) in wanted {
        if held.contains(&key) {
            outcome.held.push((petname, key));
        } else if peer_by_key(tables, &key)?.is_none_or(|peer| peer.petname != petname) {
            outcome.added.push((petname, key));
        }
    }
    let origin = Origin::File;
    let mut events: Vec<AgentEvent> = vec![];
    for (petname, key) in outcome.removed.iter().cloned() {
        events.push(
            PeerRemoved {
                petname,
                key,
                origin,
            }
            .into(),
        );
        // Not for a key that only gets another name.
        if !outcome.added.iter().any(|(_, added)| *added == key) {
            events.extend(call_off(tables, &key, origin)?);
        }
    }
    for (petname, key) in outcome.added.iter().cloned() {
        events.push(
            PeerAdded {
                petname,
                key,
                origin,
            }
            .into(),
        );
    }
    events.extend(hold(tables, &outcome.held)?);
    let imported = PeersPublished {
        sha256: *sha256,
        imported: true,
    };
    events.push(imported.into());
    done(events, AgentReply::Imported(outcome))
}

/// Revokes whom a version that was in force before lacks. It admits nobody: it may be a copy from
/// before a revocation.
pub(super) fn strike(
    tables: &dyn TableReader,
    entries: &[(String, PublicKey)],
    sha256: &[u8; 32],
    newest: Option<Seq>,
) -> Decided {
    let mut outcome = ImportOutcome::default();
    if file_version(tables, sha256)? != FileVersion::Behind {
        return nothing(AgentReply::Imported(outcome));
    }
    // Whoever was admitted after the newest version of the file cannot have been struck from it.
    let recorded = latest_published(tables)?.map_or(Seq::ZERO, |latest| latest.seq);
    let seen = newest.unwrap_or(recorded);
    let origin = Origin::File;
    let mut events: Vec<AgentEvent> = vec![];
    let admitted = peers(tables)?;
    for peer in &admitted {
        if peer.seq > seen || entries.iter().any(|(_, key)| *key == peer.key) {
            continue;
        }
        let (petname, key) = (peer.petname.clone(), peer.key);
        outcome.removed.push((petname.clone(), key));
        events.push(
            PeerRemoved {
                petname,
                key,
                origin,
            }
            .into(),
        );
        events.extend(call_off(tables, &key, origin)?);
    }
    let held = entries
        .iter()
        .filter(|(_, key)| admitted.iter().all(|peer| peer.key != *key));
    outcome.held.extend(held.cloned());
    events.extend(hold(tables, &outcome.held)?);
    done(events, AgentReply::Imported(outcome))
}

/// What is to be remembered of entries that do not count, if that is news.
fn hold(
    tables: &dyn TableReader,
    held: &[(String, PublicKey)],
) -> Result<Option<AgentEvent>, TableError> {
    let mut held: Vec<(String, PublicKey)> = held.to_vec();
    held.sort_by_key(|(_, key)| *key);
    held.truncate(MAX_HELD_PEERS);
    if query_held(tables)? == held {
        return Ok(None);
    }
    let entries = held
        .into_iter()
        .map(|(petname, key)| HeldPeer {
            petname: super::cut(&petname, MAX_PETNAME_BYTES),
            key,
        })
        .collect();
    Ok(Some(PeersHeld { entries }.into()))
}

fn check_entries(
    entries: &[(String, PublicKey)],
) -> Result<BTreeMap<PublicKey, String>, AgentRefusal> {
    if entries.len() > MAX_PEERS {
        return Err(AgentRefusal::TooManyPeers);
    }
    let mut names = BTreeSet::new();
    let mut wanted = BTreeMap::new();
    for (petname, key) in entries {
        // A person may write names that the tools would not; they count, and are shown escaped.
        if petname.len() > MAX_PETNAME_BYTES {
            return Err(AgentRefusal::Petname {
                petname: super::cut(petname, MAX_PETNAME_BYTES),
                source: PetnameError::TooLong,
            });
        }
        let twice = !names.insert(petname.clone()) || wanted.contains_key(key);
        if twice {
            return Err(AgentRefusal::PeerTwice {
                petname: petname.clone(),
            });
        }
        wanted.insert(*key, petname.clone());
    }
    Ok(wanted)
}
