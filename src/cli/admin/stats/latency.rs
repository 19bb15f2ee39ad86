//! How long messages took.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::links::number;
use super::super::reader::StoreReader;
use super::super::trace::{Moment, Place, Wanted, What, walk};
use super::Range;

/// Times of one stage, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Latency {
    /// From what to what, as in the durations of `trace`.
    pub(super) stage: &'static str,
    /// Messages that went through it.
    pub(super) messages: u64,
    /// Messages whose clocks contradict each other; they are not in the times.
    pub(super) contradicting: u64,
    /// The shortest time.
    pub(super) min_ms: Option<u64>,
    /// Half of the messages took so long or less.
    pub(super) p50_ms: Option<u64>,
    /// 90 of 100 took so long or less.
    pub(super) p90_ms: Option<u64>,
    /// 99 of 100 took so long or less.
    pub(super) p99_ms: Option<u64>,
    /// The longest time.
    pub(super) max_ms: Option<u64>,
}

/// When things happened to one message for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    signed: Option<u64>,
    accepted: Option<u64>,
    enqueued: Option<u64>,
    left: Option<u64>,
    received: Option<u64>,
    read: Option<u64>,
}

/// Times of every message.
#[derive(Default)]
pub(super) struct Stamps(HashMap<Arc<str>, Stamp>);

/// Every message.
struct All;

impl Wanted for All {
    fn wants(&self, _id: &str, _task: Option<&str>) -> bool {
        true
    }

    fn by_digest(&self, _sha256: &str) -> Option<Arc<str>> {
        None
    }
}

fn earlier(known: &mut Option<u64>, at: u64) {
    *known = Some(known.map_or(at, |known| known.min(at)));
}

impl Stamps {
    /// Adds what a store says, and to its place where its log begins and ends.
    pub(super) fn read(
        &mut self,
        reader: &dyn StoreReader,
        place: &mut Place,
    ) -> Result<(), AdminError> {
        // A message that is on two buses waits on the one that had it first.
        let mut here: HashMap<Arc<str>, u64> = HashMap::new();
        let walked = walk(reader, &All, &mut |moment| {
            let stamp = self.0.entry(Arc::clone(moment.id)).or_default();
            note(stamp, moment, &mut here);
        })?;
        place.base = walked.base;
        place.head = walked.head;
        place.missed = walked.missed;
        Ok(())
    }

    /// Those that began within a time.
    pub(super) fn within(self, range: Range) -> Vec<Stamp> {
        let stamps = self.0.into_values();
        stamps
            .filter(|stamp| {
                let began = [stamp.signed, stamp.enqueued, stamp.received];
                began
                    .into_iter()
                    .flatten()
                    .next()
                    .is_some_and(|at| range.has(at))
            })
            .collect()
    }
}

fn note(stamp: &mut Stamp, moment: &Moment<'_>, here: &mut HashMap<Arc<str>, u64>) {
    let at = moment.at;
    match moment.what {
        What::Queued | What::Received => {
            if let Some(signed) = number(moment.event, "ts") {
                earlier(&mut stamp.signed, signed);
            }
            if moment.what == What::Received {
                earlier(&mut stamp.received, at);
            }
        }
        What::Accepted => earlier(&mut stamp.accepted, at),
        What::Enqueued => {
            here.insert(Arc::clone(moment.id), at);
            if stamp.enqueued.is_none_or(|known| at < known) {
                stamp.enqueued = Some(at);
                stamp.left = None;
            }
        }
        What::Acked | What::Dropped | What::Expired | What::BodyLost | What::Discarded
            if stamp.left.is_none() && stamp.enqueued == here.get(moment.id).copied() =>
        {
            stamp.left = Some(at);
        }
        What::Read => earlier(&mut stamp.read, at),
        _ => {}
    }
}

/// The percentiles of every stage.
pub(super) fn of(stamps: &[Stamp]) -> Vec<Latency> {
    type Stage = (&'static str, fn(&Stamp) -> (Option<u64>, Option<u64>));
    let stages: [Stage; 5] = [
        ("signed_to_accepted", |s| (s.signed, s.accepted)),
        ("on_bus", |s| (s.enqueued, s.left)),
        ("signed_to_received", |s| (s.signed, s.received)),
        ("received_to_read", |s| (s.received, s.read)),
        ("signed_to_read", |s| (s.signed, s.read)),
    ];
    stages
        .into_iter()
        .map(|(stage, ends)| {
            let pairs = stamps.iter().filter_map(|stamp| {
                let (from, to) = ends(stamp);
                from.zip(to)
            });
            stage_of(stage, pairs)
        })
        .collect()
}

fn stage_of(stage: &'static str, pairs: impl Iterator<Item = (u64, u64)>) -> Latency {
    let mut contradicting = 0;
    let mut times: Vec<u64> = pairs
        .filter_map(|(from, to)| {
            let took = to.checked_sub(from);
            contradicting += u64::from(took.is_none());
            took
        })
        .collect();
    times.sort_unstable();
    Latency {
        stage,
        messages: times.len() as u64 + contradicting,
        contradicting,
        min_ms: times.first().copied(),
        p50_ms: percentile(&times, 50),
        p90_ms: percentile(&times, 90),
        p99_ms: percentile(&times, 99),
        max_ms: times.last().copied(),
    }
}

/// The smallest time that so many of a hundred do not exceed (nearest rank).
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let times: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&times, 50), Some(50));
        assert_eq!(percentile(&times, 99), Some(99));
        assert_eq!(percentile(&[7], 50), Some(7));
        assert_eq!(percentile(&[1, 2, 3], 50), Some(2));
        assert_eq!(percentile(&[1, 2, 3], 90), Some(3));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn times_that_clocks_turn_round_are_counted_and_not_measured() {
        let found = stage_of("x", [(10, 15), (10, 5)].into_iter());
        assert_eq!((found.messages, found.contradicting), (2, 1));
        assert_eq!((found.min_ms, found.max_ms), (Some(5), Some(5)));
    }
}
