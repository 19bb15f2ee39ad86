//! `trace`: one message's whole life, across every store that can be read.
//!
//! - `walk`: one pass over a store, from records and rows to moments of messages.
//! - `life`: the moments of one message, put together. - `order`: in which order they happened,
//!   though every machine has its own clock. - `words`, `show`: for people.

mod life;
mod order;
mod show;
mod walk;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::links::{number, text};
use super::locate::{self, Target};
use super::pages::note_missed;
use super::print::Printer;
use super::reader::{Origin, StoreReader};
use crate::domain::tables::TableId;
use crate::event::kind::StoreKind;
use crate::types::id::PublicKey;
use crate::types::seq::Seq;
use life::{Chosen, Lives, Step, Told};
pub(super) use life::{Life, State};
pub(super) use show::said;
pub(super) use walk::{Moment, Wanted, walk};

/// Which message.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The id of a message, or the beginning of one, or a task id: then all its messages
    #[arg(value_name = "MSG_ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,

    /// It is a task id, even if a message has it too
    #[arg(long)]
    task: bool,

    /// Read this store too, or the stores in this folder; may be given several times
    #[arg(long = "with", value_name = "PATH")]
    more: Vec<PathBuf>,
}

/// What happens to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// Its sender signed it.
    Signed,
    /// It stood on the sender's disk.
    Queued,
    /// It was signed anew with a fresh time.
    Resigned,
    /// A pairing message is sent once more under its id.
    Requeued,
    /// A relay could not be reached or answered with a passing error.
    Attempted,
    /// A bus had it on its disk.
    Enqueued,
    /// A relay said that it has it.
    Accepted,
    /// A relay refused it for good.
    Refused,
    /// The operator wanted it to be tried at once.
    Retried,
    /// The operator gave it up on every relay that had not answered for good.
    GivenUp,
    /// A reader fetched it from the bus.
    Fetched,
    /// It came too late and is listed as expired.
    Late,
    /// It passed the gate and stood in the mailbox.
    Received,
    /// It used up its id and is not stored: control mail.
    UsedUp,
    /// Something about pairing that carries its id.
    Pairing,
    /// The bus was told that the reader has it, and forgot the body.
    Acked,
    /// It left the bus unread: the queue was full.
    Dropped,
    /// It left the bus unread: it waited too long.
    Expired,
    /// It left the bus unread: its body was missing or damaged.
    BodyLost,
    /// It left the bus unread: the operator took it out of its queue.
    Discarded,
    /// A notice could not be handed to the host.
    NotifyFailed,
    /// A notice that speaks for it was handed to the host.
    Notified,
    /// A newer update of the same task made it not worth reading.
    Superseded,
    /// Its reader acknowledged it.
    Read,
    /// Its reader put it away, as one that had come too late.
    Dismissed,
    /// It was erased on the operator's wish.
    Erased,
    /// It had ended long ago and left the store.
    Forgotten,
}

impl What {
    /// How a message leaves a bus.
    pub(super) const LEAVES_BUS: [What; 5] = [
        What::Acked,
        What::Dropped,
        What::Expired,
        What::BodyLost,
        What::Discarded,
    ];

    /// The word that people and scripts see.
    pub(super) const fn name(self) -> &'static str {
        match self {
            What::Signed => "signed",
            What::Queued => "queued",
            What::Resigned => "resigned",
            What::Requeued => "requeued",
            What::Attempted => "attempted",
            What::Enqueued => "enqueued",
            What::Accepted => "accepted",
            What::Refused => "refused",
            What::Retried => "retried",
            What::GivenUp => "given_up",
            What::Fetched => "fetched",
            What::Late => "late",
            What::Received => "received",
            What::UsedUp => "used_up",
            What::Pairing => "pairing",
            What::Acked => "acked",
            What::Dropped => "dropped",
            What::Expired => "expired",
            What::BodyLost => "body_lost",
            What::Discarded => "discarded",
            What::NotifyFailed => "notify_failed",
            What::Notified => "notified",
            What::Superseded => "superseded",
            What::Read => "read",
            What::Dismissed => "dismissed",
            What::Erased => "erased",
            What::Forgotten => "forgotten",
        }
    }

    /// Of two steps at the same millisecond the one with the lower rank was first.
    const fn rank(self) -> u8 {
        self as u8
    }
}

