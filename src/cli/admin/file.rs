//! A store's file as a [`StoreReader`]: closed, shared with its writers, or left by a crash.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::Value;

use super::error::AdminError;
use super::locate::identity_of;
use super::reader::{
    AgentNumbers, BusNumbers, ClaimView, KnownSessionView, LastError, Origin, OutboxView,
    PairingNumbers, RelayView, SessionNumbers, Source, StoreReader, StoreStatus,
};
use crate::crypto::hash::sha256;
use crate::domain::Domain;
use crate::domain::decide::agent::Agent;
use crate::domain::decide::bus::Bus;
use crate::domain::machine::destination::Owner;
use crate::domain::projection::agent::{OpenRow, OutboxRow, RelayRow, RelayState, seq_key};
use crate::domain::projection::bus::{DropCounter, DropsRow, RosterRow};
use crate::domain::query::agent as query;
use crate::domain::tables::{TableError, TableId, TableReader, get_row, scan_rows};
use crate::event::agent::AgentEvent;
use crate::event::bus::BusEvent;
use crate::event::kind::StoreKind;
use crate::store::verify::verify;
use crate::store::{Cut, Mode, OpenError, ReadError, Reader, Snapshot, holdings, inspect};
use crate::types::id::PublicKey;
use crate::types::seq::Seq;
use crate::wire::admin::{Compaction, Depths, Queues, Records, TableRows, Verification};

/// How long opening may take: a writer that is frozen inside a transaction holds a lock.
const OPEN_DEADLINE: Duration = Duration::from_secs(5);

/// How many records `status` looks back for messages that did not fare well: reading them takes a
/// moment, not a coffee break, however long the history.
const COUNTED: u64 = 100_000;

/// See the module's documentation.
pub(super) struct FileReader {
    reader: Reader,
    path: PathBuf,
    origin: Origin,
}

impl FileReader {
    /// Opens a store file of either kind.
    pub(super) fn open(path: &Path) -> Result<FileReader, AdminError> {
        let reader = open_in_time(path)?;
        let name = path.display().to_string();
        super::care::expect_known_format(&reader, path)?;
        let kind = reader.kind().map_err(|source| AdminError::Read {
            store: name.clone(),
            source,
        })?;
        let kind = match kind.as_deref() {
            Some("bus") => StoreKind::Bus,
            Some("agent") => StoreKind::Agent,
            Some(found) => {
                return Err(AdminError::UnknownKind {
                    store: name,
                    found: found.to_owned(),
                });
            }
            None => {
                return Err(AdminError::Open(OpenError::Corrupt {
                    path: path.to_owned(),
                    reason: "it does not say what kind of store it is".into(),
                }));
            }
        };
        let source = if reader.repaired {
            Source::RepairedCopy
        } else {
            Source::File
        };
        Ok(FileReader {
            reader,
            path: path.to_owned(),
            origin: Origin {
                store: Some(name),
                kind,
                source,
            },
        })
    }

    /// What a compaction would take out of the log.
    pub(super) fn foldable(&self, cut: Cut) -> Result<Compaction, AdminError> {
        self.read(|snapshot| Ok(inspect::compaction(&snapshot.foldable(cut)?)))
    }

    /// The newest state.
    pub(super) fn snapshot(&self) -> Result<Snapshot, AdminError> {
        let snapshot = self.reader.snapshot();
        snapshot.map_err(|source| AdminError::Read {
            store: self.origin.name().to_owned(),
            source,
        })
    }

    /// What kind of store it is.
    pub(super) fn kind(&self) -> StoreKind {
        self.origin.kind
    }

    /// Where the file is.
    pub(super) fn origin_path(&self) -> &Path {
        &self.path
    }

    /// Reads from a consistent view.
    pub(super) fn read<T>(
        &self,
        f: impl FnOnce(&Snapshot) -> Result<T, ReadError>,
    ) -> Result<T, AdminError> {
        let snapshot = self.reader.snapshot();
        snapshot
            .and_then(|s| f(&s))
            .map_err(|source| AdminError::Read {
                store: self.origin.name().to_owned(),
                source,
            })
    }
}

