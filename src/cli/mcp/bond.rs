//! The flags of sealed sessions. Where none is given, the variables of the public program that speaks
//! the same protocol count.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args as ClapArgs, ValueEnum};

use super::McpError;
use crate::agent::bond::config::{
    BondConfig, DEFAULT_RELAY, DEFAULT_SPOKEN_FILE_MIB, MAX_FILE_KB, MAX_SPOKEN_FILE_MIB,
    default_roots, file_kb,
};
use crate::agent::bond::relay::BondUrl;
use crate::agent::config::StorePlace;
use crate::agent::connect::Authorities;
use crate::cli::paths;
use crate::event::agent::BondMode;
use crate::types::id::PublicKey;

/// Which kind of session is opened.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeFlag {
    Legacy,
    Spoken,
}

#[derive(Debug, ClapArgs)]
pub(super) struct BondFlags {
    /// The relay of sealed sessions [default: $COVALENT_RELAY_URL, else http://127.0.0.1:9441]
    #[arg(
        long,
        value_name = "URL",
        env = "INTERLINK_BOND_RELAY",
        help_heading = "Sealed sessions",
        global = true
    )]
    bond_relay: Option<String>,

    /// Largest file in KiB, both ways: 1 to 384 [default: $COVALENT_MAX_FILE_KB, else 256]
    #[arg(long, value_name = "KIB", env = "INTERLINK_BOND_MAX_FILE_KB", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FILE_KB)), help_heading = "Sealed sessions", global = true)]
    bond_max_file_kb: Option<u32>,

    /// Largest file in MiB of a session with a spoken code, both ways: 1 to 1024
    #[arg(long, value_name = "MIB", env = "INTERLINK_BOND_MAX_SPOKEN_FILE_MIB", default_value_t = DEFAULT_SPOKEN_FILE_MIB, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SPOKEN_FILE_MIB)), help_heading = "Sealed sessions", global = true)]
    bond_max_spoken_file_mib: u32,

    /// What bond_connect opens when the call does not say: a session that the public Covalent Bond client
    /// can join (legacy), or one with a code to say aloud, for two of this program (spoken)
    #[arg(
        long,
        value_name = "MODE",
        env = "INTERLINK_BOND_MODE",
        value_enum,
        default_value_t = ModeFlag::Legacy,
        help_heading = "Sealed sessions",
        global = true
    )]
    bond_mode: ModeFlag,

    /// Folders from which files may be sent, separated as in PATH [default: the current one]
    #[arg(long, value_name = "PATHS", env = "INTERLINK_BOND_ROOT", value_parser = OsStringValueParser::new().map(PathBuf::from), help_heading = "Sealed sessions", global = true)]
    bond_root: Option<PathBuf>,
}

impl BondFlags {
    /// What sealed sessions are told. An address that somebody meant for this program has to be one;
    /// one that was meant for another is told to whoever wants a session.
    pub(super) fn config(
        &self,
        store: &StorePlace,
        key: &PublicKey,
        authorities: &Authorities,
    ) -> Result<BondConfig, McpError> {
        let env = paths::process_env;
        let text = |name: &str| env(name).and_then(|value| value.into_string().ok());
        let named = self.bond_relay.as_deref().map(str::trim);
        let relay = match named.filter(|relay| !relay.is_empty()) {
            Some(relay) => Ok(BondUrl::parse(relay)?),
            None => BondUrl::parse(
                text("COVALENT_RELAY_URL")
                    .as_deref()
                    .unwrap_or(DEFAULT_RELAY),
            ),
        };
        let state = match store {
            StorePlace::Shared(path) | StorePlace::Exclusive(path) => path.clone(),
            StorePlace::Memory => paths::agent_db(&env, key)?,
        };
        let state =
            std::path::absolute(state.parent().unwrap_or(&state)).map_err(McpError::Program)?;
        let home = env("COVALENT_HOME").map(PathBuf::from);
        let home = home.unwrap_or_else(|| state.clone());
        let incoming = home.join("incoming");
        let roots = match self
            .bond_root
            .as_ref()
            .filter(|path| !path.as_os_str().is_empty())
        {
            Some(paths) => std::env::split_paths(paths)
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
            None => {
                let user = env("HOME")
                    .or_else(|| env("USERPROFILE"))
                    .map(PathBuf::from);
                default_roots(std::env::current_dir().ok().as_deref(), user.as_deref())
            }
        };
        Ok(BondConfig {
            relay,
            authorities: authorities.clone(),
            max_file_kb: self
                .bond_max_file_kb
                .unwrap_or_else(|| file_kb(text("COVALENT_MAX_FILE_KB").as_deref())),
            max_spoken_file_mib: self.bond_max_spoken_file_mib,
            mode: match self.bond_mode {
                ModeFlag::Legacy => BondMode::Legacy,
                ModeFlag::Spoken => BondMode::Own,
            },
            roots,
            home,
            incoming,
            state,
            reachable: !matches!(store, StorePlace::Memory),
        })
    }
}
