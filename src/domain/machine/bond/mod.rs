//! Sealed sessions in legacy mode, without IO: `schema/bond.md` says what travels, ADR 0021 why the
//! machine ends where it ends.
//!
//! One [`Session`] is one session: keys, nonces, cursor, budget and offers die with it, so nothing
//! of one session can reach the next. It is fed with [`Input`]s by a driver that owns the sockets,
//! the clock and the human, and answers with [`Action`]s.
//!
//! - [`io`]: what goes in and comes out; [`tell`] and [`row`]: what the user hears and what is recorded
//! - [`replay`]: which packets are new
//! - [`track`]: which of the relay's positions were seen, and what is missing
//! - [`offers`]: files that wait for consent
//! - [`session`]: the machine; its parts are the handshake, what is sent and what is received
//! - [`own`]: the machine of our own mode
//! - [`machine`]: what a driver needs of either

mod handshake;
pub mod io;
pub mod machine;
pub mod offers;
pub mod own;
mod receive;
pub mod replay;
pub mod row;
mod send;
pub mod session;
pub mod tell;
pub mod track;

pub use crate::wire::bond::Role;
pub use io::{
    Action, Carries, Delivery, Failure, Input, OfferId, OutgoingFile, Polled, Request, Ticket,
};
pub use machine::Machine;
pub use offers::Offer;
pub use own::{LocalFile, OwnAction, OwnHappening, OwnInput, OwnSession, Pinned, TransferFailure};
pub use row::{Dropped, Ending, Row};
pub use send::SendError;
pub use session::{Phase, Policy, Session, StepError};
pub use tell::{AbortReason, Happening, Refusal, RelayOddity};

/// Life of a session that nobody confirmed, and of a confirmed one without a sign of life.
pub const SESSION_TTL_MS: u64 = 30 * 60 * 1000;

/// How far a packet's time may be from ours, both ways, inclusive.
pub const REPLAY_WINDOW_MS: u64 = 5 * 60 * 1000;

/// Between two things that the user sends. Started by success only.
pub const SEND_COOLDOWN_MS: u64 = 10_000;

/// Until a confirmation that had no effect is sent again; doubled three times.
pub const CONFIRM_AGAIN_MS: u64 = 15_000;

/// The longest that a confirmation waits to be sent again, whatever the relay wants.
pub const MAX_CONFIRM_WAIT_MS: u64 = 120_000;

/// Files that may wait for consent.
pub const MAX_OFFERS: usize = 16;

/// Files of the largest size that a session may send.
pub const BUDGET_FILES: u64 = 8;

/// The most positions that a relay may jump ahead in one answer.
pub const MAX_JUMP: u64 = 10_000;

/// Bytes of a foreign name that are kept.
pub const MAX_NAME_BYTES: usize = 255;
