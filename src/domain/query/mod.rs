//! Rows -> what a caller wants to know. Pure reads, over a snapshot or inside a decision.
//!
//! Every function returns [`TableError`](super::tables::TableError) when rows cannot be read or
//! decoded, and nothing else can go wrong.

pub mod agent;
