//! The edge of sealed sessions.
//!
//! - [`files`]: opens what is sent, places what was accepted, at once or piece by piece.
//! - [`desktop`]: tells the human at the screen.

pub mod desktop;
pub mod files;
