//! Who waited for whom in the public program, and whose sessions it knew.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::bounded::{AtMost, MembersAtMost};
use super::{Item, ItemError, PublicFileError};
use crate::crypto::sign::decode_public_key;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::wire::envelope::{Message, MessageKind};

/// Requests in either direction. Given by the public program.
const MAX_REQUESTS: usize = 64;

/// Pairing messages that were not sent. Given by the public program.
const MAX_QUEUED: usize = 128;

/// Sessions of the directory. Given by the public program.
const MAX_SESSIONS: usize = 4096;

/// A request that waits, in either direction. Not signed: it is what the public program noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairEntry {
    /// The other side.
    pub key: PublicKey,
    /// What it calls itself, or what the operator typed: any text.
    pub name: String,
    /// Id of the request.
    pub request_id: MsgId,
    /// The other side's session.
    pub session: SessionId,
}

/// A pairing message that was not sent; our own signature checks.
#[derive(Clone, Debug, PartialEq)]
pub struct PairJob {
    /// The recipient's session.
    pub to_session: SessionId,
    /// The message.
    pub message: Message,
}

/// Everything that waits.
#[derive(Debug, Default)]
pub struct PairState {
    /// Strangers' requests, oldest first.
    pub inbound: Vec<Item<PairEntry>>,
    /// Our own requests, oldest first.
    pub outbound: Vec<Item<PairEntry>>,
    /// What was not sent, in order.
    pub queued: Vec<Item<PairJob>>,
}

#[derive(Deserialize)]
struct RawState<'a> {
    #[serde(borrow, default)]
    inbound: AtMost<'a, MAX_REQUESTS>,
    #[serde(borrow, default)]
    outbound: AtMost<'a, MAX_REQUESTS>,
    #[serde(borrow, default)]
    queued: AtMost<'a, MAX_QUEUED>,
}

#[derive(Deserialize)]
struct RawEntry {
    key: String,
    name: String,
    request_id: MsgId,
    reply_to: String,
}

#[derive(Deserialize)]
struct RawJob<'a> {
    route: String,
    #[serde(borrow)]
    msg: &'a RawValue,
}

/// Reads `pairing/<key>/<session>.json`.
///
/// # Errors
///
/// [`PublicFileError`]; a bad entry is an item.
pub fn pairing(text: &str, own: &PublicKey) -> Result<PairState, PublicFileError> {
    let raw: RawState<'_> = serde_json::from_str(text)?;
    let jobs = raw.queued.0.into_iter();
    Ok(PairState {
        inbound: raw.inbound.0.into_iter().map(read_entry).collect(),
        outbound: raw.outbound.0.into_iter().map(read_entry).collect(),
        queued: jobs.map(|job| read_job(job, own)).collect(),
    })
}

/// The session of a route that must be one of a key's.
fn session_of(route: &str, key: &PublicKey) -> Item<SessionId> {
    let route: Route = route.parse()?;
    route
        .session
        .filter(|_| route.key == *key)
        .ok_or(ItemError::ForeignRoute)
}

fn read_entry(entry: &RawValue) -> Item<PairEntry> {
    let raw: RawEntry = serde_json::from_str(entry.get())?;
    let key = decode_public_key(&raw.key)?;
    Ok(PairEntry {
        session: session_of(&raw.reply_to, &key)?,
        key,
        name: raw.name,
        request_id: raw.request_id,
    })
}

fn read_job(job: &RawValue, own: &PublicKey) -> Item<PairJob> {
    let raw: RawJob<'_> = serde_json::from_str(job.get())?;
    let message = Message::from_json(raw.msg.get())?;
    if message.from != *own {
        return Err(ItemError::NotOurs);
    }
    if message.kind == MessageKind::Message {
        return Err(ItemError::WrongKind);
    }
    message.verify()?;
    Ok(PairJob {
        to_session: session_of(&raw.route, &message.to)?,
        message,
    })
}

/// Who was seen announcing a session; several when it was contested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOwners {
    /// The session.
    pub session: SessionId,
    /// The keys, ascending; at least one.
    pub owners: Vec<PublicKey>,
}

/// Reads `sessions/<key>.json`.
///
/// # Errors
///
/// [`PublicFileError`]; a bad session is an item.
pub fn sessions(text: &str) -> Result<Vec<Item<SessionOwners>>, PublicFileError> {
    let raw: MembersAtMost<'_, MAX_SESSIONS> = serde_json::from_str(text)?;
    let members = raw.0.into_iter();
    Ok(members
        .map(|(session, owners)| read_owners(&session, owners))
        .collect())
}

fn read_owners(session: &str, owners: &RawValue) -> Item<SessionOwners> {
    let session = SessionId::parse(session).map_err(|_| ItemError::SessionId)?;
    let texts: Vec<String> = serde_json::from_str(owners.get())?;
    let mut owners = vec![];
    for text in &texts {
        owners.push(decode_public_key(text)?);
    }
    owners.sort_unstable();
    owners.dedup();
    Ok(SessionOwners { session, owners })
}
