//! Paths as Unix resolves them: through handles of directories, without links.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, fsync, linkat,
    mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::{IncomingError, OutgoingError};

/// Attempts to create a hidden file that a sweep takes for a leftover.
const STAGE_ATTEMPTS: u32 = 4;
/// Leftovers that one sweep removes.
const MAX_SWEPT: usize = 1000;

/// Non-blocking, so that a pipe without a writer does not hold us up.
fn read_flags() -> OFlags {
    OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW
}

/// Opens the file at an absolute path none of whose components is a link.
pub(super) fn open_file(full: &Path) -> Result<File, OutgoingError> {
    let path = full.to_owned();
    open(full).map(File::from).map_err(|e| match e {
        Errno::LOOP => OutgoingError::Link { path },
        Errno::NOENT | Errno::NOTDIR => OutgoingError::Missing { path },
        Errno::ACCESS | Errno::PERM => OutgoingError::Denied { path },
        // Sockets cannot be opened.
        Errno::NXIO | Errno::OPNOTSUPP => OutgoingError::NotAFile { path },
        source => OutgoingError::Io {
            path,
            source: source.into(),
        },
    })
}

/// Fills the buffer from a place in a file.
pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn open(full: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, full, read_flags(), Mode::empty(), resolve) {
        // Kernels before 5.6, and filters of containers that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(full),
        opened => opened,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open(full: &Path) -> Result<OwnedFd, Errno> {
    walk(full)
}

/// The same, one component after the other.
pub(super) fn walk(full: &Path) -> Result<OwnedFd, Errno> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let through = OFlags::PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let through = OFlags::RDONLY;
    let through = through | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, "/", through, Mode::empty())?;
    let mut components = full
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .peekable();
    while let Some(name) = components.next() {
        let last = components.peek().is_none();
        let flags = if last { read_flags() } else { through };
        match openat(&at, name, flags, Mode::empty()) {
            Ok(next) if last => return Ok(next),
            Ok(next) => at = next,
            Err(Errno::NOTDIR) if is_link(&at, name) => return Err(Errno::LOOP),
            // What some systems say of a link that is not to be followed.
            Err(Errno::MLINK) => return Err(Errno::LOOP),
            Err(e) => return Err(e),
        }
    }
    Err(Errno::ISDIR)
}

