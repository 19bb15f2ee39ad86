//! Files and folders of the allowlist.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[cfg(feature = "cli")]
use crate::crypto::hash::sha256;
use crate::types::limit::MAX_PEERS_FILE_BYTES;

/// What changes when a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: (u64, u64, i64, i64),
}

impl Stamp {
    pub(super) fn of(meta: &fs::Metadata) -> Stamp {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Stamp {
            len: meta.len(),
            modified: meta.modified().ok(),
            #[cfg(unix)]
            inode: (meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// What the file says, with its bytes.
pub(super) struct Read {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: Stamp,
}

/// Reads the file. It is stamped before it is read, so that what is saved meanwhile is seen to differ.
pub(super) fn read(path: &Path) -> io::Result<Read> {
    let file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    let limit = u64::try_from(MAX_PEERS_FILE_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Read { bytes, stamp })
}

/// SHA-256 of the file as it stands.
#[cfg(feature = "cli")]
pub(crate) fn digest(path: &Path) -> io::Result<[u8; 32]> {
    Ok(sha256(&read(path)?.bytes))
}

/// The name under which a file is remembered: its folder without symbolic links, then its own
/// name. The lock stands beside the file under that name, so two names are two files, also where
/// one is a link to the other.
pub(crate) fn full_path(path: &Path) -> io::Result<String> {
    let full = fs::canonicalize(folder(path))?.join(path.file_name().unwrap_or_default());
    Ok(full.to_string_lossy().into_owned())
}

/// The lock file beside a file; the public program uses the same.
pub(super) fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".lock");
    path.with_file_name(name)
}

/// Where the next version stands until it is the file.
fn next_path(path: &Path) -> PathBuf {
    // A symbolic link keeps pointing to the file that it names.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".next");
    path.with_file_name(name)
}

/// Puts the next version beside the file, durably. The rights of the old file stay.
pub(super) fn stage(path: &Path, text: &[u8]) -> io::Result<()> {
    let next = next_path(path);
    let parent = folder(&next);
    let mut temp = tempfile::Builder::new()
        .prefix(".peers-")
        .tempfile_in(parent)?;
    if let Ok(meta) = fs::metadata(path) {
        temp.as_file().set_permissions(meta.permissions())?;
    }
    temp.write_all(text)?;
    temp.as_file().sync_all()?;
    temp.persist(&next).map_err(|e| e.error)?;
    sync(parent)
}

/// Makes the staged version the file in one step: readers see the old text or the new one, also
/// after a crash, and the staged one is gone exactly when it became the file.
pub(super) fn replace(path: &Path) -> io::Result<()> {
    let next = next_path(path);
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    fs::rename(&next, target)?;
    sync(folder(&next))
}

/// A version that was staged and did not become the file.
pub(super) fn staged(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(next_path(path)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Drops a staged version that nobody needs.
pub(super) fn unstage(path: &Path) -> io::Result<()> {
    match fs::remove_file(next_path(path)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
