//! Rows of outgoing messages.

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, SeqRow, inconsistent};
use crate::domain::tables::{TableId, Tables, get_row, put_row};
use crate::event::Recorded;
use crate::event::agent::room::{bond_event, mailbox_event, pairing_event, policy_event};
use crate::event::agent::{AgentEvent, AttemptError, MailKind, MailStatus, OutboxQueued};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// The last failure of a relay to take a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub error: AttemptError,
    /// The same in words.
    pub detail: String,
    /// When.
    pub at: UnixMillis,
}

/// Why a relay does not get a message that the operator gave up.
const DROPPED: &str = "given up by the operator";

/// State of a message on one relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayState {
    /// Not answered for good.
    Waiting {
        /// Failed attempts.
        attempts: u32,
        /// When to try again.
        next_at: UnixMillis,
        /// The last failure.
        failure: Option<Failure>,
    },
    /// Taken.
    Accepted {
        /// When.
        at: UnixMillis,
        /// Whether older mail of the recipient was dropped for it.
        dropped: bool,
    },
    /// Refused for good, or given up.
    Refused {
        /// When.
        at: UnixMillis,
        /// HTTP status; 0 when given up without an answer.
        status: u16,
        /// Why.
        reason: String,
    },
}

impl RelayState {
    /// The state of a relay that was never tried.
    #[must_use]
    pub const fn untried() -> RelayState {
        RelayState::Waiting {
            attempts: 0,
            next_at: UnixMillis(0),
            failure: None,
        }
    }
}

/// A relay of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayRow {
    /// Normalised URL.
    pub url: String,
    /// State of the message there.
    pub state: RelayState,
}

fn untried(relays: &[String]) -> Vec<RelayRow> {
    let relay = |url: &String| RelayRow {
        url: url.clone(),
        state: RelayState::untried(),
    };
    relays.iter().map(relay).collect()
}

/// How far a message came, over all its relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// No relay has taken it yet.
    Pending,
    /// At least one relay has taken it.
    Accepted,
    /// Every relay refused it.
    Refused,
}

impl Sent {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Sent::Pending => "pending",
            Sent::Accepted => "bus_accepted",
            Sent::Refused => "refused",
        }
    }
}

/// Value of table `outbox`; the key is the position of the `OutboxQueued` record, big endian.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxRow {
    /// The session that sends.
    pub session: SessionId,
    /// Id of the message.
    pub msg_id: MsgId,
    /// The recipient.
    pub to: PublicKey,
    /// The recipient's session.
    pub to_session: SessionId,
    /// What it is.
    pub kind: MailKind,
    /// The task that it is about.
    pub task_id: Option<String>,
    /// State of that task.
    pub status: Option<MailStatus>,
    /// The message that it answers.
    pub in_reply_to: Option<MsgId>,
    /// When it was queued.
    pub at: UnixMillis,
    /// Signed time of the present body.
    pub ts: UnixMillis,
    /// Position of the present body.
    pub body: Seq,
    /// Length of the body in bytes.
    pub len: u32,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// Its relays.
    pub relays: Vec<RelayRow>,
}

impl OutboxRow {
    fn new(e: &OutboxQueued, rec: &Recorded<AgentEvent>) -> OutboxRow {
        OutboxRow {
            session: e.session.clone(),
            msg_id: e.msg_id.clone(),
            to: e.to,
            to_session: e.to_session.clone(),
            kind: e.kind,
            task_id: e.task_id.clone(),
            status: e.status,
            in_reply_to: e.in_reply_to.clone(),
            at: rec.at,
            ts: e.ts,
            body: rec.seq,
            len: e.len,
            sha256: e.sha256,
            relays: untried(&e.relays),
        }
    }

    /// How far it came.
    #[must_use]
    pub fn sent(&self) -> Sent {
        let any = |f: fn(&RelayState) -> bool| self.relays.iter().any(|r| f(&r.state));
        if any(|s| matches!(s, RelayState::Accepted { .. })) {
            Sent::Accepted
        } else if any(|s| matches!(s, RelayState::Waiting { .. })) {
            Sent::Pending
        } else {
            Sent::Refused
        }
    }

    /// Whether a relay made room for it by dropping the recipient's oldest mail.
    #[must_use]
    pub fn pushed_out(&self) -> bool {
        let pushed =
            |r: &RelayRow| matches!(r.state, RelayState::Accepted { dropped, .. } if dropped);
        self.relays.iter().any(pushed)
    }

    /// Whether some relay has not answered for good.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.relays
            .iter()
            .any(|r| matches!(r.state, RelayState::Waiting { .. }))
    }

    /// The state on one of its relays.
    #[must_use]
    pub fn relay(&self, url: &str) -> Option<&RelayState> {
        self.relays.iter().find(|r| r.url == url).map(|r| &r.state)
    }

    fn each_waiting(&mut self, mut f: impl FnMut(&mut RelayState)) {
        let waits = |relay: &&mut RelayRow| matches!(relay.state, RelayState::Waiting { .. });
        for relay in self.relays.iter_mut().filter(waits) {
            f(&mut relay.state);
        }
    }

    fn set(&mut self, url: &str, state: RelayState) {
        match self.relays.iter_mut().find(|r| r.url == url) {
            Some(relay) => relay.state = state,
            None => self.relays.push(RelayRow {
                url: url.to_owned(),
                state,
            }),
        }
    }
}

