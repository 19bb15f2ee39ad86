//! `conversation_history`.

use std::sync::Arc;

use super::inbox::{acknowledge, expired_text, expired_view, limit};
use super::room::Room;
use super::send::invalid;
use super::view::{
    Letter, letter, outgoing, outgoing_text, outgoing_with, received, received_text, text_at,
};
use crate::agent::core::Core;
use crate::agent::directory::{Address, resolve};
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::reply::{Answer, History, Line};
use crate::domain::query::agent::{self as query, Line as Row, MailState, OutMail, Peer, With};
use crate::types::id::{MsgId, PublicKey};

/// One line of a conversation with its text.
enum Entry {
    In(Letter),
    Out(OutMail, Option<String>),
}

/// Shows what was exchanged with somebody: the newest of it that fits into an answer, whole; of a
/// newest one that is too long by itself the first part.
///
/// # Errors
///
/// [`ToolError`].
pub async fn conversation_history(
    core: &Arc<Core>,
    a: args::ConversationHistory,
) -> Result<Answer<History>, ToolError> {
    let limit = limit(a.limit)?;
    let with = partner(core, &a.peer).await?;
    let own = core.session.clone();
    let keys: Vec<_> = with.iter().map(|with| with.key).collect();
    let mut room = Room::of(core);
    let most = room.left();
    let (entries, found, peers, expired) = core
        .ledger
        .read(move |s| {
            let notice = query::notice(s, &own)?;
            let mut rows = vec![];
            for with in &with {
                rows.extend(query::conversation(s, &own, with, limit)?);
            }
            let found = rows.len();
            let mut entries = vec![];
            let mut bytes = 0usize;
            for row in rows.into_iter().rev() {
                // Not read from the disk to be left out.
                if bytes > most {
                    break;
                }
                let len = match &row {
                    Row::In(mail) => mail.row.len,
                    Row::Out(out) => out.row.len,
                };
                bytes = bytes.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
                entries.push(match row {
                    Row::In(mail) => Entry::In(letter(s, mail, notice.as_ref())?),
                    Row::Out(out) => {
                        let text = text_at(s, out.row.body)?;
                        Entry::Out(out, text)
                    }
                });
            }
            let expired = query::expired(s, Some(&own))?;
            Ok((entries, found, query::peers(s)?, expired))
        })
        .await?;
    let expired = expired_view(&expired, |key| keys.contains(key));
    let (expired, _) = room.share(4).first_of(expired);
    room.less(&expired);
    let (items, unread) = fitting(core, &peers, &entries, &mut room)?;
    let left_out = found.saturating_sub(items.len());
    let acknowledged = if a.consume == Some(true) && !unread.is_empty() {
        acknowledge(core, unread).await?
    } else {
        0
    };
    let mut lines: Vec<String> = items
        .iter()
        .filter_map(|line| match (&line.received, &line.sent) {
            (Some(r), _) => Some(received_text(r)),
            (_, Some(o)) => Some(outgoing_text(o)),
            _ => None,
        })
        .collect();
    lines.extend(expired.iter().map(expired_text));
    if lines.is_empty() {
        lines.push("No messages were exchanged with it.".to_owned());
    }
    if left_out > 0 {
        lines.push(format!("{left_out} older ones did not fit."));
    }
    Ok(Answer {
        text: lines.join("\n"),
        data: History {
            messages: items,
            left_out: u64::try_from(left_out).unwrap_or(u64::MAX),
            expired,
            acknowledged,
        },
    })
}

/// Senders and ids of messages.
type Unread = Vec<(PublicKey, MsgId)>;

/// The newest that fit, oldest first; and which of them are shown whole and were not acknowledged.
fn fitting(
    core: &Core,
    peers: &[Peer],
    newest_first: &[Entry],
    room: &mut Room,
) -> Result<(Vec<Line>, Unread), ToolError> {
    let (mut items, mut unread) = (vec![], vec![]);
    for entry in newest_first {
        let line = match entry {
            Entry::In(letter) => Line {
                received: Some(received(core, letter, 0, room.left())?),
                sent: None,
            },
            Entry::Out(out, None) => Line {
                received: None,
                sent: Some(outgoing(core, peers, out)),
            },
            Entry::Out(out, Some(text)) => Line {
                received: None,
                sent: Some(outgoing_with(core, peers, out, Some(text), 0, room.left())),
            },
        };
        let part = match (&line.received, &line.sent) {
            (Some(r), _) => r.part.is_some(),
            (_, Some(o)) => o.part.is_some(),
            _ => false,
        };
        if (part && !items.is_empty()) || !room.takes(&line) {
            break;
        }
        if let Entry::In(letter) = entry
            && !part
            && letter.state != MailState::Acknowledged
        {
            let row = &letter.mail.row;
            unread.push((row.from, row.msg_id.clone()));
        }
        items.push(line);
    }
    items.reverse();
    unread.reverse();
    Ok((items, unread))
}

/// Whose conversation is meant: a name, a key, `self`, or a session that wrote or was written to.
async fn partner(core: &Arc<Core>, peer: &str) -> Result<Vec<With>, ToolError> {
    let peer = peer.trim().to_owned();
    if peer.is_empty() {
        return invalid("`peer` is empty: name a peer or a full session id");
    }
    if peer.eq_ignore_ascii_case("self") {
        return Ok(vec![With {
            key: core.me,
            session: None,
        }]);
    }
    let name = peer.clone();
    let found = core
        .ledger
        .read(move |s| Ok(query::peer_by_name(s, &name)?))
        .await?;
    if let Some(found) = found {
        return Ok(vec![With {
            key: found.key,
            session: None,
        }]);
    }
    if let Ok(key) = peer.parse() {
        return Ok(vec![With { key, session: None }]);
    }
    let address = Address {
        to: &peer,
        session: None,
        task_id: None,
    };
    let to = resolve(core, address).await?;
    Ok(vec![With {
        key: to.key,
        session: Some(to.session),
    }])
}
