//! Rows of the log as results.

use std::convert::Infallible;

use serde_json::json;

use super::room::{Span, longest};
use crate::agent::core::Core;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render::{self, From as ShownFrom, Shown};
use crate::agent::mcp::reply::{Outgoing, Part, Receipt, Received, RelayState as ShownRelay};
use crate::agent::random::random_hex;
use crate::domain::machine::destination::Owner;
use crate::domain::projection::agent::{NoticeRow, RelayState, Sent};
use crate::domain::query::agent::{Mail, MailState, OutMail, Peer, mail_state};
use crate::store::{ReadError, Snapshot};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::seq::Seq;
use crate::wire::envelope::Message;

/// Stands for a text that is not there any more.
const LOST: &str = "(the text of this message is lost)";

/// A received message with its body, as the snapshot has it.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) mail: Mail,
    pub(super) state: MailState,
    superseded_by: Option<String>,
    text: Option<String>,
    /// Whether the session that it asks to be answered at is its sender's.
    owned: bool,
}

/// Reads a received message.
pub(super) fn letter(
    s: &Snapshot,
    mail: Mail,
    notice: Option<&NoticeRow>,
) -> Result<Letter, ReadError> {
    let superseded_by = match mail.row.superseded_by {
        Some(by) => crate::domain::query::agent::mail_at(s, by)?.map(|m| shown_id(&m)),
        None => None,
    };
    let text = text_at(s, mail.seq)?;
    let owned = match hint(&mail) {
        Some(session) => owns(s, &mail.row.from, session)?,
        None => false,
    };
    Ok(Letter {
        state: mail_state(&mail, notice),
        mail,
        superseded_by,
        text,
        owned,
    })
}

/// The session that a message asks to be answered at.
pub(super) fn hint(mail: &Mail) -> Option<&SessionId> {
    let route = mail.row.reply_to.as_ref();
    route
        .filter(|route| route.key == mail.row.from)
        .and_then(|route| route.session.as_ref())
}

/// Whether a session is known to be a key's: it was the first to announce it, under its signature.
pub(super) fn owns(s: &Snapshot, key: &PublicKey, session: &SessionId) -> Result<bool, ReadError> {
    let known = crate::domain::query::agent::directory_entry(s, session)?;
    Ok(known.is_some_and(|row| row.owner() == Owner::One(*key)))
}

/// The text of the message at a position of the bodies.
pub(super) fn text_at(s: &Snapshot, body: Seq) -> Result<Option<String>, ReadError> {
    Ok(s.body(body)?
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|json| Message::from_json(&json).ok())
        .map(|message| message.text))
}

/// The id by which tools name a received message: the sender's, unless it is an odd one.
pub(super) fn shown_id(mail: &Mail) -> String {
    let id = mail.row.msg_id.as_str();
    if render::is_plain_id(id) && !id.starts_with("seq:") {
        id.to_owned()
    } else {
        format!("seq:{}", mail.seq)
    }
}

/// What a caller means by an id.
pub(super) enum Meant {
    Seq(Seq),
    Id(MsgId),
}

/// Reads an id as tools show it.
pub(super) fn meant(text: &str) -> Result<Meant, ToolError> {
    let text = text.trim();
    if let Some(seq) = text.strip_prefix("seq:").and_then(|n| n.parse().ok()) {
        return Ok(Meant::Seq(Seq(seq)));
    }
    if text.is_empty() {
        return Err(ToolError::Invalid("`msg_id` is empty".to_owned()));
    }
    MsgId::parse(text)
        .map(Meant::Id)
        .map_err(|e| ToolError::Invalid(e.to_string()))
}

fn plain(text: &str) -> Option<String> {
    render::is_plain_id(text).then(|| text.to_owned())
}

/// A session id of a peer, which may be any text: as it is where that is harmless, else spelled out.
pub(super) fn shown_session(session: &SessionId) -> String {
    plain(session.as_str()).unwrap_or_else(|| render::attribute(session.as_str()))
}

