//! What went wrong since the model was told last.
//!
//! A message that every relay refused, mail that a full queue pushed out, mail that came too late:
//! a model that is not told goes on as if all was well. The log has these facts; each is told once
//! by a process, with the next answer of whatever tool. A process that starts looks back a little,
//! because what happened while the session was away was told to nobody.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::core::Core;
use crate::domain::projection::agent::Sent;
use crate::domain::query::agent as query;
use crate::event::Recorded;
use crate::event::agent::{AgentEvent, MailKind};
use crate::store::{ReadError, Snapshot};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::seq::Seq;

/// How many records a new process looks back.
const LOOK_BACK: u64 = 2_000;
/// How many troubles one answer tells, the newest. The rest stands in the lists of the tools.
const TOLD: usize = 10;

/// How many troubles wait that the log does not know.
const NOTED: usize = 64;

/// Up to where the log was looked through, and what the log does not know.
#[derive(Debug, Default)]
pub struct Told(Mutex<Option<Seq>>, Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    waiting: Vec<Trouble>,
    /// What was noted before: the same message may come again and again.
    known: VecDeque<(PublicKey, MsgId)>,
}

impl Told {
    /// Notes a message of an admitted sender that was dropped because it was signed ahead of our
    /// time; says whether that is news.
    pub fn note_ahead(
        &self,
        from: PublicKey,
        msg_id: &MsgId,
        label: String,
        ahead_ms: u64,
    ) -> bool {
        let mut noted = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.known.iter().any(|(f, id)| *f == from && id == msg_id) {
            return false;
        }
        if noted.known.len() >= NOTED {
            noted.known.pop_front();
        }
        noted.known.push_back((from, msg_id.clone()));
        if noted.waiting.len() < NOTED {
            noted.waiting.push(Trouble::Ahead {
                msg_id: msg_id.clone(),
                from,
                label,
                ahead_ms,
            });
        }
        true
    }

    fn take_noted(&self) -> Vec<Trouble> {
        let mut noted = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut noted.waiting)
    }
}

/// One thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Every relay refused a message of ours for good.
    Refused {
        /// Its id.
        msg_id: MsgId,
        /// To whom it was.
        to: PublicKey,
        /// What the last relay said.
        reason: String,
    },
    /// A relay made room for a message of ours by dropping the recipient's oldest mail.
    Dropped {
        /// The id of the message that found a place.
        msg_id: MsgId,
        /// Whose queue it is.
        to: PublicKey,
    },
    /// A message of a peer came too late.
    Expired {
        /// The sender's id of it.
        msg_id: MsgId,
        /// The sender.
        from: PublicKey,
        /// Its local name at arrival.
        label: String,
    },
    /// A message of a peer was signed ahead of our time and is dropped.
    Ahead {
        /// The sender's id of it.
        msg_id: MsgId,
        /// The sender.
        from: PublicKey,
        /// Its local name.
        label: String,
        /// How far ahead, in milliseconds.
        ahead_ms: u64,
    },
}

/// What went wrong for this session since the last call, and how much more than is told.
pub async fn take(core: &Core) -> (Vec<Trouble>, usize) {
    let from = *core.told.0.lock().unwrap_or_else(PoisonError::into_inner);
    let session = core.session.clone();
    let found = core.ledger.read(move |s| since(s, from, &session)).await;
    // An answer is worth more than its notes; they come with the next one.
    let Ok((head, mut troubles)) = found else {
        return (vec![], 0);
    };
    let mut told = core.told.0.lock().unwrap_or_else(PoisonError::into_inner);
    if *told != from {
        // Another call told the same meanwhile.
        return (vec![], 0);
    }
    *told = Some(head);
    troubles.extend(core.told.take_noted());
    let more = troubles.len().saturating_sub(TOLD);
    (troubles.split_off(more), more)
}

fn since(
    s: &Snapshot,
    told: Option<Seq>,
    session: &SessionId,
) -> Result<(Seq, Vec<Trouble>), ReadError> {
    let head = s.head()?;
    let from = told.unwrap_or(Seq(head.0.saturating_sub(LOOK_BACK)));
    let mut troubles = vec![];
    if head <= from {
        return Ok((head, troubles));
    }
    let mut refused = BTreeSet::new();
    s.frames(from.next(), |seq, bytes| {
        let record = Recorded::<AgentEvent>::from_frame(seq, bytes)?;
        match record.event {
            AgentEvent::OutboxRefused(e) => {
                if let Some(out) = query::outbox_at(s, e.message)?
                    && out.row.session == *session
                    && out.row.sent() == Sent::Refused
                    // A pairing request that was called off is no trouble.
                    && (out.row.kind == MailKind::Message || e.status != 0)
                    && refused.insert(e.message)
                {
                    troubles.push(Trouble::Refused {
                        msg_id: out.row.msg_id,
                        to: out.row.to,
                        reason: e.reason,
                    });
                }
            }
            AgentEvent::OutboxAccepted(e) if e.dropped => {
                if let Some(out) = query::outbox_at(s, e.message)?
                    && out.row.session == *session
                {
                    troubles.push(Trouble::Dropped {
                        msg_id: out.row.msg_id,
                        to: out.row.to,
                    });
                }
            }
            AgentEvent::ReceivedExpired(e) if e.session == *session => {
                troubles.push(Trouble::Expired {
                    msg_id: e.msg_id,
                    from: e.from,
                    label: e.label,
                });
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((head, troubles))
}
