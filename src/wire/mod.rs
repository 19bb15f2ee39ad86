//! Floor 1, upper half: what travels. Signed objects and the shapes of the bus's HTTP interface.
//!
//! The wire is that of the public `interlink-mcp` 0.8 to 0.13; additions are optional fields and
//! new routes that an older peer ignores. Unknown members are ignored everywhere, because that is
//! what keeps peers of different age talking.
//!
//! Two kinds of types, kept apart:
//! - *signed objects* ([`envelope`], [`announce`]) exist in one form. Reading them checks shape,
//!   `verify` checks the signature, and building them signs.
//! - *HTTP shapes* ([`http`], [`problem`]) have one direction each: what a server reads has no
//!   writer and what it writes has no reader. The client's mirror images are in [`http::client`].
//!
//! [`admin`] and [`operator`] are the operator's view; its shapes are read and written by the same
//! program, so they have both directions.
//!
//! [`rendezvous`] is what a relay of sealed sessions and its clients say to each other.
//!
//! [`public`] reads the files in which the public program keeps its state, for moving house.
//!
//! [`rendezvous_client`] is what a client of sealed sessions exchanges with their relay.
//!
//! Map: [`canonical`] builds the bytes that are signed (`schema/canonical.md`), [`pair`] reads
//! knocks and renews pairing messages, [`peers`] reads and prints `peers.json`, [`schema`] lists
//! the JSON Schemas.

pub mod admin;
pub mod announce;
#[cfg(feature = "sealed")]
pub mod bond;
pub mod canonical;
pub mod envelope;
pub mod http;
pub mod operator;
pub mod pair;
pub mod peers;
pub mod problem;
pub mod public;
pub mod rendezvous;
pub mod rendezvous_client;
pub mod schema;
