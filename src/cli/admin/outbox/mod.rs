//! `outbox`: what an identity sends, by message and relay; hurrying a message, and giving one up.

#[cfg(feature = "agent")]
pub(super) mod act;

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::find::Named;
use super::listing::Listing;
use super::locate::Target;
use super::print::{Id, Printer, Shown, Style, age, bytes, date, now, short, short_id, span, time};
use super::reader::{OutboxView, RelayView, StoreReader as _};
use super::status;
use crate::domain::query::agent as query;
use crate::event::kind::StoreKind;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

const LISTING: Listing = Listing {
    kind: StoreKind::Agent,
    name: "messages",
};

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,

    #[command(subcommand)]
    pub(super) what: Option<What>,
}

/// Which messages.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Which {
    /// Also what every relay has answered
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// The messages that some relay has not answered for good
    List(Which),
    /// One message whole, with what each relay said
    Show(Show),
    /// Try a message at once
    #[cfg(feature = "agent")]
    Retry(act::Act),
    /// Give a message up on every relay that has not answered for good; a relay that has it keeps it
    #[cfg(feature = "agent")]
    Drop(act::Act),
}

#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// Id of the message, its beginning, or its position
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Also the signed message
    #[arg(long)]
    body: bool,
}

/// One outgoing message.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct OutboxShown {
    /// Its store.
    store: String,
    /// The message.
    message: OutboxView,
}

impl Named for OutboxView {
    fn id(&self) -> &str {
        &self.msg_id
    }

    fn seq(&self) -> u64 {
        self.seq
    }
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let all = match &args.what {
        Some(What::Show(args)) => return show(args, targets, p),
        Some(What::List(list)) => list.all || args.which.all,
        _ => args.which.all,
    };
    LISTING.run(targets, p, |reader| reader.outbox(all), list)
}

fn show(args: &Show, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let (found, file) = LISTING.find(targets, (&args.id, "message"), |f| f.outbox(true))?;
    let mut message = found.row;
    if args.body {
        let body = file.read(|s| {
            let mail = query::outbox_at(s, Seq(message.seq))?;
            mail.map_or(Ok(None), |mail| s.body(mail.row.body))
        })?;
        message.body = body.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    }
    let store = found.store;
    if p.json {
        return Ok(p.json(&OutboxShown { store, message })?);
    }
    let now = now();
    p.whole_line(Style::Bold, &format!("message {}", message.msg_id))?;
    p.field("store", &store)?;
    p.field("record", &message.seq.to_string())?;
    p.field("state", message.state)?;
    p.field("from", &format!("session {}", Id(&message.session)))?;
    p.field("to", &format!("{}#{}", message.to, Id(&message.to_session)))?;
    p.field("kind", message.kind)?;
    if let Some(task) = &message.task_id {
        p.field("task", task)?;
    }
    p.field(
        "queued",
        &format!("{} {} UTC", date(message.at), time(message.at)),
    )?;
    p.field(
        "signed",
        &format!("{} {} UTC", date(message.ts), time(message.ts)),
    )?;
    p.field("size", &bytes(message.bytes))?;
    for relay in &message.relays {
        p.field(
            "relay",
            &format!("{}: {}", relay.url, relay_text(relay, now)),
        )?;
    }
    if let Some(body) = &message.body {
        p.field("text", body)?;
    }
    Ok(())
}

fn list(messages: &[OutboxView], p: &mut Printer) -> Result<(), AdminError> {
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
