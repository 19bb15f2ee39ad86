//! Files of the peer that wait for a human's consent, in memory only.

use super::MAX_OFFERS;
use super::io::OfferId;
use crate::types::secret::Secret;

/// A file that waits. Everything but the id, the size and the hash is the peer's.
#[derive(Debug)]
pub struct Offer {
    /// Its name on this machine.
    pub id: OfferId,
    /// How the relay calls the sender: 8 hexadecimal digits, or `peer`.
    pub from: String,
    /// The peer's name of it, at most 255 bytes.
    pub name: String,
    /// The peer's note, at most 4,000 UTF-16 units, empty if none.
    pub note: String,
    /// All of it, exactly as it came. Shown to nobody but the human before consent.
    pub content: Secret<Vec<u8>>,
    /// Bytes of content.
    pub size: u64,
    /// SHA-256 of the content.
    pub sha256: [u8; 32],
}

/// The files of a session that wait, oldest first.
#[derive(Debug, Default)]
pub struct Offers(Vec<Offer>);

impl Offers {
    /// Whether one more fits.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.0.len() < MAX_OFFERS
    }

    /// Takes one more; the caller has asked whether it fits.
    pub fn push(&mut self, offer: Offer) {
        self.0.push(offer);
    }

    /// One by its name.
    #[must_use]
    pub fn get(&self, id: &OfferId) -> Option<&Offer> {
        self.0.iter().find(|offer| offer.id == *id)
    }

    /// Takes one out.
    pub fn remove(&mut self, id: &OfferId) -> Option<Offer> {
        let at = self.0.iter().position(|offer| offer.id == *id)?;
        Some(self.0.remove(at))
    }

    /// All, oldest first.
    #[must_use]
    pub fn all(&self) -> &[Offer] {
        &self.0
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
