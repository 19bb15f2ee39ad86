//! The flags of the server, and what they mean. Its subcommands take the same ones, so that one
//! line of a configuration can be made of another; their help shows only what they heed.

use std::path::{Path, PathBuf};

use clap::builder::{FalseyValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args as ClapArgs, Command, ValueEnum};

use super::McpError;
use super::bond::BondFlags;
use super::socket::{HostError, messaging_socket};
use crate::agent::config::{OperatorFlags, StorePlace};
use crate::agent::connect::Authorities;
use crate::agent::host::HostConfig;
use crate::cli::paths;
use crate::cli::units::{duration_ms, size};
use crate::crypto::hash::sha256;
use crate::keystore::KeyPermissions;
use crate::types::id::{PublicKey, SessionId};
use crate::types::text::shell_word;

/// The relay when none is named.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:9440";

/// What each subcommand heeds of the server's flags.
const HEEDED: [(&str, &[&str]); 4] = [
    (
        "wait",
        &[
            "key",
            "insecure_key_permissions",
            "db",
            "store_mode",
            "session",
            "host",
        ],
    ),
    (
        "hook",
        &[
            "key",
            "insecure_key_permissions",
            "db",
            "store_mode",
            "session",
        ],
    ),
    (
        "doctor",
        &[
            "key",
            "insecure_key_permissions",
            "peers",
            "url",
            "relay_ca",
            "db",
            "store_mode",
            "memory",
        ],
    ),
    (
        "setup",
        &[
            "key",
            "insecure_key_permissions",
            "peers",
            "url",
            "relay_ca",
            "db",
            "store_mode",
            "memory",
            "name",
            "max_age",
            "max_age_stranger",
            "max_ahead",
            "resign_after",
            "share_cwd",
            "codex_bin",
            "notice_patience",
            "consent",
            "retain",
            "retain_bytes",
            "keep_history",
            "bond_relay",
            "bond_max_file_kb",
            "bond_max_spoken_file_mib",
            "bond_mode",
            "bond_root",
        ],
    ),
];

/// Hides from the help of each subcommand what it takes and does not heed.
pub(super) fn arrange(command: Command) -> Command {
    let flags: Vec<_> = Common::augment_args(Command::new("flags"))
        .get_arguments()
        .cloned()
        .collect();
    HEEDED.iter().fold(command, |command, (name, heeded)| {
        command.mut_subcommand(name, |sub| {
            let others = flags
                .iter()
                .filter(|flag| !heeded.contains(&flag.get_id().as_str()));
            sub.args(others.map(|flag| flag.clone().hide(true)))
        })
    })
}

/// What the server and the listener must agree on.
#[derive(Debug, ClapArgs)]
pub(super) struct Common {
    /// The secret key [default: ~/.config/interlink/id.key]
    #[arg(long, value_name = "PATH", env = "INTERLINK_KEY", value_parser = path(), help_heading = "Identity", global = true)]
    pub(super) key: Option<PathBuf>,

    /// Load a key that other users of this machine can read
    #[arg(long, env = "INTERLINK_INSECURE_KEY_PERMISSIONS", value_parser = FalseyValueParser::new(), help_heading = "Identity", global = true)]
    pub(super) insecure_key_permissions: bool,

    /// The list of who may write [default: ~/.config/interlink/peers.json]
    #[arg(long, value_name = "PATH", env = "INTERLINK_PEERS", value_parser = path(), help_heading = "Trust", global = true)]
    pub(super) peers: Option<PathBuf>,

    /// Switch the identity to the list that --peers names: without it a second list is refused
    #[arg(long, env = "INTERLINK_ADOPT_PEERS", value_parser = FalseyValueParser::new(), help_heading = "Trust", global = true)]
    pub(super) adopt_peers: bool,

