//! Strangers' requests.

use super::command::{AcceptPair, AnswerKnock, Knock, PairingRefusal, PairingReply, TakeKnock};
use super::{Events, changed, end_knock, end_request, plain, refuse, reply, send, timely};
use crate::domain::View;
use crate::domain::decide::agent::outbox::Outgoing;
use crate::domain::decide::agent::policy::{Admission, admit};
use crate::domain::decide::agent::{Agent, Decided, granted};
use crate::domain::gate::Untimely;
use crate::domain::query::agent::{self as query, Inbound};
use crate::domain::tables::{TableError, TableReader};
use crate::event::agent::{
    AgentEvent, KnockAnswered, KnockEnd, KnockReceived, KnockResolved, MailKind, Origin, RequestEnd,
};
use crate::types::id::{MsgId, PublicKey};
use crate::types::limit::{
    KNOCK_RECORD_MS, KNOCK_SHARE_MS, MAX_PAIR_INBOUND, MAX_WAKING_KNOCKS, PAIR_ANSWER_AGAIN_MS,
    PAIR_ANSWER_EVERY_MS, PAIR_KEEPS_PLACE_MS,
};
use crate::types::time::UnixMillis;
use crate::wire::pair::claimed_name;

fn took(events: Vec<AgentEvent>, knock: Knock) -> Decided {
    reply(plain(events), PairingReply::Knock(knock))
}

/// Whether a request was decided, in this copy or one so close to it that it is no repetition. A
/// rejected request stays rejected, unless its sender was admitted later and asks again: the last
/// word of the operator counts.
fn is_decided(
    tables: &dyn TableReader,
    from: &PublicKey,
    request_id: &MsgId,
    ts: UnixMillis,
    peer: bool,
) -> Result<bool, TableError> {
    let row = query::answered(tables, from, request_id)?;
    Ok(row.is_some_and(|row| {
        // A peer that asks again has not got our answer.
        let pause = if row.accepted {
            PAIR_ANSWER_AGAIN_MS
        } else {
            1
        };
        !(peer && ts.since(row.ts) >= pause)
    }))
}

/// Whether a share of time is used up. A clock that was set back holds nobody off: nobody can be
/// further ahead than the share.
fn is_spent(until: UnixMillis, now: UnixMillis, cost: u64, share: u64) -> bool {
    let ahead = until.since(now);
    ahead > share.saturating_sub(cost) && ahead <= share
}

/// Whether nothing more of a waiting key is recorded for now.
fn is_too_fast(
    tables: &dyn TableReader,
    key: &PublicKey,
    now: UnixMillis,
) -> Result<bool, TableError> {
    let spent = query::pair_pace(tables, key)?.spent;
    Ok(is_spent(spent, now, KNOCK_RECORD_MS, KNOCK_SHARE_MS))
}

/// Whether a peer was answered a moment ago, whatever it asked then.
fn is_answered_lately(
    tables: &dyn TableReader,
    key: &PublicKey,
    now: UnixMillis,
) -> Result<bool, TableError> {
    let until = query::pair_pace(tables, key)?.answered;
    let cost = PAIR_ANSWER_EVERY_MS;
    Ok(is_spent(until, now, cost, 2 * cost))
}

pub(super) fn take(tables: &dyn TableReader, wish: &TakeKnock) -> Decided {
    if wish.from == wish.own {
        return took(vec![], Knock::Own);
    }
    let peer = query::peer_by_key(tables, &wish.from)?;
    match timely(wish.ts, wish.now, &wish.windows, peer.is_some()) {
        Ok(()) => {}
        Err(Untimely::Ahead { by_ms: ahead_ms }) => {
            return took(vec![], Knock::Future { ahead_ms });
        }
        Err(Untimely::TooOld { .. }) => return took(vec![], Knock::TooOld),
    }
    let decided = is_decided(
        tables,
        &wish.from,
        &wish.request_id,
        wish.ts,
        peer.is_some(),
    )?;
    if let Some(peer) = peer {
        let knock = Knock::AlreadyPeer {
            petname: peer.petname,
            answered: decided || is_answered_lately(tables, &wish.from, wish.now)?,
        };
        return took(vec![], knock);
    }
    if query::is_blocked(tables, &wish.from)? {
        return took(vec![], Knock::Blocked);
    }
    if decided {
        return took(vec![], Knock::Decided);
    }
    let waiting = query::inbound(tables)?;
    match waiting.iter().find(|inbound| inbound.key == wish.from) {
        Some(old) => repeated(tables, wish, old),
        None => first(wish, &waiting),
    }
}

