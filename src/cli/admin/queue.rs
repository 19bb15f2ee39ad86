//! `queue`: what waits on the bus, by recipient; looking into a queue, and taking mail out of it.

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use super::confirm;
use super::error::AdminError;
use super::find::pick_name;
use super::held::Held;
use super::listing::Listing;
use super::locate::Target;
use super::print::{Printer, Shown, Style, age, bytes, now, short, short_id};
use super::status::count;
use crate::event::kind::StoreKind;
use crate::wire::admin::QueueRow;
use crate::wire::operator::Waiting;

const LISTING: Listing = Listing {
    kind: StoreKind::Bus,
    name: "queues",
};

/// Most message ids that the question before a drop names.
const NAMED: usize = 4;

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The queues in which something waits
    List,
    /// The messages of a queue, or one message whole
    Show(Show),
    /// Take messages out of a queue unread; their senders are not told
    Drop(Drop),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// A queue as `queue --json` names it, its beginning, or the position of a message
    #[arg(value_name = "QUEUE|SEQ", allow_hyphen_values = true)]
    what: String,

    /// Also the text of the message
    #[arg(long)]
    body: bool,
}

#[derive(Debug, clap::Args)]
struct Drop {
    /// The queue as `queue --json` names it, or its beginning
    #[arg(value_name = "QUEUE", allow_hyphen_values = true)]
    queue: String,

    /// Position of the message, as `queue show QUEUE` lists it
    #[arg(value_name = "SEQ", required_unless_present = "all")]
    seq: Option<u64>,

    /// Every message of the queue
    #[arg(long, conflicts_with = "seq")]
    all: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// The messages of a queue.
#[derive(Serialize, JsonSchema)]
pub(super) struct QueueShown {
    /// Its store; absent for a bus in memory.
    store: Option<String>,
    /// The queue.
    queue: String,
    /// What waits in it, oldest first.
    messages: Vec<Waiting>,
}

/// One message that waits.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessageShown {
    /// Its store; absent for a bus in memory.
    store: Option<String>,
    /// The message.
    message: Waiting,
}

/// What `queue show` answers.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "stands for both answers in their schema")]
pub(super) enum EitherShown {
    /// Of a queue.
    Queue(QueueShown),
    /// Of a message.
    Message(MessageShown),
}

/// What was taken out of a queue.
#[derive(Serialize, JsonSchema)]
pub(super) struct QueueDropped {
    /// The store; absent for a bus in memory.
    store: Option<String>,
    /// The queue.
    queue: String,
    /// How many messages left it unread.
    dropped: u64,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    match &args.what {
        None | Some(What::List) => {
            LISTING.run(targets, p, |reader| Ok(reader.queues()?.queues), list)
        }
        Some(What::Show(args)) => show(args, &Held::only(targets)?, p),
        Some(What::Drop(args)) => self::drop(args, Held::only(targets)?, p),
    }
}

fn list(queues: &[QueueRow], p: &mut Printer) -> Result<(), AdminError> {
    if queues.is_empty() {
        return Ok(p.line(Style::Plain, "nothing waits")?);
    }
    let now = now();
    let rows: Vec<Vec<String>> = queues
        .iter()
        .map(|queue| {
            vec![
                queue.messages.to_string(),
                bytes(queue.bytes),
                age(now, queue.oldest_at),
                queue.oldest_seq.to_string(),
                short(&queue.to),
            ]
        })
        .collect();
    p.table(
        &[" MESSAGES", " BYTES", " OLDEST", " RECORD", "RECIPIENT"],
        &rows,
    )?;
    Ok(())
}

/// The queue that a text means: its name, the name as lists shorten it, or the beginning of one.
fn queue_name(held: &Held, text: &str) -> Result<String, AdminError> {
    let names = held.names()?;
    let what = ("queue", "queue with waiting mail");
    pick_name(&names, |name| name, text, what).cloned()
}

