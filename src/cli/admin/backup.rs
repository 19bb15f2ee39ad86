//! `backup`: a consistent copy of a store, also while it is used.
//!
//! The copy is one moment of the store: everything that was acknowledged before the command began is
//! in it. It takes its name once it is durable and proven. A store that a running bus owns is copied
//! by that bus, to the same path on the same machine.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::care::{self, CareError};
use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Style, bytes, note_source};
use super::reader::Origin;
use super::status::count;
use crate::wire::admin::Verification;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The copy; a file of that name is left alone
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    #[serde(flatten)]
    origin: Origin,
    /// The copy.
    backup: String,
    backup_bytes: u64,
    #[serde(flatten)]
    proof: Verification,
}

pub(super) fn run(args: &Args, targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let target = care::one(targets)?;
    care::expect_folder(&args.file)?;
    let access = target.access()?;
    let origin = access.reader().origin().clone();
    note_source(&origin);
    let to = care::absolute(&args.file)?;
    let proof = match access.back_up(&to) {
        Ok(proof) => proof,
        Err(AdminError::Care(e)) => return care::differs(e, p),
        Err(e) => return Err(e),
    };
    let len = std::fs::metadata(&to).map_err(|source| CareError::File {
        path: to.clone(),
        source,
    })?;
    let answer = Answer {
        origin,
        backup: to.display().to_string(),
        backup_bytes: len.len(),
        proof,
    };
    if p.json {
        return Ok(p.json(&answer)?);
    }
    p.whole_line(Style::Good, &format!("backed up: {}", answer.origin.name()))?;
    p.field("copy", &answer.backup)?;
    let text = format!(
        "{}, {} up to {}, proven",
        bytes(answer.backup_bytes),
        count(answer.proof.records, "record"),
        answer.proof.head
    );
    Ok(p.field("", &text)?)
}
