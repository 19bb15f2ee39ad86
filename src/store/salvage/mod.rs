//! What can still be read of a store file, sound or not.
//!
//! Two sources: the engine, as far as it reads, and the bytes of the file. What the engine finds in
//! its place counts first, then what stands in the place of a record in some page, then whatever
//! checks (`raw`). The file is never changed. It is held in memory while this goes on.

mod raw;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use super::error::OpenError;
use super::guard;
use super::migrate;
use super::place;
use crate::codec::frame;
use crate::crypto::hash::sha256;
use crate::domain::LiveBody;
use crate::domain::tables::{MemTables, TableId};
use crate::event::kind::{EventKind, StoreKind};
use crate::types::seq::Seq;
use raw::RawFrame;
use tree::Tree;

/// What the base rows of a file are worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseFound {
    /// The log was never compacted.
    Unneeded,
    /// They read, and every page was checked.
    Whole,
    /// They read; the file is damaged, and nothing says whether they are.
    Unchecked,
    /// They do not read.
    Lost {
        /// Why.
        reason: String,
    },
}

/// See the module's documentation.
pub struct Salvage {
    kind: StoreKind,
    file: Vec<u8>,
    tree: Tree,
    frames: BTreeMap<Seq, Place>,
    /// Positions of records that stood outside of every page that reads.
    pub(super) loose: BTreeSet<Seq>,
    /// Positions for which several different records were found.
    pub(super) doubtful: BTreeSet<Seq>,
    /// Positions of records behind the newest one that the engine knows of. Their commit may not have
    /// been finished: nobody was told that they are there, or that they are not.
    pub(super) beyond: BTreeSet<Seq>,
}

/// Where a frame is.
enum Place {
    Tree,
    File(Range<usize>),
}

