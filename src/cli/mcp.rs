//! `interlink-mcp`: flags and environment of the channel server, and of its `wait` listener.
//!
//! Exit codes: 0 ended in order, 1 cannot run, 2 wrong usage; `wait` exits with 2 to wake its host.

mod bond;
mod carry;
mod flags;
mod side;
mod socket;

use std::io::{self, Write as _};
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};

use super::doctor::DoctorArgs;
use super::exit::Exit;
use super::hook::{Hook, Input};
use super::setup::{SetupArgs, SetupError};
use super::{args, logging, out, paths};
use crate::agent::bond::relay::BondUrlError;
use crate::agent::client::RelayUrl;
use crate::agent::config::{AgentConfig, Consent, RelayListError, ShareCwd, parse_relays};
use crate::agent::connect::AuthoritiesError;
use crate::agent::driver::{self, StartError};
use crate::agent::host::HostConfig;
use crate::agent::host::claude_hook::{self, AtLimit, Waited};
use crate::agent::lifecycle::Parent;
use crate::agent::random::{OsEntropy, random_hex};
use crate::domain::gate::Windows;
use crate::store::Retention;
use crate::types::entropy::EntropyError;
use crate::types::id::{SessionId, SessionIdError};

pub(super) use flags::DEFAULT_URL;
use flags::{Common, ConsentMode, Share, claude_session, named};
use side::{answer_hook, examine, set_up};
use socket::HostError;

const PROGRAM: &str = "interlink-mcp";

/// How long a listener of last resort listens: longer than hosts keep a hook.
const FALLBACK_LIMIT: Duration = Duration::from_secs(30 * 86_400);

/// What is read from the environment and has no flag.
const ENVIRONMENT: &str = "Environment, beside what stands at the flags:
  INTERLINK_CHANNELS         1 or true: wake Claude Code through its channel
  INTERLINK_CLAUDE_DELIVERY  auto, socket (only through Claude Code's messaging socket)
                             or inbox (never through it) [default: auto]
  INTERLINK_NOTIFICATIONS    off, false, 0 or no: no notices on the desktop";

/// The channel server: one per coding-agent session, spoken to in MCP over standard input and
/// output.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, after_help = ENVIRONMENT, args_conflicts_with_subcommands = false)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Wait until mail is worth waking the session, then exit with 2 and the notice on standard
    /// error. For an asynchronous hook of the host
    Wait {
        /// Exit for renewal after this many seconds without mail
        #[arg(long, value_name = "SECONDS", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..=2_592_000))]
        renew_after_secs: u64,

        /// Listen also where the server has other ways to wake the session, as the one of last
        /// resort; wake nobody for renewal
        #[arg(long)]
        fallback: bool,
    },

    Setup(SetupArgs),

    Doctor(DoctorArgs),

    /// Answer a command hook of the host, whose input is on standard input
    #[command(subcommand)]
    Hook(Hook),
}

