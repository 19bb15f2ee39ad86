//! Notices through a listener that a hook of the host keeps running: `interlink-mcp wait`.
//!
//! The host starts it in the background and wakes the model when it exits with code 2, with what
//! it wrote to standard error. It reads the identity's log beside the channel server and never
//! takes the session over: what it records, it records under the lease of the process that has it.
//! Each turn of the host may start another one, so one lock per session lets one of them listen.
//! Where the server has better ways, the listener leaves them the first turn, and acts when a notice
//! that went another way stayed without an answer.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::notice_text;
use crate::agent::config::StorePlace;
use crate::agent::driver::store_options;
use crate::agent::lifecycle::Parent;
use crate::agent::random::{OsEntropy, random_hex};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{Agent, AgentCommand, AgentReply, Lease};
use crate::domain::machine::notice::{NextNotice, NoticeStep, NoticeView, next, turn};
use crate::domain::projection::agent::NoticeRow;
use crate::domain::query::agent as query;
use crate::event::agent::NoticePath;
use crate::store::create_private_dir;
use crate::store::{ReadError, Snapshot, Store};
use crate::system::SystemClock;
use crate::types::id::SessionId;
use crate::types::time::{Clock as _, UnixMillis};

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// A server that looks whether somebody listens holds the lock for a moment.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How waiting ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Tell the host: exit code 2, this text on standard error.
    Wake(String),
    /// Nothing to tell: exit code 0, silently.
    Silent,
}

/// What a listener does when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// Wakes the host once, so that it starts another one.
    Renew,
    /// Ends silently.
    End,
}

/// Waits until a notice for `session` is due and it is the listener's turn, or for `limit`.
///
/// Silent when the program that started it is gone, when another listener holds the session's lock, when the store is not shared, and when
/// it cannot be used: a hook must not disturb a session because of us.
///
/// # Errors
///
/// When the lock file cannot be made.
pub fn wait(
    place: &StorePlace,
    session: &SessionId,
    limit: Duration,
    at_limit: AtLimit,
) -> io::Result<Waited> {
    let parent = Parent::now();
    let StorePlace::Shared(path) = place else {
        return Ok(Waited::Silent);
    };
    let deadline = Instant::now() + limit;
    let Some(_lock) = lock(path, session)? else {
        return Ok(Waited::Silent);
    };
    let Some(store) = open(place, path, deadline) else {
        return Ok(renewal(at_limit));
    };
    while Instant::now() < deadline {
        if let Some(view) = due(&store, session) {
            return Ok(Waited::Wake(notice_text(&view)));
        }
        if parent.is_gone() {
            return Ok(Waited::Silent);
        }
        let head = store.head();
        let _ = store.refresh_head();
        if store.head() == head {
            sleep(LOOK);
        }
    }
    Ok(renewal(at_limit))
}

fn renewal(at_limit: AtLimit) -> Waited {
    match at_limit {
        AtLimit::Renew => Waited::Wake(
            "[interlink listener] nothing new; the listener is renewed. Nothing to do.".to_owned(),
        ),
        AtLimit::End => Waited::Silent,
    }
}

/// Opens the store, which may not exist before the channel server made it.
fn open(place: &StorePlace, path: &Path, deadline: Instant) -> Option<Store<Agent>> {
    loop {
        if path.exists() {
            match Store::open(store_options(place, None), Arc::new(SystemClock), None) {
                Ok(store) => return Some(store),
                Err(e) => tracing::debug!("{e}"),
            }
        }
        if Instant::now() >= deadline {
            return None;
        }
        sleep(LOOK);
    }
}

/// Whether a notice is due; if so, it is recorded as handed over, because exiting does that.
fn due(store: &Store<Agent>, session: &SessionId) -> Option<NoticeView> {
    let now = SystemClock.now();
    let looked = store.snapshot().and_then(|s| look(&s, session, now));
    let epoch = match looked {
        Ok(epoch) => epoch?,
        Err(e) => {
            tracing::debug!("{e}");
            return None;
        }
    };
    let lease = Lease {
        session: session.clone(),
        epoch,
    };
    let id = random_hex::<4>(&OsEntropy).ok()?;
    let path = NoticePath::Listener;
    let reserve = AgentCommand::ReserveNotice {
        lease: lease.clone(),
        id,
        path,
        patience_ms: None,
        now,
    };
    let AgentReply::Notice(NoticeStep::Offer(view)) = submit(store, reserve)? else {
        return None;
    };
    let accepted = AgentCommand::NoticeResult {
        lease,
        id: view.id.clone(),
        accepted: Some(path),
        patience_ms: None,
        now,
    };
    submit(store, accepted)?;
    Some(view)
}

/// A look without a write: the epoch of the session's holder, if something is due.
fn look(s: &Snapshot, session: &SessionId, now: UnixMillis) -> Result<Option<u64>, ReadError> {
    let Some(row) = query::lease(s, session)? else {
        return Ok(None);
    };
    let notice = query::notice(s, session)?.as_ref().map(NoticeRow::schedule);
    let waiting = query::unread_totals(s, session)?.waiting();
    let host = query::host(s, session)?;
    let ours = NoticePath::Listener;
    let whose = match &host {
        Some(host) => turn(&host.paths, host.confirmed, notice.as_ref()),
        None => Some(ours),
    };
    if whose != Some(ours) {
        return Ok(None);
    }
    let due = matches!(
        next(notice.as_ref(), waiting, now),
        NextNotice::New | NextNotice::Again { .. }
    );
    Ok((due && row.holder.is_some()).then_some(row.epoch))
}

fn submit(store: &Store<Agent>, command: AgentCommand) -> Option<AgentReply> {
    let committed = store.submit(command).ok()?.wait();
    match committed {
        Ok(committed) => Some(committed.reply),
        Err(e) => {
            tracing::debug!("{e}");
            sleep(LOOK);
            None
        }
    }
}

/// The session's listener lock beside the store; `None` when another listener has it.
fn lock(store: &Path, session: &SessionId) -> io::Result<Option<File>> {
    let path = lock_path(store, session);
    if let Some(parent) = path.parent() {
        create_private_dir(parent)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&path)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE),
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
    Ok(None)
}

/// Whether somebody listens for a session.
#[must_use]
pub fn is_listening(store: &Path, session: &SessionId) -> bool {
    let Ok(file) = File::open(lock_path(store, session)) else {
        return false;
    };
    // Released with the file, at once.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Session ids are free text, so the name of the file is a digest of it.
fn lock_path(store: &Path, session: &SessionId) -> PathBuf {
    let digest = sha256(session.as_str().as_bytes());
    let short = digest.first_chunk::<16>().copied().unwrap_or_default();
    let mut name = OsString::from("listener-");
    name.push(data_encoding::HEXLOWER.encode(&short));
    name.push(".lock");
    store.with_file_name(name)
}
