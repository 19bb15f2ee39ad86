//! `forget-peer`: erases what was exchanged with somebody.

use serde::Serialize;

use super::change;
use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Style};
use super::status;
use crate::domain::decide::agent::DirectoryCommand;
use crate::types::id::{KeyTextError, PublicKey};

/// Whose history.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The public key, 43 characters
    #[arg(value_name = "KEY", value_parser = key, allow_hyphen_values = true)]
    key: PublicKey,

    /// Erase without asking; there is no way back
    #[arg(long)]
    yes: bool,
}

fn key(text: &str) -> Result<PublicKey, KeyTextError> {
    text.parse()
}

#[derive(Serialize)]
struct Answer {
    key: String,
    messages: usize,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    if !args.yes {
        return Err(AdminError::NotConfirmed);
    }
    let store = change::open(change::only_identity(targets)?)?;
    let command = DirectoryCommand::ForgetPeer { key: args.key };
    let messages = change::forget(&store, &command)?;
    if p.json {
        let key = args.key.to_string();
        return Ok(p.json(&Answer { key, messages })?);
    }
    let text = format!(
        "{} erased, with everything else of {}",
        status::count(messages as u64, "message"),
        args.key
    );
    Ok(p.line(Style::Plain, &text)?)
}
