//! `interlink-bus`: flags, and the life of the process around [`crate::bus`].

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Parser, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::{Exit, STORE_EXIT_CODES};
use super::units::{duration_ms, size};
use super::{logging, out, paths};
use crate::bus::{AdminAccess, Config, RelayConfig, ServeError, spawn};
use crate::domain::decide::bus::{Overflow, QueueLimits, RelayLimits};
use crate::store::{Location, OpenError, OpenOptions, Retention};
use crate::system::SystemClock;

const PROGRAM: &str = "interlink-bus";

/// Heartbeats reach the log, and old things leave, at this interval.
const UPKEEP: Duration = Duration::from_secs(60);

/// How long the end may take, all in all.
const SHUTDOWN: Duration = Duration::from_millis(1800);

/// Open files that a bus asks for: its connections and room to spare.
const OPEN_FILES: u64 = 16_384;

/// The broker: keeps mail per recipient until it is acknowledged, and shows who is there.
///
/// Everything it accepts is on disk before it answers. It holds no keys, and verifies nothing
/// unless it is told to.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, after_help = STORE_EXIT_CODES)]
struct Args {
    /// Address to listen on; a name is resolved. There is no encryption and no login: beyond
    /// this machine, put it inside a private network
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "INTERLINK_ADDR",
        default_value = "127.0.0.1:9440"
    )]
    addr: String,

    /// The store [default: $XDG_STATE_HOME/interlink/bus.redb, else
    /// $HOME/.local/state/interlink/bus.redb]
    #[arg(long, value_name = "PATH", env = "INTERLINK_DB")]
    db: Option<PathBuf>,

    /// Keep everything in memory, whatever --db says: gone when the bus ends
    #[arg(long, env = "INTERLINK_MEMORY", value_parser = FalseyValueParser::new())]
    memory: bool,

    /// Messages that wait for one recipient; 0 is taken as 1
    #[arg(
        long,
        value_name = "N",
        env = "INTERLINK_QUEUE_CAP",
        default_value_t = 1024
    )]
    queue_cap: usize,

    /// Bytes that wait for one recipient
    #[arg(long, value_name = "SIZE", env = "INTERLINK_QUEUE_BYTES", default_value = "64MiB", value_parser = size)]
    queue_bytes: u64,

    /// Bytes that wait for all recipients together
    #[arg(long, value_name = "SIZE", env = "INTERLINK_STORE_BYTES", default_value = "4GiB", value_parser = size)]
    store_bytes: u64,

    /// Recipients for whom mail waits
    #[arg(
        long,
        value_name = "N",
        env = "INTERLINK_MAX_QUEUES",
        default_value_t = 65_536
    )]
    max_queues: usize,

    /// Requests that wait for mail at a time
    #[arg(
        long,
        value_name = "N",
        env = "INTERLINK_MAX_WAITERS",
        default_value_t = 4096
    )]
    max_waiters: usize,

    /// How long a message waits before it is dropped
    #[arg(long, value_name = "TIME", env = "INTERLINK_MESSAGE_TTL", default_value = "14d", value_parser = duration_ms)]
    message_ttl: u64,

    /// How long records are kept, for `trace` and `at`; older ones are folded away by and by. What
    /// waits is kept however old it is. 0 keeps none
    #[arg(long, value_name = "TIME", env = "INTERLINK_RETAIN", default_value = "7d", value_parser = duration_ms)]
    retain: u64,

    /// Bytes of records that are kept at most
    #[arg(long, value_name = "SIZE", env = "INTERLINK_RETAIN_BYTES", default_value = "256MiB", value_parser = size)]
    retain_bytes: u64,

    /// What a full queue does with a new message: its oldest ones give way and the sender is
    /// told, or the new one is refused
    #[arg(
        long,
        value_enum,
        env = "INTERLINK_OVERFLOW",
        default_value = "drop-oldest"
    )]
    overflow: OverflowArg,

    /// A web origin whose requests are let through, e.g. http://localhost:3000; repeatable
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "INTERLINK_ALLOW_ORIGIN",
        value_delimiter = ','
    )]
    allow_origin: Vec<String>,

    /// Put only announcements on the presence board whose signature holds and whose signed time
    /// is later than all before of that session; at most 64 sessions of one key. Needs no key.
    /// Without it the board takes what is posted, as older buses do, and readers check
    #[arg(long, env = "INTERLINK_VERIFY_PRESENCE", value_parser = FalseyValueParser::new())]
    verify_presence: bool,

    /// Also relay sealed sessions, on an address of its own (`docs/relay.md`), e.g.
    /// 127.0.0.1:9441
    #[arg(long, value_name = "HOST:PORT", env = "INTERLINK_RELAY_ADDR")]
    relay_addr: Option<String>,

    /// Sessions that the relay holds at a time
    #[arg(
        long,
        value_name = "N",
        env = "INTERLINK_RELAY_SESSIONS",
        default_value_t = 1024
    )]
    relay_sessions: usize,

    /// Bytes that wait in all relayed sessions together
    #[arg(long, value_name = "SIZE", env = "INTERLINK_RELAY_BYTES", default_value = "512MiB", value_parser = size)]
    relay_bytes: u64,

    /// Requests to the relay within a minute from one network address; 0 for any number. Two
    /// clients behind one address poll 24 times a minute, and faster while they talk
    #[arg(
        long,
        value_name = "N",
        env = "INTERLINK_RELAY_PER_ADDRESS",
        default_value_t = 0
    )]
    relay_per_address: usize,

    /// End with standard input, for a program that must not leave a bus behind
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OverflowArg {
    DropOldest,
    Refuse,
}

