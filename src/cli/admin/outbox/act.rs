//! What the operator does to a message on its way.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::confirm;
use super::super::error::AdminError;
use super::super::file;
use super::super::find::pick;
use super::super::operator::{Operator, Who};
use super::super::print::{Printer, Style, bytes, now, short, short_id};
use super::super::reader::OutboxView;
use crate::domain::decide::agent::{AgentCommand, AgentReply, CareCommand};
use crate::event::agent::Origin;
use crate::types::seq::Seq;

/// Which message.
#[derive(Debug, clap::Args)]
pub(in crate::cli::admin) struct Act {
    #[command(flatten)]
    who: Who,

    /// Id of the message, its beginning, or its position
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// What became of a wish about a message.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct OutboxChanged {
    /// Its position.
    seq: u64,
    /// Its id.
    msg_id: String,
    /// Whether the wish changed anything.
    changed: bool,
}

/// Makes a message due at once. Nothing can be lost by it, so nobody is asked.
pub(in crate::cli::admin) fn retry(
    act: &Act,
    store: Option<&Path>,
    p: &mut Printer,
) -> Result<(), AdminError> {
    let operator = Operator::open(&act.who, store)?;
    let message = find(&operator, &act.id)?;
    let command = CareCommand::RetryMessage {
        message: Seq(message.seq),
        origin: Origin::Admin,
        now: now(),
    };
    let texts = (
        "is due at once; a session of this identity that runs sends it",
        "is due already, or no relay is left to try",
    );
    submit(&operator, command, &message, texts, p)
}

/// Gives a message up.
pub(in crate::cli::admin) fn drop(
    act: &Act,
    store: Option<&Path>,
    p: &mut Printer,
) -> Result<(), AdminError> {
    let operator = Operator::open(&act.who, store)?;
    let message = find(&operator, &act.id)?;
    let kept = if message.state == "bus_accepted" {
        "A relay has it already and keeps it; the others do not get it."
    } else {
        "No relay has it: its recipient will not get it. Its session sees it as refused."
    };
    let question = format!(
        "Message {} ({}) to {}#{} is given up. {kept} It cannot be undone.",
        short_id(&message.msg_id),
        bytes(message.bytes),
        short(&message.to),
        message.to_session,
    );
    confirm::agreed(&question, act.yes)?;
    let command = CareCommand::DropMessage {
        message: Seq(message.seq),
        origin: Origin::Admin,
    };
    let texts = ("is given up", "was answered by every relay already");
    submit(&operator, command, &message, texts, p)
}

fn find(operator: &Operator, text: &str) -> Result<OutboxView, AdminError> {
    let rows = operator.read(|s| Ok(file::outbox(s, true)?))?;
    Ok(pick(&rows, text, "message")?.clone())
}

fn submit(
    operator: &Operator,
    command: CareCommand,
    message: &OutboxView,
    (yes, no): (&str, &str),
    p: &mut Printer,
) -> Result<(), AdminError> {
    let changed = match operator.submit(AgentCommand::Care(command))? {
        AgentReply::Done { changed } => changed,
        reply => return Err(AdminError::Unexpected(format!("{reply:?}"))),
    };
    if p.json {
        return Ok(p.json(&OutboxChanged {
            seq: message.seq,
            msg_id: message.msg_id.clone(),
            changed,
        })?);
    }
    let text = if changed { yes } else { no };
    Ok(p.whole_line(Style::Plain, &format!("message {} {text}", message.msg_id))?)
}
