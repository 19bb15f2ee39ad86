//! `audit`: the lines of `audit.log`, as they are, as they come, or proved.

mod proof;
mod tail;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) use proof::Proofs;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::error::AdminError;
use super::file::FileReader;
use super::locate::{self, Access, Target};
use super::print::{Printer, Shown, Style};
use super::{DIFFERS, interrupt};
use crate::agent::bond::audit::{files, label};
use crate::domain::audit::Line;
use crate::event::kind::StoreKind;
use tail::Tail;

/// What to do with it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Go on with what is written from now on, until interrupted
    #[arg(short, long, conflicts_with = "verify")]
    follow: bool,

    /// Prove that no line was changed, taken out, put in or moved, and that the log's records have
    /// their lines
    #[arg(long)]
    verify: bool,

    /// Show this many of the last lines only
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "verify")]
    last: Option<usize>,

    /// The folder with audit.log [default: that of each identity's store]
    #[arg(long, value_name = "PATH", env = "COVALENT_HOME")]
    home: Option<PathBuf>,
}

/// A line of `audit.log`, whoever wrote it.
#[derive(Serialize, JsonSchema)]
pub(super) struct AuditLine<'a> {
    /// Its file.
    file: &'a str,
    /// Its number in the file, from 1.
    line: u64,
    /// The line as an object; a string where it is none.
    entry: Value,
}

/// The files of one folder.
pub(super) struct Place {
    folder: PathBuf,
    /// The stores whose records have lines there.
    stores: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    let places = places(args, store)?;
    if args.verify {
        let proofs = proof::prove(&places)?;
        p.code = if proofs.are_whole() { 0 } else { DIFFERS };
        return if p.json {
            Ok(p.json(&proofs)?)
        } else {
            proofs.show(p)
        };
    }
    let stop = if args.follow {
        Some(interrupt()?)
    } else {
        None
    };
    let mut any = false;
    let mut shown = Shower::new(&places);
    let mut tails = vec![];
    for place in &places {
        let mut lines = vec![];
        let all = files(&place.folder);
        any |= !all.is_empty();
        let mut tail = Tail::new(place.folder.clone());
        for path in &all {
            tail.whole_file(path, &mut |file, line, text| {
                lines.push((file.to_owned(), line, text.to_vec()));
            })?;
        }
        let skip = lines.len().saturating_sub(args.last.unwrap_or(usize::MAX));
        for (file, line, text) in lines.iter().skip(skip) {
            shown.show(p, file, *line, text)?;
        }
        tails.push(tail);
    }
    if !any && !args.follow && !p.json {
        return Ok(p.line(Style::Plain, "no sealed session was ever recorded here")?);
    }
    p.flush()?;
    let Some(stop) = stop else { return Ok(()) };
    tail::follow(&mut tails, &mut shown, &stop, p)
}

/// Shows lines, and whose they are where they are not all of the same identity.
struct Shower {
    many: bool,
    /// Whose the last one was: its file's folder and what the line says.
    last: Option<(PathBuf, String)>,
}

impl Shower {
    fn new(places: &[Place]) -> Shower {
        Shower {
            many: places.len() > 1 || places.iter().any(|place| place.stores.len() > 1),
            last: None,
        }
    }

    /// Shows a line.
    fn show(
        &mut self,
        p: &mut Printer,
        file: &str,
        line: u64,
        text: &[u8],
    ) -> Result<(), AdminError> {
        let entry = serde_json::from_slice::<Value>(text).unwrap_or_default();
        let identity = entry.get("identity").and_then(Value::as_str).unwrap_or("-");
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        let whose = (folder.to_owned(), identity.to_owned());
        if !p.json && self.last.as_ref() != Some(&whose) {
            if self.many || self.last.is_some() {
                let head = format!("-- {identity} in {}", folder.display());
                p.whole_line(Style::Dim, &head)?;
            }
            self.last = Some(whose);
        }
        show(p, file, line, text)
    }
}

