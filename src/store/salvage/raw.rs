//! Frames and bodies in the bytes of a file, without the engine.
//!
//! The engine writes values as they are: a frame stands in the file in one piece and proves itself
//! by its checksum. But a text that a peer chose may spell a frame as well. So pages are read by
//! their layout first, and what is found in the place of a log's record counts before what is found
//! anywhere else; inside a page that reads, nothing but its entries is looked at.
//!
//! The layout of a leaf page, of tables with keys of eight bytes and values of any length: type
//! (1 byte), one byte, number of entries (u16), the end of each value (u32), the keys, the values.
//! With keys of any length the ends of the keys stand before the ends of the values. A branch page:
//! type, one byte, number of keys (u16), four bytes, for each child a checksum (16 bytes) and then
//! for each a page number (8 bytes), the ends of the keys unless they are fixed, the keys.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::codec::frame::{self, MAGIC};
use crate::crypto::hash::sha256;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Where the engine's pages begin.
const PAGE: usize = 4096;
/// Type of a leaf page.
const LEAF: u8 = 1;
/// Type of a branch page.
const BRANCH: u8 = 2;
/// Most entries of a page that are looked at.
const MAX_ENTRIES: usize = 1024;
/// Positions beyond are taken for something else: a number of entries that is wrong makes such.
const MAX_KEY: u64 = 1 << 32;
/// Bytes of bodies that are hashed on suspicion.
const MAX_GUESSED: usize = 1 << 30;

/// A frame in the bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawFrame {
    pub(super) seq: Seq,
    pub(super) at: UnixMillis,
    /// Its bytes.
    pub(super) range: Range<usize>,
    /// Whether it stood outside of every page that reads.
    pub(super) loose: bool,
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

fn key_of(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?))
}

fn entries(bytes: &[u8]) -> Option<usize> {
    let [_, _, low, high, ..] = *bytes else {
        return None;
    };
    let n = usize::from(u16::from_le_bytes([low, high]));
    (1..=MAX_ENTRIES).contains(&n).then_some(n)
}

/// Ends, each not before the last one; the first not before `from`.
fn ends(bytes: &[u8], at: usize, n: usize, from: usize) -> Option<Vec<usize>> {
    let mut last = from;
    let mut ends = Vec::with_capacity(n);
    for i in 0..n {
        let end = number(bytes, at + 4 * i)?;
        if end < last || end > bytes.len() {
            return None;
        }
        ends.push(end);
        last = end;
    }
    Some(ends)
}

/// The entries of a leaf page of a table with keys of eight bytes, and where the page's content
/// ends.
fn numbered_leaf(page: &[u8]) -> Option<(Vec<Range<usize>>, usize)> {
    let n = entries(page).filter(|_| page.first() == Some(&LEAF))?;
    let values = 4 + 12 * n;
    let mut start = values;
    let mut found = Vec::with_capacity(n);
    for end in ends(page, 4, n, values)? {
        found.push(start..end);
        start = end;
    }
    let keys: Vec<u64> = (0..n)
        .map_while(|i| key_of(page, 4 + 4 * n + 8 * i))
        .collect();
    let rising = keys.len() == n && keys.is_sorted_by(|a, b| a < b);
    let rising = rising && keys.last().is_some_and(|key| *key < MAX_KEY);
    rising.then_some((found, start))
}

/// Where the content of a leaf page with keys of any length ends.
fn named_leaf(page: &[u8]) -> Option<usize> {
    let n = entries(page).filter(|_| page.first() == Some(&LEAF))?;
    let keys = ends(page, 4, n, 4 + 8 * n)?;
    let values = ends(page, 4 + 4 * n, n, *keys.last()?)?;
    values.last().copied()
}

/// Where the content of a branch page ends.
fn branch(page: &[u8]) -> Option<usize> {
    let n = entries(page).filter(|_| page.first() == Some(&BRANCH))?;
    let at = 8 + 24 * (n + 1);
    let named = ends(page, at, n, at + 4 * n).and_then(|ends| ends.last().copied());
    named.or_else(|| Some(at + 8 * n).filter(|end| *end <= page.len().min(PAGE)))
}

/// What stands at the beginning of a page.
enum Page {
    /// Records of the log, all of which check, up to here.
    Log(usize),
    /// Records of the log, and something is wrong with the page.
    Damaged,
    /// Something else, up to here by what the page says.
    Other(usize),
    /// Nothing that reads.
    Unknown,
}

