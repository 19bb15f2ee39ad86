//! Decisions of an identity.

mod command;

pub use command::*;
