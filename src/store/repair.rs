//! A new store from what can be read of a damaged one (`docs/store-care.md`).
//!
//! Records are applied one by one, from the base rows where they read. One that is missing, or that
//! contradicts the rows because another one is missing, leaves a gap. A log has no gaps: what stands
//! before the last of them is folded into the base rows, as a compaction does it, and what stands
//! after it stays. Messages whose bodies are lost are let go by records of their own, so that what
//! protects against their copies stays.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;

use super::backup::CopyError;
use super::error::ReadError;
use super::layout::{
    META_APPLIED, META_BASE, META_FORMAT, META_KIND, META_MIN_WRITER, META_PROJECTION,
};
use super::parts::{Part, Parts, build};
use super::salvage::{BaseFound, Salvage};
use super::verify::{VerifyError, verify};
use super::{Snapshot, migrate};
use crate::domain::Domain;
use crate::domain::LiveBody;
use crate::domain::projection::apply_all;
use crate::domain::tables::{MemTables, TableError, TableId, TableReader, Tables, Visit};
use crate::event::{
    DecodeEventError, DecodeRecordError, EncodeRecordError, Recorded, StoredEvent as _,
};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Most times that messages without their bodies are let go: what that frees needs no body.
const MAX_ROUNDS: usize = 4;

/// A record that was found and could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its position.
    pub seq: Seq,
    /// Name of its kind, where it reads.
    pub kind: Option<&'static str>,
    /// What does not fit.
    pub reason: String,
}

/// What was saved and what was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// What the engine says about the damaged file; `None` when every page of it checks.
    pub complaint: Option<String>,
    /// What the base rows were worth.
    pub base_found: BaseFound,
    /// Records that were found.
    pub found: u64,
    /// Records in the new log, without those that the repair added.
    pub kept: u64,
    /// Records that live on in the base rows only, because a gap follows them.
    pub folded: u64,
    /// Positions whose records are lost, from and to.
    pub missing: Vec<(Seq, Seq)>,
    /// Records that were found and could not be used.
    pub left_out: Vec<LeftOut>,
    /// Records that stood outside of every page that reads: their place does not vouch for them.
    pub loose: Vec<Seq>,
    /// Positions for which different records were found; the later one was taken.
    pub doubtful: Vec<Seq>,
    /// Records behind the newest one that the engine knows of: their commit may not have been
    /// finished.
    pub beyond: Vec<Seq>,
    /// Bodies in the new store.
    pub bodies: u64,
    /// Positions of bodies that are lost; their messages were let go.
    pub bodies_lost: Vec<Seq>,
    /// Records that the repair added.
    pub added: u64,
    /// Rows that the damaged file held otherwise, or not at all, among those that could be read.
    pub rows_changed: u64,
    /// The compaction point of the new store.
    pub base: Seq,
    /// Its newest record.
    pub head: Seq,
}

impl RepairReport {
    /// Whether every record and body was saved, as far as the file says.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
            && self.left_out.is_empty()
            && self.bodies_lost.is_empty()
            && !matches!(self.base_found, BaseFound::Lost { .. })
    }
}

