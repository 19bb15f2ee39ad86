//! Our own requests.

use std::sync::Arc;

use super::command::{
    Acceptance, PairingRefusal, PairingReply, RequestPair, TakeAcceptance, WaitingKnock,
};
use super::{Events, changed, end_knock, end_request, plain, refuse, reply, send, timely};
use crate::domain::decide::agent::outbox::{Outgoing, body_len, sorted_relays, withdraw};
use crate::domain::decide::agent::policy::{Admission, acceptable, admit};
use crate::domain::decide::agent::{Agent, AgentRefusal, Decided, granted};
use crate::domain::gate::Untimely;
use crate::domain::query::agent::{self as query, Outbound};
use crate::domain::tables::{TableError, TableReader};
use crate::domain::{NewEvent, View};
use crate::event::agent::{
    AgentEvent, ConflictReason, KnockEnd, MailKind, Origin, OutboxRequeued, PairConflictResolved,
    PairConflicted, PairRequested, RequestEnd,
};
use crate::types::id::PublicKey;
use crate::types::limit::{MAX_MESSAGE_BYTES, MAX_PAIR_OUTBOUND};
use crate::types::seq::Seq;

/// Makes a request, or repeats it under its id.
pub(super) fn ask(view: &View<'_, Agent>, wish: &RequestPair) -> Decided {
    let tables = view.tables;
    if wish.key == wish.own {
        return refuse(PairingRefusal::OwnKey);
    }
    if query::is_blocked(tables, &wish.key)? {
        return refuse(PairingRefusal::Blocked { key: wish.key });
    }
    let name = granted!(name_for(tables, wish)?);
    let old = query::outbound_of(tables, &wish.key)?;
    let agreed = wish.agreed
        || old.as_ref().is_some_and(|old| old.row.name == name)
        || query::peer_by_key(tables, &wish.key)?.is_some();
    if !agreed {
        return refuse(PairingRefusal::NotAgreed { key: wish.key });
    }
    if let Some(old) = old
        .as_ref()
        .filter(|old| old.row.request_id != wish.mail.msg_id)
    {
        return refuse(PairingRefusal::KeepsId {
            key: wish.key,
            request_id: old.row.request_id.clone(),
        });
    }
    let waiting = query::outbound(tables)?.len() + query::conflicts(tables)?.len();
    if old.is_none() && waiting >= MAX_PAIR_OUTBOUND {
        return refuse(PairingRefusal::TooManyRequests { waiting });
    }
    let requested = PairRequested {
        key: wish.key,
        name,
        request_id: wish.mail.msg_id.clone(),
        session: wish.lease.session.clone(),
        to_session: wish.to_session.clone(),
        origin: wish.origin,
    };
    let mut events: Events = vec![];
    // Whoever asks again does not want the answer that could not be used.
    events.extend(plain(drop_conflict(tables, &wish.key, wish.origin)?));
    events.push(AgentEvent::from(requested).into());
    let seq = granted!(post(view, &mut events, wish, old.as_ref())?);
    let again = old.is_some();
    reply(events, PairingReply::Requested { seq, again })
}

/// The petname that the request would lead to: one that the key could get now, and that no other
/// request of ours is for.
fn name_for(
    tables: &dyn TableReader,
    wish: &RequestPair,
) -> Result<Result<String, AgentRefusal>, TableError> {
    if let Some(peer) = query::peer_by_key(tables, &wish.key)? {
        return Ok(Ok(peer.petname));
    }
    granted!(acceptable(&wish.name));
    granted!(admit(tables, &wish.name, &wish.key, wish.origin)?);
    let same = query::outbound(tables)?
        .into_iter()
        .find(|other| other.key != wish.key && other.row.name == wish.name);
    Ok(match same {
        Some(other) => Err(PairingRefusal::NameRequested {
            name: wish.name.clone(),
            key: other.key,
        }
        .into()),
        None => Ok(wish.name.clone()),
    })
}

/// Puts the signed request into the outbox: as a new entry, or into the one that its id has.
fn post(
    view: &View<'_, Agent>,
    events: &mut Events,
    wish: &RequestPair,
    old: Option<&Outbound>,
) -> Result<Result<Seq, AgentRefusal>, TableError> {
    let entry = match old {
        Some(old) => query::outbox_entry(view.tables, &old.row.request_id)?,
        None => None,
    };
    let Some(entry) = entry else {
        let mail = Outgoing {
            session: &wish.lease.session,
            msg_id: &wish.mail.msg_id,
            to: wish.key,
            to_session: &wish.to_session,
            kind: MailKind::PairRequest,
            task_id: None,
            status: None,
            in_reply_to: None,
            ts: wish.mail.ts,
            body: &wish.mail.body,
            sha256: &wish.mail.sha256,
            relays: &wish.mail.relays,
        };
        return send(view, events, &mail);
    };
    let len = granted!(body_len(&wish.mail.body, MAX_MESSAGE_BYTES));
    let relays = granted!(sorted_relays(&wish.mail.relays));
    let requeued = OutboxRequeued {
        message: entry.seq,
        replaced: entry.row.body,
        session: wish.lease.session.clone(),
        to_session: wish.to_session.clone(),
        ts: wish.mail.ts,
        len,
        sha256: wish.mail.sha256,
        relays,
    };
    events.push(NewEvent {
        event: requeued.into(),
        body: Some(Arc::clone(&wish.mail.body)),
    });
    Ok(Ok(entry.seq))
}

