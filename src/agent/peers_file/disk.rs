//! Files and folders of the allowlist.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The name under which a file is remembered: its folder without symbolic links, then its own
/// name. The lock stands beside the file under that name, so two names are two files, also where
/// one is a link to the other.
pub(super) fn full_path(path: &Path) -> io::Result<String> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let full = fs::canonicalize(parent)?.join(path.file_name().unwrap_or_default());
    Ok(full.to_string_lossy().into_owned())
}

/// The lock file beside a file; the public program uses the same.
pub(super) fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".lock");
    path.with_file_name(name)
}

/// Replaces a file in one step: readers see the old text or the new one, also after a crash. The
/// rights of the old file stay.
pub(super) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    // A symbolic link keeps pointing to the file that it names.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut temp = tempfile::Builder::new()
        .prefix(".peers-")
        .tempfile_in(parent)?;
    if let Ok(meta) = fs::metadata(&path) {
        temp.as_file().set_permissions(meta.permissions())?;
    }
    temp.write_all(text)?;
    temp.as_file().sync_all()?;
    temp.persist(&path).map_err(|e| e.error)?;
    #[cfg(unix)]
    File::open(parent)?.sync_all()?;
    Ok(())
}
