//! What commands would lead to, without writing anything.
//!
//! Deciding and projecting are pure, so the same code that changes a store tells beforehand what it
//! would change: over a copy of the rows, in memory. Bodies are not kept.

use std::ops::{Bound, ControlFlow};

use super::projection::{ApplyError, apply_all};
use super::tables::{MemTables, TableError, TableReader, Tables};
use super::{Decision, Domain, View};
use crate::event::Recorded;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A rehearsal failed; the store would fail alike.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RehearsalError {
    /// Rows could not be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A record does not apply.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// What a command would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsed<R> {
    /// What the caller would be told.
    pub reply: R,
    /// How many records it would append.
    pub records: usize,
}

/// A copy of a store's rows on which commands are tried.
pub struct Rehearsal<D: Domain> {
    tables: MemTables,
    index: D::Index,
    next: Seq,
}

impl<D: Domain> Rehearsal<D> {
    /// Copies the rows of a store whose log ends at `head`.
    ///
    /// # Errors
    ///
    /// [`RehearsalError::Table`].
    pub fn over(rows: &dyn TableReader, head: Seq) -> Result<Self, RehearsalError> {
        let mut tables = MemTables::new();
        for table in D::projections().iter().flat_map(|p| p.tables()) {
            let mut failed = None;
            rows.scan(
                *table,
                Bound::Unbounded,
                Bound::Unbounded,
                &mut |key, value| match tables.put(*table, key, value) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(e) => {
                        failed = Some(e);
                        ControlFlow::Break(())
                    }
                },
            )?;
            if let Some(e) = failed {
                return Err(e.into());
            }
        }
        Ok(Rehearsal {
            index: D::build_index(&tables)?,
            tables,
            next: head.next(),
        })
    }

    /// A store that does not exist yet.
    ///
    /// # Errors
    ///
    /// As [`Rehearsal::over`].
    pub fn empty() -> Result<Self, RehearsalError> {
        Rehearsal::over(&MemTables::new(), Seq::ZERO)
    }

    /// The rows as they would be now.
    #[must_use]
    pub const fn tables(&self) -> &MemTables {
        &self.tables
    }

    /// Tries a command, as if it was committed at `now`.
    ///
    /// # Errors
    ///
    /// Outer: [`RehearsalError`]. Inner: the refusal; nothing has changed then.
    pub fn run(
        &mut self,
        command: &D::Command,
        now: UnixMillis,
    ) -> Result<Result<Rehearsed<D::Reply>, D::Refusal>, RehearsalError> {
        let view = View {
            tables: &self.tables,
            index: &self.index,
            next: self.next,
        };
        let Decision { events, reply } = match D::decide(&view, command)? {
            Ok(decision) => decision,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let records = events.len();
        for new in events {
            let record = Recorded {
                seq: self.next,
                at: now,
                event: new.event,
            };
            apply_all(D::projections(), &mut self.tables, &record)?;
            D::index(&mut self.index, &record);
            self.next = self.next.next();
        }
        Ok(Ok(Rehearsed { reply, records }))
    }
}
