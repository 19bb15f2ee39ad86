//! The tools, by area. Each is one function: arguments in, [`Answer`](super::reply::Answer) out.

pub mod bond;
pub mod bond_file;
pub mod bond_pin;
pub mod discover;
pub mod history;
pub mod host;
pub mod inbox;
pub mod pair;
mod pair_ask;
mod pair_end;
mod pair_view;
pub mod peer;
pub mod pending;
mod room;
pub mod send;
pub mod send_file;
pub mod session;
pub mod task;
mod view;
