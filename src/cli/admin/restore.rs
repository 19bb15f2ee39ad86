//! `restore`: puts a backup into the place of a store that nobody has open.
//!
//! The backup is proven first, and copied: the file itself stays where it is. The store that stood
//! in the place is kept under another name.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::super::paths;
use super::care::{self, CareError};
use super::confirm;
use super::error::AdminError;
use super::file::FileReader;
use super::locate::{self, Target};
use super::print::{Printer, Style, date, note_source, time};
use super::reader::{StoreReader as _, StoreStatus, owner};
use super::status::count;
use crate::event::kind::StoreKind;
use crate::store;
use crate::wire::admin::Verification;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[cfg(feature = "agent")]
    #[command(flatten)]
    shell: super::terminal::Shell,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    /// The place.
    store: String,
    kind: &'static str,
    /// The backup.
    backup: String,
    /// The store that stood in the place, under its new name.
    kept: Option<String>,
    #[serde(flatten)]
    proof: Verification,
}

/// What an identity gives up with its present state.
const IDENTITY: &str = "An identity goes back in time with it: messages that came since are gone \
from its mailbox, and copies of them that are still young enough would be taken in once more; \
messages that were sent since are not known any more, and what had not been sent then is sent \
again. Who may write is then what peers.json says, as after an edit by hand: look at \
`interlink-admin peers list` afterwards.";

/// What a bus gives up.
const BUS: &str = "Messages that the bus accepted since are gone, and messages that were \
acknowledged since are handed out once more.";

pub(super) fn run(args: &Args, place: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    let backup = FileReader::open(&args.file)?;
    note_source(backup.origin());
    let kind = backup.origin().kind;
    let proof = match care::proven(backup.proof()?, &args.file) {
        Ok(proof) => proof,
        Err(e) => return care::differs(e, p),
    };
    let place = place_of(place, kind)?;
    expect_kind(&place, kind)?;
    // Whoever has it open is named before anybody is asked.
    if place.exists() {
        drop(store::hold(&place)?);
    }
    #[cfg(feature = "agent")]
    if kind == StoreKind::Agent {
        // What a coding agent may not admit by itself it may not bring back either.
        args.shell.check()?;
    }
    confirm::agreed(&question(&backup.status()?, &args.file, &place), args.yes)?;
    let kept = backup.put_into(&place);
    let kept = match kept {
        Ok(kept) => kept,
        Err(AdminError::Care(e)) => return care::differs(e, p),
        Err(e) => return Err(e),
    };
    let answer = Answer {
        store: place.display().to_string(),
        kind: kind.name(),
        backup: args.file.display().to_string(),
        kept: kept.map(|path| path.display().to_string()),
        proof,
    };
    if p.json {
        return Ok(p.json(&answer)?);
    }
    p.whole_line(Style::Good, &format!("restored: {}", answer.store))?;
    let text = format!(
        "{} up to {}, proven",
        count(answer.proof.records, "record"),
        answer.proof.head
    );
    p.field("", &text)?;
    if let Some(kept) = &answer.kept {
        p.field("kept", kept)?;
    }
    Ok(())
}

fn question(backup: &StoreStatus, file: &Path, place: &Path) -> String {
    let until = backup.head_at.map_or_else(String::new, |at| {
        format!(", last written on {} at {} UTC", date(at), time(at))
    });
    let before = if place.exists() {
        format!("{} is kept under another name", place.display())
    } else {
        format!("there is no {} yet", place.display())
    };
    let meaning = match backup.origin.kind {
        StoreKind::Bus => BUS,
        StoreKind::Agent => IDENTITY,
    };
    format!(
        "{} ({} up to record {}{until}) becomes the store of {} in {}; {before}. {meaning}",
        file.display(),
        backup.origin.kind.name(),
        backup.head,
        owner(backup.origin.kind),
        place.display(),
    )
}

/// A store of the other kind is nobody's place; one that does not read may be.
fn expect_kind(place: &Path, kind: StoreKind) -> Result<(), AdminError> {
    match FileReader::open(place) {
        Ok(there) => there.expect(kind),
        Err(_) => Ok(()),
    }
}

/// Where the store belongs: the path that was named, the one store of its kind, or a bus's usual
/// place.
pub(super) fn place_of(place: Option<&Path>, kind: StoreKind) -> Result<PathBuf, AdminError> {
    if let Some(path) = place
        && !path.is_dir()
    {
        return Ok(path.to_owned());
    }
    let found = match locate::targets(place) {
        Ok(found) => found,
        Err(AdminError::NoStore { .. }) => vec![],
        Err(e) => return Err(e),
    };
    let mut fitting = found.into_iter().filter_map(|target| match target {
        Target::File(path) => {
            let agent = path.file_name().is_some_and(|name| name == "agent.redb");
            (agent == (kind == StoreKind::Agent)).then_some(path)
        }
        Target::Memory(_) => None,
    });
    match (fitting.next(), fitting.count()) {
        (Some(path), 0) => Ok(path),
        (Some(_), others) => Err(CareError::Several { stores: others + 1 }.into()),
        (None, _) if kind == StoreKind::Bus && place.is_none() => {
            Ok(paths::bus_db(&paths::process_env)?)
        }
        (None, _) => Err(CareError::NoPlace.into()),
    }
}
