//! Files of a session as the desk handles them: the rules are in [`crate::domain::bond`], the disk in
//! [`super::files`].

use std::path::PathBuf;

use super::config::BondConfig;
use super::files::{self, Held, Incoming, IncomingError, OutgoingError, OutgoingRules, Placed};
use crate::agent::random::{OsEntropy, random_hex};
use crate::domain::bond::names::{BaseName, NameRefusal, Types};
use crate::domain::bond::wrap;
use crate::domain::machine::bond::own::CHUNK_BYTES;
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

/// Largest accepted file that is looked into for the model, in bytes.
const MAX_SHOWN_BYTES: u64 = 1 << 20;

/// Opens a file of ours for our own mode and holds it: of any type and content, within the bound of
/// that mode. Blocks on the disk.
pub(super) fn hold(config: &BondConfig, path: &str) -> Result<Held, FileError> {
    let rules = OutgoingRules {
        roots: config.roots.clone(),
        max_bytes: config.max_spoken_bytes(),
        types: Types::Any,
    };
    Ok(files::hold(&PathBuf::from(path), &rules, CHUNK_BYTES)?)
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
    let mut text = noted(note)?;
    let file = wrap::file(&token()?, bytes, &placed.path.to_string_lossy());
    text.push_str(&file.text);
    Ok((text, file.truncated))
}

/// The same of a file that came in pieces: it is read once more, unless it is large.
pub(super) fn content_at(placed: &Placed, note: &str) -> Result<(String, bool), FileError> {
    let path = &placed.path;
    let unread = |source| IncomingError::Io {
        path: path.clone(),
        source,
    };
    let size = std::fs::metadata(path).map_err(unread)?.len();
    if size <= MAX_SHOWN_BYTES {
        return content(placed, note, &std::fs::read(path).map_err(unread)?);
    }
    let file = wrap::large(size, &path.to_string_lossy());
    Ok((format!("{}{}", noted(note)?, file.text), file.truncated))
}

fn noted(note: &str) -> Result<String, EntropyError> {
    Ok(if note.is_empty() {
        String::new()
    } else {
        format!(
            "Note of the peer:\n{}\n\n",
            wrap::note(&token()?, note).text
        )
    })
}

/// Words of the peer, between markers.
pub(super) fn chat(from: &str, text: &str) -> Result<String, FileError> {
    Ok(wrap::chat(&token()?, from, text).text)
}

fn token() -> Result<String, EntropyError> {
    random_hex::<8>(&OsEntropy)
}
