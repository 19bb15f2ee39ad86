//! `log`: the records, oldest first; with `--follow` also those to come.
//!
//! Followers poll. A bus's file must not stay open while nobody reads it, since a bus that starts
//! wants it alone; so each round opens what is there then, the file or the bus that came up on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::filter::{self, Filter, Seen};
use super::locate::Target;
use super::pages::{Pages, note_missed};
use super::print::{self, Printer, Style, date, time};
use super::reader::StoreReader;
use super::{status, summary};
use crate::types::limit::MAX_ADMIN_ROWS;
use crate::wire::admin::RecordRow;

/// Time between two looks at a store that is followed.
const POLL: Duration = Duration::from_millis(250);

/// Rounds without an answer after which that is told.
const TELL_AFTER: u32 = 8;

/// Longest sleep between two looks at the interrupt flag.
const NAP: Duration = Duration::from_millis(50);

/// Which records.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Begin at this position
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,

    /// Begin so that this many records are left, before the filters are looked at
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "from")]
    last: Option<u64>,

    #[command(flatten)]
    filter: filter::Args,

    /// Go on with what is written from now on, until interrupted
    #[arg(short, long)]
    follow: bool,
}

/// A record as a line of JSON.
#[derive(Serialize, JsonSchema)]
pub(super) struct Line<'a> {
    store: Option<&'a str>,
    #[serde(flatten)]
    record: &'a RecordRow,
}

/// One store that is read from a position on.
struct Cursor<'a> {
    target: &'a Target,
    /// How far it was read.
    pages: Pages,
    /// How many records that went meanwhile were told of.
    told: u64,
    /// The first one to show: earlier ones are read where those to show may refer to them.
    shown: u64,
    seen: Seen,
    day: String,
    /// Rounds in a row that could not read the store.
    failures: u32,
}

/// What a log shows.
struct View {
    filter: Filter,
    many: bool,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    if (args.from.is_some() || args.filter.has_positions()) && targets.len() > 1 {
        let stores = targets.len();
        return Err(AdminError::Positions { stores });
    }
    let view = View {
        filter: Filter::new(&args.filter, targets)?,
        many: targets.len() > 1,
    };
    let stop = if args.follow {
        Some(super::interrupt()?)
    } else {
        None
    };
    let mut cursors = vec![];
    for target in targets {
        match begin(args, target, &view, p, stop.as_deref()) {
            Ok(cursor) => cursors.push(cursor),
            Err(e) if targets.len() == 1 || matches!(e, AdminError::Output(_)) => return Err(e),
            // Of several stores those that cannot be read are told and passed over.
            Err(e) => {
                super::report(&e);
                p.code = e.exit().code();
            }
        }
    }
    p.flush()?;
    match stop {
        // Nothing that is to come can fit.
        Some(_) if args.filter.ends() || cursors.is_empty() => Ok(()),
        Some(stop) => follow(&mut cursors, &view, p, &stop),
        None => Ok(()),
    }
}

/// Shows what a store has; gives where to go on.
fn begin<'a>(
    args: &Args,
    target: &'a Target,
    view: &View,
    p: &mut Printer,
    stop: Option<&AtomicBool>,
) -> Result<Cursor<'a>, AdminError> {
    let reader = target.open()?;
    print::note_source(reader.origin());
    let next = match (args.from, args.last) {
        (Some(from), _) => from,
        (None, Some(last)) => (reader.records(u64::MAX, 1)?.head + 1).saturating_sub(last),
        (None, None) => 0,
    };
    if args.from.is_some() || args.filter.has_positions() {
        let base = reader.records(u64::MAX, 1)?.base;
        if base > 0 && next <= base {
            print::note(&format!(
                "records up to {base} were compacted, and are gone"
            ));
        }
    }
    let mut cursor = Cursor {
        target,
        shown: next,
        pages: Pages::from(if view.filter.follows() { 0 } else { next }),
        told: 0,
        seen: view.filter.begin(reader.as_ref())?,
        day: String::new(),
        failures: 0,
    };
    if !p.json {
        status::heading(reader.origin().name(), view.many, p)?;
    }
    cursor.drain(reader.as_ref(), view, p, stop)?;
    Ok(cursor)
}

fn follow(
    cursors: &mut [Cursor<'_>],
    view: &View,
    p: &mut Printer,
    stop: &AtomicBool,
) -> Result<(), AdminError> {
    while wait(stop) {
        for cursor in cursors.iter_mut() {
            let opened = cursor.target.open();
            let read = opened.and_then(|r| cursor.drain(r.as_ref(), view, p, Some(stop)));
            // A bus that was killed or is about to start is no reason to stop following.
            match read {
                Ok(()) => cursor.failures = 0,
                Err(e @ AdminError::Output(_)) => return Err(e),
                Err(e) => cursor.failed(&e),
            }
        }
        p.flush()?;
    }
    Ok(())
}

/// Sleeps for a round; false when interrupted.
fn wait(stop: &AtomicBool) -> bool {
    let until = Instant::now() + POLL;
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
}

impl Cursor<'_> {
    /// Tells of a store that cannot be read, once it lasts.
    fn failed(&mut self, e: &AdminError) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == TELL_AFTER {
            print::note(&format!("still waiting: {e}"));
        }
    }

    /// Prints everything up to the head.
    fn drain(
        &mut self,
        reader: &dyn StoreReader,
        view: &View,
        p: &mut Printer,
        stop: Option<&AtomicBool>,
    ) -> Result<(), AdminError> {
        loop {
            let page = reader.records(self.pages.next(), MAX_ADMIN_ROWS)?;
            for record in &page.records {
                if view.filter.fits(record, &mut self.seen) && record.seq >= self.shown {
                    self.print(reader, record, view, p)?;
                }
            }
            let more = self.pages.take(&page);
            let missed = self.pages.missed();
            note_missed(reader.origin().name(), missed - self.told);
            self.told = missed;
            let stopped = stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            if !more || stopped || view.filter.is_past(self.pages.next()) {
                return Ok(());
            }
        }
    }

    fn print(
        &mut self,
        reader: &dyn StoreReader,
        record: &RecordRow,
        view: &View,
        p: &mut Printer,
    ) -> Result<(), AdminError> {
        let store = reader.origin().store.as_deref();
        if p.json {
            return Ok(p.json(&Line { store, record })?);
        }
        let day = date(record.at);
        if day != self.day {
            let mut text = format!("-- {day} UTC");
            if view.many {
                text.push_str(&format!(" {}", print::Shown(reader.origin().name())));
            }
            p.line(Style::Dim, &text)?;
            self.day = day;
        }
        Ok(p.line(Style::Plain, &text(record))?)
    }
}

/// A record in one line.
pub(super) fn text(record: &RecordRow) -> String {
    format!(
        "{:>8}  {}  {:<17} {}",
        record.seq,
        time(record.at),
        print::Shown(&record.kind),
        summary::of(record)
    )
}