pub(super) fn cancel(tables: &dyn TableReader, key: &PublicKey, origin: Origin) -> Decided {
    let mut events = end_request(tables, key, RequestEnd::Cancelled, None, Some(origin))?;
    events.extend(drop_conflict(tables, key, origin)?);
    changed(events)
}

/// Drops the conflict about a key, if there is one.
pub(super) fn drop_conflict(
    tables: &dyn TableReader,
    key: &PublicKey,
    origin: Origin,
) -> Result<Vec<AgentEvent>, TableError> {
    settle_conflict(tables, key, None, origin)
}

/// Ends the conflict about a key, if there is one; it is admitted as `petname` now, or not at all.
pub(super) fn settle_conflict(
    tables: &dyn TableReader,
    key: &PublicKey,
    petname: Option<&str>,
    origin: Origin,
) -> Result<Vec<AgentEvent>, TableError> {
    let conflict = query::conflict_of(tables, key)?;
    let event = conflict.map(|conflict| {
        PairConflictResolved {
            key: *key,
            request_id: conflict.row.request_id,
            petname: petname.map(str::to_owned),
            origin,
        }
        .into()
    });
    Ok(event.into_iter().collect())
}

fn took(events: Vec<AgentEvent>, acceptance: Acceptance) -> Decided {
    reply(plain(events), PairingReply::Acceptance(acceptance))
}

/// Admits a key that accepted a request of ours, under the name that the operator gave it then.
pub(super) fn accepted(tables: &dyn TableReader, wish: &TakeAcceptance) -> Decided {
    let peer = query::peer_by_key(tables, &wish.from)?;
    match timely(wish.ts, wish.now, &wish.windows, peer.is_some()) {
        Ok(()) => {}
        Err(Untimely::Ahead { by_ms: ahead_ms }) => {
            return took(vec![], Acceptance::Future { ahead_ms });
        }
        Err(Untimely::TooOld { .. }) => return took(vec![], Acceptance::TooOld),
    }
    let answers = wish
        .in_reply_to
        .as_ref()
        .filter(|id| !id.as_str().is_empty());
    let request = query::outbound_of(tables, &wish.from)?
        .filter(|request| answers.is_none_or(|id| *id == request.row.request_id));
    let Some(request) = request else {
        return took(vec![], Acceptance::Unsolicited);
    };
    let row = &request.row;
    let mut events: Vec<AgentEvent> = vec![];
    let (petname, known) = match admit(tables, &row.name, &wish.from, row.origin)? {
        Ok(Admission::Known(petname)) => (petname, true),
        Ok(Admission::New(added)) => {
            let petname = added.petname.clone();
            events.push(added.into());
            (petname, false)
        }
        Err(refusal) => return conflict(tables, &request, refusal),
    };
    let name = Some(petname.as_str());
    events.extend(end_request(
        tables,
        &wish.from,
        RequestEnd::Accepted,
        name,
        None,
    )?);
    let knock = query::inbound_of(tables, &wish.from)?.map(|inbound| WaitingKnock {
        request_id: inbound.row.request_id,
        ts: inbound.row.ts,
        reply_session: inbound.row.reply_session,
    });
    events.extend(end_knock(
        tables,
        &wish.from,
        KnockEnd::Settled,
        name,
        None,
    )?);
    let paired = Acceptance::Paired {
        petname,
        known,
        knock,
    };
    took(events, paired)
}

/// The key cannot be admitted as it was asked for. The request stays visible as a conflict; the
/// inbox is not held up by it.
fn conflict(tables: &dyn TableReader, request: &Outbound, refusal: AgentRefusal) -> Decided {
    let (reason, holder) = match refusal {
        AgentRefusal::PetnameTaken { key, .. } => (ConflictReason::NameTaken, Some(key)),
        AgentRefusal::TooManyPeers => (ConflictReason::ListFull, None),
        refusal => return Ok(Err(refusal)),
    };
    let row = &request.row;
    let conflicted = PairConflicted {
        key: request.key,
        request_id: row.request_id.clone(),
        name: row.name.clone(),
        session: row.session.clone(),
        reason,
        holder,
    };
    let mut events = vec![conflicted.into()];
    events.extend(withdraw(tables, &row.request_id, super::WITHDRAWN)?);
    let name = row.name.clone();
    took(events, Acceptance::Conflict { name, holder })
}

/// Admits a key that accepted, under a name that is free.
pub(super) fn resolve(
    tables: &dyn TableReader,
    key: &PublicKey,
    petname: &str,
    origin: Origin,
) -> Decided {
    if query::conflict_of(tables, key)?.is_none() {
        return refuse(PairingRefusal::NoConflict { key: *key });
    }
    let mut events: Vec<AgentEvent> = vec![];
    let petname = match granted!(admit(tables, petname, key, origin)?) {
        Admission::Known(petname) => petname,
        Admission::New(added) => {
            let petname = added.petname.clone();
            events.push(added.into());
            petname
        }
    };
    let name = Some(petname.as_str());
    events.extend(settle_conflict(tables, key, name, origin)?);
    events.extend(end_knock(tables, key, KnockEnd::Settled, name, None)?);
    reply(plain(events), PairingReply::Resolved { petname })
}
