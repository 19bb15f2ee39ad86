//! The subcommands that only look, or write a host's configuration.

use std::path::PathBuf;

use clap::ValueEnum;

use super::{Common, ConsentMode, DEFAULT_URL, McpError, Share, StoreMode, named};
use crate::agent::config::{StorePlace, parse_relays};
use crate::cli::doctor::{self, DoctorArgs, Patient};
use crate::cli::hook::{self, Hook, Input};
use crate::cli::paths;
use crate::cli::setup::{self, SetupArgs, Wiring};
use crate::types::id::SessionId;

/// What the configuration of a host has to say about this server.
pub(super) fn set_up(common: &Common, args: &SetupArgs) -> Result<u8, McpError> {
    let program = std::env::current_exe().map_err(McpError::Program)?;
    let absolute = |path: &PathBuf| {
        let path = std::path::absolute(path).map_err(McpError::Program)?;
        Ok::<_, McpError>(path.display().to_string())
    };
    let mut settings = vec![];
    for (name, path) in [
        ("INTERLINK_KEY", named(common.key.as_ref())),
        ("INTERLINK_PEERS", named(common.peers.as_ref())),
        ("INTERLINK_AGENT_DB", named(common.db.as_ref())),
    ] {
        if let Some(path) = path {
            settings.push((name, absolute(path)?));
        }
    }
    if common.url != DEFAULT_URL {
        parse_relays(common.url.split(','))?;
        settings.push(("INTERLINK_URL", common.url.clone()));
    }
    let name = common.name.clone().filter(|name| !name.trim().is_empty());
    settings.extend(name.map(|name| ("INTERLINK_NAME", name)));
    settings.extend(word(
        "INTERLINK_SHARE_CWD",
        common.share_cwd,
        Share::Basename,
    ));
    settings.extend(word("INTERLINK_CONSENT", common.consent, ConsentMode::Auto));
    settings.extend(word(
        "INTERLINK_STORE_MODE",
        common.store_mode,
        StoreMode::Shared,
    ));
    // Codex hands its servers next to nothing of the environment; with another state folder the
    // server and the operator's tool would look at two stores.
    let state = (paths::process_env)("XDG_STATE_HOME").filter(|_| common.db.is_none());
    let state = state.and_then(|path| path.into_string().ok());
    settings.extend(
        state
            .filter(|path| !path.is_empty())
            .map(|path| ("XDG_STATE_HOME", path)),
    );
    let wiring = Wiring {
        program: program.display().to_string(),
        settings,
    };
    setup::run(args, &common.key_path()?, &wiring)?;
    Ok(0)
}

/// A setting that differs from the default.
fn word<T: ValueEnum + PartialEq>(
    name: &'static str,
    value: T,
    default: T,
) -> Option<(&'static str, String)> {
    let word = value.to_possible_value().filter(|_| value != default)?;
    Some((name, word.get_name().to_owned()))
}

pub(super) fn examine(common: &Common, args: &DoctorArgs) -> Result<u8, McpError> {
    let patient = Patient {
        key: common.key_path()?,
        permissions: common.permissions(),
        peers: match named(common.peers.as_ref()) {
            Some(path) => path.clone(),
            None => paths::peers_file(&paths::process_env)?,
        },
        store: &|key| {
            let nobody = SessionId::parse("doctor").ok()?;
            common.store(key, &nobody).ok()
        },
        url: &common.url,
    };
    let well = doctor::run(args, &patient).map_err(McpError::Output)?;
    Ok(u8::from(!well))
}

/// Whatever is missing, a hook is not the place to complain.
pub(super) fn answer_hook(common: &Common, hook: Hook) {
    let Some(input) = Input::read() else { return };
    let named = common.session(&|_| None).ok().flatten();
    let Some(session) = named.or_else(|| input.session()) else {
        return;
    };
    let Ok(key) = common.key_path() else { return };
    let Ok(identity) = crate::keystore::load(&key, common.permissions()) else {
        return;
    };
    if let Ok(StorePlace::Shared(store) | StorePlace::Exclusive(store)) =
        common.store(&identity.public(), &session)
    {
        hook::run(hook, &input, &session, &store);
    }
}
