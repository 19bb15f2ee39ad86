//! Which records of a log are shown.
//!
//! A record names its message by id where the message begins in that log, and by position ever
//! after; whoever asks for a message, a peer or a session wants those too. So records are looked
//! at from the beginning, and what is about a record that fits, fits.

use std::collections::BTreeSet;

use serde_json::Value;

use super::error::AdminError;
use super::links;
use super::locate::Target;
use super::print;
use super::reader::StoreReader;
use super::when::Time;
use crate::domain::tables::TableId;
use crate::event::kind::{EventKind, StoreKind};
use crate::types::id::PublicKey;
use crate::types::route;
use crate::types::seq::Seq;
use crate::wire::admin::RecordRow;

/// What may be asked for; all of it has to fit.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Only records of this kind; may be given several times
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,

    /// Only what names this key or petname, or is about a message to or from it
    #[arg(long, value_name = "KEY|PETNAME", allow_hyphen_values = true)]
    peer: Option<String>,

    /// Only what names this session, or is about a message to or from it
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Only what is about messages whose id begins so
    #[arg(long, value_name = "MSG_ID")]
    message: Option<String>,

    /// Only what was written at this time (2026-11-30T14:44:35Z) or later, or that long ago (10m)
    #[arg(long, value_name = "TIME|AGE")]
    since: Option<Time>,

    /// Only what was written before this time
    #[arg(long, value_name = "TIME|AGE")]
    until: Option<Time>,

    /// End with this position
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
}

impl Args {
    /// Whether positions are named, which differ from store to store.
    pub(super) const fn has_positions(&self) -> bool {
        self.to.is_some()
    }

    /// Whether nothing that is written from now on can fit.
    pub(super) fn ends(&self) -> bool {
        self.to.is_some() || self.until.is_some_and(|Time(at)| at <= print::now())
    }
}

/// A filter, the same for every store.
pub(super) struct Filter {
    kinds: BTreeSet<String>,
    /// Keys that are meant, and names.
    peer: Option<(BTreeSet<String>, String)>,
    session: Option<String>,
    message: Option<String>,
    since: u64,
    until: u64,
    to: u64,
}

impl Filter {
    /// Checks the kinds, and looks up whose name a petname is.
    pub(super) fn new(args: &Args, targets: &[Target]) -> Result<Filter, AdminError> {
        for name in &args.kind {
            if !EventKind::ALL.iter().any(|kind| kind.name() == name) {
                return Err(AdminError::Kind { name: name.clone() });
            }
        }
        let peer = match &args.peer {
            Some(text) => Some((keys_of(text, targets)?, text.clone())),
            None => None,
        };
        Ok(Filter {
            kinds: args.kind.iter().cloned().collect(),
            peer,
            session: args.session.clone(),
            message: args.message.clone(),
            since: args.since.map_or(0, |Time(at)| at.0),
            until: args.until.map_or(u64::MAX, |Time(at)| at.0),
            to: args.to.unwrap_or(u64::MAX),
        })
    }

    /// Whether records have to be looked at from the beginning.
    pub(super) const fn follows(&self) -> bool {
        self.peer.is_some() || self.session.is_some() || self.message.is_some()
    }

    /// Whether nothing beyond this position can fit.
    pub(super) const fn is_past(&self, seq: u64) -> bool {
        seq > self.to
    }

    /// What is known of one store before its records are read: messages whose first record was
    /// compacted away.
    pub(super) fn begin(&self, reader: &dyn StoreReader) -> Result<Seen, AdminError> {
        let mut seen = Seen::default();
        let base = if self.follows() {
            reader.records(u64::MAX, 1)?.base
        } else {
            0
        };
        if base == 0 {
            return Ok(seen);
        }
        let tables: &[TableId] = match reader.origin().kind {
            StoreKind::Bus => &[TableId::Pending],
            StoreKind::Agent => &[TableId::Outbox, TableId::Mailbox],
        };
        for rows in reader.rows(tables, Some(Seq(base)))? {
            for row in rows.rows {
                let Ok(seq) = row.key.parse() else { continue };
                let record = RecordRow {
                    seq,
                    at: 0,
                    kind: String::new(),
                    event: row.value,
                };
                self.look(&record, &mut seen);
            }
        }
        Ok(seen)
    }

