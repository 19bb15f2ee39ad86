//! How strangers become peers.
//!
//! Trust changes by an operator's decision only: accepting somebody's request, or making one that
//! is then accepted. Either way admission, the end of the request and the message that tells the
//! other side are one decision, so no half of it can be left behind.
//!
//! A name never moves: a key that is admitted keeps its petname, a petname keeps its key, and what
//! does not fit becomes a conflict for the operator. What a stranger sends is bounded in number and
//! length, wakes nobody more than a few times, and is forgotten by itself.
//!
//! - [`knock`]: their requests. [`request`]: ours. [`command`]: wishes, answers, refusals.

pub(super) mod command;
mod knock;
mod request;

use command::{PairingCommand, PairingRefusal, PairingReply};

use super::outbox::{Outgoing, enter, withdraw};
use super::{Agent, AgentRefusal, AgentReply, Decided, granted, notice};
use crate::domain::gate::{Untimely, Windows, check_time};
use crate::domain::query::agent as query;
use crate::domain::tables::{TableError, TableReader};
use crate::domain::{Decision, NewEvent, View};
use crate::event::agent::{
    AgentEvent, ConsentDeclined, KeyBlocked, KeyUnblocked, KnockEnd, KnockResolved, MailKind,
    Origin, PairNewsSeen, PairRequestEnded, RequestEnd,
};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{MAX_BLOCKED_KEYS, MAX_OUTBOX_MESSAGES, PAIR_TTL_MS};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// The reason in the outbox of a request that was answered or called off before it was sent.
const WITHDRAWN: &str = "withdrawn";

/// Events of a decision so far.
type Events = Vec<NewEvent<AgentEvent>>;

fn reply(events: Events, reply: PairingReply) -> Decided {
    Ok(Ok(Decision {
        events,
        reply: AgentReply::Pairing(reply),
    }))
}

fn plain(events: Vec<AgentEvent>) -> Events {
    events.into_iter().map(NewEvent::from).collect()
}

fn changed(events: Vec<AgentEvent>) -> Decided {
    let changed = !events.is_empty();
    reply(plain(events), PairingReply::Changed { changed })
}

fn refuse(refusal: PairingRefusal) -> Decided {
    Ok(Err(refusal.into()))
}

/// Adds a message to a decision; gives its position.
fn send(
    view: &View<'_, Agent>,
    events: &mut Events,
    mail: &Outgoing<'_>,
) -> Result<Result<Seq, AgentRefusal>, TableError> {
    let queued = granted!(enter(view.tables, mail)?);
    let seq = Seq(view.next.0.saturating_add(events.len() as u64));
    events.push(queued);
    Ok(Ok(seq))
}

/// Whether a pairing message is fresh: peers may sleep longer than strangers.
fn timely(ts: UnixMillis, now: UnixMillis, windows: &Windows, peer: bool) -> Result<(), Untimely> {
    let past_ms = if peer {
        windows.past_peer_ms
    } else {
        windows.past_stranger_ms
    };
    check_time(ts, now, past_ms, windows.future_ms)
}

/// Ends our request to a key, if there is one, and what is left of it in the outbox.
fn end_request(
    tables: &dyn TableReader,
    key: &PublicKey,
    end: RequestEnd,
    petname: Option<&str>,
    origin: Option<Origin>,
) -> Result<Vec<AgentEvent>, TableError> {
    let Some(request) = query::outbound_of(tables, key)? else {
        return Ok(vec![]);
    };
    let mut events = withdraw(tables, &request.row.request_id, WITHDRAWN)?;
    let ended = PairRequestEnded {
        key: *key,
        request_id: request.row.request_id,
        session: request.row.session,
        end,
        petname: petname.map(str::to_owned),
        origin,
    };
    events.insert(0, ended.into());
    Ok(events)
}

/// What is not sent any more to a key that is revoked: our request to it, and the confirmation of
/// an admission that is over.
pub(super) fn call_off(
    tables: &dyn TableReader,
    key: &PublicKey,
    origin: Origin,
) -> Result<Vec<AgentEvent>, TableError> {
    let mut events = end_request(tables, key, RequestEnd::Cancelled, None, Some(origin))?;
    for mail in query::outbox_open(tables, None, MAX_OUTBOX_MESSAGES)? {
        if mail.row.to == *key && mail.row.kind == MailKind::PairAccept {
            events.extend(withdraw(tables, &mail.row.msg_id, WITHDRAWN)?);
        }
    }
    Ok(events)
}

