//! `sessions`: whose sessions an identity knows, and forgetting one.

#[cfg(feature = "agent")]
use std::path::Path;

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

#[cfg(feature = "agent")]
use super::confirm;
use super::error::AdminError;
use super::find::Named;
use super::listing::Listing;
use super::locate::Target;
#[cfg(feature = "agent")]
use super::operator::{Operator, Who};
use super::print::{Id, Printer, Shown, Style, age, now};
use super::reader::{KnownSessionView, StoreReader as _};
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
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) what: Option<What>,
}

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// List the sessions that were seen announced, with the keys that claim each
    List,
    /// One session whole
    Show(Show),
    /// Forget sessions, and who claims them: the next key that is seen announcing one owns it
    #[cfg(feature = "agent")]
    Clear(Clear),
}

#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// Its id, or the beginning of it
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    session: String,
}

/// One session that an identity knows.
#[derive(Serialize, JsonSchema)]
pub(super) struct SessionShown {
    /// The store of the identity.
    store: String,
    /// The session.
    session: KnownSessionView,
}

impl Named for KnownSessionView {
    fn id(&self) -> &str {
        &self.session
    }

    fn seq(&self) -> u64 {
        0
    }
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

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

#[cfg(feature = "agent")]
fn session(text: &str) -> Result<SessionId, SessionIdError> {
    SessionId::parse(text)
}

#[cfg(feature = "agent")]
#[derive(Serialize, JsonSchema)]
pub(super) struct Cleared {
    /// How many sessions were known, and are not any more.
    cleared: usize,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    match &args.what {
        Some(What::Show(show)) => self::show_whole(show, targets, p),
        _ => list(targets, p),
    }
}

fn show_whole(args: &Show, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let (found, _) = LISTING.find(targets, (&args.session, "session"), |f| f.directory())?;
    let (store, session) = (found.store, found.row);
    if p.json {
        return Ok(p.json(&SessionShown { store, session })?);
    }
    let now = now();
    show_one(&session, now, p)?;
    p.field("store", &store)?;
    p.field("used", &format!("{} ago", age(now, session.used_at)))?;
    Ok(())
}

fn list(targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    LISTING.run(targets, p, |reader| reader.directory(), show)
}

#[cfg(feature = "agent")]
pub(super) fn clear(args: &Clear, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    let names: Vec<String> = args.sessions.iter().map(ToString::to_string).collect();
    let question = format!(
        "{} forgotten, with everybody who claims them: {}. The next key that is seen announcing one \
         owns it, and gets what is sent to it.",
        status::count(names.len() as u64, "session"),
        names.join(", ")
    );
    let operator = Operator::open(&args.who, store)?;
    confirm::agreed(&question, args.yes)?;
    let command = DirectoryCommand::ForgetSessions {
        sessions: args.sessions.clone(),
    };
    let cleared = operator.forget(&command)?;
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
