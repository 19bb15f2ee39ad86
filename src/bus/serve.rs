//! The listener: connections in, requests to the router, an orderly end.
//!
//! Connections are served by hyper directly: HTTP/1.1 only, with `TCP_NODELAY`, a bound on the
//! time for a request's head and on the number of connections. Past that number new ones wait in
//! the system's backlog.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::board::Board;
use super::front::Front;
use super::guard::Guard;
use super::line::{Line, Progress};
use super::longpoll::Waiters;
use super::rendezvous::{self, Relay, RelayConfig};
use super::state::{App, closed};
use super::{router, upkeep};
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::{BusCommand, QueueLimits};
use crate::event::Recorded;
use crate::event::bus::BusEvent;
use crate::store::{
    CommitListener, Location, OpenError, OpenOptions, ReadError, Store, create_private_dir,
};
use crate::types::limit::MAX_IDLE_MS;
use crate::types::time::Clock;
use crate::wire::admin::AdminFile;

/// How long requests that have begun may take once the bus shuts down, a body that still arrives
/// for example; then their connections are cut. Whoever waits for mail is answered at once.
const GRACE: Duration = Duration::from_millis(1000);

/// Pause after the system refused to hand out a connection, e.g. for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The way in for the operator's tool.
#[derive(Clone)]
pub struct AdminAccess {
    /// Where the tool finds it: written (0600) once the bus is ready, removed at its end.
    pub file: PathBuf,
    /// The secret: 64 hex digits.
    pub token: String,
}

/// How a bus runs.
#[derive(Clone)]
pub struct Config {
    /// `HOST:PORT`; a name may resolve to several addresses, the first that can be bound is used,
    /// IPv4 first. Port 0 lets the system choose.
    pub addr: String,
    /// The store.
    pub store: OpenOptions,
    /// Bounds of the queues.
    pub limits: QueueLimits,
    /// Requests that may wait for mail at a time; further ones get 503.
    pub max_waiters: usize,
    /// How long a message waits before it is dropped, milliseconds.
    pub message_ttl_ms: u64,
    /// Values of `Origin` that are let through.
    pub allow_origins: Vec<String>,
    /// Whether announcements must be signed, each later than all before of its session.
    pub verify_presence: bool,
    /// The relay of sealed sessions, on a listener of its own; `None` is none.
    pub relay: Option<RelayConfig>,
    /// The admin endpoint; `None` closes it.
    pub admin: Option<AdminAccess>,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Time between two rounds of upkeep, at most a minute for what the documentation promises.
    pub upkeep: Duration,
}

