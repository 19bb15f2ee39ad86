//! `pair list`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::operator::Glance;
use super::super::print::{Printer, Shown, Style, age, now};
use super::{Books, Key, pick, read_books};
use crate::domain::projection::agent::Sent;
use crate::domain::query::agent::Outbound;
use crate::types::id::PublicKey;
use crate::types::time::UnixMillis;

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct Listed {
    identity: String,
    inbound: Vec<InboundView>,
    outbound: Vec<OutboundView>,
    conflicts: Vec<ConflictView>,
    blocked: Vec<BlockedView>,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct InboundView {
    key: String,
    fingerprint: String,
    claimed_name: String,
    petname: Option<String>,
    session: String,
    since: u64,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct OutboundView {
    key: String,
    fingerprint: String,
    petname: String,
    session: String,
    state: &'static str,
    since: u64,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct ConflictView {
    key: String,
    fingerprint: String,
    petname: String,
    reason: &'static str,
    holder: Option<String>,
    since: u64,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct BlockedView {
    key: String,
    since: u64,
}

/// As [`list`], about one key.
pub(super) fn show(identity: &Glance, key: &Key, p: &mut Printer) -> Result<(), AdminError> {
    let mut books = identity.read(read_books)?;
    let text = key.public_key.trim();
    let all = books.inbound.iter().map(|i| i.key);
    let all = all.chain(books.outbound.iter().map(|o| o.key));
    let all = all.chain(books.conflicts.iter().map(|c| c.key));
    let all: BTreeSet<PublicKey> = all.chain(books.blocked.iter().map(|b| b.key)).collect();
    let Some(key) = pick(all.into_iter(), text)? else {
        return Err(AdminError::NobodyAsks {
            text: text.to_owned(),
        });
    };
    books.inbound.retain(|i| i.key == key);
    books.outbound.retain(|o| o.key == key);
    books.conflicts.retain(|c| c.key == key);
    books.blocked.retain(|b| b.key == key);
    tell(identity, &books, p)
}

pub(super) fn list(identity: &Glance, p: &mut Printer) -> Result<(), AdminError> {
    tell(identity, &identity.read(read_books)?, p)
}

fn tell(identity: &Glance, books: &Books, p: &mut Printer) -> Result<(), AdminError> {
    if p.json {
        return Ok(p.json(&listed(identity, books))?);
    }
    let now = now();
    let mut empty = true;
    let mut part = |p: &mut Printer, head: [&str; 4], rows: Vec<Vec<String>>| {
        if rows.is_empty() {
            return Ok(());
        }
        if !empty {
            p.line(Style::Plain, "")?;
        }
        empty = false;
        p.table(&head, &rows)
    };
    let row = |key: &PublicKey, name: &str, state: String, at: UnixMillis| {
        let name = Shown(name).to_string();
        vec![key.to_string(), name, state, age(now, at.0)]
    };
    let rows = books.inbound.iter().map(|i| {
        let state = match (&i.petname, &i.holder) {
            (None, _) => "needs --petname",
            (_, Some(_)) => "name is taken, needs --petname",
            _ => "waits for you",
        };
        row(&i.key, &i.row.name, state.to_owned(), i.row.first_at)
    });
    part(p, ["ASKS", "CLAIMS TO BE", "", "SINCE"], rows.collect())?;
    let rows = books.outbound.iter().map(|o| {
        let state = sent_name(o).to_owned();
        row(&o.key, &o.row.name, state, o.row.first_at)
    });
    part(p, ["WAS ASKED", "AS", "STATE", "SINCE"], rows.collect())?;
    let rows = books.conflicts.iter().map(|c| {
        let state = c.row.reason.name().to_owned();
        row(&c.key, &c.row.name, state, c.row.at)
    });
    part(p, ["ACCEPTED", "AS", "BUT", "SINCE"], rows.collect())?;
    let rows = books
        .blocked
        .iter()
        .map(|b| row(&b.key, "", String::new(), b.row.at));
    part(p, ["BLOCKED", "", "", "SINCE"], rows.collect())?;
    if empty {
        p.line(Style::Plain, "nothing waits")?;
    }
    Ok(())
}

fn listed(identity: &Glance, books: &Books) -> Listed {
    let fingerprint = |key: &PublicKey| key.fingerprint().to_string();
    Listed {
        identity: identity.me.to_string(),
        inbound: books
            .inbound
            .iter()
            .map(|i| InboundView {
                key: i.key.to_string(),
                fingerprint: fingerprint(&i.key),
                claimed_name: i.row.name.clone(),
                petname: i
                    .petname
                    .as_ref()
                    .filter(|_| i.holder.is_none())
                    .map(ToString::to_string),
                session: i.row.session.to_string(),
                since: i.row.first_at.0,
            })
            .collect(),
        outbound: books
            .outbound
            .iter()
            .map(|o| OutboundView {
                key: o.key.to_string(),
                fingerprint: fingerprint(&o.key),
                petname: o.row.name.clone(),
                session: o.row.session.to_string(),
                state: sent_name(o),
                since: o.row.first_at.0,
            })
            .collect(),
        conflicts: books
            .conflicts
            .iter()
            .map(|c| ConflictView {
                key: c.key.to_string(),
                fingerprint: fingerprint(&c.key),
                petname: c.row.name.clone(),
                reason: c.row.reason.name(),
                holder: c.row.holder.map(|key| key.to_string()),
                since: c.row.at.0,
            })
            .collect(),
        blocked: books
            .blocked
            .iter()
            .map(|b| BlockedView {
                key: b.key.to_string(),
                since: b.row.at.0,
            })
            .collect(),
    }
}

const fn sent_name(outbound: &Outbound) -> &'static str {
    match outbound.sent {
        Some(sent) => sent.name(),
        None => Sent::Accepted.name(),
    }
}
