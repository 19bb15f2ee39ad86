//! `bond list`.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::file::FileReader;
use super::super::print::{Id, Printer, Shown, Spelled, Style, age, bytes, fit, now};
use super::super::status;
use super::servers;
use crate::agent::bond::control::{Listed, OfferView, PinState, SessionView};
use crate::agent::lifecycle::is_alive;
use crate::domain::projection::agent::{BondRow, OfferRow, OfferState};
use crate::domain::query::agent as query;
use crate::types::seq::Seq;

/// Sessions and files of the past that are shown without `--all`.
const FEW: usize = 10;
/// Characters of a file's name among those that wait, and among those of the past.
const NAME: usize = 22;
const PAST_NAME: usize = 17;
/// Characters of an offer's id among those of the past.
const PAST_ID: usize = 10;

/// What there is, store by store.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct BondStores {
    stores: Vec<BondStore>,
}

/// The sealed sessions of an identity.
#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct BondStore {
    store: String,
    /// Servers that run and answer.
    running: Vec<Listed>,
    /// Sessions in the log's rows, newest first.
    sessions: Vec<PastSession>,
    /// Offered files in the log's rows, newest first.
    offers: Vec<PastOffer>,
}

/// A sealed session as the log knows it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(in crate::cli::admin) struct PastSession {
    /// Position of the record that opened it.
    record: u64,
    conversation: String,
    /// `host` or `guest`.
    role: &'static str,
    /// `legacy` or `own`.
    mode: &'static str,
    /// The first 12 digits of the routing id.
    routing: String,
    pid: u32,
    /// Whether its process still runs.
    alive: bool,
    /// `waiting`, `keyed`, `confirmed`, `peer_gone` or `ended`.
    state: &'static str,
    /// How it ended, if it did.
    end: Option<&'static str>,
    reason: String,
    /// Whether the relay lost it.
    relay_lost: bool,
    /// The first 8 digits of the other side's id.
    peer: Option<String>,
    /// When it was opened, Unix milliseconds.
    opened_at: u64,
    /// When something was recorded of it last, Unix milliseconds.
    at: u64,
    said: u64,
    heard: u64,
    files_sent: u64,
    bytes_sent: u64,
    offers: u64,
    blocked: u64,
    dropped: u64,
    missed: u64,
    failed_calls: u64,
}

/// An offered file as the log knows it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(in crate::cli::admin) struct PastOffer {
    /// Position of the record of the offer.
    pub(super) record: u64,
    /// Position of the record that opened its session.
    session: u64,
    pub(super) id: String,
    /// The file's name, spelled out.
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) file_type: String,
    /// Hex.
    pub(super) sha256: String,
    /// The first 8 digits of the sender's id.
    pub(super) from: Option<String>,
    /// Names of the rules that found something in it.
    pub(super) findings: Vec<String>,
    /// When it was offered, Unix milliseconds.
    pub(super) at: u64,
    /// `pending`, `accepted` or `declined`.
    pub(super) state: &'static str,
    /// `form`, `operator` or `tool`.
    pub(super) by: Option<&'static str>,
    /// When it was decided, Unix milliseconds.
    decided_at: Option<u64>,
    /// Where it was written.
    pub(super) path: Option<String>,
}

impl PastSession {
    fn new(record: Seq, row: BondRow) -> PastSession {
        PastSession {
            record: record.0,
            conversation: row.session.to_string(),
            role: row.role.name(),
            mode: row.mode.name(),
            routing: HEXLOWER.encode(&row.routing),
            pid: row.pid,
            alive: is_alive(row.pid, row.process_start),
            state: row.state.name(),
            end: row.state.end().map(|end| end.name()),
            reason: row.reason,
            relay_lost: row.relay_lost,
            peer: row.peer.map(|peer| HEXLOWER.encode(&peer)),
            opened_at: row.opened_at.0,
            at: row.at.0,
            said: row.said,
            heard: row.heard,
            files_sent: row.files_sent,
            bytes_sent: row.bytes_sent,
            offers: row.offers,
            blocked: row.blocked,
            dropped: row.dropped,
            missed: row.missed,
            failed_calls: row.failed,
        }
    }

