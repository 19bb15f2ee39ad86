//! Who holds a store: a hint for error messages, in a file beside it. Never trusted for anything
//! else.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Path of the hint of a store.
fn hint_path(store: &Path) -> PathBuf {
    let mut name = store.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".owner");
    store.with_file_name(name)
}

/// Writes this process's id beside the store at each turn. Failures are ignored: a missing hint
/// only makes a message shorter.
#[derive(Debug)]
pub(super) struct OwnerHint {
    file: Option<File>,
}

impl OwnerHint {
    pub(super) fn new(store: Option<&Path>) -> Self {
        let file = store.and_then(|store| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(hint_path(store)).ok()
        });
        OwnerHint { file }
    }

    pub(super) fn write(&mut self) {
        let Some(file) = &mut self.file else { return };
        let text = format!("{:<10}\n", std::process::id());
        let _ = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(text.as_bytes()));
    }
}

/// The process that wrote the hint last.
pub(super) fn read(store: &Path) -> Option<u32> {
    fs::read_to_string(hint_path(store))
        .ok()?
        .trim()
        .parse()
        .ok()
}
