//! New files that have no name until they are whole.
//!
//! Whatever ends the process meanwhile, an interrupt or a kill, leaves nothing behind then. On Linux such a
//! file is reached by its descriptor; where that is not possible it has a hidden name, which is removed
//! unless the process is killed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// See the module's documentation.
pub struct Fresh(Kind);

enum Kind {
    /// Without a name; the path leads to it while it is open.
    #[cfg(target_os = "linux")]
    Unnamed(File, PathBuf),
    Hidden(NamedTempFile),
}

impl Fresh {
    /// An empty file (0600) in a folder. `prefix` begins its hidden name, where it needs one.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub fn in_folder(folder: &Path, prefix: &str) -> io::Result<Fresh> {
        #[cfg(target_os = "linux")]
        if let Some(fresh) = unnamed(folder) {
            return Ok(fresh);
        }
        Fresh::hidden(folder, prefix)
    }

    /// The same with a hidden name.
    pub(super) fn hidden(folder: &Path, prefix: &str) -> io::Result<Fresh> {
        let mut builder = tempfile::Builder::new();
        Ok(Fresh(Kind::Hidden(
            builder.prefix(prefix).tempfile_in(folder)?,
        )))
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        match &self.0 {
            #[cfg(target_os = "linux")]
            Kind::Unnamed(file, _) => file,
            Kind::Hidden(file) => file.as_file(),
        }
    }

    /// A path that leads to it in this process, before it has its name.
    pub(super) fn path(&self) -> PathBuf {
        match &self.0 {
            #[cfg(target_os = "linux")]
            Kind::Unnamed(_, path) => path.clone(),
            Kind::Hidden(file) => file.path().to_owned(),
        }
    }

    /// Gives it its name, which must be free.
    ///
    /// # Errors
    ///
    /// What the system said; [`io::ErrorKind::AlreadyExists`] when something has the name.
    pub fn publish(self, path: &Path) -> io::Result<()> {
        match self.0 {
            #[cfg(target_os = "linux")]
            Kind::Unnamed(_file, from) => {
                use rustix::fs::{AtFlags, CWD, linkat};
                Ok(linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
            }
            Kind::Hidden(file) => Ok(file.persist_noclobber(path).map(drop)?),
        }
    }

    /// Gives it its name; what has it gives way. Only for one with a hidden name.
    pub(super) fn replace(self, path: &Path) -> io::Result<()> {
        match self.0 {
            #[cfg(target_os = "linux")]
            Kind::Unnamed(..) => self.publish(path),
            Kind::Hidden(file) => Ok(file.persist(path).map(drop)?),
        }
    }
}

/// `None` where the file system or the system has no such files.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<Fresh> {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{Mode, OFlags, open};

    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, Mode::RUSR | Mode::WUSR).ok()?);
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let (seen, own) = (std::fs::metadata(&path).ok()?, file.metadata().ok()?);
    let same = (seen.dev(), seen.ino()) == (own.dev(), own.ino());
    same.then_some(Fresh(Kind::Unnamed(file, path)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_has_no_name_before_it_is_published_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let there = || fs::read_dir(dir.path()).unwrap().count();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        for hidden in [false, true] {
            let new = |text: &str| {
                let fresh = match hidden {
                    true => Fresh::hidden(dir.path(), ".x-"),
                    false => Fresh::in_folder(dir.path(), ".x-"),
                };
                let fresh = fresh.unwrap();
                fresh.file().write_all(text.as_bytes()).unwrap();
                assert_eq!(fs::read_to_string(fresh.path()).unwrap(), text);
                fresh
            };
            let fresh = new("one");
            if cfg!(target_os = "linux") && !hidden {
                assert_eq!(there(), 0);
            }
            fresh.publish(&a).unwrap();
            let taken = new("two").publish(&a).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
            std::os::unix::fs::symlink("/nowhere", &b).unwrap();
            new("three").publish(&b).unwrap_err();
            drop(new("four"));
            assert_eq!(there(), 2);
            assert_eq!(fs::read_to_string(&a).unwrap(), "one");
            fs::remove_file(&a).unwrap();
            fs::remove_file(&b).unwrap();
        }
    }
}
