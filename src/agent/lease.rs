//! The right to act for a session.
//!
//! The newest process wins: it takes the next lease, and the one before finds out at its next
//! write, or when it sees the log. That one stops polling and keeps its read tools. It takes the
//! session back only when the other one is gone.

use std::time::Duration;

use tokio::sync::watch;

use super::core::Core;
use super::ledger::LedgerError;
use super::lifecycle::{is_alive, process_start};
use crate::domain::decide::agent::{AgentCommand, AgentRefusal, AgentReply, Lease};
use crate::domain::query::agent as query;
use crate::types::time::Clock as _;

/// How often it is looked whether the process that took over still lives.
const LOOK: Duration = Duration::from_secs(2);

/// What this process may do for its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Right {
    /// Nothing yet: the store is not open.
    Pending,
    /// Everything.
    Held(Lease),
    /// Read.
    Lost {
        /// Who took over, if it says.
        pid: Option<u32>,
    },
}

/// The right, shared by everything that acts for the session.
#[derive(Debug)]
pub struct LeaseState(watch::Sender<Right>);

impl Default for LeaseState {
    fn default() -> Self {
        LeaseState(watch::Sender::new(Right::Pending))
    }
}

impl LeaseState {
    /// The right at this moment.
    #[must_use]
    pub fn now(&self) -> Right {
        self.0.borrow().clone()
    }

    /// Follows it.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Right> {
        self.0.subscribe()
    }

    /// Waits for the lease.
    pub async fn held(&self) -> Lease {
        let mut follow = self.0.subscribe();
        loop {
            if let Right::Held(lease) = &*follow.borrow_and_update() {
                return lease.clone();
            }
            if follow.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until `lease` is not the held one any more.
    pub async fn lost(&self, lease: &Lease) {
        let mut follow = self.0.subscribe();
        let gone = |right: &Right| !matches!(right, Right::Held(held) if held == lease);
        if follow.wait_for(gone).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn set(&self, right: Right) {
        self.0.send_if_modified(|old| {
            let changed = *old != right;
            *old = right;
            changed
        });
    }

    /// Looks whether an error says that the lease is gone.
    pub fn learn(&self, e: &LedgerError) {
        if let Some(AgentRefusal::LeaseLost { holder_pid, .. }) = e.refusal()
            && matches!(self.now(), Right::Held(_))
        {
            tracing::warn!("another process took this session over (pid {holder_pid:?})");
            self.set(Right::Lost { pid: *holder_pid });
        }
    }
}

/// Takes the session over, watches that it stays ours, and takes it back from the dead.
pub async fn keep(core: &Core) {
    let mut head = core.ledger.follow();
    loop {
        take(core).await;
        let held = core.lease.held().await;
        // Every commit may be the one by which another process takes over.
        while let Right::Held(_) = core.lease.now() {
            if head.changed().await.is_err() {
                return;
            }
            let session = core.session.clone();
            let row = core
                .ledger
                .read(move |s| Ok(query::lease(s, &session)?))
                .await;
            if let Ok(Some(row)) = row
                && row.epoch > held.epoch
            {
                let pid = row.holder.map(|h| h.pid);
                tracing::warn!("another process took this session over (pid {pid:?})");
                core.lease.set(Right::Lost { pid });
            }
        }
        while is_held_elsewhere(core).await {
            tokio::time::sleep(LOOK).await;
        }
        tracing::info!("the process that had taken this session over is gone");
    }
}

async fn is_held_elsewhere(core: &Core) -> bool {
    let session = core.session.clone();
    match core
        .ledger
        .read(move |s| Ok(query::lease(s, &session)?))
        .await
    {
        Ok(Some(row)) => row.holder.is_some_and(|h| is_alive(h.pid, h.process_start)),
        Ok(None) => false,
        Err(_) => true,
    }
}

async fn take(core: &Core) {
    let mut head = core.ledger.follow();
    loop {
        let pid = std::process::id();
        let command = AgentCommand::TakeLease {
            session: core.session.clone(),
            pid,
            process_start: process_start(pid),
            now: core.clock.now(),
        };
        match core.ledger.submit(command).await {
            Ok(AgentReply::Lease(lease)) => {
                tracing::debug!("lease {} of session {}", lease.epoch, lease.session);
                return core.lease.set(Right::Held(lease));
            }
            Ok(_) => tracing::error!("the store gave no lease"),
            Err(e) => tracing::debug!("no lease yet: {e}"),
        }
        // The head moves when the store opens.
        let _ = tokio::time::timeout(LOOK, head.changed()).await;
    }
}
