//! What a disk may hold after the power failed.
//!
//! What was synced is there. Of what came after the last sync, any part may be: some writes and
//! not others, in any order, the last bytes of one missing. [`PowerCuts`] walks over a recorded
//! [`Journal`] and makes such images, each from a number that reproduces it.

use super::Rng;

/// A change of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Bytes were written; past the end the file grows.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Box<[u8]>,
    },
    /// The length was set; new bytes are zero.
    SetLen(u64),
    /// Everything before is durable.
    Sync,
    /// Nothing happens.
    Ignored,
}

impl Op {
    /// Changes `bytes` as the operation does.
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Op::Write { offset, data } => write(bytes, *offset, data),
            Op::SetLen(len) => bytes.resize(usize::try_from(*len).unwrap(), 0),
            Op::Sync | Op::Ignored => {}
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let start = usize::try_from(offset).unwrap();
    let end = start + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(data);
}

/// Everything that changed a disk, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    base: Vec<u8>,
    ops: Vec<Op>,
}

impl Journal {
    pub(super) fn new(base: Vec<u8>) -> Self {
        Journal { base, ops: vec![] }
    }

    pub(super) fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Operations recorded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The same operations on a disk whose syncs do nothing: a control that must fail.
    #[must_use]
    pub fn without_syncs(mut self) -> Self {
        let syncs = self.ops.iter_mut().filter(|op| **op == Op::Sync);
        syncs.for_each(|op| *op = Op::Ignored);
        self
    }

    /// The cut before the first operation; [`PowerCuts::advance`] leads to the others.
    #[must_use]
    pub fn cuts(&self) -> PowerCuts<'_> {
        PowerCuts {
            ops: &self.ops,
            at: 0,
            durable: self.base.clone(),
            pending: vec![],
        }
    }
}

/// A power cut at one position of a journal.
#[derive(Debug)]
pub struct PowerCuts<'a> {
    ops: &'a [Op],
    at: usize,
    durable: Vec<u8>,
    pending: Vec<&'a Op>,
}

/// Images that [`PowerCuts::image`] makes without a seed: nothing that was not synced survived,
/// everything did, everything but the end of the last write did.
pub const PLAIN_VARIANTS: u64 = 3;

impl PowerCuts<'_> {
    /// Operations before the cut.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Operations before the cut that are not known to be durable.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.pending.len()
    }

    /// Moves the cut behind the next operation; false at the end.
    pub fn advance(&mut self) -> bool {
        let Some(op) = self.ops.get(self.at) else {
            return false;
        };
        self.at += 1;
        if *op == Op::Sync {
            for op in self.pending.drain(..) {
                op.apply(&mut self.durable);
            }
        } else {
            self.pending.push(op);
        }
        true
    }

    /// One image of the disk after this cut. Variants below [`PLAIN_VARIANTS`] are described
    /// there; any other number seeds a random choice.
    #[must_use]
    pub fn image(&self, variant: u64) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        match variant {
            0 => {}
            1 => self.pending.iter().for_each(|op| op.apply(&mut bytes)),
            2 => {
                let (last, before) = self.pending.split_last().unzip();
                let before: &[&Op] = before.unwrap_or_default();
                before.iter().for_each(|op| op.apply(&mut bytes));
                match last {
                    Some(Op::Write { offset, data }) => {
                        write(&mut bytes, *offset, &data[..data.len() / 2]);
                    }
                    Some(op) => op.apply(&mut bytes),
                    None => {}
                }
            }
            seed => self.random(seed, &mut bytes),
        }
        bytes
    }

    fn random(&self, seed: u64, bytes: &mut Vec<u8>) {
        let mut rng = Rng::new(seed ^ (self.at as u64) << 32);
        let keep = 10 + rng.below(90);
        let mut survivors: Vec<&Op> = self.pending.clone();
        survivors.retain(|_| rng.chance(keep));
        if rng.chance(50) {
            rng.shuffle(&mut survivors);
        }
        for op in survivors {
            let Op::Write { offset, data } = op else {
                op.apply(bytes);
                continue;
            };
            let mut n = data.len();
            if rng.chance(25) {
                n = rng.index(n + 1);
                if rng.chance(75) {
                    n -= n % 512;
                }
            }
            // The new length may have been lost, and with it what was written beyond the old one.
            if *offset + n as u64 <= bytes.len() as u64 || rng.chance(50) {
                write(bytes, *offset, &data[..n]);
            }
        }
    }
}
