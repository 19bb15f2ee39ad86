//! `interlink-mcp setup`: wires a host to the channel server.
//!
//! Files of hosts belong to their users. A change is computed as a text first; a text that does not
//! parse is never touched; what is written replaces the file as a whole, after a copy of it was
//! kept. Running it twice changes nothing. Nothing is started.

mod allow;
mod claude;
mod codex;
mod members;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use allow::Allow;
pub(super) use claude::SERVER;
pub(super) use codex::tables as codex_tables;

use super::paths::{self, Env, PathsError};
use crate::crypto::sign::SigningIdentity;
use crate::keystore::{self, CreateKeyError, Existing};
use crate::types::secret::Secret;
use crate::types::text::shell_word;

/// A host that can be wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Host {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
}

/// Wire a host to this server: its configuration, and a key when there is none.
#[derive(Debug, Args)]
pub(super) struct SetupArgs {
    /// The host
    // The server's own flag is called `host` too.
    #[arg(value_enum, id = "wired", value_name = "HOST")]
    host: Host,

    /// Print what would be written, and change nothing
    #[arg(long)]
    print: bool,

    /// Claude Code: for the project in the current directory alone
    #[arg(long)]
    project: bool,

    /// Also let the model use these tools without asking; without it, what to add by hand is said
    #[arg(long, value_enum, value_name = "WHAT")]
    allow: Option<Allow>,
}

impl SetupArgs {
    /// The host to wire.
    pub(super) const fn host(&self) -> Host {
        self.host
    }

    /// What the model may do unasked.
    pub(super) const fn allow(&self) -> Option<Allow> {
        self.allow
    }
}

/// What the configuration says about the server.
#[derive(Debug)]
pub(super) struct Wiring {
    /// Absolute path of this program.
    pub(super) program: String,
    /// Settings that differ from the defaults, as variables of the environment.
    pub(super) settings: Vec<(String, String)>,
    /// What the model may do unasked, if this is to be written.
    pub(super) allow: Option<Allow>,
}

impl Wiring {
    fn env(&self) -> Map<String, Value> {
        let settings = self.settings.iter();
        settings
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect()
    }

    /// A command line of a shell. Hooks do not get the server's environment, so what the two must
    /// agree on stands in it.
    fn command(&self, arguments: &str) -> String {
        let mut words = vec![shell_word(&self.program).into_owned()];
        for (name, value) in &self.settings {
            let flag = match name.as_str() {
                "INTERLINK_KEY" => "--key",
                "INTERLINK_AGENT_DB" => "--db",
                "INTERLINK_STORE_MODE" => "--store-mode",
                "INTERLINK_INSECURE_KEY_PERMISSIONS" => {
                    words.push("--insecure-key-permissions".to_owned());
                    continue;
                }
                "XDG_STATE_HOME" if cfg!(unix) => {
                    words.insert(0, format!("{name}={}", shell_word(value)));
                    continue;
                }
                _ => continue,
            };
            words.push(format!("{flag} {}", shell_word(value)));
        }
        format!("{} {arguments}", words.join(" "))
    }
}

/// Why a host is not wired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum SetupError {
    #[error(transparent)]
    Paths(#[from] PathsError),
    #[error(transparent)]
    Key(#[from] CreateKeyError),
    #[error("no random bytes for a key: {0}")]
    Random(#[from] getrandom::Error),
    #[error("it is not JSON that can be changed safely: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Shape(&'static str),
    #[error("it has the line `{0}`, which was written by hand and is left alone")]
    ByHand(String),
    #[error(
        "{} is left as it is: {source}; --print shows what to add by hand", path.display()
    )]
    File {
        path: PathBuf,
        source: Box<SetupError>,
    },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("standard output: {0}")]
    Output(io::Error),
}

/// A file and the text that it shall have.
struct Change {
    path: PathBuf,
    old: Option<String>,
    new: String,
}

/// Runs `setup`.
///
/// # Errors
///
/// [`SetupError`]; every file is either as it was or as it shall be.
pub(super) fn run(
    args: &SetupArgs,
    key: &Path,
    wiring: &Wiring,
    notes: &[&str],
) -> Result<(), SetupError> {
    let env = paths::process_env;
    if args.print {
        return print(args, wiring);
    }
    let changes = changes(args, wiring, &env)?;
    let mut said = vec![];
    said.push(make_key(key)?);
    for change in &changes {
        said.push(write(change)?);
    }
    said.extend(notes.iter().map(|note| format!("note      : {note}")));
    said.push(next_steps(args).to_owned());
    if wiring.allow.is_none() {
        said.push(allow::by_hand(args.host));
    }
    say(&(said.join("\n") + "\n"))
}