fn is_link(at: &OwnedFd, name: &OsStr) -> bool {
    statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// A directory that only this user enters, by its handle.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

/// A complete, synced file under a hidden name. Removed on drop unless it was published.
pub(super) struct Staged<'d> {
    directory: &'d Directory,
    hidden: String,
    published: Cell<bool>,
    /// Locked for as long as it is ours, so that a sweep of another process leaves it alone.
    _file: File,
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.published.get() {
            self.directory.discard(&self.hidden);
        }
    }
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Directory, IncomingError> {
        let io = |e: std::io::Error| IncomingError::Io {
            path: path.to_owned(),
            source: e,
        };
        let name = path.file_name().ok_or_else(|| io(Errno::INVAL.into()))?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut make = fs::DirBuilder::new();
        make.recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(io)?;
        let real = fs::canonicalize(parent).map_err(io)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = openat(CWD, &real, flags, Mode::empty()).map_err(|e| io(e.into()))?;
        match mkdirat(&above, name, Mode::RWXU) {
            Ok(()) => fsync(&above).map_err(|e| io(e.into()))?,
            Err(Errno::EXIST) => {}
            Err(e) => return Err(io(e.into())),
        }
        let path = real.join(name);
        let fd = match openat(&above, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => {
                return Err(IncomingError::NotADirectory { path });
            }
            Err(e) => return Err(io(e.into())),
        };
        let stat = fstat(&fd).map_err(|e| io(e.into()))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(IncomingError::Foreign { path });
        }
        if Mode::from_raw_mode(stat.st_mode) != Mode::RWXU {
            fchmod(&fd, Mode::RWXU).map_err(|e| io(e.into()))?;
        }
        Ok(Directory { fd, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn io(&self, source: impl Into<std::io::Error>) -> IncomingError {
        IncomingError::Io {
            path: self.path.clone(),
            source: source.into(),
        }
    }

    /// The path still leads to the directory that is held.
    fn same(&self) -> Result<(), IncomingError> {
        let held = fstat(&self.fd).map_err(|e| self.io(e))?;
        match statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino) => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(IncomingError::Replaced {
                path: self.path.clone(),
            }),
            Err(e) => Err(self.io(e)),
        }
    }

    pub(super) fn stage(&self, hidden: &str, bytes: &[u8]) -> Result<Staged<'_>, IncomingError> {
        let mut file = self.create(hidden)?;
        let staged = self.adopt(hidden.to_owned(), file.try_clone().map_err(|e| self.io(e)));
        let staged = staged?;
        file.write_all(bytes).map_err(|e| self.io(e))?;
        file.sync_all().map_err(|e| self.io(e))?;
        Ok(staged)
    }

    /// Makes a hidden file, locked for as long as it is open. It goes with [`Directory::discard`],
    /// or by the drop of what [`Directory::adopt`] makes of it.
    pub(super) fn create(&self, hidden: &str) -> Result<File, IncomingError> {
        self.same()?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut attempts = 0;
        let file = loop {
            let fd = openat(&self.fd, hidden, flags, mode).map_err(|e| self.io(e))?;
            // Where there are no locks there is no sweep either: it needs one.
            let _ = flock(&fd, FlockOperation::LockExclusive);
            attempts += 1;
            let links = fstat(&fd).map_err(|e| self.io(e))?.st_nlink;
            if links > 0 || attempts >= STAGE_ATTEMPTS {
                break fd;
            }
        };
        // Whatever the process's mask is.
        if let Err(e) = fchmod(&file, mode) {
            self.discard(hidden);
            return Err(self.io(e));
        }
        Ok(File::from(file))
    }

    /// Takes care of a hidden file that [`Directory::create`] made and that is on the disk.
    pub(super) fn adopt(
        &self,
        hidden: String,
        file: Result<File, IncomingError>,
    ) -> Result<Staged<'_>, IncomingError> {
        match file {
            Ok(file) => Ok(Staged {
                directory: self,
                hidden,
                published: Cell::new(false),
                _file: file,
            }),
            Err(e) => {
                self.discard(&hidden);
                Err(e)
            }
        }
    }

    /// Removes a hidden file.
    pub(super) fn discard(&self, hidden: &str) {
        let _ = unlinkat(&self.fd, hidden, AtFlags::empty());
    }

    /// Gives a staged file its name; `false` when something has that name.
    pub(super) fn publish(&self, staged: &Staged<'_>, name: &str) -> Result<bool, IncomingError> {
        self.same()?;
        match rename(&self.fd, &staged.hidden, name) {
            Ok(()) => staged.published.set(true),
            Err(Errno::EXIST) => return Ok(false),
            Err(e) => return Err(self.io(e)),
        }
        // Whoever is told a path must find the file there.
        let settled = fsync(&self.fd)
            .map_err(|e| self.io(e))
            .and_then(|()| self.same());
        if settled.is_err() {
            let _ = unlinkat(&self.fd, name, AtFlags::empty());
        }
        settled.map(|()| true)
    }

    /// Removes files with such names that nobody holds. What does not work is left for next time.
    pub(super) fn sweep(&self, is_hidden: impl Fn(&str) -> bool) {
        let Ok(entries) = Dir::read_from(&self.fd) else {
            return;
        };
        let leftovers = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_str().is_ok_and(&is_hidden))
            .take(MAX_SWEPT);
        for entry in leftovers {
            let Ok(fd) = openat(&self.fd, entry.file_name(), read_flags(), Mode::empty()) else {
                continue;
            };
            let is_file = fstat(&fd)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
            if is_file && flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = unlinkat(&self.fd, entry.file_name(), AtFlags::empty());
            }
        }
    }
}

/// Renames unless the new name exists.
fn rename(at: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(at, from, at, to, RenameFlags::NOREPLACE) {
            Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP | Errno::PERM) => {}
            done => return done,
        }
    }
    link(at, from, to)
}

/// The same where there is no such call: for a moment the file has both names.
pub(super) fn link(at: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    linkat(at, from, at, to, AtFlags::empty())?;
    // A leftover under the hidden name is swept.
    let _ = unlinkat(at, from, AtFlags::empty());
    Ok(())
}
