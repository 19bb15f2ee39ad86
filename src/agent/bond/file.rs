//! Files of a session as the desk handles them: the rules are in [`crate::domain::bond`], the disk in
//! [`super::files`].

use std::path::PathBuf;

use super::config::BondConfig;
use super::files::{self, Incoming, IncomingError, OutgoingError, OutgoingRules, Placed};
use crate::agent::clock::{OsEntropy, random_hex};
use crate::domain::bond::names::{BaseName, NameRefusal, Types};
use crate::domain::bond::wrap;
use crate::domain::machine::bond::{OutgoingFile, Refusal};
use crate::types::entropy::EntropyError;

/// Something is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// One of ours.
    #[error(transparent)]
    Outgoing(#[from] OutgoingError),
    /// The place of one of the peer's.
    #[error(transparent)]
    Incoming(#[from] IncomingError),
    /// The name of one of the peer's.
    #[error("the file is not saved: {0}")]
    Name(#[from] NameRefusal),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

impl FileError {
    /// The word that records hold.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            FileError::Outgoing(e) => match e {
                OutgoingError::NoRoots | OutgoingError::Outside { .. } => "outside",
                OutgoingError::Link { .. } => "link",
                OutgoingError::Missing { .. } => "missing",
                OutgoingError::Denied { .. } => "denied",
                OutgoingError::NotAFile { .. } => "not_a_file",
                OutgoingError::ClosedDirectory { .. } => "closed_directory",
                OutgoingError::Name(why) => why.class().name(),
                OutgoingError::NameNotUtf8 => Refusal::BadName.name(),
                OutgoingError::TooLarge { .. } => Refusal::TooLarge.name(),
                OutgoingError::NotUtf8 { .. } => "not_text",
                OutgoingError::Secrets { .. } => "secrets",
                OutgoingError::Changing => "changing",
                OutgoingError::Io { .. } => "unreadable",
            },
            FileError::Incoming(_) => "not_written",
            FileError::Name(why) => why.class().name(),
            FileError::Entropy(_) => "no_randomness",
        }
    }
}

/// A file of ours, ready to be sent.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: OutgoingFile,
    /// Of its bytes.
    pub(super) sha256: [u8; 32],
}

/// Opens a file of ours. Blocks on the disk.
pub(super) fn open(config: &BondConfig, path: &str, note: String) -> Result<Opened, FileError> {
    let rules = OutgoingRules {
        roots: config.roots.clone(),
        max_bytes: u64::from(config.max_file_kb).saturating_mul(1024),
        types: Types::Listed,
    };
    let path = PathBuf::from(path);
    let opened = files::open_outgoing(&path, &rules)?;
    let content = String::from_utf8(opened.content).map_err(|e| OutgoingError::NotUtf8 {
        at: e.utf8_error().valid_up_to(),
    })?;
    Ok(Opened {
        file: OutgoingFile {
            name: opened.name.as_str().to_owned(),
            content,
            note,
        },
        sha256: opened.sha256,
    })
}

/// Writes a file of the peer's. Blocks on the disk.
pub(super) fn place(config: &BondConfig, name: &str, bytes: &[u8]) -> Result<Placed, FileError> {
    let name = BaseName::incoming(name, Types::Listed)?;
    Ok(Incoming::open(&config.incoming)?.place(&name, bytes)?)
}

/// What a model sees of an accepted file: its note and its beginning, each between markers, and whether
/// that is not all of it.
pub(super) fn content(
    placed: &Placed,
    note: &str,
    bytes: &[u8],
) -> Result<(String, bool), FileError> {
    let mut text = String::new();
    if !note.is_empty() {
        let note = wrap::note(&token()?, note);
        text = format!("Note of the peer:\n{}\n\n", note.text);
    }
    let file = wrap::file(&token()?, bytes, &placed.path.to_string_lossy());
    text.push_str(&file.text);
    Ok((text, file.truncated))
}

/// Words of the peer, between markers.
pub(super) fn chat(from: &str, text: &str) -> Result<String, FileError> {
    Ok(wrap::chat(&token()?, from, text).text)
}

fn token() -> Result<String, EntropyError> {
    random_hex::<8>(&OsEntropy)
}
