//! The tools, by area. Each is one function: arguments in, [`Answer`](super::reply::Answer) out.

pub mod host;
pub mod inbox;
pub mod peer;
pub mod send;
pub mod session;
mod view;