/// Opens on a thread of its own, which is left behind when the deadline passes.
pub(super) fn open_in_time(path: &Path) -> Result<Reader, OpenError> {
    let owned = path.to_owned();
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("store-open".into())
        .spawn(move || {
            let _ = sender.send(Reader::open(&owned, Mode::Shared));
        })
        .map_err(OpenError::Thread)?;
    receiver.recv_timeout(OPEN_DEADLINE).unwrap_or_else(|_| {
        Err(OpenError::InUse {
            path: path.to_owned(),
            holder: None,
        })
    })
}

impl StoreReader for FileReader {
    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn status(&self) -> Result<StoreStatus, AdminError> {
        self.current()?;
        self.read(|snapshot| {
            let head = snapshot.head()?;
            let size = snapshot.log_size()?;
            let newest = records(snapshot, self.origin.kind, head, 1)?;
            let (bus, agent) = match self.origin.kind {
                StoreKind::Bus => (Some(bus_numbers(snapshot)?), None),
                StoreKind::Agent => (None, Some(agent_numbers(snapshot, &self.path)?)),
            };
            Ok(StoreStatus {
                origin: self.origin.clone(),
                file_bytes: std::fs::metadata(&self.path).ok().map(|m| m.len()),
                first: snapshot.first()?.map(|seq| seq.0),
                head: head.0,
                head_at: newest.records.first().map(|record| record.at),
                base: snapshot.base()?.0,
                records: size.records,
                log_bytes: size.bytes,
                bus,
                running: None,
                agent,
            })
        })
    }

    fn records(&self, from: u64, limit: usize) -> Result<Records, AdminError> {
        self.read(|snapshot| records(snapshot, self.origin.kind, Seq(from), limit))
    }

    fn queues(&self) -> Result<Queues, AdminError> {
        self.expect(StoreKind::Bus)?;
        self.current()?;
        self.read(|snapshot| Ok(inspect::queues(&Bus::build_index(snapshot)?)))
    }

    fn outbox(&self, all: bool) -> Result<Vec<OutboxView>, AdminError> {
        self.expect(StoreKind::Agent)?;
        self.current()?;
        self.read(|snapshot| Ok(outbox(snapshot, all)?))
    }

    fn directory(&self) -> Result<Vec<KnownSessionView>, AdminError> {
        self.expect(StoreKind::Agent)?;
        self.current()?;
        self.read(|snapshot| Ok(directory(snapshot)?))
    }

    fn rows(&self, tables: &[TableId], at: Option<Seq>) -> Result<Vec<TableRows>, AdminError> {
        self.read(|snapshot| match self.origin.kind {
            StoreKind::Bus => rows::<Bus>(snapshot, tables, at),
            StoreKind::Agent => rows::<Agent>(snapshot, tables, at),
        })
    }

    fn depths(&self) -> Result<Depths, AdminError> {
        self.read(|snapshot| match self.origin.kind {
            StoreKind::Bus => inspect::depths::<Bus>(snapshot),
            StoreKind::Agent => inspect::depths::<Agent>(snapshot),
        })
    }

