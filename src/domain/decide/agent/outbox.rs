//! Outgoing messages.

use std::sync::Arc;

use super::{
    Agent, AgentCommand, AgentRefusal, AgentReply, Decided, QueueMessage, changed, cut, granted,
    optional, refuse,
};
use crate::domain::projection::agent::{OutboxRow, RelayState, Sent};
use crate::domain::query::agent::{outbox_at, outbox_entry, outbox_totals};
use crate::domain::tables::{TableError, TableReader};
use crate::domain::{Decision, NewEvent, View};
use crate::event::agent::{
    AgentEvent, OutboxAccepted, OutboxAttempted, OutboxQueued, OutboxRefused, OutboxResigned,
};
use crate::types::limit::{
    MAX_MESSAGE_BYTES, MAX_OUTBOX_BYTES, MAX_OUTBOX_MESSAGES, MAX_OUTBOX_PER_RECIPIENT,
    MAX_REASON_BYTES, MAX_RELAY_URL_BYTES, MAX_RELAYS, MAX_TASK_ID_BYTES,
};
use crate::types::seq::Seq;

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

pub(super) fn queue(view: &View<'_, Agent>, wish: &QueueMessage) -> Decided {
    let len = granted!(body_len(&wish.body, MAX_MESSAGE_BYTES));
    let mut relays = wish.relays.clone();
    relays.sort();
    relays.dedup();
    granted!(check_relays(&relays));
    let task_id = granted!(optional(
        "task_id",
        wish.task_id.as_ref(),
        MAX_TASK_ID_BYTES
    ));
    if outbox_entry(view.tables, &wish.msg_id)?.is_some() {
        return refuse(AgentRefusal::DuplicateMessage {
            msg_id: wish.msg_id.clone(),
        });
    }
    let totals = outbox_totals(view.tables, &wish.to)?;
    if totals.messages >= MAX_OUTBOX_MESSAGES || totals.bytes + u64::from(len) > MAX_OUTBOX_BYTES {
        return refuse(AgentRefusal::OutboxFull {
            messages: totals.messages,
            bytes: totals.bytes,
        });
    }
    if totals.to_recipient >= MAX_OUTBOX_PER_RECIPIENT {
        return refuse(AgentRefusal::RecipientFull {
            messages: totals.to_recipient,
        });
    }
    let queued = OutboxQueued {
        session: wish.lease.session.clone(),
        msg_id: wish.msg_id.clone(),
        to: wish.to,
        to_session: wish.to_session.clone(),
        kind: wish.kind,
        task_id,
        status: wish.status,
        in_reply_to: wish
            .in_reply_to
            .clone()
            .filter(|id| !id.as_str().is_empty()),
        ts: wish.ts,
        len,
        sha256: wish.sha256,
        relays,
    };
    Ok(Ok(Decision {
        events: vec![NewEvent {
            event: queued.into(),
            body: Some(Arc::clone(&wish.body)),
        }],
        reply: AgentReply::Queued { seq: view.next },
    }))
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
