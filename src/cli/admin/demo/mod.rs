//! `demo`.

use super::error::AdminError;
use super::print::Printer;

/// How to run it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep the temporary folder
    #[arg(long)]
    keep: bool,
}

/// The demonstration did not prove its point.
#[derive(Debug, thiserror::Error)]
#[error("not yet")]
pub(super) struct DemoError;

impl DemoError {
    pub(super) fn next(&self) -> Option<String> {
        None
    }
}

pub(super) fn run(_args: &Args, _p: &mut Printer) -> Result<u8, AdminError> {
    Err(DemoError.into())
}
