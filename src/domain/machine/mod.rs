//! Schedules as pure functions of (state, now): when to act next, and what to do then. The driver
//! owns the clock, the randomness and the effects.
//!
//! - [`notice`]: when a host is woken, and when it is woken again.
//! - [`outbox`]: when a relay is tried, and when it is tried again.

pub mod notice;
pub mod outbox;

#[cfg(test)]
mod tests;
