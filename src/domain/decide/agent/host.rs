//! What is known about a session's host, and which way to wake it works.

use super::{AgentReply, Decided, Lease, changed, cut, done};
use crate::domain::machine::notice::later_offer_ms;
use crate::domain::projection::agent::{HandoffFailure, HostRow};
use crate::domain::query::agent::{host as current, notice};
use crate::domain::tables::{TableError, TableReader};
use crate::event::agent::{
    AgentEvent, HostChange, HostChanged, HostKind, NoticeChange, NoticeChanged, NoticePath,
};
use crate::types::id::SessionId;
use crate::types::time::UnixMillis;

/// Longest reason of a failed hand-off in bytes.
const MAX_REASON_BYTES: usize = 256;
/// Most ways to wake a host: one of each kind.
const MAX_PATHS: usize = 4;

/// A wish about a session's host. The lease that all of them act under is beside it, in
/// [`AgentCommand::Host`](super::AgentCommand::Host).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostCommand {
    /// A server acts for the session.
    Attach {
        /// The host.
        host: HostKind,
        /// The ways to wake it, the best first; the first 4 count.
        paths: Vec<NoticePath>,
    },
    /// The conversation ended.
    Detach,
    /// The host began a turn with a text that carries this notice id.
    Started {
        /// The id; another one than the outstanding one changes nothing.
        id: String,
        /// Now.
        now: UnixMillis,
    },
    /// A hand-off failed. The same failure again changes nothing.
    Failed {
        /// Id of the notice.
        id: String,
        /// The way.
        path: NoticePath,
        /// What was wrong; cut to 256 bytes.
        reason: String,
    },
    /// Forget the failed hand-off.
    Clear {
        /// Whether to try it again, at once.
        retry: bool,
    },
}

fn event(session: &SessionId, change: HostChange) -> AgentEvent {
    HostChanged {
        session: session.clone(),
        change,
    }
    .into()
}

pub(super) fn decide(tables: &dyn TableReader, lease: &Lease, command: &HostCommand) -> Decided {
    let session = &lease.session;
    let row = current(tables, session)?;
    let change = match command {
        HostCommand::Attach { host, paths } => attach(row.as_ref(), *host, paths),
        HostCommand::Detach => row.map(|_| HostChange::Detached),
        HostCommand::Started { id, now } => return started(tables, session, row, id, *now),
        HostCommand::Failed { id, path, reason } => failed(row.as_ref(), id, *path, reason),
        HostCommand::Clear { retry } => return clear(tables, session, row, *retry),
    };
    changed(change.map(|change| event(session, change)))
}

fn attach(row: Option<&HostRow>, host: HostKind, paths: &[NoticePath]) -> Option<HostChange> {
    let mut unique: Vec<NoticePath> = vec![];
    for path in paths {
        if !unique.contains(path) && unique.len() < MAX_PATHS {
            unique.push(*path);
        }
    }
    // What was proved by a process before need not hold for this one.
    let known =
        row.is_some_and(|row| row.host == host && row.paths == unique && row.confirmed.is_none());
    (!known).then_some(HostChange::Attached {
        host,
        paths: unique,
    })
}

fn failed(row: Option<&HostRow>, id: &str, path: NoticePath, reason: &str) -> Option<HostChange> {
    let reason = cut(reason, MAX_REASON_BYTES);
    let same = |old: &HandoffFailure| old.id == id && old.path == path && old.reason == reason;
    let news = !row?.failed.as_ref().is_some_and(same);
    news.then(|| HostChange::Failed {
        id: id.to_owned(),
        path,
        reason,
    })
}

/// A turn that began with a notice proves the way, and puts the next offer off: the host's own
/// guard at the end of the turn comes first.
fn started(
    tables: &dyn TableReader,
    session: &SessionId,
    row: Option<HostRow>,
    id: &str,
    now: UnixMillis,
) -> Decided {
    let outstanding = notice(tables, session)?.filter(|n| n.id == id && !n.observed);
    let (Some(row), Some(notice)) = (row, outstanding) else {
        return changed(None);
    };
    let mut events = vec![];
    events.extend(confirmation(session, &row, notice.accepted));
    if row.started.as_deref() != Some(id) {
        let id = id.to_owned();
        events.push(event(session, HostChange::Started { id }));
        if let Some(path) = notice.accepted {
            let due = now.plus(later_offer_ms());
            let change = NoticeChange::Accepted { path, due };
            events.push(
                NoticeChanged {
                    session: session.clone(),
                    id: notice.id,
                    change,
                }
                .into(),
            );
        }
    }
    let changed = !events.is_empty();
    done(events, AgentReply::Done { changed })
}

fn confirmation(
    session: &SessionId,
    row: &HostRow,
    accepted: Option<NoticePath>,
) -> Option<AgentEvent> {
    let path = accepted.filter(|path| row.confirmed != Some(*path))?;
    Some(event(session, HostChange::Confirmed { path }))
}

/// The way by which a notice came that a reader named.
pub(super) fn confirmed(
    tables: &dyn TableReader,
    session: &SessionId,
    accepted: Option<NoticePath>,
) -> Result<Option<AgentEvent>, TableError> {
    let row = current(tables, session)?;
    Ok(row.and_then(|row| confirmation(session, &row, accepted)))
}

fn clear(
    tables: &dyn TableReader,
    session: &SessionId,
    row: Option<HostRow>,
    retry: bool,
) -> Decided {
    let Some(failure) = row.and_then(|row| row.failed) else {
        return changed(None);
    };
    let mut events = vec![event(session, HostChange::Cleared)];
    let again = notice(tables, session)?.filter(|n| retry && n.id == failure.id && !n.observed);
    events.extend(again.map(|n| {
        NoticeChanged {
            session: session.clone(),
            id: n.id,
            change: NoticeChange::Dropped,
        }
        .into()
    }));
    done(events, AgentReply::Done { changed: true })
}
