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
//! - [`file`]: files out and in. [`record`]: what is put on record.
//! - [`config`]: what all this was told at the start.

pub mod config;
pub mod desk;
pub mod driver;
pub mod file;
pub mod news;
pub mod pace;
pub mod record;
pub mod relay;
pub mod tell;