/// Shows a line, whoever's it is.
fn show(p: &mut Printer, file: &str, line: u64, text: &[u8]) -> Result<(), AdminError> {
    let lossy = String::from_utf8_lossy(text);
    if p.json {
        let entry = serde_json::from_slice(text).unwrap_or_else(|_| Value::String(lossy.into()));
        return Ok(p.json(&AuditLine { file, line, entry })?);
    }
    let Ok(entry) = serde_json::from_slice::<Value>(text) else {
        let text = format!("{line}: no line: {}", Shown(&lossy));
        return Ok(p.line(Style::Bad, &text)?);
    };
    let word =
        |name: &str| Shown(entry.get(name).and_then(Value::as_str).unwrap_or("-")).to_string();
    let at = word("timestamp").replacen('T', " ", 1);
    let at = at.get(..19).unwrap_or(&at);
    let params = entry.get("params").and_then(Value::as_str).unwrap_or("");
    let text = format!(
        "{at}  {:<8} {:<24} {}",
        word("source"),
        word("tool"),
        told(params)
    );
    let bad = entry.get("source").and_then(Value::as_str) == Some("security");
    let style = if bad { Style::Bold } else { Style::Plain };
    Ok(p.line(style, text.trim_end())?)
}

/// Parameters in few words.
fn told(params: &str) -> String {
    let Ok(Value::Object(map)) = serde_json::from_str::<Value>(params) else {
        return Shown(params).to_string();
    };
    let word = |value: &Value| match value {
        Value::String(text) => Shown(text).to_string(),
        value => Shown(&value.to_string()).to_string(),
    };
    let words = map
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| format!("{}={}", Shown(name), word(value)));
    words.collect::<Vec<_>>().join(" ")
}

fn places(args: &Args, store: Option<&Path>) -> Result<Vec<Place>, AdminError> {
    let home = args
        .home
        .clone()
        .filter(|home| !home.as_os_str().is_empty());
    let targets = match locate::targets(store) {
        // Lines may stand where no store is any more.
        Err(AdminError::NoStore { .. }) if home.is_some() => vec![],
        found => found?,
    };
    let agents: Vec<PathBuf> = targets.iter().filter_map(agent_store).collect();
    let places: Vec<Place> = match home {
        Some(folder) => vec![Place {
            folder,
            stores: agents,
        }],
        None => {
            let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
            for store in agents {
                if let Some(folder) = store.parent() {
                    folders.entry(folder.to_owned()).or_default().push(store);
                }
            }
            let places = folders.into_iter();
            places
                .map(|(folder, stores)| Place { folder, stores })
                .collect()
        }
    };
    if places.is_empty() {
        let wanted = super::reader::owner(StoreKind::Agent);
        return Err(AdminError::NoneOfKind { wanted });
    }
    Ok(places)
}

/// The path of a store, if it is one of an identity.
pub(super) fn agent_store(target: &Target) -> Option<PathBuf> {
    let Target::File(path) = target else {
        return None;
    };
    match target.access() {
        Ok(Access::File(file)) => (file.kind() == StoreKind::Agent).then(|| path.clone()),
        Ok(Access::Endpoint(_)) => None,
        // It cannot be read now; its name says what it may be.
        Err(_) => path
            .file_name()
            .is_some_and(|name| name == "agent.redb")
            .then(|| path.clone()),
    }
}

/// A record's line, for comparison.
pub(super) fn reader(path: &Path) -> Result<FileReader, AdminError> {
    FileReader::open(path)
}

/// Whether a line is one of the identity whose store this is, and of that store.
fn is_of(line: &Line, store: &Path) -> bool {
    let (who, of) = match line.identity.split_once('/') {
        Some((who, of)) => (who, Some(of)),
        None => (line.identity.as_str(), None),
    };
    let key = locate::identity_of(store);
    if key.is_some_and(|key| key.fingerprint().as_str() != who) {
        return false;
    }
    of.map_or_else(
        || label(who, store) == who,
        |_| label(who, store) == line.identity,
    )
}
