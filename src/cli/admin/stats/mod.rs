//! `stats`: events by kind and minute, how long messages took, how much waited when.
//!
//! Counts come from the records of each store, depth from a replay, and times from the same walk
//! that `trace` makes; so a message of a trace is in these numbers with the same durations.
//!
//! - `latency`: times over all stores. - `plot`, `svg`: the same as a picture. - `show`: as text.

mod latency;
mod plot;
mod show;
mod svg;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::locate::{self, Target};
use super::pages::{Pages, note_missed};
use super::print::Printer;
use super::reader::StoreReader;
use super::trace::Place;
use super::when::Time;
use crate::types::limit::MAX_ADMIN_ROWS;
use crate::wire::admin::Depths;
use latency::{Latency, Stamps};

/// Spans in which events are counted.
const MINUTE_MS: u64 = 60_000;

/// Which numbers.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only what was recorded, and messages that were signed, then (2026-11-30T14:44:35Z) or later,
    /// or that long ago (10m)
    #[arg(long, value_name = "TIME|AGE")]
    since: Option<Time>,

    /// Only what was before
    #[arg(long, value_name = "TIME|AGE")]
    until: Option<Time>,

    /// The newest minutes that are listed one by one
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: usize,

    /// Also draw them, into a new file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    /// Read this store too, or the stores in this folder; may be given several times
    #[arg(long = "with", value_name = "PATH")]
    more: Vec<PathBuf>,
}

/// What `stats --json` answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    /// Each store with its counts.
    stores: Vec<StoreStats>,
    /// How long messages took, stage by stage; over all stores.
    latencies: Vec<Latency>,
    /// Messages that these stores know of.
    messages: u64,
}

/// Counts of one store.
#[derive(Serialize, JsonSchema)]
struct StoreStats {
    #[serde(flatten)]
    place: Place,
    /// Records that were counted.
    records: u64,
    /// When the first of them was written, Unix milliseconds.
    first_at: Option<u64>,
    /// When the last of them was written.
    last_at: Option<u64>,
    /// By name of the kind.
    kinds: Vec<KindStats>,
    /// By time; minutes without records are left out.
    minutes: Vec<Minute>,
    /// How much waited when.
    depth: Depths,
}

/// Records of one kind.
#[derive(Serialize, JsonSchema)]
struct KindStats {
    /// Name of the kind.
    kind: String,
    /// How many.
    records: u64,
    /// A minute, on average from the store's first minute to its last.
    per_minute: f64,
    /// The most in one minute.
    most_per_minute: u64,
}

/// What was recorded in one minute.
#[derive(Serialize, JsonSchema)]
struct Minute {
    /// Its beginning, Unix milliseconds.
    at: u64,
    /// Records.
    records: u64,
    /// By name of the kind.
    kinds: BTreeMap<String, u64>,
}

/// The time that is looked at.
#[derive(Clone, Copy)]
struct Range {
    since: u64,
    until: u64,
}

impl Range {
    const fn has(self, at: u64) -> bool {
        self.since <= at && at < self.until
    }
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let range = Range {
        since: args.since.map_or(0, |Time(at)| at.0),
        until: args.until.map_or(u64::MAX, |Time(at)| at.0),
    };
    let targets = locate::with(targets, &args.more)?;
    let readers = super::open_all(&targets, p)?;
    let mut stamps = Stamps::default();
    let mut stores: Vec<StoreStats> = vec![];
    let mut places = vec![];
    for reader in &readers {
        let mut place = Place::new(reader.as_ref(), &places);
        stamps.read(reader.as_ref(), &mut place)?;
        places.push(place.clone());
        stores.push(store(reader.as_ref(), place, range)?);
    }
    let stamps = stamps.within(range);
    let answer = Answer {
        stores,
        latencies: latency::of(&stamps),
        messages: stamps.len() as u64,
    };
    if let Some(path) = &args.plot {
        let picture = plot::draw(&answer);
        let written = fs::File::create_new(path).and_then(|mut file| {
            let filled = file.write_all(picture.as_bytes());
            // Half a picture would be in the way of the next one.
            filled.and_then(|()| file.sync_all()).inspect_err(|_| {
                let _ = fs::remove_file(path);
            })
        });
        written.map_err(|source| AdminError::Plot {
            path: path.clone(),
            source,
        })?;
    }
    if p.json {
        return Ok(p.json(&answer)?);
    }
    show::answer(&answer, args.minutes, p)
}

/// Counts a store's records.
fn store(
    reader: &dyn StoreReader,
    mut place: Place,
    range: Range,
) -> Result<StoreStats, AdminError> {
    let mut minutes: BTreeMap<u64, Minute> = BTreeMap::new();
    let (mut first_at, mut last_at) = (None, None);
    let mut pages = Pages::from(0);
    loop {
        let page = reader.records(pages.next(), MAX_ADMIN_ROWS)?;
        for record in &page.records {
            if !range.has(record.at) {
                continue;
            }
            first_at.get_or_insert(record.at);
            last_at = Some(record.at);
            let at = record.at - record.at % MINUTE_MS;
            let minute = minutes.entry(at).or_insert_with(|| Minute {
                at,
                records: 0,
                kinds: BTreeMap::new(),
            });
            minute.records += 1;
            *minute.kinds.entry(record.kind.clone()).or_default() += 1;
        }
        if !pages.take(&page) {
            break;
        }
    }
    place.missed = place.missed.max(pages.missed());
    note_missed(place.store(), place.missed);
    let mut depth = reader.depths()?;
    depth.points.retain(|point| range.has(point.at));
    let minutes: Vec<Minute> = minutes.into_values().collect();
    Ok(StoreStats {
        place,
        records: minutes.iter().map(|minute| minute.records).sum(),
        first_at,
        last_at,
        kinds: kinds(&minutes),
        minutes,
        depth,
    })
}

fn kinds(minutes: &[Minute]) -> Vec<KindStats> {
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (kind, n) in minutes.iter().flat_map(|minute| &minute.kinds) {
        let known = kinds.entry(kind).or_default();
        known.0 += n;
        known.1 = known.1.max(*n);
    }
    let ends = minutes.first().zip(minutes.last());
    let span = ends.map_or(1, |(first, last)| (last.at - first.at) / MINUTE_MS + 1);
    kinds
        .into_iter()
        .map(|(kind, (records, most))| KindStats {
            kind: kind.to_owned(),
            records,
            per_minute: ratio(records, span),
            most_per_minute: most,
        })
        .collect()
}

/// A mean with two decimals; counts are far below the 2^53 that a float holds exactly.
#[expect(clippy::cast_precision_loss, reason = "a mean for people")]
fn ratio(n: u64, of: u64) -> f64 {
    (n as f64 / of.max(1) as f64 * 100.0).round() / 100.0
}
