//! What sealed sessions put on the wire, in legacy mode first (`schema/bond.md`).
//!
//! Three layers, each read strictly and written in one form only:
//! - [`code`]: what one human reads to the other, and the ids a relay knows
//! - [`sealed`]: the encrypted object that a relay carries without understanding it
//! - [`packet`]: what is inside
//!
//! Our own mode (`schema/bond-own.md`) has a code and an envelope of its own: [`own_code`], [`own`];
//! [`identity`] is what identities sign there.
//!
//! The readers take any bytes and never panic; everything they return is bounded.

pub mod code;
pub mod file_mail;
pub mod identity;
pub mod own;
pub mod own_code;
pub mod packet;
pub mod sealed;

/// Which end of a session somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Made the session and its code.
    Host,
    /// Was told the code.
    Guest,
}

impl Role {
    /// The word that goes into confirmation tags.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Role::Host => "host",
            Role::Guest => "guest",
        }
    }

    /// The other end.
    #[must_use]
    pub const fn other(self) -> Role {
        match self {
            Role::Host => Role::Guest,
            Role::Guest => Role::Host,
        }
    }
}
