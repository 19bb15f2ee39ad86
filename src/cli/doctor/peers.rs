//! The file of peers, and what the log says about it.
//!
//! The log decides who is admitted, the file is how people see and edit it. Where the two differ,
//! somebody wonders why their edit does not count.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Report, Verdict};
use crate::agent::peers_file::full_path;
use crate::cli::setup;
use crate::crypto::hash::sha256;
use crate::domain::query::agent::{self as query, FileVersion};
use crate::store::{ReadError, Snapshot};
use crate::types::id::PublicKey;
use crate::wire::peers::Peers;

/// What stands in the file.
#[derive(Debug)]
pub(super) struct Listed {
    path: PathBuf,
    /// Hash of its bytes; `None` where it cannot be read.
    pub(super) sha256: Option<[u8; 32]>,
    /// Names and keys; `None` where it does not read.
    entries: Option<BTreeSet<(String, PublicKey)>>,
}

/// What the log says.
#[derive(Debug)]
pub(super) struct Logged {
    /// The identity's file.
    file: Option<String>,
    /// What the version of the file is to the log.
    version: Option<FileVersion>,
    /// Names and keys of the admitted.
    admitted: BTreeSet<(String, PublicKey)>,
}

impl Logged {
    /// Reads it; `listed` is the hash of the file.
    pub(super) fn read(
        snapshot: &Snapshot,
        listed: Option<&[u8; 32]>,
    ) -> Result<Logged, ReadError> {
        let version = match listed {
            Some(hash) => Some(query::file_version(snapshot, hash)?),
            None => None,
        };
        let peers = query::peers(snapshot)?.into_iter();
        Ok(Logged {
            file: query::peers_file(snapshot)?.map(|row| row.path),
            version,
            admitted: peers.map(|peer| (peer.petname, peer.key)).collect(),
        })
    }
}

/// Looks at the file alone.
pub(super) fn look(report: &mut Report, path: &Path) -> Listed {
    let mut listed = Listed {
        path: path.to_owned(),
        sha256: None,
        entries: None,
    };
    let text = match setup::read(path) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let found = format!("{} does not exist; the server makes it", path.display());
            report.add("peers", Verdict::Hint, found, None);
            return listed;
        }
        Err(e) => {
            let mend = "no mail is taken in until the file can be read";
            report.add("peers", Verdict::Broken, e.to_string(), Some(mend));
            return listed;
        }
    };
    listed.sha256 = Some(sha256(text.as_bytes()));
    match Peers::parse(&text) {
        Ok(peers) => {
            if peers.is_empty() {
                let found = format!("{} admits nobody", path.display());
                let mend = "pair with somebody: request_pair, or ask for their public key";
                report.add("peers", Verdict::Hint, found, Some(mend));
            } else {
                let found = format!("{} admits {}", path.display(), peers.len());
                report.add("peers", Verdict::Ok, found, None);
            }
            listed.entries = Some(peers.iter().map(|(n, k)| (n.to_owned(), k)).collect());
        }
        Err(e) => {
            let found = format!("{}: {e}", path.display());
            let mend = "mend the file: no mail is taken in until it reads";
            report.add("peers", Verdict::Broken, found, Some(mend));
        }
    }
    listed
}

/// Compares the two, and tells of differences.
pub(super) fn compare(report: &mut Report, listed: &Listed, logged: &Logged) {
    let Some(theirs) = &logged.file else {
        return; // No session has taken a file yet.
    };
    let path = listed.path.display();
    let ours = full_path(&listed.path).unwrap_or_else(|_| path.to_string());
    if ours != *theirs {
        let found =
            format!("the log keeps this identity's peers in {theirs}, so {path} is refused");
        let mend = format!(
            "start with --peers {theirs}; to switch to the other file for good, start once with \
             --adopt-peers"
        );
        return report.add("peers", Verdict::Broken, found, Some(&mend));
    }
    if listed.sha256.is_none() {
        let found = format!(
            "the log admits {}, and {path}, its file, cannot be read",
            logged.admitted.len()
        );
        let mend = "put the file back from a copy; {} is a list of nobody, and revokes everybody";
        return report.add("peers", Verdict::Broken, found, Some(mend));
    }
    let Some(entries) = &listed.entries else {
        return; // It is broken, which was said.
    };
    if *entries == logged.admitted {
        return;
    }
    let more = entries.difference(&logged.admitted).count();
    let fewer = logged.admitted.difference(entries).count();
    let differs = format!(
        "{path} and the log differ: {more} entries of the file are not admitted, {fewer} who are \
         admitted are not in the file"
    );
    let (found, mend) = match logged.version {
        Some(FileVersion::Behind) => (
            format!("{differs}; it is an older version of the file, which only takes away"),
            "the next session revokes whom it lacks; `interlink-admin peers add` admits again",
        ),
        _ => (
            format!("{differs}; it was edited since a session last looked"),
            "a session takes the edit over when it starts or gets mail; a key that a tool revoked \
             comes back with `interlink-admin peers add` only",
        ),
    };
    report.add("peers", Verdict::Hint, found, Some(mend));
}
