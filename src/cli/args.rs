//! Reading arguments and variables, the same way in all programs.
//!
//! A variable that is set to nothing counts as unset. Plugins, unit files and scripts pass on what
//! they may not have, and nobody means an empty address or an empty path. What reads the
//! environment asks here, or gets its arguments from here.

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::{ArgMatches, Command, Parser};

use super::out;

/// A variable of the environment, unless it is empty.
#[must_use]
pub fn variable(name: impl AsRef<OsStr>) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The process's arguments.
///
/// # Errors
///
/// What clap says; help and version are such errors, with exit code 0.
pub(super) fn parse<P: Parser>() -> Result<P, clap::Error> {
    read(P::command()).map(|(args, _)| args)
}

/// The process's arguments as a command takes them, also as clap found them.
///
/// # Errors
///
/// As [`parse`].
pub(super) fn read<P: Parser>(command: Command) -> Result<(P, ArgMatches), clap::Error> {
    let mut command = heed(command).max_term_width(out::WIDTH);
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let args = P::from_arg_matches(&matches).map_err(|e| e.format(&mut command))?;
    Ok((args, matches))
}

/// A command that does not see empty variables.
fn heed(command: Command) -> Command {
    command
        .mut_args(|arg| match arg.get_env() {
            Some(name) if variable(name).is_none() && std::env::var_os(name).is_some() => {
                arg.env(Resettable::Reset)
            }
            _ => arg,
        })
        .mut_subcommands(heed)
}