fn changes(args: &SetupArgs, wiring: &Wiring, env: Env<'_>) -> Result<Vec<Change>, SetupError> {
    type Edit = fn(&str, &Wiring) -> Result<String, SetupError>;
    let files: Vec<(PathBuf, Edit)> = match args.host {
        Host::Claude => {
            let (server, settings) = paths::claude_files(env, args.project)?;
            vec![
                (server, claude::with_server as Edit),
                (settings, claude::with_hooks as Edit),
            ]
        }
        Host::Codex => vec![(paths::codex_file(env)?, codex::with_block as Edit)],
    };
    files
        .into_iter()
        .map(|(path, edit)| {
            let old = read(&path)?;
            let new = edit(old.as_deref().unwrap_or_default(), wiring).map_err(|source| {
                SetupError::File {
                    path: path.clone(),
                    source: Box::new(source),
                }
            })?;
            Ok(Change { path, old, new })
        })
        .collect()
}

/// Whether a host is wired, by the text of its files: the server, and the hooks.
pub(super) fn wired(host: Host, server: &str, hooks: &str) -> (bool, bool) {
    match host {
        Host::Codex => {
            let hooked = hooks.contains("bind_codex_session");
            (codex::tables(server) > 0, hooked)
        }
        Host::Claude => {
            let parse = |text: &str| members::Members::parse(text).ok();
            let server = parse(server)
                .and_then(|file| file.object("mcpServers").ok())
                .is_some_and(|servers| servers.get(claude::SERVER).is_some());
            let hooked = serde_json::from_str::<Value>(hooks).is_ok_and(|settings| {
                let stop = settings.pointer("/hooks/Stop").and_then(Value::as_array);
                let groups = stop.into_iter().flatten();
                groups
                    .filter_map(|group| group.get("hooks").and_then(Value::as_array))
                    .flatten()
                    .any(claude::is_ours)
            });
            (server, hooked)
        }
    }
}

pub(super) fn read(path: &Path) -> Result<Option<String>, SetupError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SetupError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Replaces a file as a whole, after a copy of it was kept beside it.
fn write(change: &Change) -> Result<String, SetupError> {
    if change.old.as_deref() == Some(change.new.as_str()) {
        return Ok(format!("unchanged : {}", change.path.display()));
    }
    // A link of somebody's collection of dotfiles stays one.
    let path = fs::canonicalize(&change.path).unwrap_or_else(|_| change.path.clone());
    let failed = |source| SetupError::Io {
        path: path.clone(),
        source,
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut copy = path.clone().into_os_string();
    copy.push(".before-interlink");
    let copy = PathBuf::from(copy);
    if change.old.is_some() {
        fs::copy(&path, &copy).map_err(failed)?;
    }
    let mut temp = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    temp.write_all(change.new.as_bytes()).map_err(failed)?;
    if let Ok(meta) = fs::metadata(&path) {
        temp.as_file()
            .set_permissions(meta.permissions())
            .map_err(failed)?;
    }
    temp.as_file().sync_all().map_err(failed)?;
    temp.persist(&path).map_err(|e| failed(e.error))?;
    let kept = if change.old.is_some() {
        format!(" (before: {})", copy.display())
    } else {
        String::new()
    };
    Ok(format!("written   : {}{kept}", change.path.display()))
}

fn make_key(path: &Path) -> Result<String, SetupError> {
    if path.symlink_metadata().is_ok() {
        return Ok(format!("key       : {} (kept)", path.display()));
    }
    let mut seed = Secret::new([0u8; 32]);
    getrandom::fill(seed.expose_mut())?;
    keystore::create(path, &seed, Existing::Keep)?;
    let public = SigningIdentity::from_seed(&seed).public();
    Ok(format!(
        "key       : {} (new)\npublic key: {public}",
        path.display()
    ))
}

fn print(args: &SetupArgs, wiring: &Wiring) -> Result<(), SetupError> {
    let env = paths::process_env;
    let text = match args.host {
        Host::Claude => {
            let (server, settings) = paths::claude_files(&env, args.project)?;
            format!(
                "// {}\n{}// {}\n{}",
                server.display(),
                claude::with_server("", wiring)?,
                settings.display(),
                claude::with_hooks("", wiring)?
            )
        }
        Host::Codex => format!(
            "# {}\n{}",
            paths::codex_file(&env)?.display(),
            codex::block(wiring, wiring.allow)
        ),
    };
    say(&text)
}

fn next_steps(args: &SetupArgs) -> &'static str {
    match args.host {
        Host::Claude if args.project => {
            "Next: start the bus if it does not run (interlink-bus), start a new Claude Code \
             session in this folder, say yes when it asks about the server of .mcp.json, and ask \
             it to call list_peers. `interlink-mcp doctor` checks the rest."
        }
        Host::Claude => {
            "Next: start the bus if it does not run (interlink-bus), start a new Claude Code \
             session, and ask it to call list_peers. `interlink-mcp doctor` checks the rest."
        }
        Host::Codex => {
            "Next: start the bus if it does not run (interlink-bus), start codex, open /hooks and \
             trust the four hooks of interlink. `interlink-mcp doctor` checks the rest."
        }
    }
}

fn say(text: &str) -> Result<(), SetupError> {
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(SetupError::Output)
}
