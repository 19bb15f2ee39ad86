//! `status`: what every store holds, and who uses it.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::locate::Target;
use super::print::{Id, Printer, Style, age, bytes, now, span};
use super::reader::{AgentNumbers, BusNumbers, Running, SessionNumbers, Source, StoreStatus};
use crate::types::time::UnixMillis;

/// Sessions that are shown: a bus and an identity fit one screen of 24 lines.
const SESSIONS: usize = 3;

/// What every store holds.
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
    match (store.origin.source, &store.running) {
        (Source::RepairedCopy, _) => p.field(
            "read from",
            "a copy in memory: the file was left open by its last process, and is unchanged",
        )?,
        (_, Some(running)) => show_running(running, p)?,
        (_, None) if store.bus.is_some() => p.field("process", "none; this is the file")?,
        (_, None) => {}
    }
    p.field("log", &log_text(store, now))?;
    if let Some(bus) = &store.bus {
        show_bus(bus, p)?;
    }
    if let Some(agent) = &store.agent {
        show_agent(agent, now, p)?;
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
    text.push_str(&format!(", {}", bytes(store.log_bytes)));
    if store.base > 0 {
        text.push_str(&format!(", compacted up to {}", store.base));
    }
    if let Some(running) = &store.running {
        let (age, size) = (span(running.retain_ms), bytes(running.retain_bytes));
        text.push_str(&format!(", kept for {age} or {size}"));
    }
    if let Some(size) = store.file_bytes {
        text.push_str(&format!("; file {}", bytes(size)));
    }
    text
}

fn show_running(running: &Running, p: &mut Printer) -> Result<(), AdminError> {
    let text = format!(
        "pid {} at {}, up {}, {} commits",
        running.pid,
        running.url,
        span(running.uptime_ms),
        running.commits,
    );
    p.field("process", &text)?;
    let mut health = format!("{}, version {}", running.health, running.version);
    if let Some(reason) = &running.read_only_reason {
        health.push_str(&format!(": {reason}"));
    }
    if running.refused > 0 {
        let refused = count(running.refused, "message");
        health.push_str(&format!(
            "; {refused} refused since the start, for want of room (507)"
        ));
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
    let drops: Vec<String> = bus
        .drops
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(reason, n)| format!("{reason} {n}"))
        .collect();
    let drops = match drops.len() {
        0 => "none dropped".to_owned(),
        _ => format!("dropped: {}", drops.join(", ")),
    };
    p.field("queues", &format!("{text}; {drops}"))?;
    p.field("present", &count(bus.roster, "session"))?;
    let relay = bus.relay;
    if relay.sessions == 0 {
        return Ok(());
    }
    let text = format!(
        "{}, {} waiting, {}",
        count(relay.sessions, "sealed session"),
        count(relay.messages, "message"),
        bytes(relay.bytes),
    );
    Ok(p.field("relayed", &text)?)
}

fn show_agent(agent: &AgentNumbers, now: UnixMillis, p: &mut Printer) -> Result<(), AdminError> {
    let pairing = &agent.pairing;
    let mut peers = format!("{} admitted", agent.peers);
    for (n, what) in [
        (pairing.inbound, "asking"),
        (pairing.outbound, "asked"),
        (pairing.conflicts, "in conflict"),
        (pairing.blocked, "blocked"),
    ] {
        if n > 0 {
            peers.push_str(&format!(", {n} {what}"));
        }
    }
    p.field("peers", &peers)?;
    let text = format!(
        "{} that no relay has yet, {}",
        count(agent.outbox, "message"),
        bytes(agent.outbox_bytes)
    );
    p.field("outbox", &text)?;
    if let Some(last) = &agent.last_error {
        let ago = age(now, last.at);
        p.field(
            "last error",
            &format!("{ago} ago, {}: {}", last.relay, last.reason),
        )?;
    }
    let since = match agent.counted_from {
        0 | 1 => String::new(),
        from => format!(" (since record {from})"),
    };
    if agent.refused + agent.pushed_out + agent.expired == 0 {
        let text = format!("none refused, pushed out or expired{since}");
        p.field("troubles", &text)?;
    }
    for (label, n, what, since) in [
        (
            "refused",
            agent.refused,
            "that no relay takes",
            since.as_str(),
        ),
        (
            "pushed out",
            agent.pushed_out,
            "for which a relay dropped the oldest mail of a full queue",
            since.as_str(),
        ),
        (
            "expired",
            agent.expired,
            "that came too late and nobody put away",
            "",
        ),
    ] {
        if n > 0 {
            p.field(label, &format!("{} {what}{since}", count(n, "message")))?;
        }
    }
    if agent.open_tasks > 0 {
        p.field("tasks", &format!("{} open", agent.open_tasks))?;
    }
    if agent.sessions.is_empty() {
        return Ok(p.field("sessions", "none yet")?);
    }
    // One screen: those that need somebody first.
    let mut sessions: Vec<&SessionNumbers> = agent.sessions.iter().collect();
    sessions.sort_by_key(|s| (s.alive != Some(true), s.unread == 0));
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .take(SESSIONS)
        .map(|session| session_row(session))
        .collect();
    let head = [
        " LEASE", "PROCESS", " UNREAD", " BYTES", " URGENT", "SESSION",
    ];
    p.table(&head, &rows)?;
    let unread = agent.sessions.iter().map(|s| s.unread).sum();
    match agent.sessions.len().checked_sub(SESSIONS) {
        None | Some(0) => Ok(()),
        Some(more) => {
            let text = format!(
                "and {more} more; {} unread in all",
                count(unread, "message")
            );
            Ok(p.field("", &text)?)
        }
    }
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
