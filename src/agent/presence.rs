//! "This session exists": announced to every relay, at once and every half minute.
//!
//! Announcements are public to whoever can ask a relay, so the working directory is named by its
//! last part only.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::core::Core;
use crate::types::time::Clock as _;
use crate::wire::announce::{Announcement, SessionInfo};

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
            () = sleep(HEARTBEAT) => {}
        }
        calls.detach_all();
    }
}

/// What this session says about itself, signed now.
#[must_use]
pub fn announcement(core: &Core) -> Announcement {
    let cwd = std::env::current_dir().unwrap_or_default();
    let summary = core
        .summary
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let info = SessionInfo {
        session_id: core.session.to_string(),
        cwd: last_part(&cwd),
        git_root: git_root(&cwd).map(last_part).unwrap_or_default(),
        summary,
    };
    Announcement::sign(&core.identity, core.name.clone(), info, core.clock.now())
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
