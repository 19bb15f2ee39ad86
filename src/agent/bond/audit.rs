//! The file `audit.log`, written from the events of the log.
//!
//! Nothing is written here that is not an event first: after every record the file is brought up to the
//! log, so a line that a crash prevented is written with the next one, by whichever process of the
//! identity comes first. Several processes write one file, one at a time, behind a lock beside it. A
//! last line that a crash cut off stays, and the line after it says so. What is durable is the log; the
//! file is not synced.
//!
//! At [`MAX_AUDIT_FILE_BYTES`] the file becomes `audit.log.1` (and that one `.2`, up to
//! [`MAX_AUDIT_FILES`]; the oldest goes), and the first line of the new one continues the chain.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::codec::frame::parse_prefix;
use crate::domain::audit::{COMPACTED, Chain, Entry, Source, is_bond, lines};
use crate::domain::query::agent as query;
use crate::event::Recorded;
use crate::event::agent::AgentEvent;
use crate::store::{ReadError, Snapshot};
use crate::types::id::PublicKey;
use crate::types::limit::{MAX_AUDIT_FILE_BYTES, MAX_AUDIT_FILES};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Name of the file in its folder.
pub const FILE_NAME: &str = "audit.log";

/// Longest wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is tried meanwhile.
const TURN: Duration = Duration::from_millis(5);

/// The file was not brought up to the log. The next attempt does it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The file or its folder.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process writes and does not end.
    #[error("another process holds {}", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
    },
    /// The log.
    #[error(transparent)]
    Log(#[from] ReadError),
}

/// `audit.log` of an identity. One for each process; clones of the handle would not share what they
/// know, so it is kept behind an `Arc`.
#[derive(Debug)]
pub struct AuditFile {
    folder: PathBuf,
    identity: String,
    known: Mutex<Known>,
}

/// What this process knows of the file.
#[derive(Debug)]
struct Known {
    chain: Chain,
    file: FileId,
    /// Bytes that the chain has taken.
    offset: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    #[cfg(unix)]
    fn of(meta: &fs::Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt as _;
        FileId(meta.dev(), meta.ino())
    }

    #[cfg(not(unix))]
    fn of(_meta: &fs::Metadata) -> FileId {
        FileId::default()
    }
}

impl AuditFile {
    /// The file in a folder: that of the identity's store, or `COVALENT_HOME`. Nothing is touched
    /// before the first line.
    #[must_use]
    pub fn new(folder: PathBuf, me: &PublicKey) -> AuditFile {
        AuditFile {
            folder,
            identity: me.fingerprint().to_string(),
            known: Mutex::new(Known {
                chain: Chain::begin(),
                file: FileId::default(),
                offset: 0,
            }),
        }
    }

    /// The same for an identity with several stores (`--store-mode exclusive`): each of them counts its
    /// own records.
    #[must_use]
    pub fn of_store(folder: PathBuf, me: &PublicKey, store: &Path) -> AuditFile {
        AuditFile {
            identity: label(me.fingerprint().as_str(), store),
            ..AuditFile::new(folder, me)
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(FILE_NAME)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(FILE_NAME);
        name.push(suffix);
        self.folder.join(name)
    }

    /// Writes the lines of all events that have none yet; gives how many lines that were. `newest` is
    /// a record that is known to be there: an identity without a line begins with it, or with the
    /// oldest sealed session that is remembered. May block for two seconds, and for the disk.
    ///
    /// # Errors
    ///
    /// [`AuditError`]; the next call makes up for it.
    pub fn catch_up(
        &self,
        log: &Snapshot,
        newest: Seq,
        now: UnixMillis,
    ) -> Result<usize, AuditError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        make_folder(&self.folder).map_err(|source| AuditError::Io {
            path: self.folder.clone(),
            source,
        })?;
        let _lock = self.lock()?;
        let failed = |source| AuditError::Io {
            path: self.path(),
            source,
        };
        let mut file = self.open().map_err(failed)?;
        let size = self.learn(&mut file, &mut known).map_err(failed)?;
        let mut text = String::new();
        if size.open_end {
            text.push('\n');
        }
        let pid = std::process::id();
        text.extend(known.chain.own_up(&self.identity, now, pid));
        let written = self.missing(log, newest, now, &mut known.chain, &mut text)?;
        if text.is_empty() {
            return Ok(0);
        }
        file.write_all(text.as_bytes()).map_err(failed)?;
        known.offset = size.bytes + text.len() as u64;
        if known.offset >= MAX_AUDIT_FILE_BYTES {
            self.rotate(&mut known, now).map_err(failed)?;
        }
        Ok(written)
    }