    /// How it stands, in words.
    fn standing(&self) -> String {
        match (self.end, self.alive) {
            (Some(end), _) => format!("ended: {end}"),
            (None, false) => format!("{}, process gone", self.state),
            (None, true) => self.state.to_owned(),
        }
    }
}

impl PastOffer {
    fn new(record: Seq, row: OfferRow) -> PastOffer {
        let decided = match row.state {
            OfferState::Pending => None,
            OfferState::Decided(verdict, by) => Some((verdict.name(), by.name())),
        };
        PastOffer {
            record: record.0,
            session: row.of.bond.0,
            id: row.id,
            name: row.name,
            size: row.size,
            file_type: row.file_type,
            sha256: HEXLOWER.encode(&row.sha256),
            from: row.peer.map(|peer| HEXLOWER.encode(&peer)),
            findings: row.rules,
            at: row.at.0,
            state: decided.map_or("pending", |(verdict, _)| verdict),
            by: decided.map(|(_, by)| by),
            decided_at: row.decided_at.map(|at| at.0),
            path: row.path,
        }
    }
}

/// What the log's rows know, newest first.
pub(super) fn past(store: &Path) -> Result<(Vec<PastSession>, Vec<PastOffer>), AdminError> {
    let file = FileReader::open(store)?;
    file.read(|s| {
        let sessions = query::bonds(s)?.into_iter().rev();
        let offers = query::bond_offers(s)?.into_iter().rev();
        Ok((
            sessions
                .map(|(seq, row)| PastSession::new(seq, row))
                .collect(),
            offers.map(|(seq, row)| PastOffer::new(seq, row)).collect(),
        ))
    })
}

pub(super) fn list(stores: &[PathBuf], all: bool, p: &mut Printer) -> Result<(), AdminError> {
    let mut parts = vec![];
    for store in stores {
        let running = servers(store).into_iter().map(|server| server.listed);
        let running: Vec<Listed> = running.collect();
        let (mut sessions, mut offers) = match past(store) {
            Ok(past) => past,
            Err(e) if stores.len() == 1 => return Err(e),
            Err(e) => {
                super::super::report(&e);
                p.code = e.exit().code();
                continue;
            }
        };
        // What runs and what waits is told by who has it.
        let runs = |pid| running.iter().any(|r| r.pid == pid && r.session.is_some());
        let waits = |id: &str| running.iter().any(|r| r.offers.iter().any(|o| o.id == id));
        if !p.json {
            sessions.retain(|s| s.end.is_some() || !runs(s.pid));
            offers.retain(|o| !waits(&o.id));
        }
        if !all {
            sessions.truncate(FEW);
            offers.truncate(FEW);
        }
        parts.push(BondStore {
            store: store.display().to_string(),
            running,
            sessions,
            offers,
        });
    }
    if p.json {
        return Ok(p.json(&BondStores { stores: parts })?);
    }
    for part in &parts {
        status::heading(&part.store, parts.len() > 1, p)?;
        show(part, p)?;
    }
    Ok(())
}