/// A store that was read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Place {
    /// What the steps call it.
    pub(super) name: String,
    #[serde(flatten)]
    origin: Origin,
    /// Of an identity's store: its key, where the path tells.
    pub(super) key: Option<String>,
    /// The compaction point: records up to it are gone.
    pub(super) base: u64,
    /// Position of the newest record.
    pub(super) head: u64,
    /// Records that were compacted away while it was read, and are missing here.
    pub(super) missed: u64,
    #[serde(skip)]
    pub(super) kind: StoreKind,
}

impl Place {
    /// The path of the store.
    pub(super) fn store(&self) -> &str {
        self.origin.name()
    }

    /// The place of a store under a name of its own among those before it.
    pub(super) fn new(reader: &dyn StoreReader, before: &[Place]) -> Place {
        let origin = reader.origin().clone();
        let path = origin.store.as_deref().map(std::path::Path::new);
        let folder = path.and_then(|path| path.parent()?.file_name()?.to_str());
        let key = folder
            .and_then(|folder| folder.parse::<PublicKey>().ok())
            .filter(|_| origin.kind == StoreKind::Agent)
            .map(|key| key.to_string());
        let stem = path.and_then(|path| path.file_stem()?.to_str());
        let name = match (&key, stem) {
            (Some(key), _) => key.chars().take(8).collect(),
            // Every identity's file has this name.
            (None, Some("agent")) => folder.unwrap_or("agent").to_owned(),
            (None, Some(stem)) => stem.to_owned(),
            (None, None) => origin.kind.name().to_owned(),
        };
        let taken = |name: &str| before.iter().any(|place| place.name == name);
        let mut unique = name.clone();
        let mut n = 2u32;
        while taken(&unique) {
            unique = format!("{name}-{n}");
            n += 1;
        }
        Place {
            name: unique,
            kind: origin.kind,
            origin,
            key,
            base: 0,
            head: 0,
            missed: 0,
        }
    }
}

/// How the question was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Meant {
    /// As the id of a message.
    Message,
    /// As the beginning of one.
    Prefix,
    /// As a task id.
    Task,
}

/// What `trace --json` answers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    /// What was asked for.
    query: String,
    /// How it was understood.
    meant: Meant,
    /// The stores that were read.
    stores: Vec<Place>,
    /// The message, or the messages of the task, in order of their first steps.
    messages: Vec<Life>,
}

/// What `trace --json` answers when several messages begin so; the exit code is 2 then.
#[derive(Serialize, JsonSchema)]
pub(super) struct Several {
    /// What was asked for.
    query: String,
    /// The messages whose ids begin so.
    candidates: Vec<Candidate>,
}

/// A message that may be meant.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(super) struct Candidate {
    /// Its id.
    msg_id: String,
    /// When it was seen first, Unix milliseconds.
    at: u64,
    /// The sender's key.
    from: Option<String>,
    /// The recipient's key or queue.
    to: Option<String>,
    /// The task that it is about.
    task_id: Option<String>,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let targets = locate::with(targets, &args.more)?;
    let readers = super::open_all(&targets, p)?;
    let (meant, ids) = match choose(args, &readers)? {
        Choice::One(meant, ids) => (meant, ids),
        Choice::Several(candidates) => {
            p.code = super::super::exit::Exit::Usage.code();
            let several = Several {
                query: args.id.clone(),
                candidates,
            };
            return show::several(&several, p);
        }
    };
    let (stores, messages) = lives(&readers, ids)?;
    let answer = Answer {
        query: args.id.clone(),
        meant,
        stores,
        messages,
    };
    if p.json {
        return Ok(p.json(&answer)?);
    }
    show::answer(&answer, p)
}

enum Choice {
    One(Meant, Vec<Arc<str>>),
    Several(Vec<Candidate>),
}

/// Ids that begin in a way, and those of a task.
struct Query<'a>(&'a str);

impl Wanted for Query<'_> {
    fn wants(&self, id: &str, task: Option<&str>) -> bool {
        id.starts_with(self.0) || task == Some(self.0)
    }

    fn by_digest(&self, _sha256: &str) -> Option<Arc<str>> {
        None
    }
}

