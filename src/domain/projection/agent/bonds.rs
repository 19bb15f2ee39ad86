//! Rows of sealed sessions and of the files that were offered in them.
//!
//! What belongs to a session that has given way to newer ones changes nothing: the rows are a view
//! of the latest history, the log is the whole of it.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{ApplyError, Projection, seq_key};
use crate::domain::tables::{TableError, TableId, Tables, get_row, put_row, scan_rows};
use crate::event::Recorded;
use crate::event::agent::room::{
    directory_event, mailbox_event, outbox_event, pairing_event, policy_event,
};
use crate::event::agent::{
    AgentEvent, BondEnd, BondMode, BondOffered, BondOpened, BondRef, BondRole, BondStep, DecidedBy,
    PeerPrefix, Routing, Verdict,
};
use crate::types::id::SessionId;
use crate::types::limit::{MAX_BOND_OFFER_ROWS, MAX_BOND_ROWS};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// How far a sealed session came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BondState {
    /// For the other side, or for its key.
    Waiting,
    /// A common key, not proved yet.
    Keyed,
    /// Proved.
    Confirmed,
    /// The other side is gone.
    PeerGone,
    /// Over.
    Ended(BondEnd),
}

impl BondState {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            BondState::Waiting => "waiting",
            BondState::Keyed => "keyed",
            BondState::Confirmed => "confirmed",
            BondState::PeerGone => "peer_gone",
            BondState::Ended(_) => "ended",
        }
    }

    /// How it ended, if it did.
    #[must_use]
    pub const fn end(self) -> Option<BondEnd> {
        match self {
            BondState::Ended(end) => Some(end),
            _ => None,
        }
    }
}

/// Value of table `bonds`; the key is the position of `bond_opened`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondRow {
    /// The conversation.
    pub session: SessionId,
    /// Which end.
    pub role: BondRole,
    /// How it is sealed.
    pub mode: BondMode,
    /// The beginning of its routing id.
    pub routing: Routing,
    /// The process that holds it.
    pub pid: u32,
    /// That process's start time; 0 where it is not known.
    pub process_start: u64,
    /// How far it came.
    pub state: BondState,
    /// Whether the relay lost it.
    pub relay_lost: bool,
    /// The other side's prefix.
    pub peer: Option<PeerPrefix>,
    /// Why it ended; often empty.
    pub reason: String,
    /// When it was opened.
    pub opened_at: UnixMillis,
    /// When something was recorded of it last.
    pub at: UnixMillis,
    /// Texts that were sent.
    pub said: u64,
    /// Texts that came.
    pub heard: u64,
    /// Files that were sent.
    pub files_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Files that were offered to us.
    pub offers: u64,
    /// Files that were stopped, both ways.
    pub blocked: u64,
    /// What was dropped.
    pub dropped: u64,
    /// Messages that the relay had let go.
    pub missed: u64,
    /// Calls that failed.
    pub failed: u64,
}

/// What became of an offered file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OfferState {
    /// Nobody decided.
    Pending,
    /// Somebody did.
    Decided(Verdict, DecidedBy),
}

/// Value of table `bond_offers`; the key is the position of `bond_offered`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferRow {
    /// Which session.
    pub of: BondRef,
    /// The offer's id.
    pub id: String,
    /// The file's name, spelled out and cut.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// What kind of file the name says.
    pub file_type: String,
    /// SHA-256 of its bytes.
    pub sha256: [u8; 32],
    /// The other side's prefix.
    pub peer: Option<PeerPrefix>,
    /// Names of the rules that found something in it.
    pub rules: Vec<String>,
    /// When it was offered.
    pub at: UnixMillis,
    /// What became of it.
    pub state: OfferState,
    /// When it was decided.
    pub decided_at: Option<UnixMillis>,
    /// Where it stands, once it was written.
    pub path: Option<String>,
}

/// Sealed sessions and offered files, the latest of each.
pub struct Bonds;

impl Projection<AgentEvent> for Bonds {
    fn name(&self) -> &'static str {
        "bonds"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tables(&self) -> &'static [TableId] {
        &[TableId::Bonds, TableId::BondOffers]
    }

    fn apply(&self, tables: &mut dyn Tables, rec: &Recorded<AgentEvent>) -> Result<(), ApplyError> {
        let at = rec.at;
        match &rec.event {
            AgentEvent::BondOpened(e) => opened(tables, rec.seq, at, e),
            AgentEvent::BondAdvanced(e) => change(tables, e.of.bond, at, |row| {
                advance(row, e.step);
                row.peer = e.peer.or(row.peer);
            }),
            AgentEvent::BondEnded(e) => change(tables, e.of.bond, at, |row| {
                row.state = BondState::Ended(e.end);
                row.reason.clone_from(&e.reason);
            }),
            AgentEvent::BondSaid(e) => change(tables, e.of.bond, at, |row| add(&mut row.said, 1)),
            AgentEvent::BondHeard(e) => change(tables, e.of.bond, at, |row| {
                add(&mut row.heard, u64::from(e.messages));
            }),
            AgentEvent::BondFileSent(e) => change(tables, e.of.bond, at, |row| {
                add(&mut row.files_sent, 1);
                add(&mut row.bytes_sent, e.size);
            }),
            AgentEvent::BondFileBlocked(e) => {
                change(tables, e.of.bond, at, |row| add(&mut row.blocked, 1))
            }
            AgentEvent::BondOffered(e) => {
                offered(tables, rec.seq, at, e)?;
                change(tables, e.of.bond, at, |row| add(&mut row.offers, 1))
            }
            AgentEvent::BondDecided(e) => {
                change_offer(tables, e.offer, |row| {
                    row.state = OfferState::Decided(e.verdict, e.by);
                    row.decided_at = Some(at);
                })?;
                change(tables, e.of.bond, at, |_| {})
            }
            AgentEvent::BondFilePlaced(e) => {
                change_offer(tables, e.offer, |row| row.path = Some(e.path.clone()))?;
                change(tables, e.of.bond, at, |_| {})
            }
            AgentEvent::BondDropped(e) => change(tables, e.of.bond, at, |row| {
                add(&mut row.dropped, u64::from(e.count));
            }),
            AgentEvent::BondGap(e) => {
                change(tables, e.of.bond, at, |row| add(&mut row.missed, e.missed))
            }
            AgentEvent::BondPin(e) => change(tables, e.of.bond, at, |_| {}),
            AgentEvent::BondFailed(e) => match e.bond {
                Some(bond) => change(tables, bond, at, |row| add(&mut row.failed, 1)),
                None => Ok(()),
            },
            policy_event!()
            | outbox_event!()
            | directory_event!()
            | pairing_event!()
            | mailbox_event!()
            | AgentEvent::HostChanged(_) => Ok(()),
        }
    }
}

