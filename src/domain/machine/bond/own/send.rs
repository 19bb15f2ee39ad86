//! What goes out: proofs, then records. Nothing but a proof leaves before the peer is proven.

use super::super::io::{Action, Carries, OfferId};
use super::super::row::Row;
use super::super::send::SendError;
use super::super::session::{Phase, StepError};
use super::super::tell::{Happening, Refusal};
use super::body::{Answer, Body, Control, Offered, Outcome, Withdraw};
use super::files::{Arrival, Leg, MAX_FILES, Outgoing, Source};
use super::io::{LocalFile, OwnAction, OwnHappening, TransferFailure};
use super::session::{Load, OwnSession};
use super::stream::{Content, Piece};
use super::{
    CHUNK_BYTES, FRAME_CHARS, KEEPALIVE_MS, MAX_PIN_BYTES, MAX_WAITING, RESEND_MS,
    SLOW_FRAME_CHARS, SLOW_RESEND_MS, WINDOW_BYTES,
};
use crate::crypto::hash::{self, Sha256Stream};
use crate::domain::machine::bond::{Ending, MAX_NAME_BYTES};
use crate::types::entropy::Entropy;
use crate::types::secret::Secret;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::own::{self, MAX_RECORDS, Record};
use crate::wire::bond::packet::CHAT_MAX_UNITS;

