//! `migrate` and `rebuild`: rows and formats brought up to this program, when the operator says so.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::care::{self, CareError};
use super::confirm;
use super::error::AdminError;
use super::file::FileReader;
use super::locate::{Access, Target};
use super::print::{Printer, Style, note, note_source};
use super::reader::StoreReader as _;
use super::status::count;
use crate::domain::Domain;
use crate::domain::decide::agent::Agent;
use crate::domain::decide::bus::Bus;
use crate::event::kind::StoreKind;
use crate::store::verify::{VerifyError, verify};
use crate::store::{FORMAT, Held, Location, OpenOptions, Snapshot, Store, hold};
use crate::system::SystemClock;
use crate::wire::admin::Verification;

#[derive(Debug, clap::Args)]
pub(super) struct MigrateArgs {
    /// Only say what would happen
    #[arg(long)]
    check: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct RebuildArgs {
    /// Rebuild only if the rows of this projection are not what the log gives
    #[arg(value_name = "PROJECTION")]
    projection: Option<String>,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Stores {
    stores: Vec<Migration>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Migration {
    store: String,
    kind: &'static str,
    /// Store format found.
    format: u32,
    /// Store format of this program.
    needed: u32,
    /// Projections whose rows are of another version.
    projections: Vec<&'static str>,
    /// Whether anything is to be done, or was.
    needs_migration: bool,
    migrated: bool,
    /// The copy of the store as it was.
    backup: Option<String>,
}

pub(super) fn migrate(
    args: &MigrateArgs,
    targets: &[Target],
    p: &mut Printer,
) -> Result<(), AdminError> {
    let mut stores = vec![];
    for target in targets {
        // A bus in memory is of its own program's format.
        let Target::File(path) = target else { continue };
        let mut migration = match target.access() {
            Ok(Access::File(reader)) => check(&reader, path)?,
            Ok(Access::Endpoint(bus)) => {
                let copy = care::Lent::of(&bus)?;
                check(&copy.reader, path)?
            }
            Err(AdminError::Open(crate::store::OpenError::InUse { .. })) if targets.len() > 1 => {
                note(&format!(
                    "{} is in use and not looked at: whoever opened it has brought it up",
                    path.display()
                ));
                continue;
            }
            Err(e) => return Err(e),
        };
        if !p.json {
            show(&migration, p)?;
            p.flush()?;
        }
        if migration.needs_migration && !args.check {
            drop(hold_bus(migration.kind, path)?);
            confirm::agreed(&question(&migration), args.yes)?;
            match migration.kind {
                "bus" => reopen::<Bus>(path, false)?,
                _ => reopen::<Agent>(path, false)?,
            }
            let reader = FileReader::open(path)?;
            if let Err(e) = care::proven(reader.proof()?, path) {
                return care::differs(e, p);
            }
            migration.migrated = true;
            if !p.json {
                p.whole_line(Style::Good, "  migrated, and proven")?;
            }
        }
        stores.push(migration);
    }
    if p.json {
        p.json(&Stores { stores })?;
    }
    Ok(())
}

/// Who has the store of a bus is told before anybody is asked: it would not be given away.
fn hold_bus(kind: &str, path: &Path) -> Result<Option<Held>, AdminError> {
    Ok(match kind {
        "bus" => Some(hold(path)?),
        _ => None,
    })
}

fn check(reader: &FileReader, path: &Path) -> Result<Migration, AdminError> {
    note_source(reader.origin());
    let snapshot = reader.snapshot()?;
    let format = snapshot.format().map_err(CareError::from)?;
    let kind = reader.origin().kind;
    let projections = match kind {
        StoreKind::Bus => snapshot.unbuilt::<Bus>(),
        StoreKind::Agent => snapshot.unbuilt::<Agent>(),
    }
    .map_err(CareError::from)?;
    let backup = (format < FORMAT).then(|| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".bak-v{format}"));
        Path::new(&name).display().to_string()
    });
    Ok(Migration {
        store: path.display().to_string(),
        kind: kind.name(),
        format,
        needed: FORMAT,
        needs_migration: format < FORMAT || !projections.is_empty(),
        projections,
        migrated: false,
        backup,
    })
}

fn question(migration: &Migration) -> String {
    let copy = migration.backup.as_ref().map_or_else(String::new, |copy| {
        format!("; a copy as it is now becomes {copy}. Older programs cannot use it afterwards")
    });
    format!("{} is brought up to this program{copy}.", migration.store)
}

