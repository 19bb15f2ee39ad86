//! `compact`: lets the oldest records go.
//!
//! What they have led to stays: mail that waits, peers, counters. What is lost is the history
//! before the compaction point, for `trace`, `at` and `diff`.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use super::super::units::duration_ms;
use super::endpoint::EndpointReader;
use super::error::AdminError;
use super::locate::{Access, Target};
use super::print::{Printer, Style, bytes};
use super::reader::Origin;
use super::status::count;
use super::{care, confirm};
use crate::domain::Domain;
use crate::domain::decide::agent::Agent;
use crate::domain::decide::bus::Bus;
use crate::event::kind::StoreKind;
use crate::store::{Cut, Location, OpenOptions, Store, inspect, shrink};
use crate::system::SystemClock;
use crate::types::seq::Seq;
use crate::types::time::Clock as _;
use crate::wire::admin::Compaction;

/// How long the writer of a closed store works before progress is told.
const TURN: Duration = Duration::from_millis(200);

/// Progress is told when it takes longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Cells of the progress bar.
const BAR: u64 = 30;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Let go of the records up to this position, however young
    #[arg(long, value_name = "SEQ", conflicts_with = "older_than")]
    until: Option<u64>,

    /// Let go of the records that are older
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration_ms)]
    older_than: u64,

    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,

    /// Then give the freed space back to the file system. The store must not be open elsewhere
    #[arg(long)]
    shrink: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// What happened to a store.
#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    #[serde(flatten)]
    origin: Origin,
    dry_run: bool,
    #[serde(flatten)]
    compaction: Compaction,
    /// Records that are left.
    records_left: u64,
    file_bytes_before: Option<u64>,
    file_bytes_after: Option<u64>,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let target = match (targets, args.until) {
        ([_, _, ..], Some(_)) => {
            let stores = targets.len();
            return Err(AdminError::Positions { stores });
        }
        _ => care::one(targets)?,
    };
    let cut = match args.until {
        Some(seq) => Cut {
            until: Seq(seq),
            ..Cut::ALL
        },
        None => Cut {
            until: Seq::ZERO,
            before: SystemClock.now().minus(args.older_than),
        },
    };
    let access = target.access()?;
    let origin = access.reader().origin().clone();
    let before = file_bytes(&origin);
    let first = access.reader().status()?.first;
    let planned = access.foldable(cut)?;
    let left = |done: &Compaction| {
        let first = first.unwrap_or(done.head);
        (done.head + 1).saturating_sub(first + done.records)
    };
    let mut answer = Answer {
        dry_run: args.dry_run,
        records_left: left(&planned),
        compaction: planned,
        file_bytes_before: before,
        file_bytes_after: None,
        origin,
    };
    // Nobody is asked about nothing.
    let something = answer.compaction.records > 0 || args.shrink;
    if !args.dry_run && something {
        confirm::agreed(&question(&answer, args.shrink), args.yes)?;
        answer.compaction = match access {
            Access::Endpoint(bus) => {
                if args.shrink {
                    return Err(AdminError::ShrinkInUse);
                }
                over_endpoint(&bus, cut, planned.records)?
            }
            Access::File(reader) => {
                drop(reader);
                let path = Path::new(answer.origin.name());
                let done = in_file(&answer.origin, path, cut, planned.records)?;
                if args.shrink {
                    shrink(path)?;
                }
                done
            }
        };
        answer.records_left = left(&answer.compaction);
        answer.file_bytes_after = file_bytes(&answer.origin);
    }
    if p.json {
        p.json(&answer)?;
    } else {
        show(&answer, p)?;
    }
    Ok(())
}

fn file_bytes(origin: &Origin) -> Option<u64> {
    let path = origin.store.as_ref()?;
    std::fs::metadata(path).ok().map(|m| m.len())
}

fn question(answer: &Answer, shrink: bool) -> String {
    let planned = &answer.compaction;
    let shrunk = if shrink {
        " Then the file is made as small as it can be."
    } else {
        ""
    };
    format!(
        "{}: {} ({}) leave the log, up to record {}. Mail, peers and counters stay; what happened \
         before cannot be shown any more, and that cannot be undone.{shrunk}",
        answer.origin.name(),
        count(planned.records, "record"),
        bytes(planned.bytes),
        planned.base,
    )
}

