//! Files that move, both ways. Nothing moves before a human at the other end said so.

use super::super::io::OfferId;
use crate::crypto::hash::Sha256Stream;
use crate::types::secret::Secret;

/// The most files of each way that are not done.
pub(super) const MAX_FILES: usize = 32;

/// Where the bytes of a file of ours come from.
pub(super) enum Source {
    Memory(Secret<Vec<u8>>),
    /// The driver holds it open.
    Edge,
}

/// How far a file of ours is.
pub(super) enum Leg {
    /// The peer was asked.
    Asked,
    /// From here on it is still to be sent.
    Moving { next: u64, reading: bool },
    /// All of it was.
    Sent,
}

/// A file of ours.
pub(super) struct Outgoing {
    pub(super) id: OfferId,
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) sha256: [u8; 32],
    pub(super) note_chars: u64,
    pub(super) source: Source,
    pub(super) leg: Leg,
}

/// How far a file of the peer is.
pub(super) enum Arrival {
    /// Our human was asked.
    Asked,
    /// So many bytes came.
    Moving { got: u64, hash: Box<Sha256Stream> },
    /// It is whole; the driver gives it its name.
    Storing,
}

/// A file of the peer.
pub(super) struct Incoming {
    pub(super) id: OfferId,
    pub(super) number: u32,
    pub(super) size: u64,
    pub(super) sha256: [u8; 32],
    pub(super) arrival: Arrival,
}

/// All that are not done.
#[derive(Default)]
pub(super) struct Files {
    pub(super) out: Vec<Outgoing>,
    pub(super) incoming: Vec<Incoming>,
    /// Offers that we made.
    pub(super) offered: u32,
    /// Offers that the peer made.
    pub(super) offers_seen: u32,
}

impl Files {
    /// Offers count from 0, so that an answer names one and only one.
    pub(super) fn number(&mut self) -> Option<u32> {
        let number = self.offered;
        self.offered = number.checked_add(1)?;
        Some(number)
    }

    pub(super) fn ours(&mut self, number: u32) -> Option<&mut Outgoing> {
        self.out.iter_mut().find(|file| file.number == number)
    }

    pub(super) fn ours_by_id(&mut self, id: &OfferId) -> Option<&mut Outgoing> {
        self.out.iter_mut().find(|file| file.id == *id)
    }

    pub(super) fn theirs(&mut self, number: u32) -> Option<&mut Incoming> {
        self.incoming.iter_mut().find(|file| file.number == number)
    }

    pub(super) fn theirs_by_id(&mut self, id: &OfferId) -> Option<&mut Incoming> {
        self.incoming.iter_mut().find(|file| file.id == *id)
    }

    /// The one that moves: files go one after the other.
    pub(super) fn moving(&mut self) -> Option<&mut Outgoing> {
        self.out
            .iter_mut()
            .find(|file| matches!(file.leg, Leg::Moving { .. }))
    }

    pub(super) fn drop_ours(&mut self, id: &OfferId) -> Option<Outgoing> {
        let at = self.out.iter().position(|file| file.id == *id)?;
        Some(self.out.remove(at))
    }

    pub(super) fn drop_theirs(&mut self, id: &OfferId) -> Option<Incoming> {
        let at = self.incoming.iter().position(|file| file.id == *id)?;
        Some(self.incoming.remove(at))
    }
}
