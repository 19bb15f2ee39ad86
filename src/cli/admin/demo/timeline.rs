//! What the three logs say about a message.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::DemoError;
use super::world::World;
use crate::cli::admin::error::AdminError;
use crate::cli::admin::file::FileReader;
use crate::cli::admin::print::{Printer, Shown, Style, time};
use crate::cli::admin::reader::StoreReader;
use crate::cli::admin::trace::{self, State, What};
use crate::cli::fold::{Long, fold};
use crate::domain::Domain;
use crate::domain::decide::agent::Agent;
use crate::domain::decide::bus::Bus;
use crate::domain::tables::{TableId, TableReader as _};
use crate::event::agent::AgentEvent;
use crate::event::{Recorded, StoredEvent};
use crate::store::verify::verify;
use crate::store::{Mode, ReadError, Reader, Snapshot};
use crate::types::seq::Seq;

/// Something that the demonstration did.
pub(super) struct Mark {
    pub(super) at: u64,
    pub(super) text: String,
}

/// Something that happened to the message.
#[derive(Serialize)]
pub(super) struct Moment {
    /// Unix milliseconds.
    pub(super) at: u64,
    /// Whose log; absent for what the demonstration did.
    pub(super) log: Option<String>,
    /// Position in that log.
    pub(super) seq: Option<u64>,
    /// What happened.
    pub(super) what: String,
}

/// What the logs prove.
pub(super) struct Found {
    pub(super) timeline: Vec<Moment>,
    pub(super) proved: Vec<String>,
}

/// A store whose owner has ended.
struct Closed {
    name: &'static str,
    snapshot: Snapshot,
    _reader: Reader,
}

impl Closed {
    fn open(name: &'static str, path: &Path) -> Result<Closed, DemoError> {
        let reader = Reader::open(path, Mode::Shared)?;
        Ok(Closed {
            name,
            snapshot: reader.snapshot()?,
            _reader: reader,
        })
    }

    fn each<E: StoredEvent>(&self, mut f: impl FnMut(Recorded<E>)) -> Result<(), DemoError> {
        self.snapshot.frames(Seq::ZERO, |seq, bytes| {
            f(Recorded::from_frame(seq, bytes)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }

    /// Nothing waits here.
    fn expect_empty(&self, table: TableId) -> Result<(), DemoError> {
        let mut rows = 0u64;
        let all = Bound::Unbounded;
        let counted = self.snapshot.scan(table, all, all, &mut |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        });
        counted.map_err(ReadError::from)?;
        if rows == 0 {
            return Ok(());
        }
        Err(DemoError::NotSo {
            what: format!(
                "table {} of {} is empty ({rows} rows)",
                table.name(),
                self.name
            ),
        })
    }

    fn verify<D: Domain>(&self) -> Result<u64, DemoError> {
        match verify::<D>(&self.snapshot, |_| {}) {
            Ok(report) => Ok(report.records),
            Err(e) => Err(DemoError::NotSo {
                what: format!("{}'s store is what its log says ({e})", self.name),
            }),
        }
    }
}

/// Reads the logs. `sent` names the reader and the id of every message.
pub(super) fn examine(
    world: &World<'_>,
    followed: &str,
    sent: &[(&'static str, String)],
    marks: Vec<Mark>,
) -> Result<Found, AdminError> {
    let ada = Closed::open("ada", &world.ada.store())?;
    let ben = Closed::open("ben", &world.ben.store())?;
    let bus = Closed::open("bus", &world.bus_store())?;
    let mut timeline = vec![];
    timeline.extend(told(world, followed)?);
    timeline.extend(marks.into_iter().map(|mark| Moment {
        at: mark.at,
        log: None,
        seq: None,
        what: mark.text,
    }));
    // Stable: what happened in the same millisecond stays in the order that the trace found.
    timeline.sort_by_key(|moment| moment.at);

    let mut proved = vec![];
    once(&[&ada, &ben], sent)?;
    proved.push(format!(
        "{} messages, each exactly once in its reader's log",
        sent.len()
    ));
    proved.push("unread until acknowledged, also when read twice".to_owned());
    for log in [&ada, &ben] {
        log.expect_empty(TableId::OutboxOpen)?;
    }
    proved.push("no queue or outbox holds anything: every receipt found its way back".to_owned());
    let records = [
        ada.verify::<Agent>()?,
        ben.verify::<Agent>()?,
        bus.verify::<Bus>()?,
    ];
    proved.push(format!(
        "verify passes on all three stores ({} records)",
        records.iter().sum::<u64>()
    ));
    Ok(Found { timeline, proved })
}

/// The life of the followed message, as `trace` finds it.
fn told(world: &World<'_>, followed: &str) -> Result<Vec<Moment>, AdminError> {
    let mut readers: Vec<Box<dyn StoreReader>> = vec![];
    for path in [world.ada.store(), world.ben.store(), world.bus_store()] {
        readers.push(Box::new(FileReader::open(&path)?));
    }
    let (_, lives) = trace::lives(&readers, [Arc::from(followed)])?;
    let not_so = |what: &str| DemoError::NotSo {
        what: what.to_owned(),
    };
    let life = lives
        .first()
        .ok_or_else(|| not_so("the logs have the message"))?;
    let times = |what| life.steps.iter().filter(|step| step.step == what).count();
    if (times(What::Enqueued), times(What::Acked)) != (1, 1) {
        return Err(not_so("the bus enqueued the message and saw one receipt").into());
    }
    if life.state != State::Read {
        return Err(not_so("the message was read").into());
    }
    Ok(life
        .steps
        .iter()
        .map(|step| Moment {
            at: step.at,
            log: step.place.clone(),
            seq: step.seq,
            what: trace::said(step),
        })
        .collect())
}

/// Every message stands once in its reader's log. (Sessions that end say goodbye to those that they
/// talked to; that is no message of these.)
fn once(logs: &[&Closed], sent: &[(&'static str, String)]) -> Result<(), DemoError> {
    let mut received: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    for log in logs {
        log.each::<AgentEvent>(|record| {
            if let AgentEvent::Received(e) = &record.event {
                received
                    .entry(e.msg_id.to_string())
                    .or_default()
                    .push(log.name);
            }
        })?;
    }
    for (reader, id) in sent {
        let readers = received.get(id).map(Vec::as_slice).unwrap_or_default();
        if readers != [*reader] {
            return Err(DemoError::NotSo {
                what: format!("{id} stands once in {reader}'s log; it is with {readers:?}"),
            });
        }
    }
    Ok(())
}

/// Prints the life of the message.
pub(super) fn print(timeline: &[Moment], text: &str, p: &mut Printer) -> Result<(), AdminError> {
    p.line(Style::Plain, "")?;
    p.line(Style::Bold, &format!("the life of \"{text}\""))?;
    p.line(Style::Dim, "  TIME (UTC)    LOG  RECORD")?;
    for moment in timeline {
        let style = match moment.log {
            Some(_) => Style::Plain,
            None => Style::Dim,
        };
        let mut lead = format!(
            "  {}  {:<3}  {:>6}  ",
            time(moment.at),
            moment.log.as_deref().unwrap_or_default(),
            moment.seq.map_or_else(String::new, |seq| seq.to_string()),
        );
        let indent = lead.len();
        let text = Shown(&moment.what).to_string();
        for line in fold(&text, p.room(indent), Long::Broken) {
            p.line(style, &format!("{lead}{line}"))?;
            lead = " ".repeat(indent);
        }
    }
    Ok(())
}
