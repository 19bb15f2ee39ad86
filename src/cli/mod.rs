//! Floor 6: the command lines. Flags, exit codes and output of the four programs; the work itself
//! is done below.

#[cfg(feature = "persist")]
pub mod admin;
pub mod args;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(feature = "agent")]
mod doctor;
pub mod exit;
mod fold;
#[cfg(feature = "agent")]
mod hook;
pub mod keygen;
pub mod logging;
#[cfg(feature = "agent")]
pub mod mcp;
pub mod out;
pub mod paths;
#[cfg(feature = "agent")]
mod setup;
pub mod units;
