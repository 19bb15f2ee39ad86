//! `audit.log`: what happened in sealed sessions, one line of JSON each, chained by hashes.
//!
//! The lines are a view of the log's events ([`lines`]): the log decides what happened, the file lets
//! anybody read it without a tool, and shows when somebody changed it ([`Chain`]). Members `timestamp`,
//! `tool`, `source`, `params` and `pid` are those of the public Covalent Bond client, whose file may be
//! the same one. What is added: `identity` (fingerprint of the key that writes), `seq` (number of the
//! line), `record` (position of the event in the log of that identity), `prev` and `hash`.
//!
//! ```text
//! hash(n)  SHA-256 of line n from its first byte up to, not including, the text `,"hash":"`
//! prev(n)  SHA-256 of the whole line n-1, without its line feed; of the first line: GENESIS
//! ```
//!
//! Both in lower-case hex. `hash` shows that a line was changed, `prev` that one was taken out, put in
//! or moved. That whole lines at the end are gone shows only beside the log.

mod chain;
mod lines;

pub use chain::{Chain, Fault, Line, Seen, Taken};
pub use lines::{Entry, Source, is_bond, lines};

/// What the first line of the first file follows: SHA-256 of the ASCII text `interlink audit 1`.
pub const GENESIS_TEXT: &[u8] = b"interlink audit 1";

/// Tool of the line that says that the line before it was cut off by a crash.
pub const TORN: &str = "audit_torn";
/// Tool of the line that begins a file when the one before it was full.
pub const ROTATED: &str = "audit_rotated";
/// Tool of the line that says that records were compacted before they had a line.
pub const COMPACTED: &str = "log_compacted";

/// Reason of a `bond_file_blocked` event for an offer beyond the most that may be pending.
pub const PENDING_CAP: &str = "pending_cap";