    fn lock(&self) -> Result<File, AuditError> {
        let path = self.beside(".lock");
        let failed = |source| AuditError::Io {
            path: path.clone(),
            source,
        };
        let file = private(OpenOptions::new().write(true).create(true).truncate(false))
            .open(&path)
            .map_err(failed)?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if since.elapsed() < PATIENCE => thread::sleep(TURN),
                Err(TryLockError::WouldBlock) => return Err(AuditError::Held { path }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }

    fn open(&self) -> io::Result<File> {
        private(OpenOptions::new().read(true).append(true).create(true)).open(self.path())
    }

    /// Takes what other processes wrote since.
    fn learn(&self, file: &mut File, known: &mut Known) -> io::Result<Size> {
        let meta = file.metadata()?;
        if FileId::of(&meta) != known.file || meta.len() < known.offset {
            // Rotated by another process, put in place by somebody, or new.
            known.chain = if self.beside(".1").exists() {
                Chain::resume()
            } else {
                Chain::begin()
            };
            known.file = FileId::of(&meta);
            known.offset = 0;
        }
        file.seek(SeekFrom::Start(known.offset))?;
        let mut bytes = vec![];
        file.read_to_end(&mut bytes)?;
        let open_end = bytes.last().is_some_and(|last| *last != b'\n');
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            // Whoever verifies tells of faults; who writes goes on behind them.
            let _ = known.chain.take(line.strip_suffix(b"\n").unwrap_or(line));
        }
        known.offset += bytes.len() as u64;
        Ok(Size {
            bytes: known.offset,
            open_end,
        })
    }

    /// Puts the lines together that events of the log miss.
    fn missing(
        &self,
        log: &Snapshot,
        newest: Seq,
        now: UnixMillis,
        chain: &mut Chain,
        text: &mut String,
    ) -> Result<usize, AuditError> {
        let seen = chain.seen(&self.identity);
        let opened = query::bonds(log).map_err(ReadError::from)?;
        let mut opened = opened.iter().map(|(seq, _)| *seq);
        let base = log.base()?;
        let start = match seen {
            Some(seen) => {
                if seen.record < base && opened.any(|seq| seq > seen.record && seq <= base) {
                    let params = json!({ "after": seen.record, "to": base });
                    let entry = Entry {
                        tool: COMPACTED,
                        source: Source::System,
                        params,
                        pid: std::process::id(),
                    };
                    text.push_str(&chain.append(&self.identity, now, None, &entry));
                }
                seen.record
            }
            None => opened.next().map_or(newest, |oldest| oldest.min(newest)),
        };
        let mut written = 0;
        log.frames(start, |seq, bytes| {
            let frame = parse_prefix(bytes);
            if !frame.is_ok_and(|(frame, _)| is_bond(frame.kind)) {
                return Ok(ControlFlow::Continue(()));
            }
            let record = Recorded::<AgentEvent>::from_frame(seq, bytes)?;
            let done = match seen {
                Some(seen) if seen.record == seq => seen.lines as usize,
                _ => 0,
            };
            for entry in lines(&record.event).iter().skip(done) {
                text.push_str(&chain.append(&self.identity, record.at, Some(seq), entry));
                written += 1;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(written)
    }

    /// Sets the full file aside.
    fn rotate(&self, known: &mut Known, now: UnixMillis) -> io::Result<()> {
        for n in (1..MAX_AUDIT_FILES).rev() {
            let (old, new) = (
                self.beside(&format!(".{n}")),
                self.beside(&format!(".{}", n + 1)),
            );
            match fs::rename(old, new) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        fs::rename(self.path(), self.beside(".1"))?;
        let mut file = self.open()?;
        let name = format!("{FILE_NAME}.1");
        let line = known
            .chain
            .rotate(&self.identity, now, std::process::id(), &name);
        file.write_all(line.as_bytes())?;
        known.file = FileId::of(&file.metadata()?);
        known.offset = line.len() as u64;
        Ok(())
    }
}

/// How lines name who wrote them: by the fingerprint, and where the store is not the identity's common one
/// also by the store's name.
#[must_use]
pub fn label(fingerprint: &str, store: &Path) -> String {
    match store.file_stem().and_then(|stem| stem.to_str()) {
        Some("agent") | None => fingerprint.to_owned(),
        Some(stem) => format!("{fingerprint}/{stem}"),
    }
}

struct Size {
    bytes: u64,
    /// Whether the last line has no end.
    open_end: bool,
}

/// The files of a folder in the order in which they were written: set aside ones, then the current one.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = (1..=MAX_AUDIT_FILES)
        .rev()
        .map(|n| folder.join(format!("{FILE_NAME}.{n}")))
        .collect();
    all.push(folder.join(FILE_NAME));
    all.retain(|path| path.is_file());
    all
}

/// Makes the folder where there is none, for its owner only.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Files that only their owner reads, and that are no links to somewhere else.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        options.mode(0o600).custom_flags(no_follow);
    }
    options
}
