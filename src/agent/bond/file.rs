//! Files of a sealed session: ours on the way out, the peer's on the way in.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::config::BondConfig;
use crate::agent::clock::{OsEntropy, random_hex};
use crate::agent::mcp::render;
use crate::crypto::hash::sha256;
use crate::domain::machine::bond::{Offer, OutgoingFile, Refusal};

/// UTF-16 units of a file that a model is shown.
const SHOWN_UNITS: usize = 4096;

/// Something is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A rule of names.
    #[error("the file's name or type is not allowed ({})", .0.name())]
    Name(Refusal),
    /// Larger than the cap.
    #[error("the file is larger than {max} bytes")]
    TooLarge {
        /// The cap.
        max: u64,
    },
    /// Not in a folder from which files may be sent.
    #[error(
        "the file is outside of the folders from which files may be sent; --bond-root names others"
    )]
    Outside,
    /// Not UTF-8.
    #[error("the file is no UTF-8 text; nothing else can be sent unharmed")]
    NotText,
    /// The disk.
    #[error("the file cannot be used: {0}")]
    Io(#[from] io::Error),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] crate::types::entropy::EntropyError),
}

impl FileError {
    /// The word that records hold.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            FileError::Name(why) => why.name(),
            FileError::TooLarge { .. } => "too_large",
            FileError::Outside => "outside",
            FileError::NotText => "not_text",
            FileError::Io(_) => "io",
            FileError::Entropy(_) => "no_randomness",
        }
    }

    /// What stopped a file of ours, where a rule did.
    pub(super) fn refusal(&self) -> Option<(String, Refusal)> {
        match self {
            FileError::Name(why) => Some((String::new(), *why)),
            FileError::TooLarge { .. } => Some((String::new(), Refusal::TooLarge)),
            _ => None,
        }
    }
}

/// A file of ours, ready to be sent.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: OutgoingFile,
    /// Of its bytes.
    pub sha256: [u8; 32],
}

/// A file of the peer, on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
}

/// Whether a file of this name may be offered or sent.
pub(super) fn name_rule(name: &str) -> Result<(), Refusal> {
    const TYPES: [&str; 18] = [
        "js", "ts", "jsx", "tsx", "py", "java", "go", "rs", "json", "md", "txt", "css", "html",
        "xml", "yml", "yaml", "toml", "",
    ];
    let base = name.rsplit('/').next().unwrap_or_default();
    let extension = base.rsplit_once('.').map_or("", |(_, e)| e).to_lowercase();
    if extension.is_empty() || !TYPES.contains(&extension.as_str()) {
        return Err(Refusal::Type);
    }
    if base.starts_with('.') || base.contains(['/', '\\']) {
        return Err(Refusal::BadName);
    }
    Ok(())
}

/// Opens a file of ours.
pub(super) fn open(config: &BondConfig, path: &str, note: String) -> Result<Opened, FileError> {
    let real = Path::new(path).canonicalize()?;
    if !config.roots.iter().any(|root| real.starts_with(root)) {
        return Err(FileError::Outside);
    }
    let name = real
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    name_rule(&name).map_err(FileError::Name)?;
    let max = u64::from(config.max_file_kb).saturating_mul(1024);
    let mut bytes = vec![];
    std::fs::File::open(&real)?
        .take(max + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
        return Err(FileError::TooLarge { max });
    }
    let digest = sha256(&bytes);
    let content = String::from_utf8(bytes).map_err(|_| FileError::NotText)?;
    Ok(Opened {
        file: OutgoingFile {
            name,
            content,
            note,
        },
        sha256: digest,
    })
}

/// Writes a file of the peer's.
pub(super) fn place(config: &BondConfig, name: &str, bytes: &[u8]) -> Result<Placed, FileError> {
    std::fs::create_dir_all(&config.incoming)?;
    let path = config.incoming.join(name);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(Placed {
        path,
        size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
    })
}

/// A peer's name of a file, for one line.
pub(super) fn shown_name(name: &str) -> String {
    render::attribute(name)
}

/// Rules of the scan that an offer breaks.
pub(super) fn findings(_: &Offer) -> Vec<String> {
    vec![]
}

/// What a human sees of an offer.
pub(super) fn preview(offer: &Offer) -> String {
    let text = String::from_utf8_lossy(offer.content.expose());
    let lines: Vec<String> = text.lines().take(20).map(render::attribute).collect();
    lines.join("\n")
}

/// What a model sees of an accepted file: the text, and whether that is only the beginning.
pub(super) fn content(
    placed: &Placed,
    _name: &str,
    note: &str,
    bytes: &[u8],
) -> Result<(String, bool), FileError> {
    let _ = (placed, note);
    let text = String::from_utf8_lossy(bytes);
    let cut: String = text.chars().take(SHOWN_UNITS).collect();
    let truncated = cut.len() < text.len();
    Ok((wrapped(&cut)?, truncated))
}

/// A peer's words between markers.
pub(super) fn wrapped(text: &str) -> Result<String, FileError> {
    let token = random_hex::<8>(&OsEntropy)?;
    Ok(format!("[{token}\n{}\n{token}]", render::body(text)))
}
