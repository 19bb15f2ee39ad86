//! Secret keys on disk.
//!
//! Three rules, because a leaked or half-written key cannot be repaired afterwards:
//!
//! 1. A key that others can read is not loaded. The error names the command that mends it.
//! 2. A key file appears complete or not at all: it is written under a temporary name, synced,
//!    and linked into place without replacing anything.
//! 3. Replacing is explicit and swaps the directory entry. A symbolic link at the path is
//!    replaced, never followed.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::types::id::KeyTextError;
use crate::types::limit::MAX_KEY_FILE_BYTES;
use crate::types::secret::Secret;
use crate::types::text::shell_word;

use crate::crypto::keyfile::{parse_key_text, print_key_text};
use crate::crypto::sign::SigningIdentity;

/// What to do about a key file that others can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPermissions {
    /// Refuse it.
    Private,
    /// Load it all the same; the operator said so.
    AllowOpen,
}

/// Whether a new key may replace an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse when anything is at the path, a dangling symbolic link included.
    Keep,
    /// Replace the entry atomically.
    Replace,
}

/// Loads an identity.
///
/// The permissions are those of the opened file, so swapping the path in between changes nothing.
/// Unix only; elsewhere the platform's access lists rule.
///
/// # Errors
///
/// [`LoadKeyError`], one variant per reason.
pub fn load(path: &Path, permissions: KeyPermissions) -> Result<SigningIdentity, LoadKeyError> {
    let io = |source| LoadKeyError::Io {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LoadKeyError::Missing {
            path: path.to_owned(),
        },
        _ => io(source),
    })?;
    let meta = file.metadata().map_err(io)?;
    // Before its mode is looked at: the advice to change that would be wrong.
    if meta.is_dir() {
        return Err(io(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    if permissions == KeyPermissions::Private {
        refuse_open_mode(path, &meta)?;
    }
    // Filled in place up to its capacity, so no partial copy of the key is left on the heap.
    let mut bytes = Secret::new(Vec::with_capacity(MAX_KEY_FILE_BYTES + 1));
    let limit = u64::try_from(MAX_KEY_FILE_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    file.take(limit)
        .read_to_end(bytes.expose_mut())
        .map_err(io)?;
    if bytes.expose().len() > MAX_KEY_FILE_BYTES {
        return Err(LoadKeyError::TooLong {
            path: path.to_owned(),
        });
    }
    let text = std::str::from_utf8(bytes.expose()).map_err(|_| LoadKeyError::NotUtf8 {
        path: path.to_owned(),
    })?;
    let seed = parse_key_text(text).map_err(|source| LoadKeyError::Text {
        path: path.to_owned(),
        source,
    })?;
    Ok(SigningIdentity::from_seed(&seed))
}

#[cfg(unix)]
fn refuse_open_mode(path: &Path, meta: &fs::Metadata) -> Result<(), LoadKeyError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(LoadKeyError::OpenToOthers {
        path: path.to_owned(),
        mode,
        command: mend_command(path),
    })
}

#[cfg(not(unix))]
fn refuse_open_mode(_path: &Path, _meta: &fs::Metadata) -> Result<(), LoadKeyError> {
    Ok(())
}

/// `chmod 600 PATH`, quoted for a shell where the path needs it.
fn mend_command(path: &Path) -> String {
    let place = path.display().to_string();
    let word = shell_word(&place);
    let dash = if word.starts_with('-') || word.starts_with("'-") {
        "-- "
    } else {
        ""
    };
    format!("chmod 600 {dash}{word}")
}

/// Why a key file was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadKeyError {
    /// No file there.
    #[error("no key file at {0}; make one with `interlink-keygen --out {1}`", path.display(), shell_word(&path.display().to_string()))]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Group or others have rights on the file.
    #[error("the key file {} is open to other users (mode {mode:04o}); run: {command}", path.display())]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its mode bits.
        mode: u32,
        /// The command that mends it.
        command: String,
    },
    /// Longer than any key file.
    #[error("{} is too long to be a key file", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Not text.
    #[error("{} is not a key file: not UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },
    /// Text, but not a key.
    #[error("{} is not a key file: {source}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; never quotes it.
        source: KeyTextError,
    },
    /// The operating system said no.
    #[error("cannot read the key file {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
}

