//! Deciding about a file, and ending a session.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::print::{Printer, Shown, Style, bytes};
use super::super::terminal::{Shell, confirm_text};
use super::show::look;
use super::{BondError, Server, find, servers};
use crate::agent::bond::control::{OfferView, Reply, Request, ask};
use crate::types::text::visible;

/// Characters of the hash that are to be typed.
const TYPED: usize = 6;

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct BondAccepted {
    id: String,
    /// Where the file was written.
    path: String,
    size: u64,
    /// Hex.
    sha256: String,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct BondDeclined {
    id: String,
    /// Hex.
    sha256: String,
}

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct BondEnded {
    pid: u32,
    /// Whether there was a session.
    was_open: bool,
}

pub(super) fn accept(
    stores: &[PathBuf],
    text: &str,
    shell: Shell,
    p: &mut Printer,
) -> Result<(), AdminError> {
    shell.check()?;
    let (socket, offer) = find(stores, text)?;
    // What is asked about is what the server says now.
    let shown = look(&socket, &offer.id)?;
    let prompt = format!(
        "Type the first {TYPED} characters of the SHA-256 to write it, anything else to stop: "
    );
    let typed = confirm_text(&question(&shown.offer, &shown.folder), &prompt, shell)?;
    if !is_yes(&typed, &shown.offer.sha256) {
        return Err(AdminError::NotTyped);
    }
    let (id, sha256) = (offer.id, shown.offer.sha256);
    let request = Request::Accept {
        id: id.clone(),
        sha256: sha256.clone(),
    };
    let accepted = match ask(&socket, &request).map_err(BondError::from)? {
        Reply::Accepted(accepted) => accepted,
        Reply::Failed(failed) => return Err(BondError::from(failed).into()),
        _ => return Err(BondError::OtherAnswer.into()),
    };
    let (path, size) = (accepted.path, accepted.size);
    if p.json {
        return Ok(p.json(&BondAccepted {
            id,
            path,
            size,
            sha256,
        })?);
    }
    let text = format!("{} ({}) was written", Shown(&path), bytes(size));
    Ok(p.whole_line(Style::Good, &text)?)
}

/// What the operator is asked.
fn question(offer: &OfferView, folder: &str) -> String {
    let found = match offer.findings.len() {
        0 => "nothing suspicious; the scan is best effort".to_owned(),
        _ => visible(&offer.findings.join(", ")).into_owned(),
    };
    format!(
        "Write this file, which the other side of a sealed session offers?\n\n  \
         name      {}\n  size      {} bytes\n  type      {}\n  from      {}\n  found     {found}\n  \
         folder    {}\n  sha-256   {}\n\n\
         Ask the sender for the SHA-256 by another way if you are not sure whose file it is.\n",
        visible(&offer.name),
        offer.size,
        visible(&offer.file_type),
        visible(offer.from.as_deref().unwrap_or("the peer")),
        visible(folder),
        visible(&offer.sha256),
    )
}

fn is_yes(typed: &str, sha256: &str) -> bool {
    let typed = typed.trim().to_ascii_lowercase();
    typed.len() >= TYPED && sha256.starts_with(&typed)
}

pub(super) fn decline(stores: &[PathBuf], text: &str, p: &mut Printer) -> Result<(), AdminError> {
    let (socket, offer) = find(stores, text)?;
    let (id, sha256) = (offer.id, offer.sha256);
    let request = Request::Decline {
        id: id.clone(),
        sha256: sha256.clone(),
    };
    match ask(&socket, &request).map_err(BondError::from)? {
        Reply::Declined {} => {}
        Reply::Failed(failed) => return Err(BondError::from(failed).into()),
        _ => return Err(BondError::OtherAnswer.into()),
    }
    if p.json {
        return Ok(p.json(&BondDeclined { id, sha256 })?);
    }
    let text = format!("{} was thrown away", Shown(&offer.name));
    Ok(p.line(Style::Plain, &text)?)
}

/// The session that runs, or the one of a process.
pub(super) fn the_one(stores: &[PathBuf], pid: Option<u32>) -> Result<Server, BondError> {
    let mut running: Vec<Server> = stores.iter().flat_map(|store| servers(store)).collect();
    match pid {
        Some(pid) => running.retain(|server| server.listed.pid == pid),
        None => running.retain(|server| server.listed.session.is_some()),
    }
    let pids: Vec<String> = running.iter().map(|s| s.listed.pid.to_string()).collect();
    let mut running = running.into_iter();
    match (running.next(), running.next()) {
        (None, _) => Err(BondError::NothingRuns),
        (Some(server), None) => Ok(server),
        (Some(_), Some(_)) => Err(BondError::SeveralRun {
            pids: pids.join(", "),
        }),
    }
}

pub(super) fn end(stores: &[PathBuf], pid: Option<u32>, p: &mut Printer) -> Result<(), AdminError> {
    let server = the_one(stores, pid)?;
    let was_open = match ask(&server.socket, &Request::End {}).map_err(BondError::from)? {
        Reply::Ended { was_open } => was_open,
        Reply::Failed(failed) => return Err(BondError::from(failed).into()),
        _ => return Err(BondError::OtherAnswer.into()),
    };
    let pid = server.listed.pid;
    if p.json {
        return Ok(p.json(&BondEnded { pid, was_open })?);
    }
    let text = match was_open {
        true => format!("the sealed session of process {pid} is over"),
        false => format!("process {pid} had no sealed session"),
    };
    Ok(p.line(Style::Plain, &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_the_hash_is_consent() {
        let sha256 = "abcdef0123456789";
        for yes in ["abcdef", "ABCDEF01\n", sha256] {
            assert!(is_yes(yes, sha256), "{yes}");
        }
        for no in ["", "y", "yes", "abcde", "abcdee", "abcdef0123456789a"] {
            assert!(!is_yes(no, sha256), "{no}");
        }
    }

    #[test]
    fn nothing_that_a_peer_chose_acts_on_the_terminal() {
        let offer = OfferView {
            id: "i".into(),
            name: "a\u{1b}[2J\n\nsha-256 0000\u{202e}".into(),
            size: 1,
            file_type: "t\r".into(),
            sha256: "ab".into(),
            from: Some("\u{7}".into()),
            findings: vec!["\u{9b}".into()],
            at: 0,
        };
        let text = question(&offer, "/in\u{1b}");
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'));
    }
}
