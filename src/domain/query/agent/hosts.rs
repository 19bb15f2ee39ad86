//! Who wakes whom.

use crate::domain::projection::agent::HostRow;
use crate::domain::tables::{TableError, TableId, TableReader, get_row};
use crate::types::id::SessionId;

/// The host of a session, once a server acted for it.
///
/// # Errors
///
/// [`TableError`].
pub fn host(tables: &dyn TableReader, session: &SessionId) -> Result<Option<HostRow>, TableError> {
    get_row(tables, TableId::Hosts, session.as_str().as_bytes())
}
