//! The same as far as the standard library goes: links are looked for, not excluded.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use super::{IncomingError, OutgoingError};

/// Opens the file at an absolute path none of whose components is a link.
pub(super) fn open_file(full: &Path) -> Result<File, OutgoingError> {
    let path = full.to_owned();
    let is_link = |p: &Path| fs::symlink_metadata(p).is_ok_and(|m| m.is_symlink());
    if full.ancestors().any(is_link) {
        return Err(OutgoingError::Link { path });
    }
    if fs::symlink_metadata(full).is_ok_and(|m| !m.is_file()) {
        return Err(OutgoingError::NotAFile { path });
    }
    File::open(full).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OutgoingError::Missing { path },
        io::ErrorKind::PermissionDenied => OutgoingError::Denied { path },
        _ => OutgoingError::Io { path, source },
    })
}

/// Fills the buffer from a place in a file. One reader at a time: the place is the handle's.
pub(super) fn read_at(mut file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.seek(io::SeekFrom::Start(offset))?;
    file.read_exact(bytes)
}

/// A directory by its path.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

/// A complete, synced file under a hidden name. Removed on drop.
pub(super) struct Staged<'d> {
    _directory: PhantomData<&'d Directory>,
    hidden: PathBuf,
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.hidden);
    }
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Directory, IncomingError> {
        let io = |source| IncomingError::Io {
            path: path.to_owned(),
            source,
        };
        fs::create_dir_all(path).map_err(io)?;
        if fs::symlink_metadata(path).map_err(io)?.is_symlink() {
            return Err(IncomingError::NotADirectory {
                path: path.to_owned(),
            });
        }
        Ok(Directory {
            path: fs::canonicalize(path).map_err(io)?,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn io(&self, source: io::Error) -> IncomingError {
        IncomingError::Io {
            path: self.path.clone(),
            source,
        }
    }

    pub(super) fn stage(&self, hidden: &str, bytes: &[u8]) -> Result<Staged<'_>, IncomingError> {
        let mut file = self.create(hidden)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let written = written.map(|()| file).map_err(|e| self.io(e));
        self.adopt(hidden.to_owned(), written)
    }

    /// Makes a hidden file.
    pub(super) fn create(&self, hidden: &str) -> Result<File, IncomingError> {
        File::create_new(self.path.join(hidden)).map_err(|e| self.io(e))
    }

    /// Takes care of a hidden file.
    pub(super) fn adopt(
        &self,
        hidden: String,
        file: Result<File, IncomingError>,
    ) -> Result<Staged<'_>, IncomingError> {
        let staged = Staged {
            _directory: PhantomData,
            hidden: self.path.join(hidden),
        };
        file.map(|_| staged)
    }

    /// Removes a hidden file.
    pub(super) fn discard(&self, hidden: &str) {
        let _ = fs::remove_file(self.path.join(hidden));
    }

    pub(super) fn publish(&self, staged: &Staged<'_>, name: &str) -> Result<bool, IncomingError> {
        match fs::hard_link(&staged.hidden, self.path.join(name)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(self.io(e)),
        }
    }

    /// Leftovers stay: without locks nobody knows whose they are.
    #[expect(clippy::unused_self, reason = "the same shape everywhere")]
    pub(super) fn sweep(&self, _is_hidden: impl Fn(&str) -> bool) {}
}
