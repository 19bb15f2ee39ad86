//! Which stores a command is about.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::paths;
use super::endpoint::EndpointReader;
use super::error::AdminError;
use super::file::FileReader;
use super::reader::StoreReader;
use crate::store::{Cut, OpenError};
use crate::types::id::PublicKey;
use crate::wire::admin::Compaction;

/// Most stores that a folder is searched for: an identity has one.
const MAX_STORES: usize = 1024;

/// A store that may be open elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// A file; when a bus owns it, that bus's endpoint.
    File(PathBuf),
    /// A bus without a file, by its endpoint's file.
    Memory(PathBuf),
}

/// How a store can be reached.
pub(super) enum Access {
    /// Its file.
    File(Box<FileReader>),
    /// The bus that owns it.
    Endpoint(Box<EndpointReader>),
}

impl Access {
    /// What every command reads.
    pub(super) fn reader(&self) -> &dyn StoreReader {
        match self {
            Access::File(reader) => reader.as_ref(),
            Access::Endpoint(reader) => reader.as_ref(),
        }
    }

    /// What a compaction would take.
    pub(super) fn foldable(&self, cut: Cut) -> Result<Compaction, AdminError> {
        match self {
            Access::File(reader) => reader.foldable(cut),
            Access::Endpoint(bus) => bus.compact(cut, true),
        }
    }
}

impl Target {
    /// Opens the file, or asks its owner.
    pub(super) fn open(&self) -> Result<Box<dyn StoreReader>, AdminError> {
        Ok(match self.access()? {
            Access::File(reader) => reader,
            Access::Endpoint(reader) => reader,
        })
    }

    /// As [`open`](Target::open), for commands that do more than read.
    pub(super) fn access(&self) -> Result<Access, AdminError> {
        let endpoint = |admin: &Path, store| {
            let reader = EndpointReader::open(admin, store)?;
            Ok(Access::Endpoint(Box::new(reader)))
        };
        let path = match self {
            Target::File(path) => path,
            Target::Memory(admin) => return endpoint(admin, None),
        };
        match FileReader::open(path) {
            Ok(reader) => Ok(Access::File(Box::new(reader))),
            Err(AdminError::Open(e @ OpenError::InUse { .. })) => {
                let admin = paths::admin_file(path);
                if admin.exists() {
                    endpoint(&admin, Some(path))
                } else {
                    Err(e.into())
                }
            }
            Err(e) => Err(e),
        }
    }
}

/// The stores at `place`, or at the default place: buses first, then identities, by path.
pub(super) fn targets(place: Option<&Path>) -> Result<Vec<Target>, AdminError> {
    let root = match place {
        Some(place) if place.is_dir() => place.to_owned(),
        // Opening a pipe would wait for ever.
        Some(place) if place.exists() && !place.is_file() => {
            return Err(AdminError::Place {
                place: place.to_owned(),
                source: std::io::Error::other("neither a file nor a folder"),
            });
        }
        Some(place) => return Ok(vec![Target::File(place.to_owned())]),
        None => paths::state_root(&paths::process_env)?,
    };
    let mut found = in_folder(&root)?;
    for sub in folders(&root)? {
        found.extend(in_folder(&sub)?);
        if sub.file_name().is_some_and(|name| name == "agent") {
            for identity in folders(&sub)? {
                found.extend(in_folder(&identity)?);
            }
        }
    }
    found.truncate(MAX_STORES);
    if found.is_empty() {
        return Err(AdminError::NoStore { place: root });
    }
    Ok(found)
}

/// The identity of a store, by the folder that it stands in, however the store was named: by a link, or
/// from inside the folder.
pub(super) fn identity_of(store: &Path) -> Option<PublicKey> {
    let key = |path: PathBuf| path.parent()?.file_name()?.to_str()?.parse().ok();
    let real = fs::canonicalize(store).ok().and_then(key);
    real.or_else(|| std::path::absolute(store).ok().and_then(key))
}

/// More stores, for a command that puts several together; those that are known already are left out.
pub(super) fn with(known: &[Target], places: &[PathBuf]) -> Result<Vec<Target>, AdminError> {
    let mut all = known.to_vec();
    for place in places {
        for target in targets(Some(place))? {
            if !all.contains(&target) {
                all.push(target);
            }
        }
    }
    Ok(all)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, AdminError> {
    let failed = |source| AdminError::Place {
        place: folder.to_owned(),
        source,
    };
    let read = match fs::read_dir(folder) {
        Ok(read) => read,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(e) => return Err(failed(e)),
    };
    let mut paths = vec![];
    for entry in read {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, AdminError> {
    let mut paths = entries(folder)?;
    paths.retain(|path| path.is_dir() && !path.is_symlink());
    paths.truncate(MAX_STORES);
    Ok(paths)
}

fn in_folder(folder: &Path) -> Result<Vec<Target>, AdminError> {
    let mut found = vec![];
    for path in entries(folder)? {
        let extension = path.extension().and_then(|e| e.to_str());
        match extension {
            Some("redb") if path.is_file() => found.push(Target::File(path)),
            Some("admin") if path.is_file() => {
                let store = path.with_extension("");
                if !store.exists() {
                    found.push(Target::Memory(path));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}