/// A received message as a result, from an offset of its text on, as far as `max` bytes of JSON go.
pub(super) fn received(
    core: &Core,
    letter: &Letter,
    offset: usize,
    max: usize,
) -> Result<Received, ToolError> {
    let text = letter.text.as_deref().unwrap_or(LOST);
    longest(text, offset, max, |span| shown(core, letter, text, span))
}

fn shown(core: &Core, letter: &Letter, text: &str, span: Span) -> Result<Received, ToolError> {
    let row = &letter.mail.row;
    let token = random_hex::<8>(&core.entropy).map_err(|e| ToolError::Local(e.to_string()))?;
    let id = shown_id(&letter.mail);
    let fingerprint = row.from.fingerprint();
    let session = hint(&letter.mail).map(|s| s.as_str());
    let name = if row.from == core.me {
        "self"
    } else {
        &row.label
    };
    let status = row.status.map(crate::event::agent::MailStatus::name);
    let part = part(text, span, &id);
    let shown = Shown {
        from: if row.from == core.me {
            ShownFrom::OwnIdentity
        } else {
            ShownFrom::Peer(&row.label)
        },
        fingerprint: fingerprint.as_str(),
        session: session.filter(|_| letter.owned),
        reply: session.filter(|_| !letter.owned).map(|s| (name, s)),
        msg_id: &id,
        task: row.task_id.as_deref(),
        status,
        in_reply_to: row.in_reply_to.as_ref().map(MsgId::as_str),
        text: text.get(span.from..span.to).unwrap_or_default(),
    };
    let mut content = render::wrapped(&token, &shown);
    if let Some(part) = &part {
        // After the marker with the token, so that it is not the peer's word.
        content.push('\n');
        content.push_str(&part_text(part));
    }
    Ok(Received {
        content,
        receipt: Receipt {
            sender: row.from.to_string(),
            msg_id: id,
        },
        state: letter.state.name().to_owned(),
        stage: stage(letter.state),
        signed_at_ms: row.ts.0,
        task_id: row.task_id.as_deref().and_then(plain),
        status: status.map(ToOwned::to_owned),
        in_reply_to: row.in_reply_to.as_ref().and_then(|id| plain(id.as_str())),
        session: session.filter(|_| letter.owned).and_then(plain),
        reply_session: session.and_then(plain),
        superseded_by: letter.superseded_by.clone(),
        part,
    })
}

/// What is said of a text that is not shown whole.
fn part(text: &str, span: Span, id: &str) -> Option<Part> {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let whole = span.from == 0 && span.to == text.len();
    (!whole).then(|| Part {
        from: number(span.from),
        to: number(span.to),
        of: number(text.len()),
        more: (span.to < text.len()).then(|| {
            format!(
                "Cut here. Call message_status with {} for the next part.",
                json!({ "msg_id": id, "offset": span.to })
            )
        }),
    })
}

fn part_text(part: &Part) -> String {
    let more = part.more.as_ref();
    let more = more.map_or_else(|| " The end.".to_owned(), |more| format!(" {more}"));
    format!(
        "[bytes {} to {} of {} of this text.{more}]",
        part.from, part.to, part.of
    )
}

/// How far a received message is, in words.
fn stage(state: MailState) -> String {
    let via = |path: &str| format!("notified via {path}");
    match state {
        MailState::Stored => "stored".to_owned(),
        MailState::Acknowledged => "read".to_owned(),
        MailState::Noticed("inbox_queued") => via("listener"),
        MailState::Noticed("notification_sent") => via("channel"),
        MailState::Noticed("socket_sent") => via("messaging socket"),
        MailState::Noticed("host_queued") => via("codex queue"),
        MailState::Noticed(_) => "stored; the host took no notice".to_owned(),
    }
}

/// A received message for hosts that show text.
pub(super) fn received_text(r: &Received) -> String {
    let receipt = serde_json::to_string(&r.receipt).unwrap_or_default();
    let superseded = r
        .superseded_by
        .as_ref()
        .map_or_else(String::new, |by| format!(" [superseded by {by}]"));
    format!(
        "[{}]{superseded} Receipt: {receipt}\n{}",
        r.state, r.content
    )
}

