//! Command + rows -> events and a reply, or a refusal.

pub mod agent;
pub mod bus;
