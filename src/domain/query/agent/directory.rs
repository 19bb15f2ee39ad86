//! Whose sessions there are, and what became of tasks.

use std::ops::ControlFlow;

use crate::domain::projection::agent::{DirectoryRow, TaskInfoRow, key};
use crate::domain::tables::{TableError, TableId, TableReader, get_row, scan_rows};
use crate::types::id::{PublicKey, SessionId};
use crate::types::time::UnixMillis;

/// A session id and who claims it.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSession {
    /// The id.
    pub session: SessionId,
    /// What is remembered of it.
    pub row: DirectoryRow,
}

/// Every session that is remembered, by id.
///
/// # Errors
///
/// [`TableError`].
pub fn directory(tables: &dyn TableReader) -> Result<Vec<KnownSession>, TableError> {
    let mut known = vec![];
    scan_rows::<DirectoryRow>(tables, TableId::Directory, &[], |id, row| {
        let session = std::str::from_utf8(id)
            .ok()
            .and_then(|text| SessionId::parse(text).ok())
            .ok_or(TableError::Key {
                table: TableId::Directory.name(),
            })?;
        known.push(KnownSession { session, row });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(known)
}

/// What is remembered of a session id.
///
/// # Errors
///
/// [`TableError`].
pub fn directory_entry(
    tables: &dyn TableReader,
    session: &SessionId,
) -> Result<Option<DirectoryRow>, TableError> {
    get_row(tables, TableId::Directory, session.as_str().as_bytes())
}

/// Sessions that were neither seen nor written to since a time, at most `limit`, by id.
///
/// # Errors
///
/// [`TableError`].
pub fn unused_sessions(
    tables: &dyn TableReader,
    before: UnixMillis,
    limit: usize,
) -> Result<Vec<SessionId>, TableError> {
    let mut unused = directory(tables)?;
    unused.retain(|known| known.row.used_at < before);
    unused.truncate(limit);
    Ok(unused.into_iter().map(|known| known.session).collect())
}

/// A task of one of our sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The other side.
    pub peer: PublicKey,
    /// Its id.
    pub task_id: String,
    /// What is remembered of it.
    pub row: TaskInfoRow,
}

/// The tasks of a session, the one that moved last first.
///
/// # Errors
///
/// [`TableError`].
pub fn tasks(tables: &dyn TableReader, session: &SessionId) -> Result<Vec<Task>, TableError> {
    let mut tasks = vec![];
    let prefix = key::session(session);
    scan_rows::<TaskInfoRow>(tables, TableId::Tasks, &prefix, |rest, row| {
        let (peer, task_id) = parts(rest).ok_or(TableError::Key {
            table: TableId::Tasks.name(),
        })?;
        tasks.push(Task { peer, task_id, row });
        Ok(ControlFlow::Continue(()))
    })?;
    tasks.sort_by_key(|task| std::cmp::Reverse(task.row.seq));
    Ok(tasks)
}

/// Visits the tasks of every session, by session.
///
/// # Errors
///
/// [`TableError`], also when the visitor fails.
pub fn each_task(
    tables: &dyn TableReader,
    mut visit: impl FnMut(SessionId, Task) -> Result<ControlFlow<()>, TableError>,
) -> Result<(), TableError> {
    let malformed = || TableError::Key {
        table: TableId::Tasks.name(),
    };
    scan_rows::<TaskInfoRow>(tables, TableId::Tasks, &[], |row_key, row| {
        let (session, rest) = text(row_key).ok_or_else(malformed)?;
        let session = SessionId::parse(&session).map_err(|_| malformed())?;
        let (peer, task_id) = parts(rest).ok_or_else(malformed)?;
        visit(session, Task { peer, task_id, row })
    })
}

/// Key and task id behind the session in a key of table `tasks`.
fn parts(rest: &[u8]) -> Option<(PublicKey, String)> {
    let (peer, id) = rest.split_first_chunk::<32>()?;
    let (id, end) = text(id)?;
    end.is_empty().then(|| (PublicKey::from_bytes(*peer), id))
}

/// A self-delimiting text at the beginning of a key, and what follows it.
fn text(key: &[u8]) -> Option<(String, &[u8])> {
    let mut plain = vec![];
    let mut rest = key;
    loop {
        match rest {
            [0, 0, end @ ..] => return Some((String::from_utf8(plain).ok()?, end)),
            [0, 0xFF, more @ ..] => {
                plain.push(0);
                rest = more;
            }
            [0, ..] | [] => return None,
            [byte, more @ ..] => {
                plain.push(*byte);
                rest = more;
            }
        }
    }
}

/// What became of a task.
///
/// # Errors
///
/// [`TableError`].
pub fn task(
    tables: &dyn TableReader,
    session: &SessionId,
    peer: &PublicKey,
    task_id: &str,
) -> Result<Option<TaskInfoRow>, TableError> {
    get_row(
        tables,
        TableId::Tasks,
        &key::task_of(session, peer, task_id),
    )
}