/// Why the program does not run.
#[derive(Debug, thiserror::Error)]
enum McpError {
    #[error(transparent)]
    Paths(#[from] paths::PathsError),
    #[error(transparent)]
    Relays(#[from] RelayListError),
    #[error(transparent)]
    BondRelay(#[from] BondUrlError),
    #[error("--session: {0}")]
    Session(#[from] SessionIdError),
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot start the runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error("--relay-ca: {0}")]
    Authorities(#[from] AuthoritiesError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("cannot listen: {0}")]
    Listen(#[source] io::Error),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("the path of a program or a file: {0}")]
    Program(#[source] io::Error),
    #[error("standard output: {0}")]
    Output(#[source] io::Error),
}

impl McpError {
    const fn exit(&self) -> Exit {
        match self {
            McpError::Relays(_) | McpError::BondRelay(_) | McpError::Session(_) => Exit::Usage,
            _ => Exit::Failure,
        }
    }
}

/// The program: reads the process's arguments and ends the process with its exit code. Threads
/// that wait for input do not hold it up.
pub fn main() -> ! {
    crate::store::quiet_engine_panics();
    let parent = Parent::now();
    let (args, matches) = match args::read::<Args>(flags::arrange(Args::command())) {
        Ok(read) => read,
        // Help and version are errors to clap, with exit code 0.
        Err(e) => {
            let _ = e.print();
            std::process::exit(e.exit_code());
        }
    };
    logging::init();
    let code = match args.command {
        Some(Command::Wait {
            renew_after_secs,
            fallback,
        }) => wait(&args.common, renew_after_secs, fallback),
        Some(Command::Setup(setup)) => set_up(&args.common, &matches, &setup),
        Some(Command::Doctor(doctor)) => examine(&args.common, &doctor),
        Some(Command::Hook(hook)) => {
            answer_hook(&args.common, hook);
            Ok(0)
        }
        None => serve(args.common, parent),
    };
    let code = code.unwrap_or_else(|e| {
        out::failure(PROGRAM, &e, None);
        e.exit().code()
    });
    std::process::exit(i32::from(code))
}

fn serve(common: Common, parent: Parent) -> Result<u8, McpError> {
    let env = paths::process_env;
    let relays = parse_relays(common.url.split(','))?;
    let exposed = |relay: &&RelayUrl| !relay.is_loopback() && !relay.is_secure();
    for relay in relays.iter().filter(exposed) {
        tracing::warn!("{relay} is not on this machine: messages are signed, but not encrypted");
    }
    let authorities = common.authorities()?;
    let host = common.host(&env)?;
    let key = common.key_path()?;
    let identity = crate::keystore::load(&key, common.permissions()).map_err(StartError::from)?;
    let known = match common.session(&|name| env(name))? {
        Some(session) => session,
        None => SessionId::parse(&random_hex::<4>(&OsEntropy)?)?,
    };
    let store = common.store(&identity.public(), &known)?;
    // These hosts name the session when it begins.
    let session = match &host {
        HostConfig::Codex { .. } => None,
        HostConfig::Claude { managed: true, .. } if common.claude_session_hooks => None,
        // Hooks may follow; where none do, the conversation that the host began with stays.
        HostConfig::Claude { managed: true, .. } => claude_session(&|name| env(name)),
        HostConfig::Claude { .. } | HostConfig::Other => Some(known),
    };
    let bond = common
        .bond
        .config(&store, &identity.public(), &authorities)?;
    let config = AgentConfig {
        bond,
        peers: match named(common.peers.as_ref()) {
            Some(path) => path.clone(),
            None => paths::peers_file(&env)?,
        },
        adopt_peers: common.adopt_peers,
        store,
        retention: Retention {
            age_ms: common.retain,
            bytes: common.retain_bytes,
        },
        keep_history_ms: common.keep_history,
        authorities,
        relays,
        name: common.name.clone(),
        session,
        windows: Windows {
            past_peer_ms: common.max_age,
            past_stranger_ms: common.max_age_stranger,
            future_ms: common.max_ahead,
        },
        resign_after_ms: common.resign_after.max(1_000),
        consent: match common.consent {
            ConsentMode::Auto => Consent::Auto,
            ConsentMode::Tool => Consent::Tool,
        },
        operator: common.operator_flags(&identity.public())?,
        host,
        notice_patience_ms: common.notice_patience,
        share_cwd: match common.share_cwd {
            Share::Full => ShareCwd::Full,
            Share::Basename => ShareCwd::Basename,
            Share::None => ShareCwd::None,
        },
    };
    tracing::info!("identity {}", identity.public().fingerprint());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads(config.relays.len()))
        .enable_all()
        .build()
        .map_err(McpError::Runtime)?;
    let code = runtime.block_on(driver::serve(config, identity, parent))?;
    // Waits for nothing: a read of standard input cannot be interrupted.
    std::mem::forget(runtime);
    Ok(code)
}

/// A relay that floods a connection with what HTTP lets it repeat for ever (interim answers) keeps
/// the thread busy that reads it, until the call's time limit. So many of its connections may do so
/// without anybody else waiting for a thread; where nobody floods, they sleep.
const fn worker_threads(relays: usize) -> usize {
    2 + 4 * relays
}

fn wait(common: &Common, renew_after_secs: u64, fallback: bool) -> Result<u8, McpError> {
    let env = paths::process_env;
    let better = common.host(&env).map(|host| host.paths().len() > 1);
    if !fallback && better.unwrap_or(true) {
        return Ok(0);
    }
    let (limit, at_limit) = if fallback {
        (FALLBACK_LIMIT, AtLimit::End)
    } else {
        (Duration::from_secs(renew_after_secs), AtLimit::Renew)
    };
    let session = match common.session(&|_| None)? {
        Some(session) => session,
        None => match hook_session() {
            Some(session) => session,
            None => match common.session(&|name| env(name))? {
                Some(session) => session,
                None => SessionId::parse("main")?,
            },
        },
    };
    let identity = crate::keystore::load(&common.key_path()?, common.permissions())
        .map_err(StartError::from)?;
    let place = common.store(&identity.public(), &session)?;
    match claude_hook::wait(&place, &session, limit, at_limit).map_err(McpError::Listen)? {
        Waited::Silent => Ok(0),
        Waited::Wake(text) => {
            let _ = writeln!(io::stderr().lock(), "{text}");
            Ok(2)
        }
    }
}

/// The session that a hook names on standard input.
fn hook_session() -> Option<SessionId> {
    Input::read()?.session()
}