/// Writes a new key file: mode 0600, complete or absent, missing parent directories made with
/// mode 0700. When this returns, file, name and new directories are on the disk.
///
/// # Errors
///
/// [`CreateKeyError::Exists`] under [`Existing::Keep`] when anything is at the path;
/// [`CreateKeyError::NotAFile`] when what is there is neither a file nor a symbolic link;
/// [`CreateKeyError::Io`] otherwise. The path is unchanged after an error, except that an error
/// of the last directory sync leaves the complete file in place.
pub fn create(
    path: &Path,
    seed: &Secret<[u8; 32]>,
    existing: Existing,
) -> Result<(), CreateKeyError> {
    let io = |source| CreateKeyError::Io {
        path: path.to_owned(),
        source,
    };
    if path.file_name().is_none() {
        return Err(io(io::Error::from(io::ErrorKind::InvalidInput)));
    }
    // Checked again, atomically, by the link below; this one only avoids useless work.
    if existing == Existing::Keep && fs::symlink_metadata(path).is_ok() {
        return Err(CreateKeyError::Exists {
            path: path.to_owned(),
        });
    }
    // A rename would replace a device or a socket just as well.
    if fs::symlink_metadata(path).is_ok_and(|m| !m.is_file() && !m.is_symlink()) {
        return Err(CreateKeyError::NotAFile {
            path: path.to_owned(),
        });
    }
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    make_private_dirs(dir).map_err(io)?;
    let temp = write_temp(dir, seed).map_err(io)?;
    match existing {
        Existing::Replace => fs::rename(&temp.path, path).map_err(io)?,
        Existing::Keep => {
            fs::hard_link(&temp.path, path).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => CreateKeyError::Exists {
                    path: path.to_owned(),
                },
                _ => io(source),
            })?
        }
    }
    drop(temp);
    sync_dir(dir).map_err(io)
}

/// Why a key file was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateKeyError {
    /// Something is at the path already.
    #[error("{} exists already; to replace the identity in it for good, add --force", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// A directory, a device, a socket or a pipe is at the path.
    #[error("{} is not a file; a key does not replace it", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The operating system said no.
    #[error("cannot write the key file {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
}

/// A file under a temporary name, removed on drop whatever happened.
struct TempFile {
    path: PathBuf,
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // Gone already after a rename; anything else cannot be helped here.
        let _ = fs::remove_file(&self.path);
    }
}

/// Names to try before giving up: each is taken only by a crashed run of the same process id.
const TEMP_ATTEMPTS: u32 = 64;

fn write_temp(dir: &Path, seed: &Secret<[u8; 32]>) -> io::Result<TempFile> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    for attempt in 0..TEMP_ATTEMPTS {
        let path = dir.join(format!(
            ".interlink-key.{}.{attempt}.tmp",
            std::process::id()
        ));
        let mut file = match options.open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        };
        let temp = TempFile { path };
        file.write_all(print_key_text(seed).expose().as_bytes())?;
        file.sync_all()?;
        return Ok(temp);
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Makes the missing part of a directory path with mode 0700 and syncs each new entry.
fn make_private_dirs(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir
        .ancestors()
        .take_while(|d| !d.as_os_str().is_empty() && fs::metadata(d).is_err())
        .collect();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    for made in missing {
        match made.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent)?,
            _ => sync_dir(Path::new("."))?,
        }
    }
    Ok(())
}

