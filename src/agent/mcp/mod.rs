//! The MCP face: what a host's model can do with an identity.
//!
//! - [`transport`]: lines in and out; nothing but JSON-RPC leaves through standard output.
//! - [`server`]: the connection. [`catalog`]: the list of tools and their dispatch. [`args`] and [`reply`] are their types,
//!   [`schema`] turns these into JSON Schema, [`error`] is how they say no.
//! - [`tool`]: what each of them does.
//! - [`approve`]: asking the human; [`mod@line`]: what they can run instead.
//! - [`notes`]: what failed, told with the next answer. [`news`]: what happened in a sealed session.
//! - [`render`]: how a peer's words are shown.

pub mod approve;
pub mod args;
pub mod catalog;
pub mod error;
pub mod line;
pub mod news;
pub mod notes;
mod progress;
pub mod render;
pub mod reply;
pub mod schema;
pub mod server;
pub mod tool;
pub mod transport;
