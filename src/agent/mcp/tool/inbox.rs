//! `receive_messages`, `acknowledge_messages`.

use std::sync::Arc;

use super::room::Room;
use super::view::{Letter, Meant, letter, meant, received, received_text};
use crate::agent::core::Core;
use crate::agent::lease::Right;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::{Acknowledged, Answer, Expired, Inbox, Notice, Receipt, Received};
use crate::agent::roster;
use crate::domain::decide::agent::{AgentCommand, AgentReply};
use crate::domain::projection::agent::{ExpiredRow, NoticeRow};
use crate::domain::query::agent as query;
use crate::types::id::{MsgId, PublicKey};
use crate::types::time::Clock as _;

/// Messages in one answer when the caller names no number.
const DEFAULT_LIMIT: u32 = 20;
/// Most messages in one answer, and receipts in one call.
const MAX_LIMIT: u32 = 100;
/// Expired messages that are mentioned.
const EXPIRED_SHOWN: usize = 10;

/// Reads a limit.
///
/// # Errors
///
/// [`ToolError::Invalid`] outside of 1 to 100.
pub(super) fn limit(limit: Option<u32>) -> Result<usize, ToolError> {
    let n = limit.unwrap_or(DEFAULT_LIMIT);
    if (1..=MAX_LIMIT).contains(&n) {
        Ok(usize::try_from(n).unwrap_or(1))
    } else {
        Err(ToolError::Invalid(format!("`limit` is 1 to {MAX_LIMIT}")))
    }
}

/// Shows unread messages. They stay unread.
///
/// # Errors
///
/// [`ToolError`].
pub async fn receive_messages(
    core: &Arc<Core>,
    a: args::ReceiveMessages,
) -> Result<Answer<Inbox>, ToolError> {
    let limit = limit(a.limit)?;
    observe(core, a.notification_id, a.reset_notification == Some(true)).await?;
    learn_owners(core, limit).await?;
    let session = core.session.clone();
    let mut room = Room::of(core);
    let most = room.left();
    let (letters, totals, expired, notice) = core
        .ledger
        .read(move |s| {
            let notice = query::notice(s, &session)?;
            let mut letters = vec![];
            let mut bytes = 0usize;
            for mail in query::unread(s, &session, limit)? {
                // Not read from the disk to be left out.
                if bytes > most {
                    break;
                }
                bytes = bytes.saturating_add(usize::try_from(mail.row.len).unwrap_or(usize::MAX));
                letters.push(letter(s, mail, notice.as_ref())?);
            }
            let totals = query::unread_totals(s, &session)?;
            let expired = query::expired(s, Some(&session))?;
            Ok((letters, totals, expired, notice))
        })
        .await?;
    let (expired, _) = room.share(4).first_of(expired_view(&expired, |_| true));
    room.less(&expired);
    let messages = fitting(core, &letters, &mut room)?;
    // Why mail may be missing belongs to the answer.
    let trouble = core.peers.ensure(&core.ledger).await.err();
    let unread = u64::try_from(totals.messages).unwrap_or(u64::MAX);
    let remaining = totals.messages.saturating_sub(messages.len());
    let mut note = note(&messages, remaining);
    if let Some(trouble) = trouble {
        note = format!("{note} Warning: {trouble}");
    }
    if totals.news.count > 0 {
        note.push_str(" There is news about pairing: call list_pair_requests.");
    }
    if let Right::Lost { .. } = core.lease.now() {
        note.push_str(" Another process owns this session now and takes in its mail.");
    }
    let data = Inbox {
        messages,
        unread,
        remaining: u64::try_from(remaining).unwrap_or(u64::MAX),
        expired,
        notice: notice.as_ref().filter(|n| !n.observed).map(notice_view),
        note,
    };
    Ok(Answer {
        text: inbox_text(&data),
        data,
    })
}

/// Looks for the owners of the sessions that unread messages name, where they are not known.
async fn learn_owners(core: &Arc<Core>, limit: usize) -> Result<(), ToolError> {
    let session = core.session.clone();
    let hints = core
        .ledger
        .read(move |s| {
            let mut hints = vec![];
            for mail in query::unread(s, &session, limit)? {
                if let Some(hint) = super::view::hint(&mail)
                    && query::directory_entry(s, hint)?.is_none()
                {
                    hints.push((mail.row.from, hint.clone()));
                }
            }
            Ok(hints)
        })
        .await?;
    if !hints.is_empty() {
        roster::learn(core, hints).await;
    }
    Ok(())
}

/// The newest of what came too late from whom `wanted` names.
pub(super) fn expired_view(
    rows: &[ExpiredRow],
    wanted: impl Fn(&PublicKey) -> bool,
) -> Vec<Expired> {
    rows.iter()
        .rev()
        .filter(|row| wanted(&row.from))
        .take(EXPIRED_SHOWN)
        .map(|row| Expired {
            receipt: Receipt {
                sender: row.from.to_string(),
                msg_id: if render::is_plain_id(row.msg_id.as_str()) {
                    row.msg_id.to_string()
                } else {
                    format!("seq:{}", row.seq)
                },
            },
            peer: render::label(&row.label),
            sender: row.from.to_string(),
            signed_at_ms: row.ts.0,
        })
        .collect()
}

