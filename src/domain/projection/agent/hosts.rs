//! Rows of hosts.

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, inconsistent};
use crate::domain::tables::{TableId, Tables, get_row, put_row};
use crate::event::Recorded;
use crate::event::agent::room::{
    bond_event, directory_event, outbox_event, pairing_event, policy_event,
};
use crate::event::agent::{AgentEvent, HostChange, HostKind, NoticeChange, NoticePath};
use crate::types::id::SessionId;
use crate::types::time::UnixMillis;

/// A hand-off that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandoffFailure {
    /// Id of the notice.
    pub id: String,
    /// The way that was tried.
    pub path: NoticePath,
    /// What was wrong.
    pub reason: String,
    /// When.
    pub at: UnixMillis,
}

/// Value of table `hosts`; the key is the session id's bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// The host.
    pub host: HostKind,
    /// The ways to wake it, the best first.
    pub paths: Vec<NoticePath>,
    /// The way that proved to work last.
    pub confirmed: Option<NoticePath>,
    /// Id of the notice with which the host began a turn last.
    pub started: Option<String>,
    /// The last hand-off that failed, until one succeeds or it is cleared.
    pub failed: Option<HandoffFailure>,
    /// When the row changed last.
    pub at: UnixMillis,
}

/// Hosts, at most one row a session.
pub struct Hosts;

impl Projection<AgentEvent> for Hosts {
    fn name(&self) -> &'static str {
        "hosts"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Hosts]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        match &rec.event {
            AgentEvent::HostChanged(e) => change(tables, rec.at, &e.session, &e.change),
            AgentEvent::NoticeChanged(e) => {
                let Some(mut row) = row(tables, &e.session)? else {
                    return Ok(());
                };
                let other = row.started.as_ref().is_some_and(|id| *id != e.id);
                let clears = match e.change {
                    NoticeChange::Accepted { .. } => row.failed.take().is_some(),
                    NoticeChange::Reserved { .. } if other => row.started.take().is_some(),
                    NoticeChange::Dropped => row.started.take().is_some(),
                    NoticeChange::Reserved { .. }
                    | NoticeChange::Failed
                    | NoticeChange::Observed { .. } => false,
                };
                if clears {
                    row.at = rec.at;
                    put_row(tables, TableId::Hosts, e.session.as_str().as_bytes(), &row)?;
                }
                Ok(())
            }
            policy_event!()
            | outbox_event!()
            | directory_event!()
            | pairing_event!()
            | bond_event!()
            | AgentEvent::Received(_)
            | AgentEvent::ReceivedExpired(_)
            | AgentEvent::Acknowledged(_)
            | AgentEvent::ReplaySeen(_)
            | AgentEvent::ReplayForgotten(_) => Ok(()),
        }
    }
}

fn row(tables: &dyn Tables, session: &SessionId) -> Result<Option<HostRow>, ApplyError> {
    Ok(get_row(
        tables,
        TableId::Hosts,
        session.as_str().as_bytes(),
    )?)
}

fn change(
    tables: &mut dyn Tables,
    at: UnixMillis,
    session: &SessionId,
    change: &HostChange,
) -> Result<(), ApplyError> {
    let key = session.as_str().as_bytes();
    let old = row(tables, session)?;
    let new = match (change, old) {
        (HostChange::Attached { host, paths }, old) => HostRow {
            host: *host,
            paths: paths.clone(),
            confirmed: None,
            started: old.as_ref().and_then(|old| old.started.clone()),
            failed: old.and_then(|old| old.failed),
            at,
        },
        (_, None) => return inconsistent("no host is attached to the session"),
        (HostChange::Confirmed { path }, Some(old)) => HostRow {
            confirmed: Some(*path),
            at,
            ..old
        },
        (HostChange::Started { id }, Some(old)) => HostRow {
            started: Some(id.clone()),
            at,
            ..old
        },
        (HostChange::Failed { id, path, reason }, Some(old)) => HostRow {
            failed: Some(HandoffFailure {
                id: id.clone(),
                path: *path,
                reason: reason.clone(),
                at,
            }),
            at,
            ..old
        },
        (HostChange::Cleared, Some(old)) => HostRow {
            failed: None,
            at,
            ..old
        },
        (HostChange::Detached, Some(_)) => {
            tables.delete(TableId::Hosts, key)?;
            return Ok(());
        }
    };
    put_row(tables, TableId::Hosts, key, &new)?;
    Ok(())
}
