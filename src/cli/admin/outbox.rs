//! `outbox`: what an identity sends, by message and relay.

use serde::Serialize;

use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Shown, Style, age, bytes, now, short, short_id, span};
use super::reader::{OutboxView, RelayView, owner};
use super::status;
use crate::event::kind::StoreKind;
use crate::types::time::UnixMillis;

/// Which messages.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also what every relay has answered
    #[arg(short, long)]
    all: bool,
}

#[derive(Serialize)]
struct Answer {
    stores: Vec<StoreOutbox>,
}

#[derive(Serialize)]
struct StoreOutbox {
    store: Option<String>,
    messages: Vec<OutboxView>,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let mut stores = vec![];
    p.code = super::each(targets, |reader| {
        // Among several stores those of the other kind are passed over.
        if targets.len() == 1 {
            reader.expect(StoreKind::Agent)?;
        }
        if reader.origin().kind == StoreKind::Agent {
            stores.push(StoreOutbox {
                store: reader.origin().store.clone(),
                messages: reader.outbox(args.all)?,
            });
        }
        Ok(())
    })?;
    if stores.is_empty() && p.code == 0 {
        let wanted = owner(StoreKind::Agent);
        return Err(AdminError::NoneOfKind { wanted });
    }
    if p.json {
        return Ok(p.json(&Answer { stores })?);
    }
    let many = stores.len() > 1;
    let now = now();
    for store in &stores {
        status::heading(store.store.as_deref().unwrap_or("(memory)"), many, p)?;
        if store.messages.is_empty() {
            p.line(Style::Plain, "nothing waits")?;
        }
        if !store.messages.is_empty() {
            let head = format!(
                "{:>8}  {:<12}  {:<12}  {:>6}  {:>9}  {}",
                "RECORD", "MESSAGE", "STATE", "AGE", "BYTES", "RECIPIENT"
            );
            p.line(Style::Dim, &head)?;
        }
        for message in &store.messages {
            show(message, now, p)?;
        }
    }
    Ok(())
}

fn show(message: &OutboxView, now: UnixMillis, p: &mut Printer) -> Result<(), AdminError> {
    let style = match message.state {
        "refused" => Style::Bad,
        _ => Style::Plain,
    };
    let head = format!(
        "{:>8}  {:<12}  {:<12}  {:>6}  {:>9}  {}#{}",
        message.seq,
        short_id(&message.msg_id),
        message.state,
        age(now, message.at),
        bytes(message.bytes),
        short(&message.to),
        Shown(&message.to_session),
    );
    p.line(style, &head)?;
    for relay in &message.relays {
        let line = format!(
            "          {}: {}",
            Shown(&relay.url),
            relay_text(relay, now)
        );
        p.line(Style::Plain, &line)?;
    }
    Ok(())
}

fn relay_text(relay: &RelayView, now: UnixMillis) -> String {
    let ago = relay
        .at
        .map_or_else(String::new, |at| format!(" {} ago", age(now, at)));
    let reason = relay.reason.as_deref().unwrap_or_default();
    match relay.state {
        "waiting" => match relay.attempts.unwrap_or_default() {
            0 => "not tried yet".to_owned(),
            attempts => {
                let wait = UnixMillis(relay.next_at.unwrap_or_default()).since(now);
                let next = match wait {
                    0 => "now".to_owned(),
                    wait => format!("in {}", span(wait)),
                };
                let tries = status::count(attempts.into(), "failed attempt");
                format!("{tries}, next {next}; {}", Shown(reason))
            }
        },
        "accepted" if relay.dropped == Some(true) => {
            format!("accepted{ago}, older mail was dropped for it")
        }
        "accepted" => format!("accepted{ago}"),
        state => {
            let code = relay.status.map_or_else(String::new, |s| format!(" {s}"));
            format!("{state}{ago}:{code} {}", Shown(reason))
        }
    }
}
