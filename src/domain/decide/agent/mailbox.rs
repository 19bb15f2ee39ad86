//! Arriving messages: the steps of the gate that need rows, and what the reader does with them.
//!
//! Order as in the public program: admitted, fresh, not seen. Signature and recipient were checked
//! before. A message that fails a step uses up nothing.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::outbox::body_len;
use super::{
    Agent, AgentCommand, AgentRefusal, AgentReply, Decided, Receive, Reception, Window, done,
    granted, nothing, notice, optional, refuse,
};
use crate::domain::gate::{Untimely, check_time};
use crate::domain::projection::agent::{ExpiredRow, ReplayRow, key};
use crate::domain::query::agent::{
    floor, is_seen, mail_of, mailbox_entry, peer_by_key, unread_totals,
};
use crate::domain::tables::{TableError, TableId, TableReader, get_row, scan_rows};
use crate::domain::{Decision, NewEvent, View};
use crate::event::agent::{
    Acknowledged, AgentEvent, ExpiredDismissed, Received, ReceivedExpired, ReplaySeen,
};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::{
    MAX_ACKS_PER_RECORD, MAX_EXPIRED_ROWS, MAX_HTTP_BODY_BYTES, MAX_TASK_ID_BYTES,
    MAX_UNREAD_BYTES, MAX_UNREAD_MESSAGES,
};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// How an unlisted message of our own key is labelled.
pub(super) const OWN_LABEL: &str = "self";

/// The verdict of the gate's last steps.
enum Gate {
    /// It may come in, under this label.
    Pass(String),
    /// It may not; a message of a peer with this label that came too late.
    TooOld(String),
    /// It may not.
    Reject(Reception),
}

/// What the gate needs to know of a message.
struct Arrival<'a> {
    own: &'a PublicKey,
    from: &'a PublicKey,
    msg_id: &'a MsgId,
    ts: UnixMillis,
    window: Window,
    now: UnixMillis,
}

fn gate(tables: &dyn TableReader, arrival: &Arrival<'_>) -> Result<Gate, TableError> {
    let label = match peer_by_key(tables, arrival.from)? {
        Some(peer) => peer.petname,
        None if arrival.from == arrival.own => OWN_LABEL.to_owned(),
        None => return Ok(Gate::Reject(Reception::NotAllowlisted)),
    };
    let Window { past_ms, future_ms } = arrival.window;
    match check_time(arrival.ts, arrival.now, past_ms, future_ms) {
        Err(Untimely::Ahead { by_ms: ahead_ms }) => {
            return Ok(Gate::Reject(Reception::Future { ahead_ms }));
        }
        Err(Untimely::TooOld { .. }) => return Ok(Gate::TooOld(label)),
        Ok(()) => {}
    }
    if floor(tables)?.is_some_and(|floor| arrival.ts <= floor) {
        return Ok(Gate::TooOld(label));
    }
    if known(tables, arrival)? {
        return Ok(Gate::Reject(Reception::Replay));
    }
    Ok(Gate::Pass(label))
}

/// Whether the message was seen. The mailbox remembers longer than the replay rows: a message that
/// was signed anew under its old id is recognised even after that id was forgotten.
fn known(tables: &dyn TableReader, arrival: &Arrival<'_>) -> Result<bool, TableError> {
    Ok(is_seen(tables, arrival.from, arrival.msg_id)?
        || mail_of(tables, arrival.from, arrival.msg_id)?.is_some())
}

fn received(events: Vec<AgentEvent>, reception: Reception) -> Decided {
    done(events, AgentReply::Received(reception))
}

pub(super) fn receive(view: &View<'_, Agent>, wish: &Receive) -> Decided {
    // Whatever fits a relay is taken: another sender may put less around a message than we do.
    let len = granted!(body_len(&wish.body, MAX_HTTP_BODY_BYTES));
    let task_id = granted!(optional(
        "task_id",
        wish.task_id.as_ref(),
        MAX_TASK_ID_BYTES
    ));
    let arrival = Arrival {
        own: &wish.own,
        from: &wish.from,
        msg_id: &wish.msg_id,
        ts: wish.ts,
        window: wish.window,
        now: wish.now,
    };
    let session = &wish.lease.session;
    let label = match gate(view.tables, &arrival)? {
        Gate::Pass(label) => label,
        Gate::TooOld(label) => return too_old(view.tables, session, &arrival, label, len),
        Gate::Reject(reception) => return received(vec![], reception),
    };
    let totals = unread_totals(view.tables, session)?;
    if totals.messages >= MAX_UNREAD_MESSAGES || totals.bytes + u64::from(len) > MAX_UNREAD_BYTES {
        return refuse(AgentRefusal::MailboxFull {
            messages: totals.messages,
            bytes: totals.bytes,
        });
    }
    let event = Received {
        session: session.clone(),
        from: wish.from,
        msg_id: wish.msg_id.clone(),
        ts: wish.ts,
        kind: wish.kind,
        task_id,
        status: wish.status,
        in_reply_to: wish
            .in_reply_to
            .clone()
            .filter(|id| !id.as_str().is_empty()),
        reply_to: wish.reply_to.clone(),
        label: label.clone(),
        len,
        sha256: wish.sha256,
    };
    let reception = Reception::Stored {
        seq: view.next,
        label,
    };
    Ok(Ok(Decision {
        events: vec![NewEvent {
            event: event.into(),
            body: Some(Arc::clone(&wish.body)),
        }],
        reply: AgentReply::Received(reception),
    }))
}

