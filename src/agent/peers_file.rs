//! `peers.json`: a projection that people may edit.
//!
//! The log is the truth and this file follows it, but an operator edits the file and expects it to
//! count. Both hold, because the log knows the hash of every version that it wrote:
//!
//! - a version that was never written is a hand edit: its additions and removals become events;
//! - an older version (an entry struck again, an old editor buffer, a restored backup) admits
//!   nobody, so that a revoked key does not come back; whom it lacks is revoked, for removals win.
//!   Only where the newest version never became the file, after a crash, does it mean nothing;
//! - a text that does not read pauses intake until it is mended: half an allowlist is the wrong
//!   allowlist.
//!
//! One identity has one such file; the log remembers which. A second one would be read as a hand
//! edit of the first, and each start would undo what was written into the other. So another path
//! is refused, until the operator asks to switch to it.
//!
//! A file that is deleted while the program runs pauses intake as well: nobody knows what was
//! meant. A start writes a missing file anew from the log; to admit nobody, write `{}`.
//!
//! Writers hold `peers.json.lock`, the public program's lock, from before they read until after
//! they replaced. A new version is staged in `peers.json.next`, recorded in the log, and renamed to
//! be the file. A crash in between leaves it staged: that, and nothing else, tells an older file
//! that was never replaced from one that somebody put back.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

#[cfg(feature = "cli")]
pub(crate) use self::disk::digest;
pub(crate) use self::disk::full_path;
pub use self::error::PeersFileError;

use self::disk::{Read, Stamp, lock_path, read, replace, stage, staged, unstage};
use self::text::{is_same, merged, report};
use super::ledger::{Ledger, LedgerError};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{AgentCommand, AgentRefusal, AgentReply};
use crate::domain::query::agent::{self as query, FileVersion, Peer};
use crate::store::create_private_dir;
use crate::types::seq::Seq;
use crate::types::time::Clock;
use crate::wire::peers::Peers;

/// How long another writer of the file is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How often the file is looked at again when it is saved while it is worked on.
const LOOKS: usize = 16;

/// What became of a look at the file.
enum Look {
    /// Log and file say the same.
    Agrees,
    /// The file was written.
    Wrote,
    /// It was to be written, but somebody saved it in between.
    Overtaken {
        /// Where the newest version before ours stands in the log.
        newest: Seq,
    },
}

/// The allowlist file. Cheap to clone.
#[derive(Clone)]
pub struct PeersFile(Arc<Inner>);

struct Inner {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    checked: Mutex<Option<Checked>>,
    /// Whether to take the place of another file, once.
    switch: AtomicBool,
}

/// The outcome of the last look at the file, valid while its stamp stays.
struct Checked {
    stamp: Stamp,
    broken: Option<String>,
}

