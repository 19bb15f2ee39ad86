//! `completions` and `man`: what shells and `man` want to know, from the same description as
//! `--help`.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::error::AdminError;
use super::{Args, PROGRAM};

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The page of one command [default: of the program]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Writes the completions of a shell to standard output.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), AdminError> {
    let mut text = vec![];
    clap_complete::generate(args.shell, &mut Args::command(), PROGRAM, &mut text);
    Ok(io::Write::write_all(&mut io::stdout().lock(), &text)?)
}

/// Writes a page for `man` to standard output.
pub(super) fn man(args: &ManArgs) -> Result<(), AdminError> {
    let mut all = Args::command();
    all.build();
    let command = match &args.command {
        None => all,
        Some(name) => {
            let found = all.find_subcommand(name).cloned();
            found.ok_or_else(|| AdminError::NoCommand { name: name.clone() })?
        }
    };
    let mut text = vec![];
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(io::Write::write_all(&mut io::stdout().lock(), &text)?)
}