/// Every frame that checks, in order of place.
pub(super) fn frames(file: &[u8]) -> Vec<RawFrame> {
    let mut found = vec![];
    let (mut at, mut hidden) = (0, 0);
    while at < file.len() {
        let rest = file.get(at..).unwrap_or_default();
        if at.is_multiple_of(PAGE) {
            match page(rest, at, &mut found) {
                Page::Log(end) => {
                    at += end.next_multiple_of(PAGE);
                    continue;
                }
                // Its length may be wrong, so a page of the log counts inside of it as well.
                Page::Other(end) => hidden = hidden.max(at + end.next_multiple_of(PAGE)),
                Page::Damaged => hidden = at,
                Page::Unknown => {}
            }
        }
        let next_page = (at + 1).next_multiple_of(PAGE);
        if at < hidden {
            at = next_page;
            continue;
        }
        // The magic may cross into the next page.
        let window = next_page - at + MAGIC.len() - 1;
        let window = rest.get(..window).unwrap_or(rest);
        match window.windows(MAGIC.len()).position(|w| w == MAGIC) {
            Some(hit) => at += hit + loose(file, at + hit, &mut found).unwrap_or(1),
            None => at = next_page,
        }
    }
    found
}

/// The length of the frame that begins here, which is noted.
fn loose(file: &[u8], at: usize, found: &mut Vec<RawFrame>) -> Option<usize> {
    let (frame, len) = frame::parse_prefix(file.get(at..)?).ok()?;
    found.push(RawFrame {
        seq: frame.seq,
        at: frame.recorded_at,
        range: at..at + len,
        loose: true,
    });
    Some(len)
}

/// Reads a page, and notes the frames in it.
fn page(page: &[u8], at: usize, found: &mut Vec<RawFrame>) -> Page {
    let numbered = numbered_leaf(page);
    if let Some((values, end)) = &numbered {
        let mut whole = 0;
        let mut begun = false;
        for range in values {
            let value = page.get(range.clone()).unwrap_or_default();
            begun |= value.starts_with(&MAGIC);
            if let Ok((frame, len)) = frame::parse_prefix(value) {
                whole += usize::from(len == value.len());
                found.push(RawFrame {
                    seq: frame.seq,
                    at: frame.recorded_at,
                    range: at + range.start..at + range.start + len,
                    loose: false,
                });
            }
        }
        if whole == values.len() {
            return Page::Log(*end);
        }
        if begun {
            return Page::Damaged;
        }
    }
    // The first record of the log where it would be, although the page does not say so.
    let first = entries(page).map_or(0, |n| 4 + 12 * n);
    if page.get(first..).is_some_and(|v| v.starts_with(&MAGIC)) {
        return Page::Damaged;
    }
    let end = match (numbered, named_leaf(page)) {
        // A page of one entry may read both ways.
        (Some((_, end)), Some(named)) => Some(end.max(named.min(PAGE))),
        (Some((_, end)), None) | (None, Some(end)) => Some(end),
        (None, None) => branch(page),
    };
    end.map_or(Page::Unknown, Page::Other)
}

/// What a body must be: length and SHA-256.
pub(super) type Wanted = BTreeMap<Seq, (usize, [u8; 32])>;

