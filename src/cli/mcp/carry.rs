//! What `setup` takes over of the flags and variables that it was given.
//!
//! Everything that a user can say to the server is taken over unless this file says why not, so that
//! a new flag cannot be forgotten. Values stand in the configuration as they were written.

use std::path::{MAIN_SEPARATOR, Path};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command};

use super::McpError;
use super::flags::Common;
use crate::agent::bond::relay::BondUrl;
use crate::agent::config::parse_relays;
use crate::cli::paths;
use crate::cli::setup::Host;

/// What a configuration says.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Variables of the server's environment.
    pub(super) settings: Vec<(String, String)>,
    /// What was given and is not written, and why.
    pub(super) notes: Vec<&'static str>,
}

/// Collects it.
pub(super) fn carry(matches: &ArgMatches, host: Host) -> Result<Carried, McpError> {
    let mut carried = Carried::default();
    for flag in Common::augment_args(Command::new("flags")).get_arguments() {
        let id = flag.get_id().as_str();
        let (Some(name), Some(value)) = (flag.get_env(), given(matches, id)) else {
            continue;
        };
        if flag.get_default_values().iter().any(|d| *d == *value) {
            continue;
        }
        let value = match (id, host) {
            // `setup` decides about these.
            ("host" | "claude_session_hooks", _) => continue,
            ("codex_bin", Host::Claude) | ("channels", Host::Codex) => continue,
            ("session", _) => {
                carried.notes.push(
                    "--session is not written: the host names each of its conversations to the server",
                );
                continue;
            }
            ("adopt_peers", _) => {
                carried.notes.push(
                    "--adopt-peers is not written: switch once, with `interlink-mcp --adopt-peers \
                     --peers PATH </dev/null`",
                );
                continue;
            }
            ("key" | "peers" | "db" | "relay_ca", _) => absolute(&value)?,
            ("codex_bin", _) if value.contains(MAIN_SEPARATOR) => absolute(&value)?,
            ("bond_root", _) => {
                let paths: Vec<String> = std::env::split_paths(&value)
                    .map(|path| absolute(&path.to_string_lossy()))
                    .collect::<Result<_, _>>()?;
                let joined = std::env::join_paths(paths)
                    .map_err(|e| McpError::Program(std::io::Error::other(e.to_string())))?;
                joined.to_string_lossy().into_owned()
            }
            ("bond_relay", _) => BondUrl::parse(&value)?.to_string(),
            ("url", _) => {
                parse_relays(value.split(','))?;
                value
            }
            _ => value,
        };
        let name = name.to_string_lossy().into_owned();
        carried.settings.push((name, value));
    }
    // Codex hands its servers next to nothing of the environment; with another state folder the
    // server and the operator's tool would look at two stores.
    let mut others = match host {
        Host::Claude => vec!["INTERLINK_CLAUDE_DELIVERY"],
        Host::Codex => vec!["CODEX_HOME"],
    };
    if given(matches, "bond_relay").is_none() {
        others.push("COVALENT_RELAY_URL");
    }
    if given(matches, "bond_max_file_kb").is_none() {
        others.push("COVALENT_MAX_FILE_KB");
    }
    others.extend([
        "COVALENT_HOME",
        "COVALENT_NOTIFICATIONS",
        "INTERLINK_NOTIFICATIONS",
    ]);
    if given(matches, "db").is_none() {
        others.push("XDG_STATE_HOME");
    }
    for name in others {
        let value = paths::process_env(name).and_then(|value| value.into_string().ok());
        carried
            .settings
            .extend(value.map(|value| (name.to_owned(), value)));
    }
    Ok(carried)
}

/// What somebody said, on the command line or in the environment.
fn given(matches: &ArgMatches, id: &str) -> Option<String> {
    let source = matches.value_source(id)?;
    if !matches!(source, ValueSource::CommandLine | ValueSource::EnvVariable) {
        return None;
    }
    if matches!(matches.try_get_one::<bool>(id), Ok(Some(false))) {
        return None;
    }
    let value = matches.get_raw(id)?.next()?.to_string_lossy().into_owned();
    (!value.trim().is_empty()).then_some(value)
}

fn absolute(path: &str) -> Result<String, McpError> {
    let path = std::path::absolute(Path::new(path)).map_err(McpError::Program)?;
    Ok(path.display().to_string())
}
