//! Records -> rows.
//!
//! A projection is a pure function of the rows so far and one record. Rows are canonical: a row
//! that says nothing (a counter of zero, an empty list) is deleted, so that a rebuilt table and a
//! live one are equal byte for byte.

pub mod agent;
pub mod bus;
pub mod bus_rendezvous;
pub mod marks;
pub mod view;

use crate::domain::tables::{TableError, TableId, Tables};
use crate::event::Recorded;

/// A record could not be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Rows could not be read or written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The record contradicts the rows.
    #[error("record contradicts the tables: {reason}")]
    Inconsistent {
        /// What does not fit.
        reason: &'static str,
    },
}

/// What [`Projection::upgrade`] answers for a version that it does not convert.
pub(crate) const UNKNOWN_VERSION: ApplyError = ApplyError::Inconsistent {
    reason: "its base rows have a version that this program cannot convert",
};

/// Rows that follow from records.
///
/// `apply` MUST depend on its arguments only. A change of what it writes MUST raise
/// [`version`](Projection::version): stores then rebuild its tables from the log.
pub trait Projection<E>: Send + Sync {
    /// Stable name, part of the store's `meta` table.
    fn name(&self) -> &'static str;

    /// Version of the rows' content.
    fn version(&self) -> u16;

    /// The tables that this projection alone writes.
    fn tables(&self) -> &'static [TableId];

    /// Brings base rows of an older version to the current one: the records that they followed from
    /// are gone. Live rows need no conversion, they are rebuilt.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Inconsistent`] for a version without a conversion.
    fn upgrade(&self, _from: u16, _tables: &mut dyn Tables) -> Result<(), ApplyError> {
        Err(UNKNOWN_VERSION)
    }

    /// Applies one record.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Inconsistent`] for a record that no decision on these rows could have made.
    fn apply(&self, tables: &mut dyn Tables, record: &Recorded<E>) -> Result<(), ApplyError>;
}

/// Applies a record to every projection.
///
/// # Errors
///
/// The first projection's error.
pub fn apply_all<E>(
    projections: &[&dyn Projection<E>],
    tables: &mut dyn Tables,
    record: &Recorded<E>,
) -> Result<(), ApplyError> {
    projections.iter().try_for_each(|p| p.apply(tables, record))
}
