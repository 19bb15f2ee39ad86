//! The order of steps that several machines recorded.
//!
//! Within a store the order is that of its log. Across stores there are only clocks, and they may
//! be wrong; but some steps cannot come before others, whatever the clocks say. So the steps are
//! merged by time, each one when everything that must have come before it is there; where the times
//! say otherwise, that is told.

use std::collections::BTreeMap;

use super::super::print::fine_span;
use super::life::{Durations, Life, Step};
use super::{Place, What};

/// Orders the steps, and tells the time between them.
pub(super) fn finish(life: &mut Life, places: &[Place]) {
    infer_fetched(life);
    let steps = std::mem::take(&mut life.steps);
    let known = Known::of(&steps, &life.relays);
    let mut queues: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
    for step in steps {
        queues.entry(step.store).or_default().push(step);
    }
    for queue in queues.values_mut() {
        queue.sort_by_key(|step| (step.order, step.step.rank()));
        stepped_back(queue, places, &mut life.contradictions);
        queue.reverse();
    }
    let mut done: Vec<Step> = vec![];
    loop {
        let ready = next(&queues, |step| known.missing(step, &done).is_none());
        // Records that contradict each other leave none; then time decides.
        let Some(store) = ready.or_else(|| next(&queues, |_| true)) else {
            break;
        };
        let Some(mut step) = queues.get_mut(&store).and_then(Vec::pop) else {
            break;
        };
        let before = done.last().map(|last: &Step| difference(last.at, step.at));
        step.after_ms = before;
        contradiction(&step, &done, &known, places, &mut life.contradictions);
        done.push(step);
    }
    life.steps = done;
    life.durations_ms = durations(life);
}

/// The store whose next step is the earliest of those that fit.
fn next(queues: &BTreeMap<usize, Vec<Step>>, fits: impl Fn(&Step) -> bool) -> Option<usize> {
    let heads = queues
        .iter()
        .filter_map(|(store, queue)| Some((store, queue.last()?)));
    heads
        .filter(|(_, step)| fits(step))
        .min_by_key(|(_, step)| (step.at, step.step.rank()))
        .map(|(store, _)| *store)
}

/// Milliseconds from one time to another, which may be negative.
pub(super) fn difference(from: u64, to: u64) -> i64 {
    let ms = to.abs_diff(from);
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    if to >= from { ms } else { -ms }
}

/// That a reader has fetched a message is in no log: it follows from the receipt, or from the
/// message in the reader's log. When is known as a bound only.
fn infer_fetched(life: &mut Life) {
    let reader = [What::Received, What::Late, What::UsedUp];
    let seen = life.steps.iter().find(|step| reader.contains(&step.step));
    let seen = seen.map(|step| step.at);
    let mut inferred = vec![];
    for arrived in life.steps.iter().filter(|step| step.step == What::Enqueued) {
        let ack = life
            .steps
            .iter()
            .find(|step| step.step == What::Acked && step.store == arrived.store);
        let seen = seen.filter(|at| *at >= arrived.at);
        let (at, detail) = match (ack, seen) {
            (Some(ack), seen) => {
                let by = ack.seq.map_or_else(String::new, |seq| format!(" {seq}"));
                (
                    seen.map_or(ack.at, |seen| seen.min(ack.at)),
                    format!("at the latest then, by the receipt{by}"),
                )
            }
            _ => continue,
        };
        inferred.push(Step {
            step: What::Fetched,
            seq: None,
            at: at.max(arrived.at),
            detail: Some(detail),
            inferred: true,
            from_row: false,
            ..arrived.clone()
        });
    }
    life.steps.extend(inferred);
}

/// Which steps there are, so that nothing is waited for that nobody recorded.
struct Known {
    queued: bool,
    enqueued: bool,
    taken: bool,
    /// Whether every reader has it from one bus, which told of it.
    fetched: bool,
    /// Whether no relay can have the message without a record among these.
    all_relays: bool,
}

impl Known {
    fn of(steps: &[Step], relays: &[String]) -> Known {
        let has = |what| steps.iter().any(|step| step.step == what);
        let buses = steps
            .iter()
            .filter(|step| step.step == What::Enqueued)
            .count();
        // A relay that no connection led to has nothing.
        let unreached = relays.iter().filter(|relay| {
            let mut of_relay = steps
                .iter()
                .filter(|step| step.relay.as_ref() == Some(*relay))
                .peekable();
            of_relay.peek().is_some()
                && of_relay.all(|step| {
                    let detail = step.detail.as_deref().unwrap_or_default();
                    step.step == What::Refused
                        || (step.step == What::Attempted && detail.contains("connect"))
                })
        });
        let reachable = relays.len().saturating_sub(unreached.count());
        Known {
            queued: has(What::Queued),
            enqueued: buses > 0,
            taken: has(What::Received) || has(What::Late) || has(What::UsedUp),
            fetched: buses == 1 && has(What::Fetched),
            all_relays: !relays.is_empty() && buses >= reachable,
        }
    }

