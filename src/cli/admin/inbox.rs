//! `inbox`: what an identity received. Looking changes nothing: what is unread stays unread, and
//! only the session that it is for acknowledges it.

use std::ops::ControlFlow;

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::file::FileReader;
use super::find::Named;
use super::listing::Listing;
use super::locate::Target;
use super::print::{Id, Printer, Shown, Style, age, bytes, date, now, short_id, time};
use crate::domain::projection::agent::{MailRow, UnreadRow, seq_key};
use crate::domain::query::agent::{self as query, Mail};
use crate::domain::tables::{TableError, TableId, TableReader, scan_rows};
use crate::event::agent::MailStatus;
use crate::event::kind::StoreKind;
use crate::types::seq::Seq;

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
    what: Option<What>,
}

/// Which messages.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Which {
    /// Also what was read
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The unread messages
    List(Which),
    /// One message whole
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Id of the message, its beginning, or its position
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,

    /// Also the signed message; it stays unread
    #[arg(long)]
    body: bool,
}

/// A received message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct InboxView {
    /// Its position.
    seq: u64,
    /// Its id, as the sender chose it.
    msg_id: String,
    /// Our session.
    session: String,
    /// The verified sender.
    from: String,
    /// The sender's local name at arrival, or `self`.
    petname: String,
    /// What it is.
    kind: &'static str,
    task_id: Option<String>,
    /// State of the task.
    status: Option<&'static str>,
    in_reply_to: Option<String>,
    /// Where the sender wants answers; a hint.
    reply_to: Option<String>,
    /// Signed time, Unix milliseconds.
    ts: u64,
    /// When it arrived, Unix milliseconds.
    at: u64,
    bytes: u64,
    /// `unread`, `read`, or `superseded`: newer progress of the task took its place.
    state: &'static str,
    /// When it was acknowledged, Unix milliseconds.
    read_at: Option<u64>,
    /// Position of what superseded it.
    superseded_by: Option<u64>,
    /// The signed message as it is stored, where it was asked for and is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// One received message.
#[derive(Serialize, JsonSchema)]
pub(super) struct InboxShown {
    /// Its store.
    store: String,
    /// The message.
    message: InboxView,
}

impl Named for InboxView {
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
        None => args.which.all,
    };
    LISTING.run_files(targets, p, |file| read(file, all), list)
}

fn read(file: &FileReader, all: bool) -> Result<Vec<InboxView>, AdminError> {
    file.read(|s| Ok(if all { everything(s)? } else { unread(s)? }))
}

fn everything(tables: &dyn TableReader) -> Result<Vec<InboxView>, TableError> {
    let mut views = vec![];
    scan_rows::<MailRow>(tables, TableId::Mailbox, &[], |key, row| {
        views.push(view(seq_key(TableId::Mailbox, key)?, &row));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(views)
}

/// Costs what is unread, however long the history.
fn unread(tables: &dyn TableReader) -> Result<Vec<InboxView>, TableError> {
    let mut seqs = vec![];
    scan_rows::<UnreadRow>(tables, TableId::MailboxUnread, &[], |key, _| {
        let at = key.len().saturating_sub(size_of::<u64>());
        seqs.push(seq_key(
            TableId::MailboxUnread,
            key.get(at..).unwrap_or_default(),
        )?);
        Ok(ControlFlow::Continue(()))
    })?;
    seqs.sort_unstable();
    let mut views = vec![];
    for seq in seqs {
        views.extend(query::mail_at(tables, seq)?.map(|Mail { seq, row, .. }| view(seq, &row)));
    }
    Ok(views)
}

fn view(seq: Seq, row: &MailRow) -> InboxView {
    let state = match (row.acknowledged_at, row.superseded_by) {
        (Some(_), _) => "read",
        (None, Some(_)) => "superseded",
        (None, None) => "unread",
    };
    InboxView {
        seq: seq.0,
        msg_id: row.msg_id.to_string(),
        session: row.session.to_string(),
        from: row.from.to_string(),
        petname: row.label.clone(),
        kind: row.kind.name(),
        task_id: row.task_id.clone(),
        status: row.status.map(MailStatus::name),
        in_reply_to: row.in_reply_to.as_ref().map(ToString::to_string),
        reply_to: row.reply_to.as_ref().map(ToString::to_string),
        ts: row.ts.0,
        at: row.at.0,
        bytes: u64::from(row.len),
        state,
        read_at: row.acknowledged_at.map(|at| at.0),
        superseded_by: row.superseded_by.map(|seq| seq.0),
        body: None,
    }
}

fn list(messages: &[InboxView], p: &mut Printer) -> Result<(), AdminError> {
    if messages.is_empty() {
        return Ok(p.line(Style::Plain, "nothing is unread")?);
    }
    let now = now();
    let rows: Vec<Vec<String>> = messages
        .iter()
        .map(|m| {
            vec![
                m.seq.to_string(),
                short_id(&m.msg_id),
                m.state.to_owned(),
                age(now, m.at),
                bytes(m.bytes),
                Shown(&m.petname).to_string(),
                Id(&m.session).to_string(),
            ]
        })
        .collect();
    let head = [
        " RECORD", "MESSAGE", "STATE", " AGE", " BYTES", "FROM", "SESSION",
    ];
    Ok(p.table(&head, &rows)?)
}

fn show(args: &Show, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let (found, file) = LISTING.find(targets, (&args.id, "message"), |f| read(f, true))?;
    let mut message = found.row;
    if args.body {
        let body = file.read(|s| s.body(Seq(message.seq)))?;
        message.body = body.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    }
    let store = found.store;
    if p.json {
        return Ok(p.json(&InboxShown { store, message })?);
    }
    let when = |at: u64| format!("{} {} UTC", date(at), time(at));
    p.whole_line(Style::Bold, &format!("message {}", message.msg_id))?;
    p.field("store", &store)?;
    p.field("record", &message.seq.to_string())?;
    p.field("state", message.state)?;
    p.field("for", &format!("session {}", Id(&message.session)))?;
    p.field("from", &format!("{} ({})", message.petname, message.from))?;
    if let Some(route) = &message.reply_to {
        p.field("answers to", route)?;
    }
    p.field("kind", message.kind)?;
    if let Some(task) = &message.task_id {
        let status = message
            .status
            .map_or_else(String::new, |s| format!(" ({s})"));
        p.field("task", &format!("{task}{status}"))?;
    }
    if let Some(id) = &message.in_reply_to {
        p.field("answers", id)?;
    }
    p.field("signed", &when(message.ts))?;
    p.field("arrived", &when(message.at))?;
    if let Some(at) = message.read_at {
        p.field("read", &when(at))?;
    }
    if let Some(seq) = message.superseded_by {
        p.field("superseded", &format!("by record {seq}"))?;
    }
    p.field("size", &bytes(message.bytes))?;
    if let Some(body) = &message.body {
        p.field("text", body)?;
    }
    Ok(())
}
