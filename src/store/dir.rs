//! Directories: private, and their entries durable.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The directory that holds a file.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(windows) {
        // Directories cannot be opened there, and their entries are journaled.
        return Ok(());
    }
    File::open(dir)?.sync_all()
}

/// Creates a directory and its parents, 0700, each durable in its own parent: a store whose
/// directory vanishes with the power is lost as well. The empty path is the current directory.
///
/// # Errors
///
/// What the system said.
pub fn create_private_dir(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let above = parent(dir);
    create_private_dir(above)?;
    #[cfg_attr(not(unix), expect(unused_mut, reason = "modes are for unix"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(dir) {
        // A sibling was faster.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        done => done?,
    }
    sync_dir(above)
}