impl Salvage {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`OpenError::InUse`] when somebody has it open, [`OpenError::FormatTooNew`], and
    /// [`OpenError::Corrupt`] when nothing in it says what kind of store it is.
    pub fn read(path: &Path) -> Result<Salvage, OpenError> {
        let failed = |source| OpenError::File {
            path: path.to_owned(),
            source,
        };
        let file = fs::read(path).map_err(failed)?;
        let _held = place::hold(path)?;
        let tree = guard::guarded(|| Ok(Tree::read(path)), |reason| reason)
            .unwrap_or_else(|complaint: String| Tree::unread(complaint));
        if let Some(found) = tree.format().filter(|found| *found > migrate::FORMAT) {
            return Err(OpenError::FormatTooNew {
                path: path.to_owned(),
                found,
                supported: migrate::FORMAT,
            });
        }
        let mut salvage = Salvage {
            kind: StoreKind::Bus,
            file,
            tree,
            frames: BTreeMap::new(),
            loose: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            beyond: BTreeSet::new(),
        };
        salvage.choose_frames();
        salvage.kind = salvage.find_kind().ok_or_else(|| OpenError::Corrupt {
            path: path.to_owned(),
            reason: "nothing in it can be recognized".to_owned(),
        })?;
        Ok(salvage)
    }

    /// Which kind of store it is.
    #[must_use]
    pub fn kind(&self) -> StoreKind {
        self.kind
    }

    fn find_kind(&self) -> Option<StoreKind> {
        let named = [StoreKind::Bus, StoreKind::Agent]
            .into_iter()
            .find(|kind| self.tree.kind() == Some(kind.name()));
        named.or_else(|| {
            let first = self.frames.keys().next()?;
            let frame = frame::parse_prefix(self.frame(*first)?).ok()?.0;
            Some(EventKind::from_number(frame.kind)?.store())
        })
    }

    fn choose_frames(&mut self) {
        let mut candidates: BTreeMap<Seq, Vec<RawFrame>> = BTreeMap::new();
        for raw in raw::frames(&self.file) {
            candidates.entry(raw.seq).or_default().push(raw);
        }
        // A record may stand in the place of another one: its own position counts.
        let mut placed: BTreeMap<Seq, Vec<u8>> = BTreeMap::new();
        for (place, bytes) in std::mem::take(&mut self.tree.frames) {
            if let Ok((frame, len)) = frame::parse_prefix(&bytes)
                && len == bytes.len()
                && (frame.seq == place || !placed.contains_key(&frame.seq))
            {
                placed.insert(frame.seq, bytes);
            }
        }
        self.tree.frames = placed;
        let head = self.tree.frames.keys().next_back().copied();
        for seq in self.tree.frames.keys() {
            self.frames.insert(*seq, Place::Tree);
        }
        for (seq, mut found) in candidates {
            if self.frames.contains_key(&seq) || seq == Seq::ZERO {
                continue;
            }
            if found.iter().any(|raw| !raw.loose) {
                found.retain(|raw| !raw.loose);
            } else {
                self.loose.insert(seq);
            }
            let texts: BTreeSet<&[u8]> = found
                .iter()
                .filter_map(|raw| self.file.get(raw.range.clone()))
                .collect();
            if texts.len() > 1 {
                self.doubtful.insert(seq);
            }
            if self.tree.whole_log && Some(seq) > head {
                self.beyond.insert(seq);
            }
            // Of several, one was abandoned and its position used again: the later one.
            if let Some(best) = found
                .into_iter()
                .max_by_key(|raw| (raw.at, raw.range.start))
            {
                self.frames.insert(seq, Place::File(best.range));
            }
        }
    }

    fn reached_by_tree(&self) -> Seq {
        [
            self.tree.frames.keys().next_back().copied(),
            self.tree.bodies.keys().next_back().copied(),
            self.tree.applied(),
            self.tree.base_seq(),
        ]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or_default()
    }

    /// The newest position that anything in the file speaks of.
    pub(super) fn reached(&self) -> Seq {
        let frames = self.frames.keys().next_back().copied();
        self.reached_by_tree().max(frames.unwrap_or_default())
    }

    /// Positions of the frames that check, each once.
    pub(super) fn positions(&self) -> impl Iterator<Item = Seq> {
        self.frames.keys().copied()
    }

    pub(super) fn frame(&self, seq: Seq) -> Option<&[u8]> {
        match self.frames.get(&seq)? {
            Place::Tree => self.tree.frames.get(&seq).map(Vec::as_slice),
            Place::File(range) => self.file.get(range.clone()),
        }
    }

    /// The compaction point with its rows, as far as they read.
    pub(super) fn base(&self) -> (Seq, MemTables, BaseFound) {
        let empty = |found| (Seq::ZERO, MemTables::new(), found);
        let Some(base) = self.tree.base_seq() else {
            let reason = self.tree.complaint.clone().unwrap_or_default();
            return empty(BaseFound::Lost { reason });
        };
        match &self.tree.base {
            _ if base == Seq::ZERO => empty(BaseFound::Unneeded),
            Ok(rows) if self.tree.checked => (base, rows.clone(), BaseFound::Whole),
            Ok(rows) => (base, rows.clone(), BaseFound::Unchecked),
            Err(reason) => empty(BaseFound::Lost {
                reason: reason.clone(),
            }),
        }
    }

    /// Version of a projection's rows.
    pub(super) fn projection(&self, name: &str) -> Option<u16> {
        let key = format!("{}{name}", super::layout::META_PROJECTION);
        let bytes = self.tree.facts.get(&key)?.as_slice().try_into().ok()?;
        Some(u16::from_le_bytes(bytes))
    }

    /// The live rows of a table; `None` where they do not read to their end.
    pub(super) fn live(&self, table: TableId) -> Option<BTreeMap<&[u8], &[u8]>> {
        let read = self.tree.live_tables.contains(&table);
        read.then(|| self.tree.live.rows(table).collect())
    }

    /// What is wrong with the file, in the engine's words.
    pub(super) fn complaint(&self) -> Option<&str> {
        self.tree.complaint.as_deref()
    }

    /// The bodies that were found.
    pub(super) fn bodies(&self, wanted: &[LiveBody]) -> BTreeMap<Seq, &[u8]> {
        let mut found = BTreeMap::new();
        let mut missing = raw::Wanted::new();
        for body in wanted {
            let bytes = self.tree.bodies.get(&body.seq).map(Vec::as_slice);
            let len = body.len as usize;
            match bytes.filter(|b| b.len() == len && sha256(b) == body.sha256) {
                Some(bytes) => drop(found.insert(body.seq, bytes)),
                None => drop(missing.insert(body.seq, (len, body.sha256))),
            }
        }
        if !missing.is_empty() {
            for (seq, range) in raw::bodies(&self.file, &missing) {
                found.extend(self.file.get(range).map(|bytes| (seq, bytes)));
            }
        }
        found
    }
}
