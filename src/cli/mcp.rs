//! `interlink-mcp`: flags and environment of the channel server, and of its `wait` listener.
//!
//! Exit codes: 0 ended in order, 1 cannot run, 2 wrong usage; `wait` exits with 2 to wake its host.

mod side;
mod socket;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{FalseyValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use super::doctor::DoctorArgs;
use super::exit::Exit;
use super::hook::{Hook, Input};
use super::setup::{SetupArgs, SetupError};
use super::units::duration_ms;
use super::{logging, out, paths};
use crate::agent::clock::{OsEntropy, random_hex};
use crate::agent::config::{
    AgentConfig, Consent, OperatorFlags, RelayListError, ShareCwd, StorePlace, parse_relays,
};
use crate::agent::driver::{self, StartError};
use crate::agent::host::HostConfig;
use crate::agent::host::claude_hook::{self, AtLimit, Waited};
use crate::agent::lifecycle::Parent;
use crate::agent::mcp::line::quoted;
use crate::crypto::hash::sha256;
use crate::domain::gate::Windows;
use crate::keystore::KeyPermissions;
use crate::types::entropy::EntropyError;
use crate::types::id::{PublicKey, SessionId, SessionIdError};

use side::{answer_hook, examine, set_up};
use socket::{HostError, messaging_socket};

const PROGRAM: &str = "interlink-mcp";

/// The relay when none is named.
pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:9440";
/// How long a listener of last resort listens: longer than hosts keep a hook.
const FALLBACK_LIMIT: Duration = Duration::from_secs(30 * 86_400);

/// The channel server: one per coding-agent session, spoken to in MCP over standard input and
/// output.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, args_conflicts_with_subcommands = false)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    common: Common,
}

/// What the server and the listener must agree on.
#[derive(Debug, ClapArgs)]
struct Common {
    /// The secret key [default: ~/.config/interlink/id.key]
    #[arg(long, value_name = "PATH", env = "INTERLINK_KEY", value_parser = path(), global = true)]
    key: Option<PathBuf>,

    /// Load a key that other users of this machine can read
    #[arg(long, env = "INTERLINK_INSECURE_KEY_PERMISSIONS", value_parser = FalseyValueParser::new(), global = true)]
    insecure_key_permissions: bool,

    /// The list of who may write [default: ~/.config/interlink/peers.json]
    #[arg(long, value_name = "PATH", env = "INTERLINK_PEERS", value_parser = path(), global = true)]
    peers: Option<PathBuf>,

    /// Switch the identity to the list that --peers names: without it a second list is refused
    #[arg(long, env = "INTERLINK_ADOPT_PEERS", value_parser = FalseyValueParser::new(), global = true)]
    adopt_peers: bool,

