//! How far files of our own mode are, for whoever waits and wants to see it move.
//!
//! The machine says how many bytes of a file the receiving program has. What is told about it must
//! only ever grow, however many files come and go meanwhile: so a [`Meter`] counts all that move in
//! its time, and what ended early keeps what it had.

use std::collections::BTreeMap;

use crate::domain::machine::bond::OfferId;

/// Files that are remembered; as many as can move at once, both ways.
const MAX_MOVES: usize = 64;

/// A file that moves, or moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its name, spelled out and bounded.
    pub name: String,
    /// Whether it is ours.
    pub ours: bool,
    /// Bytes that the receiver's program has.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
    over: bool,
}

/// The files of a session.
#[derive(Clone, Debug, Default)]
pub struct Moves(BTreeMap<OfferId, Move>);

impl Moves {
    /// So much of a file is there.
    pub(super) fn progress(
        &mut self,
        id: &OfferId,
        (done, total): (u64, u64),
        who: impl FnOnce() -> Option<(String, bool)>,
    ) {
        if let Some(known) = self.0.get_mut(id) {
            known.done = known.done.max(done);
            return;
        }
        let Some((name, ours)) = who() else {
            return;
        };
        if self.0.len() >= MAX_MOVES {
            self.0.retain(|_, known| !known.over);
        }
        let begun = Move {
            name,
            ours,
            done,
            total,
            over: false,
        };
        self.0.insert(id.clone(), begun);
    }

    /// A file does not move any more: all of it is there, or not.
    pub(super) fn end(&mut self, id: &OfferId, whole: bool) {
        if let Some(known) = self.0.get_mut(id) {
            known.over = true;
            if whole {
                known.done = known.total;
            }
        }
    }
}

/// What a call can tell of files that move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Bytes.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
    /// Which, in short.
    pub what: String,
}

/// Reads the files that move while a call lasts.
#[derive(Debug)]
pub struct Meter {
    only: Option<OfferId>,
    /// What was over when it began.
    before: Vec<OfferId>,
    seen: BTreeMap<OfferId, Move>,
    told: u64,
}

impl Meter {
    /// Begins to read: one file, or all.
    #[must_use]
    pub fn new(only: Option<OfferId>, moves: &Moves) -> Meter {
        let over = moves.0.iter().filter(|(_, known)| known.over);
        Meter {
            only,
            before: over.map(|(id, _)| id.clone()).collect(),
            seen: BTreeMap::new(),
            told: 0,
        }
    }

    /// What there is to tell; `None` where nothing has moved since the last reading.
    pub fn read(&mut self, moves: &Moves) -> Option<Reading> {
        for (id, known) in &moves.0 {
            let wanted = self.only.as_ref().is_none_or(|only| only == id);
            if wanted && !self.before.contains(id) {
                self.seen.insert(id.clone(), known.clone());
            }
        }
        let sum = |of: fn(&Move) -> u64| {
            let all = self.seen.values().map(of);
            all.fold(0, u64::saturating_add)
        };
        let (done, total) = (sum(|known| known.done), sum(|known| known.total));
        if done <= self.told {
            return None;
        }
        self.told = done;
        let mut seen = self.seen.values();
        let what = match (seen.next(), seen.len()) {
            (Some(one), 0) if one.ours => format!("sending {}", one.name),
            (Some(one), 0) => format!("receiving {}", one.name),
            (_, others) => format!("{} files", others.saturating_add(1)),
        };
        Some(Reading { done, total, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> OfferId {
        OfferId::from_bytes([n; 8])
    }

    fn go(moves: &mut Moves, n: u8, done: u64, total: u64) {
        moves.progress(&id(n), (done, total), || {
            Some((format!("{n}.bin"), n.is_multiple_of(2)))
        });
    }

    fn read(meter: &mut Meter, moves: &Moves) -> Option<(u64, u64, String)> {
        let reading = meter.read(moves)?;
        Some((reading.done, reading.total, reading.what))
    }

    #[test]
    fn what_is_told_only_grows_whatever_comes_and_goes() {
        let mut moves = Moves::default();
        go(&mut moves, 1, 500, 500);
        moves.end(&id(1), true);
        let mut meter = Meter::new(None, &moves);
        assert_eq!(read(&mut meter, &moves), None, "it was over before");
        go(&mut moves, 2, 10, 100);
        let sending = "sending 2.bin".to_owned();
        assert_eq!(read(&mut meter, &moves), Some((10, 100, sending)));
        assert_eq!(read(&mut meter, &moves), None, "nothing moved");
        // A late word is no step back.
        go(&mut moves, 2, 5, 100);
        assert_eq!(read(&mut meter, &moves), None);
        go(&mut moves, 3, 7, 50);
        let both = "2 files".to_owned();
        assert_eq!(read(&mut meter, &moves), Some((17, 150, both.clone())));
        moves.end(&id(2), false);
        assert_eq!(read(&mut meter, &moves), None);
        moves.end(&id(3), true);
        assert_eq!(read(&mut meter, &moves), Some((60, 150, both)));
        let mut one = Meter::new(Some(id(5)), &moves);
        go(&mut moves, 4, 1, 9);
        go(&mut moves, 5, 2, 9);
        let receiving = "receiving 5.bin".to_owned();
        assert_eq!(read(&mut one, &moves), Some((2, 9, receiving)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut moves = Moves::default();
        let mut meter = Meter::new(None, &moves);
        let mut last = 0;
        for n in 0..=255 {
            go(&mut moves, n, 1, 2);
            let (done, ..) = read(&mut meter, &moves).unwrap();
            assert!(done > last);
            last = done;
            moves.end(&id(n), false);
            assert!(moves.0.len() <= MAX_MOVES);
        }
        // Nobody is asked for what nobody knows.
        moves.progress(
            &OfferId::from_bytes([9, 9, 0, 0, 0, 0, 0, 0]),
            (1, 1),
            || None,
        );
        assert_eq!(read(&mut meter, &moves), None);
    }
}