fn show(migration: &Migration, p: &mut Printer) -> Result<(), AdminError> {
    p.whole_line(Style::Bold, &migration.store)?;
    let text = format!("{} (this program: {})", migration.format, migration.needed);
    p.field("format", &text)?;
    if !migration.projections.is_empty() {
        let text = format!("to be built anew: {}", migration.projections.join(", "));
        p.field("rows", &text)?;
    }
    if let Some(copy) = &migration.backup {
        p.field("copy", copy)?;
    }
    if !migration.needs_migration {
        p.field("", "nothing to do")?;
    }
    Ok(())
}

/// Opens a store for writing, which does the work, and closes it.
fn reopen<D: Domain>(path: &Path, rebuild: bool) -> Result<(), AdminError> {
    let location = Location::File(path.to_owned());
    let options = match D::KIND {
        // Nobody else has it while it is rebuilt.
        StoreKind::Agent if !rebuild => OpenOptions::shared(location),
        _ => OpenOptions::exclusive(location),
    };
    let options = OpenOptions { rebuild, ..options };
    Store::<D>::open(options, Arc::new(SystemClock), None)?.close();
    Ok(())
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Rebuilt {
    store: String,
    kind: &'static str,
    rebuilt: bool,
    /// What was wrong with the rows before.
    difference: Option<String>,
    #[serde(flatten)]
    proof: Verification,
}

pub(super) fn rebuild(
    args: &RebuildArgs,
    targets: &[Target],
    p: &mut Printer,
) -> Result<(), AdminError> {
    let path = care::one_file(targets)?;
    drop(hold(path)?);
    let kind = FileReader::open(path)?.origin().kind;
    match kind {
        StoreKind::Bus => rebuild_one::<Bus>(args, path, p),
        StoreKind::Agent => rebuild_one::<Agent>(args, path, p),
    }
}

fn rebuild_one<D: Domain>(
    args: &RebuildArgs,
    path: &Path,
    p: &mut Printer,
) -> Result<(), AdminError> {
    let tables = named::<D>(args.projection.as_deref())?;
    let reader = FileReader::open(path)?;
    note_source(reader.origin());
    let snapshot = reader.snapshot()?;
    let found = snapshot.format().map_err(CareError::from)?;
    if found < FORMAT {
        let path = path.display().to_string();
        let needed = FORMAT;
        return Err(CareError::Older {
            path,
            found,
            needed,
        }
        .into());
    }
    let difference = match rows_differ::<D>(&snapshot) {
        Ok(difference) => difference,
        Err(difference) => {
            let what = path.display().to_string();
            return care::differs(CareError::Unproven { what, difference }, p);
        }
    };
    let concerns = match &difference {
        Some((table, _)) => tables.as_ref().is_none_or(|tables| tables.contains(table)),
        None => tables.is_none(),
    };
    drop((snapshot, reader));
    if concerns {
        let what = format!(
            "The rows of {} are replaced by what its log gives.",
            path.display()
        );
        confirm::agreed(&what, args.yes)?;
        reopen::<D>(path, true)?;
    }
    let proof = match care::proven(FileReader::open(path)?.proof()?, path) {
        Ok(proof) => proof,
        Err(e) => return care::differs(e, p),
    };
    let answer = Rebuilt {
        store: path.display().to_string(),
        kind: D::KIND.name(),
        rebuilt: concerns,
        difference: difference.map(|(_, text)| text),
        proof,
    };
    if p.json {
        return Ok(p.json(&answer)?);
    }
    let word = if concerns { "rebuilt" } else { "nothing to do" };
    p.whole_line(Style::Good, &format!("{word}: {}", answer.store))?;
    if let Some(difference) = &answer.difference {
        p.field("before", difference)?;
    }
    let text = format!(
        "{} from {}, proven",
        count(answer.proof.rows, "row"),
        count(answer.proof.records, "record")
    );
    Ok(p.field("", &text)?)
}

/// The tables of a projection.
fn named<D: Domain>(name: Option<&str>) -> Result<Option<Vec<&'static str>>, CareError> {
    let Some(name) = name else { return Ok(None) };
    let mut projections = D::projections().iter();
    let found = projections.find(|p| p.name() == name);
    let found = found.ok_or_else(|| CareError::Projection {
        name: name.to_owned(),
        known: D::projections()
            .iter()
            .map(|p| p.name().to_owned())
            .collect(),
    })?;
    Ok(Some(found.tables().iter().map(|t| t.name()).collect()))
}

/// The first row that is not what the log gives, with its table; an error when something else is
/// wrong, which rows built anew would hide.
fn rows_differ<D: Domain>(snapshot: &Snapshot) -> Result<Option<(&'static str, String)>, String> {
    match verify::<D>(snapshot, |_| {}) {
        Ok(_) => Ok(None),
        Err(e) => match (e.to_string(), e) {
            (text, VerifyError::Row { table, .. }) => Ok(Some((table, text))),
            (text, _) => Err(text),
        },
    }
}
