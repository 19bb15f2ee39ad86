//! `sessions`: whose sessions an identity knows, and forgetting one.

#[cfg(feature = "agent")]
use std::path::Path;

use clap::Subcommand;
#[cfg(feature = "agent")]
use serde::Serialize;

use super::error::AdminError;
use super::listing::Listing;
use super::locate::Target;
#[cfg(feature = "agent")]
use super::operator::{Operator, Who};
use super::print::{Id, Printer, Shown, Style, age, now};
use super::reader::KnownSessionView;
#[cfg(feature = "agent")]
use super::status;
#[cfg(feature = "agent")]
use crate::domain::decide::agent::DirectoryCommand;
use crate::event::kind::StoreKind;
#[cfg(feature = "agent")]
use crate::types::id::{SessionId, SessionIdError};
use crate::types::time::UnixMillis;

const LISTING: Listing = Listing {
    kind: StoreKind::Agent,
    name: "sessions",
};

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Args {
    /// List the sessions that were seen announced, with the keys that claim each
    List,
    /// Forget sessions, and who claims them: the next key that is seen announcing one owns it
    #[cfg(feature = "agent")]
    Clear(Clear),
}

/// Which sessions.
#[cfg(feature = "agent")]
#[derive(Debug, clap::Args)]
pub(super) struct Clear {
    #[command(flatten)]
    who: Who,

    /// Their ids
    #[arg(value_name = "SESSION", required = true, num_args = 1..=256, value_parser = session)]
    sessions: Vec<SessionId>,
}

#[cfg(feature = "agent")]
fn session(text: &str) -> Result<SessionId, SessionIdError> {
    SessionId::parse(text)
}

#[cfg(feature = "agent")]
#[derive(Serialize)]
struct Cleared {
    cleared: usize,
}

pub(super) fn list(targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    LISTING.run(targets, p, |reader| reader.directory(), show)
}

#[cfg(feature = "agent")]
pub(super) fn clear(args: &Clear, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    let command = DirectoryCommand::ForgetSessions {
        sessions: args.sessions.clone(),
    };
    let cleared = Operator::open(&args.who, store)?.forget(&command)?;
    if p.json {
        return Ok(p.json(&Cleared { cleared })?);
    }
    let text = format!("{} forgotten", status::count(cleared as u64, "session"));
    Ok(p.line(Style::Plain, &text)?)
}

fn show(sessions: &[KnownSessionView], p: &mut Printer) -> Result<(), AdminError> {
    if sessions.is_empty() {
        p.line(Style::Plain, "no session was seen")?;
    }
    let now = now();
    for session in sessions {
        show_one(session, now, p)?;
    }
    Ok(())
}

fn show_one(s: &KnownSessionView, now: UnixMillis, p: &mut Printer) -> Result<(), AdminError> {
    let style = if s.owner.is_none() {
        Style::Bad
    } else {
        Style::Plain
    };
    let contested = if s.owner.is_none() {
        "  contested: nobody owns it"
    } else {
        ""
    };
    let head = format!("{}{contested}", Id(&s.session));
    p.line(style, &head)?;
    for claim in &s.claims {
        let name = match &claim.petname {
            Some(name) => format!("{} ", Shown(name)),
            None => String::new(),
        };
        let owns = if s.owner.as_ref() == Some(&claim.key) {
            "owner   "
        } else {
            "claimant"
        };
        let closed = if claim.closed { ", said good-bye" } else { "" };
        let heard = age(now, claim.heard_at);
        let line = format!("  {owns}  {}  {name}heard {heard} ago{closed}", claim.key);
        p.line(Style::Plain, &line)?;
    }
    Ok(())
}