impl PeersFile {
    /// A file at a path; nothing is read yet. `switch` lets it take the place of another file that
    /// the identity had so far.
    #[must_use]
    pub fn new(path: PathBuf, switch: bool, clock: Arc<dyn Clock>) -> PeersFile {
        PeersFile(Arc::new(Inner {
            path,
            clock,
            checked: Mutex::new(None),
            switch: AtomicBool::new(switch),
        }))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Makes sure that the log has what the file says. Cheap while the file does not change; call
    /// it before every decision about a sender. The first time, a missing file is written.
    ///
    /// # Errors
    ///
    /// [`PeersFileError`]: nobody must be admitted or rejected then.
    pub async fn ensure(&self, ledger: &Arc<Ledger>) -> Result<(), PeersFileError> {
        if let Some(known) = self.known() {
            return known;
        }
        ledger.settled().await;
        let (this, ledger) = (self.clone(), Arc::clone(ledger));
        run(move || this.sync(&ledger)).await
    }

    /// Brings the file up to a policy that changed without it: an acceptance admits, and another process
    /// may have died between its commit and the file. Cheap when nothing did.
    ///
    /// # Errors
    ///
    /// [`PeersFileError`]; the policy counts all the same.
    pub async fn follow_log(&self, ledger: &Arc<Ledger>) -> Result<(), PeersFileError> {
        ledger.settled().await;
        let (this, ledger) = (self.clone(), Arc::clone(ledger));
        run(move || {
            if ledger.read_blocking(|s| Ok(query::is_file_behind(s)?))? {
                this.sync(&ledger)?;
            }
            Ok(())
        })
        .await
    }

    /// Carries out a command that changes the policy, then brings the file up to it. Durable in
    /// the log when this returns, also when writing the file failed.
    ///
    /// # Errors
    ///
    /// [`PeersFileError`]; after [`PeersFileError::Behind`] the command has been carried out.
    pub async fn change(
        &self,
        ledger: &Arc<Ledger>,
        command: AgentCommand,
    ) -> Result<AgentReply, PeersFileError> {
        ledger.settled().await;
        let (this, ledger) = (self.clone(), Arc::clone(ledger));
        run(move || this.change_blocking(&ledger, command)).await
    }

    /// As [`PeersFile::ensure`], on the calling thread.
    ///
    /// # Errors
    ///
    /// As [`PeersFile::ensure`].
    pub fn ensure_blocking(&self, ledger: &Ledger) -> Result<(), PeersFileError> {
        self.known().unwrap_or_else(|| self.sync(ledger))
    }

    /// As [`PeersFile::change`], on the calling thread.
    ///
    /// # Errors
    ///
    /// As [`PeersFile::change`].
    pub fn change_blocking(
        &self,
        ledger: &Ledger,
        command: AgentCommand,
    ) -> Result<AgentReply, PeersFileError> {
        let _lock = self.lock()?;
        self.sync_locked(ledger)?;
        let reply = ledger.submit_blocking(command)?;
        match self.sync_locked(ledger) {
            Ok(()) => Ok(reply),
            Err(e) => Err(PeersFileError::Behind(e.to_string())),
        }
    }

    /// The outcome of the last look, if the file is still the same.
    fn known(&self) -> Option<Result<(), PeersFileError>> {
        let stamp = Stamp::of(&fs::metadata(&self.0.path).ok()?);
        let checked = self
            .0
            .checked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let checked = checked.as_ref().filter(|c| c.stamp == stamp)?;
        Some(match &checked.broken {
            None => Ok(()),
            Some(reason) => Err(self.broken(reason.clone())),
        })
    }

    fn broken(&self, reason: String) -> PeersFileError {
        PeersFileError::Broken {
            path: self.0.path.clone(),
            reason,
        }
    }

    fn sync(&self, ledger: &Ledger) -> Result<(), PeersFileError> {
        let _lock = self.lock()?;
        self.sync_locked(ledger)
    }

    /// Looks at the file until log and file agree: somebody may save it meanwhile, and what was saved
    /// while nobody looked would count for nothing.
    fn sync_locked(&self, ledger: &Ledger) -> Result<(), PeersFileError> {
        self.claim(ledger)?;
        let mut overtaken = None;
        for look in 1..=LOOKS {
            let found = match read(&self.0.path) {
                Ok(found) => found,
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.may_create() => {
                    self.create(ledger)?;
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    let path = self.0.path.clone();
                    return Err(PeersFileError::Missing { path });
                }
                Err(source) => return Err(self.io(source)),
            };
            match self.follow(ledger, &found, overtaken) {
                Ok(Look::Agrees) => {
                    self.remember(found.stamp, None);
                    return Ok(());
                }
                Ok(Look::Wrote) => overtaken = None,
                Ok(Look::Overtaken { newest }) => overtaken = overtaken.or(Some(newest)),
                // Half of what is being saved.
                Err(PeersFileError::Broken { .. }) if overtaken.is_some() && look < LOOKS => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(e) => {
                    if let PeersFileError::Broken { reason, .. } = &e {
                        self.remember(found.stamp, Some(reason.clone()));
                    }
                    return Err(e);
                }
            }
        }
        // Saved again and again. The log has what was read; the next look goes on.
        Ok(())
    }

    /// Makes sure that this is the identity's file.
    fn claim(&self, ledger: &Ledger) -> Result<(), PeersFileError> {
        let path = full_path(&self.0.path).map_err(|e| self.io(e))?;
        let adopted = ledger.read_blocking(|s| Ok(query::peers_file(s)?))?;
        if adopted.as_ref().is_none_or(|row| row.path != path) {
            let command = AgentCommand::AdoptPeersFile {
                path,
                switch: self.0.switch.load(Ordering::Acquire),
                now: self.0.clock.now(),
            };
            match ledger.submit_blocking(command) {
                Ok(_) => {}
                Err(LedgerError::Refused(AgentRefusal::PeersElsewhere { path: adopted })) => {
                    let path = self.0.path.clone();
                    return Err(PeersFileError::Elsewhere { path, adopted });
                }
                Err(e) => return Err(e.into()),
            }
            if let Some(old) = adopted {
                tracing::warn!(
                    "the peers of this identity stand in {} now, not in {} any more",
                    self.0.path.display(),
                    old.path
                );
            }
        }
        self.0.switch.store(false, Ordering::Release);
        Ok(())
    }

    /// A file that was there and is gone is an error: nobody knows what its removal was to mean.
    fn may_create(&self) -> bool {
        let checked = self.0.checked.lock();
        checked.unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn remember(&self, stamp: Stamp, broken: Option<String>) {
        *self
            .0
            .checked
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Checked { stamp, broken });
    }

    /// Writes a file where there is none: the log's peers, or nobody.
    fn create(&self, ledger: &Ledger) -> Result<(), PeersFileError> {
        let peers = ledger.read_blocking(|s| Ok(query::peers(s)?))?;
        tracing::warn!(
            "no peers file at {}; writing one with {} peers",
            self.0.path.display(),
            peers.len()
        );
        let parent = self.0.path.parent().unwrap_or(Path::new("."));
        if !parent.as_os_str().is_empty() {
            create_private_dir(parent).map_err(|e| self.io(e))?;
        }
        self.publish(ledger, None, &Map::new(), &peers).map(drop)
    }

    /// Brings log and file together, whoever is ahead. `overtaken`: where the newest version stands in
    /// the log that was the file, when a later one was recorded and did not become it.
    fn follow(
        &self,
        ledger: &Ledger,
        found: &Read,
        overtaken: Option<Seq>,
    ) -> Result<Look, PeersFileError> {
        let hash = sha256(&found.bytes);
        let version = ledger.read_blocking(|s| Ok(query::file_version(s, &hash)?))?;
        let parsed = std::str::from_utf8(&found.bytes)
            .map_err(|_| "not UTF-8".to_owned())
            .and_then(|text| Peers::parse(text).map_err(|e| e.to_string()));
        match (version, &parsed) {
            (FileVersion::Current, _) => {}
            (FileVersion::Behind, parsed) => {
                tracing::warn!(
                    "{} is an older version than the log's; it is brought up to date. To admit a \
                     removed peer again, add it with the tool",
                    self.0.path.display()
                );
                if (overtaken.is_some() || !self.is_unfinished(ledger)?)
                    && let Ok(peers) = parsed
                {
                    self.strike(ledger, peers, hash, overtaken)?;
                }
            }
            (FileVersion::Unknown, Err(reason)) => return Err(self.broken(reason.clone())),
            (FileVersion::Unknown, Ok(peers)) => self.import(ledger, peers, hash, overtaken)?,
        }
        let peers = ledger.read_blocking(|s| Ok(query::peers(s)?))?;
        let same = parsed.as_ref().is_ok_and(|p| is_same(p, &peers));
        if !same {
            let base = serde_json::from_slice(&found.bytes).unwrap_or_default();
            return self.publish(ledger, Some(found.stamp), &base, &peers);
        }
        if version != FileVersion::Current {
            self.record(ledger, hash)?;
        }
        // A leftover would pass for a crash when this version is the file again.
        unstage(&self.0.path).map_err(|e| self.io(e))?;
        Ok(Look::Agrees)
    }

    /// Whether the newest version was recorded and never became the file.
    fn is_unfinished(&self, ledger: &Ledger) -> Result<bool, PeersFileError> {
        let Some(bytes) = staged(&self.0.path).map_err(|e| self.io(e))? else {
            return Ok(false);
        };
        let hash = sha256(&bytes);
        let version = ledger.read_blocking(|s| Ok(query::file_version(s, &hash)?))?;
        Ok(version == FileVersion::Current)
    }

    fn strike(
        &self,
        ledger: &Ledger,
        peers: &Peers,
        hash: [u8; 32],
        newest: Option<Seq>,
    ) -> Result<(), PeersFileError> {
        let command = AgentCommand::StrikePeers {
            entries: peers.iter().map(|(n, k)| (n.to_owned(), k)).collect(),
            sha256: hash,
            newest,
            now: self.0.clock.now(),
        };
        if let AgentReply::Imported(outcome) = ledger.submit_blocking(command)? {
            report(&outcome);
        }
        Ok(())
    }

    fn import(
        &self,
        ledger: &Ledger,
        peers: &Peers,
        hash: [u8; 32],
        newest: Option<Seq>,
    ) -> Result<(), PeersFileError> {
        for warning in peers.warnings() {
            tracing::warn!(
                "peer {:?} in the peers file: {}",
                warning.name,
                warning.reason
            );
        }
        let command = AgentCommand::ImportPeers {
            entries: peers.iter().map(|(n, k)| (n.to_owned(), k)).collect(),
            sha256: hash,
            newest,
            now: self.0.clock.now(),
        };
        match ledger.submit_blocking(command) {
            Ok(AgentReply::Imported(outcome)) => {
                report(&outcome);
                Ok(())
            }
            Ok(_) => Ok(()),
            // The log does not take this text, so it counts as little as one that does not read.
            Err(LedgerError::Refused(refusal)) => Err(self.broken(refusal.to_string())),
            Err(e) => Err(e.into()),
        }
    }

    fn record(&self, ledger: &Ledger, hash: [u8; 32]) -> Result<(), PeersFileError> {
        ledger.submit_blocking(AgentCommand::PublishPeers {
            sha256: hash,
            now: self.0.clock.now(),
        })?;
        Ok(())
    }

    /// Makes the log's peers the file, unless that was saved after it was looked at (`seen`; `None`:
    /// there was none). Members of an entry that are not ours stay.
    fn publish(
        &self,
        ledger: &Ledger,
        seen: Option<Stamp>,
        base: &Map<String, Value>,
        peers: &[Peer],
    ) -> Result<Look, PeersFileError> {
        let text = merged(base, peers)?;
        let newest = ledger.read_blocking(|s| Ok(query::latest_published(s)?))?;
        stage(&self.0.path, text.as_bytes()).map_err(|e| self.io(e))?;
        self.record(ledger, sha256(text.as_bytes()))?;
        let stands = fs::metadata(&self.0.path).ok();
        if stands.as_ref().map(Stamp::of) != seen {
            let newest = newest.map_or(Seq::ZERO, |row| row.seq);
            return Ok(Look::Overtaken { newest });
        }
        replace(&self.0.path).map_err(|e| self.io(e))?;
        Ok(Look::Wrote)
    }

    fn lock(&self) -> Result<File, PeersFileError> {
        let path = lock_path(&self.0.path);
        let failed = |source| PeersFileError::Io {
            path: path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = match options.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(Path::new("."));
                create_private_dir(parent).map_err(failed)?;
                options.open(&path).map_err(failed)?
            }
            opened => opened.map_err(failed)?,
        };
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => return Err(PeersFileError::Locked { path }),
                Err(TryLockError::Error(e)) => return Err(failed(e)),
            }
        }
    }

    fn io(&self, source: io::Error) -> PeersFileError {
        PeersFileError::Io {
            path: self.0.path.clone(),
            source,
        }
    }
}

async fn run<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, PeersFileError> + Send + 'static,
) -> Result<T, PeersFileError> {
    tokio::task::spawn_blocking(f)
        .await
        .unwrap_or(Err(PeersFileError::Stopped))
}

mod disk;
mod error;
#[cfg(test)]
mod tests;
mod text;