/// A queue is read in its order, also where a command of the middle is refused and comes again.
pub(super) fn receive_after(view: &View<'_, Agent>, after: &MsgId, wish: &Receive) -> Decided {
    let before = key::sender_msg(&wish.from, after);
    let here = is_seen(view.tables, &wish.from, after)?
        || mail_of(view.tables, &wish.from, after)?.is_some()
        || view.tables.get(TableId::Expired, &before)?.is_some();
    if !here {
        return refuse(AgentRefusal::OutOfTurn);
    }
    receive(view, wish)
}

/// Records what came too late, once, and only when it was not read in time by another copy.
fn too_old(
    tables: &dyn TableReader,
    session: &SessionId,
    arrival: &Arrival<'_>,
    label: String,
    len: u32,
) -> Decided {
    let key = key::sender_msg(arrival.from, arrival.msg_id);
    let told = tables.get(TableId::Expired, &key)?.is_some() || known(tables, arrival)?;
    let event = ReceivedExpired {
        session: session.clone(),
        from: *arrival.from,
        msg_id: arrival.msg_id.clone(),
        ts: arrival.ts,
        label,
        len,
    };
    let events = if told { vec![] } else { vec![event.into()] };
    received(events, Reception::TooOld { recorded: !told })
}

pub(super) fn mark_seen(tables: &dyn TableReader, command: &AgentCommand) -> Decided {
    let AgentCommand::MarkSeen {
        lease,
        own,
        from,
        msg_id,
        ts,
        window,
        now,
    } = command
    else {
        return nothing(AgentReply::Done { changed: false });
    };
    let arrival = Arrival {
        own,
        from,
        msg_id,
        ts: *ts,
        window: *window,
        now: *now,
    };
    match gate(tables, &arrival)? {
        Gate::Pass(_) => {
            let event = ReplaySeen {
                session: lease.session.clone(),
                from: *from,
                msg_id: msg_id.clone(),
                ts: *ts,
            };
            received(vec![event.into()], Reception::Seen)
        }
        Gate::TooOld(_) => received(vec![], Reception::TooOld { recorded: false }),
        Gate::Reject(reception) => received(vec![], reception),
    }
}

pub(super) fn acknowledge(
    tables: &dyn TableReader,
    session: &SessionId,
    items: &[(PublicKey, MsgId)],
) -> Decided {
    let mut seqs: Vec<Seq> = vec![];
    let mut late = BTreeSet::new();
    for (from, msg_id) in items.iter().take(MAX_ACKS_PER_RECORD) {
        if late.len() < MAX_EXPIRED_ROWS && is_expired(tables, session, from, msg_id)? {
            late.insert((*from, msg_id.clone()));
        }
        let mail = mailbox_entry(tables, session, from, msg_id)?;
        seqs.extend(
            mail.filter(|mail| mail.row.acknowledged_at.is_none())
                .map(|mail| mail.seq),
        );
    }
    seqs.sort_unstable();
    seqs.dedup();
    let newly = seqs.len() + late.len();
    let mut events: Vec<AgentEvent> = vec![];
    if !seqs.is_empty() {
        events.extend(notice::after_acknowledge(tables, session, &seqs)?);
        let event = Acknowledged {
            session: session.clone(),
            seqs,
        };
        events.insert(0, event.into());
    }
    if !late.is_empty() {
        let event = ExpiredDismissed {
            session: session.clone(),
            items: late.into_iter().collect(),
        };
        events.push(event.into());
    }
    done(events, AgentReply::Acknowledged { newly })
}

/// Whether a message of this session is listed as one that came too late.
fn is_expired(
    tables: &dyn TableReader,
    session: &SessionId,
    from: &PublicKey,
    msg_id: &MsgId,
) -> Result<bool, TableError> {
    let key = key::sender_msg(from, msg_id);
    let row: Option<ExpiredRow> = get_row(tables, TableId::Expired, &key)?;
    Ok(row.is_some_and(|row| row.session == *session))
}

/// The newest signed time among the ids that may be forgotten. The floor rises to that and no
/// further, so that a clock that ran ahead for a while does not shut out the mail of months.
pub(super) fn newest_forgettable(
    tables: &dyn TableReader,
    before: UnixMillis,
) -> Result<Option<UnixMillis>, TableError> {
    let lowest = floor(tables)?;
    let mut newest: Option<UnixMillis> = None;
    scan_rows::<ReplayRow>(tables, TableId::Replay, &[], |_, row| {
        if row.ts <= before {
            newest = newest.max(Some(row.ts));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(newest.filter(|newest| lowest.is_none_or(|lowest| *newest > lowest)))
}
