//! Numbering, acknowledging, sending again. One stream of data records each way, cumulative
//! acknowledgements with a map of what came out of order; nothing here knows what a record holds.

use std::collections::{BTreeMap, VecDeque};

use super::WINDOW;
use crate::types::secret::Secret;
use crate::types::time::UnixMillis;
use crate::wire::bond::own::Record;

/// How far a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To be sent.
    Waiting,
    /// In the message that is on its way to the relay.
    Posting,
    /// The relay took it.
    Sent(UnixMillis),
    /// The peer has it, but not all before it.
    There,
}

/// What is counted of a record once the peer has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Chat,
    Piece(Piece),
    Other,
}

/// A piece of a file of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Which offer.
    pub(super) number: u32,
    /// Where in the file it ends.
    pub(super) end: u64,
}

struct Out {
    record: Record,
    content: Content,
    way: Way,
    tries: u32,
}

/// What is not acknowledged yet, in order.
#[derive(Default)]
pub(super) struct Outbox {
    first: u64,
    waiting: VecDeque<Out>,
    bytes: usize,
    chats: u64,
    /// Pieces that the peer acknowledged since somebody asked: the last of each file.
    moved: BTreeMap<u32, u64>,
}

impl Outbox {
    /// The number of the next new record.
    pub(super) fn next(&self) -> u64 {
        self.first.saturating_add(wide(self.waiting.len()))
    }

    /// Takes the record with that number.
    pub(super) fn push(&mut self, record: Record, content: Content) {
        debug_assert_eq!(record.seq, self.next());
        self.bytes = self.bytes.saturating_add(record.sealed.len());
        self.waiting.push_back(Out {
            record,
            content,
            way: Way::Waiting,
            tries: 0,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Sealed bytes that wait.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Chats that the peer acknowledged, in all.
    pub(super) const fn chats(&self) -> u64 {
        self.chats
    }

    /// Chats that wait.
    pub(super) fn chats_waiting(&self) -> u64 {
        let is_chat = |out: &&Out| out.content == Content::Chat;
        wide(self.waiting.iter().filter(is_chat).count())
    }

    /// How far files of ours came since the last look.
    pub(super) fn moved(&mut self) -> Vec<Piece> {
        let moved = std::mem::take(&mut self.moved).into_iter();
        moved.map(|(number, end)| Piece { number, end }).collect()
    }

    /// The records that are to be sent now, at least one if any, up to so many characters and
    /// records. They count as on their way.
    pub(super) fn take(
        &mut self,
        now: UnixMillis,
        resend_ms: u64,
        chars: usize,
        records: usize,
    ) -> Vec<&Record> {
        let mut used = 0usize;
        let mut taken = Vec::new();
        let window = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        for out in self.waiting.iter_mut().take(window) {
            let due = match out.way {
                Way::Waiting => true,
                Way::Posting | Way::There => false,
                Way::Sent(at) => now.since(at) >= resend_ms << out.tries.min(3),
            };
            if !due {
                continue;
            }
            let cost = (out.record.sealed.len().saturating_mul(4) / 3).saturating_add(40);
            let full = !taken.is_empty() && used.saturating_add(cost) > chars;
            if full || taken.len() >= records {
                break;
            }
            used = used.saturating_add(cost);
            if matches!(out.way, Way::Sent(_)) {
                out.tries = out.tries.saturating_add(1);
            }
            out.way = Way::Posting;
            taken.push(&out.record);
        }
        taken
    }

    /// Whether [`Outbox::take`] would give something.
    pub(super) fn is_due(&self, now: UnixMillis, resend_ms: u64) -> bool {
        let window = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        self.waiting.iter().take(window).any(|out| match out.way {
            Way::Waiting => true,
            Way::Posting | Way::There => false,
            Way::Sent(at) => now.since(at) >= resend_ms << out.tries.min(3),
        })
    }

    /// The relay took, or did not take, what was on its way.
    pub(super) fn posted(&mut self, now: UnixMillis, taken: bool) {
        for out in &mut self.waiting {
            if out.way == Way::Posting {
                out.way = if taken { Way::Sent(now) } else { Way::Waiting };
            }
        }
    }

    /// Whatever is not known to be there has to be sent again.
    pub(super) fn again(&mut self) {
        for out in &mut self.waiting {
            if out.way != Way::There {
                out.way = Way::Waiting;
                out.tries = 0;
            }
        }
    }

    /// The peer has everything before `wants`, and of the 64 after it what `has` says.
    ///
    /// Returns whether a peer can say so: it cannot want what was never numbered.
    pub(super) fn acknowledged(&mut self, wants: u64, has: u64) -> bool {
        if wants > self.next() {
            return false;
        }
        while self.first < wants {
            let Some(out) = self.waiting.pop_front() else {
                return false;
            };
            self.bytes = self.bytes.saturating_sub(out.record.sealed.len());
            match out.content {
                Content::Chat => self.chats = self.chats.saturating_add(1),
                Content::Piece(piece) => _ = self.moved.insert(piece.number, piece.end),
                Content::Other => {}
            }
            self.first = self.first.saturating_add(1);
        }
        if wants == self.first {
            for (bit, out) in self.waiting.iter_mut().skip(1).take(64).enumerate() {
                if has >> bit & 1 == 1 {
                    out.way = Way::There;
                }
            }
        }
        true
    }
}

/// What came of the peer's stream.
#[derive(Default)]
pub(super) struct Inbox {
    next: u64,
    held: BTreeMap<u64, Secret<Vec<u8>>>,
}

/// What to do with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Had it before.
    Known,
    /// Further ahead than an honest sender goes.
    TooFar,
    /// Wanted.
    New,
}

impl Inbox {
    pub(super) fn judge(&self, seq: u64) -> Judged {
        if seq < self.next || self.held.contains_key(&seq) {
            Judged::Known
        } else if seq - self.next >= WINDOW {
            Judged::TooFar
        } else {
            Judged::New
        }
    }

    /// Keeps an opened record until its turn.
    pub(super) fn hold(&mut self, seq: u64, body: Secret<Vec<u8>>) {
        self.held.insert(seq, body);
    }

    /// The next in turn.
    pub(super) fn pop(&mut self) -> Option<Secret<Vec<u8>>> {
        let body = self.held.remove(&self.next)?;
        self.next = self.next.saturating_add(1);
        Some(body)
    }

    /// The number that is wanted next.
    pub(super) const fn wants(&self) -> u64 {
        self.next
    }

    /// Which of the 64 after it came already.
    pub(super) fn has(&self) -> u64 {
        self.held.keys().fold(0, |map, seq| {
            seq.checked_sub(self.next)
                .and_then(|ahead| ahead.checked_sub(1))
                .filter(|bit| *bit < 64)
                .map_or(map, |bit| map | 1 << bit)
        })
    }
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
