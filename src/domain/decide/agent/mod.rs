//! Decisions of an identity.
//!
//! A store of this kind is shared by processes, so nothing is kept in memory: every decision reads
//! the transaction's own rows. What a process does for a session is fenced by its lease; a process
//! that lost the session to another one is refused before anything else is looked at. What happens
//! to the outbox carries no lease: any sibling may drain the outbox of a session that died, and
//! answers of relays that arrive twice change nothing the second time.

mod bond;
mod care;
mod command;
mod directory;
mod host;
mod import;
mod mailbox;
mod notice;
mod outbox;
mod pairing;
mod policy;
mod refusal;
mod reply;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

pub use bond::{BondCommand, BondNews, BondRefusal};
pub use care::CareCommand;
pub use command::*;
pub use directory::DirectoryCommand;
pub use host::HostCommand;
pub use import::{
    Fate, ImportCommand, ImportedControl, ImportedMail, ImportedPairing, Left, pairing_mark,
};
pub use pairing::command::*;
pub use policy::settled;
pub use refusal::AgentRefusal;
pub use reply::{AgentReply, ImportOutcome, Reception};

use crate::domain::projection::Projection;
use crate::domain::projection::agent::{self as rows, MailRow, OutboxRow, seq_key};
use crate::domain::tables::{TableError, TableId, TableReader, scan_rows};
use crate::domain::{Decision, Domain, LiveBody, NewEvent, View};
use crate::event::Recorded;
use crate::event::agent::{AgentEvent, ReplayForgotten, SessionsSeen};
use crate::event::kind::StoreKind;
use crate::types::seq::Seq;

/// The domain of an identity.
pub struct Agent;

/// Outer error: storage. Inner error: refusal.
type Decided = Result<Result<Decision<AgentEvent, AgentReply>, AgentRefusal>, TableError>;

/// Like `?` for refusals inside a function that returns [`Decided`].
macro_rules! granted {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}
use granted;

fn done(events: Vec<AgentEvent>, reply: AgentReply) -> Decided {
    Ok(Ok(Decision {
        events: events.into_iter().map(NewEvent::from).collect(),
        reply,
    }))
}

/// Nothing to append.
fn nothing(reply: AgentReply) -> Decided {
    done(vec![], reply)
}

/// Appends, or does not; the reply says which.
fn changed(event: Option<AgentEvent>) -> Decided {
    let reply = AgentReply::Done {
        changed: event.is_some(),
    };
    done(event.into_iter().collect(), reply)
}

fn refuse(refusal: AgentRefusal) -> Decided {
    Ok(Err(refusal))
}

impl Domain for Agent {
    type Event = AgentEvent;
    type Command = AgentCommand;
    type Reply = AgentReply;
    type Refusal = AgentRefusal;
    type Index = ();

    const KIND: StoreKind = StoreKind::Agent;

