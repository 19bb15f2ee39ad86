//! Requests to be admitted that waited in another program.
//!
//! A stranger's request is only shown to the operator, as one that came in here. A request of ours
//! is more: when it is accepted, the key is admitted. The operator made it there, and is shown it
//! again before it is taken over.

use std::collections::BTreeSet;

use super::super::Decided;
use super::super::outbox::{Outgoing, enter};
use super::super::policy::{Admission, admit};
use super::{Harvest, ImportedControl, ImportedPairing, Left, UNKNOWN};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::AgentRefusal;
use crate::domain::query::agent as query;
use crate::domain::tables::{TableError, TableReader};
use crate::event::agent::{
    AgentEvent, ImportedPart, KnockReceived, MailKind, Origin, PairRequested,
};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::{MAX_PAIR_INBOUND, MAX_PAIR_OUTBOUND, MAX_WAKING_KNOCKS};
use crate::wire::pair::claimed_name;

/// What tells a request, or a message about one, from every other one in the log.
#[must_use]
pub fn pairing_mark(part: ImportedPart, key: &PublicKey, id: &MsgId) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(64 + id.as_str().len());
    bytes.extend_from_slice(part.name().as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(id.as_str().as_bytes());
    sha256(&bytes)
}

pub(super) fn knocks(
    tables: &dyn TableReader,
    session: &SessionId,
    own: &PublicKey,
    knocks: &[ImportedPairing],
) -> Decided {
    let waiting = query::inbound(tables)?;
    let mut taken = BTreeSet::new();
    let mut harvest = Harvest::of(ImportedPart::Knocks);
    for knock in knocks {
        let (key, id) = (&knock.key, &knock.request_id);
        let old = waiting.iter().find(|inbound| inbound.key == *key);
        // A peer needs no admission, and what was decided is decided.
        let over = *key == *own
            || query::peer_by_key(tables, key)?.is_some()
            || query::answered(tables, key, id)?.is_some();
        if over || old.is_some_and(|old| old.row.request_id == *id) {
            harvest.known();
        } else if query::is_blocked(tables, key)? {
            harvest.leave(Left::Blocked);
        } else if old.is_some() || taken.contains(key) {
            harvest.leave(Left::OtherRequest);
        } else if waiting.len() + taken.len() >= MAX_PAIR_INBOUND {
            harvest.leave(Left::Full);
        } else {
            let received = KnockReceived {
                key: *key,
                request_id: id.clone(),
                name: claimed_name(&knock.name),
                session: session.clone(),
                reply_session: knock.their_session.clone(),
                ts: UNKNOWN,
                news: waiting.len() + taken.len() < MAX_WAKING_KNOCKS,
            };
            taken.insert(*key);
            harvest
                .marks
                .push(pairing_mark(ImportedPart::Knocks, key, id));
            harvest.take(AgentEvent::from(received));
        }
    }
    harvest.done()
}

pub(super) fn requests(
    tables: &dyn TableReader,
    session: &SessionId,
    own: &PublicKey,
    requests: &[ImportedPairing],
) -> Decided {
    let waiting = query::outbound(tables)?;
    let room = MAX_PAIR_OUTBOUND.saturating_sub(waiting.len() + query::conflicts(tables)?.len());
    let mut names: BTreeSet<String> = waiting.iter().map(|w| w.row.name.clone()).collect();
    let mut taken = BTreeSet::new();
    let mut harvest = Harvest::of(ImportedPart::Requests);
    for request in requests {
        let (key, id) = (&request.key, &request.request_id);
        let old = waiting.iter().find(|outbound| outbound.key == *key);
        let over = *key == *own
            || query::peer_by_key(tables, key)?.is_some()
            || query::conflict_of(tables, key)?.is_some_and(|c| c.row.request_id == *id);
        if over || old.is_some_and(|old| old.row.request_id == *id) {
            harvest.known();
        } else if query::is_blocked(tables, key)? {
            harvest.leave(Left::Blocked);
        } else if old.is_some() || taken.contains(key) || query::conflict_of(tables, key)?.is_some()
        {
            harvest.leave(Left::OtherRequest);
        } else if taken.len() >= room {
            harvest.leave(Left::Full);
        } else if let Some(name) = name_for(tables, request, &names)? {
            let requested = PairRequested {
                key: *key,
                name: name.clone(),
                request_id: id.clone(),
                session: session.clone(),
                to_session: request.their_session.clone(),
                origin: Origin::Import,
            };
            taken.insert(*key);
            names.insert(name);
            harvest
                .marks
                .push(pairing_mark(ImportedPart::Requests, key, id));
            harvest.take(AgentEvent::from(requested));
        } else {
            harvest.leave(Left::NameTaken);
        }
    }
    harvest.done()
}

/// The petname that a request leads to: what the operator called the key, or its fingerprint where
/// that cannot be a name. There it may have been the text of the key.
fn name_for(
    tables: &dyn TableReader,
    request: &ImportedPairing,
    names: &BTreeSet<String>,
) -> Result<Option<String>, TableError> {
    for name in [request.name.as_str(), request.key.fingerprint().as_str()] {
        let free = matches!(
            admit(tables, name, &request.key, Origin::Import)?,
            Ok(Admission::New(_))
        );
        if free && !names.contains(name) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

pub(super) fn control(tables: &dyn TableReader, mail: &ImportedControl) -> Decided {
    let mut harvest = Harvest::of(ImportedPart::Control);
    if query::outbox_entry(tables, &mail.msg_id)?.is_some() {
        harvest.known();
        return harvest.done();
    }
    let wanted = match mail.kind {
        // An acceptance tells a key that it is admitted: it must be.
        MailKind::PairAccept => match query::peer_by_key(tables, &mail.to)? {
            Some(_) => None,
            None => Some(Left::NotAPeer),
        },
        MailKind::PairRequest => {
            let request = query::outbound_of(tables, &mail.to)?;
            match request.is_some_and(|request| request.row.request_id == mail.msg_id) {
                true => None,
                false => Some(Left::NoRequest),
            }
        }
        MailKind::Message => Some(Left::NoRequest),
    };
    if let Some(why) = wanted {
        harvest.leave(why);
        return harvest.done();
    }
    let outgoing = Outgoing {
        session: &mail.session,
        msg_id: &mail.msg_id,
        to: mail.to,
        to_session: &mail.to_session,
        kind: mail.kind,
        task_id: None,
        status: None,
        in_reply_to: mail.in_reply_to.as_ref(),
        ts: mail.ts,
        body: &mail.body,
        sha256: &mail.sha256,
        relays: &mail.relays,
    };
    match enter(tables, &outgoing)? {
        Ok(queued) => {
            let mark = pairing_mark(ImportedPart::Control, &mail.to, &mail.msg_id);
            harvest.marks.push(mark);
            harvest.take(queued);
        }
        Err(AgentRefusal::OutboxFull { .. } | AgentRefusal::RecipientFull { .. }) => {
            harvest.leave(Left::Full);
        }
        Err(AgentRefusal::MessageTooLarge { .. } | AgentRefusal::FieldLength { .. }) => {
            harvest.leave(Left::TooLarge);
        }
        Err(refusal) => return Ok(Err(refusal)),
    }
    harvest.done()
}
