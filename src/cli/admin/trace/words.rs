//! Steps and ends in words.

use serde_json::Value;

use super::super::links::{number, text};
use super::super::print::fine_span;
use super::life::{Life, State};
use super::walk::Moment;
use super::{Place, What};
use crate::event::kind::StoreKind;

/// The relays that a message shall go to: URLs in the event, objects in the row.
pub(super) fn relays(event: &Value) -> Vec<String> {
    let relays = event.get("relays").and_then(Value::as_array);
    let url = |relay: &Value| {
        relay
            .as_str()
            .or_else(|| text(relay, "url"))
            .map(str::to_owned)
    };
    relays.into_iter().flatten().filter_map(url).collect()
}

/// What is to be said about a moment beside its name. Text of others is in it as it came.
pub(super) fn detail(moment: &Moment<'_>) -> Option<String> {
    let event = moment.event;
    let said = match moment.what {
        What::Attempted => {
            let error = match event.get("error") {
                Some(Value::String(name)) => name.clone(),
                Some(Value::Object(of)) => of
                    .iter()
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect(),
                _ => String::new(),
            };
            let code = number(event, "status").map_or_else(String::new, |n| format!(" {n}"));
            let attempt = number(event, "attempt").unwrap_or_default();
            let more = text(event, "detail").unwrap_or_default();
            format!("attempt {attempt}: {error}{code}: {more}")
        }
        What::Accepted if event.get("dropped") == Some(&Value::Bool(true)) => {
            "older mail was dropped for it".to_owned()
        }
        What::Refused => {
            let reason = text(event, "reason").unwrap_or_default();
            match number(event, "status") {
                None | Some(0) => reason.to_owned(),
                Some(status) => format!("{status} {reason}"),
            }
        }
        What::Received | What::Late => format!("from {}", text(event, "label")?),
        What::Notified => format!("by {}", text(event, "path")?),
        What::Pairing => {
            let end = text(event, "end").unwrap_or_default();
            end.to_owned()
        }
        _ => return None,
    };
    Some(said.trim_end_matches(": ").to_owned()).filter(|said| !said.is_empty())
}

/// Where the message is, and what is not known.
pub(super) fn conclude(life: &mut Life, places: &[Place]) {
    life.state = state(life);
    life.verdict = verdict(life, places);
    for (at, place) in places
        .iter()
        .enumerate()
        .filter(|(_, place)| place.base > 0)
    {
        let knows = life.steps.iter().any(|step| step.store == at);
        let rows = life
            .steps
            .iter()
            .any(|step| step.store == at && step.from_row);
        let lost = match (knows, rows) {
            (true, true) => "what is told of before is what its rows still know",
            (true, false) => continue,
            (false, _) => "if they told of this message, that is lost",
        };
        life.notes.push(format!(
            "records up to {} of {} were compacted: {lost}",
            place.base, place.name
        ));
    }
    let reads = |kind| places.iter().any(|place| place.kind == kind);
    if !reads(StoreKind::Bus) {
        life.notes
            .push("no store of a bus is among those that were read".to_owned());
    }
    if !life.has(What::Queued) {
        life.notes
            .push("the sender's store is not among those that were read".to_owned());
    }
}

fn state(life: &Life) -> State {
    let has = |what| life.has(what);
    let waits = life
        .steps
        .iter()
        .filter(|step| step.step == What::Enqueued)
        .any(|arrived| {
            let ends = What::LEAVES_BUS;
            let mut steps = life.steps.iter();
            !steps.any(|step| step.store == arrived.store && ends.contains(&step.step))
        });
    let refused = |url: &String| {
        let mut steps = life.steps.iter();
        steps.any(|step| step.step == What::Refused && step.relay.as_ref() == Some(url))
    };
    match () {
        () if has(What::Erased) => State::Erased,
        () if has(What::Read) => State::Read,
        () if has(What::Superseded) => State::Superseded,
        () if has(What::Received) => State::Unread,
        () if has(What::Late) => State::Late,
        () if has(What::UsedUp) => State::Taken,
        () if waits => State::Waiting,
        () if has(What::Acked) => State::Fetched,
        () if has(What::Dropped) => State::Dropped,
        () if has(What::Expired) => State::Expired,
        () if has(What::BodyLost) => State::BodyLost,
        () if has(What::Discarded) => State::Discarded,
        () if has(What::Accepted) => State::Accepted,
        () if has(What::GivenUp) => State::GivenUp,
        () if !life.relays.is_empty() && life.relays.iter().all(refused) => State::Refused,
        () if has(What::Queued) => State::Queued,
        () => State::Unknown,
    }
}

fn verdict(life: &Life, places: &[Place]) -> String {
    let took = |ms: Option<i64>| match ms {
        Some(ms) => match u64::try_from(ms) {
            Ok(ms) => format!(", {} after it was signed", fine_span(ms)),
            Err(_) => ", before it was signed if the clocks were right".to_owned(),
        },
        None => String::new(),
    };
    let attempts = || {
        life.steps
            .iter()
            .filter(|step| step.step == What::Attempted)
            .count()
    };
    match life.state {
        State::Read => format!("read{}", took(life.durations_ms.signed_to_read)),
        State::Unread => format!(
            "unread in the mailbox; it arrived{}",
            took(life.durations_ms.signed_to_received)
        ),
        State::Superseded => "superseded: a newer update of the same task came".to_owned(),
        State::Late => "came too late; listed as expired, not in the mailbox".to_owned(),
        State::Taken => "taken in; it is not for a reader".to_owned(),
        State::Erased => "erased on the operator's wish".to_owned(),
        State::Fetched => format!("fetched and acknowledged; {}", after_fetching(life, places)),
        State::Waiting => "waits on the bus for its reader".to_owned(),
        State::Dropped => "dropped by the bus unread: the queue was full".to_owned(),
        State::Expired => "dropped by the bus unread: it waited too long".to_owned(),
        State::BodyLost => "lost: its body was missing or damaged".to_owned(),
        State::Discarded => "taken out of its queue unread, by the operator".to_owned(),
        State::GivenUp => "given up by the operator; no relay had it".to_owned(),
        State::Accepted => {
            let buses = || places.iter().filter(|place| place.kind == StoreKind::Bus);
            if buses().any(|place| place.base > 0) {
                "accepted by a relay; what became of it there was compacted, or stands in a store that \
                 is not among those that were read"
                    .to_owned()
            } else {
                "accepted by a relay whose store is not among those that were read".to_owned()
            }
        }
        State::Refused => "refused by every relay".to_owned(),
        State::Queued => match attempts() {
            0 => "waits to be sent".to_owned(),
            1 => "waits to be sent, after a failed attempt".to_owned(),
            n => format!("waits to be sent, after {n} failed attempts"),
        },
        State::Unknown => "only traces of it are left".to_owned(),
    }
}

/// Why nothing tells of a message beyond the bus.
fn after_fetching(life: &Life, places: &[Place]) -> &'static str {
    let key = life.to.as_deref();
    let reader = places
        .iter()
        .find(|place| key.is_some() && place.key.as_deref() == key);
    match reader {
        None => "the reader's store is not among those that were read",
        Some(place) if place.base > 0 => {
            "the reader's store does not tell of it: it was dropped at its gate, or what told of it was \
             compacted"
        }
        Some(_) => {
            "the reader's store does not have it: it was dropped at its gate, most likely, and the \
             reader's standard error says why"
        }
    }
}