fn add(sum: &mut Compaction, turn: Compaction) {
    *sum = Compaction {
        records: sum.records + turn.records,
        bytes: sum.bytes + turn.bytes,
        ..turn
    };
}

fn over_endpoint(bus: &EndpointReader, cut: Cut, planned: u64) -> Result<Compaction, AdminError> {
    let mut progress = Progress::new(planned);
    let mut sum = Compaction::default();
    while !sum.done {
        add(&mut sum, bus.compact(cut, false)?);
        progress.tell(sum.records);
    }
    Ok(sum)
}

fn in_file(origin: &Origin, path: &Path, cut: Cut, planned: u64) -> Result<Compaction, AdminError> {
    let location = Location::File(path.to_owned());
    match origin.kind {
        StoreKind::Bus => fold::<Bus>(OpenOptions::exclusive(location), cut, planned),
        StoreKind::Agent => fold::<Agent>(OpenOptions::shared(location), cut, planned),
    }
}

fn fold<D: Domain>(options: OpenOptions, cut: Cut, planned: u64) -> Result<Compaction, AdminError> {
    let store = Store::<D>::open(options, Arc::new(SystemClock), None)?;
    let mut progress = Progress::new(planned);
    let mut sum = Compaction::default();
    while !sum.done {
        let turn = store.compact(cut, TURN)?.wait()?;
        add(&mut sum, inspect::compaction(&turn));
        progress.tell(sum.records);
    }
    store.close();
    Ok(sum)
}

/// How far it is, on standard error.
struct Progress {
    planned: u64,
    since: Instant,
    told: Option<Instant>,
}

impl Progress {
    fn new(planned: u64) -> Self {
        Progress {
            planned: planned.max(1),
            since: Instant::now(),
            told: None,
        }
    }

    fn tell(&mut self, records: u64) {
        let due = self.told.unwrap_or(self.since).elapsed() >= PATIENCE;
        let mut err = io::stderr().lock();
        if !err.is_terminal() {
            if due {
                let _ = writeln!(err, "{records} of {} records", self.planned);
                self.told = Some(Instant::now());
            }
            return;
        }
        if !due && self.told.is_none() {
            return;
        }
        self.told = Some(Instant::now());
        let full = (records * BAR / self.planned).min(BAR);
        let bar: String = (0..BAR).map(|n| if n < full { '#' } else { '.' }).collect();
        let _ = write!(
            err,
            "\r[{bar}] {} %",
            (records * 100 / self.planned).min(100)
        );
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told.is_some() && io::stderr().is_terminal() {
            let _ = writeln!(io::stderr());
        }
    }
}

fn show(answer: &Answer, p: &mut Printer) -> Result<(), AdminError> {
    let done = &answer.compaction;
    let verb = match (answer.dry_run, done.records) {
        (true, _) => "would be",
        (false, 1) => "was",
        (false, _) => "were",
    };
    p.whole_line(Style::Bold, answer.origin.name())?;
    if done.records == 0 && answer.file_bytes_after.is_none() {
        return Ok(p.field("", "nothing to do: no record would go")?);
    }
    let text = format!(
        "{} {verb} taken out of the log ({}); compaction point {}, head {}",
        count(done.records, "record"),
        bytes(done.bytes),
        done.base,
        done.head,
    );
    p.field("compacted", &text)?;
    let size = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), bytes);
    let before = answer.records_left + done.records;
    let rows = [
        vec![
            "records".to_owned(),
            before.to_string(),
            answer.records_left.to_string(),
        ],
        vec![
            "file".to_owned(),
            size(answer.file_bytes_before),
            size(answer.file_bytes_after.or(answer.file_bytes_before)),
        ],
    ];
    p.table(&["", " before", " after"], &rows)?;
    if !answer.dry_run && done.records > 0 && answer.file_bytes_after == answer.file_bytes_before {
        p.field(
            "space",
            "free inside the file, for what comes; --shrink gives it back",
        )?;
    }
    Ok(())
}
