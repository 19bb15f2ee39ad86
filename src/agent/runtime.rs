//! Which session this process acts for.
//!
//! A host may change the conversation under a running server (`/clear`, `/resume`), or name it only
//! when its first hook runs. What belongs to a conversation (its queue, its lease, its wake-ups)
//! lives in one [`Core`] with the tasks around it. Binding another session ends that as a whole and
//! builds a fresh one, so nothing of the old conversation can reach the new one. A tool call keeps
//! the core that it started with.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::bond::desk::Desk;
use super::client::RelayClient;
use super::config::AgentConfig;
use super::connect::SetUpError;
use super::core::{Core, Relay};
use super::driver::{self, Last};
use super::host;
use super::lease::{LeaseState, Right};
use super::ledger::Ledger;
use super::mcp::server::HostConnection;
use super::pairing::Backlog;
use super::peers_file::PeersFile;
use super::random::OsEntropy;
use super::roster::Memory;
use super::trouble::Told;
use crate::crypto::sign::SigningIdentity;
use crate::domain::decide::agent::{AgentCommand, HostCommand};
use crate::system::SystemClock;
use crate::types::id::SessionId;
use crate::types::time::{Clock as _, UnixMillis};

/// What the farewell of a conversation that was left may take; nobody waits for it.
const LEAVE: Duration = Duration::from_secs(3);

/// What all conversations of a process share.
pub struct Base {
    /// What the process was told at its start.
    pub config: AgentConfig,
    /// The identity.
    pub identity: Arc<SigningIdentity>,
    /// The log.
    pub ledger: Arc<Ledger>,
    /// The allowlist file.
    pub peers: PeersFile,
    /// The sealed session; it outlives conversations, because people opened it and not a model.
    pub bond: Arc<Desk>,
}

impl Base {
    /// Everything that acts for one session, not started.
    fn core(&self, session: SessionId) -> Result<Arc<Core>, SetUpError> {
        let me = self.identity.public();
        let name = self
            .config
            .name
            .clone()
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| me.fingerprint().to_string());
        let relays = RelayClient::all(&self.config.relays, &self.config.authorities)?
            .into_iter()
            .map(|client| Arc::new(Relay::new(client)))
            .collect();
        let core = Arc::new(Core {
            identity: Arc::clone(&self.identity),
            me,
            session,
            name,
            ledger: Arc::clone(&self.ledger),
            peers: self.peers.clone(),
            lease: LeaseState::default(),
            relays,
            told: Told::default(),
            asked: Backlog::default(),
            roster: Memory::default(),
            bond: Arc::clone(&self.bond),
            summary: Mutex::default(),
            summary_changed: Notify::new(),
            woke: watch::Sender::new(0),
            announced: AtomicU64::new(0),
            clock: SystemClock,
            entropy: OsEntropy,
            config: self.config.clone(),
        });
        self.bond.attach(&core);
        Ok(core)
    }
}

/// A session that is acted for.
struct Running {
    core: Arc<Core>,
    started: UnixMillis,
    parts: JoinSet<()>,
    /// Whether the wake-ups run; they need the host.
    wakes: bool,
    /// Whether the model was told what to do at the start of a conversation.
    greeted: bool,
}

impl Running {
    fn wake_through(&mut self, host: &HostConnection) {
        if !self.wakes {
            self.wakes = true;
            let core = Arc::clone(&self.core);
            self.parts.spawn(host::run(core, host.clone()));
        }
    }
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    host: Option<HostConnection>,
}

/// Acts for at most one session at a time.
pub struct Supervisor {
    /// What all sessions share.
    pub base: Base,
    state: Mutex<State>,
}

impl Supervisor {
    /// Acts for nobody yet.
    #[must_use]
    pub fn new(base: Base) -> Supervisor {
        Supervisor {
            base,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that is acted for, with its parts.
    #[must_use]
    pub fn core(&self) -> Option<Arc<Core>> {
        let state = self.state();
        state.running.as_ref().map(|r| Arc::clone(&r.core))
    }

    /// Acts for `session` from now on. The one before is ended: it takes its leave in the
    /// background, and its outstanding notice is retired.
    ///
    /// # Errors
    ///
    /// [`SetUpError`]; nothing changed then.
    pub fn bind(&self, session: &SessionId) -> Result<Arc<Core>, SetUpError> {
        let mut state = self.state();
        if let Some(running) = &state.running
            && running.core.session == *session
        {
            return Ok(Arc::clone(&running.core));
        }
        let core = self.base.core(session.clone())?;
        if let Some(old) = state.running.take() {
            leave(old);
        }
        tracing::info!("acting for session {session}");
        let mut running = Running {
            started: core.clock.now(),
            parts: driver::parts(&core),
            core: Arc::clone(&core),
            wakes: false,
            greeted: false,
        };
        if let Some(host) = &state.host {
            running.wake_through(host);
        }
        state.running = Some(running);
        Ok(core)
    }

    /// Stops acting for `session`, if that is the current one.
    pub fn end(&self, session: &SessionId) {
        let mut state = self.state();
        if state
            .running
            .as_ref()
            .is_some_and(|r| r.core.session == *session)
            && let Some(old) = state.running.take()
        {
            tracing::info!("session {session} ended");
            leave(old);
        }
    }

    /// The host opened its session: it can be woken.
    pub fn opened(&self, host: HostConnection) {
        let mut state = self.state();
        if let Some(running) = &mut state.running {
            running.wake_through(&host);
        }
        state.host = Some(host);
    }

    /// Whether this is the first time that the conversation is greeted.
    pub fn greet(&self) -> bool {
        let mut state = self.state();
        match &mut state.running {
            Some(running) => !std::mem::replace(&mut running.greeted, true),
            None => false,
        }
    }

    /// Ends everything with the process; waits at most `limit` for the leave-taking.
    pub async fn shut_down(&self, limit: Duration) {
        let running = {
            let mut state = self.state();
            state.host = None;
            state.running.take()
        };
        let ending = async {
            match running {
                Some(mut running) => {
                    // No part announces or polls any more when the session takes its leave.
                    running.parts.abort_all();
                    driver::farewell(&running.core, running.started, Last::OfTheProcess).await;
                }
                None => self.base.ledger.close().await,
            }
        };
        // The relay of a sealed session hears of the end at the same time.
        let recorded = async {
            self.base.bond.quit().await;
            tokio::join!(self.base.bond.farewell(), ending)
        };
        let _ = tokio::time::timeout(limit, recorded).await;
    }
}

/// Ends a session whose conversation is over, in the background: relays may be slow.
fn leave(mut old: Running) {
    old.parts.abort_all();
    tokio::spawn(async move {
        // What was aborted has stopped when these have been waited for.
        while old.parts.join_next().await.is_some() {}
        if let Right::Held(lease) = old.core.lease.now() {
            let drop = AgentCommand::DropNotice {
                lease: lease.clone(),
            };
            let wish = HostCommand::Detach;
            for command in [drop, AgentCommand::Host { lease, wish }] {
                if let Err(e) = old.core.submit(command).await {
                    tracing::debug!("the notice of session {} stays: {e}", old.core.session);
                }
            }
        }
        let farewell = driver::farewell(&old.core, old.started, Last::OfTheSession);
        let _ = tokio::time::timeout(LEAVE, farewell).await;
    });
}