/// Nothing could be made of a damaged store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// A record was written by a newer program, which can read it.
    #[error("{0}")]
    Newer(DecodeRecordError),
    /// No record was found, and no base rows.
    #[error("not one record could be read")]
    Nothing,
    /// The rows do not read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A record cannot be written.
    #[error(transparent)]
    Encode(#[from] EncodeRecordError),
    /// The new store cannot be written.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The new store is not what its log says.
    #[error("the repaired store does not prove: {0}")]
    Proof(#[from] VerifyError),
}

/// Makes a new store of what was salvaged, durable and proven when this returns.
///
/// # Errors
///
/// [`RepairError`]; nothing stands under the new name then that was not there before.
pub fn repair<D: Domain>(
    salvage: &Salvage,
    out: &Path,
    now: UnixMillis,
) -> Result<RepairReport, RepairError> {
    let (start, base, base_found) = base_rows::<D>(salvage);
    let mut replay = Replay::<D>::new(start, base.clone());
    for seq in salvage.positions().filter(|seq| *seq > start) {
        replay.take(salvage, seq)?;
    }
    replay.end(salvage.reached());
    if replay.good.is_empty() && start == Seq::ZERO {
        return Err(RepairError::Nothing);
    }
    let (base_seq, base) = replay.fold(start, base)?;
    let mut tables = replay.tables;
    let kept: Vec<Seq> = replay
        .good
        .keys()
        .copied()
        .filter(|seq| *seq > base_seq)
        .collect();
    let head = kept.last().copied().unwrap_or(base_seq);
    let mut added = Added::<D>::new(head, now);
    let mut bodies_lost = BTreeSet::new();
    let mut live = live_bodies::<D>(&tables)?;
    let mut bodies = salvage.bodies(&live);
    for _ in 0..MAX_ROUNDS {
        let lost: BTreeSet<Seq> = live
            .iter()
            .map(|body| body.seq)
            .filter(|seq| !bodies.contains_key(seq))
            .collect();
        if lost.is_empty() {
            break;
        }
        for event in D::let_go(&tables, &lost)? {
            added.push(event, &mut tables)?;
        }
        bodies_lost.extend(lost);
        live = live_bodies::<D>(&tables)?;
        bodies = salvage.bodies(&live);
    }
    if kept.is_empty() && added.frames.is_empty() {
        added.push(D::nothing(), &mut tables)?;
    }
    let needed: BTreeSet<Seq> = live.iter().map(|body| body.seq).collect();
    bodies.retain(|seq, _| needed.contains(seq));
    let made = Made::<D> {
        salvage,
        base_seq,
        base: &base,
        tables: &tables,
        kept: &kept,
        added: &added,
        bodies: &bodies,
    };
    let prove = |snapshot: &Snapshot| Ok(verify::<D>(snapshot, |_| {}).map(drop)?);
    build::<RepairError>(out, D::KIND, |parts| made.write(parts), prove)?;
    let after = |seqs: &BTreeSet<Seq>| seqs.iter().copied().filter(|seq| *seq > start).collect();
    Ok(RepairReport {
        complaint: salvage.complaint().map(ToOwned::to_owned),
        base_found,
        found: salvage.positions().count() as u64,
        kept: kept.len() as u64,
        folded: replay.good.len() as u64 - kept.len() as u64,
        missing: replay.missing,
        left_out: replay.left_out,
        loose: after(&salvage.loose),
        doubtful: after(&salvage.doubtful),
        beyond: after(&salvage.beyond),
        bodies: bodies.len() as u64,
        bodies_lost: bodies_lost.into_iter().collect(),
        added: added.frames.len() as u64,
        rows_changed: rows_changed::<D>(salvage, &replay.before_lost),
        base: base_seq,
        head: added.head,
    })
}

/// The base rows in their current version; what does not convert is lost.
fn base_rows<D: Domain>(salvage: &Salvage) -> (Seq, MemTables, BaseFound) {
    let (seq, mut rows, found) = salvage.base();
    if seq == Seq::ZERO {
        return (seq, rows, found);
    }
    let lost = |reason: String| (Seq::ZERO, MemTables::new(), BaseFound::Lost { reason });
    for projection in D::projections() {
        let from = salvage.projection(projection.name());
        if let Some(from) = from.filter(|from| *from != projection.version())
            && let Err(e) = projection.upgrade(from, &mut rows)
        {
            return lost(e.to_string());
        }
    }
    // Rows that do not decode fail here rather than in a process that uses them.
    let decoded = live_bodies::<D>(&rows).and_then(|_| D::build_index(&rows).map(drop));
    match decoded {
        Ok(()) => (seq, rows, found),
        Err(e) => lost(e.to_string()),
    }
}

fn live_bodies<D: Domain>(tables: &MemTables) -> Result<Vec<LiveBody>, TableError> {
    let mut live = vec![];
    D::live_bodies(tables, &mut |body| live.push(body))?;
    Ok(live)
}

/// Records in order, as far as they apply.
struct Replay<D: Domain> {
    tables: MemTables,
    before_lost: MemTables,
    next: Seq,
    good: BTreeMap<Seq, Recorded<D::Event>>,
    missing: Vec<(Seq, Seq)>,
    left_out: Vec<LeftOut>,
}

impl<D: Domain> Replay<D> {
    fn new(start: Seq, tables: MemTables) -> Self {
        Replay {
            tables,
            before_lost: MemTables::new(),
            next: start.next(),
            good: BTreeMap::new(),
            missing: vec![],
            left_out: vec![],
        }
    }

    fn take(&mut self, salvage: &Salvage, seq: Seq) -> Result<(), RepairError> {
        self.pass_to(seq);
        self.next = seq.next();
        let bytes = salvage.frame(seq).unwrap_or_default();
        let record = match Recorded::<D::Event>::from_frame(seq, bytes) {
            Ok(record) => record,
            Err(
                e @ DecodeRecordError::Event {
                    source:
                        DecodeEventError::UnknownKind { .. } | DecodeEventError::UnknownVersion { .. },
                    ..
                },
            ) => return Err(RepairError::Newer(e)),
            Err(e) => {
                self.leave_out(seq, None, e.to_string());
                return Ok(());
            }
        };
        let mut undo = Undo {
            tables: &mut self.tables,
            old: vec![],
        };
        match apply_all(D::projections(), &mut undo, &record) {
            Ok(()) => drop(self.good.insert(seq, record)),
            Err(e) => {
                undo.undo()?;
                self.leave_out(seq, Some(record.event.kind().name()), e.to_string());
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, seq: Seq, kind: Option<&'static str>, reason: String) {
        self.left_out.push(LeftOut { seq, kind, reason });
    }

    /// Notes that nothing was found before this position.
    fn pass_to(&mut self, seq: Seq) {
        if seq > self.next {
            self.missing.push((self.next, Seq(seq.0 - 1)));
        }
    }

    fn end(&mut self, reached: Seq) {
        self.pass_to(reached.next());
        self.before_lost = self.tables.clone();
    }

    /// The position of the last gap, and the rows there.
    fn fold(&self, start: Seq, base: MemTables) -> Result<(Seq, MemTables), RepairError> {
        let missing = self.missing.last().map(|(_, to)| *to);
        let left_out = self.left_out.last().map(|record| record.seq);
        let Some(gap) = missing.max(left_out) else {
            return Ok((start, base));
        };
        let mut tables = base;
        for record in self.good.range(..=gap).map(|(_, record)| record) {
            // They applied in this order before.
            apply_all(D::projections(), &mut tables, record).map_err(unappliable)?;
        }
        Ok((gap, tables))
    }
}

fn unappliable(e: crate::domain::projection::ApplyError) -> RepairError {
    use crate::domain::projection::ApplyError;
    match e {
        ApplyError::Table(e) => e.into(),
        e => VerifyError::Read(ReadError::Engine {
            reason: e.to_string(),
        })
        .into(),
    }
}

/// Tables that can go back.
struct Undo<'a> {
    tables: &'a mut MemTables,
    old: Vec<(TableId, Vec<u8>, Option<Vec<u8>>)>,
}

impl Undo<'_> {
    fn keep(&mut self, table: TableId, key: &[u8]) -> Result<(), TableError> {
        let old = self.tables.get(table, key)?;
        self.old.push((table, key.to_vec(), old));
        Ok(())
    }

    fn undo(self) -> Result<(), TableError> {
        for (table, key, old) in self.old.into_iter().rev() {
            match old {
                Some(value) => self.tables.put(table, &key, &value)?,
                None => drop(self.tables.delete(table, &key)?),
            }
        }
        Ok(())
    }
}

impl TableReader for Undo<'_> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        self.tables.get(table, key)
    }

    fn scan(
        &self,
        table: TableId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        self.tables.scan(table, from, to, visit)
    }
}

