//! `bond show`: one offered file, with as much of it as a human wants to see before he decides.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::print::{Printer, Shown, Spelled, Style, date, time};
use super::list::{PastOffer, past};
use super::{BondError, MIN_PREFIX, find};
use crate::agent::bond::control::{OfferView, Reply, Request, Shown as Offered, ask};
use crate::types::text::visible;

/// Lines of a preview that are shown.
const LINES: usize = 40;

/// One offered file: of a server that has it, or as the log remembers it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::cli::admin) enum BondShown {
    /// It waits.
    Waiting(Offered),
    /// It was decided, or its process is gone.
    Past(PastOffer),
}

pub(super) fn show(stores: &[PathBuf], text: &str, p: &mut Printer) -> Result<(), AdminError> {
    let shown = match find(stores, text) {
        Ok((socket, offer)) => BondShown::Waiting(look(&socket, &offer.id)?),
        Err(e @ BondError::NoSuchOffer { .. }) => match remembered(stores, text)? {
            Some(offer) => BondShown::Past(offer),
            None => return Err(e.into()),
        },
        Err(e) => return Err(e.into()),
    };
    if p.json {
        return Ok(p.json(&shown)?);
    }
    match shown {
        BondShown::Waiting(offered) => {
            facts(&offered.offer, p)?;
            p.prose("goes to", &offered.folder)?;
            if !offered.note.is_empty() {
                p.prose("note", &offered.note)?;
            }
            preview(&offered, p)
        }
        BondShown::Past(offer) => was(&offer, p),
    }
}

/// Asks a server about a file.
pub(super) fn look(socket: &std::path::Path, id: &str) -> Result<Offered, BondError> {
    let id = id.to_owned();
    match ask(socket, &Request::Show { id })? {
        Reply::Shown(shown) => Ok(shown),
        Reply::Failed(failed) => Err(failed.into()),
        _ => Err(BondError::OtherAnswer),
    }
}

/// The newest of the log's offers that a text means.
fn remembered(stores: &[PathBuf], text: &str) -> Result<Option<PastOffer>, AdminError> {
    for store in stores {
        let offers = past(store)?.1;
        let means = |o: &&PastOffer| {
            o.id == text
                || text.parse() == Ok(o.record)
                || (text.len() >= MIN_PREFIX && o.id.starts_with(text))
        };
        if let Some(offer) = offers.iter().find(means) {
            return Ok(Some(offer.clone()));
        }
    }
    Ok(None)
}

fn findings(all: &[String]) -> String {
    if all.is_empty() {
        "nothing suspicious; the scan is best effort".to_owned()
    } else {
        all.join(", ")
    }
}

/// What a list does not have room for.
fn facts(offer: &OfferView, p: &mut Printer) -> Result<(), AdminError> {
    p.whole_line(Style::Bold, &format!("file {}", offer.name))?;
    p.field("offer", &offer.id)?;
    p.field("size", &format!("{} bytes", offer.size))?;
    p.field("type", &offer.file_type)?;
    p.field("sha-256", &offer.sha256)?;
    p.field("from", offer.from.as_deref().unwrap_or("the peer"))?;
    p.prose("found", &findings(&offer.findings))?;
    p.field(
        "came",
        &format!("{} {} UTC", date(offer.at), time(offer.at)),
    )?;
    Ok(())
}

/// The beginning of a file, line by line, with everything that acts on a terminal spelled out.
fn preview(shown: &Offered, p: &mut Printer) -> Result<(), AdminError> {
    p.line(
        Style::Dim,
        "  --- beginning of the file, written by the peer ---",
    )?;
    let mut lines = shown.preview.split('\n');
    for line in lines.by_ref().take(LINES) {
        let line = line
            .strip_suffix('\r')
            .unwrap_or(line)
            .replace('\t', "    ");
        p.line(Style::Plain, &format!("  | {}", visible(&line)))?;
    }
    let end = match (shown.cut, lines.next()) {
        (false, None) => "  --- that is all of it ---",
        _ => "  --- and more ---",
    };
    Ok(p.line(Style::Dim, end)?)
}

fn was(offer: &PastOffer, p: &mut Printer) -> Result<(), AdminError> {
    p.line(Style::Bold, &format!("file {}", Spelled(&offer.name)))?;
    p.spelled_field("offer", &Spelled(&offer.id).to_string())?;
    p.field("record", &offer.record.to_string())?;
    p.field("size", &format!("{} bytes", offer.size))?;
    p.spelled_field("type", &Spelled(&offer.file_type).to_string())?;
    p.field("sha-256", &offer.sha256)?;
    p.field("from", offer.from.as_deref().unwrap_or("the peer"))?;
    p.spelled_field("found", &Spelled(&findings(&offer.findings)).to_string())?;
    p.field(
        "came",
        &format!("{} {} UTC", date(offer.at), time(offer.at)),
    )?;
    let state = match offer.by {
        Some(by) => format!("{} by {by}", offer.state),
        None => "nobody decided, and no process has it any more".to_owned(),
    };
    p.prose("state", &state)?;
    if let Some(path) = &offer.path {
        p.spelled_field("written to", &Shown(path).to_string())?;
    }
    Ok(())
}
