//! What the three logs say about a message.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use serde::Serialize;

use super::DemoError;
use super::world::World;
use crate::cli::admin::error::AdminError;
use crate::cli::admin::print::{Printer, Style, time};
use crate::crypto::hash::sha256;
use crate::domain::Domain;
use crate::domain::decide::agent::Agent;
use crate::domain::decide::bus::Bus;
use crate::domain::tables::{TableId, TableReader as _};
use crate::event::agent::AgentEvent;
use crate::event::bus::BusEvent;
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
    pub(super) log: Option<&'static str>,
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

    fn moment(&self, seq: Seq, at: u64, what: &str) -> Moment {
        Moment {
            at,
            log: Some(self.name),
            seq: Some(seq.0),
            what: what.to_owned(),
        }
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
) -> Result<Found, DemoError> {
    let ada = Closed::open("ada", &world.ada.store())?;
    let ben = Closed::open("ben", &world.ben.store())?;
    let bus = Closed::open("bus", &world.bus_store())?;
    let mut timeline = vec![];
    let body = sender(&ada, followed, &mut timeline)?;
    relay(&bus, &body, &mut timeline)?;
    reader(&ben, followed, &mut timeline)?;
    timeline.extend(marks.into_iter().map(|mark| Moment {
        at: mark.at,
        log: None,
        seq: None,
        what: mark.text,
    }));
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

/// The sender's log; gives the digest of what the bus got.
fn sender(log: &Closed, followed: &str, into: &mut Vec<Moment>) -> Result<[u8; 32], DemoError> {
    let mut body = None;
    let mut message = Seq::ZERO;
    log.each::<AgentEvent>(|record| {
        let at = record.at.0;
        let mut add = |what: &str| into.push(log.moment(record.seq, at, what));
        match &record.event {
            AgentEvent::OutboxQueued(e) if e.msg_id.as_str() == followed => {
                message = record.seq;
                body = Some(record.seq);
                add("queued: signed, and on her disk");
            }
            AgentEvent::OutboxResigned(e) if e.message == message => {
                body = Some(record.seq);
                add("signed anew");
            }
            AgentEvent::OutboxAttempted(e) if e.message == message => {
                add("a relay could not be reached");
            }
            AgentEvent::OutboxAccepted(e) if e.message == message => {
                add("accepted: the bus has it on its disk");
            }
            _ => {}
        }
    })?;
    let body = match body {
        Some(seq) => log.snapshot.body(seq)?,
        None => None,
    };
    // The bus stores what it parsed.
    let parsed: Option<serde_json::Value> =
        body.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match parsed {
        Some(value) => Ok(sha256(value.to_string().as_bytes())),
        None => Err(DemoError::NotSo {
            what: "the sender's log has the message".to_owned(),
        }),
    }
}

fn relay(log: &Closed, body: &[u8; 32], into: &mut Vec<Moment>) -> Result<(), DemoError> {
    let mut message = None;
    let mut acked = 0u32;
    log.each::<BusEvent>(|record| {
        let at = record.at.0;
        match &record.event {
            BusEvent::Enqueued(e) if e.sha256 == *body => {
                message = Some(record.seq);
                into.push(log.moment(record.seq, at, "enqueued for ben's session"));
            }
            BusEvent::Acked(e) if message.is_some_and(|seq| e.seqs.contains(&seq)) => {
                acked += 1;
                into.push(log.moment(record.seq, at, "acked: the bus forgets the body"));
            }
            _ => {}
        }
    })?;
    if acked == 1 {
        return Ok(());
    }
    Err(DemoError::NotSo {
        what: format!("the bus enqueued the message and saw one receipt ({acked})"),
    })
}

fn reader(log: &Closed, followed: &str, into: &mut Vec<Moment>) -> Result<(), DemoError> {
    let mut message = None;
    log.each::<AgentEvent>(|record| {
        let at = record.at.0;
        match &record.event {
            AgentEvent::Received(e) if e.msg_id.as_str() == followed => {
                message = Some(record.seq);
                into.push(log.moment(record.seq, at, "received: verified, on his disk, unread"));
            }
            AgentEvent::Acknowledged(e) if message.is_some_and(|seq| e.seqs.contains(&seq)) => {
                into.push(log.moment(record.seq, at, "acknowledged by the reader"));
            }
            _ => {}
        }
    })
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
        match (moment.log, moment.seq) {
            (Some(log), Some(seq)) => {
                let line = format!("  {}  {log:<3}  {seq:>6}  {}", time(moment.at), moment.what);
                p.line(Style::Plain, &line)?;
            }
            _ => {
                let line = format!(
                    "  {}  {:<3}  {:>6}  {}",
                    time(moment.at),
                    "",
                    "",
                    moment.what
                );
                p.line(Style::Dim, &line)?;
            }
        }
    }
    Ok(())
}