fn received(wish: &TakeKnock, news: bool) -> KnockReceived {
    KnockReceived {
        key: wish.from,
        request_id: wish.request_id.clone(),
        name: claimed_name(&wish.name),
        session: wish.lease.session.clone(),
        reply_session: wish.reply_session.clone(),
        ts: wish.ts,
        news,
    }
}

/// A key that asks first takes a place in the list, and the oldest one's when there is none left,
/// unless that one came lately.
fn first(wish: &TakeKnock, waiting: &[Inbound]) -> Decided {
    let mut events: Vec<AgentEvent> = vec![];
    let oldest = waiting
        .first()
        .filter(|_| waiting.len() >= MAX_PAIR_INBOUND);
    // A clock that was set back protects nobody.
    let lately = |at: UnixMillis| at <= wish.now && wish.now.since(at) < PAIR_KEEPS_PLACE_MS;
    if oldest.is_some_and(|inbound| lately(inbound.row.first_at)) {
        return took(events, Knock::Crowded);
    }
    events.extend(oldest.map(|inbound| {
        KnockResolved {
            key: inbound.key,
            request_id: inbound.row.request_id.clone(),
            session: inbound.row.session.clone(),
            ts: inbound.row.ts,
            end: KnockEnd::Evicted,
            petname: None,
            origin: None,
        }
        .into()
    }));
    let news = waiting.len() < MAX_WAKING_KNOCKS;
    events.push(received(wish, news).into());
    took(events, Knock::Waiting { news })
}

/// A key that asks again has one request: the newest, whatever order they came in. That is no
/// news. Of one and the same request the newest name and route count. A key that asks too often is
/// not recorded any more: its last request stands.
fn repeated(tables: &dyn TableReader, wish: &TakeKnock, old: &Inbound) -> Decided {
    let row = &old.row;
    if row.request_id == wish.request_id {
        let again = received(wish, false);
        let differs = again.name != row.name
            || again.reply_session != row.reply_session
            || again.session != row.session;
        let newer = wish.ts > row.ts && differs;
        let events = if newer && !is_too_fast(tables, &wish.from, wish.now)? {
            vec![again.into()]
        } else {
            vec![]
        };
        return took(events, Knock::Known);
    }
    if (wish.ts, &wish.request_id) < (row.ts, &row.request_id) {
        return took(vec![], Knock::Older);
    }
    if is_too_fast(tables, &wish.from, wish.now)? {
        return took(vec![], Knock::Often);
    }
    let events = vec![received(wish, false).into()];
    took(events, Knock::Waiting { news: false })
}

/// Admission, the end of the request and the confirmation, or nothing of it.
pub(super) fn accept(view: &View<'_, Agent>, wish: &AcceptPair) -> Decided {
    let tables = view.tables;
    let Some(inbound) = query::inbound_of(tables, &wish.key)? else {
        return not_pending(tables, wish);
    };
    if inbound.row.request_id != wish.request_id {
        return refuse(PairingRefusal::RequestChanged {
            key: wish.key,
            request_id: inbound.row.request_id,
        });
    }
    let claimed = || inbound.petname.as_ref().map(ToString::to_string);
    let admission = match wish.petname.clone().or_else(claimed) {
        Some(name) => granted!(admit(tables, &name, &wish.key, wish.origin)?),
        None => match query::peer_by_key(tables, &wish.key)? {
            Some(peer) => Admission::Known(peer.petname),
            None => return refuse(PairingRefusal::NameNeeded { key: wish.key }),
        },
    };
    let mut events: Events = vec![];
    let (petname, known) = match admission {
        Admission::Known(petname) => (petname, true),
        Admission::New(added) => {
            let petname = added.petname.clone();
            events.push(AgentEvent::from(added).into());
            (petname, false)
        }
    };
    let by = Some(wish.origin);
    let name = Some(petname.as_str());
    events.extend(end_knock(tables, &wish.key, KnockEnd::Accepted, name, by)?.map(Into::into));
    // They asked us, and now hear of our acceptance: our own request is pointless.
    let settled = end_request(tables, &wish.key, RequestEnd::Settled, name, by)?;
    events.extend(plain(settled));
    events.extend(plain(super::request::settle_conflict(
        tables,
        &wish.key,
        name,
        wish.origin,
    )?));
    let mail = Outgoing {
        session: &inbound.row.session,
        msg_id: &wish.mail.msg_id,
        to: wish.key,
        to_session: &inbound.row.reply_session,
        kind: MailKind::PairAccept,
        task_id: None,
        status: None,
        in_reply_to: Some(&wish.request_id),
        ts: wish.mail.ts,
        body: &wish.mail.body,
        sha256: &wish.mail.sha256,
        relays: &wish.mail.relays,
    };
    let seq = granted!(send(view, &mut events, &mail)?);
    let accepted = PairingReply::Accepted {
        petname,
        known,
        seq: Some(seq),
    };
    reply(events, accepted)
}

