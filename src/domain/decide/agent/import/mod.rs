//! Taking over another program's state.
//!
//! Everything here was let in once, by that program or by the operator's hand; what it holds unread
//! has to stay unread. So signatures and recipients are checked by whoever reads the state, and the
//! freshness of a message, which was checked when it arrived, is not asked again. Apart from that an
//! import has no rights of its own: it does not bring back who was revoked here, does not move a
//! name to another key, and does not push out what waits.
//!
//! Nothing is taken over twice: what the rows know already is [`Fate::Known`]. What may end without
//! leaving a row (a request that was called off) is marked in the log ([`pairing_mark`]); whoever
//! imports leaves out what is marked.
//!
//! - `mail`: messages. - `pairing`: requests in both directions, and what was not sent.

mod mail;
mod pairing;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::policy::{Admission, acceptable, admit};
use super::{Agent, AgentRefusal, AgentReply, Decided};
use crate::domain::query::agent::{directory_entry, peer_by_key, peers, revoked};
use crate::domain::tables::{TableError, TableReader};
use crate::domain::{Decision, NewEvent, View};
use crate::event::agent::{
    AgentEvent, Imported, ImportedPart, MailKind, MailStatus, Origin, SessionsSeen, Sighting,
};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::{MAX_CLAIMANTS, MAX_PEERS, MAX_SIGHTINGS_PER_RECORD};
use crate::types::route::Route;
use crate::types::time::UnixMillis;

pub use pairing::pairing_mark;

/// The program whose state is taken over, as the log names it.
const PROGRAM: &str = "interlink-mcp 0.13";

/// What that program could not tell: when something was signed or heard. Everything that is known
/// is newer.
const UNKNOWN: UnixMillis = UnixMillis(0);

/// A message that the other program had received, verified and addressed to us.
#[derive(Clone, Debug)]
pub struct ImportedMail {
    /// The verified sender.
    pub from: PublicKey,
    /// Id of the message.
    pub msg_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
    /// The task that it is about; empty counts as absent.
    pub task_id: Option<String>,
    /// State of that task.
    pub status: Option<MailStatus>,
    /// The message that it answers; empty counts as absent.
    pub in_reply_to: Option<MsgId>,
    /// Where the sender wants answers.
    pub reply_to: Option<Route>,
    /// The sender's name there when it arrived. It counts only for a key that has no name here.
    pub label: String,
    /// Whether it was acknowledged there, or gave way to a newer one that is gone.
    pub read: bool,
    /// The signed message, JSON.
    pub body: Arc<[u8]>,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
}

/// A request to be admitted that waited there, in either direction.
#[derive(Clone, Debug)]
pub struct ImportedPairing {
    /// The other side.
    pub key: PublicKey,
    /// A stranger's claim, or the name that the operator gave it.
    pub name: String,
    /// Id of the request.
    pub request_id: MsgId,
    /// The other side's session: that waits for the answer, or was asked.
    pub their_session: SessionId,
}

/// A pairing message that was signed there and not sent.
#[derive(Clone, Debug)]
pub struct ImportedControl {
    /// Our session that sends it.
    pub session: SessionId,
    /// The recipient.
    pub to: PublicKey,
    /// The recipient's session.
    pub to_session: SessionId,
    /// A request or an acceptance.
    pub kind: MailKind,
    /// Id of the message.
    pub msg_id: MsgId,
    /// The request that an acceptance answers.
    pub in_reply_to: Option<MsgId>,
    /// Signed time.
    pub ts: UnixMillis,
    /// The signed message, JSON.
    pub body: Arc<[u8]>,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// Relays that shall get it, normalised URLs; 1 to 16.
    pub relays: Vec<String>,
}

