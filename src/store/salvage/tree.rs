//! What the engine still reads of a damaged file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use crate::domain::tables::{MemTables, TableError, TableId, TableReader, Tables as _};
use crate::store::error::ReadError;
use crate::store::layout::{META_APPLIED, META_BASE, META_FORMAT, META_KIND};
use crate::store::open::{checked_file, frozen_file};
use crate::store::snapshot::Snapshot;
use crate::types::seq::Seq;

/// See the module's documentation.
pub(super) struct Tree {
    /// What is wrong with the file, in the engine's words.
    pub(super) complaint: Option<String>,
    /// Whether the engine has checked every page.
    pub(super) checked: bool,
    pub(super) facts: BTreeMap<String, Vec<u8>>,
    pub(super) frames: BTreeMap<Seq, Vec<u8>>,
    /// Whether the log was read to its end.
    pub(super) whole_log: bool,
    pub(super) bodies: BTreeMap<Seq, Vec<u8>>,
    /// Base rows; or why they do not read.
    pub(super) base: Result<MemTables, String>,
    /// Live rows of tables that read.
    pub(super) live: MemTables,
    /// Tables whose live rows were read to their end.
    pub(super) live_tables: BTreeSet<TableId>,
}

impl Tree {
    fn empty() -> Tree {
        Tree {
            complaint: None,
            checked: false,
            facts: BTreeMap::new(),
            frames: BTreeMap::new(),
            whole_log: false,
            bodies: BTreeMap::new(),
            base: Err("the engine cannot open the file".to_owned()),
            live: MemTables::new(),
            live_tables: BTreeSet::new(),
        }
    }

    /// Nothing reads.
    pub(super) fn unread(complaint: String) -> Tree {
        Tree {
            complaint: Some(complaint),
            ..Tree::empty()
        }
    }

    pub(super) fn read(path: &Path) -> Tree {
        let (engine, complaint) = match checked_file(path) {
            Ok(engine) => (Ok(engine), None),
            Err(e) => (frozen_file(path), Some(e.to_string())),
        };
        let mut tree = Tree {
            checked: complaint.is_none(),
            complaint,
            ..Tree::empty()
        };
        match engine {
            // The engine stays until its snapshot was read.
            Ok(engine) => match engine.snapshot() {
                Ok(snapshot) => tree.take(&snapshot),
                Err(e) => tree.complaint = Some(e.to_string()),
            },
            Err(e) => tree.complaint = Some(e.to_string()),
        }
        tree
    }

    fn take(&mut self, snapshot: &Snapshot) {
        match snapshot.facts() {
            Ok(facts) => self.facts = facts.into_iter().collect(),
            Err(e) => drop(self.note(Err(e))),
        }
        let mut frames = BTreeMap::new();
        let read = snapshot.frames(Seq::ZERO, |seq, frame| {
            frames.insert(seq, frame.to_vec());
            Ok(ControlFlow::Continue(()))
        });
        self.frames = frames;
        self.whole_log = self.note(read);
        let mut bodies = BTreeMap::new();
        let read = snapshot.bodies(|seq, body| {
            bodies.insert(seq, body.to_vec());
            Ok(ControlFlow::Continue(()))
        });
        self.bodies = bodies;
        self.note(read);
        let mut base = MemTables::new();
        let mut complete = Ok(());
        for table in TableId::ALL.iter().copied() {
            if complete.is_ok() {
                complete = copy(&snapshot.base_rows(), &mut base, table);
            }
            let read = copy(snapshot, &mut self.live, table);
            if self.note(read.map_err(ReadError::from)) {
                self.live_tables.insert(table);
            }
        }
        self.base = complete.map(|()| base).map_err(|e| e.to_string());
    }

    /// Keeps the first complaint; says whether there was none.
    fn note(&mut self, read: Result<(), ReadError>) -> bool {
        let Err(e) = read else { return true };
        self.complaint.get_or_insert(e.to_string());
        false
    }

    pub(super) fn kind(&self) -> Option<&str> {
        std::str::from_utf8(self.facts.get(META_KIND)?).ok()
    }

    pub(super) fn format(&self) -> Option<u32> {
        let bytes = self.facts.get(META_FORMAT)?.as_slice().try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    /// The compaction point; `None` where it does not read.
    pub(super) fn base_seq(&self) -> Option<Seq> {
        self.format()?;
        Some(self.position(META_BASE).unwrap_or(Seq::ZERO))
    }

    pub(super) fn applied(&self) -> Option<Seq> {
        self.position(META_APPLIED)
    }

    fn position(&self, key: &str) -> Option<Seq> {
        let bytes = self.facts.get(key)?.as_slice().try_into().ok()?;
        Some(Seq(u64::from_le_bytes(bytes)))
    }
}

fn copy(from: &dyn TableReader, to: &mut MemTables, table: TableId) -> Result<(), TableError> {
    let mut failed = Ok(());
    from.scan(
        table,
        Bound::Unbounded,
        Bound::Unbounded,
        &mut |key, value| {
            failed = to.put(table, key, value);
            if failed.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        },
    )?;
    failed
}