    /// The relays, separated by commas
    #[arg(
        long,
        value_name = "URL,...",
        env = "INTERLINK_URL",
        default_value = DEFAULT_URL,
        help_heading = "Relays", global = true
    )]
    pub(super) url: String,

    /// The authorities, in a PEM file, that vouch for relays behind https://, those of sealed sessions
    /// too; no others do [default: those that the system trusts]
    #[arg(long, value_name = "PATH", env = "INTERLINK_RELAY_CA", value_parser = path(), help_heading = "Relays", global = true)]
    pub(super) relay_ca: Option<PathBuf>,

    /// The identity's store [default:
    /// $XDG_STATE_HOME/interlink/agent/<public key>/agent.redb]
    #[arg(long, value_name = "PATH", env = "INTERLINK_AGENT_DB", value_parser = path(), help_heading = "Store", global = true)]
    pub(super) db: Option<PathBuf>,

    /// One store for all sessions of the identity, or one for each, where file locks do not work
    #[arg(
        long,
        value_enum,
        env = "INTERLINK_STORE_MODE",
        default_value = "shared",
        help_heading = "Store",
        global = true
    )]
    pub(super) store_mode: StoreMode,

    /// Keep everything in memory: gone when the process ends
    #[arg(long, env = "INTERLINK_MEMORY", value_parser = FalseyValueParser::new(), help_heading = "Store", global = true)]
    pub(super) memory: bool,

    /// How long finished records are kept for the operator's `trace` and `at`. What is not finished
    /// is kept however old it is. 0 keeps none
    #[arg(long, value_name = "TIME", env = "INTERLINK_RETAIN", default_value = "7d", value_parser = duration_ms, help_heading = "Store", global = true)]
    pub(super) retain: u64,

    /// Bytes of records that are kept at most
    #[arg(long, value_name = "SIZE", env = "INTERLINK_RETAIN_BYTES", default_value = "256MiB", value_parser = size, help_heading = "Store", global = true)]
    pub(super) retain_bytes: u64,

    /// How long messages are kept after they were read or answered for good, and tasks after they
    /// ended; at least a day. What is unread or unsent stays
    #[arg(long, value_name = "TIME", env = "INTERLINK_KEEP_HISTORY", default_value = "90d", value_parser = history, help_heading = "Store", global = true)]
    pub(super) keep_history: u64,

    /// This node's name for itself [default: the first characters of the public key]
    #[arg(
        long,
        value_name = "TEXT",
        env = "INTERLINK_NAME",
        help_heading = "Identity",
        global = true
    )]
    pub(super) name: Option<String>,

    /// The session [default: what the host says, else a random one]
    #[arg(
        long,
        value_name = "ID",
        env = "INTERLINK_SESSION",
        help_heading = "Session",
        global = true
    )]
    pub(super) session: Option<String>,

    /// How long ago a peer's message may have been signed
    #[arg(long, value_name = "TIME", env = "INTERLINK_MAX_AGE", default_value = "14d", value_parser = duration_ms, help_heading = "Trust", global = true)]
    pub(super) max_age: u64,

    /// How long ago a stranger's pairing message may have been signed
    #[arg(long, value_name = "TIME", env = "INTERLINK_MAX_AGE_STRANGER", default_value = "24h", value_parser = duration_ms, help_heading = "Trust", global = true)]
    pub(super) max_age_stranger: u64,

    /// How far in the future a message may be signed: how wrong clocks may be
    #[arg(long, value_name = "TIME", env = "INTERLINK_MAX_AHEAD", default_value = "60s", value_parser = duration_ms, help_heading = "Trust", global = true)]
    pub(super) max_ahead: u64,

    /// How old a signature gets before an unsent message is signed anew. Half of what the public
    /// program accepts leaves the recipient the other half to fetch it
    #[arg(long, value_name = "TIME", env = "INTERLINK_RESIGN_AFTER", default_value = "12h", value_parser = duration_ms, help_heading = "Relays", global = true)]
    pub(super) resign_after: u64,

    /// How much of the working directory everybody may see who can ask a relay
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        env = "INTERLINK_SHARE_CWD",
        default_value = "basename",
        help_heading = "Relays",
        global = true
    )]
    pub(super) share_cwd: Share,

    /// The program that runs the model
    #[arg(
        long,
        value_enum,
        env = "INTERLINK_HOST",
        default_value = "claude",
        help_heading = "Host",
        global = true
    )]
    pub(super) host: Host,

    /// The codex program
    #[arg(
        long,
        value_name = "PATH",
        env = "INTERLINK_CODEX_BIN",
        default_value = "codex",
        help_heading = "Host",
        global = true
    )]
    pub(super) codex_bin: PathBuf,

    /// Act only for the conversation that Claude Code's hooks name: true or false
    #[arg(
        long,
        env = "INTERLINK_CLAUDE_SESSION_HOOKS",
        num_args = 0..=1,
        default_value_t = false,
        default_missing_value = "true",
        require_equals = true,
        value_parser = clap::builder::BoolValueParser::new(),
        help_heading = "Host", global = true
    )]
    pub(super) claude_session_hooks: bool,

    /// How long a notice may stay unanswered before another way is tried, while the first never
    /// proved to work
    #[arg(long, value_name = "TIME", env = "INTERLINK_NOTICE_PATIENCE", default_value = "60s", value_parser = duration_ms, help_heading = "Host", global = true)]
    pub(super) notice_patience: u64,

    /// Wake the host through its channel: 1 or true
    #[arg(long, env = "INTERLINK_CHANNELS", value_parser = one_or_true, hide = true, help_heading = "Host", global = true)]
    pub(super) channels: bool,

    /// Who consents to admitting and revoking peers: the human, asked through the host or on a
    /// terminal, or whoever calls the tool
    #[arg(
        long,
        value_enum,
        env = "INTERLINK_CONSENT",
        default_value = "auto",
        help_heading = "Trust",
        global = true
    )]
    pub(super) consent: ConsentMode,

    #[command(flatten)]
    pub(super) bond: BondFlags,
}

