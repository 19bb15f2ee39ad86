//! Rows of wake-up notices.

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, inconsistent};
use crate::domain::machine::notice::{Notice, NoticePhase};
use crate::domain::tables::{TableId, Tables, get_row, put_row};
use crate::event::Recorded;
use crate::event::agent::room::{
    bond_event, directory_event, outbox_event, pairing_event, policy_event,
};
use crate::event::agent::{AgentEvent, NoticeChange, NoticeChanged, NoticePath};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Value of table `notices`; the key is the session id's bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoticeRow {
    /// Its id, 8 lowercase hexadecimal digits.
    pub id: String,
    /// How far the last hand-off came.
    pub phase: NoticePhase,
    /// The way of the last hand-off.
    pub path: NoticePath,
    /// The way that the host took last.
    pub accepted: Option<NoticePath>,
    /// Whether a reader followed it up.
    pub observed: bool,
    /// Position of the newest message that it speaks for.
    pub covered: Seq,
    /// Consecutive hand-offs without success.
    pub attempt: u32,
    /// Hand-offs that the host took.
    pub offers: u32,
    /// When to act on it again.
    pub due: UnixMillis,
    /// When it changed last.
    pub at: UnixMillis,
}

impl NoticeRow {
    /// What the schedule needs to know.
    #[must_use]
    pub const fn schedule(&self) -> Notice {
        Notice {
            phase: self.phase,
            observed: self.observed,
            covered: self.covered,
            attempt: self.attempt,
            path: self.path,
            offers: self.offers,
            due: self.due,
        }
    }

    /// The state of an unread message that this notice speaks for, as people and scripts see it.
    /// `None` while a first hand-off is under way.
    #[must_use]
    pub fn mail_state(&self) -> Option<&'static str> {
        match (self.accepted, self.phase) {
            (Some(path), _) => Some(path.state_name()),
            (None, NoticePhase::Failed) => Some("delivery_failed"),
            (None, _) => None,
        }
    }
}

/// Wake-up notices, at most one a session.
pub struct Notices;

impl Projection<AgentEvent> for Notices {
    fn name(&self) -> &'static str {
        "notices"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Notices]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::NoticeChanged(e) => change(tables, rec.at, e),
            policy_event!()
            | outbox_event!()
            | directory_event!()
            | pairing_event!()
            | AgentEvent::Received(_)
            | AgentEvent::ReceivedExpired(_)
            | AgentEvent::Acknowledged(_)
            | AgentEvent::ReplaySeen(_)
            | AgentEvent::ReplayForgotten(_)
            | bond_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn change(tables: &mut dyn Tables, at: UnixMillis, e: &NoticeChanged) -> Result<(), ApplyError> {
    let key = e.session.as_str().as_bytes();
    let old: Option<NoticeRow> = get_row(tables, TableId::Notices, key)?;
    let old = old.filter(|old| old.id == e.id);
    let row = match (e.change, old) {
        (
            NoticeChange::Reserved {
                path,
                covered,
                attempt,
                due,
            },
            old,
        ) => {
            let again = old.filter(|old| !old.observed);
            NoticeRow {
                id: e.id.clone(),
                phase: NoticePhase::Reserved,
                path,
                accepted: again.as_ref().and_then(|old| old.accepted),
                observed: false,
                covered,
                attempt,
                offers: again.map_or(0, |old| old.offers),
                due,
                at,
            }
        }
        (_, None) => return inconsistent("notice is not the session's current one"),
        (NoticeChange::Accepted { path, due }, Some(old)) => NoticeRow {
            phase: NoticePhase::Accepted,
            path,
            accepted: Some(path),
            offers: old.offers.saturating_add(1),
            due,
            at,
            ..old
        },
        (NoticeChange::Failed, Some(old)) => NoticeRow {
            phase: NoticePhase::Failed,
            at,
            ..old
        },
        (NoticeChange::Observed { covered }, Some(old)) => NoticeRow {
            observed: true,
            covered,
            at,
            ..old
        },
        (NoticeChange::Dropped, Some(_)) => {
            tables.delete(TableId::Notices, key)?;
            return Ok(());
        }
    };
    put_row(tables, TableId::Notices, key, &row)?;
    Ok(())
}
