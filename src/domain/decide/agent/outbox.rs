//! Outgoing messages.

use std::sync::Arc;

use super::{
    Agent, AgentCommand, AgentRefusal, AgentReply, Decided, QueueMessage, changed, cut, granted,
    optional, refuse,
};
use crate::domain::projection::agent::{OutboxRow, RelayRow, RelayState, Sent};
use crate::domain::query::agent::{outbox_at, outbox_entry, outbox_totals};
use crate::domain::tables::{TableError, TableReader};
use crate::domain::{Decision, NewEvent, View};
use crate::event::agent::{
    AgentEvent, MailKind, MailStatus, OutboxAccepted, OutboxAttempted, OutboxQueued, OutboxRefused,
    OutboxResigned,
};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::{
    MAX_MESSAGE_BYTES, MAX_OUTBOX_BYTES, MAX_OUTBOX_MESSAGES, MAX_OUTBOX_PER_RECIPIENT,
    MAX_REASON_BYTES, MAX_RELAY_URL_BYTES, MAX_RELAYS, MAX_TASK_ID_BYTES,
};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// The length of a message's body, if it has at most `max` bytes.
pub(super) fn body_len(body: &[u8], max: usize) -> Result<u32, AgentRefusal> {
    let len = body.len();
    u32::try_from(len)
        .ok()
        .filter(|_| len <= max)
        .ok_or(AgentRefusal::MessageTooLarge { len })
}

fn check_relays(relays: &[String]) -> Result<(), AgentRefusal> {
    let count_ok = (1..=MAX_RELAYS).contains(&relays.len());
    let texts_ok = relays
        .iter()
        .all(|url| !url.is_empty() && url.len() <= MAX_RELAY_URL_BYTES);
    if count_ok && texts_ok {
        Ok(())
    } else {
        Err(AgentRefusal::Relays)
    }
}

/// A signed message about to enter the outbox.
pub(super) struct Outgoing<'a> {
    pub(super) session: &'a SessionId,
    pub(super) msg_id: &'a MsgId,
    pub(super) to: PublicKey,
    pub(super) to_session: &'a SessionId,
    pub(super) kind: MailKind,
    pub(super) task_id: Option<&'a String>,
    pub(super) status: Option<MailStatus>,
    pub(super) in_reply_to: Option<&'a MsgId>,
    pub(super) ts: UnixMillis,
    pub(super) body: &'a Arc<[u8]>,
    pub(super) sha256: &'a [u8; 32],
    pub(super) relays: &'a [String],
}

/// The relays of a message as they are stored.
pub(super) fn sorted_relays(relays: &[String]) -> Result<Vec<String>, AgentRefusal> {
    let mut relays = relays.to_vec();
    relays.sort();
    relays.dedup();
    check_relays(&relays)?;
    Ok(relays)
}

/// The event with which a message enters the outbox, if there is room for it.
pub(super) fn enter(
    tables: &dyn TableReader,
    mail: &Outgoing<'_>,
) -> Result<Result<NewEvent<AgentEvent>, AgentRefusal>, TableError> {
    let len = granted!(body_len(mail.body, MAX_MESSAGE_BYTES));
    let relays = granted!(sorted_relays(mail.relays));
    let task_id = granted!(optional("task_id", mail.task_id, MAX_TASK_ID_BYTES));
    if outbox_entry(tables, mail.msg_id)?.is_some() {
        return Ok(Err(AgentRefusal::DuplicateMessage {
            msg_id: mail.msg_id.clone(),
        }));
    }
    let totals = outbox_totals(tables, &mail.to)?;
    if totals.messages >= MAX_OUTBOX_MESSAGES || totals.bytes + u64::from(len) > MAX_OUTBOX_BYTES {
        return Ok(Err(AgentRefusal::OutboxFull {
            messages: totals.messages,
            bytes: totals.bytes,
        }));
    }
    if totals.to_recipient >= MAX_OUTBOX_PER_RECIPIENT {
        return Ok(Err(AgentRefusal::RecipientFull {
            messages: totals.to_recipient,
        }));
    }
    let queued = OutboxQueued {
        session: mail.session.clone(),
        msg_id: mail.msg_id.clone(),
        to: mail.to,
        to_session: mail.to_session.clone(),
        kind: mail.kind,
        task_id,
        status: mail.status,
        in_reply_to: mail
            .in_reply_to
            .cloned()
            .filter(|id| !id.as_str().is_empty()),
        ts: mail.ts,
        len,
        sha256: *mail.sha256,
        relays,
    };
    Ok(Ok(NewEvent {
        event: queued.into(),
        body: Some(Arc::clone(mail.body)),
    }))
}