fn add(count: &mut u64, n: u64) {
    *count = count.saturating_add(n);
}

fn advance(row: &mut BondRow, step: BondStep) {
    let state = match (step, row.state) {
        // What is over stays over, and what was proved stays proved.
        (_, state @ BondState::Ended(_)) => state,
        (BondStep::Keyed, BondState::Waiting) => BondState::Keyed,
        (BondStep::Confirmed, _) => BondState::Confirmed,
        (BondStep::PeerGone, _) => BondState::PeerGone,
        (BondStep::PeerJoined | BondStep::Keyed, state) => state,
        (BondStep::RelayLost, state) => {
            row.relay_lost = true;
            state
        }
        (BondStep::RelayBack, state) => {
            row.relay_lost = false;
            state
        }
    };
    row.state = state;
}

fn opened(
    tables: &mut dyn Tables,
    seq: Seq,
    at: UnixMillis,
    e: &BondOpened,
) -> Result<(), ApplyError> {
    let row = BondRow {
        session: e.session.clone(),
        role: e.role,
        mode: e.mode,
        routing: e.routing,
        pid: e.pid,
        process_start: e.process_start,
        state: BondState::Waiting,
        relay_lost: false,
        peer: None,
        reason: String::new(),
        opened_at: at,
        at,
        said: 0,
        heard: 0,
        files_sent: 0,
        bytes_sent: 0,
        offers: 0,
        blocked: 0,
        dropped: 0,
        missed: 0,
        failed: 0,
    };
    put_row(tables, TableId::Bonds, &seq.to_key(), &row)?;
    give_way::<BondRow>(tables, TableId::Bonds, MAX_BOND_ROWS)
}

fn offered(
    tables: &mut dyn Tables,
    seq: Seq,
    at: UnixMillis,
    e: &BondOffered,
) -> Result<(), ApplyError> {
    let row = OfferRow {
        of: e.of,
        id: e.id.clone(),
        name: e.name.clone(),
        size: e.size,
        file_type: e.file_type.clone(),
        sha256: e.sha256,
        peer: e.peer,
        rules: e.rules.clone(),
        at,
        state: OfferState::Pending,
        decided_at: None,
        path: None,
    };
    put_row(tables, TableId::BondOffers, &seq.to_key(), &row)?;
    give_way::<OfferRow>(tables, TableId::BondOffers, MAX_BOND_OFFER_ROWS)
}

fn change(
    tables: &mut dyn Tables,
    bond: Seq,
    at: UnixMillis,
    f: impl FnOnce(&mut BondRow),
) -> Result<(), ApplyError> {
    if let Some(mut row) = get_row::<BondRow>(tables, TableId::Bonds, &bond.to_key())? {
        f(&mut row);
        row.at = at;
        put_row(tables, TableId::Bonds, &bond.to_key(), &row)?;
    }
    Ok(())
}

fn change_offer(
    tables: &mut dyn Tables,
    offer: Seq,
    f: impl FnOnce(&mut OfferRow),
) -> Result<(), ApplyError> {
    if let Some(mut row) = get_row::<OfferRow>(tables, TableId::BondOffers, &offer.to_key())? {
        f(&mut row);
        put_row(tables, TableId::BondOffers, &offer.to_key(), &row)?;
    }
    Ok(())
}

/// The row with the lowest position gives way when there are too many.
fn give_way<R: serde::de::DeserializeOwned>(
    tables: &mut dyn Tables,
    table: TableId,
    max: usize,
) -> Result<(), ApplyError> {
    let mut rows = 0;
    let mut oldest = None;
    let mut visit = |key: &[u8]| -> Result<ControlFlow<()>, TableError> {
        rows += 1;
        if oldest.is_none() {
            oldest = Some(seq_key(table, key)?);
        }
        Ok(ControlFlow::Continue(()))
    };
    scan_rows::<R>(tables, table, &[], |key, _| visit(key))?;
    if let (true, Some(seq)) = (rows > max, oldest) {
        tables.delete(table, &seq.to_key())?;
    }
    Ok(())
}
