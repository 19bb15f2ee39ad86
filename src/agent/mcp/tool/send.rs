//! `send_message`, `message_status`.

use std::sync::Arc;

use super::room::Room;
use super::view::{
    Meant, letter, meant, outgoing_text, outgoing_with, received, received_text, shown_session,
    text_at,
};
use crate::agent::core::Core;
use crate::agent::directory::{Address, Presence, Who, resolve};
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::{Answer, Queued, Status};
use crate::agent::poll::mail_status;
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{AgentCommand, AgentReply, QueueMessage};
use crate::domain::machine::destination::Destination;
use crate::domain::machine::presence::age_text;
use crate::domain::projection::agent::{Sent, TaskState};
use crate::domain::query::agent as query;
use crate::event::agent::MailKind;
use crate::types::id::{MsgId, PublicKey};
use crate::types::limit::{MAX_MESSAGE_BYTES, MAX_TASK_ID_BYTES};
use crate::types::time::Clock as _;
use crate::wire::envelope::{Draft, Message, MessageKind, TaskStatus};

pub(super) fn invalid<T>(text: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::Invalid(text.into()))
}

fn parse_status(text: Option<&str>) -> Result<Option<TaskStatus>, ToolError> {
    let Some(text) = text.map(str::trim).filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    let all = [
        TaskStatus::Update,
        TaskStatus::NeedsInput,
        TaskStatus::Result,
        TaskStatus::Failed,
        TaskStatus::Canceled,
    ];
    match all.into_iter().find(|s| s.as_str() == text) {
        Some(status) => Ok(Some(status)),
        None => invalid("`status` is none of update, needs_input, result, failed, canceled"),
    }
}

fn too_long(bytes: usize) -> ToolError {
    ToolError::Invalid(format!(
        "the message is too long: {bytes} bytes with its JSON around it, and a relay takes at \
         most {MAX_MESSAGE_BYTES}; send it in parts, or send where to find it"
    ))
}

/// A message to be sent, as a tool got it.
pub(super) struct Letter {
    pub(super) to: String,
    pub(super) session: Option<String>,
    pub(super) text: String,
    pub(super) task_id: Option<String>,
    pub(super) status: Option<TaskStatus>,
    pub(super) in_reply_to: Option<MsgId>,
}

/// Signs a message and puts it into the outbox; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn send_message(
    core: &Arc<Core>,
    a: args::SendMessage,
) -> Result<Answer<Queued>, ToolError> {
    let in_reply_to = match a.in_reply_to.as_deref().map(str::trim) {
        Some("") => return invalid("`in_reply_to` is empty: leave it out, or name a message"),
        Some(text) => Some(real_id(core, text).await?),
        None => None,
    };
    let letter = Letter {
        to: a.to,
        session: a.session,
        text: a.text,
        status: parse_status(a.status.as_deref())?,
        task_id: task_id(a.task_id)?,
        in_reply_to,
    };
    post(core, letter).await
}

/// Checks a task id. Signatures do not tell an empty one from none, so none it is.
///
/// # Errors
///
/// [`ToolError::Invalid`].
pub(super) fn task_id(text: Option<String>) -> Result<Option<String>, ToolError> {
    match text {
        Some(id) if id.trim().is_empty() => {
            invalid("`task_id` is empty: leave it out, or name a task")
        }
        Some(id) if id.len() > MAX_TASK_ID_BYTES => {
            invalid(format!("`task_id` has at most {MAX_TASK_ID_BYTES} bytes"))
        }
        id => Ok(id),
    }
}

/// Signs a message and puts it into the outbox; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub(super) async fn post(core: &Arc<Core>, letter: Letter) -> Result<Answer<Queued>, ToolError> {
    if letter.text.len() > MAX_MESSAGE_BYTES {
        return Err(too_long(letter.text.len()));
    }
    let lease = core.await_lease().await?;
    core.peers.ensure(&core.ledger).await?;
    let address = Address {
        to: &letter.to,
        session: letter.session.as_deref(),
        task_id: letter.task_id.as_deref(),
    };
    let to = resolve(core, address).await?;
    let ended = ended(core, to.key, letter.task_id.clone()).await?;
    let now = core.clock.now();
    let msg_id = MsgId::new_random(&core.entropy).map_err(|e| ToolError::Local(e.to_string()))?;
    let draft = Draft {
        to: to.key,
        text: letter.text,
        ts: now,
        msg_id: msg_id.clone(),
        kind: MessageKind::Message,
        task_id: letter.task_id.clone(),
        status: letter.status,
        in_reply_to: letter.in_reply_to.clone(),
        reply_to: Some(core.route()),
    };
    let message = Message::sign(&core.identity, draft);
    let body = serde_json::to_vec(&message).map_err(|e| ToolError::Local(e.to_string()))?;
    if body.len() > MAX_MESSAGE_BYTES {
        return Err(too_long(body.len()));
    }
    let command = AgentCommand::QueueMessage(QueueMessage {
        lease,
        msg_id: msg_id.clone(),
        to: to.key,
        to_session: to.session.clone(),
        kind: MailKind::Message,
        task_id: letter.task_id.clone(),
        status: letter.status.map(mail_status),
        in_reply_to: letter.in_reply_to,
        ts: now,
        sha256: sha256(&body),
        body: body.into(),
        relays: core
            .relays
            .iter()
            .map(|r| r.client.url().to_owned())
            .collect(),
        now,
    });
    match core.submit(command).await? {
        AgentReply::Queued { .. } => {
            let task = letter.task_id.as_deref();
            Ok(queued(&to, &msg_id, task, letter.status, ended))
        }
        reply => Err(ToolError::Local(format!("unexpected answer: {reply:?}"))),
    }
}

