//! `audit --verify`: the chain of each folder's files, and the log beside it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::print::{Printer, Style};
use super::super::status;
use super::tail::Tail;
use super::{Place, is_of, reader};
use crate::agent::bond::audit::files;
use crate::codec::frame::parse_prefix;
use crate::domain::audit::{Chain, Fault, Line, is_bond, lines};
use crate::event::Recorded;
use crate::event::agent::AgentEvent;
use crate::types::seq::Seq;

/// How often, and after what time, lines are looked for again that are not there yet.
const LOOKS: usize = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// Positions that are named; the others are counted.
const NAMED: usize = 16;

/// What `audit --verify` found.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct Proofs {
    audits: Vec<Proof>,
}

/// One folder.
#[derive(Serialize, JsonSchema)]
struct Proof {
    folder: String,
    /// Whether nothing is wrong.
    ok: bool,
    /// Files that were read, in the order in which they were written.
    files: Vec<String>,
    /// Chained lines up to the first bad one.
    lines: u64,
    /// Lines of programs that do not chain.
    foreign: u64,
    /// Lines that a crash cut off and that the next line owns up to.
    torn: u64,
    /// Whether older files are gone, so that the first line's beginning cannot be proved.
    older_gone: bool,
    bad: Option<BadLine>,
    /// The logs beside it.
    logs: Vec<Beside>,
}

/// The first line that is wrong.
#[derive(Serialize, JsonSchema)]
struct BadLine {
    file: String,
    /// Its number in the file, from 1.
    line: u64,
    reason: String,
}

/// The log of an identity beside its lines.
#[derive(Default, Serialize, JsonSchema)]
struct Beside {
    store: String,
    /// Why the log could not be read.
    unread: Option<String>,
    /// Records with lines that say what the record says.
    fitting: u64,
    /// Records without their lines: how many.
    missing: u64,
    /// Records whose lines say otherwise: how many.
    differing: u64,
    /// Positions of the first of both.
    records: Vec<u64>,
    /// Lines about records that were compacted, which nothing can be compared with.
    compacted: u64,
}

impl Proof {
    fn judge(&mut self) {
        let beside = |log: &Beside| log.missing + log.differing > 0;
        self.ok = self.bad.is_none() && !self.logs.iter().any(beside);
    }
}

impl Proofs {
    pub(super) fn are_whole(&self) -> bool {
        self.audits.iter().all(|proof| proof.ok)
    }

    pub(super) fn show(&self, p: &mut Printer) -> Result<(), AdminError> {
        for proof in &self.audits {
            let (style, word) = match proof.ok {
                true => (Style::Good, "ok"),
                false => (Style::Bad, "DIFFERS"),
            };
            p.whole_line(style, &format!("{word}: {}", proof.folder))?;
            show_one(proof, p)?;
        }
        Ok(())
    }
}

fn show_one(proof: &Proof, p: &mut Printer) -> Result<(), AdminError> {
    let files = status::count(proof.files.len() as u64, "file");
    let mut text = format!("{} in {files}", status::count(proof.lines, "line"));
    if proof.foreign > 0 {
        text += &format!(", {} of a program that does not chain", proof.foreign);
    }
    if proof.torn > 0 {
        text += &format!(", {} cut off by a crash and owned up to", proof.torn);
    }
    if proof.older_gone {
        text += ", older files are gone";
    }
    p.prose("lines", &text)?;
    if let Some(bad) = &proof.bad {
        let text = format!("line {} of {}: {}", bad.line, bad.file, bad.reason);
        p.prose("first bad", &text)?;
    }
    for log in &proof.logs {
        if let Some(reason) = &log.unread {
            p.prose("log", &format!("{} was not read: {reason}", log.store))?;
            continue;
        }
        let mut text = format!("{} have their lines", status::count(log.fitting, "record"));
        if log.compacted > 0 {
            let lines = status::count(log.compacted, "line");
            text += &format!(", {lines} about records that were compacted");
        }
        if log.missing > 0 {
            text += &format!(", {} without", log.missing);
        }
        if log.differing > 0 {
            text += &format!(", {} whose lines say otherwise", log.differing);
        }
        if !log.records.is_empty() {
            let list: Vec<String> = log.records.iter().map(u64::to_string).collect();
            text += &format!(" (record {})", list.join(", "));
        }
        p.prose("log", &text)?;
    }
    Ok(())
}

pub(super) fn prove(places: &[Place]) -> Result<Proofs, AdminError> {
    let audits = places.iter().map(prove_patiently);
    let audits = audits.collect::<Result<_, _>>()?;
    Ok(Proofs { audits })
}

/// A running server writes a line a moment after its record, and half a line may be seen: what is missing
/// or wrong is looked at again.
fn prove_patiently(place: &Place) -> Result<Proof, AdminError> {
    let mut proof = prove_one(place)?;
    for _ in 0..LOOKS {
        if proof.ok {
            break;
        }
        thread::sleep(PAUSE);
        proof = prove_one(place)?;
    }
    Ok(proof)
}

