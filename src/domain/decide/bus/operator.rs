//! What the operator takes away by hand.

use super::{BusDecision, BusReply, QueueIndex, done};
use crate::event::bus::{BusEvent, Discarded, PresenceRemoved};
use crate::types::seq::Seq;

/// Takes one message out of a queue, or its oldest ones. What is not there is no error: it may have
/// been read a moment ago.
pub(super) fn discard(index: &QueueIndex, to: &str, seq: Option<Seq>, max: usize) -> BusDecision {
    let waiting = index.queue(to).into_iter().flat_map(|queue| queue.iter());
    let seqs: Vec<Seq> = waiting
        .map(|(at, _)| at)
        .filter(|at| seq.is_none_or(|seq| seq == *at))
        .take(max)
        .collect();
    let count = seqs.len();
    let event = BusEvent::Discarded(Discarded { seqs });
    let events = if count > 0 { vec![event] } else { vec![] };
    done(events, BusReply::Removed { count })
}

pub(super) fn evict(index: &QueueIndex, entry: &str) -> BusDecision {
    if !index.on_roster(entry) {
        return done(vec![], BusReply::Removed { count: 0 });
    }
    let entries = vec![entry.to_owned()];
    let event = BusEvent::PresenceRemoved(PresenceRemoved { entries });
    done(vec![event], BusReply::Removed { count: 1 })
}