    fn projections() -> &'static [&'static dyn Projection<AgentEvent>] {
        rows::ALL
    }

    fn decide(view: &View<'_, Self>, command: &AgentCommand) -> Decided {
        let tables = view.tables;
        if let Some(lease) = lease_of(command) {
            granted!(policy::check_lease(tables, lease)?);
        }
        match command {
            AgentCommand::TakeLease { .. } | AgentCommand::ReleaseLease { .. } => {
                policy::lease(tables, command)
            }
            AgentCommand::ImportPeers {
                entries,
                sha256,
                newest,
                ..
            } => policy::import(tables, entries, sha256, *newest),
            AgentCommand::StrikePeers {
                entries,
                sha256,
                newest,
                ..
            } => policy::strike(tables, entries, sha256, *newest),
            AgentCommand::AdoptPeersFile { path, switch, .. } => {
                policy::adopt_file(tables, path, *switch)
            }
            AgentCommand::PublishPeers { sha256, .. } => policy::publish(tables, sha256),
            AgentCommand::AddPeer {
                petname,
                key,
                origin,
                ..
            } => policy::add(tables, petname, key, *origin),
            AgentCommand::RemovePeer {
                petname,
                key,
                origin,
                ..
            } => policy::remove(tables, petname, key, *origin),
            AgentCommand::QueueMessage(wish) => outbox::queue(view, wish),
            AgentCommand::RecordAttempt { .. }
            | AgentCommand::RecordAccepted { .. }
            | AgentCommand::RecordRefused { .. } => outbox::record(tables, command),
            AgentCommand::Resign { .. } => outbox::resign(tables, command),
            AgentCommand::Receive(wish) => mailbox::receive(view, wish),
            AgentCommand::ReceiveAfter { after, receive } => {
                mailbox::receive_after(view, after, receive)
            }
            AgentCommand::MarkSeen { .. } => mailbox::mark_seen(tables, command),
            AgentCommand::Acknowledge { lease, items, .. } => {
                mailbox::acknowledge(tables, &lease.session, items)
            }
            AgentCommand::ReserveNotice { .. } => notice::reserve(tables, command),
            AgentCommand::NoticeResult {
                lease,
                id,
                accepted,
                patience_ms,
                now,
            } => {
                let taken = accepted.map(|path| (path, *patience_ms));
                notice::result(tables, &lease.session, id, taken, *now)
            }
            AgentCommand::ObserveNotice {
                lease, id, reset, ..
            } => notice::observe(tables, &lease.session, id.as_deref(), *reset),
            AgentCommand::DropNotice { lease } => notice::forget(tables, &lease.session),
            AgentCommand::Host { lease, wish } => host::decide(tables, lease, wish),
            AgentCommand::ForgetReplay { before, .. } => {
                let floor = mailbox::newest_forgettable(tables, *before)?;
                changed(floor.map(|floor| ReplayForgotten { floor }.into()))
            }
            AgentCommand::Pairing(command) => pairing::decide(view, command),
            AgentCommand::Directory(command) => directory::decide(tables, command),
            AgentCommand::Care(command) => care::decide(tables, command),
            AgentCommand::Import(command) => import::decide(view, command),
            AgentCommand::Bond(command) => bond::decide(tables, view.next, command),
        }
    }

    fn weight(command: &AgentCommand) -> usize {
        match command {
            AgentCommand::QueueMessage(wish) => wish.body.len(),
            AgentCommand::Receive(wish) | AgentCommand::ReceiveAfter { receive: wish, .. } => {
                wish.body.len()
            }
            AgentCommand::Resign { body, .. } => body.len(),
            AgentCommand::Pairing(command) => command.weight(),
            AgentCommand::Import(command) => command.weight(),
            _ => 0,
        }
    }

    fn build_index(_tables: &dyn TableReader) -> Result<(), TableError> {
        Ok(())
    }

    fn index(_index: &mut (), _record: &Recorded<AgentEvent>) {}

    fn releases(event: &AgentEvent) -> &[Seq] {
        match event {
            AgentEvent::OutboxResigned(e) => std::slice::from_ref(&e.replaced),
            AgentEvent::OutboxRequeued(e) => std::slice::from_ref(&e.replaced),
            AgentEvent::PeerForgotten(e) => &e.bodies,
            AgentEvent::HistoryForgotten(e) => &e.bodies,
            _ => &[],
        }
    }

    fn live_bodies(
        tables: &dyn TableReader,
        visit: &mut dyn FnMut(LiveBody),
    ) -> Result<(), TableError> {
        scan_rows::<OutboxRow>(tables, TableId::Outbox, &[], |_, row| {
            visit(LiveBody {
                seq: row.body,
                len: row.len,
                sha256: row.sha256,
            });
            Ok(ControlFlow::Continue(()))
        })?;
        scan_rows::<MailRow>(tables, TableId::Mailbox, &[], |key, row| {
            visit(LiveBody {
                seq: seq_key(TableId::Mailbox, key)?,
                len: row.len,
                sha256: row.sha256,
            });
            Ok(ControlFlow::Continue(()))
        })
    }

    fn body_lost(_seq: Seq) -> Option<AgentEvent> {
        // Nothing waits behind a lost body here: a message whose text is gone is given up by its
        // sender (`RecordRefused`), and a reader is told so.
        None
    }

    fn let_go(
        tables: &dyn TableReader,
        lost: &BTreeSet<Seq>,
    ) -> Result<Vec<AgentEvent>, TableError> {
        directory::let_go(tables, lost)
    }

    fn nothing() -> AgentEvent {
        SessionsSeen { sightings: vec![] }.into()
    }
}

/// The lease under which a command acts.
fn lease_of(command: &AgentCommand) -> Option<&Lease> {
    match command {
        AgentCommand::ReleaseLease { lease }
        | AgentCommand::MarkSeen { lease, .. }
        | AgentCommand::Acknowledge { lease, .. }
        | AgentCommand::ReserveNotice { lease, .. }
        | AgentCommand::NoticeResult { lease, .. }
        | AgentCommand::ObserveNotice { lease, .. }
        | AgentCommand::DropNotice { lease }
        | AgentCommand::Host { lease, .. } => Some(lease),
        AgentCommand::AddPeer { lease, .. } | AgentCommand::RemovePeer { lease, .. } => {
            lease.as_ref()
        }
        AgentCommand::QueueMessage(wish) => Some(&wish.lease),
        AgentCommand::Receive(wish) | AgentCommand::ReceiveAfter { receive: wish, .. } => {
            Some(&wish.lease)
        }
        AgentCommand::Pairing(command) => command.lease(),
        AgentCommand::TakeLease { .. }
        | AgentCommand::ImportPeers { .. }
        | AgentCommand::StrikePeers { .. }
        | AgentCommand::AdoptPeersFile { .. }
        | AgentCommand::PublishPeers { .. }
        | AgentCommand::RecordAttempt { .. }
        | AgentCommand::RecordAccepted { .. }
        | AgentCommand::RecordRefused { .. }
        | AgentCommand::Resign { .. }
        | AgentCommand::ForgetReplay { .. }
        | AgentCommand::Directory(_)
        | AgentCommand::Care(_)
        | AgentCommand::Import(_)
        | AgentCommand::Bond(_) => None,
    }
}

/// Cuts a text to at most `max` bytes at a character's end.
fn cut(text: &str, max: usize) -> String {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// An optional text field: empty counts as absent (a relay can turn one into the other without
/// breaking the signature), too long is refused.
fn optional(
    field: &'static str,
    value: Option<&String>,
    max: usize,
) -> Result<Option<String>, AgentRefusal> {
    match value.filter(|text| !text.is_empty()) {
        Some(text) if text.len() > max => Err(AgentRefusal::FieldLength {
            field,
            len: text.len(),
            max,
        }),
        other => Ok(other.cloned()),
    }
}
