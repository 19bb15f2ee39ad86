//! `outbox`: what an identity sends, by message and relay.

use super::error::AdminError;
use super::listing::Listing;
use super::locate::Target;
use super::print::{Id, Printer, Shown, Style, age, bytes, now, short, short_id, span};
use super::reader::{OutboxView, RelayView};
use super::status;
use crate::event::kind::StoreKind;
use crate::types::time::UnixMillis;

const LISTING: Listing = Listing {
    kind: StoreKind::Agent,
    name: "messages",
};

/// Which messages.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also what every relay has answered
    #[arg(short, long)]
    all: bool,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    LISTING.run(targets, p, |reader| reader.outbox(args.all), show)
}

fn show(messages: &[OutboxView], p: &mut Printer) -> Result<(), AdminError> {
    if messages.is_empty() {
        return Ok(p.line(Style::Plain, "nothing waits")?);
    }
    let head = format!(
        "{:>8}  {:<12}  {:<12}  {:>6}  {:>9}  {}",
        "RECORD", "MESSAGE", "STATE", "AGE", "BYTES", "RECIPIENT"
    );
    p.line(Style::Dim, &head)?;
    let now = now();
    for message in messages {
        show_one(message, now, p)?;
    }
    Ok(())
}

fn show_one(message: &OutboxView, now: UnixMillis, p: &mut Printer) -> Result<(), AdminError> {
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
        Id(&message.to_session),
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