fn show(part: &BondStore, p: &mut Printer) -> Result<(), AdminError> {
    for server in &part.running {
        let head = format!(
            "process {}, conversation {}",
            server.pid,
            Id(&server.conversation)
        );
        p.line(Style::Bold, &head)?;
        match &server.session {
            Some(session) => running(session, p)?,
            None => p.line(Style::Plain, "  no sealed session")?,
        }
        waiting(&server.offers, p)?;
    }
    let now = now();
    if !part.sessions.is_empty() {
        p.line(Style::Bold, "past sessions")?;
        let rows = part.sessions.iter().map(|s| {
            vec![
                s.record.to_string(),
                s.role.to_owned(),
                s.routing.clone(),
                age(now, s.opened_at),
                s.said.to_string(),
                s.heard.to_string(),
                s.standing(),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let head = [
            " RECORD", "ROLE", "ROUTING", " SINCE", " SENT", " CAME", "STATE",
        ];
        p.table(&head, &rows)?;
    }
    if !part.offers.is_empty() {
        p.line(Style::Bold, "past files")?;
        let rows = part.offers.iter().map(|o| {
            let by = o.by.map_or_else(String::new, |by| format!(" by {by}"));
            vec![
                o.record.to_string(),
                fit(&Spelled(&o.id).to_string(), PAST_ID),
                bytes(o.size),
                age(now, o.at),
                format!("{}{by}", o.state),
                fit(&Spelled(&o.name).to_string(), PAST_NAME),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        let head = [" RECORD", "OFFER", " SIZE", " SINCE", "STATE", "NAME"];
        p.table(&head, &rows)?;
    }
    if part.running.is_empty() && part.sessions.is_empty() && part.offers.is_empty() {
        p.line(
            Style::Plain,
            "no sealed session runs, and none is on record",
        )?;
    }
    Ok(())
}

fn running(session: &SessionView, p: &mut Printer) -> Result<(), AdminError> {
    let now = now();
    let peer = match &session.peer {
        Some(peer) => format!(", peer {}", Shown(peer)),
        None => String::new(),
    };
    let text = format!(
        "  {}, {}{peer}, {} mode, {} old",
        Shown(&session.role),
        Shown(&session.state),
        Shown(&session.mode),
        age(now, session.opened_at)
    );
    p.line(Style::Plain, &text)?;
    let text = format!(
        "  routing {}, relay {}",
        Shown(&session.routing),
        Shown(&session.relay)
    );
    p.line(Style::Plain, &text)?;
    if let Some(words) = &session.verification {
        let text = format!("  compare with the other side: {}", Shown(words));
        p.line(Style::Plain, &text)?;
    }
    if let Some(pin) = &session.pin {
        pinning(pin, p)?;
    }
    Ok(())
}

fn pinning(pin: &PinState, p: &mut Printer) -> Result<(), AdminError> {
    match (pin.state.as_str(), &pin.key) {
        ("waiting", Some(key)) => {
            let name = fit(&Shown(pin.name.as_deref().unwrap_or("")).to_string(), NAME);
            let text = format!("  asks to be pinned, calls itself {name}");
            p.line(Style::Plain, &text)?;
            p.line(Style::Plain, &format!("  key {}", Shown(key)))?;
            let next = "  `interlink-admin bond pin` makes a peer of it, and asks";
            Ok(p.line(Style::Dim, next)?)
        }
        ("asked", _) => Ok(p.line(
            Style::Plain,
            "  asked to be pinned, waits for the other side",
        )?),
        ("pinned", _) => {
            let name = fit(
                &Shown(pin.petname.as_deref().unwrap_or("")).to_string(),
                NAME,
            );
            Ok(p.line(Style::Plain, &format!("  pinned as {name}"))?)
        }
        _ => Ok(()),
    }
}

fn waiting(offers: &[OfferView], p: &mut Printer) -> Result<(), AdminError> {
    if offers.is_empty() {
        return Ok(());
    }
    let now = now();
    let rows: Vec<Vec<String>> = offers
        .iter()
        .map(|o| {
            vec![
                Shown(&o.id).to_string(),
                fit(&Shown(&o.sha256).to_string(), 10),
                bytes(o.size),
                age(now, o.at),
                o.findings.len().to_string(),
                fit(&Shown(&o.name).to_string(), NAME),
            ]
        })
        .collect();
    let head = ["OFFER", "SHA-256", " SIZE", " WAITS", " FOUND", "NAME"];
    p.table(&head, &rows)?;
    let next = "  `interlink-admin bond show ID` looks into one, `bond accept ID` writes it";
    Ok(p.line(Style::Dim, next)?)
}