impl Tables for Undo<'_> {
    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), TableError> {
        self.keep(table, key)?;
        self.tables.put(table, key, value)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TableError> {
        self.keep(table, key)?;
        self.tables.delete(table, key)
    }
}

/// Records that the repair adds.
struct Added<D: Domain> {
    head: Seq,
    now: UnixMillis,
    frames: Vec<(Seq, Vec<u8>)>,
    domain: std::marker::PhantomData<fn() -> D>,
}

impl<D: Domain> Added<D> {
    fn new(head: Seq, now: UnixMillis) -> Self {
        Added {
            head,
            now,
            frames: vec![],
            domain: std::marker::PhantomData,
        }
    }

    fn push(&mut self, event: D::Event, tables: &mut MemTables) -> Result<(), RepairError> {
        let record = Recorded {
            seq: self.head.next(),
            at: self.now,
            event,
        };
        apply_all(D::projections(), tables, &record).map_err(unappliable)?;
        self.frames.push((record.seq, record.to_frame()?));
        self.head = record.seq;
        Ok(())
    }
}

/// The new store.
struct Made<'a, D: Domain> {
    salvage: &'a Salvage,
    base_seq: Seq,
    base: &'a MemTables,
    tables: &'a MemTables,
    kept: &'a [Seq],
    added: &'a Added<D>,
    bodies: &'a BTreeMap<Seq, &'a [u8]>,
}

