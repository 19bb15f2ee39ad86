//! Sealed sessions, and the files that were offered in them.

use std::ops::ControlFlow;

use crate::domain::projection::agent::{BondRow, OfferRow, SealedPeerRow, seq_key};
use crate::domain::tables::{TableError, TableId, TableReader, get_row, scan_rows};
use crate::types::id::PublicKey;
use crate::types::seq::Seq;

/// The sealed session that the record at a position opened, while it is among the latest.
///
/// # Errors
///
/// [`TableError`].
pub fn bond(tables: &dyn TableReader, bond: Seq) -> Result<Option<BondRow>, TableError> {
    get_row(tables, TableId::Bonds, &bond.to_key())
}

/// The file that the record at a position offered, while it is among the latest.
///
/// # Errors
///
/// [`TableError`].
pub fn bond_offer(tables: &dyn TableReader, offer: Seq) -> Result<Option<OfferRow>, TableError> {
    get_row(tables, TableId::BondOffers, &offer.to_key())
}

/// The latest sealed sessions with their positions, oldest first; at most 512.
///
/// # Errors
///
/// [`TableError`].
pub fn bonds(tables: &dyn TableReader) -> Result<Vec<(Seq, BondRow)>, TableError> {
    all(tables, TableId::Bonds)
}

/// The latest offered files with their positions, oldest first; at most 1024.
///
/// # Errors
///
/// [`TableError`].
pub fn bond_offers(tables: &dyn TableReader) -> Result<Vec<(Seq, OfferRow)>, TableError> {
    all(tables, TableId::BondOffers)
}

fn all<R: serde::de::DeserializeOwned>(
    tables: &dyn TableReader,
    table: TableId,
) -> Result<Vec<(Seq, R)>, TableError> {
    let mut rows = vec![];
    scan_rows::<R>(tables, table, &[], |key, row| {
        rows.push((seq_key(table, key)?, row));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// Whether a key proved in a sealed session that its program speaks our own mode.
///
/// # Errors
///
/// [`TableError`].
pub fn is_sealed_peer(tables: &dyn TableReader, key: &PublicKey) -> Result<bool, TableError> {
    let row: Option<SealedPeerRow> = get_row(tables, TableId::SealedPeers, key.as_bytes())?;
    Ok(row.is_some())
}