fn prove_one(place: &Place) -> Result<Proof, AdminError> {
    // The logs first: what is recorded while the lines are read must not seem to miss its line.
    let logs: Vec<_> = place
        .stores
        .iter()
        .map(|store| (store, log(store)))
        .collect();
    let paths = files(&place.folder);
    let mut chain = Chain::begin();
    let mut proof = Proof {
        folder: place.folder.display().to_string(),
        ok: true,
        files: paths
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        lines: 0,
        foreign: 0,
        torn: 0,
        older_gone: false,
        bad: None,
        logs: vec![],
    };
    let mut ours: Vec<Line> = vec![];
    let mut first = true;
    for path in &paths {
        chain.next_file();
        let name = path.display().to_string();
        let mut each = |_: &str, _: u64, text: &[u8]| {
            if std::mem::take(&mut first) && begins_anew(text) {
                chain = Chain::resume();
                proof.older_gone = true;
            }
            // The log is compared with every line that there is, also behind the first bad one.
            ours.extend(serde_json::from_slice::<Line>(text).ok());
            let taken = chain.take(text);
            if proof.bad.is_some() {
                return;
            }
            if let Err((line, fault)) = taken {
                proof.bad = Some(bad(&name, line, &fault));
            }
            (proof.lines, proof.foreign, proof.torn) = chain.counts();
        };
        let mut tail = Tail::new(place.folder.clone());
        tail.whole_file(path, &mut each)?;
        tail.fragment(&mut each);
    }
    if let (None, Some(line), Some(path)) = (&proof.bad, chain.unowned(), paths.last()) {
        let name = path.display().to_string();
        proof.bad = Some(bad(&name, line, &Fault::NotALine));
    }
    for (store, log) in logs {
        let of: Vec<&Line> = ours.iter().filter(|line| is_of(line, store)).collect();
        // Of what stood in files that are gone, nothing is missed.
        let oldest = of.iter().filter_map(|line| line.record).min();
        let floor = oldest.filter(|_| proof.older_gone).unwrap_or(0);
        let name = store.display().to_string();
        proof.logs.push(compare(name, log, floor, of.into_iter()));
    }
    proof.judge();
    Ok(proof)
}

fn bad(file: &str, line: u64, fault: &Fault) -> BadLine {
    BadLine {
        file: file.to_owned(),
        line,
        reason: fault.to_string(),
    }
}

/// Whether the first line that there is says that there was a file before it.
fn begins_anew(text: &[u8]) -> bool {
    let line = serde_json::from_slice::<Line>(text);
    line.is_ok_and(|line| line.tool == crate::domain::audit::ROTATED)
}

/// What the lines of a record say.
type Said = Vec<(String, String, String, String)>;

struct Log {
    records: BTreeMap<u64, Said>,
    base: u64,
    head: u64,
}

fn log(store: &std::path::Path) -> Result<Log, AdminError> {
    let file = reader(store)?;
    file.read(|s| {
        let mut records = BTreeMap::new();
        s.frames(Seq::ZERO, |seq, bytes| {
            if parse_prefix(bytes).is_ok_and(|(frame, _)| is_bond(frame.kind)) {
                let record = Recorded::<AgentEvent>::from_frame(seq, bytes)?;
                let at = record.at.iso8601();
                let said = lines(&record.event).into_iter().map(|entry| {
                    let (tool, source) = (entry.tool.to_owned(), entry.source.name().to_owned());
                    (at.clone(), tool, source, entry.params.to_string())
                });
                records.insert(seq.0, said.collect());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Log {
            records,
            base: s.base()?.0,
            head: s.head()?.0,
        })
    })
}

fn compare<'a>(
    store: String,
    log: Result<Log, AdminError>,
    floor: u64,
    lines: impl Iterator<Item = &'a Line>,
) -> Beside {
    let mut beside = Beside {
        store,
        ..Beside::default()
    };
    let log = match log {
        Ok(log) => log,
        Err(e) => {
            beside.unread = Some(e.to_string());
            return beside;
        }
    };
    let mut said: BTreeMap<u64, Said> = BTreeMap::new();
    for line in lines {
        let Some(record) = line.record else { continue };
        if record <= log.base {
            beside.compacted += 1;
        } else if record <= log.head {
            said.entry(record).or_default().push((
                line.timestamp.clone(),
                line.tool.clone(),
                line.source.clone(),
                line.params.clone(),
            ));
        }
    }
    for (seq, expected) in log.records.range(floor..) {
        let wrong = match said.remove(seq) {
            None => &mut beside.missing,
            Some(found) if found == *expected => {
                beside.fitting += 1;
                continue;
            }
            Some(_) => &mut beside.differing,
        };
        *wrong += 1;
        if beside.records.len() < NAMED {
            beside.records.push(*seq);
        }
    }
    // Lines about records that are none of sealed sessions.
    beside.differing += said.len() as u64;
    let room = NAMED.saturating_sub(beside.records.len());
    beside.records.extend(said.keys().take(room));
    beside
}
