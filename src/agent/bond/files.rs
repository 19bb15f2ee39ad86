//! Files on their way out and in.
//!
//! *Out*: a model names a path, so the path is not trusted. It must lie inside an allowed root,
//! without a symbolic link on any component; the kernel refuses links while it resolves the path, so
//! there is no moment between a check and the use. Only regular files are read, at most a bounded
//! number of bytes, and what was read is looked through for secrets ([`secrets`]).
//!
//! *In*: a human accepted bytes, so they appear under their name complete or not at all. They are
//! written to a hidden name in the same directory, synced, and moved to a name that nothing has. All
//! of it goes through one handle of the directory: who swaps the path in between gains nothing. What
//! a killed process leaves behind is hidden, and the next one removes it.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use crate::agent::random::{OsEntropy, random_hex};
use crate::crypto::hash::sha256;
use crate::domain::bond::names::{
    BaseName, NameRefusal, Types, is_closed_directory, is_secret_directory,
};
use crate::domain::bond::secrets::{self, SecretFound};
use crate::domain::machine::bond::Refusal;
use crate::types::text::visible;

#[cfg(not(unix))]
use other as system;
#[cfg(unix)]
use unix as system;

/// Numbers that are tried for a name that is taken.
const MAX_SAME_NAME: u32 = 1000;
/// Around the random part of a hidden name.
const HIDDEN: (&str, &str) = (".incoming-", ".part");

/// Where files may be sent from, and which.
#[derive(Clone, Debug)]
pub struct OutgoingRules {
    /// Allowed directories; the first one is where relative paths begin.
    pub roots: Vec<PathBuf>,
    /// Largest file in bytes, inclusive.
    pub max_bytes: u64,
    /// Which types; with [`Types::Listed`] the bytes must be UTF-8.
    pub types: Types,
}

/// A file to be sent, as it was when it was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Its base name.
    pub name: BaseName,
    /// Its bytes.
    pub content: Vec<u8>,
    /// Their SHA-256.
    pub sha256: [u8; 32],
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing")
            .field("name", &self.name)
            .field("bytes", &self.content.len())
            .finish_non_exhaustive()
    }
}

/// Why a file is not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutgoingError {
    /// No directory is allowed.
    #[error(
        "no directory is allowed to send files from; start the server in the project, or with --bond-root DIR"
    )]
    NoRoots,
    /// Outside of all roots.
    #[error(
        "{} is outside the directories that files may be sent from: {}; copy it there, or let the user add --bond-root DIR",
        shown(path),
        listed(roots)
    )]
    Outside {
        /// The path, without `.` and `..`.
        path: PathBuf,
        /// The roots.
        roots: Vec<PathBuf>,
    },
    /// A component is a symbolic link.
    #[error(
        "{} is reached through a symbolic link; name the file itself",
        shown(path)
    )]
    Link {
        /// The path.
        path: PathBuf,
    },
    /// Nothing there.
    #[error("there is no file {}; name one that exists", shown(path))]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The operating system forbids it.
    #[error(
        "{} may not be read by this user; change its rights or send another file",
        shown(path)
    )]
    Denied {
        /// The path.
        path: PathBuf,
    },
    /// A directory, a pipe, a device, a socket.
    #[error(
        "{} is not a regular file; only files are sent, one at a time",
        shown(path)
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Inside a directory that holds secrets or is hidden.
    #[error(
        "files under {component:?} are kept back, because secrets are kept there; if this one is none, send a copy from elsewhere"
    )]
    ClosedDirectory {
        /// The component, escaped.
        component: String,
    },
    /// The name is not one that travels.
    #[error("the file is not sent: {0}")]
    Name(#[from] NameRefusal),
    /// The name is not UTF-8.
    #[error("the file's name is not UTF-8; rename a copy of the file")]
    NameNotUtf8,
    /// Larger than the cap.
    #[error("the file has {size} bytes, at most {max} are sent; send a part of it")]
    TooLarge {
        /// Its bytes, as far as known.
        size: u64,
        /// The cap.
        max: u64,
    },
    /// Not text, which is all that legacy mode carries.
    #[error(
        "the file is not UTF-8 text (byte {at}); this session carries text only, and would not carry it unchanged"
    )]
    NotUtf8 {
        /// The first byte that is not.
        at: usize,
    },
    /// It seems to hold secrets.
    #[error(
        "the file seems to hold secrets: {}; take them out of a copy and send that",
        told(found)
    )]
    Secrets {
        /// Rules and lines, never the text.
        found: Vec<SecretFound>,
    },
    /// It was written to while it was read.
    #[error("the file changed while it was read; send it again when it is finished")]
    Changing,
    /// The operating system said something else.
    #[error("cannot read {}: {source}", shown(path))]
    Io {
        /// The path.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
}

