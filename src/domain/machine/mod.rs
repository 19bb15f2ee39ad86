//! Schedules as pure functions of (state, now): when to act next, and what to do then. The driver
//! owns the clock, the randomness and the effects.
//!
//! - `bond` (feature `sealed`): sealed sessions, from the code to the goodbye.
//! - [`notice`]: when a host is woken, and when it is woken again.
//! - [`outbox`]: when a relay is tried, and when it is tried again.
//! - [`presence`]: whether a session counts as running, whatever a relay says.
//! - [`destination`]: which session a message goes to.
//! - [`wake`]: whether the machine slept.

#[cfg(feature = "sealed")]
pub mod bond;
pub mod destination;
pub mod notice;
pub mod outbox;
pub mod presence;
pub mod wake;

#[cfg(test)]
mod tests;