/// The places of bodies, wherever a page still says which one it holds.
pub(super) fn bodies(file: &[u8], wanted: &Wanted) -> BTreeMap<Seq, Range<usize>> {
    let mut found = BTreeMap::new();
    let try_at = |seq: Seq, start: usize, found: &mut BTreeMap<Seq, Range<usize>>| {
        let Some((len, digest)) = wanted.get(&seq).filter(|_| !found.contains_key(&seq)) else {
            return;
        };
        let range = start..start.saturating_add(*len);
        if file.get(range.clone()).map(sha256) == Some(*digest) {
            found.insert(seq, range);
        }
    };
    let starts = (0..file.len()).step_by(PAGE);
    for at in starts.clone() {
        let page = file.get(at..).unwrap_or_default();
        let Some(n) = entries(page) else { continue };
        for i in 0..n {
            let Some(seq) = key_of(page, 4 + 4 * n + 8 * i).map(Seq) else {
                break;
            };
            let Some((len, _)) = wanted.get(&seq) else {
                continue;
            };
            // By the end of the one before, or back from its own end: one of the two may be wrong.
            let start = if i == 0 {
                Some(4 + 12 * n)
            } else {
                number(page, 4 * i)
            };
            let back = number(page, 4 + 4 * i).and_then(|end| end.checked_sub(*len));
            for start in [start, back].into_iter().flatten() {
                try_at(seq, at.saturating_add(start), &mut found);
            }
        }
    }
    // A page of one body, whatever its head says.
    let lost: Vec<(Seq, usize)> = wanted
        .iter()
        .filter(|(seq, _)| !found.contains_key(*seq))
        .map(|(seq, (len, _))| (*seq, *len))
        .collect();
    let mut guessed = 0usize;
    for at in starts {
        for (seq, len) in &lost {
            guessed = guessed.saturating_add(*len);
            if guessed > MAX_GUESSED {
                return found;
            }
            try_at(*seq, at + 16, &mut found);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::codec::frame::{Frame, encode};

    fn frame(seq: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![];
        let frame = Frame {
            kind: 1,
            version: 1,
            seq: Seq(seq),
            recorded_at: UnixMillis(seq),
            payload,
        };
        encode(&frame, &mut out).unwrap();
        out
    }

    fn page(entries: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let n = entries.len();
        let mut page = vec![LEAF, 0];
        page.extend(u16::try_from(n).unwrap().to_le_bytes());
        let mut end = 4 + 12 * n;
        for (_, value) in entries {
            end += value.len();
            page.extend(u32::try_from(end).unwrap().to_le_bytes());
        }
        for (key, _) in entries {
            page.extend(key.to_le_bytes());
        }
        for (_, value) in entries {
            page.extend(value);
        }
        page.resize(page.len().next_multiple_of(PAGE), 0);
        page
    }

    fn seqs(file: &[u8]) -> Vec<(u64, bool)> {
        let found = frames(file);
        found.iter().map(|f| (f.seq.0, f.loose)).collect()
    }

    #[test]
    fn frames_are_found_by_page_and_without() {
        let mut file = page(&[(1, frame(1, b"a")), (2, frame(2, b"b"))]);
        file.extend(page(&[(3, frame(3, b"c"))]));
        assert_eq!(seqs(&file), [(1, false), (2, false), (3, false)]);
        // The head of the first page is gone.
        file[..16].fill(0xEE);
        assert_eq!(seqs(&file), [(1, true), (2, true), (3, false)]);
        // One frame is damaged; its neighbour is still there.
        let mut file = page(&[(1, frame(1, b"aaaa")), (2, frame(2, b"b"))]);
        file[60] ^= 1;
        assert_eq!(seqs(&file), [(2, false), (2, true)]);
        // Whatever is wrong with the head of the page, both are found.
        let whole = page(&[(1, frame(1, b"a")), (2, frame(2, b"b"))]);
        for at in 0..28 {
            for bit in 0..8 {
                let mut file = whole.clone();
                file[at] ^= 1 << bit;
                let found: BTreeSet<u64> = seqs(&file).into_iter().map(|(seq, _)| seq).collect();
                assert_eq!(found, BTreeSet::from([1, 2]), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn a_frame_across_two_pages_is_found() {
        let mut file = vec![0xEE; PAGE - 2];
        file.extend(frame(7, &[9; 100]));
        file.extend(frame(8, &[9; 5000]));
        file.extend(frame(9, b""));
        assert_eq!(seqs(&file), [(7, true), (8, true), (9, true)]);
    }

    #[test]
    fn a_frame_that_a_body_spells_is_no_record() {
        let forged = frame(2, b"peer added");
        let mut body = b"{\"text\":\"".to_vec();
        body.extend(forged);
        let file = [page(&[(1, frame(1, b"a"))]), page(&[(1, body)])].concat();
        assert_eq!(seqs(&file), [(1, false)]);
    }

    #[test]
    fn a_frame_that_a_row_or_a_key_spells_is_no_record() {
        let forged = frame(2, b"peer added");
        let end = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
        let mut row = vec![LEAF, 0, 1, 0];
        row.extend(end(12 + 3));
        row.extend(end(12 + 3 + 5 + forged.len()));
        row.extend(b"keytext: ");
        row.truncate(12 + 3 + 5);
        row.extend(&forged);
        row.resize(PAGE, 0);
        assert_eq!(seqs(&row), []);
        let mut keys = vec![BRANCH, 0, 1, 0, 0, 0, 0, 0];
        keys.extend([7; 48]);
        keys.extend(end(60 + forged.len()));
        keys.extend(&forged);
        keys.resize(PAGE, 0);
        assert_eq!(seqs(&keys), []);
        // Where nothing says what the bytes are, they are told as loose.
        keys[0] = 9;
        assert_eq!(seqs(&keys), [(2, true)]);
    }

    #[test]
    fn bodies_are_found_by_their_digest_although_the_page_is_damaged() {
        let (a, b) = (vec![1u8; 50], vec![2u8; 70]);
        let mut wanted = Wanted::new();
        wanted.insert(Seq(5), (50, sha256(&a)));
        wanted.insert(Seq(6), (70, sha256(&b)));
        let whole = page(&[(5, a.clone()), (6, b)]);
        for damaged in [0, 4, 8] {
            let mut file = whole.clone();
            file[damaged] ^= 0xFF;
            assert_eq!(bodies(&file, &wanted).len(), 2, "byte {damaged}");
        }
        let mut alone = page(&[(5, a)]);
        alone[..16].fill(0xEE);
        assert_eq!(bodies(&alone, &wanted).len(), 1);
    }
}