/// Value of table `outbox_open`; the key is that of `outbox`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenRow {
    /// The session that sends.
    pub session: SessionId,
    /// The recipient.
    pub to: PublicKey,
    /// The recipient's session.
    pub to_session: SessionId,
    /// Length of the body in bytes.
    pub len: u32,
    /// Whether some relay has taken it already.
    pub accepted: bool,
}

/// Outgoing messages and their state on each relay.
pub struct Outbox;

impl Projection<AgentEvent> for Outbox {
    fn name(&self) -> &'static str {
        "outbox"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Outbox, TableId::OutboxByMsg, TableId::OutboxOpen]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::OutboxQueued(e) => {
                let key = e.msg_id.as_str().as_bytes();
                if tables.get(TableId::OutboxByMsg, key)?.is_some() {
                    return inconsistent("message id is in the outbox already");
                }
                put_row(tables, TableId::OutboxByMsg, key, &SeqRow { seq: rec.seq })?;
                put(tables, rec.seq, &OutboxRow::new(e, rec))
            }
            AgentEvent::OutboxAttempted(e) => change(tables, e.message, |row| {
                let state = RelayState::Waiting {
                    attempts: e.attempt,
                    next_at: e.next_at,
                    failure: Some(Failure {
                        error: e.error,
                        detail: e.detail.clone(),
                        at: rec.at,
                    }),
                };
                row.set(&e.relay, state);
            }),
            AgentEvent::OutboxAccepted(e) => change(tables, e.message, |row| {
                let state = RelayState::Accepted {
                    at: rec.at,
                    dropped: e.dropped,
                };
                row.set(&e.relay, state);
            }),
            AgentEvent::OutboxRefused(e) => change(tables, e.message, |row| {
                let state = RelayState::Refused {
                    at: rec.at,
                    status: e.status,
                    reason: e.reason.clone(),
                };
                row.set(&e.relay, state);
            }),
            AgentEvent::OutboxResigned(e) => change(tables, e.message, |row| {
                row.ts = e.ts;
                row.body = rec.seq;
                row.len = e.len;
                row.sha256 = e.sha256;
            }),
            AgentEvent::OutboxRequeued(e) => change(tables, e.message, |row| {
                row.session = e.session.clone();
                row.to_session = e.to_session.clone();
                row.ts = e.ts;
                row.body = rec.seq;
                row.len = e.len;
                row.sha256 = e.sha256;
                row.relays = untried(&e.relays);
            }),
            AgentEvent::OutboxDropped(e) => change(tables, e.message, |row| {
                row.each_waiting(|state| {
                    *state = RelayState::Refused {
                        at: rec.at,
                        status: 0,
                        reason: DROPPED.to_owned(),
                    };
                });
            }),
            AgentEvent::OutboxRetried(e) => change(tables, e.message, |row| {
                row.each_waiting(|state| {
                    if let RelayState::Waiting { next_at, .. } = state {
                        *next_at = rec.at;
                    }
                });
            }),
            AgentEvent::PeerForgotten(e) => forget(tables, &e.sent),
            AgentEvent::HistoryForgotten(e) => forget(tables, &e.sent),
            policy_event!()
            | mailbox_event!()
            | pairing_event!()
            | AgentEvent::SessionsSeen(_)
            | AgentEvent::SessionClosed(_)
            | AgentEvent::SessionsForgotten(_)
            | AgentEvent::ExpiredDismissed(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn change(
    tables: &mut dyn Tables,
    message: Seq,
    change: impl FnOnce(&mut OutboxRow),
) -> Result<(), ApplyError> {
    let row: Option<OutboxRow> = get_row(tables, TableId::Outbox, &message.to_key())?;
    let Some(mut row) = row else {
        return inconsistent("message is not in the outbox");
    };
    change(&mut row);
    put(tables, message, &row)
}

fn put(tables: &mut dyn Tables, message: Seq, row: &OutboxRow) -> Result<(), ApplyError> {
    put_row(tables, TableId::Outbox, &message.to_key(), row)?;
    if row.is_open() {
        let open = OpenRow {
            session: row.session.clone(),
            to: row.to,
            to_session: row.to_session.clone(),
            len: row.len,
            accepted: row.sent() == Sent::Accepted,
        };
        put_row(tables, TableId::OutboxOpen, &message.to_key(), &open)?;
    } else {
        tables.delete(TableId::OutboxOpen, &message.to_key())?;
    }
    Ok(())
}

fn forget(tables: &mut dyn Tables, sent: &[Seq]) -> Result<(), ApplyError> {
    for seq in sent {
        let row: Option<OutboxRow> = get_row(tables, TableId::Outbox, &seq.to_key())?;
        let Some(row) = row else {
            return inconsistent("erased message is not in the outbox");
        };
        tables.delete(TableId::Outbox, &seq.to_key())?;
        tables.delete(TableId::OutboxByMsg, row.msg_id.as_str().as_bytes())?;
        tables.delete(TableId::OutboxOpen, &seq.to_key())?;
    }
    Ok(())
}