impl OutgoingError {
    /// The word for it in records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            OutgoingError::NoRoots => "no_roots",
            OutgoingError::Outside { .. } => "outside",
            OutgoingError::Link { .. } => "link",
            OutgoingError::Missing { .. } => "missing",
            OutgoingError::Denied { .. } => "denied",
            OutgoingError::NotAFile { .. } => "not_a_file",
            OutgoingError::ClosedDirectory { .. } => "closed_directory",
            OutgoingError::Name(why) => why.class().name(),
            OutgoingError::NameNotUtf8 => "bad_name",
            OutgoingError::TooLarge { .. } => "too_large",
            OutgoingError::NotUtf8 { .. } => "not_text",
            OutgoingError::Secrets { .. } => "secrets",
            OutgoingError::Changing => "changing",
            OutgoingError::Io { .. } => "io",
        }
    }

    /// The rule that stopped it, where the session's machine has a word for that.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            OutgoingError::Name(why) => Some(why.class()),
            OutgoingError::NameNotUtf8 => Some(Refusal::BadName),
            OutgoingError::ClosedDirectory { .. } => Some(Refusal::BlockedName),
            OutgoingError::TooLarge { .. } => Some(Refusal::TooLarge),
            _ => None,
        }
    }
}

fn shown(path: &Path) -> String {
    visible(&path.to_string_lossy()).into_owned()
}

fn listed(roots: &[PathBuf]) -> String {
    let all: Vec<String> = roots.iter().map(|root| shown(root)).collect();
    all.join(", ")
}

fn told(found: &[SecretFound]) -> String {
    let all: Vec<String> = found
        .iter()
        .map(|f| format!("{} in line {}", f.rule, f.line))
        .collect();
    all.join(", ")
}

/// Reads a file that is to be sent. Blocks on the disk, never on a pipe.
///
/// # Errors
///
/// [`OutgoingError`]: what is wrong, and what to do about it.
pub fn open_outgoing(path: &Path, rules: &OutgoingRules) -> Result<Outgoing, OutgoingError> {
    let (full, name) = checked_name(path, &rules.roots)?;
    let content = read_whole(&system::open_file(&full)?, &full, rules.max_bytes)?;
    if rules.types == Types::Listed
        && let Err(e) = std::str::from_utf8(&content)
    {
        let at = e.valid_up_to();
        return Err(OutgoingError::NotUtf8 { at });
    }
    let name = BaseName::outgoing(&name, rules.types)?;
    let found = secrets::find(&content);
    if !found.is_empty() {
        return Err(OutgoingError::Secrets { found });
    }
    Ok(Outgoing {
        name,
        sha256: sha256(&content),
        content,
    })
}

/// Where a file is, and its base name, once neither its place nor a directory on the way keeps it back.
fn checked_name(path: &Path, roots: &[PathBuf]) -> Result<(PathBuf, String), OutgoingError> {
    let place = locate(path, roots)?;
    let name = path_name(&place)?;
    Ok((place.root.join(&place.inside), name))
}

/// All bytes of an opened file that is a regular one, at most `max`, unchanged while they are read.
fn read_whole(file: &File, path: &Path, max: u64) -> Result<Vec<u8>, OutgoingError> {
    let io = |source| OutgoingError::Io {
        path: path.to_owned(),
        source,
    };
    let before = file.metadata().map_err(io)?;
    if !before.is_file() {
        return Err(OutgoingError::NotAFile {
            path: path.to_owned(),
        });
    }
    let size = before.len();
    if size > max {
        return Err(OutgoingError::TooLarge { size, max });
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
    let mut reader = file.take(max.saturating_add(1));
    reader.read_to_end(&mut content).map_err(io)?;
    let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
    if size > max {
        return Err(OutgoingError::TooLarge { size, max });
    }
    let after = file.metadata().map_err(io)?;
    let same_time = before.modified().ok() == after.modified().ok();
    if after.len() != size || before.len() != size || !same_time {
        return Err(OutgoingError::Changing);
    }
    Ok(content)
}

/// A path inside a root.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// The root without symbolic links.
    root: PathBuf,
    /// The rest: ordinary components only, at least one.
    inside: PathBuf,
}

/// Finds the root that a path lies in, by its text: as the root is written, and as it really is.
fn locate(path: &Path, roots: &[PathBuf]) -> Result<Place, OutgoingError> {
    let first = roots.first().ok_or(OutgoingError::NoRoots)?;
    let path = if path.is_absolute() {
        plain(path)
    } else {
        plain(&first.join(path))
    };
    for root in roots {
        let Ok(real) = std::fs::canonicalize(root) else {
            continue;
        };
        let inside = path
            .strip_prefix(&real)
            .or_else(|_| path.strip_prefix(plain(root)));
        if let Ok(inside) = inside {
            if inside.as_os_str().is_empty() {
                return Err(OutgoingError::NotAFile { path });
            }
            return Ok(Place {
                root: real,
                inside: inside.to_owned(),
            });
        }
    }
    Err(OutgoingError::Outside {
        path,
        roots: roots.to_vec(),
    })
}