    /// What must have come before a step and is not among those that are done.
    fn missing(&self, step: &Step, done: &[Step]) -> Option<What> {
        let first = |whats: &[What]| done.iter().any(|step| whats.contains(&step.step));
        let taken = [What::Received, What::Late, What::UsedUp];
        match step.step {
            What::Enqueued if self.queued && !first(&[What::Queued]) => Some(What::Queued),
            What::Accepted | What::Received | What::Late | What::UsedUp
                if self.enqueued && self.all_relays && !first(&[What::Enqueued]) =>
            {
                Some(What::Enqueued)
            }
            What::Received | What::Late | What::UsedUp
                if self.queued && !first(&[What::Queued]) =>
            {
                Some(What::Queued)
            }
            What::Received | What::Late | What::UsedUp
                if self.fetched && self.all_relays && !first(&[What::Fetched]) =>
            {
                Some(What::Fetched)
            }
            What::Acked if self.taken && !first(&taken) => Some(What::Received),
            _ => None,
        }
    }

    /// What came before a step for certain.
    fn cause<'a>(&self, step: &Step, done: &'a [Step]) -> Option<&'a Step> {
        let first = |whats: &[What]| done.iter().find(|step| whats.contains(&step.step));
        match step.step {
            What::Enqueued => first(&[What::Queued]).or_else(|| first(&[What::Signed])),
            What::Accepted if self.all_relays => first(&[What::Enqueued]),
            What::Received | What::Late | What::UsedUp if self.all_relays => {
                first(&[What::Enqueued]).or_else(|| first(&[What::Queued]))
            }
            What::Received | What::Late | What::UsedUp => {
                first(&[What::Queued]).or_else(|| first(&[What::Signed]))
            }
            What::Acked => first(&[What::Received, What::Late, What::UsedUp]),
            _ => None,
        }
    }
}

fn name(places: &[Place], store: usize) -> &str {
    places
        .get(store)
        .map_or("its sender", |place| place.name.as_str())
}

/// Tells when the clock says that a step came before its cause.
fn contradiction(
    step: &Step,
    done: &[Step],
    known: &Known,
    places: &[Place],
    into: &mut Vec<String>,
) {
    let Some(cause) = known.cause(step, done) else {
        return;
    };
    if cause.at <= step.at || cause.store == step.store {
        return;
    }
    let (here, there) = (name(places, step.store), name(places, cause.store));
    into.push(format!(
        "the clocks of {here} and {there} differ by {} or more: by them it was {} at {here} before \
         it was {} at {there}",
        fine_span(cause.at - step.at),
        step.step.name(),
        cause.step.name(),
    ));
}

/// Tells when the clock of one store went back between two of its records.
fn stepped_back(queue: &[Step], places: &[Place], into: &mut Vec<String>) {
    for pair in queue.windows(2) {
        let [a, b] = pair else { continue };
        if let (Some(from), Some(to)) = (a.seq, b.seq)
            && a.step != What::Signed
            && b.at < a.at
        {
            into.push(format!(
                "the clock of {} went back by {} between its records {from} and {to}",
                name(places, a.store),
                fine_span(a.at - b.at),
            ));
        }
    }
}

fn durations(life: &Life) -> Durations {
    let between = |from: What, to: What| {
        let (from, to) = (life.first(from)?, life.first(to)?);
        Some(difference(from.at, to.at))
    };
    let arrived = life.first(What::Enqueued);
    let left = arrived.and_then(|arrived| {
        let ends = What::LEAVES_BUS;
        let mut steps = life.steps.iter();
        steps.find(|step| step.store == arrived.store && ends.contains(&step.step))
    });
    Durations {
        signed_to_accepted: between(What::Signed, What::Accepted),
        on_bus: arrived
            .zip(left)
            .map(|(from, to)| difference(from.at, to.at)),
        signed_to_received: between(What::Signed, What::Received),
        received_to_read: between(What::Received, What::Read),
        signed_to_read: between(What::Signed, What::Read),
    }
}
