//! `status`: what every store holds, and who uses it.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::locate::Target;
use super::print::{Id, Printer, Style, age, bytes, now, span};
use super::reader::{AgentNumbers, BusNumbers, Running, SessionNumbers, Source, StoreStatus};
use crate::types::time::UnixMillis;

#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    stores: Vec<StoreStatus>,
}

pub(super) fn run(targets: &[Target], printer: &mut Printer) -> Result<(), AdminError> {
    let mut stores = vec![];
    printer.code = super::each(targets, |reader| {
        stores.push(reader.status()?);
        Ok(())
    })?;
    if printer.json {
        return Ok(printer.json(&Answer { stores })?);
    }
    let now = now();
    for (at, store) in stores.iter().enumerate() {
        if at > 0 {
            printer.line(Style::Plain, "")?;
        }
        show(store, now, printer)?;
    }
    Ok(())
}

fn show(store: &StoreStatus, now: UnixMillis, p: &mut Printer) -> Result<(), AdminError> {
    match store.agent.as_ref().and_then(|agent| agent.key.as_ref()) {
        Some(key) => p.line(Style::Bold, &format!("identity {key}"))?,
        None if store.agent.is_some() => p.line(Style::Bold, "identity")?,
        None => p.line(Style::Bold, "bus")?,
    }
    p.field("store", store.origin.name())?;
    match store.origin.source {
        Source::File => p.field("read from", "the file")?,
        Source::RepairedCopy => p.field(
            "read from",
            "a copy in memory: the file was left open by its last process, and is unchanged",
        )?,
        Source::Endpoint => p.field("read from", "the bus that runs on it")?,
    }
    if let Some(running) = &store.running {
        show_running(running, p)?;
    }
    p.field("log", &log_text(store, now))?;
    if let Some(bus) = &store.bus {
        show_bus(bus, p)?;
    }
    if let Some(agent) = &store.agent {
        show_agent(agent, p)?;
    }
    Ok(())
}

fn log_text(store: &StoreStatus, now: UnixMillis) -> String {
    let mut text = match (store.first, store.head_at) {
        (Some(first), Some(at)) => format!(
            "records {first} to {}, newest {} old",
            store.head,
            age(now, at)
        ),
        _ => "empty".to_owned(),
    };
    if let Some(size) = store.file_bytes {
        text.push_str(&format!(", file {}", bytes(size)));
    }
    text
}

fn show_running(running: &Running, p: &mut Printer) -> Result<(), AdminError> {
    let text = format!(
        "pid {}, {}, version {}, up {}, {} commits",
        running.pid,
        running.url,
        running.version,
        span(running.uptime_ms),
        running.commits,
    );
    p.field("process", &text)?;
    let mut health = running.health.clone();
    if let Some(reason) = &running.read_only_reason {
        health.push_str(&format!(": {reason}"));
    }
    Ok(p.field("health", &health)?)
}

fn show_bus(bus: &BusNumbers, p: &mut Printer) -> Result<(), AdminError> {
    let text = format!(
        "{} in {}, {}",
        count(bus.messages, "message"),
        count(bus.queues, "queue"),
        bytes(bus.bytes),
    );
    p.field("queues", &text)?;
    let drops: Vec<String> = bus
        .drops
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(reason, n)| format!("{reason} {n}"))
        .collect();
    if drops.is_empty() {
        p.field("dropped", "none")?;
    } else {
        p.field("dropped", &drops.join(", "))?;
    }
    Ok(p.field("present", &count(bus.roster, "session"))?)
}

fn show_agent(agent: &AgentNumbers, p: &mut Printer) -> Result<(), AdminError> {
    p.field("peers", &format!("{} admitted", agent.peers))?;
    let text = format!(
        "{} that no relay has yet, {}",
        count(agent.outbox, "message"),
        bytes(agent.outbox_bytes)
    );
    p.field("outbox", &text)?;
    let since = match agent.counted_from {
        0 | 1 => String::new(),
        from => format!(" (since record {from})"),
    };
    let told = |n: u64, what: &str| match n {
        0 => "none".to_owned(),
        n => format!("{} {what}", count(n, "message")),
    };
    let refused = told(agent.refused, "that no relay takes");
    p.field("refused", &format!("{refused}{since}"))?;
    let pushed_out = told(
        agent.pushed_out,
        "for which a relay dropped the oldest mail of a full queue",
    );
    p.field("pushed out", &format!("{pushed_out}{since}"))?;
    let expired = told(agent.expired, "that came too late and nobody put away");
    p.field("expired", &expired)?;
    if agent.sessions.is_empty() {
        return Ok(p.field("sessions", "none yet")?);
    }
    let rows: Vec<Vec<String>> = agent.sessions.iter().map(session_row).collect();
    let head = [
        " LEASE", "PROCESS", " UNREAD", " BYTES", " URGENT", "SESSION",
    ];
    Ok(p.table(&head, &rows)?)
}

fn session_row(session: &SessionNumbers) -> Vec<String> {
    let process = match (session.pid, session.alive) {
        (None, _) => "none".to_owned(),
        (Some(pid), Some(false)) => format!("{pid} (gone)"),
        (Some(pid), _) => pid.to_string(),
    };
    vec![
        session.epoch.to_string(),
        process,
        session.unread.to_string(),
        bytes(session.unread_bytes),
        session.attention.to_string(),
        Id(&session.session).to_string(),
    ]
}

/// A number with its noun.
pub(super) fn count(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// A line above the answers of one of several stores.
pub(super) fn heading(name: &str, many: bool, p: &mut Printer) -> Result<(), AdminError> {
    if many {
        p.whole_line(Style::Bold, name)?;
    }
    Ok(())
}