    /// The relays, separated by commas
    #[arg(
        long,
        value_name = "URL,...",
        env = "INTERLINK_URL",
        default_value = DEFAULT_URL,
        global = true
    )]
    url: String,

    /// The identity's store [default:
    /// $XDG_STATE_HOME/interlink/agent/<public key>/agent.redb]
    #[arg(long, value_name = "PATH", env = "INTERLINK_AGENT_DB", value_parser = path(), global = true)]
    db: Option<PathBuf>,

    /// One store for all sessions of the identity, or one for each, where file locks do not work
    #[arg(
        long,
        value_enum,
        env = "INTERLINK_STORE_MODE",
        default_value = "shared",
        global = true
    )]
    store_mode: StoreMode,

    /// Keep everything in memory: gone when the process ends
    #[arg(long, env = "INTERLINK_MEMORY", value_parser = FalseyValueParser::new(), global = true)]
    memory: bool,

    /// This node's name for itself [default: the first characters of the public key]
    #[arg(long, value_name = "TEXT", env = "INTERLINK_NAME", global = true)]
    name: Option<String>,

    /// The session [default: what the host says, else a random one]
    #[arg(long, value_name = "ID", env = "INTERLINK_SESSION", global = true)]
    session: Option<String>,

    /// How long ago a peer's message may have been signed
    #[arg(long, value_name = "TIME", env = "INTERLINK_MAX_AGE", default_value = "14d", value_parser = duration_ms, global = true)]
    max_age: u64,

    /// How long ago a stranger's pairing message may have been signed
    #[arg(long, value_name = "TIME", env = "INTERLINK_MAX_AGE_STRANGER", default_value = "24h", value_parser = duration_ms, global = true)]
    max_age_stranger: u64,

    /// How far in the future a message may be signed: how wrong clocks may be
    #[arg(long, value_name = "TIME", env = "INTERLINK_MAX_AHEAD", default_value = "60s", value_parser = duration_ms, global = true)]
    max_ahead: u64,

    /// How old a signature gets before an unsent message is signed anew. Half of what the public
    /// program accepts leaves the recipient the other half to fetch it
    #[arg(long, value_name = "TIME", env = "INTERLINK_RESIGN_AFTER", default_value = "12h", value_parser = duration_ms, global = true)]
    resign_after: u64,

    /// How much of the working directory everybody may see who can ask a relay
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        env = "INTERLINK_SHARE_CWD",
        default_value = "basename",
        global = true
    )]
    share_cwd: Share,

    /// The program that runs the model
    #[arg(
        long,
        value_enum,
        env = "INTERLINK_HOST",
        default_value = "claude",
        global = true
    )]
    host: Host,

    /// The codex program
    #[arg(
        long,
        value_name = "PATH",
        env = "INTERLINK_CODEX_BIN",
        default_value = "codex",
        global = true
    )]
    codex_bin: PathBuf,

    /// Act only for the conversation that Claude Code's hooks name: true or false
    #[arg(
        long,
        env = "INTERLINK_CLAUDE_SESSION_HOOKS",
        num_args = 0..=1,
        default_value_t = false,
        default_missing_value = "true",
        require_equals = true,
        value_parser = clap::builder::BoolValueParser::new(),
        global = true
    )]
    claude_session_hooks: bool,

    /// How long a notice may stay unanswered before another way is tried, while the first never
    /// proved to work
    #[arg(long, value_name = "TIME", env = "INTERLINK_NOTICE_PATIENCE", default_value = "60s", value_parser = duration_ms, global = true)]
    notice_patience: u64,

    /// Wake the host through its channel: 1 or true
    #[arg(long, env = "INTERLINK_CHANNELS", value_parser = one_or_true, hide = true, global = true)]
    channels: bool,

    /// Who consents to admitting and revoking peers: the human, asked through the host or on a
    /// terminal, or whoever calls the tool
    #[arg(
        long,
        value_enum,
        env = "INTERLINK_CONSENT",
        default_value = "auto",
        global = true
    )]
    consent: ConsentMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConsentMode {
    Auto,
    Tool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoreMode {
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Share {
    /// The whole path
    Full,
    /// Its last part
    Basename,
    /// Nothing, the repository's name neither
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Host {
    Claude,
    Codex,
    /// Any other MCP client: mail is fetched, nothing is pushed
    Other,
}

/// An empty path stands for the default: plugins pass variables on that may be unset.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn named(path: Option<&PathBuf>) -> Option<&PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

/// The public program's reading: everything else is no.
#[expect(clippy::unnecessary_wraps, reason = "the shape that clap asks for")]
fn one_or_true(text: &str) -> Result<bool, std::convert::Infallible> {
    Ok(text == "1" || text.eq_ignore_ascii_case("true"))
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
    #[error("--session: {0}")]
    Session(#[from] SessionIdError),
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot start the runtime: {0}")]
    Runtime(#[source] io::Error),
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
            McpError::Relays(_) | McpError::Session(_) => Exit::Usage,
            _ => Exit::Failure,
        }
    }
}

/// The program: reads the process's arguments and ends the process with its exit code. Threads
/// that wait for input do not hold it up.
pub fn main() -> ! {
    crate::store::quiet_engine_panics();
    let parent = Parent::now();
    let args = match Args::try_parse() {
        Ok(args) => args,
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
        Some(Command::Setup(setup)) => set_up(&args.common, &setup),
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
    for relay in relays.iter().filter(|r| !r.is_loopback()) {
        tracing::warn!("{relay} is not on this machine: messages are signed, but not encrypted");
    }
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
    let config = AgentConfig {
        peers: match named(common.peers.as_ref()) {
            Some(path) => path.clone(),
            None => paths::peers_file(&env)?,
        },
        adopt_peers: common.adopt_peers,
        store,
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

/// The conversation with which Claude Code started this process.
fn claude_session(env: paths::Env<'_>) -> Option<SessionId> {
    let text = env("CLAUDE_CODE_SESSION_ID")?.into_string().ok()?;
    SessionId::parse(text.trim()).ok()
}

/// The session that a hook names on standard input.
fn hook_session() -> Option<SessionId> {
    Input::read()?.session()
}

impl Common {
    fn permissions(&self) -> KeyPermissions {
        if self.insecure_key_permissions {
            KeyPermissions::AllowOpen
        } else {
            KeyPermissions::Private
        }
    }

    fn key_path(&self) -> Result<PathBuf, McpError> {
        Ok(match named(self.key.as_ref()) {
            Some(path) => path.clone(),
            None => paths::key_file(&paths::process_env)?,
        })
    }

    /// The host, and how it can be woken.
    fn host(&self, env: paths::Env<'_>) -> Result<HostConfig, HostError> {
        match self.host {
            Host::Claude => {
                let channels = self.channels;
                let socket = messaging_socket(env, channels)?;
                // Only hooks can tell which conversation the socket belongs to by now.
                let managed = self.claude_session_hooks || (socket.is_some() && !channels);
                Ok(HostConfig::Claude {
                    channels,
                    socket,
                    managed,
                })
            }
            Host::Codex => Ok(HostConfig::Codex {
                bin: self.codex_bin.clone(),
            }),
            Host::Other => Ok(HostConfig::Other),
        }
    }

    /// The session that the flag names, else the host.
    fn session(&self, env: paths::Env<'_>) -> Result<Option<SessionId>, McpError> {
        let named = self
            .session
            .as_deref()
            .map(str::trim)
            .filter(|s| !s.is_empty());
        if let Some(text) = named {
            return Ok(Some(SessionId::parse(text)?));
        }
        Ok(claude_session(env))
    }

    /// What `interlink-admin` needs to be told to mean this identity; `None` where it cannot get at the
    /// log. What is where it always is goes without saying.
    fn operator_flags(&self, key: &PublicKey) -> Result<Option<OperatorFlags>, McpError> {
        if self.memory || self.store_mode == StoreMode::Exclusive {
            return Ok(None);
        }
        let env = paths::process_env;
        let mut identity = String::new();
        let mut add = |flag: &str, path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            identity.push_str(&format!(" {flag} {}", quoted(&path.to_string_lossy())));
        };
        if let Some(path) = &self.key
            && paths::key_file(&env).ok().as_ref() != Some(path)
        {
            add("--key", path);
        }
        match &self.db {
            Some(path) => add("--store", path),
            // The user's terminal may have another value, or none.
            None if env("XDG_STATE_HOME").is_some() => {
                add("--store", &paths::agent_db(&env, key)?);
            }
            None => {}
        }
        let relays = if self.url == DEFAULT_URL {
            String::new()
        } else {
            format!(" --url {}", quoted(&self.url))
        };
        Ok(Some(OperatorFlags { identity, relays }))
    }

    fn store(&self, key: &PublicKey, session: &SessionId) -> Result<StorePlace, McpError> {
        if self.memory {
            return Ok(StorePlace::Memory);
        }
        let shared = match named(self.db.as_ref()) {
            Some(path) => path.clone(),
            None => paths::agent_db(&paths::process_env, key)?,
        };
        Ok(match self.store_mode {
            StoreMode::Shared => StorePlace::Shared(shared),
            StoreMode::Exclusive => StorePlace::Exclusive(session_store(&shared, session)),
        })
    }
}

/// The store of one session, beside where the shared one would be. Session ids are free text, so
/// the name is a digest.
fn session_store(shared: &Path, session: &SessionId) -> PathBuf {
    let digest = sha256(session.as_str().as_bytes());
    let short = digest.first_chunk::<16>().copied().unwrap_or_default();
    let name = format!("session-{}.redb", data_encoding::HEXLOWER.encode(&short));
    shared.with_file_name(name)
}
