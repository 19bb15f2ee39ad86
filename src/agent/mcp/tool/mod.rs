//! The tools, by area. Each is one function: arguments in, [`Answer`](super::reply::Answer) out.

pub mod inbox;
pub mod pair;
mod pair_view;
pub mod peer;
pub mod send;
pub mod session;
mod view;