/// The local name of a key, as it is shown.
pub(super) fn name_of(core: &Core, peers: &[Peer], key: &PublicKey) -> String {
    match peers.iter().find(|p| p.key == *key) {
        Some(peer) => render::label(&peer.petname),
        None if *key == core.me => "self".to_owned(),
        None => format!("{}...", key.fingerprint()),
    }
}

/// A sent message as a result, with its text from an offset on, as far as `max` bytes of JSON go.
pub(super) fn outgoing_with(
    core: &Core,
    peers: &[Peer],
    out: &OutMail,
    text: Option<&str>,
    offset: usize,
    max: usize,
) -> Outgoing {
    let Some(text) = text else {
        return outgoing(core, peers, out);
    };
    let shown = longest(text, offset, max, |span| {
        let mut o = outgoing(core, peers, out);
        o.text = text.get(span.from..span.to).map(render::body);
        o.part = part(text, span, out.row.msg_id.as_str());
        Ok::<_, Infallible>(o)
    });
    match shown {
        Ok(o) => o,
        Err(e) => match e {},
    }
}

/// A sent message as a result, without its text.
pub(super) fn outgoing(core: &Core, peers: &[Peer], out: &OutMail) -> Outgoing {
    let row = &out.row;
    Outgoing {
        msg_id: row.msg_id.to_string(),
        state: row.sent().name().to_owned(),
        stage: match row.sent() {
            Sent::Pending => "queued",
            Sent::Accepted => "on relay",
            Sent::Refused => "refused",
        }
        .to_owned(),
        peer: name_of(core, peers, &row.to),
        key: row.to.to_string(),
        session: shown_session(&row.to_session),
        queued_at_ms: row.at.0,
        task_id: row.task_id.clone(),
        status: row.status.map(|s| s.name().to_owned()),
        in_reply_to: row.in_reply_to.as_ref().and_then(|id| plain(id.as_str())),
        relays: row
            .relays
            .iter()
            .map(|relay| shown_relay(&relay.url, &relay.state))
            .collect(),
        part: None,
        text: None,
    }
}

fn shown_relay(url: &str, state: &RelayState) -> ShownRelay {
    let mut shown = ShownRelay {
        url: url.to_owned(),
        state: String::new(),
        attempts: None,
        next_try_ms: None,
        problem: None,
    };
    match state {
        RelayState::Waiting {
            attempts,
            next_at,
            failure,
        } => {
            "waiting".clone_into(&mut shown.state);
            if *attempts > 0 {
                shown.attempts = Some(*attempts);
                shown.next_try_ms = Some(next_at.0);
            }
            shown.problem = failure.as_ref().map(|f| render::attribute(&f.detail));
        }
        RelayState::Accepted { dropped, .. } => {
            "accepted".clone_into(&mut shown.state);
            shown.problem = dropped.then(|| {
                "the recipient's queue was full; the relay dropped its oldest mail".to_owned()
            });
        }
        RelayState::Refused { reason, .. } => {
            "refused".clone_into(&mut shown.state);
            shown.problem = Some(render::attribute(reason));
        }
    }
    shown
}

/// A sent message for hosts that show text.
pub(super) fn outgoing_text(o: &Outgoing) -> String {
    let mut text = format!("-> {} ({}) [{}] {}", o.peer, o.session, o.state, o.msg_id);
    if let Some(task) = &o.task_id {
        let status = o.status.as_deref().unwrap_or("-");
        let task = render::attribute(task);
        text.push_str(&format!(" [task {task} \u{b7} {status}]"));
    }
    for relay in &o.relays {
        if let Some(problem) = &relay.problem {
            text.push_str(&format!("\n   {} {}: {problem}", relay.url, relay.state));
        }
    }
    if let Some(body) = &o.text {
        text.push('\n');
        text.push_str(body);
    }
    if let Some(part) = &o.part {
        text.push('\n');
        text.push_str(&part_text(part));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_of_a_peer_cannot_pass_for_the_programs_words() {
        let shown = |text: &str| shown_session(&SessionId::parse(text).unwrap());
        assert_eq!(shown("s-1"), "s-1");
        assert_eq!(
            shown("q\"] <x>\u{3164}"),
            "q\\u{22}\\u{5d} \\u{3c}x\\u{3e}\\u{3164}"
        );
    }
}