    fn digest(&self, body: Seq) -> Result<Option<String>, AdminError> {
        let bytes = self.read(|snapshot| snapshot.body(body))?;
        // A bus stores what it has parsed.
        let parsed = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let digest = |text: String| HEXLOWER.encode(&sha256(text.as_bytes()));
        Ok(parsed.map(|value| digest(value.to_string())))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Verification, AdminError> {
        self.read(|snapshot| {
            let outcome = match self.origin.kind {
                StoreKind::Bus => verify::<Bus>(snapshot, progress),
                StoreKind::Agent => verify::<Agent>(snapshot, progress),
            };
            Ok(inspect::verification(&outcome))
        })
    }
}

fn records(
    snapshot: &Snapshot,
    kind: StoreKind,
    from: Seq,
    limit: usize,
) -> Result<Records, ReadError> {
    match kind {
        StoreKind::Bus => inspect::records::<BusEvent>(snapshot, from, limit),
        StoreKind::Agent => inspect::records::<AgentEvent>(snapshot, from, limit),
    }
}

fn rows<D: Domain>(
    snapshot: &Snapshot,
    tables: &[TableId],
    at: Option<Seq>,
) -> Result<Vec<TableRows>, ReadError> {
    let replayed = match at {
        Some(at) => Some(snapshot.replay_until::<D>(at)?),
        // Rows of another version of the program are not for this one to read.
        None if !snapshot.is_built::<D>()? => Some(snapshot.replay::<D>()?),
        None => None,
    };
    let from: &dyn TableReader = match &replayed {
        Some(tables) => tables,
        None => snapshot,
    };
    let of = |table: &TableId| inspect::table(from, *table, None, usize::MAX);
    Ok(tables.iter().map(of).collect::<Result<_, _>>()?)
}

fn bus_numbers(snapshot: &Snapshot) -> Result<BusNumbers, ReadError> {
    let index = Bus::build_index(snapshot)?;
    let mut numbers = BusNumbers {
        queues: index.queue_count() as u64,
        messages: index.message_count() as u64,
        bytes: index.bytes(),
        relay: holdings::relay_numbers(snapshot)?,
        ..BusNumbers::default()
    };
    for (counter, name) in DropCounter::ALL {
        let row: Option<DropsRow> = get_row(snapshot, TableId::Drops, &counter.key())?;
        let messages = row.unwrap_or_default().messages;
        numbers.drops.insert(name.to_owned(), messages);
    }
    scan_rows::<RosterRow>(snapshot, TableId::Roster, &[], |_, _| {
        numbers.roster += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(numbers)
}

fn agent_numbers(snapshot: &Snapshot, path: &Path) -> Result<AgentNumbers, ReadError> {
    let mut sessions = vec![];
    for lease in query::leases(snapshot)? {
        let unread = query::unread_totals(snapshot, &lease.session)?;
        let pid = lease.row.holder.map(|holder| holder.pid);
        sessions.push(SessionNumbers {
            session: lease.session.to_string(),
            epoch: lease.row.epoch,
            pid,
            alive: pid.and_then(is_alive),
            unread: unread.messages as u64,
            unread_bytes: unread.bytes,
            attention: unread.attention as u64,
        });
    }
    let nobody = PublicKey::from_bytes([0; 32]);
    let waiting = query::outbox_totals(snapshot, &nobody)?;
    let counted_from = Seq(snapshot.head()?.0.saturating_sub(COUNTED) + 1);
    let troubles = query::outbox_troubles(snapshot, counted_from)?;
    Ok(AgentNumbers {
        key: identity_of(path).map(|key| key.to_string()),
        peers: query::peers(snapshot)?.len() as u64,
        outbox: waiting.messages as u64,
        outbox_bytes: waiting.bytes,
        expired: query::expired(snapshot, None)?.len() as u64,
        refused: troubles.refused as u64,
        pushed_out: troubles.pushed_out as u64,
        counted_from: counted_from.0,
        pairing: PairingNumbers {
            inbound: query::inbound(snapshot)?.len() as u64,
            outbound: query::outbound(snapshot)?.len() as u64,
            conflicts: query::conflicts(snapshot)?.len() as u64,
            blocked: query::blocked(snapshot)?.len() as u64,
        },
        open_tasks: open_tasks(snapshot)?,
        last_error: last_error(snapshot)?,
        sessions,
    })
}

fn open_tasks(snapshot: &Snapshot) -> Result<u64, TableError> {
    let mut open = 0;
    query::each_task(snapshot, |_, task| {
        open += u64::from(!task.row.state.is_final());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(open)
}

fn last_error(snapshot: &Snapshot) -> Result<Option<LastError>, TableError> {
    let mut last: Option<LastError> = None;
    for message in outbox(snapshot, false)? {
        for relay in &message.relays {
            let (Some(at), Some(reason), "waiting") = (relay.at, &relay.reason, relay.state) else {
                continue;
            };
            if last.as_ref().is_none_or(|last| last.at < at) {
                last = Some(LastError {
                    at,
                    relay: relay.url.clone(),
                    reason: reason.clone(),
                    msg_id: message.msg_id.clone(),
                });
            }
        }
    }
    Ok(last)
}

#[cfg(unix)]
fn is_alive(pid: u32) -> Option<bool> {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    // Another user's process refuses the signal, and lives.
    Some(!matches!(test_kill_process(pid), Err(Errno::SRCH)))
}

#[cfg(not(unix))]
fn is_alive(_pid: u32) -> Option<bool> {
    None
}

fn directory(snapshot: &Snapshot) -> Result<Vec<KnownSessionView>, TableError> {
    let peers = query::peers(snapshot)?;
    let name = |key: &PublicKey| {
        let peer = peers.iter().find(|peer| peer.key == *key);
        peer.map(|peer| peer.petname.clone())
    };
    let known = query::directory(snapshot)?;
    Ok(known
        .into_iter()
        .map(|known| KnownSessionView {
            session: known.session.to_string(),
            owner: match known.row.owner() {
                Owner::One(key) => Some(key.to_string()),
                Owner::Nobody | Owner::Contested => None,
            },
            claims: known
                .row
                .claims
                .iter()
                .map(|claim| ClaimView {
                    key: claim.key.to_string(),
                    petname: name(&claim.key),
                    heard_at: claim.heard.at.0,
                    closed: claim.closed.is_some_and(|at| at >= claim.heard.ts),
                })
                .collect(),
            used_at: known.row.used_at.0,
        })
        .collect())
}

/// Outgoing messages: all, or those that some relay has not answered for good.
pub(super) fn outbox(snapshot: &Snapshot, all: bool) -> Result<Vec<OutboxView>, TableError> {
    let mut views = vec![];
    if all {
        scan_rows::<OutboxRow>(snapshot, TableId::Outbox, &[], |key, row| {
            views.push(outbox_view(seq_key(TableId::Outbox, key)?, &row));
            Ok(ControlFlow::Continue(()))
        })?;
        return Ok(views);
    }
    let mut open = vec![];
    scan_rows::<OpenRow>(snapshot, TableId::OutboxOpen, &[], |key, _| {
        open.push(seq_key(TableId::OutboxOpen, key)?);
        Ok(ControlFlow::Continue(()))
    })?;
    for seq in open {
        let mail = query::outbox_at(snapshot, seq)?;
        views.extend(mail.map(|mail| outbox_view(mail.seq, &mail.row)));
    }
    Ok(views)
}

/// An outgoing message, without its text.
pub(super) fn outbox_view(seq: Seq, row: &OutboxRow) -> OutboxView {
    OutboxView {
        seq: seq.0,
        msg_id: row.msg_id.to_string(),
        session: row.session.to_string(),
        to: row.to.to_string(),
        to_session: row.to_session.to_string(),
        kind: row.kind.name(),
        task_id: row.task_id.clone(),
        at: row.at.0,
        ts: row.ts.0,
        bytes: u64::from(row.len),
        state: row.sent().name(),
        relays: row.relays.iter().map(relay_view).collect(),
        body: None,
    }
}

fn relay_view(relay: &RelayRow) -> RelayView {
    let url = relay.url.clone();
    match &relay.state {
        RelayState::Waiting {
            attempts,
            next_at,
            failure,
        } => RelayView {
            url,
            state: "waiting",
            attempts: Some(*attempts),
            next_at: Some(next_at.0),
            at: failure.as_ref().map(|f| f.at.0),
            reason: failure
                .as_ref()
                .map(|f| format!("{}: {}", f.error.name(), f.detail)),
            ..RelayView::default()
        },
        RelayState::Accepted { at, dropped } => RelayView {
            url,
            state: "accepted",
            at: Some(at.0),
            dropped: Some(*dropped),
            ..RelayView::default()
        },
        RelayState::Refused { at, status, reason } => RelayView {
            url,
            state: "refused",
            at: Some(at.0),
            status: Some(*status).filter(|status| *status != 0),
            reason: Some(reason.clone()),
            ..RelayView::default()
        },
    }
}