/// The program: reads the process's arguments, answers with its exit code.
#[must_use]
pub fn main() -> ExitCode {
    crate::store::quiet_engine_panics();
    let args = match super::args::parse::<Args>() {
        Ok(args) => args,
        // Help and version are errors to clap, with exit code 0.
        Err(e) => {
            let _ = e.print();
            return if e.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Ok.into()
            };
        }
    };
    logging::init();
    raise_open_files();
    let exit = match run(args) {
        Ok(()) => Exit::Ok,
        Err(e) => {
            let (exit, next) = diagnosis(&e);
            out::failure(PROGRAM, &e, next);
            exit
        }
    };
    exit.into()
}

/// Why the bus does not run.
#[derive(Debug, thiserror::Error)]
enum BusError {
    #[error(transparent)]
    Paths(#[from] paths::PathsError),
    #[error("no random bytes for the admin token: {0}")]
    Random(#[from] getrandom::Error),
    #[error("cannot start the runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("the end took too long; what was accepted is on disk")]
    Shutdown,
}

/// The exit code of a failure and what to do about it.
fn diagnosis(e: &BusError) -> (Exit, Option<&'static str>) {
    let BusError::Serve(e) = e else {
        return (Exit::Failure, None);
    };
    match e {
        ServeError::Bind { source, .. } if source.kind() == io::ErrorKind::AddrInUse => (
            Exit::PortInUse,
            Some("stop the other program, or choose another address with --addr or --relay-addr"),
        ),
        ServeError::Bind { .. } => (
            Exit::Failure,
            Some("choose another address with --addr or --relay-addr"),
        ),
        ServeError::Resolve { .. } => (
            Exit::Usage,
            Some("write --addr and --relay-addr as HOST:PORT"),
        ),
        ServeError::Store(OpenError::InUse { .. }) => (
            Exit::StoreInUse,
            Some("stop that process, or choose another store with --db"),
        ),
        ServeError::Store(OpenError::FormatTooNew { .. }) => (
            Exit::StoreNewer,
            Some("install the newer interlink-bus, or choose another store with --db"),
        ),
        ServeError::Store(OpenError::WrongKind { .. }) => (
            Exit::StoreWrongKind,
            Some("choose the store of a bus with --db"),
        ),
        ServeError::Store(OpenError::Corrupt { .. }) | ServeError::Board(_) => (
            Exit::StoreCorrupt,
            Some("move the file away and restore a copy, or start anew with another --db"),
        ),
        ServeError::Store(OpenError::File { .. }) => (
            Exit::Failure,
            Some("check the path and its rights, or choose another one with --db"),
        ),
        _ => (Exit::Failure, None),
    }
}

fn run(args: Args) -> Result<(), BusError> {
    let end_with_stdin = args.end_with_stdin;
    let config = config(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(BusError::Runtime)?;
    let outcome = runtime.block_on(serve(config, end_with_stdin));
    // A verification may still run on a thread of its own; it only reads.
    runtime.shutdown_background();
    outcome
}

async fn serve(config: Config, end_with_stdin: bool) -> Result<(), BusError> {
    let signals = Signals::new().map_err(BusError::Runtime)?;
    let limits = config.limits;
    let location = config.store.location.clone();
    let handle = spawn(config).await?;
    match location {
        Location::File(path) => tracing::info!("durable store: {}", path.display()),
        _ => tracing::warn!("everything is in memory and gone when the bus ends"),
    }
    warn_if_open(handle.addr);
    if let Some(addr) = handle.relay_addr {
        if !is_loopback(addr) {
            tracing::warn!(
                "the relay on {addr} can be reached from other machines: put TLS in front of it"
            );
        }
        tracing::info!("relaying sealed sessions on {addr}");
    }
    tracing::info!(queue_cap = limits.messages, "listening on {}", handle.addr);
    let name = tokio::select! {
        name = signals.first() => name,
        () = end_of_input(), if end_with_stdin => "end of input",
    };
    tracing::info!("{name}: shutting down");
    tokio::time::timeout(SHUTDOWN, handle.shutdown())
        .await
        .map_err(|_| BusError::Shutdown)
}

fn warn_if_open(addr: SocketAddr) {
    if !is_loopback(addr) {
        tracing::warn!(
            "{addr} can be reached from other machines: no encryption, no login; keep it inside \
             a private network"
        );
    }
}

/// Reads standard input to its end and throws it away.
async fn end_of_input() {
    let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
}

fn is_loopback(addr: SocketAddr) -> bool {
    addr.ip().to_canonical().is_loopback()
}

/// The signals that end a bus.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn first(mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Idle time after which the store saves what spares a crash the repair.
const CHECKPOINT_IDLE: Duration = Duration::from_secs(1);

fn config(args: Args) -> Result<Config, BusError> {
    let location = match (args.memory, args.db) {
        (true, _) => Location::Memory,
        (false, Some(path)) => Location::File(path),
        (false, None) => Location::File(paths::bus_db(&paths::process_env)?),
    };
    let admin = admin_access(&location)?;
    let relay = args.relay_addr.filter(|addr| !addr.is_empty()).map(|addr| {
        let usual = RelayConfig::new(addr);
        RelayConfig {
            limits: RelayLimits {
                sessions: args.relay_sessions,
                bytes: args.relay_bytes,
                session_bytes: RelayLimits::one_of(args.relay_bytes),
                ..usual.limits
            },
            per_address: args.relay_per_address,
            ..usual
        }
    });
    Ok(Config {
        addr: args.addr,
        store: OpenOptions {
            checkpoint_idle: Some(CHECKPOINT_IDLE),
            retention: Some(Retention {
                age_ms: args.retain,
                bytes: args.retain_bytes,
            }),
            ..OpenOptions::exclusive(location)
        },
        limits: QueueLimits {
            messages: args.queue_cap.max(1),
            bytes: args.queue_bytes,
            store_bytes: args.store_bytes,
            queues: args.max_queues,
            overflow: match args.overflow {
                OverflowArg::DropOldest => Overflow::DropOldest,
                OverflowArg::Refuse => Overflow::Refuse,
            },
        },
        max_waiters: args.max_waiters,
        message_ttl_ms: args.message_ttl,
        allow_origins: args.allow_origin,
        verify_presence: args.verify_presence,
        relay,
        admin,
        clock: Arc::new(SystemClock),
        upkeep: UPKEEP,
    })
}

/// The admin endpoint's file stands beside the store; that of a bus in memory in the state folder,
/// if there is one.
fn admin_access(location: &Location) -> Result<Option<AdminAccess>, BusError> {
    let file = match location {
        Location::File(path) => paths::admin_file(path),
        _ => match paths::state_root(&paths::process_env) {
            Ok(root) => root.join("bus-memory.admin"),
            Err(e) => {
                tracing::warn!(%e, "no admin endpoint");
                return Ok(None);
            }
        },
    };
    let mut secret = [0u8; 32];
    getrandom::fill(&mut secret)?;
    let token = data_encoding::HEXLOWER.encode(&secret);
    Ok(Some(AdminAccess { file, token }))
}

/// Every connection is an open file, and the usual soft limit is 1024. Failing is no harm.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |max| max.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: limit.maximum,
        };
        let _ = setrlimit(Resource::Nofile, raised);
    }
}
