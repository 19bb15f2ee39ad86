//! Which of the relay's positions were seen, and what is missing between them.
//!
//! A relay numbers everything in a session with one counter and does not hand out a member's own
//! messages, nor say which position they got. So a hole may be our own: as many positions as we
//! posted and have not yet found a hole for. What is beyond that is a message of the peer that the
//! relay lost, and the user hears of it: at the latest with the first message that the peer sends
//! after ours, because until then a hole may still be taken for the position of ours.

use super::MAX_JUMP;

/// The reader's place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Track {
    cursor: u64,
    own: u64,
}

/// How a position relates to the reader's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not after the place: handled before.
    Old,
    /// Further ahead than any honest relay can be.
    TooFar,
    /// The next one, with so many of the peer's missing in between.
    Next {
        /// How many, at most.
        missed: u64,
    },
}

impl Track {
    /// The position after which messages are wanted.
    #[must_use]
    pub const fn since(&self) -> u64 {
        self.cursor
    }

    /// A message of ours is on its way and may get a position.
    pub const fn posting(&mut self) {
        self.own = self.own.saturating_add(1);
    }

    /// It failed. If it got a position all the same, the hole is told: better once too often.
    pub const fn not_posted(&mut self) {
        self.own = self.own.saturating_sub(1);
    }

    /// Judges a position. Does not move the place.
    #[must_use]
    pub fn place(&self, seq: u64) -> Place {
        if seq <= self.cursor {
            Place::Old
        } else if seq - self.cursor > MAX_JUMP {
            Place::TooFar
        } else {
            let hole = seq - self.cursor - 1;
            Place::Next {
                missed: hole.saturating_sub(self.own),
            }
        }
    }

    /// Moves the place to a position that was handled.
    pub fn handled(&mut self, seq: u64) {
        if seq > self.cursor {
            let hole = seq - self.cursor - 1;
            self.own = self.own.saturating_sub(hole);
            self.cursor = seq;
        }
    }

    /// The relay holds nothing before `oldest`: the place moves up to just before it.
    pub fn oldest(&mut self, oldest: u64) -> Place {
        let Some(before) = oldest.checked_sub(1) else {
            return Place::Old;
        };
        if before <= self.cursor {
            return Place::Old;
        }
        let span = before - self.cursor;
        if span > MAX_JUMP {
            return Place::TooFar;
        }
        let missed = span.saturating_sub(self.own);
        self.own = self.own.saturating_sub(span);
        self.cursor = before;
        Place::Next { missed }
    }
}