    /// Whether a record fits. Every record has to be asked about, in order of position.
    pub(super) fn fits(&self, record: &RecordRow, seen: &mut Seen) -> bool {
        let about = self.look(record, seen);
        about
            && (self.kinds.is_empty() || self.kinds.contains(&record.kind))
            && (self.since..self.until).contains(&record.at)
            && record.seq <= self.to
    }

    /// Whether a record is about what is asked for; remembers that for those that follow it.
    fn look(&self, record: &RecordRow, seen: &mut Seen) -> bool {
        let event = &record.event;
        let about = links::about(record);
        let mut all = true;
        if let Some((keys, name)) = &self.peer {
            let own = names_key(event, keys) || names(event, &["label", "petname"], name);
            all &= seen.peer.remember(own, record.seq, &about);
        }
        if let Some(session) = &self.session {
            let own = names(event, &["session", "to_session", "peer_session"], session)
                || names_session(event, session);
            all &= seen.session.remember(own, record.seq, &about);
        }
        if let Some(prefix) = &self.message {
            let ids = links::ids(record);
            let own = ids.iter().any(|id| id.starts_with(prefix.as_str()));
            all &= seen.message.remember(own, record.seq, &about);
        }
        all
    }
}

/// What was found in one store so far.
#[derive(Default)]
pub(super) struct Seen {
    peer: Fitting,
    session: Fitting,
    message: Fitting,
}

/// Positions of records that fit and may be referred to.
#[derive(Default)]
struct Fitting(BTreeSet<u64>);

impl Fitting {
    fn remember(&mut self, own: bool, seq: u64, about: &[u64]) -> bool {
        let fits = own || about.iter().any(|seq| self.0.contains(seq));
        if own && about.is_empty() {
            self.0.insert(seq);
        }
        fits
    }
}

/// The keys that a petname stands for in some store; the text itself, when it is a key.
fn keys_of(text: &str, targets: &[Target]) -> Result<BTreeSet<String>, AdminError> {
    let mut keys = BTreeSet::new();
    if text.parse::<PublicKey>().is_ok() {
        keys.insert(text.to_owned());
        return Ok(keys);
    }
    for target in targets {
        // One that cannot be read is told of when its log is.
        let Ok(reader) = target.open() else { continue };
        if reader.origin().kind != StoreKind::Agent {
            continue;
        }
        for rows in reader.rows(&[TableId::Peers], None)? {
            let named = rows
                .rows
                .into_iter()
                .filter(|row| names(&row.value, &["petname"], text));
            keys.extend(named.map(|row| row.key));
        }
    }
    Ok(keys)
}

/// Whether one of these members is this text.
fn names(event: &Value, members: &[&str], wanted: &str) -> bool {
    let mut members = members.iter();
    members.any(|name| links::text(event, name) == Some(wanted))
}

/// Whether some text in the event is one of these keys, or a route of one.
fn names_key(value: &Value, keys: &BTreeSet<String>) -> bool {
    any_text(value, &mut |text| keys.contains(route::split(text).0))
}

/// Whether some text in the event is a route to this session, or a list of sessions has it.
fn names_session(event: &Value, session: &str) -> bool {
    let listed = event
        .get("sessions")
        .is_some_and(|sessions| any_text(sessions, &mut |text| text == session));
    listed
        || any_text(event, &mut |text| {
            let (key, of) = route::split(text);
            of == Some(session) && key.parse::<PublicKey>().is_ok()
        })
}

fn any_text(value: &Value, fits: &mut dyn FnMut(&str) -> bool) -> bool {
    match value {
        Value::String(text) => fits(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, fits)),
        Value::Object(members) => members.values().any(|member| any_text(member, fits)),
        _ => false,
    }
}
