//! What waits on the public bus, as commands to the store of this one.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::super::paths;
use super::super::error::AdminError;
use super::super::file::open_in_time;
use super::super::print::now;
use super::super::reader::owner;
use super::identity::is_kind;
use super::report::{QUEUES, Report};
use super::{Args, ImportError};
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::{
    Bus, BusCommand, BusRefusal, BusReply, ImportMessage, Overflow, QueueLimits,
};
use crate::domain::projection::marks::marks as marks_in;
use crate::domain::rehearsal::Rehearsal;
use crate::domain::tables::TableId;
use crate::event::Recorded;
use crate::event::bus::BusEvent;
use crate::event::kind::{EventKind, StoreKind};
use crate::store::{
    CommandError, Location, OpenError, OpenOptions, PublicBus, PublicRow, ReadError, Receipt,
    Snapshot, Store,
};
use crate::system::SystemClock;
use crate::types::limit::{MAX_IMPORTED_BYTES_PER_COMMAND, MAX_IMPORTED_PER_COMMAND};
use crate::types::seq::Seq;
use crate::wire::public::queued;

/// What is to be done to a bus's store.
pub(super) struct Plan {
    from: PathBuf,
    into: PathBuf,
    marks: BTreeSet<[u8; 32]>,
    limits: QueueLimits,
}

