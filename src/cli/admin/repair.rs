//! `repair`: a new store of what can be read of a damaged one.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::care::{self, CareError};
use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Style, now};
use super::status::count;
use crate::domain::decide::agent::Agent;
use crate::domain::decide::bus::Bus;
use crate::event::kind::StoreKind;
use crate::store::{BaseFound, RepairReport, Salvage, repair};

/// Losses of one sort that are told in text.
const MAX_TOLD: usize = 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The new store; a file of that name is left alone, and so is the damaged one
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Answer<'a> {
    store: String,
    kind: &'static str,
    out: String,
    /// Whether nothing was lost, as far as the file says.
    complete: bool,
    complaint: Option<&'a str>,
    /// `unneeded`, `whole`, `unchecked` or `lost`.
    base_rows: &'static str,
    base_rows_reason: Option<&'a str>,
    records_found: u64,
    records_kept: u64,
    records_folded: u64,
    records_added: u64,
    missing: Vec<Span>,
    left_out: Vec<LeftOut<'a>>,
    loose: Vec<u64>,
    doubtful: Vec<u64>,
    beyond: Vec<u64>,
    bodies: u64,
    bodies_lost: Vec<u64>,
    rows_changed: u64,
    base: u64,
    head: u64,
}

#[derive(Serialize, JsonSchema)]
struct Span {
    from: u64,
    to: u64,
}

#[derive(Serialize, JsonSchema)]
struct LeftOut<'a> {
    seq: u64,
    kind: Option<&'static str>,
    reason: &'a str,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let path = care::one_file(targets)?;
    let out = care::absolute(&args.out)?;
    let salvage = Salvage::read(path)?;
    let report = match salvage.kind() {
        StoreKind::Bus => repair::<Bus>(&salvage, &out, now()),
        StoreKind::Agent => repair::<Agent>(&salvage, &out, now()),
    }
    .map_err(CareError::from)?;
    let (base_rows, base_rows_reason) = match &report.base_found {
        BaseFound::Unneeded => ("unneeded", None),
        BaseFound::Whole => ("whole", None),
        BaseFound::Unchecked => ("unchecked", None),
        BaseFound::Lost { reason } => ("lost", Some(reason.as_str())),
    };
    let answer = Answer {
        store: path.display().to_string(),
        kind: salvage.kind().name(),
        out: out.display().to_string(),
        complete: report.is_complete(),
        complaint: report.complaint.as_deref(),
        base_rows,
        base_rows_reason,
        records_found: report.found,
        records_kept: report.kept,
        records_folded: report.folded,
        records_added: report.added,
        missing: spans(&report),
        left_out: left_out(&report),
        loose: report.loose.iter().map(|seq| seq.0).collect(),
        doubtful: report.doubtful.iter().map(|seq| seq.0).collect(),
        beyond: report.beyond.iter().map(|seq| seq.0).collect(),
        bodies: report.bodies,
        bodies_lost: report.bodies_lost.iter().map(|seq| seq.0).collect(),
        rows_changed: report.rows_changed,
        base: report.base.0,
        head: report.head.0,
    };
    if p.json {
        return Ok(p.json(&answer)?);
    }
    show(&answer, p)
}

fn spans(report: &RepairReport) -> Vec<Span> {
    let spans = report.missing.iter();
    spans
        .map(|(from, to)| Span {
            from: from.0,
            to: to.0,
        })
        .collect()
}

fn left_out(report: &RepairReport) -> Vec<LeftOut<'_>> {
    let records = report.left_out.iter();
    records
        .map(|record| LeftOut {
            seq: record.seq.0,
            kind: record.kind,
            reason: &record.reason,
        })
        .collect()
}

fn show(answer: &Answer<'_>, p: &mut Printer) -> Result<(), AdminError> {
    let (style, word) = if answer.complete {
        (Style::Good, "repaired, nothing is lost")
    } else {
        (Style::Bad, "repaired, with losses")
    };
    p.whole_line(style, &format!("{word}: {}", answer.store))?;
    p.field("new store", &format!("{} (proven)", answer.out))?;
    if let Some(complaint) = answer.complaint {
        p.field("damage", complaint)?;
    }
    let text = format!(
        "{} found; {} in the new log, {} in its base rows, {} added",
        count(answer.records_found, "record"),
        answer.records_kept,
        answer.records_folded,
        answer.records_added
    );
    p.field("records", &text)?;
    let lost = answer.missing.iter().map(|span| match span.to - span.from {
        0 => format!("record {}", span.from),
        _ => format!("records {} to {}", span.from, span.to),
    });
    list("lost", lost, p)?;
    let unused = answer.left_out.iter().map(|record| {
        let kind = record.kind.unwrap_or("unknown");
        format!("record {} ({kind}): {}", record.seq, record.reason)
    });
    list("left out", unused, p)?;
    let bodies = answer.bodies_lost.iter();
    list(
        "lost",
        bodies.map(|seq| format!("the body of {seq}; its message was let go")),
        p,
    )?;
    let loose = answer.loose.iter();
    list(
        "unvouched",
        loose.map(|seq| format!("record {seq} was found outside of the log's pages")),
        p,
    )?;
    let doubtful = answer.doubtful.iter();
    list(
        "doubtful",
        doubtful.map(|seq| format!("record {seq} was found in several versions; the later counts")),
        p,
    )?;
    let beyond = answer.beyond.iter();
    list(
        "behind",
        beyond.map(|seq| format!("record {seq} stands behind the newest one that was in the log")),
        p,
    )?;
    match (answer.base_rows, answer.base_rows_reason) {
        ("lost", reason) => {
            let text = format!(
                "what stood before the compaction point is lost: {}",
                reason.unwrap_or_default()
            );
            p.field("base rows", &text)?;
        }
        ("unchecked", _) => {
            p.field(
                "base rows",
                "they read, and nothing says whether they are right",
            )?;
        }
        _ => {}
    }
    if answer.rows_changed > 0 {
        let rows = count(answer.rows_changed, "row");
        p.field(
            "rows",
            &format!("{rows} of the damaged file stood otherwise"),
        )?;
    }
    Ok(())
}

fn list(
    label: &str,
    mut lines: impl ExactSizeIterator<Item = String>,
    p: &mut Printer,
) -> Result<(), AdminError> {
    let all = lines.len();
    for line in lines.by_ref().take(MAX_TOLD) {
        p.field(label, &line)?;
    }
    if all > MAX_TOLD {
        p.field("", &format!("and {} more (--json)", all - MAX_TOLD))?;
    }
    Ok(())
}
