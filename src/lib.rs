//! interlink: signed messages between independent coding-agent sessions, on a durable event log.
//!
//! A peer is its Ed25519 key. Every message is signed and passes one deterministic trust gate
//! before a model sees it; a dumb bus keeps mail for sleeping machines; every state change is an
//! append to an event log and every table is a projection of it.
//!
//! # Floors
//!
//! A module imports strictly lower floors only; siblings never import each other. The test
//! `architecture` enforces it.
//!
//! ```text
//! F7 bin        main() of four binaries
//! F6 cli        flags, logging, exit codes, output, admin commands
//! F5 bus|agent  async edges: axum | rmcp, reqwest     (bus and agent never meet)
//! F4 store      redb adapter, committer thread, migrations (blocking, no tokio)
//!    keystore   key files: permissions, exclusive creation, durable replacement
//!    system     the machine's clock
//! F3 domain     tables, projections, decide, gate     (no IO, no clock, no randomness)
//! F2 event      events, kinds, records, stored shapes
//! F1 wire | codec      (wire stands on crypto)
//!    crypto
//! F0 types      newtypes, limits, Clock and Entropy traits
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs, unreachable_pub, rustdoc::broken_intra_doc_links)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::dbg_macro
    )
)]

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "persist")]
pub mod codec;
#[cfg(feature = "identity")]
pub mod crypto;
#[cfg(feature = "persist")]
pub mod domain;
#[cfg(feature = "persist")]
pub mod event;
#[cfg(feature = "identity")]
pub mod keystore;
#[cfg(feature = "persist")]
pub mod store;
#[cfg(any(feature = "bus", feature = "agent", feature = "cli"))]
pub mod system;
#[cfg(feature = "testkit")]
pub mod testkit;
#[cfg(feature = "identity")]
pub mod types;
#[cfg(feature = "identity")]
pub mod wire;
