//! What the peer's records say about files.

use super::super::io::{Action, OfferId};
use super::super::offers::Offer;
use super::super::receive::cut;
use super::super::row::{Dropped, Row};
use super::super::tell::{Happening, Refusal};
use super::CHUNK_BYTES;
use super::body::{Answer, Body, Offered};
use super::files::{Arrival, Incoming, Leg, MAX_FILES};
use super::io::{OwnAction, OwnHappening, TransferFailure};
use super::receive::drop_record;
use super::send::{chunk, fail, release, tell};
use super::session::OwnSession;
use crate::crypto::hash::Sha256Stream;
use crate::domain::machine::bond::MAX_NAME_BYTES;
use crate::types::entropy::Entropy;
use crate::types::secret::Secret;
use crate::wire::bond::packet::CHAT_MAX_UNITS;

impl OwnSession {
    pub(super) fn offered(&mut self, offer: Offered, entropy: &dyn Entropy, out: &mut Vec<Action>) {
        let number = offer.number;
        if number != self.files.offers_seen {
            self.blocked(Refusal::Malformed, self.from(), out);
            return;
        }
        self.files.offers_seen = number.saturating_add(1);
        let mut id = [0; 8];
        let admitted = match entropy.fill(&mut id) {
            Ok(()) => self.admit(&offer),
            // Rather than under a name that somebody could guess.
            Err(_) => Err(Refusal::TooManyPending),
        };
        let sha256 = match admitted {
            Ok(sha256) => sha256,
            Err(reason) => {
                self.blocked(reason, self.from(), out);
                self.must_queue(&Body::Answer(Answer {
                    number,
                    take: false,
                }));
                return;
            }
        };
        let id = OfferId::from_bytes(id);
        let from = self.from();
        out.push(Action::Record(Row::OfferReceived {
            id: id.clone(),
            file: offer.name.clone(),
            size: offer.size,
            sha256,
            from: from.clone(),
        }));
        out.push(Action::Tell(Happening::FileOffered {
            id: id.clone(),
            from: from.clone(),
            name: offer.name.clone(),
            size: offer.size,
            sha256,
        }));
        self.files.incoming.push(Incoming {
            id: id.clone(),
            number,
            size: offer.size,
            sha256,
            arrival: Arrival::Asked,
        });
        self.offers.push(Offer {
            id,
            from,
            name: offer.name,
            note: cut(offer.note, CHAT_MAX_UNITS).0,
            content: Secret::new(Vec::new()),
            size: offer.size,
            sha256,
        });
    }