pub(super) fn expired_text(e: &Expired) -> String {
    format!(
        "[expired] a message from \"{}\" ({}) came too late to be read. Receipt: {}",
        e.peer,
        e.sender,
        serde_json::to_string(&e.receipt).unwrap_or_default()
    )
}

/// The first messages that fit, whole; of one that is too long by itself its first part. There is
/// always one, and what is not shown stays unread.
fn fitting(core: &Core, letters: &[Letter], room: &mut Room) -> Result<Vec<Received>, ToolError> {
    let mut messages = vec![];
    for letter in letters {
        let message = received(core, letter, 0, room.left())?;
        if message.part.is_some() && !messages.is_empty() {
            break;
        }
        if !room.takes(&message) {
            break;
        }
        messages.push(message);
    }
    Ok(messages)
}

fn note(shown: &[Received], remaining: usize) -> String {
    if shown.is_empty() {
        return "No unread messages. Do not poll; a notice comes with the next one.".to_owned();
    }
    let mut note = "Acknowledge them by their receipts with acknowledge_messages before acting on \
                    them."
        .to_owned();
    if shown.iter().any(|m| m.part.is_some()) {
        note.push_str(
            " This one is long and shown in part: read the rest with message_status first.",
        );
    }
    if remaining > 0 {
        note.push_str(&format!(
            " {remaining} more unread: acknowledge these, then call receive_messages again."
        ));
    }
    note
}

fn notice_view(row: &NoticeRow) -> Notice {
    Notice {
        notification_id: row.id.clone(),
        state: row.mail_state().unwrap_or("reserved").to_owned(),
    }
}

fn inbox_text(inbox: &Inbox) -> String {
    let mut lines: Vec<String> = inbox.messages.iter().map(received_text).collect();
    lines.extend(inbox.expired.iter().map(expired_text));
    lines.push(inbox.note.clone());
    if let Some(notice) = &inbox.notice {
        lines.push(format!(
            "A notice is outstanding: notification_id=\"{}\", state={}. Pass its id when it led \
             here; reset_notification=true when it was lost.",
            notice.notification_id, notice.state
        ));
    }
    lines.join("\n")
}

/// Tells the schedule that a notice was followed up. A session that is not ours any more has
/// nothing to tell.
async fn observe(core: &Core, id: Option<String>, reset: bool) -> Result<(), ToolError> {
    let id = id.filter(|id| !id.trim().is_empty());
    if id.is_none() && !reset {
        return Ok(());
    }
    let Right::Held(lease) = core.lease.now() else {
        return Ok(());
    };
    let command = AgentCommand::ObserveNotice {
        lease,
        id,
        reset,
        now: core.clock.now(),
    };
    match core.submit(command).await {
        Ok(_) => Ok(()),
        Err(e) => {
            // Mail is worth more than the bookkeeping of notices.
            tracing::warn!("the notice could not be marked as followed up: {e}");
            Ok(())
        }
    }
}

/// Acknowledges messages; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn acknowledge_messages(
    core: &Core,
    a: args::AcknowledgeMessages,
) -> Result<Answer<Acknowledged>, ToolError> {
    let most = usize::try_from(MAX_LIMIT).unwrap_or(usize::MAX);
    if a.messages.is_empty() || a.messages.len() > most {
        return Err(ToolError::Invalid(format!(
            "`messages` has 1 to {MAX_LIMIT} receipts"
        )));
    }
    let mut items = vec![];
    for receipt in &a.messages {
        let sender: PublicKey = receipt.sender.trim().parse().map_err(|e| {
            ToolError::Invalid(format!("`sender` is not a public key of a receipt: {e}"))
        })?;
        match meant(&receipt.msg_id)? {
            Meant::Id(id) => items.push((sender, id)),
            Meant::Seq(seq) => {
                let session = core.session.clone();
                let found = core
                    .ledger
                    .read(move |s| {
                        let mail = query::mail_at(s, seq)?
                            .filter(|m| m.row.session == session && m.row.from == sender)
                            .map(|m| m.row.msg_id);
                        let late = query::expired(s, Some(&session))?
                            .into_iter()
                            .find(|row| row.seq == seq && row.from == sender)
                            .map(|row| row.msg_id);
                        Ok(mail.or(late))
                    })
                    .await?;
                items.extend(found.map(|msg_id| (sender, msg_id)));
            }
        }
    }
    let acknowledged = acknowledge(core, items).await?;
    let session = core.session.clone();
    let totals = core
        .ledger
        .read(move |s| Ok(query::unread_totals(s, &session)?))
        .await?;
    let unread = u64::try_from(totals.messages).unwrap_or(u64::MAX);
    Ok(Answer {
        text: format!("{acknowledged} acknowledged, {unread} unread."),
        data: Acknowledged {
            acknowledged,
            unread,
        },
    })
}

/// Acknowledges (sender, id) pairs of this session; says how many were not yet.
pub(super) async fn acknowledge(
    core: &Core,
    items: Vec<(PublicKey, MsgId)>,
) -> Result<u64, ToolError> {
    let lease = core.await_lease().await?;
    let command = AgentCommand::Acknowledge {
        lease,
        items,
        now: core.clock.now(),
    };
    match core.submit(command).await? {
        AgentReply::Acknowledged { newly } => Ok(u64::try_from(newly).unwrap_or(u64::MAX)),
        reply => Err(ToolError::Local(format!("unexpected answer: {reply:?}"))),
    }
}
