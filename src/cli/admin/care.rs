//! What the commands that take care of whole store files share.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};

use super::super::exit::Exit;
use super::endpoint::EndpointReader;
use super::error::AdminError;
use super::file::FileReader;
use super::locate::{Access, Target};
use super::reader::StoreReader as _;
use crate::domain::decide::agent::Agent;
use crate::domain::decide::bus::Bus;
use crate::event::kind::StoreKind;
use crate::store;
use crate::store::verify::verify;
use crate::store::{
    CopyError, OpenError, PlaceError, ReadError, Reader, RepairError, Snapshot, inspect,
};
use crate::wire::admin::Verification;

/// A store file could not be copied, put into place, read or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum CareError {
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Place(PlaceError),
    #[error(transparent)]
    Repair(RepairError),
    #[error("{what} is not what its log says: {difference}")]
    Unproven { what: String, difference: String },
    #[error("cannot write {}: there is no folder {}", path.display(), folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },
    #[error("there are {stores} stores, and one is meant")]
    Several { stores: usize },
    #[error("nothing says where the store belongs")]
    NoPlace,
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is no file on this machine by an absolute path", path.display())]
    Path { path: PathBuf },
    #[error("the store cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error(transparent)]
    Lines(#[from] super::lines::LinesError),
    #[error(
        "{path} was written by an older program (store format {found}; this one writes {needed}, or has \
         more tables)"
    )]
    Older {
        path: String,
        found: u32,
        needed: u32,
    },
    #[error("the storage engine stopped: {reason}")]
    Stopped { reason: String },
    #[error("there is no projection called {name:?}")]
    Projection { name: String, known: Vec<String> },
}

impl From<PlaceError> for CareError {
    fn from(e: PlaceError) -> Self {
        match e {
            PlaceError::Copy(e) => CareError::Copy(e),
            e => CareError::Place(e),
        }
    }
}

impl From<RepairError> for CareError {
    fn from(e: RepairError) -> Self {
        match e {
            RepairError::Copy(e) => CareError::Copy(e),
            e => CareError::Repair(e),
        }
    }
}

impl CareError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            CareError::Several { .. }
            | CareError::NoFolder { .. }
            | CareError::NoPlace
            | CareError::Path { .. }
            | CareError::Projection { .. }
            | CareError::Copy(CopyError::Exists { .. }) => Exit::Usage,
            CareError::Place(PlaceError::Held(_)) => Exit::StoreInUse,
            CareError::Repair(RepairError::Newer(_)) => Exit::StoreNewer,
            CareError::Repair(RepairError::Nothing) | CareError::Stopped { .. } => {
                Exit::StoreCorrupt
            }
            CareError::Read(e) if e.is_damage() => Exit::StoreCorrupt,
            CareError::Lines(e) => e.exit(),
            _ => Exit::Failure,
        }
    }

    pub(super) fn next(&self) -> Option<String> {
        let next = match self {
            CareError::Several { .. } => {
                "choose one with --store PATH; `interlink-admin status` lists them"
            }
            CareError::NoFolder { .. } => "make the folder, or choose another one",
            CareError::NoPlace => "name it with --store PATH",
            CareError::Unproven { .. } => {
                "`interlink-admin verify` says more, `interlink-admin repair` makes a new store of \
                 what is left"
            }
            CareError::Place(PlaceError::Held(_)) => "end that process, then try again",
            CareError::Repair(RepairError::Newer(_)) => "use a newer interlink-admin",
            CareError::Repair(RepairError::Nothing) => "is it a store, and the whole of it?",
            CareError::Older { .. } => "`interlink-admin migrate` brings it up",
            CareError::Stopped { .. } | CareError::Read(ReadError::Record(_)) => {
                "the file is damaged: `interlink-admin repair` makes a new one of what is left"
            }
            CareError::Lines(e) => return e.next().map(ToOwned::to_owned),
            CareError::Projection { known, .. } => {
                return Some(format!("there are: {}", known.join(", ")));
            }
            _ => return None,
        };
        Some(next.to_owned())
    }
}

/// The one store that is meant.
pub(super) fn one(targets: &[Target]) -> Result<&Target, CareError> {
    match targets {
        [one] => Ok(one),
        several => Err(CareError::Several {
            stores: several.len(),
        }),
    }
}

/// The file of the one store that is meant, which is not opened.
pub(super) fn one_file(targets: &[Target]) -> Result<&Path, CareError> {
    match one(targets)? {
        Target::File(path) => Ok(path),
        Target::Memory(_) => Err(CareError::NoPlace),
    }
}

/// Proves a store of either kind.
pub(super) fn proof(kind: StoreKind, snapshot: &Snapshot) -> Verification {
    inspect::verification(&match kind {
        StoreKind::Bus => verify::<Bus>(snapshot, |_| {}),
        StoreKind::Agent => verify::<Agent>(snapshot, |_| {}),
    })
}