/// A bounded piece of another program's state. Answer: [`AgentReply::TakenOver`].
#[derive(Clone, Debug)]
pub enum ImportCommand {
    /// Admit the keys of its list.
    Peers {
        /// Names with their keys, at most 1024.
        peers: Vec<(String, PublicKey)>,
    },
    /// Remember who owned which session. The sessions of one command are seen in one look: of two
    /// owners of one id neither is the first.
    Sessions {
        /// Our own key, which is always admitted.
        own: PublicKey,
        /// Ids with their owners, at most 256 owners altogether.
        sessions: Vec<(SessionId, Vec<PublicKey>)>,
    },
    /// Store messages of one session.
    Mail {
        /// Our session.
        session: SessionId,
        /// Our own key.
        own: PublicKey,
        /// The messages in their order, at most 256.
        mails: Vec<ImportedMail>,
    },
    /// Let strangers' requests wait for the operator.
    Knocks {
        /// Our session whose queue they came through.
        session: SessionId,
        /// Our own key.
        own: PublicKey,
        /// The requests, at most 256.
        knocks: Vec<ImportedPairing>,
    },
    /// Let our own requests wait for their answers.
    Requests {
        /// Our session that asked.
        session: SessionId,
        /// Our own key.
        own: PublicKey,
        /// The requests, at most 256.
        requests: Vec<ImportedPairing>,
    },
    /// Send what was not sent.
    Control(Box<ImportedControl>),
}

impl ImportCommand {
    /// Which part it is of.
    #[must_use]
    pub const fn part(&self) -> ImportedPart {
        match self {
            ImportCommand::Peers { .. } => ImportedPart::Peers,
            ImportCommand::Sessions { .. } => ImportedPart::Sessions,
            ImportCommand::Mail { .. } => ImportedPart::Mail,
            ImportCommand::Knocks { .. } => ImportedPart::Knocks,
            ImportCommand::Requests { .. } => ImportedPart::Requests,
            ImportCommand::Control(_) => ImportedPart::Control,
        }
    }

    /// Bytes of bodies that it carries.
    pub(super) fn weight(&self) -> usize {
        match self {
            ImportCommand::Mail { mails, .. } => mails.iter().map(|mail| mail.body.len()).sum(),
            ImportCommand::Control(mail) => mail.body.len(),
            _ => 0,
        }
    }
}

/// What became of one thing of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is here now.
    Taken,
    /// It was here, or is not needed any more.
    Known,
    /// It stays where it is.
    Left(Left),
}

/// Why something is not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Left {
    /// The key was revoked here.
    Revoked,
    /// The name belongs to another key here.
    NameTaken,
    /// The name cannot be one.
    BadName,
    /// No more fit in.
    Full,
    /// It is too large.
    TooLarge,
    /// Its key is not admitted here.
    NotAPeer,
    /// The operator does not hear of its key.
    Blocked,
    /// Another request of or to the key waits here.
    OtherRequest,
    /// No request that it belongs to waits here.
    NoRequest,
}

impl Left {
    /// The word that scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Left::Revoked => "revoked",
            Left::NameTaken => "name_taken",
            Left::BadName => "bad_name",
            Left::Full => "full",
            Left::TooLarge => "too_large",
            Left::NotAPeer => "not_a_peer",
            Left::Blocked => "blocked",
            Left::OtherRequest => "other_request",
            Left::NoRequest => "no_request",
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Left::Revoked => "the key was revoked here",
            Left::NameTaken => "the name belongs to another key here",
            Left::BadName => "the name cannot be a peer's",
            Left::Full => "no more fit in here",
            Left::TooLarge => "too large",
            Left::NotAPeer => "the key is not admitted here",
            Left::Blocked => "the key is blocked here",
            Left::OtherRequest => "another request waits here",
            Left::NoRequest => "no request that it belongs to waits here",
        })
    }
}

/// An import as it grows: the fate of each thing, and the records of those that are taken.
struct Harvest {
    part: ImportedPart,
    fates: Vec<Fate>,
    events: Vec<NewEvent<AgentEvent>>,
    marks: Vec<[u8; 32]>,
}

impl Harvest {
    const fn of(part: ImportedPart) -> Harvest {
        Harvest {
            part,
            fates: vec![],
            events: vec![],
            marks: vec![],
        }
    }

    fn take(&mut self, event: impl Into<NewEvent<AgentEvent>>) {
        self.fates.push(Fate::Taken);
        self.events.push(event.into());
    }

    fn known(&mut self) {
        self.fates.push(Fate::Known);
    }

    fn leave(&mut self, why: Left) {
        self.fates.push(Fate::Left(why));
    }

