//! What an identity signs for a sealed session (`schema/canonical.md`): the opening of a session
//! that is keyed by two identities, and the card that two strangers exchange in order to pin each
//! other.

use serde::{Deserialize, Serialize};

use super::Role;
use crate::crypto::sign::{self, Signature, SigningIdentity};
use crate::types::id::PublicKey;
use crate::wire::canonical::{Canonical, PIN_DOMAIN, SEALED_DOMAIN};

/// The most bytes of a card's name.
pub const MAX_NAME_BYTES: usize = 128;

/// The most bytes of a card's route.
pub const MAX_ROUTE_BYTES: usize = 1_024;

/// What the sender of a hello signs: who it is in this session, and all that came before.
#[must_use]
pub fn hello_bytes(role: Role, script: &[u8; 32], ephemeral: &[u8; 32]) -> Vec<u8> {
    Canonical::new(SEALED_DOMAIN, 80)
        .text(role.word())
        .raw(script)
        .raw(ephemeral)
        .finish()
}

/// Who somebody is, said inside a confirmed session. Bound to the session and to the side that says
/// it, so that it counts nowhere else and does not count when it comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinCard {
    /// The identity. Proven: it signed the card.
    pub key: PublicKey,
    /// How it calls itself; foreign.
    pub name: String,
    /// Where it can be reached, or empty; foreign.
    pub reply_to: String,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u8,
    key: String,
    name: String,
    reply_to: String,
    sig: String,
}

/// The only version there is.
const VERSION: u8 = 1;

impl PinCard {
    /// The card of `identity` as `role` of the session with this binding, ready to be sent.
    #[must_use]
    pub fn write(
        identity: &SigningIdentity,
        binding: &[u8; 32],
        role: Role,
        name: &str,
        reply_to: &str,
    ) -> Vec<u8> {
        let card = PinCard {
            key: identity.public(),
            name: name.to_owned(),
            reply_to: reply_to.to_owned(),
        };
        let wire = Wire {
            v: VERSION,
            key: card.key.to_string(),
            sig: identity.sign(&card.bytes(binding, role)).to_string(),
            name: card.name,
            reply_to: card.reply_to,
        };
        // Strings and a number: nothing that JSON could refuse.
        serde_json::to_vec(&wire).unwrap_or_default()
    }

    /// Reads the card that the other side, `role`, sent in the session with this binding.
    ///
    /// # Errors
    ///
    /// [`PinCardError`]; nothing of the card's content.
    pub fn read(bytes: &[u8], binding: &[u8; 32], role: Role) -> Result<PinCard, PinCardError> {
        let wire: Wire = serde_json::from_slice(bytes).map_err(|_| PinCardError::Shape)?;
        let fits = wire.name.len() <= MAX_NAME_BYTES && wire.reply_to.len() <= MAX_ROUTE_BYTES;
        if wire.v != VERSION || !fits {
            return Err(PinCardError::Shape);
        }
        let key = sign::decode_public_key(&wire.key).map_err(|_| PinCardError::Key)?;
        let sig: Signature = wire.sig.parse().map_err(|_| PinCardError::Signature)?;
        let card = PinCard {
            key,
            name: wire.name,
            reply_to: wire.reply_to,
        };
        sign::verify_strict(&key, &card.bytes(binding, role), &sig)
            .map_err(|_| PinCardError::Signature)?;
        Ok(card)
    }

    fn bytes(&self, binding: &[u8; 32], role: Role) -> Vec<u8> {
        Canonical::new(PIN_DOMAIN, 256)
            .raw(binding)
            .text(role.word())
            .key(&self.key)
            .text(&self.name)
            .text(&self.reply_to)
            .finish()
    }
}

/// A card that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinCardError {
    /// Not a card of this version, or a text too long.
    #[error("not a card of this version")]
    Shape,
    /// The key is none.
    #[error("the key of the card is no key")]
    Key,
    /// Not signed by its key for this side of this session.
    #[error("the card is not signed by its key for this session")]
    Signature,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::secret::Secret;

    #[test]
    fn a_card_counts_for_its_side_of_its_session_only() {
        let identity = SigningIdentity::from_seed(&Secret::new([0x11; 32]));
        let binding = [7; 32];
        let bytes = PinCard::write(&identity, &binding, Role::Host, "ann", "");
        let read = |bytes: &[u8], binding, role| PinCard::read(bytes, binding, role);
        let card = read(&bytes, &binding, Role::Host).unwrap();
        assert_eq!((card.key, card.name.as_str()), (identity.public(), "ann"));
        let refused = Err(PinCardError::Signature);
        assert_eq!(read(&bytes, &binding, Role::Guest), refused, "it came back");
        assert_eq!(
            read(&bytes, &[8; 32], Role::Host),
            refused,
            "another session"
        );
        let renamed = String::from_utf8(bytes.clone())
            .unwrap()
            .replace("ann", "bob");
        assert_eq!(read(renamed.as_bytes(), &binding, Role::Host), refused);
        let long = PinCard::write(&identity, &binding, Role::Host, &"x".repeat(129), "");
        assert_eq!(read(&long, &binding, Role::Host), Err(PinCardError::Shape));
        assert_eq!(read(b"{}", &binding, Role::Host), Err(PinCardError::Shape));
    }
}