/// Ends the request of a key, if there is one.
fn end_knock(
    tables: &dyn TableReader,
    key: &PublicKey,
    end: KnockEnd,
    petname: Option<&str>,
    origin: Option<Origin>,
) -> Result<Option<AgentEvent>, TableError> {
    Ok(query::inbound_of(tables, key)?.map(|inbound| {
        KnockResolved {
            key: *key,
            request_id: inbound.row.request_id,
            session: inbound.row.session,
            ts: inbound.row.ts,
            end,
            petname: petname.map(str::to_owned),
            origin,
        }
        .into()
    }))
}

pub(super) fn decide(view: &View<'_, Agent>, command: &PairingCommand) -> Decided {
    let tables = view.tables;
    match command {
        PairingCommand::Request(wish) => request::ask(view, wish),
        PairingCommand::TakeKnock(wish) => knock::take(tables, wish),
        PairingCommand::Accept(wish) => knock::accept(view, wish),
        PairingCommand::Reject {
            key,
            request_id,
            origin,
            ..
        } => knock::reject(tables, key, request_id.as_ref(), *origin),
        PairingCommand::Cancel { key, origin, .. } => request::cancel(tables, key, *origin),
        PairingCommand::Answer(wish) => knock::answer(view, wish),
        PairingCommand::TakeAcceptance(wish) => request::accepted(tables, wish),
        PairingCommand::ResolveConflict {
            key,
            petname,
            origin,
            ..
        } => request::resolve(tables, key, petname, *origin),
        PairingCommand::Block { key, origin, .. } => block(tables, key, *origin),
        PairingCommand::Unblock { key, origin, .. } => unblock(tables, key, *origin),
        PairingCommand::SeeNews { lease, up_to, .. } => see(tables, &lease.session, *up_to),
        PairingCommand::Expire { now } => expire(tables, *now),
        PairingCommand::Decline {
            lease,
            question,
            key,
            ..
        } => changed(vec![
            ConsentDeclined {
                session: lease.session.clone(),
                question: *question,
                key: *key,
            }
            .into(),
        ]),
    }
}

fn block(tables: &dyn TableReader, key: &PublicKey, origin: Origin) -> Decided {
    if let Some(peer) = query::peer_by_key(tables, key)? {
        return refuse(PairingRefusal::Admitted {
            key: *key,
            petname: peer.petname,
        });
    }
    let blocked = query::blocked(tables)?;
    if blocked.iter().any(|row| row.key == *key) {
        return changed(vec![]);
    }
    if blocked.len() >= MAX_BLOCKED_KEYS {
        return refuse(PairingRefusal::TooManyBlocked);
    }
    let mut events = vec![KeyBlocked { key: *key, origin }.into()];
    let by = Some(origin);
    events.extend(end_knock(tables, key, KnockEnd::Blocked, None, by)?);
    events.extend(end_request(tables, key, RequestEnd::Blocked, None, by)?);
    events.extend(request::drop_conflict(tables, key, origin)?);
    changed(events)
}

fn unblock(tables: &dyn TableReader, key: &PublicKey, origin: Origin) -> Decided {
    let blocked = query::is_blocked(tables, key)?;
    let event = KeyUnblocked { key: *key, origin };
    changed(blocked.then(|| event.into()).into_iter().collect())
}

/// What was seen is no news any more, and a notice that spoke for nothing else is followed up.
fn see(tables: &dyn TableReader, session: &SessionId, up_to: Seq) -> Decided {
    let news = query::news(tables, session)?;
    if !news.iter().any(|news| news.seq <= up_to) {
        return changed(vec![]);
    }
    let seen = PairNewsSeen {
        session: session.clone(),
        up_to,
    };
    let mut events = vec![seen.into()];
    events.extend(notice::after_news(tables, session, up_to)?);
    changed(events)
}

/// Ends what waits for too long. A clock that stands before a request's time ends nothing.
fn expire(tables: &dyn TableReader, now: UnixMillis) -> Decided {
    let old = |at: UnixMillis| now.since(at) >= PAIR_TTL_MS;
    let mut events = vec![];
    let (mut inbound, mut outbound) = (0, 0);
    for knock in query::inbound(tables)? {
        if old(knock.row.at) {
            events.extend(end_knock(
                tables,
                &knock.key,
                KnockEnd::Expired,
                None,
                None,
            )?);
            inbound += 1;
        }
    }
    for request in query::outbound(tables)? {
        if old(request.row.at) {
            let end = RequestEnd::Expired;
            events.extend(end_request(tables, &request.key, end, None, None)?);
            outbound += 1;
        }
    }
    reply(plain(events), PairingReply::Ended { inbound, outbound })
}
