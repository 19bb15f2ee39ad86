//! The life of a channel server: start its parts, serve the host, end in time.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::bond::audit::AuditFile;
use super::bond::books::BondBooks;
use super::bond::desk::Desk;
use super::bond::scribe::Scribe;
use super::config::{AgentConfig, StorePlace};
use super::connect::SetUpError;
use super::core::Core;
use super::lease::{self, Right};
use super::ledger::Ledger;
use super::lifecycle::{self, Ending, Parent};
use super::mcp::server::{Served, serve as serve_host};
use super::peers_file::{PeersFile, PeersFileError};
use super::runtime::{Base, Supervisor};
use super::{pairing, poll, presence, progress, pump, sweep, wake};
use crate::crypto::sign::SigningIdentity;
use crate::domain::decide::agent::AgentCommand;
use crate::domain::query::agent as query;
use crate::keystore::LoadKeyError;
use crate::store::{Location, OpenOptions, Retention};
use crate::system::SystemClock;
use crate::types::id::{MsgId, SessionId};
use crate::types::route::Route;
use crate::types::time::{Clock as _, UnixMillis};
use crate::wire::envelope::{Draft, Message, MessageKind};

/// What saying good-bye may take, all of it together.
const FAREWELL: Duration = Duration::from_millis(200);
/// How often the allowlist file is looked at when no mail comes.
const PEERS_LOOK: Duration = Duration::from_secs(5);

