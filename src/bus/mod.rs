//! Floor 5: the broker's HTTP edge.
//!
//! A dumb bus: it keeps mail per recipient until the recipient acknowledges it, and shows who was
//! heard of lately. It verifies nothing and holds no keys; recipients are opaque text. Everything
//! that it answers with success is durable before the answer leaves.
//!
//! The handlers are thin: check the edges, hand a command to the store's writer, wait for the
//! receipt. No task holds a lock or a snapshot across an await.
//!
//! - [`serve`]: listener, connections, shutdown. - `router`: paths. - `handler`: one file a route.
//! - `line`: a connection's bytes. - `longpoll`: who waits for mail. - `board`: presence. - `guard`: what a browser may not do.
//! - `rendezvous`: the relay of sealed sessions, on a listener of its own. - `front`: which of the two.
//! - `upkeep`: what happens once a minute. - `request`, `failure`: bodies in, problems out.

mod board;
mod failure;
mod front;
mod guard;
mod handler;
mod line;
mod longpoll;
mod rendezvous;
mod request;
mod router;
pub mod serve;
mod state;
mod upkeep;

pub use board::BoardError;
pub use rendezvous::RelayConfig;
pub use serve::{AdminAccess, Config, Handle, ServeError, spawn};