/// The proof of a store, which must hold.
pub(super) fn proven(proof: Verification, what: &Path) -> Result<Verification, CareError> {
    match proof.difference {
        None => Ok(proof),
        Some(difference) => Err(CareError::Unproven {
            what: what.display().to_string(),
            difference,
        }),
    }
}

/// What a panic that nobody caught said.
pub(super) fn stopped(panic: &(dyn Any + Send)) -> CareError {
    let said = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    CareError::Stopped {
        reason: said.unwrap_or_else(|| "no reason given".to_owned()),
    }
}

/// Refuses a store of a newer format by name: what it holds may mean something else.
pub(super) fn expect_known_format(reader: &Reader, path: &Path) -> Result<(), AdminError> {
    let format = reader.snapshot().and_then(|snapshot| snapshot.format());
    match format {
        // The engine's first words say what is wrong; after them it only refers to them.
        Err(ReadError::Engine { reason }) => Err(OpenError::Corrupt {
            path: path.to_owned(),
            reason,
        }
        .into()),
        // What else does not read fails in the words of the command.
        Ok(found) if found > store::FORMAT => Err(OpenError::FormatTooNew {
            path: path.to_owned(),
            found,
            supported: store::FORMAT,
        }
        .into()),
        _ => Ok(()),
    }
}

/// A copy of its store that a running bus gives away, in a private folder that is gone afterwards.
pub(super) struct Lent {
    pub(super) reader: FileReader,
    _folder: tempfile::TempDir,
}

impl Lent {
    /// Lets the bus make the copy.
    pub(super) fn of(bus: &EndpointReader) -> Result<Lent, AdminError> {
        let folder = tempfile::Builder::new()
            .prefix("interlink-copy-")
            .tempdir()
            .map_err(AdminError::Output)?;
        let copy = folder.path().join("copy.redb");
        bus.back_up(&copy)?;
        Ok(Lent {
            reader: FileReader::open(&copy)?,
            _folder: folder,
        })
    }
}

/// Refuses a file whose folder is not there: a typo is no wish for a folder.
pub(super) fn expect_folder(path: &Path) -> Result<(), CareError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => return Ok(()),
    };
    match std::fs::metadata(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(CareError::NoFolder {
            path: path.to_owned(),
            folder: folder.to_owned(),
        }),
        // What else is wrong is told when the file is made.
        _ => Ok(()),
    }
}

impl FileReader {
    /// Proves the store.
    pub(super) fn proof(&self) -> Result<Verification, AdminError> {
        Ok(proof(self.origin().kind, &self.snapshot()?))
    }

    /// Makes a proven copy.
    pub(super) fn back_up(&self, to: &Path) -> Result<Verification, AdminError> {
        let mut kept = None;
        store::copy_proven::<CareError>(&self.snapshot()?, to, |copy| {
            kept = Some(proven(proof(self.origin().kind, copy), to)?);
            Ok(())
        })?;
        Ok(kept.unwrap_or_default())
    }

    /// Puts a proven copy into a place; gives the new name of what stood there.
    pub(super) fn put_into(&self, place: &Path) -> Result<Option<PathBuf>, AdminError> {
        let prove = |copy: &Snapshot| proven(proof(self.origin().kind, copy), place).map(drop);
        Ok(store::replace::<CareError>(
            &self.snapshot()?,
            place,
            prove,
        )?)
    }

    /// Refuses rows of an older version, which only the log can say.
    pub(super) fn current(&self) -> Result<(), AdminError> {
        let snapshot = self.snapshot()?;
        let unbuilt = match self.origin().kind {
            StoreKind::Bus => snapshot.unbuilt::<Bus>(),
            StoreKind::Agent => snapshot.unbuilt::<Agent>(),
        };
        if unbuilt.map_err(CareError::from)?.is_empty() {
            return Ok(());
        }
        Err(CareError::Older {
            path: self.origin().name().to_owned(),
            found: snapshot.format().map_err(CareError::from)?,
            needed: store::FORMAT,
        }
        .into())
    }
}

impl Access {
    /// Makes a proven copy of the store.
    pub(super) fn back_up(&self, to: &Path) -> Result<Verification, AdminError> {
        match self {
            Access::File(reader) => reader.back_up(to),
            Access::Endpoint(bus) => {
                // The bus would refuse as well, in words about itself.
                if std::fs::symlink_metadata(to).is_ok() {
                    let path = to.to_owned();
                    return Err(CareError::Copy(CopyError::Exists { path }).into());
                }
                Ok(proven(bus.back_up(to)?, to)?)
            }
        }
    }
}

/// A path that another process of this machine understands.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, CareError> {
    std::path::absolute(path).map_err(|source| CareError::File {
        path: path.to_owned(),
        source,
    })
}

/// Ends a command whose store did not prove: told, and the exit code of `verify`.
pub(super) fn differs(e: CareError, p: &mut super::print::Printer) -> Result<(), AdminError> {
    if matches!(e, CareError::Unproven { .. }) {
        super::report(&AdminError::Care(e));
        p.code = super::DIFFERS;
        return Ok(());
    }
    Err(AdminError::Care(e))
}