/// The path without `.` and `..`, by its text. Links are refused later, so text is enough.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                out.push(component);
            }
        }
    }
    out
}

/// The base name, once no directory on the way keeps it back.
fn path_name(place: &Place) -> Result<String, OutgoingError> {
    let closed = |component: &str| OutgoingError::ClosedDirectory {
        component: visible(component).into_owned(),
    };
    for component in &place.root {
        let component = component.to_string_lossy();
        if is_secret_directory(&component) {
            return Err(closed(&component));
        }
    }
    if let Some(parents) = place.inside.parent() {
        for component in parents {
            let component = component.to_string_lossy();
            if is_closed_directory(&component) {
                return Err(closed(&component));
            }
        }
    }
    let name = place.inside.file_name().unwrap_or_default();
    let name = name.to_str().ok_or(OutgoingError::NameNotUtf8)?;
    Ok(name.to_owned())
}

/// The directory of accepted files.
#[derive(Debug)]
pub struct Incoming(system::Directory);

/// Where an accepted file is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its full path, without symbolic links.
    pub path: PathBuf,
    /// Its name, with a number if the first choice was taken.
    pub name: String,
}

/// Why an accepted file is not on the disk. Nothing stands under its name then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IncomingError {
    /// The directory is a symbolic link or no directory.
    #[error(
        "{} is not a directory of its own (a symbolic link, or a file); move it away and try again",
        shown(path)
    )]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Somebody else's directory.
    #[error("{} belongs to another user; move it away and try again", shown(path))]
    Foreign {
        /// The path.
        path: PathBuf,
    },
    /// The path leads somewhere else than when it was opened.
    #[error(
        "{} was replaced while it was in use; nothing was written, try again",
        shown(path)
    )]
    Replaced {
        /// The path.
        path: PathBuf,
    },
    /// Too many files of this name.
    #[error(
        "{} holds too many files of that name; move some away and try again",
        shown(path)
    )]
    Full {
        /// The path.
        path: PathBuf,
    },
    /// The operating system said something else.
    #[error("cannot write to {}: {source}", shown(path))]
    Io {
        /// The path.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
}

impl IncomingError {
    /// The word for it in records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            IncomingError::NotADirectory { .. } => "not_a_directory",
            IncomingError::Foreign { .. } => "foreign_directory",
            IncomingError::Replaced { .. } => "replaced_directory",
            IncomingError::Full { .. } => "full",
            IncomingError::Io { .. } => "io",
        }
    }
}

impl Incoming {
    /// Removes what killed processes left behind, where there is such a directory; for the start of
    /// a process.
    pub fn tidy(path: &Path) {
        if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
            && let Err(e) = Incoming::open(path)
        {
            tracing::debug!("{e}");
        }
    }

    /// Opens the directory, makes it (0700) where it is missing, takes away the rights of others,
    /// and removes what killed processes left behind. Files that another process is writing stay.
    ///
    /// # Errors
    ///
    /// [`IncomingError`].
    pub fn open(path: &Path) -> Result<Incoming, IncomingError> {
        let directory = system::Directory::open(path)?;
        directory.sweep(|name| {
            name.strip_prefix(HIDDEN.0)
                .and_then(|rest| rest.strip_suffix(HIDDEN.1))
                .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
        });
        Ok(Incoming(directory))
    }

    /// Writes an accepted file (0600): under its name, or `stem-2.ext` and so on where that is taken
    /// by anything, a dangling link included. Nothing is overwritten and no link is followed. When
    /// this returns, bytes and name are on the disk.
    ///
    /// # Errors
    ///
    /// [`IncomingError`]; the directory is as it was then.
    pub fn place(&self, name: &BaseName, bytes: &[u8]) -> Result<Placed, IncomingError> {
        let staged = self.0.stage(&self.hidden()?, bytes)?;
        self.publish(&staged, name)
    }

    fn hidden(&self) -> Result<String, IncomingError> {
        let random = random_hex::<8>(&OsEntropy).map_err(|e| IncomingError::Io {
            path: self.0.path().to_owned(),
            source: io::Error::other(e),
        })?;
        Ok(format!("{}{random}{}", HIDDEN.0, HIDDEN.1))
    }

    fn publish(
        &self,
        staged: &system::Staged<'_>,
        name: &BaseName,
    ) -> Result<Placed, IncomingError> {
        for n in 1..=MAX_SAME_NAME {
            let name = name.numbered(n);
            if self.0.publish(staged, &name)? {
                return Ok(Placed {
                    path: self.0.path().join(&*name),
                    name: name.into_owned(),
                });
            }
        }
        Err(IncomingError::Full {
            path: self.0.path().to_owned(),
        })
    }
}

mod arriving;
pub use arriving::Arriving;
mod held;
pub use held::{Held, hold};

#[cfg(all(test, unix))]
mod tests;
