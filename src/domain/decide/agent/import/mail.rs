//! Messages that another program had received.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::mailbox::OWN_LABEL;
use super::super::outbox::body_len;
use super::super::{Agent, Decided, optional};
use super::{Harvest, ImportedMail, Left};
use crate::domain::query::agent::{is_seen, mail_of, peer_by_key, unread_totals};
use crate::domain::tables::{TableError, TableReader};
use crate::domain::{NewEvent, View};
use crate::event::agent::{Acknowledged, AgentEvent, ImportedPart, MailKind, Received};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{
    MAX_HTTP_BODY_BYTES, MAX_TASK_ID_BYTES, MAX_UNREAD_BYTES, MAX_UNREAD_MESSAGES,
};
use crate::types::seq::Seq;
use crate::wire::peers::Petname;

/// Stores messages with their ids used up, so that no relay brings them a second time. Those that
/// were read there are acknowledged in the same transaction.
pub(super) fn store(
    view: &View<'_, Agent>,
    session: &SessionId,
    own: &PublicKey,
    mails: &[ImportedMail],
) -> Decided {
    let tables = view.tables;
    let totals = unread_totals(tables, session)?;
    let (mut messages, mut bytes) = (totals.messages, totals.bytes);
    let mut harvest = Harvest::of(ImportedPart::Mail);
    let mut here = BTreeSet::new();
    let mut read: Vec<Seq> = vec![];
    for mail in mails {
        let known = is_seen(tables, &mail.from, &mail.msg_id)?
            || mail_of(tables, &mail.from, &mail.msg_id)?.is_some()
            || !here.insert((mail.from, mail.msg_id.clone()));
        if known {
            harvest.known();
            continue;
        }
        let fits = body_len(&mail.body, MAX_HTTP_BODY_BYTES).and_then(|len| {
            let task_id = optional("task_id", mail.task_id.as_ref(), MAX_TASK_ID_BYTES)?;
            Ok((len, task_id))
        });
        let Ok((len, task_id)) = fits else {
            harvest.leave(Left::TooLarge);
            continue;
        };
        if !mail.read {
            if messages >= MAX_UNREAD_MESSAGES || bytes + u64::from(len) > MAX_UNREAD_BYTES {
                harvest.leave(Left::Full);
                continue;
            }
            messages += 1;
            bytes += u64::from(len);
        }
        let received = Received {
            session: session.clone(),
            from: mail.from,
            msg_id: mail.msg_id.clone(),
            ts: mail.ts,
            kind: MailKind::Message,
            task_id,
            status: mail.status,
            in_reply_to: mail
                .in_reply_to
                .clone()
                .filter(|id| !id.as_str().is_empty()),
            reply_to: mail.reply_to.clone(),
            label: label(tables, own, mail)?,
            len,
            sha256: mail.sha256,
        };
        harvest.take(NewEvent {
            event: AgentEvent::from(received),
            body: Some(Arc::clone(&mail.body)),
        });
        if mail.read {
            // The mark stands in front of them all.
            read.push(Seq(view.next.0.saturating_add(harvest.events.len() as u64)));
        }
    }
    if !read.is_empty() {
        let acknowledged = Acknowledged {
            session: session.clone(),
            seqs: read,
        };
        harvest.events.push(AgentEvent::from(acknowledged).into());
    }
    harvest.done()
}

/// How a sender is called: as here, else as there if that can be a name, else by its fingerprint.
fn label(
    tables: &dyn TableReader,
    own: &PublicKey,
    mail: &ImportedMail,
) -> Result<String, TableError> {
    if let Some(peer) = peer_by_key(tables, &mail.from)? {
        return Ok(peer.petname);
    }
    if mail.from == *own {
        return Ok(OWN_LABEL.to_owned());
    }
    Ok(match Petname::parse(&mail.label) {
        Ok(name) => name.as_str().to_owned(),
        Err(_) => mail.from.fingerprint().as_str().to_owned(),
    })
}
