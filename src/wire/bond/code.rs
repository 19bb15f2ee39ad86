//! The code that two humans share, and the ids that relays see instead of it.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use zeroize::{Zeroize as _, ZeroizeOnDrop};

use crate::crypto::kdf::{self, CodeKey};
use crate::types::entropy::{Entropy, EntropyError};
use crate::types::secret::Secret;

/// The 58 symbols of a code: no zero, no `O`, no `I`, no `l`.
pub const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Characters of a code, hyphens included.
pub const CODE_CHARS: usize = 14;

/// Where the hyphens stand.
const HYPHENS: [usize; 2] = [4, 9];

/// A session code in the form `XXXX-XXXX-XXXX`: 12 symbols drawn evenly from [`ALPHABET`], some
/// 70 bits. Erased on drop. Neither `Debug` nor `Display` shows it; [`SessionCode::reveal`] does.
///
/// Nothing is normalised: case counts, hyphens are required, nothing is trimmed. Another spelling
/// would be another session.
pub struct SessionCode(Secret<[u8; CODE_CHARS]>);

impl ZeroizeOnDrop for SessionCode {}

impl SessionCode {
    /// A fresh code. Bytes that would favour some symbols are drawn again.
    ///
    /// # Errors
    ///
    /// When there is no randomness to be had.
    pub fn generate(entropy: &dyn Entropy) -> Result<SessionCode, EntropyError> {
        let mut code = Secret::new([b'-'; CODE_CHARS]);
        let mut pool = Secret::new([0; 32]);
        let mut left: &[u8] = &[];
        for (at, symbol) in code.expose_mut().iter_mut().enumerate() {
            if HYPHENS.contains(&at) {
                continue;
            }
            *symbol = loop {
                let Some((byte, rest)) = left.split_first() else {
                    entropy.fill(pool.expose_mut())?;
                    left = pool.expose();
                    continue;
                };
                left = rest;
                // 232 is the largest multiple of 58 in a byte.
                if *byte < 232
                    && let Some(found) = ALPHABET.get(usize::from(byte % 58))
                {
                    break *found;
                }
            };
        }
        Ok(SessionCode(code))
    }

    /// The text, for the human who is to pass it on.
    #[must_use]
    pub fn reveal(&self) -> &str {
        // Only symbols of the alphabet and hyphens get in.
        std::str::from_utf8(self.0.expose()).unwrap_or_default()
    }

    /// A second copy, for the thread that derives from it.
    #[must_use]
    pub fn duplicate(&self) -> SessionCode {
        SessionCode(Secret::new(*self.0.expose()))
    }

    /// What relay and session are keyed by. Takes some 350 ms: call it where blocking is allowed.
    #[must_use]
    pub fn derive(&self) -> Derived {
        Derived {
            routing: RoutingId(kdf::routing_id(self.0.expose())),
            code_key: kdf::code_key(self.0.expose()),
        }
    }
}

impl FromStr for SessionCode {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<SessionCode, CodeError> {
        let mut bytes: [u8; CODE_CHARS] = text.as_bytes().try_into().map_err(|_| CodeError)?;
        let good = bytes.iter().enumerate().all(|(at, byte)| {
            if HYPHENS.contains(&at) {
                *byte == b'-'
            } else {
                ALPHABET.contains(byte)
            }
        });
        let code = good.then(|| SessionCode(Secret::new(bytes)));
        bytes.zeroize();
        code.ok_or(CodeError)
    }
}

impl fmt::Debug for SessionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCode(..)")
    }
}

impl fmt::Display for SessionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(session code)")
    }
}

/// Not a session code. Says nothing of what was given: it may be a code with a slip in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a session code has the form XXXX-XXXX-XXXX, letters and digits without 0, O, I and l; upper and lower \
     case count"
)]
pub struct CodeError;

/// What a code turns into before a session starts.
#[derive(Debug)]
pub struct Derived {
    /// Where the relay files the session.
    pub routing: RoutingId,
    /// The code's share of the session key.
    pub code_key: CodeKey,
}

/// Text that is not an id: 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is 64 lower-case hexadecimal digits")]
pub struct IdError;

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Takes the bytes as they are.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 32]) -> $name {
                $name(bytes)
            }

            /// The raw bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<$name, IdError> {
                if text.len() != 64 {
                    return Err(IdError);
                }
                let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| IdError)?;
                bytes.try_into().map($name).map_err(|_| IdError)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                HEXLOWER.encode_display(&self.0).fmt(f)
            }
        }
    };
}

hex_id! {
    /// Where a relay files a session. Whoever knows it can take a free seat there, so `Debug` shows
    /// the first 12 digits only.
    RoutingId
}

hex_id! {
    /// Who somebody is to a relay, for one session. Whoever knows it can act for its owner there,
    /// so `Debug` shows the first 8 digits only.
    PeerId
}

impl RoutingId {
    /// The first 12 digits: what logs may hold.
    #[must_use]
    pub fn prefix(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl PeerId {
    /// A fresh id. One per session: a reused one would link sessions.
    ///
    /// # Errors
    ///
    /// When there is no randomness to be had.
    pub fn generate(entropy: &dyn Entropy) -> Result<PeerId, EntropyError> {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes)?;
        Ok(PeerId(bytes))
    }

    /// The first 8 digits: what people see of it.
    #[must_use]
    pub fn prefix(&self) -> String {
        let mut text = self.to_string();
        text.truncate(8);
        text
    }
}

impl fmt::Debug for RoutingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoutingId({}..)", self.prefix())
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerId({}..)", self.prefix())
    }
}