pub(super) fn queue(view: &View<'_, Agent>, wish: &QueueMessage) -> Decided {
    let mail = Outgoing {
        session: &wish.lease.session,
        msg_id: &wish.msg_id,
        to: wish.to,
        to_session: &wish.to_session,
        kind: wish.kind,
        task_id: wish.task_id.as_ref(),
        status: wish.status,
        in_reply_to: wish.in_reply_to.as_ref(),
        ts: wish.ts,
        body: &wish.body,
        sha256: &wish.sha256,
        relays: &wish.relays,
    };
    let queued = granted!(enter(view.tables, &mail)?);
    Ok(Ok(Decision {
        events: vec![queued],
        reply: AgentReply::Queued { seq: view.next },
    }))
}

/// Ends what is left of a message on its way: it is not offered to a relay any more. A relay that
/// has it keeps it.
pub(super) fn withdraw(
    tables: &dyn TableReader,
    msg_id: &MsgId,
    reason: &str,
) -> Result<Vec<AgentEvent>, TableError> {
    let Some(mail) = outbox_entry(tables, msg_id)? else {
        return Ok(vec![]);
    };
    let waits = |relay: &&RelayRow| matches!(relay.state, RelayState::Waiting { .. });
    let events = mail.row.relays.iter().filter(waits).map(|relay| {
        OutboxRefused {
            message: mail.seq,
            relay: relay.url.clone(),
            status: 0,
            reason: reason.to_owned(),
        }
        .into()
    });
    Ok(events.collect())
}

/// The row of a message and its state on a relay. A relay that the message did not know joins it.
fn find(
    tables: &dyn TableReader,
    seq: Seq,
    relay: &str,
) -> Result<Result<(OutboxRow, RelayState), AgentRefusal>, TableError> {
    let Some(mail) = outbox_at(tables, seq)? else {
        return Ok(Err(AgentRefusal::NoSuchMessage { seq }));
    };
    let known = mail.row.relay(relay).cloned();
    let joins = !relay.is_empty()
        && relay.len() <= MAX_RELAY_URL_BYTES
        && mail.row.relays.len() < MAX_RELAYS;
    Ok(match known {
        Some(state) => Ok((mail.row, state)),
        None if joins => Ok((mail.row, RelayState::untried())),
        None => Err(AgentRefusal::Relays),
    })
}

/// Decides what a relay's answer changes. A relay that took a message has it, whatever is heard
/// later; an answer that a sibling recorded before changes nothing.
pub(super) fn record(tables: &dyn TableReader, command: &AgentCommand) -> Decided {
    let event: Option<AgentEvent> = match command {
        AgentCommand::RecordAttempt {
            msg_seq,
            relay,
            attempt,
            error,
            detail,
            next_at,
            ..
        } => {
            let (_, state) = granted!(find(tables, *msg_seq, relay)?);
            let newer =
                matches!(state, RelayState::Waiting { attempts, .. } if *attempt > attempts);
            newer.then(|| {
                OutboxAttempted {
                    message: *msg_seq,
                    relay: relay.clone(),
                    attempt: *attempt,
                    error: *error,
                    detail: cut(detail, MAX_REASON_BYTES),
                    next_at: *next_at,
                }
                .into()
            })
        }
        AgentCommand::RecordAccepted {
            msg_seq,
            relay,
            dropped,
            ..
        } => {
            let (_, state) = granted!(find(tables, *msg_seq, relay)?);
            let news = !matches!(state, RelayState::Accepted { .. });
            news.then(|| {
                OutboxAccepted {
                    message: *msg_seq,
                    relay: relay.clone(),
                    dropped: *dropped,
                }
                .into()
            })
        }
        AgentCommand::RecordRefused {
            msg_seq,
            relay,
            status,
            reason,
            ..
        } => {
            let (_, state) = granted!(find(tables, *msg_seq, relay)?);
            let news = matches!(state, RelayState::Waiting { .. });
            news.then(|| {
                OutboxRefused {
                    message: *msg_seq,
                    relay: relay.clone(),
                    status: *status,
                    reason: cut(reason, MAX_REASON_BYTES),
                }
                .into()
            })
        }
        _ => None,
    };
    changed(event)
}

pub(super) fn resign(tables: &dyn TableReader, command: &AgentCommand) -> Decided {
    let AgentCommand::Resign {
        msg_seq,
        replaces,
        ts,
        body,
        sha256,
        ..
    } = command
    else {
        return changed(None);
    };
    let len = granted!(body_len(body, MAX_MESSAGE_BYTES));
    let Some(mail) = outbox_at(tables, *msg_seq)? else {
        return refuse(AgentRefusal::NoSuchMessage { seq: *msg_seq });
    };
    match mail.row.sent() {
        Sent::Accepted => return refuse(AgentRefusal::AlreadyAccepted),
        Sent::Refused => return changed(None),
        Sent::Pending if mail.row.body != *replaces => return changed(None),
        Sent::Pending => {}
    }
    let resigned = OutboxResigned {
        message: *msg_seq,
        replaced: mail.row.body,
        ts: *ts,
        len,
        sha256: *sha256,
    };
    Ok(Ok(Decision {
        events: vec![NewEvent {
            event: resigned.into(),
            body: Some(Arc::clone(body)),
        }],
        reply: AgentReply::Done { changed: true },
    }))
}