impl OwnSession {
    /// Whether the user may send something now. What cannot leave at once waits.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn may_send(&self, now: UnixMillis) -> Result<(), SendError> {
        match self.phase {
            Phase::Over(ending) => return Err(SendError::Over(ending)),
            Phase::Opening | Phase::Waiting | Phase::Keyed => return Err(SendError::NotConfirmed),
            Phase::Confirmed => {}
        }
        if now >= self.expires_at() {
            return Err(SendError::Over(Ending::Expired));
        }
        if self.outbox.len() >= MAX_WAITING {
            return Err(SendError::Busy);
        }
        Ok(())
    }

    pub(super) fn say(
        &mut self,
        now: UnixMillis,
        text: String,
        out: &mut Vec<Action>,
    ) -> Result<(), StepError> {
        if text.is_empty() {
            return Err(SendError::Empty.into());
        }
        let units = text.encode_utf16().count();
        if units > CHAT_MAX_UNITS {
            return Err(SendError::TooLong { units }.into());
        }
        self.may_send(now)?;
        self.queue(&Body::Chat(text))?;
        out.push(Action::Record(Row::ChatSent { chars: wide(units) }));
        Ok(())
    }

    pub(super) fn pin(&mut self, now: UnixMillis, bytes: Vec<u8>) -> Result<(), StepError> {
        self.may_send(now)?;
        if bytes.len() > MAX_PIN_BYTES {
            return Err(SendError::TooLarge.into());
        }
        Ok(self.queue(&Body::Pin(bytes))?)
    }

    pub(super) fn offer_content(
        &mut self,
        now: UnixMillis,
        name: String,
        content: Secret<Vec<u8>>,
        note: String,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) -> Result<(), StepError> {
        let local = LocalFile {
            name,
            size: wide(content.expose().len()),
            sha256: hash::sha256(content.expose()),
            note,
        };
        self.offer_file(now, local, Source::Memory(content), entropy, out)
    }

    pub(super) fn offer_file(
        &mut self,
        now: UnixMillis,
        file: LocalFile,
        source: Source,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) -> Result<(), StepError> {
        self.may_send(now)?;
        (self.policy.name_rule)(&file.name).map_err(SendError::File)?;
        if file.name.len() > MAX_NAME_BYTES {
            return Err(SendError::File(Refusal::BadName).into());
        }
        if file.size > self.policy.max_file_bytes {
            return Err(SendError::File(Refusal::TooLarge).into());
        }
        if file.note.encode_utf16().count() > CHAT_MAX_UNITS {
            return Err(SendError::TooLong {
                units: file.note.encode_utf16().count(),
            }
            .into());
        }
        if self.files.out.len() >= MAX_FILES {
            return Err(SendError::File(Refusal::TooManyPending).into());
        }
        let mut id = [0; 8];
        entropy.fill(&mut id)?;
        let id = OfferId::from_bytes(id);
        let number = self.files.number().ok_or(SendError::Busy)?;
        let note_chars = wide(file.note.encode_utf16().count());
        self.queue(&Body::Offer(Offered {
            number,
            name: file.name.clone(),
            size: file.size,
            sha256: data_encoding::HEXLOWER.encode(&file.sha256),
            note: file.note,
        }))?;
        out.push(Action::Record(Row::Outbound {
            file: file.name.clone(),
            size: file.size,
            total: self
                .files
                .out
                .iter()
                .fold(file.size, |sum, other| sum.saturating_add(other.size)),
        }));
        tell(
            OwnHappening::FileQueued {
                id: id.clone(),
                name: file.name.clone(),
            },
            out,
        );
        self.files.out.push(Outgoing {
            id,
            number,
            name: file.name,
            size: file.size,
            sha256: file.sha256,
            note_chars,
            source,
            leg: Leg::Asked,
        });
        Ok(())
    }

    /// The human takes it: the peer may send.
    pub(super) fn accept(&mut self, id: &OfferId, out: &mut Vec<Action>) -> Result<(), StepError> {
        let file = self
            .files
            .theirs_by_id(id)
            .filter(|file| matches!(file.arrival, Arrival::Asked))
            .ok_or(StepError::UnknownOffer)?;
        file.arrival = Arrival::Moving {
            got: 0,
            hash: Box::default(),
        };
        let (number, empty) = (file.number, file.size == 0);
        let offer = self.offers.remove(id).ok_or(StepError::UnknownOffer)?;
        self.queue(&Body::Answer(Answer { number, take: true }))?;
        out.push(Action::Record(Row::OfferAccepted {
            id: id.clone(),
            file: offer.name,
            size: offer.size,
        }));
        if empty {
            self.whole(id, Sha256Stream::default(), out);
        }
        Ok(())
    }

    /// The human does not: the peer is told.
    pub(super) fn decline(&mut self, id: &OfferId, out: &mut Vec<Action>) -> Result<(), StepError> {
        let offer = self.offers.remove(id).ok_or(StepError::UnknownOffer)?;
        self.refuse(id);
        out.push(Action::Record(Row::OfferDeclined {
            id: id.clone(),
            file: offer.name,
        }));
        Ok(())
    }

    /// The peer is told that a file of its is not wanted (any more).
    pub(super) fn refuse(&mut self, id: &OfferId) {
        if let Some(file) = self.files.drop_theirs(id) {
            let number = file.number;
            self.must_queue(&Body::Answer(Answer {
                number,
                take: false,
            }));
        }
    }

    pub(super) fn cancel(&mut self, id: &OfferId, out: &mut Vec<Action>) -> Result<(), StepError> {
        if self.files.ours_by_id(id).is_some() {
            self.withdraw(id, TransferFailure::Withdrawn, out);
            return Ok(());
        }
        match self.files.theirs_by_id(id).map(|file| &file.arrival) {
            Some(Arrival::Asked) => self.decline(id, out),
            Some(Arrival::Moving { .. }) => {
                self.refuse(id);
                out.push(Action::Own(OwnAction::DiscardFile { id: id.clone() }));
                fail(id, TransferFailure::Stopped, out);
                Ok(())
            }
            Some(Arrival::Storing) | None => Err(StepError::UnknownOffer),
        }
    }

    pub(super) fn read_failed(&mut self, id: &OfferId, out: &mut Vec<Action>) {
        self.withdraw(id, TransferFailure::Unreadable, out);
    }

    pub(super) fn withdraw(&mut self, id: &OfferId, why: TransferFailure, out: &mut Vec<Action>) {
        if let Some(file) = self.files.drop_ours(id) {
            let number = file.number;
            self.must_queue(&Body::Withdraw(Withdraw { number }));
            release(&file, out);
            fail(id, why, out);
        }
    }

    /// The driver read what was asked for.
    pub(super) fn chunk_read(
        &mut self,
        id: &OfferId,
        offset: u64,
        bytes: Vec<u8>,
        out: &mut Vec<Action>,
    ) {
        let Some(file) = self.files.ours_by_id(id) else {
            return;
        };
        let size = file.size;
        let Leg::Moving { next, reading } = &mut file.leg else {
            return;
        };
        let wanted = chunk(*next, size);
        if !std::mem::replace(reading, false) || *next != offset {
            return;
        }
        if bytes.len() != wanted {
            self.read_failed(id, out);
            return;
        }
        self.push_chunk(id, bytes);
    }

    /// Goes on with the file that moves, as long as there is room.
    pub(super) fn fill(&mut self, out: &mut Vec<Action>) {
        while self.phase == Phase::Confirmed && self.outbox.bytes() < WINDOW_BYTES {
            let Some(file) = self.files.moving() else {
                return;
            };
            let id = file.id.clone();
            let Leg::Moving { next, reading } = &mut file.leg else {
                return;
            };
            let len = chunk(*next, file.size);
            if len == 0 {
                file.leg = Leg::Sent;
                continue;
            }
            if *reading {
                return;
            }
            *reading = true;
            let offset = *next;
            match &file.source {
                Source::Edge => {
                    out.push(Action::Own(OwnAction::ReadChunk { id, offset, len }));
                    return;
                }
                Source::Memory(all) => {
                    let from = usize::try_from(offset).unwrap_or(usize::MAX);
                    let to = from.saturating_add(len);
                    let bytes = all.expose().get(from..to).unwrap_or_default().to_vec();
                    self.push_chunk(&id, bytes);
                }
            }
        }
    }

    fn push_chunk(&mut self, id: &OfferId, bytes: Vec<u8>) {
        let Some(file) = self.files.ours_by_id(id) else {
            return;
        };
        let (number, total) = (file.number, file.size);
        let Leg::Moving { next, reading } = &mut file.leg else {
            return;
        };
        let offset = *next;
        *reading = false;
        *next = next.saturating_add(wide(bytes.len()));
        if *next >= total {
            file.leg = Leg::Sent;
        }
        let body = Body::Chunk {
            number,
            offset,
            bytes,
        };
        self.must_queue(&body);
    }

    /// Pieces of our files that the peer has now.
    pub(super) fn moved(&mut self, out: &mut Vec<Action>) {
        for Piece { number, end } in self.outbox.moved() {
            if let Some(file) = self.files.ours(number) {
                out.push(Action::Tell(Happening::FileProgress {
                    id: file.id.clone(),
                    done: end,
                    total: file.size,
                }));
            }
        }
    }

    /// The driver gave a whole file its name.
    pub(super) fn stored(&mut self, id: &OfferId, out: &mut Vec<Action>) {
        let storing = self
            .files
            .theirs_by_id(id)
            .is_some_and(|file| matches!(file.arrival, Arrival::Storing));
        if storing && let Some(file) = self.files.drop_theirs(id) {
            let number = file.number;
            self.must_queue(&Body::Outcome(Outcome {
                number,
                whole: true,
            }));
            tell(OwnHappening::FileReceived { id: id.clone() }, out);
        }
    }

    pub(super) fn store_failed(&mut self, id: &OfferId, out: &mut Vec<Action>) {
        if let Some(file) = self.files.drop_theirs(id) {
            self.outcome_bad(file.number);
            out.push(Action::Own(OwnAction::DiscardFile { id: id.clone() }));
            fail(id, TransferFailure::NotStored, out);
        }
    }

    pub(super) fn outcome_bad(&mut self, number: u32) {
        self.must_queue(&Body::Outcome(Outcome {
            number,
            whole: false,
        }));
    }

    fn queue(&mut self, body: &Body) -> Result<(), SendError> {
        let keys = self.keys.as_mut().ok_or(SendError::NotConfirmed)?;
        let plain = body.write().ok_or(SendError::Seal)?;
        let record = keys
            .send_data
            .seal(self.outbox.next(), plain.expose())
            .ok_or(SendError::Seal)?;
        self.outbox.push(
            record,
            match body {
                Body::Chat(_) => Content::Chat,
                Body::Chunk {
                    number,
                    offset,
                    bytes,
                } => Content::Piece(Piece {
                    number: *number,
                    end: offset.saturating_add(wide(bytes.len())),
                }),
                _ => Content::Other,
            },
        );
        Ok(())
    }

    /// For what this side writes itself, of bounded size: it can always be sealed while there are
    /// keys, and without keys there is nobody to tell.
    pub(super) fn must_queue(&mut self, body: &Body) {
        let queued = self.queue(body);
        debug_assert!(queued.is_ok() || self.keys.is_none());
    }

    /// Sends what is due, one message at a time.
    pub(super) fn pump(&mut self, now: UnixMillis, out: &mut Vec<Action>) {
        if self.is_over() || !self.link.up || self.posting.is_some() || now < self.not_before {
            return;
        }
        if self.proof.due
            && now >= self.proof.not_before
            && let Some(payload) = self.proof.text.clone()
        {
            let ticket = self.ticket();
            self.posting = Some((ticket, Load::Proof));
            out.push(Action::Post {
                ticket,
                kind: Carries::Confirmation,
                payload,
            });
            return;
        }
        if self.phase != Phase::Confirmed {
            return;
        }
        let (resend, chars) = if self.slow {
            (SLOW_RESEND_MS, SLOW_FRAME_CHARS)
        } else {
            (RESEND_MS, FRAME_CHARS)
        };
        let data = self.outbox.is_due(now, resend);
        let quiet = now.since(self.posted_at) >= KEEPALIVE_MS;
        if !data && !self.control_due && !quiet {
            return;
        }
        let Some(control) = self.control(false) else {
            return;
        };
        self.control_due = false;
        let records = self.outbox.take(now, resend, chars, MAX_RECORDS - 1);
        let kind = Carries::Control;
        let payload = own::write_records(self.role, std::iter::once(&control).chain(records));
        let ticket = self.ticket();
        self.posting = Some((ticket, Load::Records));
        out.push(Action::Post {
            ticket,
            kind,
            payload,
        });
    }

    /// The next control record.
    fn control(&mut self, bye: bool) -> Option<Record> {
        let control = Control {
            bye,
            wants: self.inbox.wants(),
            has: self.inbox.has(),
            sent: self.outbox.next(),
        };
        let keys = self.keys.as_mut()?;
        let record = keys
            .send_control
            .seal(self.control_next, &control.write())?;
        self.control_next = self.control_next.saturating_add(1);
        Some(record)
    }

    /// A last word, with what was not sent yet as far as it fits. Best effort.
    pub(super) fn say_bye(&mut self, out: &mut Vec<Action>) {
        if self.phase != Phase::Confirmed || !self.link.up {
            return;
        }
        let Some(control) = self.control(true) else {
            return;
        };
        self.forget_post(UnixMillis::default());
        let far = UnixMillis(u64::MAX);
        let records = self.outbox.take(far, 0, FRAME_CHARS, MAX_RECORDS - 1);
        // The bye comes last: what came before it is to be handled first.
        let payload = own::write_records(self.role, records.into_iter().chain([&control]));
        let ticket = self.ticket();
        out.push(Action::Post {
            ticket,
            kind: Carries::Control,
            payload,
        });
    }

    /// What the host says when the guest's proof is wrong.
    pub(super) fn say_refused(&mut self, out: &mut Vec<Action>) {
        let ticket = self.ticket();
        out.push(Action::Post {
            ticket,
            kind: Carries::Control,
            payload: own::write_refused(Role::Host),
        });
    }
}

/// Bytes of the chunk at `offset`.
pub(super) fn chunk(offset: u64, size: u64) -> usize {
    usize::try_from(size.saturating_sub(offset)).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES))
}

pub(super) fn tell(what: OwnHappening, out: &mut Vec<Action>) {
    out.push(Action::Tell(Happening::Own(what)));
}

pub(super) fn fail(id: &OfferId, why: TransferFailure, out: &mut Vec<Action>) {
    let id = id.clone();
    tell(OwnHappening::FileFailed { id, why }, out);
}

pub(super) fn release(file: &Outgoing, out: &mut Vec<Action>) {
    if matches!(file.source, Source::Edge) {
        let id = file.id.clone();
        out.push(Action::Own(OwnAction::ReleaseFile { id }));
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
