//! A store's place: whether somebody has it, and putting another store there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use redb::{DatabaseError, ReadOnlyDatabase};

use super::backup::{CopyError, copy_proven};
use super::dir::{parent, sync_dir};
use super::error::OpenError;
use super::guard::guarded;
use super::open::{Mode, builder, database_error};
use super::snapshot::Snapshot;

/// Most stores that are kept beside one.
const MAX_KEPT: u32 = 1000;

/// A store that nobody else has open; while this lives, and the file is not damaged, nobody opens
/// it.
pub struct Held {
    _db: Option<ReadOnlyDatabase>,
}

/// Makes sure that no process has a store open, and keeps it so where the file allows. Nothing is
/// written, and the file may be damaged.
///
/// # Errors
///
/// [`OpenError::InUse`] names whoever has it open.
pub fn hold(path: &Path) -> Result<Held, OpenError> {
    let open = || Ok(builder(Mode::Exclusive, 1 << 20).open_read_only(path));
    match guarded(open, |_| ()) {
        Ok(Ok(db)) => Ok(Held { _db: Some(db) }),
        Ok(Err(e @ (DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch))) => {
            Err(database_error(path, e))
        }
        _ => Ok(Held { _db: None }),
    }
}

/// A store could not be put into the place of another.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The copy could not be made or did not prove.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// Somebody has the store of that place open.
    #[error(transparent)]
    Held(#[from] OpenError),
    /// A name could not be changed.
    #[error("cannot put {path} into place: {source}")]
    Name {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Puts a copy of a snapshot into a place. What stood there is kept under another name, which is
/// returned; at every moment one of the two, whole, has the place's name.
///
/// # Errors
///
/// [`PlaceError`], or what `prove` returned about the copy; the place is as it was then.
pub fn replace<E: From<PlaceError> + From<CopyError>>(
    snapshot: &Snapshot,
    path: &Path,
    prove: impl FnOnce(&Snapshot) -> Result<(), E>,
) -> Result<Option<PathBuf>, E> {
    let failed = |source| PlaceError::Name {
        path: path.to_owned(),
        source,
    };
    if fs::symlink_metadata(path).is_err() {
        copy_proven(snapshot, path, prove)?;
        return Ok(None);
    }
    let held = hold(path).map_err(PlaceError::from)?;
    let new = beside(path, &format!(".restoring-{}", std::process::id()));
    // One that a crash left behind was never anybody's store.
    let _ = fs::remove_file(&new);
    copy_proven(snapshot, &new, prove)?;
    let kept = keep(path).and_then(|kept| {
        fs::rename(&new, path)?;
        sync_dir(parent(path))?;
        Ok(kept)
    });
    drop(held);
    if kept.is_err() {
        let _ = fs::remove_file(&new);
    }
    Ok(Some(kept.map_err(failed)?))
}

/// Gives a file a second name.
fn keep(path: &Path) -> io::Result<PathBuf> {
    for n in 1..=MAX_KEPT {
        let kept = beside(path, &format!(".before-restore-{n}"));
        match fs::hard_link(path, &kept) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Ok(()) => return Ok(kept),
            // A file system without links: the place is empty for a moment.
            Err(_) if !kept.exists() => return fs::rename(path, &kept).map(|()| kept),
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other("too many stores are kept beside it"))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(suffix);
    path.with_file_name(name)
}