/// A bus did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address does not resolve.
    #[error("cannot resolve {addr}: {source}")]
    Resolve {
        /// The address.
        addr: String,
        /// What the system said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Bind {
        /// The address.
        addr: String,
        /// What the system said.
        source: io::Error,
    },
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The presence board cannot be read.
    #[error("the presence board cannot be read: {0}")]
    Board(#[source] ReadError),
    /// The admin file cannot be written.
    #[error("cannot write {path}: {source}")]
    AdminFile {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A running bus.
#[derive(Debug)]
#[must_use = "a bus ends when its handle is dropped"]
pub struct Handle {
    /// The address that it listens on.
    pub addr: SocketAddr,
    /// The address that the relay listens on, if there is one.
    pub relay_addr: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Handle {
    /// Stops accepting, answers the waiters, finishes what was accepted and closes the store.
    /// Takes at most a second or two.
    pub async fn shutdown(self) {
        let _ = self.stop.send(true);
        // A panic of the task has been reported by the panic hook.
        let _ = self.task.await;
    }
}

/// Opens the store, binds the address and serves in the background.
///
/// # Errors
///
/// See [`ServeError`]. The address is bound before the store is touched.
pub async fn spawn(config: Config) -> Result<Handle, ServeError> {
    let (listener, addr) = bind(&config.addr).await?;
    let relay = match &config.relay {
        Some(relay) => Some(bind(&relay.addr).await?),
        None => None,
    };
    let relay_addr = relay.as_ref().map(|(_, addr)| *addr);
    let (stop, closing) = watch::channel(false);
    let app = Arc::new(open(&config, closing)?);
    if let Some(access) = &config.admin {
        write_admin_file(access, addr)?;
    }
    let guard = |addr: SocketAddr| {
        let loopback = addr.ip().is_loopback();
        Arc::new(Guard::new(loopback, config.allow_origins.clone()))
    };
    let server = Server {
        front: Front::Bus(router::router(Arc::clone(&app)), guard(addr)),
        app: Arc::clone(&app),
    };
    let relay = relay.map(|(listener, addr)| {
        let front = Front::Relay(guard(addr));
        let app = Arc::clone(&app);
        (listener, Server { front, app })
    });
    drop(app);
    let task = tokio::spawn(server.run(listener, relay, config.upkeep, config.admin));
    Ok(Handle {
        addr,
        relay_addr,
        stop,
        task,
    })
}

async fn bind(addr: &str) -> Result<(TcpListener, SocketAddr), ServeError> {
    let bound = |source| ServeError::Bind {
        addr: addr.to_owned(),
        source,
    };
    let listener = listen(addr).await?;
    let local = listener.local_addr().map_err(bound)?;
    Ok((listener, local))
}

async fn listen(addr: &str) -> Result<TcpListener, ServeError> {
    let resolved = tokio::net::lookup_host(addr).await;
    let mut addrs: Vec<SocketAddr> = resolved
        .map_err(|source| ServeError::Resolve {
            addr: addr.to_owned(),
            source,
        })?
        .collect();
    // Most clients of `localhost` try IPv4.
    addrs.sort_by_key(SocketAddr::is_ipv6);
    TcpListener::bind(&*addrs)
        .await
        .map_err(|source| ServeError::Bind {
            addr: addr.to_owned(),
            source,
        })
}

/// Opens the store and what stands on it in memory.
pub(super) fn open(config: &Config, closing: watch::Receiver<bool>) -> Result<App, ServeError> {
    let board = Arc::new(Board::new(config.verify_presence));
    let waiters = Arc::new(Waiters::new(config.max_waiters));
    let relay = Relay::new(config.relay.as_ref(), config.max_waiters);
    let listener = follow(Arc::clone(&board), Arc::clone(&waiters), relay.waiters());
    let store = Store::open(
        config.store.clone(),
        Arc::clone(&config.clock),
        Some(listener),
    )?;
    let snapshot = store.snapshot().map_err(ServeError::Board)?;
    let unsigned = board
        .load(&snapshot)
        .map_err(|e| ServeError::Board(e.into()))?;
    drop(snapshot);
    if !unsigned.is_empty() {
        tracing::info!(
            count = unsigned.len(),
            "sessions of unchecked signature leave the board"
        );
        // They are not shown already; in the log they would only wait for their age.
        let _ = store.submit(BusCommand::RemovePresence { entries: unsigned });
    }
    Ok(App {
        store,
        board,
        waiters,
        relay,
        limits: config.limits,
        message_ttl_ms: config.message_ttl_ms,
        retention: config.store.retention,
        clock: Arc::clone(&config.clock),
        started: Instant::now(),
        store_path: match &config.store.location {
            Location::File(path) => Some(path.display().to_string()),
            _ => None,
        },
        admin: config
            .admin
            .as_ref()
            .map(|access| sha256(access.token.as_bytes())),
        refused: 0.into(),
        complained: false.into(),
        closing,
    })
}

/// What the writer thread tells of each commit.
fn follow(
    board: Arc<Board>,
    waiters: Arc<Waiters>,
    relay: Arc<Waiters>,
) -> CommitListener<BusEvent> {
    Box::new(move |records: &[Recorded<BusEvent>]| {
        board.follow(records);
        waiters.wake(records.iter().filter_map(|record| match &record.event {
            BusEvent::Enqueued(e) => Some(e.to.as_str()),
            _ => None,
        }));
        rendezvous::wake(&relay, records);
    })
}

fn write_admin_file(access: &AdminAccess, addr: SocketAddr) -> Result<(), ServeError> {
    let failed = |source| ServeError::AdminFile {
        path: access.file.clone(),
        source,
    };
    let ip: IpAddr = match addr.ip() {
        // The endpoint answers local callers only.
        ip if ip.is_unspecified() && ip.is_ipv4() => std::net::Ipv4Addr::LOCALHOST.into(),
        ip if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let content = AdminFile {
        url: format!("http://{}", SocketAddr::new(ip, addr.port())),
        token: access.token.clone(),
        pid: std::process::id(),
    };
    let text = serde_json::to_vec(&content).map_err(|e| failed(e.into()))?;
    let dir = match access.file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    create_private_dir(dir).map_err(failed)?;
    // Temporary files are made 0600.
    let mut temp = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
    io::Write::write_all(&mut temp, &text).map_err(failed)?;
    temp.persist(&access.file).map_err(|e| failed(e.error))?;
    Ok(())
}

/// Removes the file, unless another bus has put its own there.
fn remove_admin_file(access: &AdminAccess) {
    let ours = fs::read(&access.file)
        .ok()
        .and_then(|text| serde_json::from_slice::<AdminFile>(&text).ok())
        .is_some_and(|file| file.token == access.token);
    if ours {
        let _ = fs::remove_file(&access.file);
    }
}

struct Server {
    front: Front,
    app: Arc<App>,
}

impl Server {
    async fn run(
        self,
        listener: TcpListener,
        relay: Option<(TcpListener, Server)>,
        period: Duration,
        admin: Option<AdminAccess>,
    ) {
        let mut upkeep = JoinSet::new();
        upkeep.spawn(upkeep::run(Arc::clone(&self.app), period));
        if relay.is_some() {
            upkeep.spawn(upkeep::run_relay(Arc::clone(&self.app)));
        }
        let (mut connections, mut relayed) = (JoinSet::new(), JoinSet::new());
        let accept_relayed = async {
            if let Some((listener, server)) = relay {
                server.accept(listener, &mut relayed).await;
            }
        };
        tokio::join!(self.accept(listener, &mut connections), accept_relayed);
        upkeep.shutdown().await;
        if let Some(access) = admin {
            remove_admin_file(&access);
        }
        let drained = async {
            while connections.join_next().await.is_some() {}
            while relayed.join_next().await.is_some() {}
        };
        let _ = tokio::time::timeout(GRACE, drained).await;
        connections.shutdown().await;
        relayed.shutdown().await;
        if let Err(e) = upkeep::flush(&self.app).await {
            tracing::debug!(?e, "the last heartbeats are lost");
        }
        let Server { front, app } = self;
        drop(front);
        // Closing joins the writer thread.
        let _ = tokio::task::spawn_blocking(move || match Arc::try_unwrap(app) {
            Ok(app) => app.store.close(),
            Err(_) => tracing::error!("the store is still in use"),
        })
        .await;
    }

    /// Accepts until the bus shuts down; the listener is closed then.
    async fn accept(&self, listener: TcpListener, connections: &mut JoinSet<()>) {
        let places = Arc::new(Semaphore::new(self.front.max_connections()));
        let mut closing = self.app.closing.clone();
        loop {
            // Finished connections are reaped as new ones come.
            while connections.try_join_next().is_some() {}
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = closed(&mut closing) => return,
                pair = accepted => pair,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let connection = self.connection(stream, peer.ip());
                    connections.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(e) => {
                    tracing::warn!(%e, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection.
    fn connection(&self, stream: TcpStream, peer: IpAddr) -> impl Future<Output = ()> + use<> {
        let _ = stream.set_nodelay(true);
        let front = self.front.clone();
        let app = Arc::clone(&self.app);
        let mut closing = app.closing.clone();
        let progress = Arc::new(Progress::default());
        let line = Line::new(stream, Arc::clone(&progress));
        let begun = Arc::clone(&progress);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let answering = begun.begin();
            let answer = front.clone().answer(Arc::clone(&app), request, peer);
            async move {
                let _answering = answering;
                answer.await
            }
        });
        async move {
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_millis(MAX_IDLE_MS));
            let mut connection = pin!(builder.serve_connection(TokioIo::new(line), service));
            tokio::select! {
                // Errors are the peer's: a cut connection, broken HTTP.
                _ = connection.as_mut() => return,
                () = closed(&mut closing) => {}
            }
            if progress.is_half_sent() {
                return;
            }
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
