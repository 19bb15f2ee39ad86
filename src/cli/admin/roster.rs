//! `roster`: who is on a bus's presence board, and taking somebody off it.

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::confirm;
use super::error::AdminError;
use super::find::pick_name;
use super::held::Held;
use super::locate::Target;
use super::print::{Printer, Shown, Style, age, now, short};
use crate::wire::operator::BoardRow;

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Who announced itself, and when it was last heard of
    List,
    /// One session with everything that it announced
    Show(Entry),
    /// Take a session off the board; one that still runs comes back with its next announcement
    Remove(Remove),
}

#[derive(Debug, clap::Args)]
struct Entry {
    /// The entry as `roster --json` names it, or its beginning
    #[arg(value_name = "ENTRY", allow_hyphen_values = true)]
    entry: String,
}

#[derive(Debug, clap::Args)]
struct Remove {
    #[command(flatten)]
    entry: Entry,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// A presence board.
#[derive(Serialize, JsonSchema)]
pub(super) struct RosterListed {
    /// Its store; absent for a bus in memory.
    store: Option<String>,
    /// Who is on it.
    sessions: Vec<BoardRow>,
}

/// One session of a presence board.
#[derive(Serialize, JsonSchema)]
pub(super) struct RosterShown {
    /// Its store; absent for a bus in memory.
    store: Option<String>,
    /// The session.
    session: BoardRow,
}

/// What was taken off the board.
#[derive(Serialize, JsonSchema)]
pub(super) struct RosterRemoved {
    /// The store; absent for a bus in memory.
    store: Option<String>,
    /// The session.
    entry: String,
    /// Whether it was there.
    removed: bool,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let held = Held::only(targets)?;
    match &args.what {
        None | Some(What::List) => list(&held, p),
        Some(What::Show(entry)) => show(&held, entry, p),
        Some(What::Remove(args)) => remove(args, held, p),
    }
}

fn announced<'a>(row: &'a BoardRow, name: &str) -> Option<&'a Value> {
    row.announcement.get(name).filter(|value| !value.is_null())
}

fn list(held: &Held, p: &mut Printer) -> Result<(), AdminError> {
    let (store, sessions) = (held.origin().store.clone(), held.board()?);
    if p.json {
        return Ok(p.json(&RosterListed { store, sessions })?);
    }
    if sessions.is_empty() {
        return Ok(p.line(Style::Plain, "nobody is announced")?);
    }
    let now = now();
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .map(|row| {
            let name = announced(row, "name").and_then(Value::as_str);
            vec![
                age(now, row.last_seen),
                short(&row.entry),
                Shown(name.unwrap_or("-")).to_string(),
            ]
        })
        .collect();
    Ok(p.table(&[" HEARD", "SESSION", "CALLS ITSELF"], &rows)?)
}

/// The entry that a text means.
fn pick(held: &Held, text: &str) -> Result<BoardRow, AdminError> {
    let what = ("session", "session on the board");
    pick_name(&held.board()?, |row| &row.entry, text, what).cloned()
}

fn show(held: &Held, entry: &Entry, p: &mut Printer) -> Result<(), AdminError> {
    let session = pick(held, &entry.entry)?;
    let store = held.origin().store.clone();
    if p.json {
        return Ok(p.json(&RosterShown { store, session })?);
    }
    p.whole_line(Style::Bold, &session.entry)?;
    p.field("store", held.origin().name())?;
    p.field("heard", &format!("{} ago", age(now(), session.last_seen)))?;
    p.field("announces", &session.announcement.to_string())?;
    Ok(())
}

fn remove(args: &Remove, held: Held, p: &mut Printer) -> Result<(), AdminError> {
    let row = pick(&held, &args.entry.entry)?;
    let name = held.origin().name().to_owned();
    let question = format!(
        "{name}: {} leaves the board: others do not see it any more. If it still runs, it is back \
         with its next announcement, within half a minute. Its mail stays.",
        row.entry
    );
    confirm::agreed(&question, args.yes)?;
    let store = held.origin().store.clone();
    let removed = held.evict(&row.entry)? > 0;
    if p.json {
        return Ok(p.json(&RosterRemoved {
            store,
            entry: row.entry,
            removed,
        })?);
    }
    let what = if removed {
        "is off the board"
    } else {
        "had left already"
    };
    Ok(p.whole_line(Style::Plain, &format!("{} {what}", Shown(&row.entry)))?)
}
