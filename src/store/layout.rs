//! Names and types of the tables in a store file (`schema/tables.md`).

use redb::TableDefinition;

use crate::domain::tables::TableId;

/// The log: position -> frame.
pub(super) const LOG: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("log");

/// Message bodies: position of the event that brought them -> bytes.
pub(super) const BODIES: TableDefinition<'static, u64, &'static [u8]> =
    TableDefinition::new("bodies");

/// Facts about the store itself.
pub(super) const META: TableDefinition<'static, &'static str, &'static [u8]> =
    TableDefinition::new("meta");

/// `meta`: store format, u32 little endian.
pub(super) const META_FORMAT: &str = "format";
/// `meta`: oldest format whose programs may write here, u32 little endian.
pub(super) const META_MIN_WRITER: &str = "min_writer";
/// `meta`: `bus` or `agent`.
pub(super) const META_KIND: &str = "kind";
/// `meta`: position at which the projections were last rebuilt, u64 little endian. Since then rows
/// and records were written together.
pub(super) const META_APPLIED: &str = "applied_seq";
/// `meta`: the compaction point, u64 little endian: every record up to it lives on in the base rows
/// only. 0 while nothing was compacted.
pub(super) const META_BASE: &str = "base_seq";
/// `meta`: prefix of a projection's version, u16 little endian.
pub(super) const META_PROJECTION: &str = "projection/";

/// A projection's table.
pub(super) fn rows(table: TableId) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.name())
}

/// The rows that a projection's table had at the compaction point.
pub(super) fn base_rows(table: TableId) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table.base_name())
}
