//! What the operator and time do to an identity's messages.
//!
//! None of these carries a lease: the operator acts beside the sessions, and what is old is old for
//! all of them.

use std::ops::ControlFlow;

use super::{AgentRefusal, AgentReply, Decided, changed, done, granted};
use crate::domain::projection::agent::{MailRow, OutboxRow, RelayState, TaskInfoRow, seq_key};
use crate::domain::query::agent::{OutMail, each_task, outbox_at};
use crate::domain::tables::{TableError, TableId, TableReader, scan_rows};
use crate::event::agent::{
    EndedTask, HistoryForgotten, MailKind, Origin, OutboxDropped, OutboxRetried,
};
use crate::types::limit::{
    MAX_ENDED_TASKS_PER_RECORD, MAX_ERASED_PER_RECORD, MAX_YOUNG_ROWS_IN_A_ROW,
};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A wish about messages.
#[derive(Clone, Debug)]
pub enum CareCommand {
    /// Give a message up on every relay that has not answered for good. One that no relay is left
    /// for is no error.
    DropMessage {
        /// Position of the message.
        message: Seq,
        /// How the wish came in.
        origin: Origin,
    },
    /// Try a message at once. One that is due already is no error.
    RetryMessage {
        /// Position of the message.
        message: Seq,
        /// How the wish came in.
        origin: Origin,
        /// Now.
        now: UnixMillis,
    },
    /// Forget what ended before a time: messages that were read, messages that every relay
    /// answered, tasks that are over. To be repeated while there is more.
    ForgetHistory {
        /// Time bound.
        before: UnixMillis,
    },
}

pub(super) fn decide(tables: &dyn TableReader, command: &CareCommand) -> Decided {
    match command {
        CareCommand::DropMessage { message, origin } => {
            let mail = granted!(find(tables, *message)?);
            let event = OutboxDropped {
                message: *message,
                origin: *origin,
            };
            changed(mail.row.is_open().then(|| event.into()))
        }
        CareCommand::RetryMessage {
            message,
            origin,
            now,
        } => {
            let mail = granted!(find(tables, *message)?);
            let waits = mail.row.relays.iter().any(|relay| {
                matches!(&relay.state, RelayState::Waiting { next_at, .. } if next_at > now)
            });
            let event = OutboxRetried {
                message: *message,
                origin: *origin,
            };
            changed(waits.then(|| event.into()))
        }
        CareCommand::ForgetHistory { before } => forget_history(tables, *before),
    }
}

fn find(tables: &dyn TableReader, seq: Seq) -> Result<Result<OutMail, AgentRefusal>, TableError> {
    Ok(outbox_at(tables, seq)?.ok_or(AgentRefusal::NoSuchMessage { seq }))
}

/// Ends a scan in order of arrival once what follows is young. Clocks jump, so one young row does
/// not prove that the next one is.
#[derive(Default)]
struct Young(usize);

impl Young {
    fn is_enough(&mut self, at: UnixMillis, before: UnixMillis) -> bool {
        self.0 = if at < before { 0 } else { self.0 + 1 };
        self.0 >= MAX_YOUNG_ROWS_IN_A_ROW
    }
}

fn forget_history(tables: &dyn TableReader, before: UnixMillis) -> Decided {
    let mut event = HistoryForgotten {
        before,
        received: vec![],
        sent: vec![],
        bodies: vec![],
        tasks: vec![],
    };
    let mut more = false;
    let mut young = Young::default();
    scan_rows::<MailRow>(tables, TableId::Mailbox, &[], |at, row| {
        if young.is_enough(row.at, before) {
            return Ok(ControlFlow::Break(()));
        }
        if is_read(&row, before) {
            if event.received.len() == MAX_ERASED_PER_RECORD {
                more = true;
                return Ok(ControlFlow::Break(()));
            }
            let seq = seq_key(TableId::Mailbox, at)?;
            event.received.push(seq);
            event.bodies.push(seq);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    young = Young::default();
    scan_rows::<OutboxRow>(tables, TableId::Outbox, &[], |at, row| {
        if young.is_enough(row.at, before) {
            return Ok(ControlFlow::Break(()));
        }
        if is_answered(&row, before) {
            if event.received.len() + event.sent.len() >= MAX_ERASED_PER_RECORD {
                more = true;
                return Ok(ControlFlow::Break(()));
            }
            event.sent.push(seq_key(TableId::Outbox, at)?);
            event.bodies.push(row.body);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    each_task(tables, |session, task| {
        if is_over(&task.row, before) {
            if event.tasks.len() == MAX_ENDED_TASKS_PER_RECORD {
                more = true;
                return Ok(ControlFlow::Break(()));
            }
            event.tasks.push(EndedTask {
                session,
                peer: task.peer,
                task_id: task.task_id,
            });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    event.bodies.sort_unstable();
    let rows = event.received.len() + event.sent.len() + event.tasks.len();
    let reply = AgentReply::Forgotten { rows, more };
    match rows {
        0 => done(vec![], reply),
        _ => done(vec![event.into()], reply),
    }
}

/// Whether nobody waits for it, and that for long.
fn is_read(row: &MailRow, before: UnixMillis) -> bool {
    let since = match row.acknowledged_at {
        Some(at) => at,
        // Newer progress took its place.
        None => row.at,
    };
    !row.is_unread() && row.at < before && since < before
}

/// Whether every relay has answered for good, and that for long. What pairing refers to stays.
fn is_answered(row: &OutboxRow, before: UnixMillis) -> bool {
    let answered = row.relays.iter().all(|relay| match &relay.state {
        RelayState::Waiting { .. } => false,
        RelayState::Accepted { at, .. } | RelayState::Refused { at, .. } => *at < before,
    });
    answered && row.at < before && row.kind == MailKind::Message
}

fn is_over(row: &TaskInfoRow, before: UnixMillis) -> bool {
    let said = row.said_at.unwrap_or(row.since);
    row.state.is_final() && row.ts.max(row.since).max(said) < before
}