#[cfg(unix)]
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(not(unix))]
fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn seed(byte: u8) -> Secret<[u8; 32]> {
        Secret::new([byte; 32])
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_key_is_private_complete_and_alone_in_its_private_directory() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/id.key");
        create(&path, &seed(0x11), Existing::Keep).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{}\n", "ER".repeat(21) + "E")
        );
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&root.path().join("a")), 0o700);
        assert_eq!(mode(&root.path().join("a/b")), 0o700);
        assert_eq!(names(path.parent().unwrap()), ["id.key"]);
        let identity = load(&path, KeyPermissions::Private).unwrap();
        assert_eq!(identity.public().fingerprint().as_str(), "0EqyMnQr");
    }

    #[test]
    fn an_existing_file_is_kept_without_force_and_replaced_with_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("id.key");
        fs::write(&path, "precious").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let err = create(&path, &seed(1), Existing::Keep).unwrap_err();
        assert!(err.to_string().contains("--force"), "{err}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        create(&path, &seed(1), Existing::Replace).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(load(&path, KeyPermissions::Private).is_ok());
        assert_eq!(names(root.path()), ["id.key"]);
    }

    #[test]
    fn only_files_and_links_are_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        for existing in [Existing::Replace, Existing::Keep] {
            assert!(create(&path, &seed(1), existing).is_err());
        }
        let err = create(root.path(), &seed(1), Existing::Replace).unwrap_err();
        assert!(matches!(err, CreateKeyError::NotAFile { .. }), "{err}");
        assert_eq!(names(root.path()), ["socket"]);
        assert!(!fs::symlink_metadata(&path).unwrap().is_file());
        let err = load(root.path(), KeyPermissions::Private).unwrap_err();
        assert!(!err.to_string().contains("chmod"), "{err}");
    }

    #[test]
    fn a_symbolic_link_is_never_written_through() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("id.key");
        let target = root.path().join("elsewhere");
        symlink(&target, &path).unwrap();
        let err = create(&path, &seed(1), Existing::Keep).unwrap_err();
        assert!(matches!(err, CreateKeyError::Exists { .. }), "{err}");
        assert!(!target.exists());
        create(&path, &seed(1), Existing::Replace).unwrap();
        assert!(!target.exists());
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_with_the_command_that_mends_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("id.key");
        create(&path, &seed(1), Existing::Keep).unwrap();
        for open in [0o644, 0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
            let err = load(&path, KeyPermissions::Private)
                .unwrap_err()
                .to_string();
            assert!(
                err.contains(&format!("chmod 600 {}", path.display())),
                "{err}"
            );
            assert!(err.contains(&format!("{open:04o}")), "{err}");
            assert!(load(&path, KeyPermissions::AllowOpen).is_ok());
        }
        for private in [0o600, 0o400] {
            fs::set_permissions(&path, fs::Permissions::from_mode(private)).unwrap();
            assert!(load(&path, KeyPermissions::Private).is_ok());
        }
    }

    #[test]
    fn the_mending_command_survives_a_shell() {
        assert_eq!(mend_command(Path::new("/a/b.key")), "chmod 600 /a/b.key");
        assert_eq!(
            mend_command(Path::new("/a b/it's")),
            r#"chmod 600 '/a b/it'"'"'s'"#
        );
        assert_eq!(mend_command(Path::new("-x")), "chmod 600 -- -x");
    }

    #[test]
    fn errors_never_quote_the_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("id.key");
        for (text, word) in [
            ("hunter2".to_owned(), "7 bytes"),
            ("x".repeat(MAX_KEY_FILE_BYTES + 1), "too long"),
            (format!("{}=", "E".repeat(42)), "byte 42"),
        ] {
            fs::write(&path, &text).unwrap();
            let err = load(&path, KeyPermissions::AllowOpen)
                .unwrap_err()
                .to_string();
            assert!(err.contains(word) && !err.contains(&text), "{err}");
        }
        assert!(matches!(
            load(&root.path().join("none"), KeyPermissions::Private),
            Err(LoadKeyError::Missing { .. })
        ));
    }
}
