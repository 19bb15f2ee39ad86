//! Where things are when nobody says: the same places as the public program's.
//!
//! ```text
//! key       $HOME/.config/interlink/id.key
//! peers     $HOME/.config/interlink/peers.json
//! state     $XDG_STATE_HOME/interlink, else $HOME/.local/state/interlink
//! bus       <state>/bus.redb
//! agent     <state>/agent/<public key>/agent.redb
//! ```
//!
//! `USERPROFILE` stands in for an unset `HOME`. An empty or relative folder is an error: it would
//! put a secret key under whatever directory the program happened to start in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::types::id::PublicKey;

/// The environment as a function, so that tests bring their own.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The environment of this process; what is empty is not there.
#[must_use]
pub fn process_env(name: &str) -> Option<OsString> {
    super::args::variable(name)
}

/// Default place of the secret key.
///
/// # Errors
///
/// [`PathsError`] when there is no usable home.
pub fn key_file(env: Env<'_>) -> Result<PathBuf, PathsError> {
    Ok(config_root(env)?.join("id.key"))
}

/// Default place of the allowlist.
///
/// # Errors
///
/// As [`key_file`].
pub fn peers_file(env: Env<'_>) -> Result<PathBuf, PathsError> {
    Ok(config_root(env)?.join("peers.json"))
}

/// The folder of everything that is not configuration.
///
/// # Errors
///
/// [`PathsError`] when `XDG_STATE_HOME` is relative, or when it is unset or empty and there is no
/// usable home.
pub fn state_root(env: Env<'_>) -> Result<PathBuf, PathsError> {
    const XDG: &str = "XDG_STATE_HOME";
    // The XDG base directory specification treats empty as unset.
    let base = match env(XDG).filter(|value| !value.is_empty()) {
        Some(value) => absolute(XDG, value)?,
        None => home(env)?.join(".local").join("state"),
    };
    Ok(base.join("interlink"))
}

/// Default place of a bus's store.
///
/// # Errors
///
/// As [`state_root`].
pub fn bus_db(env: Env<'_>) -> Result<PathBuf, PathsError> {
    Ok(state_root(env)?.join("bus.redb"))
}

/// Default place of an identity's store.
///
/// # Errors
///
/// As [`state_root`].
pub fn agent_db(env: Env<'_>, key: &PublicKey) -> Result<PathBuf, PathsError> {
    Ok(state_root(env)?
        .join("agent")
        .join(key.to_string())
        .join("agent.redb"))
}

/// Where the admin tool finds the bus that owns a store.
#[must_use]
pub fn admin_file(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".admin");
    PathBuf::from(name)
}

/// Claude Code's files: that with the MCP servers, and that with the settings; of the user, or of
/// the project in the current directory.
///
/// # Errors
///
/// As [`state_root`].
pub fn claude_files(env: Env<'_>, project: bool) -> Result<(PathBuf, PathBuf), PathsError> {
    const CONFIG: &str = "CLAUDE_CONFIG_DIR";
    if project {
        return Ok((".mcp.json".into(), ".claude/settings.json".into()));
    }
    if let Some(value) = env(CONFIG).filter(|value| !value.is_empty()) {
        let dir = absolute(CONFIG, value)?;
        return Ok((dir.join(".claude.json"), dir.join("settings.json")));
    }
    let home = home(env)?;
    Ok((
        home.join(".claude.json"),
        home.join(".claude").join("settings.json"),
    ))
}

/// Codex's file.
///
/// # Errors
///
/// As [`state_root`].
pub fn codex_file(env: Env<'_>) -> Result<PathBuf, PathsError> {
    const CONFIG: &str = "CODEX_HOME";
    let dir = match env(CONFIG).filter(|value| !value.is_empty()) {
        Some(value) => absolute(CONFIG, value)?,
        None => home(env)?.join(".codex"),
    };
    Ok(dir.join("config.toml"))
}

fn config_root(env: Env<'_>) -> Result<PathBuf, PathsError> {
    Ok(home(env)?.join(".config").join("interlink"))
}

fn home(env: Env<'_>) -> Result<PathBuf, PathsError> {
    for name in ["HOME", "USERPROFILE"] {
        if let Some(value) = env(name) {
            return absolute(name, value);
        }
    }
    Err(PathsError::NoHome)
}

fn absolute(name: &'static str, value: OsString) -> Result<PathBuf, PathsError> {
    let path = PathBuf::from(value);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(PathsError::NotAbsolute { name, path })
    }
}

/// Why there is no default place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathsError {
    /// No home at all.
    #[error("neither HOME nor USERPROFILE is set; name the path on the command line")]
    NoHome,
    /// Empty or relative.
    #[error(
        "{name} is {path:?}, not an absolute path; mend it or name the path on the command line"
    )]
    NotAbsolute {
        /// The variable.
        name: &'static str,
        /// Its value.
        path: PathBuf,
    },
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn env(vars: &[(&'static str, &'static str)]) -> impl Fn(&str) -> Option<OsString> {
        let vars = vars.to_vec();
        move |name| {
            vars.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| OsString::from(v))
        }
    }

    #[test]
    fn defaults_are_those_of_the_public_program() {
        let e = env(&[("HOME", "/h"), ("USERPROFILE", "/u")]);
        assert_eq!(
            key_file(&e).unwrap(),
            PathBuf::from("/h/.config/interlink/id.key")
        );
        assert_eq!(
            peers_file(&e).unwrap(),
            PathBuf::from("/h/.config/interlink/peers.json")
        );
        assert_eq!(
            bus_db(&e).unwrap(),
            PathBuf::from("/h/.local/state/interlink/bus.redb")
        );
        let e = env(&[("USERPROFILE", "/u"), ("XDG_STATE_HOME", "/s")]);
        assert_eq!(
            key_file(&e).unwrap(),
            PathBuf::from("/u/.config/interlink/id.key")
        );
        let key = PublicKey::from_bytes([0; 32]);
        assert_eq!(
            agent_db(&e, &key).unwrap(),
            PathBuf::from(format!("/s/interlink/agent/{}/agent.redb", "A".repeat(43)))
        );
    }

    #[test]
    fn an_empty_or_relative_folder_is_an_error_and_never_the_current_directory() {
        assert_eq!(key_file(&env(&[])), Err(PathsError::NoHome));
        for bad in ["", "x", "./x"] {
            assert!(
                key_file(&env(&[("HOME", bad), ("USERPROFILE", "/u")])).is_err(),
                "{bad:?}"
            );
            assert!(state_root(&env(&[("HOME", bad)])).is_err(), "{bad:?}");
        }
        assert!(state_root(&env(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")])).is_err());
        assert_eq!(
            state_root(&env(&[("HOME", "/h"), ("XDG_STATE_HOME", "")])).unwrap(),
            PathBuf::from("/h/.local/state/interlink")
        );
    }
}