fn show(args: &Show, held: &Held, p: &mut Printer) -> Result<(), AdminError> {
    let position = args.what.parse().ok();
    if let Some(message) = position
        .map(|seq| held.message(seq, args.body))
        .transpose()?
        .flatten()
    {
        return show_message(held, message, p);
    }
    let queue = queue_name(held, &args.what)?;
    let mut messages = held.queue(&queue)?;
    if args.body {
        for message in &mut messages {
            if let Some(whole) = held.message(message.seq, true)? {
                *message = whole;
            }
        }
    }
    let store = held.origin().store.clone();
    if p.json {
        return Ok(p.json(&QueueShown {
            store,
            queue,
            messages,
        })?);
    }
    p.whole_line(Style::Bold, &queue)?;
    let now = now();
    let rows: Vec<Vec<String>> = messages.iter().map(|m| row(m, now)).collect();
    p.table(&[" RECORD", " AGE", " BYTES", "MESSAGE"], &rows)?;
    for message in messages.iter().filter(|m| m.body.is_some()) {
        p.line(Style::Plain, "")?;
        p.field("record", &message.seq.to_string())?;
        p.field("text", message.body.as_deref().unwrap_or_default())?;
    }
    Ok(())
}

fn row(message: &Waiting, now: crate::types::time::UnixMillis) -> Vec<String> {
    vec![
        message.seq.to_string(),
        age(now, message.at),
        bytes(message.bytes),
        named(message),
    ]
}

fn named(message: &Waiting) -> String {
    match message.msg_id.as_str() {
        "" => "-".to_owned(),
        id => Shown(id).to_string(),
    }
}

fn show_message(held: &Held, message: Waiting, p: &mut Printer) -> Result<(), AdminError> {
    let store = held.origin().store.clone();
    if p.json {
        return Ok(p.json(&MessageShown { store, message })?);
    }
    p.whole_line(Style::Bold, &format!("message {}", named(&message)))?;
    p.field("store", held.origin().name())?;
    p.field("record", &message.seq.to_string())?;
    p.field("recipient", &message.to)?;
    p.field("waits", &age(now(), message.at))?;
    p.field("size", &bytes(message.bytes))?;
    p.field("sha256", &message.sha256)?;
    if let Some(body) = &message.body {
        p.field("text", body)?;
    }
    Ok(())
}

fn drop(args: &Drop, held: Held, p: &mut Printer) -> Result<(), AdminError> {
    let queue = queue_name(&held, &args.queue)?;
    let doomed = match args.seq {
        None => held.queue(&queue)?,
        Some(seq) => {
            let found = held.message(seq, false)?.filter(|m| m.to == queue);
            let found = found.ok_or_else(|| AdminError::NoSuch {
                what: "message of this queue at position",
                text: seq.to_string(),
            })?;
            vec![found]
        }
    };
    confirm::agreed(&question(held.origin().name(), &queue, &doomed), args.yes)?;
    let store = held.origin().store.clone();
    let dropped = held.discard(&queue, args.seq)?;
    if p.json {
        return Ok(p.json(&QueueDropped {
            store,
            queue,
            dropped,
        })?);
    }
    let text = format!(
        "{} dropped from {}",
        count(dropped, "message"),
        Shown(&queue)
    );
    Ok(p.whole_line(Style::Plain, &text)?)
}

fn question(store: &str, queue: &str, doomed: &[Waiting]) -> String {
    let size = doomed.iter().map(|m| m.bytes).sum();
    let ids: Vec<String> = doomed
        .iter()
        .filter(|m| !m.msg_id.is_empty())
        .take(NAMED)
        .map(|m| short_id(&m.msg_id))
        .collect();
    let ids = match ids.len() {
        0 => String::new(),
        n if n < doomed.len() => format!(": {} and more", ids.join(", ")),
        _ => format!(": {}", ids.join(", ")),
    };
    format!(
        "{store}: {} ({}) for {queue} to leave unread{ids}. Their senders are not told, and \
         it cannot be undone.",
        count(doomed.len() as u64, "message"),
        bytes(size),
    )
}
