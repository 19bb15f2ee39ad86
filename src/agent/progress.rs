//! A small file that says which task a session works on, for the hook that reminds its model of a
//! report.
//!
//! A host runs that hook after every edit and every command. Opening the log each time would cost
//! more than the hook is worth, so the running server keeps the answer in a file beside the store:
//! one for each session, private, gone when no task is open. The `tasks` table is the truth; the file
//! only repeats it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config::StorePlace;
use super::core::Core;
use crate::crypto::hash::sha256;
use crate::domain::projection::agent::{TaskSide, TaskState};
use crate::domain::query::agent::{self as query, Task};
use crate::store::create_private_dir;
use crate::types::id::{PublicKey, SessionId};
use crate::types::time::UnixMillis;

/// Largest file in bytes that is read: a task id and a session id at their longest, with escapes.
const MAX_FILE_BYTES: u64 = 16 * 1024;

/// The task that a session works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The session, in full: the file's name is a digest.
    pub session: SessionId,
    /// The task. Chosen by the other side: escape it before it is shown.
    pub task_id: String,
    /// Who asked.
    pub peer: PublicKey,
    /// Since when, by our clock.
    pub since: UnixMillis,
    /// When this session said something about it last; `since` when it never did.
    pub last_report: UnixMillis,
}

impl Marker {
    /// The open task that was asked of a session last; one that waits for an answer of the other
    /// side needs no report.
    fn of(session: &SessionId, tasks: &[Task]) -> Option<Marker> {
        let task = tasks
            .iter()
            .find(|t| t.row.side == TaskSide::Ours && t.row.state == TaskState::Open)?;
        Some(Marker {
            session: session.clone(),
            task_id: task.task_id.clone(),
            peer: task.peer,
            since: task.row.since,
            last_report: task.row.said_at.unwrap_or(task.row.since),
        })
    }
}

/// The folder beside a store.
fn folder(store: &Path) -> PathBuf {
    store.with_file_name("progress")
}

/// Session ids are free text, so the name is a digest.
fn file(store: &Path, session: &SessionId, kind: &str) -> PathBuf {
    let digest = sha256(session.as_str().as_bytes());
    let short = digest.first_chunk::<16>().copied().unwrap_or_default();
    let name = data_encoding::HEXLOWER.encode(&short);
    folder(store).join(format!("{name}.{kind}"))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    create_private_dir(folder)?;
    // Private from its first moment; readers see the old text or the new one.
    let mut temp = tempfile::Builder::new()
        .prefix(".progress-")
        .tempfile_in(folder)?;
    temp.write_all(bytes)?;
    temp.persist(path).map_err(|e| e.error)?;
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn put(store: &Path, session: &SessionId, marker: Option<&Marker>) -> io::Result<()> {
    let path = file(store, session, "task");
    match marker {
        Some(marker) => write(&path, &serde_json::to_vec(marker)?),
        None => remove(&path).and_then(|()| remove(&file(store, session, "reminded"))),
    }
}

/// Keeps the file of this session for as long as the session is ours.
pub async fn run(core: Arc<Core>) {
    let (StorePlace::Shared(store) | StorePlace::Exclusive(store)) = core.config.store.clone()
    else {
        return;
    };
    loop {
        let lease = core.lease.held().await;
        tokio::select! {
            () = core.lease.lost(&lease) => {}
            () = follow(&core, &store) => return,
        }
    }
}

async fn follow(core: &Core, store: &Path) {
    let mut head = core.ledger.follow();
    let mut written: Option<Option<Marker>> = None;
    loop {
        head.mark_unchanged();
        let session = core.session.clone();
        let read = core.ledger.read(move |s| {
            let tasks = query::tasks(s, &session)?;
            Ok(Marker::of(&session, &tasks))
        });
        if let Ok(marker) = read.await
            && written.as_ref() != Some(&marker)
        {
            match put(store, &core.session, marker.as_ref()) {
                Ok(()) => written = Some(marker),
                Err(e) => tracing::debug!("the open task is not written down: {e}"),
            }
        }
        if head.changed().await.is_err() {
            return;
        }
    }
}

/// Forgets the file of a session that ends in order.
pub fn end(core: &Core) {
    if let StorePlace::Shared(store) | StorePlace::Exclusive(store) = &core.config.store
        && let Err(e) = put(store, &core.session, None)
    {
        tracing::debug!("the open task stays written down: {e}");
    }
}

/// The task of a session whose report is due: nothing was said about it for `interval_ms`, and
/// nobody was reminded for as long. Counts as a reminder.
#[must_use]
pub fn due(store: &Path, session: &SessionId, now: UnixMillis, interval_ms: u64) -> Option<Marker> {
    let marker: Marker = read(&file(store, session, "task"))?;
    let reminded_at = file(store, session, "reminded");
    let reminded: UnixMillis = read(&reminded_at).unwrap_or_default();
    // A time that lies ahead was written under another clock.
    let passed = |at: UnixMillis| at > now || now.since(at) >= interval_ms;
    if marker.session != *session || !passed(marker.last_report) || !passed(reminded) {
        return None;
    }
    // Without a place to note it the model would be reminded at every turn.
    write(&reminded_at, now.to_string().as_bytes()).ok()?;
    Some(marker)
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    if fs::metadata(path).ok()?.len() > MAX_FILE_BYTES {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(session: &SessionId, last_report: u64) -> Marker {
        Marker {
            session: session.clone(),
            task_id: "t\n1".to_owned(),
            peer: PublicKey::from_bytes([7; 32]),
            since: UnixMillis(1_000),
            last_report: UnixMillis(last_report),
        }
    }

    #[test]
    fn a_report_is_due_once_an_interval_and_for_its_own_session_only() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("agent.redb");
        let (one, two) = (
            SessionId::parse("../one").unwrap(),
            SessionId::parse("two").unwrap(),
        );
        let at = |ms: u64, session: &SessionId| due(&store, session, UnixMillis(ms), 60_000);
        assert_eq!(at(1_000_000, &one), None);
        put(&store, &one, Some(&marker(&one, 100_000))).unwrap();
        assert_eq!(at(159_999, &one), None);
        assert_eq!(at(160_000, &two), None);
        assert_eq!(at(160_000, &one).unwrap().task_id, "t\n1");
        assert_eq!(at(160_001, &one), None, "reminded just now");
        assert!(at(220_000, &one).is_some());
        // A report puts it off.
        put(&store, &one, Some(&marker(&one, 270_000))).unwrap();
        assert_eq!(at(290_000, &one), None);
        // A clock that was set back does not silence it for ever.
        assert!(at(5_000, &one).is_some());
        put(&store, &one, None).unwrap();
        assert_eq!(at(9_000_000, &one), None);
        assert_eq!(fs::read_dir(folder(&store)).unwrap().count(), 0);
        fs::write(file(&store, &two, "task"), b"{").unwrap();
        assert_eq!(at(9_000_000, &two), None);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_peer_asked_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("agent.redb");
        let one = SessionId::parse("one").unwrap();
        put(&store, &one, Some(&marker(&one, 1))).unwrap();
        assert!(due(&store, &one, UnixMillis(90_000), 60_000).is_some());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder(&store)), 0o700);
        for kind in ["task", "reminded"] {
            assert_eq!(mode(&file(&store, &one, kind)), 0o600, "{kind}");
        }
    }
}
