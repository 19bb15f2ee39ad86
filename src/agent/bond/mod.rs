//! The edge of sealed sessions.
//!
//! - [`files`]: opens what is sent, places what was accepted.
//! - [`desktop`]: tells the human at the screen.

pub mod desktop;
pub mod files;
