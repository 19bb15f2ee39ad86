//! SIGKILL at random moments, seeded: processes die and come back under load, and what their
//! clients saw is judged by a pure function ([`history::check`]).
//!
//! `INTERLINK_LONG=1` kills hundreds of times; `INTERLINK_SEED=n` starts elsewhere. The seed fixes
//! what is killed and when it is tried, not what the machine does meanwhile.

pub(crate) mod agents;
pub(crate) mod client;
pub(crate) mod history;
pub(crate) mod process;
mod raw;
pub(crate) mod stores;
mod takeover;
