//! `forget-peer`: erases what was exchanged with somebody.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::confirm;
use super::error::AdminError;
use super::operator::{Operator, Who};
use super::print::{Printer, Style};
use super::status;
use crate::crypto::sign::decode_public_key;
use crate::domain::decide::agent::DirectoryCommand;

/// Whose history.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    who: Who,

    /// The peer's public key, 43 characters
    #[arg(value_name = "PUBLIC_KEY", allow_hyphen_values = true)]
    peer: String,

    /// Erase without asking; there is no way back
    #[arg(long, short)]
    yes: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    key: String,
    messages: usize,
}

pub(super) fn run(args: &Args, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    let key = decode_public_key(args.peer.trim()).map_err(|e| AdminError::NotAKey {
        text: args.peer.clone(),
        reason: e.to_string(),
    })?;
    if key == args.who.identity()?.public() {
        return Err(AdminError::OwnKey);
    }
    let question = format!(
        "Everything that was exchanged with {key} is erased: messages both ways with their texts, read \
         or not, tasks, late mail, sessions. That cannot be undone."
    );
    confirm::agreed(&question, args.yes)?;
    let operator = Operator::open(&args.who, store)?;
    // Whoever was struck from the file a moment ago is no peer any more.
    operator.catch_up()?;
    let messages = operator.forget(&DirectoryCommand::ForgetPeer { key })?;
    if p.json {
        let key = key.to_string();
        return Ok(p.json(&Answer { key, messages })?);
    }
    let text = format!(
        "{} erased, with everything else of {key}",
        status::count(messages as u64, "message"),
    );
    Ok(p.whole_line(Style::Plain, &text)?)
}
