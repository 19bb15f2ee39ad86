//! `sessions`: whose sessions an identity knows, and forgetting one.

use clap::Subcommand;
use serde::Serialize;

use super::change;
use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Shown, Style, age, now};
use super::reader::{KnownSessionView, owner};
use super::status;
use crate::domain::decide::agent::DirectoryCommand;
use crate::event::kind::StoreKind;
use crate::types::id::{SessionId, SessionIdError};
use crate::types::time::UnixMillis;

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Args {
    /// List the sessions that were seen announced, with the keys that claim each
    List,
    /// Forget sessions, and who claims them: the next key that is seen announcing one owns it
    Clear(Clear),
}

/// Which sessions.
#[derive(Debug, clap::Args)]
pub(super) struct Clear {
    /// Their ids
    #[arg(value_name = "SESSION", required = true, num_args = 1..=256, value_parser = session)]
    sessions: Vec<SessionId>,
}

fn session(text: &str) -> Result<SessionId, SessionIdError> {
    SessionId::parse(text)
}

#[derive(Serialize)]
struct Answer {
    stores: Vec<StoreSessions>,
}

#[derive(Serialize)]
struct StoreSessions {
    store: Option<String>,
    sessions: Vec<KnownSessionView>,
}

#[derive(Serialize)]
struct Cleared {
    cleared: usize,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    match args {
        Args::List => list(targets, p),
        Args::Clear(clear) => {
            let store = change::open(change::only_identity(targets)?)?;
            let command = DirectoryCommand::ForgetSessions {
                sessions: clear.sessions.clone(),
            };
            let cleared = change::forget(&store, &command)?;
            if p.json {
                return Ok(p.json(&Cleared { cleared })?);
            }
            let text = format!("{} forgotten", status::count(cleared as u64, "session"));
            Ok(p.line(Style::Plain, &text)?)
        }
    }
}

fn list(targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let mut stores = vec![];
    p.code = super::each(targets, |reader| {
        // Among several stores those of the other kind are passed over.
        if targets.len() == 1 {
            reader.expect(StoreKind::Agent)?;
        }
        if reader.origin().kind == StoreKind::Agent {
            stores.push(StoreSessions {
                store: reader.origin().store.clone(),
                sessions: reader.directory()?,
            });
        }
        Ok(())
    })?;
    if stores.is_empty() && p.code == 0 {
        let wanted = owner(StoreKind::Agent);
        return Err(AdminError::NoneOfKind { wanted });
    }
    if p.json {
        return Ok(p.json(&Answer { stores })?);
    }
    let many = stores.len() > 1;
    let now = now();
    for store in &stores {
        status::heading(store.store.as_deref().unwrap_or("(memory)"), many, p)?;
        if store.sessions.is_empty() {
            p.line(Style::Plain, "no session was seen")?;
        }
        for session in &store.sessions {
            show(session, now, p)?;
        }
    }
    Ok(())
}

fn show(s: &KnownSessionView, now: UnixMillis, p: &mut Printer) -> Result<(), AdminError> {
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
    let head = format!("{}{contested}", Shown(&s.session));
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
