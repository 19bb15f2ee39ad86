//! `relay`: the sealed sessions that a bus relays; ending one by hand. Who is in them the bus does not
//! tell: it would be of use to nobody but an eavesdropper.

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use super::confirm;
use super::error::AdminError;
use super::held::Held;
use super::locate::Target;
use super::print::{Printer, Style, age, bytes, now};
use super::status::count;
use crate::types::time::UnixMillis;
use crate::wire::operator::RelayedSession;

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The sessions, by number
    List,
    /// End a session: what waits in it is gone, and both sides learn it with their next poll
    Drop(Drop),
}

#[derive(Debug, clap::Args)]
struct Drop {
    /// Number of the session, as `relay` lists it
    #[arg(value_name = "N")]
    session: u64,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// The sessions that a bus relays.
#[derive(Serialize, JsonSchema)]
pub(super) struct RelayListed {
    /// Its store; absent for a bus in memory.
    store: Option<String>,
    /// By number.
    sessions: Vec<RelayedSession>,
}

/// What was ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct RelayDropped {
    /// Its store; absent for a bus in memory.
    store: Option<String>,
    /// Number of the session.
    session: u64,
    /// How many sessions that were: 0 where it ended a moment ago.
    dropped: u64,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let held = Held::only(targets)?;
    match &args.what {
        None | Some(What::List) => list(&held, p),
        Some(What::Drop(args)) => self::drop(args, held, p),
    }
}

fn list(held: &Held, p: &mut Printer) -> Result<(), AdminError> {
    let sessions = held.relayed()?;
    let store = held.origin().store.clone();
    if p.json {
        return Ok(p.json(&RelayListed { store, sessions })?);
    }
    if sessions.is_empty() {
        return Ok(p.line(Style::Plain, "no session is relayed")?);
    }
    let now = now();
    let rows: Vec<Vec<String>> = sessions.iter().map(|session| row(session, now)).collect();
    p.table(
        &[
            " SESSION",
            " PEERS",
            " MESSAGES",
            " BYTES",
            " OPENED",
            " USED",
            "FLOW",
        ],
        &rows,
    )?;
    Ok(())
}

fn row(session: &RelayedSession, now: UnixMillis) -> Vec<String> {
    vec![
        session.session.to_string(),
        session.peers.to_string(),
        session.messages.to_string(),
        bytes(session.bytes),
        age(now, session.opened),
        age(now, session.used_at),
        session.flow.clone(),
    ]
}

fn drop(args: &Drop, held: Held, p: &mut Printer) -> Result<(), AdminError> {
    let number = args.session;
    let sessions = held.relayed()?;
    let found = sessions.iter().find(|session| session.session == number);
    let found = found.ok_or_else(|| AdminError::NoSuch {
        what: "relayed session with number",
        text: number.to_string(),
    })?;
    let question = format!(
        "{}: session {number} with {} ends, and {} ({}) leave unread. It cannot be undone.",
        held.origin().name(),
        count(found.peers, "peer"),
        count(found.messages, "message"),
        bytes(found.bytes),
    );
    confirm::agreed(&question, args.yes)?;
    let store = held.origin().store.clone();
    let dropped = held.end_relayed(number)?;
    if p.json {
        return Ok(p.json(&RelayDropped {
            store,
            session: number,
            dropped,
        })?);
    }
    let text = format!("{} ended", count(dropped, "session"));
    Ok(p.whole_line(Style::Plain, &text)?)
}
