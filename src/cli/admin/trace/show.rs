//! A life as a timeline.

use super::super::super::fold::{Long, fold};
use super::super::error::AdminError;
use super::super::print::{Printer, Shown, Style, bytes, date, fine_span, fit, short, time};
use super::life::{Life, State, Step};
use super::{Answer, Meant, Several, What};

/// Columns before the words of a step.
const INDENT: usize = 46;

/// Columns of the time between two steps.
const AFTER: usize = 7;

/// Longest name of a place.
const PLACE: usize = 10;

/// Most candidates that people are shown.
const MOST: usize = 40;

/// The time since the step before, in the room that its column has.
fn after(ms: Option<i64>) -> String {
    let Some(ms) = ms else {
        return String::new();
    };
    let sign = if ms < 0 { '-' } else { '+' };
    let text = format!("{sign}{}", fine_span(ms.unsigned_abs()));
    if text.len() <= AFTER {
        return text;
    }
    // Signed times are any number.
    fit(&format!("{sign}{}d", ms.unsigned_abs() / 86_400_000), AFTER)
}

/// What happened, in words; text of others is in it as it came.
pub(in super::super) fn said(step: &Step) -> String {
    let mut text = match step.step {
        What::Signed => "signed by its sender",
        What::Queued => "queued: on the sender's disk",
        What::Resigned => "signed anew, with a fresh time",
        What::Requeued => "sent once more under its id",
        What::Attempted => "not sent",
        What::Enqueued => "enqueued: on the bus's disk",
        What::Accepted => "accepted",
        What::Refused => "refused",
        What::Retried => "to be tried at once, by the operator",
        What::GivenUp => "given up by the operator, where no relay had answered",
        What::Fetched => "fetched",
        What::Late => "came too late: listed as expired",
        What::Received => "received: passed the gate, stored, unread",
        What::UsedUp => "taken in: not for a reader",
        What::Pairing => "pairing",
        What::Acked => "acked: the bus forgets the body",
        What::Dropped => "dropped unread: the queue was full",
        What::Expired => "dropped unread: it waited too long",
        What::BodyLost => "dropped unread: its body was lost",
        What::Discarded => "dropped unread by the operator",
        What::NotifyFailed => "a notice did not reach the host",
        What::Notified => "notified: the host took a notice",
        What::Superseded => "superseded",
        What::Read => "read: acknowledged by its reader",
        What::Dismissed => "put away by its reader",
        What::Erased => "erased by the operator",
        What::Forgotten => "let go of: it had ended long ago",
    }
    .to_owned();
    if step.inferred {
        text.push_str(" (inferred)");
    }
    if step.from_row {
        text.push_str(" (its record was compacted)");
    }
    if let Some(relay) = &step.relay {
        text.push_str(&format!(" at {relay}"));
    }
    if let Some(detail) = &step.detail {
        text.push_str(&format!("; {detail}"));
    }
    text
}

/// The steps, one or more lines each.
fn steps(life: &Life, p: &mut Printer) -> Result<(), AdminError> {
    let head = format!(
        "  {:<12}  {:>AFTER$}  {:<PLACE$}  {:>7}",
        "TIME (UTC)", "AFTER", "WHERE", "RECORD"
    );
    p.line(Style::Dim, &head)?;
    let mut day = String::new();
    for step in &life.steps {
        let today = date(step.at);
        if today != day {
            p.line(Style::Dim, &format!("  -- {today}"))?;
            day = today;
        }
        let style = match step.step {
            What::Dropped
            | What::Expired
            | What::BodyLost
            | What::Discarded
            | What::Refused
            | What::GivenUp
            | What::Late => Style::Bad,
            What::Read => Style::Good,
            _ => Style::Plain,
        };
        let mut lead = format!(
            "  {}  {:>AFTER$}  {:<PLACE$}  {:>7}  ",
            time(step.at),
            after(step.after_ms),
            fit(
                &Shown(step.place.as_deref().unwrap_or("-")).to_string(),
                PLACE
            ),
            step.seq
                .map_or_else(|| "-".to_owned(), |seq| seq.to_string()),
        );
        let room = p.room(INDENT);
        for line in fold(&Shown(&said(step)).to_string(), room, Long::Broken) {
            p.line(style, &format!("{lead}{line}"))?;
            lead = " ".repeat(INDENT);
        }
    }
    Ok(())
}

fn peer(key: Option<&str>, session: Option<&str>) -> String {
    let mut text = key.map_or_else(|| "?".to_owned(), short);
    if let Some(session) = session {
        text.push_str(&format!("#{}", Shown(session)));
    }
    text
}

fn life(life: &Life, p: &mut Printer) -> Result<(), AdminError> {
    p.whole_line(Style::Bold, &format!("message {}", life.msg_id))?;
    let way = format!(
        "{} to {}",
        peer(life.from.as_deref(), life.from_session.as_deref()),
        peer(life.to.as_deref(), life.to_session.as_deref()),
    );
    p.spelled_field("way", &way)?;
    let mut what = life.kind.clone().unwrap_or_else(|| "message".to_owned());
    if let Some(bytes_long) = life.bytes {
        what.push_str(&format!(", {}", bytes(bytes_long)));
    }
    if let Some(task) = &life.task_id {
        what.push_str(&format!(", task {task}"));
        if let Some(status) = &life.status {
            what.push_str(&format!(" ({status})"));
        }
    }
    p.prose("what", &what)?;
    if let Some(answered) = &life.in_reply_to {
        p.field("answers", answered)?;
    }
    p.prose("state", &life.verdict)?;
    steps(life, p)?;
    for (label, texts) in [("clocks", &life.contradictions), ("note", &life.notes)] {
        for text in texts {
            p.prose(label, text)?;
        }
    }
    Ok(())
}

pub(super) fn answer(answer: &Answer, p: &mut Printer) -> Result<(), AdminError> {
    if answer.meant == Meant::Task {
        let total = answer.messages.len() as u64;
        let read = answer
            .messages
            .iter()
            .filter(|life| life.state == State::Read)
            .count();
        let head = format!(
            "task {}: {}, {read} read",
            answer.query,
            super::super::status::count(total, "message"),
        );
        p.whole_line(Style::Bold, &head)?;
    }
    for (at, message) in answer.messages.iter().enumerate() {
        if at > 0 || answer.meant == Meant::Task {
            p.line(Style::Plain, "")?;
        }
        life(message, p)?;
    }
    p.line(Style::Plain, "")?;
    for place in &answer.stores {
        p.field(
            &fit(&Shown(&place.name).to_string(), PLACE),
            place.origin.name(),
        )?;
    }
    Ok(())
}

pub(super) fn several(several: &Several, p: &mut Printer) -> Result<(), AdminError> {
    if p.json {
        return Ok(p.json(several)?);
    }
    let n = several.candidates.len();
    let head = format!("{n} messages begin with {}:", several.query);
    p.whole_line(Style::Bold, &head)?;
    let rows: Vec<Vec<String>> = several
        .candidates
        .iter()
        .take(MOST)
        .map(|candidate| {
            vec![
                format!("{} {}", date(candidate.at), time(candidate.at)),
                candidate
                    .to
                    .as_deref()
                    .map_or_else(|| "?".to_owned(), short),
                Shown(&candidate.msg_id).to_string(),
            ]
        })
        .collect();
    p.table(&["SEEN FIRST (UTC)", "RECIPIENT", "MESSAGE"], &rows)?;
    if n > MOST {
        p.line(Style::Dim, &format!("  and {} more", n - MOST))?;
    }
    Ok(())
}