    /// The decision: the records behind the mark that tells where they are from.
    fn done(mut self) -> Decided {
        if !self.events.is_empty() {
            let mark = Imported {
                program: PROGRAM.to_owned(),
                part: self.part,
                records: u32::try_from(self.events.len()).unwrap_or(u32::MAX),
                marks: self.marks,
            };
            self.events.insert(0, AgentEvent::from(mark).into());
        }
        Ok(Ok(Decision {
            events: self.events,
            reply: AgentReply::TakenOver(self.fates),
        }))
    }
}

pub(super) fn decide(view: &View<'_, Agent>, command: &ImportCommand) -> Decided {
    match command {
        ImportCommand::Peers { peers } => admit_all(view.tables, peers),
        ImportCommand::Sessions { own, sessions } => remember(view.tables, own, sessions),
        ImportCommand::Mail {
            session,
            own,
            mails,
        } => mail::store(view, session, own, mails),
        ImportCommand::Knocks {
            session,
            own,
            knocks,
        } => pairing::knocks(view.tables, session, own, knocks),
        ImportCommand::Requests {
            session,
            own,
            requests,
        } => pairing::requests(view.tables, session, own, requests),
        ImportCommand::Control(mail) => pairing::control(view.tables, mail),
    }
}

fn admit_all(tables: &dyn TableReader, wanted: &[(String, PublicKey)]) -> Decided {
    let gone: BTreeSet<PublicKey> = revoked(tables)?.into_iter().map(|peer| peer.key).collect();
    let here = peers(tables)?.len();
    let (mut names, mut keys) = (BTreeSet::new(), BTreeSet::new());
    let mut harvest = Harvest::of(ImportedPart::Peers);
    for (petname, key) in wanted {
        // Whoever is admitted keeps the name that it has here.
        if peer_by_key(tables, key)?.is_some() || keys.contains(key) {
            harvest.known();
        } else if gone.contains(key) {
            harvest.leave(Left::Revoked);
        } else if acceptable(petname).is_err() {
            harvest.leave(Left::BadName);
        } else if names.contains(petname) {
            harvest.leave(Left::NameTaken);
        } else if here + keys.len() >= MAX_PEERS {
            harvest.leave(Left::Full);
        } else {
            match admit(tables, petname, key, Origin::Import)? {
                Ok(Admission::New(added)) => {
                    names.insert(petname.clone());
                    keys.insert(*key);
                    harvest.take(AgentEvent::from(added));
                }
                Ok(Admission::Known(_)) => harvest.known(),
                Err(AgentRefusal::PetnameTaken { .. }) => harvest.leave(Left::NameTaken),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
    }
    harvest.done()
}

fn is_ours(tables: &dyn TableReader, own: &PublicKey, key: &PublicKey) -> Result<bool, TableError> {
    Ok(key == own || peer_by_key(tables, key)?.is_some())
}

/// Who owned a session there owns it here, unless somebody was seen with it before. When it was
/// heard is not known, so it is away until it announces itself.
fn remember(
    tables: &dyn TableReader,
    own: &PublicKey,
    sessions: &[(SessionId, Vec<PublicKey>)],
) -> Decided {
    let mut harvest = Harvest::of(ImportedPart::Sessions);
    let mut sightings: Vec<Sighting> = vec![];
    for (session, owners) in sessions {
        let known = directory_entry(tables, session)?;
        let mut new: Vec<Sighting> = vec![];
        let mut stranger = false;
        for key in owners.iter().take(MAX_CLAIMANTS) {
            if known.as_ref().is_some_and(|row| row.claim(key).is_some()) {
                continue;
            }
            if !is_ours(tables, own, key)? {
                stranger = true;
                continue;
            }
            new.push(Sighting {
                key: *key,
                session: session.clone(),
                ts: UNKNOWN,
                heard: UNKNOWN,
            });
        }
        if new.is_empty() {
            match stranger {
                true => harvest.leave(Left::NotAPeer),
                false => harvest.known(),
            }
        } else if sightings.len() + new.len() > MAX_SIGHTINGS_PER_RECORD {
            harvest.leave(Left::Full);
        } else {
            harvest.fates.push(Fate::Taken);
            sightings.append(&mut new);
        }
    }
    if !sightings.is_empty() {
        let seen = SessionsSeen { sightings };
        harvest.events.push(AgentEvent::from(seen).into());
    }
    harvest.done()
}
