//! A file that is offered now and sent later, piece by piece: it stays open, and no more than a piece
//! of it is ever in memory.
//!
//! Between the two anybody may write to it. So each piece has a hash of its own from the time of the
//! offer, and a piece that is another by now is not handed out: what leaves is what was looked
//! through for secrets and what the other side was shown the hash of.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::{OutgoingError, OutgoingRules, checked_name, system};
use crate::crypto::hash::{Sha256Stream, sha256};
use crate::domain::bond::names::{BaseName, Types};
use crate::domain::bond::secrets::Finder;

/// A file of ours that is held open.
pub struct Held {
    file: File,
    path: PathBuf,
    name: BaseName,
    size: u64,
    sha256: [u8; 32],
    /// Bytes of a piece.
    piece: usize,
    pieces: Vec<[u8; 32]>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.name)
            .field("bytes", &self.size)
            .finish_non_exhaustive()
    }
}

/// Opens a file that is to be sent in pieces of so many bytes, as [`super::open_outgoing`] does, and
/// reads through it once. Blocks on the disk, never on a pipe. Any content goes: `rules.types` is
/// about the name.
///
/// # Errors
///
/// [`OutgoingError`]: what is wrong, and what to do about it.
pub fn hold(path: &Path, rules: &OutgoingRules, piece: usize) -> Result<Held, OutgoingError> {
    debug_assert!(rules.types == Types::Any && piece > 0);
    let (full, name) = checked_name(path, &rules.roots)?;
    let file = system::open_file(&full)?;
    let io = |source| OutgoingError::Io {
        path: full.clone(),
        source,
    };
    let before = file.metadata().map_err(io)?;
    if !before.is_file() {
        return Err(OutgoingError::NotAFile { path: full });
    }
    let (size, max) = (before.len(), rules.max_bytes);
    if size > max {
        return Err(OutgoingError::TooLarge { size, max });
    }
    let name = BaseName::outgoing(&name, rules.types)?;
    let mut held = Held {
        file,
        path: full.clone(),
        name,
        size,
        sha256: [0; 32],
        piece,
        pieces: Vec::new(),
    };
    let (mut whole, mut finder) = (Sha256Stream::default(), Finder::new());
    let mut offset = 0;
    while offset < size {
        let len = held.len_at(offset);
        let bytes = held.read_at(offset, len)?;
        whole.update(&bytes);
        finder.feed(&bytes);
        held.pieces.push(sha256(&bytes));
        offset = offset.saturating_add(wide(len));
    }
    let after = held.file.metadata().map_err(io)?;
    if after.len() != size || before.modified().ok() != after.modified().ok() {
        return Err(OutgoingError::Changing);
    }
    let found = finder.finish();
    if !found.is_empty() {
        return Err(OutgoingError::Secrets { found });
    }
    held.sha256 = whole.finish();
    Ok(held)
}

impl Held {
    /// Its base name.
    #[must_use]
    pub const fn name(&self) -> &BaseName {
        &self.name
    }

    /// Its bytes when it was looked at.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// SHA-256 of all of them.
    #[must_use]
    pub const fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// The piece that begins at `offset`, a multiple of a piece. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// [`OutgoingError::Changing`] where it is not what it was when the file was looked at;
    /// [`OutgoingError::Io`].
    pub fn piece(&self, offset: u64) -> Result<Vec<u8>, OutgoingError> {
        let bytes = self.read_at(offset, self.len_at(offset))?;
        let at = offset.checked_div(wide(self.piece));
        let at = at.and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| self.pieces.get(at)) {
            Some(hash) if *hash == sha256(&bytes) => Ok(bytes),
            _ => Err(OutgoingError::Changing),
        }
    }

    /// Bytes of the piece at `offset`.
    fn len_at(&self, offset: u64) -> usize {
        usize::try_from(self.size.saturating_sub(offset))
            .map_or(self.piece, |left| left.min(self.piece))
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, OutgoingError> {
        let mut bytes = vec![0; len];
        match system::read_at(&self.file, &mut bytes, offset) {
            Ok(()) => Ok(bytes),
            // It is shorter than it was.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(OutgoingError::Changing),
            Err(source) => Err(OutgoingError::Io {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