impl<D: Domain> Made<'_, D> {
    fn write(&self, parts: &mut Parts<'_>) -> Result<(), RepairError> {
        let mut fact = |key: &str, value: &[u8]| parts.put(Part::Meta { key, value });
        fact(META_FORMAT, &migrate::FORMAT.to_le_bytes())?;
        fact(META_MIN_WRITER, &migrate::FORMAT.to_le_bytes())?;
        fact(META_KIND, D::KIND.name().as_bytes())?;
        fact(META_BASE, &self.base_seq.0.to_le_bytes())?;
        fact(META_APPLIED, &self.added.head.0.to_le_bytes())?;
        for projection in D::projections() {
            let key = format!("{META_PROJECTION}{}", projection.name());
            fact(&key, &projection.version().to_le_bytes())?;
        }
        for (rows, base) in [(self.base, true), (self.tables, false)] {
            if base && self.base_seq == Seq::ZERO {
                continue;
            }
            for table in TableId::ALL.iter().copied() {
                for (key, value) in rows.rows(table) {
                    parts.put(Part::Row {
                        table,
                        base,
                        key,
                        value,
                    })?;
                }
            }
        }
        for seq in self.kept.iter().copied() {
            let frame = self.salvage.frame(seq).unwrap_or_default();
            parts.put(Part::Record { seq, frame })?;
        }
        for (seq, frame) in &self.added.frames {
            parts.put(Part::Record { seq: *seq, frame })?;
        }
        for (seq, bytes) in self.bodies {
            parts.put(Part::Body { seq: *seq, bytes })?;
        }
        Ok(())
    }
}

/// Rows that differ between what was read and what the records give.
fn rows_changed<D: Domain>(salvage: &Salvage, tables: &MemTables) -> u64 {
    let mut changed = 0;
    for projection in D::projections() {
        // Rows of another version differ for that alone.
        if salvage.projection(projection.name()) != Some(projection.version()) {
            continue;
        }
        for table in projection.tables() {
            let Some(mut live) = salvage.live(*table) else {
                continue;
            };
            for (key, value) in tables.rows(*table) {
                changed += u64::from(live.remove(key) != Some(value));
            }
            changed += live.len() as u64;
        }
    }
    changed
}
