//! Sealed sessions in our own mode, without IO: both sides are this program. The protocol is
//! `schema/bond-own.md`, ADR 0022 says why.
//!
//! What the legacy mode cannot have: a code that can be said aloud and not be guessed at offline,
//! a key per direction, numbers that show what is missing, repeated or came back, acknowledgements,
//! a session that outlives its relay, files of any content that are asked for before they move.
//!
//! One [`OwnSession`] takes the same [`Input`](super::Input)s as a legacy session and answers with
//! the same [`Action`](super::Action)s, and with those of [`io`] for what the legacy mode has not.
//!
//! - [`io`]: what is added to inputs, actions and happenings
//! - `handshake`: from a code to keys
//! - `keys`: sealing and opening, and the forward ratchet
//! - `stream`: numbering, acknowledging, sending again
//! - `body`: what a record holds
//! - `files`: offers, answers, chunks; `arrive` handles those of the peer
//! - `link`: relays that lose a session, and finding each other again
//! - [`session`]: the machine; `receive`, `send` and `end` are parts of it

mod arrive;
mod body;
mod end;
mod files;
mod handshake;
pub mod io;
mod keys;
mod link;
mod receive;
mod send;
pub mod session;
mod stream;

pub use handshake::Pinned;
pub use io::{LocalFile, OwnAction, OwnHappening, OwnInput, TransferFailure};
pub use session::OwnSession;

/// The largest file unless the operator says otherwise, in bytes.
pub const OWN_MAX_FILE_BYTES: u64 = 64 << 20;

/// Bytes of a file in one record.
pub const CHUNK_BYTES: usize = 192 << 10;

/// Records of one direction under one key.
pub const REKEY_RECORDS: u64 = 256;

/// Records that may be on their way without an acknowledgement.
pub const WINDOW: u64 = 64;

/// Bytes of sealed records that wait for an acknowledgement before a file goes on.
pub const WINDOW_BYTES: usize = 6 << 20;

/// Records that may wait in all: what the user says while nothing can be sent.
pub const MAX_WAITING: usize = 512;

/// The most characters of one message to a relay that takes as many as we like.
pub const FRAME_CHARS: usize = 1_000_000;

/// The same for a relay that counts messages: fewer and larger ones. A relay takes 5,242,880 bytes.
pub const SLOW_FRAME_CHARS: usize = 4_600_000;

/// A relay that wants us to wait longer than this counts messages.
pub const SLOW_AFTER_MS: u64 = 2_000;

/// Until a record that was not acknowledged is sent again; doubled each time, at most 8-fold.
pub const RESEND_MS: u64 = 15_000;

/// The same for a relay that counts messages.
pub const SLOW_RESEND_MS: u64 = 90_000;

/// Until a message that the relay did not take is tried again.
pub const RETRY_MS: u64 = 2_000;

/// Until a sign of life is sent when there is nothing else to send.
pub const KEEPALIVE_MS: u64 = 40_000;

/// Without a sign of life of the peer for so long, the relay is taken to have lost us.
pub const SILENCE_MS: u64 = 120_000;

/// How long a guest waits for the answer to its proof.
pub const PROOF_MS: u64 = 180_000;

/// The longest pause between two attempts to find each other again.
pub const MAX_BACKOFF_MS: u64 = 5_000;

/// Bytes of what two sides exchange in order to pin each other.
pub const MAX_PIN_BYTES: usize = 4_096;