/// How a task ended, if it did before this message.
async fn ended(
    core: &Core,
    peer: PublicKey,
    task_id: Option<String>,
) -> Result<Option<TaskState>, ToolError> {
    let Some(task_id) = task_id else {
        return Ok(None);
    };
    let own = core.session.clone();
    let row = core
        .ledger
        .read(move |s| Ok(query::task(s, &own, &peer, &task_id)?))
        .await?;
    Ok(row.map(|row| row.state).filter(|state| state.is_final()))
}

/// The sender's id for what a tool showed as an id.
async fn real_id(core: &Core, text: &str) -> Result<MsgId, ToolError> {
    match meant(text)? {
        Meant::Id(id) => Ok(id),
        Meant::Seq(seq) => {
            let mail = core
                .ledger
                .read(move |s| Ok(query::mail_at(s, seq)?))
                .await?;
            match mail.filter(|m| m.row.session == core.session) {
                Some(mail) => Ok(mail.row.msg_id),
                None => invalid(format!("no message {text:?}")),
            }
        }
    }
}

fn queued(
    to: &Destination,
    msg_id: &MsgId,
    task: Option<&str>,
    status: Option<TaskStatus>,
    ended: Option<TaskState>,
) -> Answer<Queued> {
    let mut note = presence_text(to.presence);
    if status == Some(TaskStatus::Update) {
        note.push_str(" An update wakes nobody, and a newer one replaces it.");
    }
    if let Some(state) = ended {
        note.push_str(&format!(
            " The task had ended before ({}) and stays so; new work needs a new task_id.",
            state.name()
        ));
    }
    let peer = match &to.who {
        Who::Peer(name) => render::label(name),
        Who::Own => "self".to_owned(),
    };
    let task = task.map_or_else(String::new, |t| {
        let status = status.map_or("-", TaskStatus::as_str);
        format!(" [task {} \u{b7} {status}]", render::attribute(t))
    });
    let session = shown_session(&to.session);
    Answer {
        text: format!("Queued for session {session} ({peer}) (msg_id {msg_id}){task}. {note}"),
        data: Queued {
            msg_id: msg_id.to_string(),
            state: Sent::Pending.name().to_owned(),
            session,
            peer,
            key: to.key.to_string(),
            presence: to.presence.name().to_owned(),
            note,
        },
    }
}

fn presence_text(presence: Presence) -> String {
    match presence {
        Presence::Live { .. } => "It is live; delivering.".to_owned(),
        Presence::Away { age_ms } => format!(
            "It was last seen {} ago; the message waits for it.",
            age_text(age_ms)
        ),
        Presence::Closed => {
            "It has said good-bye; the message waits in case it comes back.".to_owned()
        }
        Presence::Gone => "No relay shows that session; the message waits for it.".to_owned(),
        Presence::Unknown => {
            "No relay answers now; the message is sent as soon as one does.".to_owned()
        }
    }
}

/// Says how far a message is.
///
/// # Errors
///
/// [`ToolError`].
pub async fn message_status(
    core: &Core,
    a: args::MessageStatus,
) -> Result<Answer<Status>, ToolError> {
    let wanted = meant(&a.msg_id)?;
    let session = core.session.clone();
    let (letters, sent, peers) = core
        .ledger
        .read(move |s| {
            let notice = query::notice(s, &session)?;
            let mails = match &wanted {
                Meant::Seq(seq) => query::mail_at(s, *seq)?
                    .filter(|m| m.row.session == session)
                    .into_iter()
                    .collect(),
                Meant::Id(id) => query::find_mail(s, &session, id)?,
            };
            let mut letters = vec![];
            for mail in mails {
                letters.push(letter(s, mail, notice.as_ref())?);
            }
            let sent = match &wanted {
                Meant::Id(id) => query::outbox_entry(s, id)?,
                Meant::Seq(_) => None,
            };
            let sent = match sent {
                Some(out) => Some((text_at(s, out.row.body)?, out)),
                None => None,
            };
            Ok((letters, sent, query::peers(s)?))
        })
        .await?;
    let offset = usize::try_from(a.offset.unwrap_or(0)).unwrap_or(usize::MAX);
    let max = Room::of(core).left();
    if let Some(letter) = letters.first() {
        let r = received(core, letter, offset, max)?;
        return Ok(Answer {
            text: received_text(&r),
            data: Status {
                direction: "inbound".to_owned(),
                received: Some(r),
                sent: None,
                note: "received by this session".to_owned(),
            },
        });
    }
    let Some((text, out)) = sent else {
        let note = "no message with this id was sent or received by this session".to_owned();
        return Ok(Answer {
            text: note.clone(),
            data: Status {
                direction: "unknown".to_owned(),
                received: None,
                sent: None,
                note,
            },
        });
    };
    let note = match out.row.sent() {
        Sent::Pending => "no relay has it yet; it is tried until one does",
        Sent::Accepted => "a relay has it; whether the recipient read it is not known",
        Sent::Refused => "every relay refused it for good; it is not tried again",
    };
    let o = outgoing_with(core, &peers, &out, text.as_deref(), offset, max);
    Ok(Answer {
        text: format!("{}\n({note})", outgoing_text(&o)),
        data: Status {
            direction: "outbound".to_owned(),
            received: None,
            sent: Some(o),
            note: note.to_owned(),
        },
    })
}
