//! What every part of a channel server shares.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::bond::desk::Desk;
use super::client::RelayClient;
use super::config::AgentConfig;
use super::lease::{LeaseState, Right};
use super::ledger::{Ledger, LedgerError};
use super::pace::Complaints;
use super::pairing::Backlog;
use super::peers_file::PeersFile;
use super::random::OsEntropy;
use super::roster::Memory;
use super::trouble::Told;
use crate::crypto::sign::SigningIdentity;
use crate::domain::decide::agent::{AgentCommand, AgentRefusal, AgentReply, Lease};
use crate::domain::machine::outbox::RelayHealth;
use crate::system::SystemClock;
use crate::types::id::{PublicKey, SessionId};
use crate::types::route::Route;

/// A relay with what this process knows of it.
#[derive(Debug)]
pub struct Relay {
    /// How to reach it.
    pub client: RelayClient,
    /// Whether it answers.
    pub health: Mutex<RelayHealth>,
    /// Rings when it came back.
    pub back: Notify,
    /// When it answered last.
    pub last: Mutex<Option<Instant>>,
    /// What is wrong with its mail.
    pub complaints: Complaints,
}

impl Relay {
    /// A relay of which nothing is known yet.
    #[must_use]
    pub fn new(client: RelayClient) -> Relay {
        Relay {
            client,
            health: Mutex::new(RelayHealth::new()),
            back: Notify::new(),
            last: Mutex::default(),
            complaints: Complaints::default(),
        }
    }

    /// Says what is wrong with its mail: a few times, then now and then with how often it was.
    pub fn complain(&self, what: fmt::Arguments<'_>) {
        let url = self.client.url();
        match self.complaints.may_say(Instant::now()) {
            Some(0) => tracing::warn!("{url}: {what}"),
            Some(n) => tracing::warn!("{url}: {what} ({n} more of this kind before)"),
            None => {}
        }
    }

    /// It answered to whatever request.
    pub fn answered(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        if self.lock().answered() {
            tracing::info!("relay {} is back", self.client.url());
            self.back.notify_one();
        }
    }

    /// Whether it answered to anything after a moment.
    #[must_use]
    pub fn has_answered_since(&self, moment: Instant) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last > moment)
    }

    /// Its health, locked. Never hold it across an await.
    pub fn lock(&self) -> std::sync::MutexGuard<'_, RelayHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every part of a channel server shares.
pub struct Core {
    /// What it was told at its start.
    pub config: AgentConfig,
    /// The identity.
    pub identity: Arc<SigningIdentity>,
    /// Its public half.
    pub me: PublicKey,
    /// The session.
    pub session: SessionId,
    /// The node's name.
    pub name: String,
    /// The log.
    pub ledger: Arc<Ledger>,
    /// The allowlist file.
    pub peers: PeersFile,
    /// The right to act for the session.
    pub lease: LeaseState,
    /// The relays.
    pub relays: Vec<Arc<Relay>>,
    /// What went wrong and was told.
    pub told: Told,
    /// Requests of peers that wait for an answer.
    pub asked: Backlog,
    /// What was seen of others' announcements.
    pub roster: Memory,
    /// The sealed session of the process.
    pub bond: Arc<Desk>,
    /// What the session works on.
    pub summary: Mutex<String>,
    /// Rings when the summary changed.
    pub summary_changed: Notify,
    /// Counts how often the machine woke up, or its clock jumped.
    pub woke: watch::Sender<u64>,
    /// Signed time of the last announcement: they only grow, because an older one is not believed.
    pub announced: AtomicU64,
    /// The time.
    pub clock: SystemClock,
    /// Randomness.
    pub entropy: OsEntropy,
}

impl Core {
    /// The queue that this session polls.
    #[must_use]
    pub fn route(&self) -> Route {
        Route::new(self.me, self.session.clone())
    }

    /// The machine slept, or the process stood still: every connection is given up, and whoever
    /// waits for a relay or for a backoff asks again at once. Rings [`Core::woke`].
    pub fn wake(&self) {
        // They share their connections.
        if let Some(Err(e)) = self.relays.first().map(|r| r.client.renew_connections()) {
            tracing::warn!("the old connections are kept: {e}");
        }
        self.bond.woke();
        for relay in &self.relays {
            *relay.lock() = RelayHealth::new();
        }
        self.woke
            .send_modify(|times| *times = times.wrapping_add(1));
    }

    /// Whether a relay is one of ours.
    #[must_use]
    pub fn has_relay(&self, url: &str) -> bool {
        self.relays.iter().any(|r| r.client.url() == url)
    }

    /// The lease, or who has it.
    ///
    /// # Errors
    ///
    /// [`ActError`].
    pub fn require_lease(&self) -> Result<Lease, ActError> {
        match self.lease.now() {
            Right::Held(lease) => Ok(lease),
            Right::Lost { pid } => Err(ActError::NotOurs { pid }),
            Right::Pending => Err(ActError::NotReady),
        }
    }

    /// Waits a moment for the lease: a tool may be called right after the start.
    ///
    /// # Errors
    ///
    /// [`ActError`].
    pub async fn await_lease(&self) -> Result<Lease, ActError> {
        if matches!(self.lease.now(), Right::Pending) {
            let limit = std::time::Duration::from_secs(3);
            let _ = tokio::time::timeout(limit, self.lease.held()).await;
        }
        match self.require_lease() {
            // The ledger knows who is in the way.
            Err(ActError::NotReady) => match self.ledger.read(|_| Ok(())).await {
                Err(e) => Err(ActError::Ledger(e)),
                Ok(()) => Err(ActError::NotReady),
            },
            answer => answer,
        }
    }

    /// Carries out a command of the session; learns from a refusal that the lease is gone.
    ///
    /// # Errors
    ///
    /// [`ActError`].
    pub async fn submit(&self, command: AgentCommand) -> Result<AgentReply, ActError> {
        self.ledger.submit(command).await.map_err(|e| self.judge(e))
    }

    /// As [`Core::submit`], several commands in one go.
    pub async fn submit_all(
        &self,
        commands: Vec<AgentCommand>,
    ) -> Vec<Result<AgentReply, ActError>> {
        let answers = self.ledger.submit_all(commands).await;
        answers
            .into_iter()
            .map(|answer| answer.map_err(|e| self.judge(e)))
            .collect()
    }

    /// What a failed command of the session means; learns from a refusal that the lease is gone.
    pub fn judge(&self, e: LedgerError) -> ActError {
        self.lease.learn(&e);
        match e.refusal() {
            Some(AgentRefusal::LeaseLost { holder_pid, .. }) => {
                ActError::NotOurs { pid: *holder_pid }
            }
            _ => ActError::Ledger(e),
        }
    }
}

/// A session could not act.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActError {
    /// Another process acts for it.
    #[error("another process owns this session{}", .pid.map_or_else(String::new, |p| format!(" (pid {p})")))]
    NotOurs {
        /// Its process id, if it says.
        pid: Option<u32>,
    },
    /// The store is not open yet.
    #[error("the store is not open yet; try again in a moment")]
    NotReady,
    /// The log did not answer.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}