    fn admit(&self, offer: &Offered) -> Result<[u8; 32], Refusal> {
        if offer.name.len() > MAX_NAME_BYTES {
            return Err(Refusal::BadName);
        }
        (self.policy.name_rule)(&offer.name)?;
        if offer.size > self.policy.max_file_bytes {
            return Err(Refusal::TooLarge);
        }
        if !self.offers.has_room() || self.files.incoming.len() >= MAX_FILES {
            return Err(Refusal::TooManyPending);
        }
        data_encoding::HEXLOWER
            .decode(offer.sha256.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(Refusal::Malformed)
    }

    pub(super) fn answered(&mut self, number: u32, take: bool, out: &mut Vec<Action>) {
        let Some(file) = self.files.ours(number) else {
            return;
        };
        let id = file.id.clone();
        match (&file.leg, take) {
            (Leg::Asked, true) => {
                file.leg = Leg::Moving {
                    next: 0,
                    reading: false,
                };
                tell(OwnHappening::FileAnswered { id, taken: true }, out);
            }
            (Leg::Asked, false) => {
                tell(
                    OwnHappening::FileAnswered {
                        id: id.clone(),
                        taken: false,
                    },
                    out,
                );
                if let Some(file) = self.files.drop_ours(&id) {
                    release(&file, out);
                }
            }
            (Leg::Moving { .. } | Leg::Sent, false) => {
                if let Some(file) = self.files.drop_ours(&id) {
                    release(&file, out);
                }
                fail(&id, TransferFailure::Stopped, out);
            }
            (Leg::Moving { .. } | Leg::Sent, true) => drop_record(Dropped::Malformed, out),
        }
    }

    pub(super) fn chunk(
        &mut self,
        number: u32,
        offset: u64,
        bytes: Vec<u8>,
        out: &mut Vec<Action>,
    ) {
        // Without one: it crossed our stopping it.
        let Some(file) = self.files.theirs(number) else {
            return;
        };
        let (id, total) = (file.id.clone(), file.size);
        let expected = match &mut file.arrival {
            Arrival::Moving { got, hash } => {
                let fits = *got == offset && bytes.len() == chunk(*got, total) && !bytes.is_empty();
                if fits {
                    hash.update(&bytes);
                    *got = got.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                }
                fits.then_some(*got)
            }
            // All of it is with the disk already: what is said of it must not change any more.
            Arrival::Storing => {
                drop_record(Dropped::Malformed, out);
                return;
            }
            Arrival::Asked => None,
        };
        debug_assert!(bytes.len() <= CHUNK_BYTES || expected.is_none());
        let Some(done) = expected else {
            // Before consent, or not in order: an honest sender does neither.
            self.bad_content(&id, out);
            return;
        };
        out.push(Action::Own(OwnAction::StoreChunk {
            id: id.clone(),
            offset,
            bytes,
        }));
        out.push(Action::Tell(Happening::FileProgress {
            id: id.clone(),
            done,
            total,
        }));
        if done == total
            && let Some(file) = self.files.theirs(number)
            && let Arrival::Moving { hash, .. } =
                std::mem::replace(&mut file.arrival, Arrival::Storing)
        {
            self.whole(&id, *hash, out);
        }
    }

    /// All bytes came: are they what was offered?
    pub(super) fn whole(&mut self, id: &OfferId, hash: Sha256Stream, out: &mut Vec<Action>) {
        let Some(file) = self.files.theirs_by_id(id) else {
            return;
        };
        if hash.finish() == file.sha256 {
            file.arrival = Arrival::Storing;
            out.push(Action::Own(OwnAction::FinishFile { id: id.clone() }));
        } else {
            self.bad_content(id, out);
        }
    }

    fn bad_content(&mut self, id: &OfferId, out: &mut Vec<Action>) {
        if let Some(file) = self.files.drop_theirs(id) {
            self.offers.remove(id);
            self.outcome_bad(file.number);
            if !matches!(file.arrival, Arrival::Asked) {
                out.push(Action::Own(OwnAction::DiscardFile { id: id.clone() }));
            }
            self.blocked(Refusal::Malformed, self.from(), out);
            fail(id, TransferFailure::WrongContent, out);
        }
    }

    /// The receiver says how a file of ours ended.
    pub(super) fn ended(&mut self, number: u32, whole: bool, out: &mut Vec<Action>) {
        let Some(id) = self.files.ours(number).map(|file| file.id.clone()) else {
            return;
        };
        let Some(file) = self.files.drop_ours(&id) else {
            return;
        };
        release(&file, out);
        let all_sent = match file.leg {
            Leg::Asked => false,
            Leg::Moving { next, .. } => next >= file.size,
            Leg::Sent => true,
        };
        if whole && all_sent {
            out.push(Action::Record(Row::FileSent {
                file: file.name,
                size: file.size,
                note_chars: file.note_chars,
                sha256: Some(file.sha256),
            }));
            tell(OwnHappening::FileDelivered { id }, out);
        } else {
            fail(&id, TransferFailure::NotStored, out);
        }
    }

    pub(super) fn withdrawn(&mut self, number: u32, out: &mut Vec<Action>) {
        let Some(file) = self.files.theirs(number) else {
            return;
        };
        let id = file.id.clone();
        if matches!(file.arrival, Arrival::Storing) {
            return;
        }
        if let Some(file) = self.files.drop_theirs(&id) {
            self.offers.remove(&id);
            if matches!(file.arrival, Arrival::Moving { .. }) {
                out.push(Action::Own(OwnAction::DiscardFile { id: id.clone() }));
            }
            fail(&id, TransferFailure::Withdrawn, out);
        }
    }
}
