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

/// The process that wrote the hint last, if it lives.
pub(super) fn read(store: &Path) -> Option<u32> {
    let text = fs::read_to_string(hint_path(store)).ok()?;
    let pid = text.trim().parse().ok()?;
    is_alive(pid).then_some(pid)
}

#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // Somebody else's process lives, though it may not be signalled.
    !matches!(test_kill_process(process), Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
const fn is_alive(_pid: u32) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_ended_process_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s.redb");
        OwnerHint::new(Some(&store)).write();
        assert_eq!(read(&store), Some(std::process::id()));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        fs::write(hint_path(&store), format!("{}\n", ended.id())).unwrap();
        assert_eq!(read(&store), None);
    }
}
