//! "This session exists": announced to every relay, at once and every half minute.
//!
//! Announcements are public to whoever can ask a relay, so the working directory is named by its
//! last part unless the user says otherwise. Their signed times only grow, also when the clock is set
//! back: receivers do not believe one that is older than what they know.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::config::ShareCwd;
use super::core::Core;
use crate::domain::decide::agent::{AgentCommand, DirectoryCommand};
use crate::domain::machine::presence::is_goodbye;
use crate::types::time::{Clock as _, UnixMillis};
use crate::wire::announce::{Announcement, SessionInfo};
use crate::wire::envelope::{Message, MessageKind};

/// Time between announcements. Given by the wire: a session is live for 90 s after one.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Announces for as long as the session is ours.
pub async fn run(core: Arc<Core>) {
    loop {
        let lease = core.lease.held().await;
        tokio::select! {
            () = core.lease.lost(&lease) => {}
            () = beat(&core) => {}
        }
    }
}

async fn beat(core: &Arc<Core>) {
    let mut woke = core.woke.subscribe();
    loop {
        let announcement = Arc::new(announcement(core));
        let mut calls = JoinSet::new();
        for relay in &core.relays {
            let (relay, announcement) = (Arc::clone(relay), Arc::clone(&announcement));
            calls.spawn(async move {
                match relay.client.announce(&announcement).await {
                    Ok(()) => relay.answered(),
                    Err(e) => tracing::debug!("announcing to {}: {e}", relay.client.url()),
                }
            });
        }
        // A relay that hangs must not delay the next announcement to the others.
        tokio::select! {
            () = core.summary_changed.notified() => {}
            _ = woke.changed() => {}
            () = sleep(HEARTBEAT) => {}
        }
        calls.detach_all();
    }
}

/// What this session says about itself, signed now.
#[must_use]
pub fn announcement(core: &Core) -> Announcement {
    let ts = grow(&core.announced, core.clock.now());
    Announcement::sign(&core.identity, core.name.clone(), said(core), ts)
}

/// The same, not signed: for who asks this very session.
#[must_use]
pub fn said(core: &Core) -> SessionInfo {
    let cwd = std::env::current_dir().unwrap_or_default();
    let summary = core
        .summary
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let (cwd, git_root) = place(&cwd, core.config.share_cwd);
    SessionInfo {
        session_id: core.session.to_string(),
        cwd,
        git_root,
        summary,
    }
}

/// What a message says about the end of its sender's session, if it is a good-bye. Whether its
/// signature holds is for the gate to say.
#[must_use]
pub fn goodbye(core: &Core, message: &Message) -> Option<AgentCommand> {
    let session = message.reply_route()?.session?;
    (message.kind == MessageKind::Message && is_goodbye(&message.text, &session)).then_some(
        AgentCommand::Directory(DirectoryCommand::Closed {
            own: core.me,
            key: message.from,
            session,
            ts: message.ts,
        }),
    )
}

/// The time to sign with: now, or the next millisecond after the last one.
fn grow(last: &AtomicU64, now: UnixMillis) -> UnixMillis {
    let next = |last: u64| Some(now.0.max(last.saturating_add(1)));
    match last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
        Ok(last) | Err(last) => UnixMillis(now.0.max(last.saturating_add(1))),
    }
}

/// What is said of the working directory and its repository.
fn place(cwd: &Path, share: ShareCwd) -> (String, String) {
    let root = || git_root(cwd).map(last_part).unwrap_or_default();
    match share {
        ShareCwd::Full => (cwd.to_string_lossy().into_owned(), root()),
        ShareCwd::Basename => (last_part(cwd), root()),
        ShareCwd::None => (String::new(), String::new()),
    }
}

fn last_part(path: impl AsRef<Path>) -> String {
    path.as_ref()
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn git_root(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|dir| dir.join(".git").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_only_grow_also_under_a_clock_that_is_set_back() {
        let last = AtomicU64::new(0);
        let times: Vec<u64> = [100, 200, 50, 50, 201, 300]
            .iter()
            .map(|now| grow(&last, UnixMillis(*now)).0)
            .collect();
        assert_eq!(times, [100, 200, 201, 202, 203, 300]);
    }

    #[test]
    fn of_a_directory_no_more_is_said_than_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("secret-client").join("app");
        let cwd = repository.join("src");
        std::fs::create_dir_all(&cwd).unwrap();
        std::fs::create_dir(repository.join(".git")).unwrap();
        let full = cwd.to_string_lossy().into_owned();
        for (share, said) in [
            (ShareCwd::Full, (full, "app".to_owned())),
            (ShareCwd::Basename, ("src".to_owned(), "app".to_owned())),
            (ShareCwd::None, (String::new(), String::new())),
        ] {
            assert_eq!(place(&cwd, share), said);
        }
    }
}