/// The messages that a question means.
fn choose(args: &Args, readers: &[Box<dyn StoreReader>]) -> Result<Choice, AdminError> {
    let asked = args.id.as_str();
    let mut found: BTreeMap<Arc<str>, Candidate> = BTreeMap::new();
    let mut of_task: BTreeSet<Arc<str>> = BTreeSet::new();
    for reader in readers {
        walk(reader.as_ref(), &Query(asked), &mut |moment| {
            let event = moment.event;
            if text(event, "task_id") == Some(asked) {
                of_task.insert(Arc::clone(moment.id));
            }
            let known = found
                .entry(Arc::clone(moment.id))
                .or_insert_with(|| Candidate {
                    msg_id: moment.id.to_string(),
                    at: moment.at,
                    ..Candidate::default()
                });
            known.at = known.at.min(moment.at);
            let own = |name: &str| text(event, name).map(str::to_owned);
            known.from = known.from.take().or_else(|| own("from"));
            known.to = known.to.take().or_else(|| own("to"));
            known.task_id = known.task_id.take().or_else(|| own("task_id"));
        })?;
    }
    let begins: Vec<&Arc<str>> = found.keys().filter(|id| id.starts_with(asked)).collect();
    let exact = found.get_key_value(asked).map(|(id, _)| Arc::clone(id));
    Ok(match (exact, begins.as_slice()) {
        (Some(id), _) if !args.task => Choice::One(Meant::Message, vec![id]),
        _ if !of_task.is_empty() => Choice::One(Meant::Task, of_task.into_iter().collect()),
        (None, [one]) if !args.task => Choice::One(Meant::Prefix, vec![Arc::clone(one)]),
        (None, [_, ..]) if !args.task => {
            let mut candidates: Vec<Candidate> = found.into_values().collect();
            candidates.sort_by(|a, b| (a.at, &a.msg_id).cmp(&(b.at, &b.msg_id)));
            Choice::Several(candidates)
        }
        _ => {
            return Err(AdminError::NoMessage {
                text: asked.to_owned(),
            });
        }
    })
}

/// The lives of messages, by what these stores say; identities are read before buses, because a
/// bus may know a message by its digest only.
pub(super) fn lives(
    readers: &[Box<dyn StoreReader>],
    ids: impl IntoIterator<Item = Arc<str>>,
) -> Result<(Vec<Place>, Vec<Life>), AdminError> {
    let mut lives = Lives::of(ids);
    for kind in [StoreKind::Agent, StoreKind::Bus] {
        for reader in readers.iter().filter(|reader| reader.origin().kind == kind) {
            visit(reader.as_ref(), &mut lives)?;
        }
    }
    Ok((lives.places.clone(), lives.finish()))
}

fn visit(reader: &dyn StoreReader, lives: &mut Lives) -> Result<(), AdminError> {
    let store = lives.places.len();
    let mut place = Place::new(reader, &lives.places);
    let mut told = vec![];
    let walked = walk(reader, &Chosen(lives), &mut |moment| {
        told.push(Told::of(moment, &place, store));
    })?;
    place.base = walked.base;
    place.head = walked.head;
    place.missed = walked.missed;
    note_missed(place.store(), place.missed);
    lives.places.push(place);
    for told in told {
        if let Some(body) = told.body()
            && let Some(digest) = reader.digest(Seq(body))?
        {
            lives.learn_digest(&told, digest);
        }
        lives.add(told);
    }
    if reader.origin().kind == StoreKind::Agent {
        superseded(reader, lives, store)?;
    }
    Ok(())
}

/// That a message was superseded is no record of its own: its row knows it.
fn superseded(reader: &dyn StoreReader, lives: &mut Lives, store: usize) -> Result<(), AdminError> {
    let updates = lives.unread_updates(store);
    if updates.is_empty() {
        return Ok(());
    }
    for rows in reader.rows(&[TableId::Mailbox], None)? {
        for row in rows.rows {
            let id = text(&row.value, "msg_id").unwrap_or_default();
            let by = number(&row.value, "superseded_by");
            let (Some(received), Some(by)) = (updates.get(id), by) else {
                continue;
            };
            let record = reader.records(by, 1)?.records;
            let record = record.into_iter().find(|record| record.seq == by);
            lives.supersede(
                id,
                Step {
                    step: What::Superseded,
                    seq: Some(by),
                    at: record.map_or(received.at, |record| record.at),
                    detail: Some("by a newer update of its task".to_owned()),
                    from_row: false,
                    inferred: true,
                    order: by,
                    ..received.clone()
                },
            );
        }
    }
    Ok(())
}
