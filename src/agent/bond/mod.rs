//! Sealed sessions at the edge: two who never met talk and exchange files through a relay that
//! neither of them trusts.
//!
//! The machine in [`crate::domain::machine::bond`] decides; what stands here moves things between
//! it, the relay, the host and the disk. There is at most one session in a process. Its keys, its
//! code and files that nobody accepted yet live in memory only.
//!
//! - [`desk`]: the session, and what the tools can ask of it. [`driver`]: the loop that feeds it.
//! - [`relay`]: requests to the relay. [`pace`]: how often.
//! - [`news`]: what happened, until somebody is told. [`tell`]: the words for it.
//! - [`mod@file`]: files out and in. [`files`]: the disk for that, at once or piece
//!   by piece (`arrivals`). [`desktop`]: tells the human at the screen.
//! - [`moves`]: how far files are, for whoever waits for them.
//! - [`books`]: what is recorded, in the log and in `audit.log`. [`page`]: what one session's machine
//!   says, as records. [`scribe`]: writes them beside the session. [`audit`]: that file.
//! - [`control`]: how the operator's terminal reaches a running server.
//! - [`config`]: what all this was told at the start.

mod arrivals;
pub mod audit;
pub mod books;
pub mod config;
#[cfg(unix)]
pub mod control;
pub mod desk;
pub mod desktop;
pub mod driver;
pub mod file;
pub mod files;
pub mod moves;
pub mod news;
#[cfg(unix)]
mod operator;
pub mod pace;
pub mod page;
pub mod relay;
pub mod scribe;
pub mod tell;
