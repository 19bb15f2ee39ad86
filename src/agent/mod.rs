//! Floor 5: the channel server, one process per coding-agent session.
//!
//! The log ([`ledger`]) decides; everything here only moves things between it, the relays and the
//! host. Parts share one [`core::Core`] and nothing else:
//!
//! ```text
//!  host <- MCP -> mcp::server ---+                 +--- poll  <- mail --- relay
//!                                +--> ledger <-----+
//!  host <- notices <- host::* ---+   (the log)     +--- pump  --- mail -> relay
//!  peers.json <-> peers_file ----+                 +--- presence ------> relay
//! ```
//!
//! - [`client`]: the only HTTP client but for [`bond`], sealed sessions with strangers. [`connect`]: how both connect. [`lease`]: who may act for the session.
//! - [`roster`]: who is there. [`directory`]: who is meant by a name. [`lifecycle`]: signals, the parent, liveness.
//! - [`pairing`]: the edge of pairing. [`bond`]: that of sealed sessions.
//! - [`trouble`]: what failed, for the model to be told. [`progress`]: what it works on, for a hook.
//! - [`runtime`]: which session is acted for. [`wake`]: after sleep. [`driver`]: start and end.

pub mod bond;
pub mod client;
pub mod config;
pub mod connect;
pub mod core;
pub mod directory;
pub mod driver;
pub mod host;
pub mod lease;
pub mod ledger;
pub mod lifecycle;
pub mod mcp;
pub mod pace;
pub mod pairing;
pub mod peers_file;
pub mod poll;
pub mod presence;
pub mod progress;
pub mod pump;
pub mod random;
pub mod roster;
pub mod runtime;
mod sweep;
pub mod trouble;
pub mod wake;
