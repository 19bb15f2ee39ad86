//! The subcommands that only look, or write a host's configuration.

use clap::ArgMatches;

use super::McpError;
use super::carry::{Carried, carry};
use super::flags::{Common, named};
use crate::agent::config::StorePlace;
use crate::cli::doctor::{self, DoctorArgs, Patient};
use crate::cli::hook::{self, Hook, Input};
use crate::cli::paths;
use crate::cli::setup::{self, SetupArgs, Wiring};
use crate::types::id::SessionId;

/// What the configuration of a host has to say about this server.
pub(super) fn set_up(
    common: &Common,
    matches: &ArgMatches,
    args: &SetupArgs,
) -> Result<u8, McpError> {
    let program = std::env::current_exe().map_err(McpError::Program)?;
    let Carried { settings, notes } = carry(matches, args.host())?;
    let wiring = Wiring {
        program: program.display().to_string(),
        settings,
        allow: args.allow(),
    };
    setup::run(args, &common.key_path()?, &wiring, &notes)?;
    Ok(0)
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
        authorities: common.authorities()?,
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