/// How long history is kept. Shorter would take answers away from under a conversation.
fn history(text: &str) -> Result<u64, String> {
    const DAY_MS: u64 = 86_400_000;
    let kept = duration_ms(text).map_err(|e| e.to_string())?;
    if kept < DAY_MS {
        return Err("history is kept for at least a day".to_owned());
    }
    Ok(kept)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ConsentMode {
    Auto,
    Tool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreMode {
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Share {
    /// The whole path
    Full,
    /// Its last part
    Basename,
    /// Nothing, the repository's name neither
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Host {
    Claude,
    Codex,
    /// Any other MCP client: mail is fetched, nothing is pushed
    Other,
}

/// An empty path stands for the default: plugins pass variables on that may be unset.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

pub(super) fn named(path: Option<&PathBuf>) -> Option<&PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

/// The public program's reading: everything else is no.
#[expect(clippy::unnecessary_wraps, reason = "the shape that clap asks for")]
fn one_or_true(text: &str) -> Result<bool, std::convert::Infallible> {
    Ok(text == "1" || text.eq_ignore_ascii_case("true"))
}

/// The conversation with which Claude Code started this process.
pub(super) fn claude_session(env: paths::Env<'_>) -> Option<SessionId> {
    let text = env("CLAUDE_CODE_SESSION_ID")?.into_string().ok()?;
    SessionId::parse(text.trim()).ok()
}

impl Common {
    pub(super) fn permissions(&self) -> KeyPermissions {
        if self.insecure_key_permissions {
            KeyPermissions::AllowOpen
        } else {
            KeyPermissions::Private
        }
    }

    /// Who vouches for relays behind `https://`.
    pub(super) fn authorities(&self) -> Result<Authorities, McpError> {
        Ok(match named(self.relay_ca.as_ref()) {
            Some(path) => Authorities::read(path)?,
            None => Authorities::default(),
        })
    }

    pub(super) fn key_path(&self) -> Result<PathBuf, McpError> {
        Ok(match named(self.key.as_ref()) {
            Some(path) => path.clone(),
            None => paths::key_file(&paths::process_env)?,
        })
    }

    /// The host, and how it can be woken.
    pub(super) fn host(&self, env: paths::Env<'_>) -> Result<HostConfig, HostError> {
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
    pub(super) fn session(&self, env: paths::Env<'_>) -> Result<Option<SessionId>, McpError> {
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
    pub(super) fn operator_flags(
        &self,
        key: &PublicKey,
    ) -> Result<Option<OperatorFlags>, McpError> {
        if self.memory || self.store_mode == StoreMode::Exclusive {
            return Ok(None);
        }
        let env = paths::process_env;
        let said = |flag: &str, path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            format!(" {flag} {}", shell_word(&path.to_string_lossy()))
        };
        let mut identity = match &self.key {
            Some(path) if paths::key_file(&env).ok().as_ref() != Some(path) => said("--key", path),
            _ => String::new(),
        };
        let store = match &self.db {
            Some(path) => said("--store", path),
            // The user's terminal may have another value, or none.
            None if env("XDG_STATE_HOME").is_some() => {
                said("--store", &paths::agent_db(&env, key)?)
            }
            None => String::new(),
        };
        identity.push_str(&store);
        let relays = if self.url == DEFAULT_URL {
            String::new()
        } else {
            format!(" --url {}", shell_word(&self.url))
        };
        Ok(Some(OperatorFlags {
            identity,
            store,
            relays,
        }))
    }

    pub(super) fn store(
        &self,
        key: &PublicKey,
        session: &SessionId,
    ) -> Result<StorePlace, McpError> {
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
