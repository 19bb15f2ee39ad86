//! `tasks`: what was asked of whom, and how it ended.

use std::ops::ControlFlow;

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::file::FileReader;
use super::find::Named;
use super::listing::Listing;
use super::locate::Target;
use super::print::{Id, Printer, Shown, Style, age, date, fit, now, short, time};
use crate::domain::projection::agent::{MailRow, OutboxRow, seq_key};
use crate::domain::query::agent::{self as query};
use crate::domain::tables::{TableId, scan_rows};
use crate::event::agent::MailStatus;
use crate::event::kind::StoreKind;

const LISTING: Listing = Listing {
    kind: StoreKind::Agent,
    name: "tasks",
};

/// Characters of a task id in a list.
const ID: usize = 24;

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,

    #[command(subcommand)]
    what: Option<What>,
}

/// Which tasks.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Which {
    /// Also those that have ended
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The tasks that have not ended
    List(Which),
    /// One task with its messages
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Id of the task, its beginning, or the position of its newest record
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,
}

/// A task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct TaskView {
    /// Its id, as whoever asked first chose it.
    task_id: String,
    /// Our session.
    session: String,
    /// The other side.
    peer: String,
    /// Its local name, while it is admitted.
    petname: Option<String>,
    /// `inbound`: we work on it; `outbound`: the other side does.
    side: &'static str,
    /// `open`, `needs_input`, `result`, `failed` or `canceled`.
    state: &'static str,
    /// Whether it is over.
    ended: bool,
    /// When its first message came or went, Unix milliseconds.
    since: u64,
    /// Signed time of the message that says how it stands, Unix milliseconds.
    ts: u64,
    /// When we said something about it last, Unix milliseconds.
    said_at: Option<u64>,
    /// The other side's session; a hint.
    peer_session: Option<String>,
    /// Position of its newest record.
    seq: u64,
}

/// A message of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Word {
    /// Its position.
    seq: u64,
    msg_id: String,
    /// `in` or `out`.
    direction: &'static str,
    /// What it says about the task.
    status: Option<&'static str>,
    /// When it came or was queued, Unix milliseconds.
    at: u64,
}

/// One task.
#[derive(Serialize, JsonSchema)]
pub(super) struct TaskShown {
    /// Its store.
    store: String,
    /// The task.
    task: TaskView,
    /// Its messages, oldest first.
    messages: Vec<Word>,
}

impl Named for TaskView {
    fn id(&self) -> &str {
        &self.task_id
    }

    fn seq(&self) -> u64 {
        self.seq
    }
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let all = match &args.what {
        Some(What::Show(args)) => return show(args, targets, p),
        Some(What::List(list)) => list.all || args.which.all,
        None => args.which.all,
    };
    LISTING.run_files(targets, p, |file| read(file, all), list)
}

fn read(file: &FileReader, all: bool) -> Result<Vec<TaskView>, AdminError> {
    file.read(|s| {
        let peers = query::peers(s)?;
        let mut views = vec![];
        query::each_task(s, |session, task| {
            let row = &task.row;
            if all || !row.state.is_final() {
                let peer = peers.iter().find(|peer| peer.key == task.peer);
                views.push(TaskView {
                    session: session.to_string(),
                    peer: task.peer.to_string(),
                    petname: peer.map(|peer| peer.petname.clone()),
                    side: row.side.name(),
                    state: row.state.name(),
                    ended: row.state.is_final(),
                    since: row.since.0,
                    ts: row.ts.0,
                    said_at: row.said_at.map(|at| at.0),
                    peer_session: row.peer_session.as_ref().map(ToString::to_string),
                    seq: row.seq.0,
                    task_id: task.task_id,
                });
            }
            Ok(ControlFlow::Continue(()))
        })?;
        views.sort_by_key(|view| std::cmp::Reverse(view.seq));
        Ok(views)
    })
}

fn list(tasks: &[TaskView], p: &mut Printer) -> Result<(), AdminError> {
    if tasks.is_empty() {
        return Ok(p.line(Style::Plain, "no task is open")?);
    }
    let now = now();
    let rows: Vec<Vec<String>> = tasks
        .iter()
        .map(|task| {
            vec![
                task.seq.to_string(),
                task.side.to_owned(),
                task.state.to_owned(),
                age(now, task.since),
                fit(&Shown(&task.task_id).to_string(), ID),
                match &task.petname {
                    Some(name) => Shown(name).to_string(),
                    None => short(&task.peer),
                },
            ]
        })
        .collect();
    Ok(p.table(
        &[" RECORD", "SIDE", "STATE", " SINCE", "TASK", "WITH"],
        &rows,
    )?)
}

fn words(file: &FileReader, task: &TaskView) -> Result<Vec<Word>, AdminError> {
    let of = |session: &dyn ToString, peer: &dyn ToString, id: Option<&String>| {
        id == Some(&task.task_id)
            && session.to_string() == task.session
            && peer.to_string() == task.peer
    };
    file.read(|s| {
        let mut words = vec![];
        scan_rows::<MailRow>(s, TableId::Mailbox, &[], |key, row| {
            if of(&row.session, &row.from, row.task_id.as_ref()) {
                words.push(Word {
                    seq: seq_key(TableId::Mailbox, key)?.0,
                    msg_id: row.msg_id.to_string(),
                    direction: "in",
                    status: row.status.map(MailStatus::name),
                    at: row.at.0,
                });
            }
            Ok(ControlFlow::Continue(()))
        })?;
        scan_rows::<OutboxRow>(s, TableId::Outbox, &[], |key, row| {
            if of(&row.session, &row.to, row.task_id.as_ref()) {
                words.push(Word {
                    seq: seq_key(TableId::Outbox, key)?.0,
                    msg_id: row.msg_id.to_string(),
                    direction: "out",
                    status: row.status.map(MailStatus::name),
                    at: row.at.0,
                });
            }
            Ok(ControlFlow::Continue(()))
        })?;
        words.sort_by_key(|word| word.seq);
        Ok(words)
    })
}

fn show(args: &Show, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let (found, file) = LISTING.find(targets, (&args.id, "task"), |f| read(f, true))?;
    let (store, task) = (found.store, found.row);
    let messages = words(&file, &task)?;
    if p.json {
        return Ok(p.json(&TaskShown {
            store,
            task,
            messages,
        })?);
    }
    p.whole_line(Style::Bold, &format!("task {}", task.task_id))?;
    p.field("store", &store)?;
    let who = match &task.petname {
        Some(name) => format!("{name} ({})", task.peer),
        None => task.peer.clone(),
    };
    p.field("with", &who)?;
    p.field("session", &Id(&task.session).to_string())?;
    if let Some(session) = &task.peer_session {
        p.field("theirs", &Id(session).to_string())?;
    }
    let works = match task.side {
        "inbound" => "we work on it",
        _ => "the other side works on it",
    };
    p.field("side", &format!("{}: {works}", task.side))?;
    p.field("state", task.state)?;
    p.field(
        "since",
        &format!("{} {} UTC", date(task.since), time(task.since)),
    )?;
    let now = now();
    let rows: Vec<Vec<String>> = messages
        .iter()
        .map(|word| {
            vec![
                word.seq.to_string(),
                word.direction.to_owned(),
                word.status.unwrap_or("-").to_owned(),
                age(now, word.at),
                Shown(&word.msg_id).to_string(),
            ]
        })
        .collect();
    Ok(p.table(&[" RECORD", "WAY", "STATUS", " AGE", "MESSAGE"], &rows)?)
}