/// Accepting twice, from two sessions perhaps, is accepting.
fn not_pending(tables: &dyn TableReader, wish: &AcceptPair) -> Decided {
    let answered = query::answered(tables, &wish.key, &wish.request_id)?;
    let peer = query::peer_by_key(tables, &wish.key)?;
    match (answered, peer) {
        (Some(row), Some(peer)) if row.accepted => {
            let accepted = PairingReply::Accepted {
                petname: peer.petname,
                known: true,
                seq: None,
            };
            reply(vec![], accepted)
        }
        _ => refuse(PairingRefusal::NotPending { key: wish.key }),
    }
}

pub(super) fn reject(
    tables: &dyn TableReader,
    key: &PublicKey,
    request_id: Option<&MsgId>,
    origin: Origin,
) -> Decided {
    let Some(inbound) = query::inbound_of(tables, key)? else {
        return refuse(PairingRefusal::NotPending { key: *key });
    };
    if request_id.is_some_and(|id| *id != inbound.row.request_id) {
        return refuse(PairingRefusal::RequestChanged {
            key: *key,
            request_id: inbound.row.request_id,
        });
    }
    let ended = end_knock(tables, key, KnockEnd::Rejected, None, Some(origin))?;
    changed(ended.into_iter().collect())
}

/// The side of an admitted key that asks has lost the admission, or never heard of it. Only a key
/// that is still admitted is answered, and a copy of a request that was answered is not.
pub(super) fn answer(view: &View<'_, Agent>, wish: &AnswerKnock) -> Decided {
    let tables = view.tables;
    let Some(peer) = query::peer_by_key(tables, &wish.key)? else {
        return refuse(PairingRefusal::NotAdmitted { key: wish.key });
    };
    if is_decided(tables, &wish.key, &wish.request_id, wish.knock_ts, true)?
        || is_answered_lately(tables, &wish.key, wish.now)?
    {
        return reply(vec![], PairingReply::Answered { seq: None });
    }
    let name = Some(peer.petname.as_str());
    let mut events: Events = vec![];
    events.extend(end_knock(tables, &wish.key, KnockEnd::Settled, name, None)?.map(Into::into));
    let answered = KnockAnswered {
        key: wish.key,
        request_id: wish.request_id.clone(),
        ts: wish.knock_ts,
        session: wish.lease.session.clone(),
    };
    events.push(AgentEvent::from(answered).into());
    let mail = Outgoing {
        session: &wish.lease.session,
        msg_id: &wish.mail.msg_id,
        to: wish.key,
        to_session: &wish.to_session,
        kind: MailKind::PairAccept,
        task_id: None,
        status: None,
        in_reply_to: Some(&wish.request_id),
        ts: wish.mail.ts,
        body: &wish.mail.body,
        sha256: &wish.mail.sha256,
        relays: &wish.mail.relays,
    };
    let seq = granted!(send(view, &mut events, &mail)?);
    reply(events, PairingReply::Answered { seq: Some(seq) })
}