/// The program cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The identity does not load.
    #[error(transparent)]
    Key(#[from] LoadKeyError),
    /// No HTTP.
    #[error(transparent)]
    Client(#[from] SetUpError),
    /// The identity has another allowlist.
    #[error(transparent)]
    Peers(#[from] PeersFileError),
    /// A thread or a pipe.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

/// How an identity's store is opened. With a retention its older records are folded by and by.
#[must_use]
pub fn store_options(place: &StorePlace, retention: Option<Retention>) -> OpenOptions {
    let file = |path: &PathBuf| Location::File(path.clone());
    let options = match place {
        StorePlace::Memory => OpenOptions::exclusive(Location::Memory),
        StorePlace::Shared(path) => OpenOptions::shared(file(path)),
        StorePlace::Exclusive(path) => OpenOptions {
            cache_bytes: 16 << 20,
            ..OpenOptions::exclusive(file(path))
        },
    };
    OpenOptions {
        retention,
        ..options
    }
}

/// Runs a channel server until its host, its parent or a signal ends it. Returns the exit code;
/// the caller exits at once, without waiting for threads.
///
/// # Errors
///
/// [`StartError`].
pub async fn serve(
    config: AgentConfig,
    identity: SigningIdentity,
    parent: Parent,
) -> Result<u8, StartError> {
    let clock = Arc::new(SystemClock);
    let ledger = Ledger::start(
        store_options(&config.store, Some(config.retention)),
        clock.clone(),
    )?;
    let audit = match &config.store {
        StorePlace::Memory => None,
        StorePlace::Shared(store) | StorePlace::Exclusive(store) => {
            let home = config.bond.home.clone();
            Some(AuditFile::of_store(home, &identity.public(), store))
        }
    };
    // Each sealed session names its conversation anew.
    let conversation = match &config.session {
        Some(session) => session.clone(),
        None => SessionId::parse("none").map_err(io::Error::other)?,
    };
    let books = BondBooks::new(Arc::clone(&ledger), clock.clone(), conversation, audit);
    let supervisor = Arc::new(Supervisor::new(Base {
        identity: Arc::new(identity),
        ledger,
        peers: PeersFile::new(config.peers.clone(), config.adopt_peers, clock),
        bond: Arc::new(Desk::new(config.bond.clone(), Scribe::start(books))),
        config,
    }));
    let (refuse, refused) = oneshot::channel();
    let mut parts = JoinSet::new();
    parts.spawn(watch_peers(Arc::clone(&supervisor), refuse));
    parts.spawn({
        let supervisor = Arc::clone(&supervisor);
        async move { sweep::run(&supervisor.base.ledger, &supervisor.base.config).await }
    });
    if let Some(session) = &supervisor.base.config.session {
        supervisor.bind(session)?;
    }
    let outcome = tokio::select! {
        outcome = run_session(&supervisor) => outcome.map_err(StartError::from),
        ending = lifecycle::signalled() => Ok((ending, 0)),
        ending = parent.died() => Ok((ending, 0)),
        Ok(e) = refused => Err(StartError::from(e)),
    };
    tracing::debug!("ending: {outcome:?}");
    parts.abort_all();
    supervisor.shut_down(FAREWELL).await;
    outcome.map(|(_, code)| code)
}

/// Starts everything that acts for a session.
pub(super) fn parts(core: &Arc<Core>) -> JoinSet<()> {
    let mut parts = JoinSet::new();
    for relay in &core.relays {
        parts.spawn(poll::run(Arc::clone(core), Arc::clone(relay)));
        parts.spawn(pump::run(Arc::clone(core), Arc::clone(relay)));
    }
    parts.spawn(presence::run(Arc::clone(core)));
    parts.spawn(pairing::run(Arc::clone(core)));
    parts.spawn(wake::run(Arc::clone(core)));
    parts.spawn(progress::run(Arc::clone(core)));
    parts.spawn({
        let core = Arc::clone(core);
        async move { lease::keep(&core).await }
    });
    parts
}

async fn run_session(supervisor: &Arc<Supervisor>) -> io::Result<(Ending, u8)> {
    let served = serve_host(supervisor).await?;
    let code = match served {
        Served::Closed => 0,
        Served::NeverOpened => 1,
    };
    Ok((Ending::EndOfInput, code))
}

/// Takes hand edits of the allowlist over, also while no mail comes, and ends the sealed session of who
/// is no peer any more; says when it breaks. A file
/// that is not the identity's is told through `refuse` and ends this.
async fn watch_peers(supervisor: Arc<Supervisor>, refuse: oneshot::Sender<PeersFileError>) {
    let base = &supervisor.base;
    let mut said = String::new();
    let mut started = false;
    loop {
        if base.ledger.is_open() {
            match base.peers.ensure(&base.ledger).await {
                Ok(()) => {
                    started = true;
                    if let Err(e) = base.peers.follow_log(&base.ledger).await {
                        tracing::debug!("the peers file: {e}");
                    }
                    base.bond.part_from_strangers(&base.ledger).await;
                    if !said.is_empty() {
                        tracing::info!("the peers file reads again");
                        said.clear();
                    }
                }
                Err(e @ PeersFileError::Elsewhere { .. }) if !started => {
                    let _ = refuse.send(e);
                    return;
                }
                Err(e) => {
                    let text = e.to_string();
                    if text != said {
                        tracing::error!("{text}");
                        said = text;
                    }
                }
            }
        }
        let pause = if started {
            PEERS_LOOK
        } else {
            Duration::from_millis(50)
        };
        tokio::time::sleep(pause).await;
    }
}

/// Whether anything comes after a farewell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// Another conversation uses the store.
    OfTheSession,
    /// Nothing.
    OfTheProcess,
}

/// Leaves the presence boards, says good-bye to whoever wrote to this process, gives the lease
/// back; closes the store when the process ends. All at once, nothing queued, nothing waited for
/// beyond the caller's limit.
pub(super) async fn farewell(core: &Arc<Core>, started: UnixMillis, last: Last) {
    let close = async {
        if last == Last::OfTheProcess {
            core.ledger.close().await;
        }
    };
    let Right::Held(lease) = core.lease.now() else {
        return close.await;
    };
    core.ledger
        .submit_and_forget(AgentCommand::ReleaseLease { lease });
    progress::end(core);
    let announcement = Arc::new(presence::announcement(core));
    let mut calls = JoinSet::new();
    for relay in &core.relays {
        let (relay, announcement) = (Arc::clone(relay), Arc::clone(&announcement));
        calls.spawn(async move {
            let _ = relay.client.unregister(&announcement).await;
        });
    }
    for (to, message) in goodbyes(core, started).await {
        let message = Arc::new(message);
        for relay in &core.relays {
            let (relay, to, message) = (Arc::clone(relay), to.clone(), Arc::clone(&message));
            calls.spawn(async move {
                let _ = relay.client.send(&to, &message).await;
            });
        }
    }
    // Not after the calls: a relay that hangs would use up the time.
    let said = async { while calls.join_next().await.is_some() {} };
    tokio::join!(close, said);
}

/// The good-byes to sessions that wrote to this one since the process started.
async fn goodbyes(core: &Core, started: UnixMillis) -> Vec<(Route, Message)> {
    let own = core.session.clone();
    let routes = core
        .ledger
        .read(move |s| {
            let mut routes = vec![];
            for peer in query::peers(s)? {
                let route = query::route(s, &own, &peer.key)?;
                routes.extend(
                    route
                        .filter(|r| r.at >= started)
                        .map(|r| Route::new(peer.key, r.session)),
                );
            }
            Ok(routes)
        })
        .await
        .unwrap_or_default();
    let text = format!(
        "[interlink] session {} is closing. Goodbye; run discover before writing to it again.",
        core.session
    );
    routes
        .into_iter()
        .filter_map(|to| {
            let draft = Draft {
                to: to.key,
                text: text.clone(),
                ts: core.clock.now(),
                msg_id: MsgId::new_random(&core.entropy).ok()?,
                kind: MessageKind::Message,
                task_id: None,
                status: None,
                in_reply_to: None,
                reply_to: Some(core.route()),
            };
            Some((to, Message::sign(&core.identity, draft)))
        })
        .collect()
}
