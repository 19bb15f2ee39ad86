//! The life of a channel server: start its parts, serve the host, end in time.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;

use super::client::{ClientError, RelayClient};
use super::clock::{OsEntropy, SystemClock};
use super::config::{AgentConfig, StorePlace};
use super::core::{Core, Relay};
use super::host::claude_channel;
use super::lease::{self, LeaseState, Right};
use super::ledger::Ledger;
use super::lifecycle::{self, Ending, Parent};
use super::mcp::server::{Served, serve as serve_host};
use super::peers_file::{PeersFile, PeersFileError};
use super::roster::Memory;
use super::trouble::Told;
use super::{poll, presence, progress, pump, wake};
use crate::crypto::sign::SigningIdentity;
use crate::domain::decide::agent::{AgentCommand, DirectoryCommand, PairingCommand};
use crate::domain::query::agent as query;
use crate::keystore::LoadKeyError;
use crate::store::{Location, OpenOptions};
use crate::types::id::MsgId;
use crate::types::limit::DIRECTORY_RETENTION_MS;
use crate::types::route::Route;
use crate::types::time::{Clock as _, UnixMillis};
use crate::wire::envelope::{Draft, Message, MessageKind};

/// What saying good-bye may take, all of it together.
const FAREWELL: Duration = Duration::from_millis(200);
/// How often the allowlist file is looked at when no mail comes.
const PEERS_LOOK: Duration = Duration::from_secs(5);
/// How often forgotten ids are swept.
const SWEEP: Duration = Duration::from_secs(3600);
/// When that is done first: many sessions live for less than an hour.
const FIRST_SWEEP: Duration = Duration::from_secs(60);

/// The program cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The identity does not load.
    #[error(transparent)]
    Key(#[from] LoadKeyError),
    /// No HTTP.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The identity has another allowlist.
    #[error(transparent)]
    Peers(#[from] PeersFileError),
    /// A thread or a pipe.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

/// How an identity's store is opened.
#[must_use]
pub fn store_options(place: &StorePlace) -> OpenOptions {
    let file = |path: &PathBuf| Location::File(path.clone());
    match place {
        StorePlace::Memory => OpenOptions::exclusive(Location::Memory),
        StorePlace::Shared(path) => OpenOptions::shared(file(path)),
        StorePlace::Exclusive(path) => OpenOptions {
            cache_bytes: 16 << 20,
            ..OpenOptions::exclusive(file(path))
        },
    }
}

fn build(config: AgentConfig, identity: SigningIdentity) -> Result<Arc<Core>, StartError> {
    let clock = Arc::new(SystemClock);
    let me = identity.public();
    let name = config
        .name
        .clone()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| me.fingerprint().to_string());
    let relays = RelayClient::all(&config.relays)?
        .into_iter()
        .map(|client| Arc::new(Relay::new(client)))
        .collect();
    Ok(Arc::new(Core {
        identity,
        me,
        session: config.session.clone(),
        name,
        ledger: Ledger::start(store_options(&config.store), clock.clone())?,
        peers: PeersFile::new(config.peers.clone(), config.adopt_peers, clock),
        lease: LeaseState::default(),
        relays,
        told: Told::default(),
        roster: Memory::default(),
        summary: Mutex::default(),
        summary_changed: Notify::new(),
        woke: watch::Sender::new(0),
        announced: AtomicU64::new(0),
        clock: SystemClock,
        entropy: OsEntropy,
        config,
    }))
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
    let core = build(config, identity)?;
    let started = core.clock.now();
    let (refuse, refused) = oneshot::channel();
    let mut parts = parts(&core, refuse);
    let outcome = tokio::select! {
        outcome = run_session(&core) => outcome.map_err(StartError::from),
        ending = lifecycle::signalled() => Ok((ending, 0)),
        ending = parent.died() => Ok((ending, 0)),
        Ok(e) = refused => Err(StartError::from(e)),
    };
    tracing::debug!("ending: {outcome:?}");
    // No part announces or polls any more when the session takes its leave.
    parts.abort_all();
    let _ = tokio::time::timeout(FAREWELL, farewell(&core, started)).await;
    outcome.map(|(_, code)| code)
}

fn parts(core: &Arc<Core>, refuse: oneshot::Sender<PeersFileError>) -> JoinSet<()> {
    let mut parts = JoinSet::new();
    for relay in &core.relays {
        parts.spawn(poll::run(Arc::clone(core), Arc::clone(relay)));
        parts.spawn(pump::run(Arc::clone(core), Arc::clone(relay)));
    }
    parts.spawn(presence::run(Arc::clone(core)));
    parts.spawn(wake::run(Arc::clone(core)));
    parts.spawn(progress::run(Arc::clone(core)));
    parts.spawn({
        let core = Arc::clone(core);
        async move { lease::keep(&core).await }
    });
    parts.spawn(watch_peers(Arc::clone(core), refuse));
    parts.spawn(sweep(Arc::clone(core)));
    parts
}

async fn run_session(core: &Arc<Core>) -> io::Result<(Ending, u8)> {
    let served = serve_host(core, |host| {
        let mut notices = JoinSet::new();
        if core.config.channels {
            notices.spawn(claude_channel::run(Arc::clone(core), host));
        }
        // Ends with the session: a JoinSet aborts what it holds when it is dropped.
        notices
    })
    .await?;
    let code = match served {
        Served::Closed => 0,
        Served::NeverOpened => 1,
    };
    Ok((Ending::EndOfInput, code))
}

/// Takes hand edits of the allowlist over, also while no mail comes; says when it breaks. A file
/// that is not the identity's is told through `refuse` and ends this.
async fn watch_peers(core: Arc<Core>, refuse: oneshot::Sender<PeersFileError>) {
    let mut said = String::new();
    let mut started = false;
    loop {
        if core.ledger.is_open() {
            match core.peers.ensure(&core.ledger).await {
                Ok(()) => {
                    started = true;
                    if let Err(e) = core.peers.follow_log(&core.ledger).await {
                        tracing::debug!("the peers file: {e}");
                    }
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

/// Forgets ids of messages that are too old to be accepted anyway, with a day to spare, and sessions
/// that nobody saw or wrote to for long; ends pairing requests that nobody decided.
async fn sweep(core: Arc<Core>) {
    const SPARE_MS: u64 = 86_400_000;
    let mut wait = FIRST_SWEEP;
    loop {
        tokio::time::sleep(wait).await;
        wait = SWEEP;
        let now = core.clock.now();
        let keep = core
            .config
            .windows
            .past_peer_ms
            .saturating_add(core.config.windows.future_ms)
            .saturating_add(SPARE_MS);
        let command = AgentCommand::ForgetReplay {
            before: now.minus(keep),
            now,
        };
        let unused = DirectoryCommand::ExpireSessions {
            before: now.minus(DIRECTORY_RETENTION_MS),
        };
        let expire = PairingCommand::Expire { now }.into();
        for command in [command, AgentCommand::Directory(unused), expire] {
            if let Err(e) = core.submit(command).await {
                tracing::debug!("sweep: {e}");
            }
        }
    }
}

/// Leaves the presence boards, says good-bye to whoever wrote to this process, gives the lease
/// back, closes the store. All at once, nothing queued, nothing waited for beyond the caller's
/// limit.
async fn farewell(core: &Arc<Core>, started: UnixMillis) {
    let Right::Held(lease) = core.lease.now() else {
        return core.ledger.close().await;
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
    tokio::join!(core.ledger.close(), said);
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