/// A message of the public bus, or what is told instead.
enum Thing {
    Message(Box<ImportMessage>),
    /// It was taken over before.
    Known,
    Left(&'static str),
}

/// Reads the public bus's file and tries what would come of it. `None`: there is nothing.
pub(super) fn plan(
    args: &Args,
    store: Option<&Path>,
    from: &Path,
    report: &mut Report,
) -> Result<Option<Plan>, AdminError> {
    let into = match (&args.bus_store, store) {
        (Some(path), _) => path.clone(),
        (None, Some(place)) if place.is_dir() => place.join("bus.redb"),
        (None, _) => paths::bus_db(&paths::process_env)?,
    };
    if from
        .canonicalize()
        .is_ok_and(|from| into.canonicalize().is_ok_and(|into| into == from))
    {
        return Err(ImportError::SamePlace { place: into }.into());
    }
    let public = match open(from)? {
        Ok(public) => public,
        Err(reason) => {
            report.refuse(&from.display().to_string(), reason);
            return Ok(None);
        }
    };
    let (mut rehearsal, marks) = look(&into)?;
    let plan = Plan {
        from: from.to_owned(),
        into,
        marks,
        limits: QueueLimits {
            messages: args.queue_cap,
            bytes: 64 << 20,
            store_bytes: 4 << 30,
            queues: 65_536,
            overflow: Overflow::Refuse,
        },
    };
    let mut failed = None;
    let mut taken = 0;
    plan.each(&public, report, |thing, report| {
        let tried = match thing {
            Thing::Message(wish) => rehearsal.run(&BusCommand::Import(*wish), now()),
            Thing::Known => return told(Ok(Fate::Known), report),
            Thing::Left(why) => return told(Ok(Fate::Left(why)), report),
        };
        match tried {
            Ok(tried) => {
                let fate = fate(tried.map(|tried| tried.reply));
                taken += usize::from(matches!(fate, Ok(Fate::Taken)));
                told(fate, report)
            }
            Err(e) => {
                failed = Some(ImportError::from(e));
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(e) => Err(e.into()),
        None => Ok((taken > 0).then_some(plan)),
    }
}

/// Does what was tried.
pub(super) fn carry_out(plan: &Plan, report: &mut Report) -> Result<(), AdminError> {
    let public = match open(&plan.from)? {
        Ok(public) => public,
        Err(reason) => {
            report.refuse(&plan.from.display().to_string(), reason);
            return Ok(());
        }
    };
    let options = OpenOptions::exclusive(Location::File(plan.into.clone()));
    let store = Store::<Bus>::open(options, Arc::new(SystemClock), None).map_err(running)?;
    report.forget(|part| part == QUEUES);
    report.forget_file(&plan.from.display().to_string());
    let mut failed = None;
    let mut on_their_way = Pipeline::default();
    plan.each(&public, report, |thing, report| {
        let sent = match thing {
            Thing::Message(wish) => on_their_way.send(&store, *wish, report),
            Thing::Known => return told(Ok(Fate::Known), report),
            Thing::Left(why) => return told(Ok(Fate::Left(why)), report),
        };
        match sent {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(e) = failed {
        return Err(e.into());
    }
    on_their_way.settle(report)?;
    store.close();
    Ok(())
}

/// Messages that were handed to the writer and not answered yet: it takes many into one transaction.
#[derive(Default)]
struct Pipeline {
    receipts: Vec<Receipt<Bus>>,
    bytes: usize,
}

impl Pipeline {
    fn send(
        &mut self,
        store: &Store<Bus>,
        wish: ImportMessage,
        report: &mut Report,
    ) -> Result<(), ImportError> {
        self.bytes += wish.payload.len();
        self.receipts.push(store.submit(BusCommand::Import(wish))?);
        if self.receipts.len() >= MAX_IMPORTED_PER_COMMAND
            || self.bytes >= MAX_IMPORTED_BYTES_PER_COMMAND
        {
            self.settle(report)?;
        }
        Ok(())
    }

    fn settle(&mut self, report: &mut Report) -> Result<(), ImportError> {
        self.bytes = 0;
        for receipt in self.receipts.drain(..) {
            let reply = match receipt.wait() {
                Ok(committed) => Ok(committed.reply),
                Err(CommandError::Refused(refusal)) => Err(refusal),
                Err(e) => return Err(e.into()),
            };
            let _ = told(fate(reply), report);
        }
        Ok(())
    }
}

/// What became of a message.
enum Fate {
    Taken,
    Known,
    Left(&'static str),
}

fn fate(reply: Result<BusReply, BusRefusal>) -> Result<Fate, BusReply> {
    match reply {
        Ok(BusReply::Enqueued { duplicate, .. }) if duplicate => Ok(Fate::Known),
        Ok(BusReply::Enqueued { .. }) => Ok(Fate::Taken),
        Ok(other) => Err(other),
        Err(BusRefusal::QueueName) => Ok(Fate::Left("bad_name")),
        Err(BusRefusal::PayloadTooLarge { .. }) => Ok(Fate::Left("too_large")),
        Err(_) => Ok(Fate::Left("full")),
    }
}

/// Counts it. Whatever is left on a bus is unread.
fn told(fate: Result<Fate, BusReply>, report: &mut Report) -> ControlFlow<()> {
    match fate {
        Ok(Fate::Taken) => report.taken(QUEUES, 1),
        Ok(Fate::Known) => report.known(QUEUES, 1),
        Ok(Fate::Left(why)) => report.left(QUEUES, why, true),
        Err(_) => report.left(QUEUES, "unexpected_answer", true),
    }
    ControlFlow::Continue(())
}

/// Opens the public bus's file; inner error: it does not count, and why.
fn open(path: &Path) -> Result<Result<PublicBus, String>, ImportError> {
    match PublicBus::open(path) {
        Ok(public) => Ok(Ok(public)),
        Err(e @ OpenError::InUse { .. }) => Err(ImportError::PublicBusRuns(e)),
        Err(e) => Ok(Err(e.to_string())),
    }
}

fn running(e: OpenError) -> AdminError {
    match e {
        e @ OpenError::InUse { .. } => ImportError::BusRuns(e).into(),
        e => AdminError::Open(e),
    }
}

/// A copy of the store's rows, and the marks of what was taken over before.
fn look(path: &Path) -> Result<(Rehearsal<Bus>, BTreeSet<[u8; 32]>), AdminError> {
    if !path.exists() {
        let empty = Rehearsal::empty().map_err(ImportError::from)?;
        return Ok((empty, BTreeSet::new()));
    }
    let failed = |source| ImportError::Store {
        place: path.to_owned(),
        source,
    };
    let reader = open_in_time(path).map_err(running)?;
    let kind = reader.kind().map_err(failed)?;
    if kind.as_deref() != Some(StoreKind::Bus.name()) {
        return Err(AdminError::WrongKind {
            store: path.display().to_string(),
            found: kind.unwrap_or_else(|| "another program".to_owned()),
            wanted: owner(StoreKind::Bus),
        });
    }
    let snapshot = reader.snapshot().map_err(failed)?;
    let head = snapshot.head().map_err(failed)?;
    let rehearsal = match Rehearsal::over(&snapshot, head) {
        Ok(rehearsal) => rehearsal,
        // Rows of an older version are made anew when the store is opened.
        Err(_) => Rehearsal::over(&snapshot.replay::<Bus>().map_err(failed)?, head)
            .map_err(ImportError::from)?,
    };
    Ok((rehearsal, marks(&snapshot).map_err(failed)?))
}

/// From the rows, and from the log for a store whose rows are not made yet.
fn marks(snapshot: &Snapshot) -> Result<BTreeSet<[u8; 32]>, ReadError> {
    let mut marks = marks_in(snapshot, TableId::QueueMarks)?;
    snapshot.frames(Seq::ZERO, |seq, bytes| {
        if is_kind(seq, bytes, EventKind::QueueImported)
            && let BusEvent::QueueImported(e) = Recorded::from_frame(seq, bytes)?.event
        {
            marks.insert(e.mark);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(marks)
}

impl Plan {
    /// Every message of the public bus, by queue and in its order.
    fn each(
        &self,
        public: &PublicBus,
        report: &mut Report,
        mut f: impl FnMut(Thing, &mut Report) -> ControlFlow<()>,
    ) -> Result<(), ImportError> {
        let file = self.from.display().to_string();
        let mut at = 0;
        let read = public.rows(|row| {
            let thing = self.thing(row).unwrap_or_else(|reason| {
                report.refuse_item(&file, at, reason);
                Thing::Left("damaged")
            });
            at += 1;
            f(thing, report)
        });
        read.map_err(ImportError::PublicBus)
    }

    fn thing(&self, row: PublicRow<'_>) -> Result<Thing, String> {
        let message = match row {
            PublicRow::Message(message) => message,
            PublicRow::BadKey => return Err("not the key of a message".to_owned()),
            PublicRow::TooLarge { .. } => return Ok(Thing::Left("too_large")),
        };
        let read = queued(message.value).map_err(|e| e.to_string())?;
        let wish = ImportMessage {
            to: message.to.to_owned(),
            number: message.number,
            arrived: read.arrived,
            sha256: sha256(&read.payload),
            payload: read.payload.into(),
            msg_id: read.msg_id,
            limits: self.limits,
        };
        if self.marks.contains(&wish.mark()) {
            return Ok(Thing::Known);
        }
        Ok(Thing::Message(Box::new(wish)))
    }
}
