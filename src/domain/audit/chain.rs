//! How lines of `audit.log` follow each other: making them, and reading them again.
//!
//! One fold serves both. Who verifies stops at the first fault; who writes goes on behind whatever is
//! there, because a record that stops being kept when somebody tampered with it is worth less.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Entry, GENESIS_TEXT, ROTATED, Source, TORN};
use crate::crypto::hash::sha256;
use crate::types::seq::Seq;
use crate::types::text::visible_json;
use crate::types::time::UnixMillis;

/// What ends the part of a line that its own hash is about.
const HASH_MEMBER: &str = ",\"hash\":\"";
/// Identities that one file knows.
const MAX_IDENTITIES: usize = 64;

/// A line as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Line {
    /// When, ISO 8601.
    pub timestamp: String,
    /// What happened.
    pub tool: String,
    /// On whose account.
    pub source: String,
    /// JSON text.
    pub params: String,
    /// Whose process.
    pub pid: u32,
    /// Fingerprint of the identity that wrote it.
    pub identity: String,
    /// Number of the line, from 1.
    pub seq: u64,
    /// Position of the event in that identity's log; absent in lines about the file itself.
    #[serde(default)]
    pub record: Option<u64>,
    /// Digest of the line before.
    pub prev: String,
    /// Digest of this line up to here.
    pub hash: String,
}

/// A line of a program that does not chain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Foreign {
    timestamp: String,
    tool: String,
    source: String,
    params: String,
    pid: u32,
}

/// The members of a line in the order in which they are written.
#[derive(Serialize)]
struct Written<'a> {
    timestamp: String,
    tool: &'a str,
    source: &'a str,
    params: String,
    pid: u32,
    identity: &'a str,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<u64>,
    prev: String,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It is no line of this file.
    #[error("this is no whole line, and no line after it says that a crash cut it off")]
    NotALine,
    /// Its own hash does not fit.
    #[error("the line was changed: its hash does not fit its text")]
    Changed,
    /// It does not follow the line before it.
    #[error("the line does not follow the one before it: one was taken out, put in or moved")]
    NotNext,
    /// Its number does not follow.
    #[error("the line has number {found}, {expected} was to come")]
    Number {
        /// The number that was to come.
        expected: u64,
        /// The one that it has.
        found: u64,
    },
}

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A chained line.
    Ours(Line),
    /// A line of a program that does not chain.
    Foreign,
    /// No whole line; the next one has to say so.
    Fragment,
}

/// How far an identity's events have lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Position of the newest event that has one.
    pub record: Seq,
    /// How many it has.
    pub lines: u32,
}

/// A fragment that the next line has to own up to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    /// Number of its line in the file.
    line: u64,
    bytes: usize,
    sha256: [u8; 32],
}

/// The state of the chain behind some line.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Lines of this file.
    line: u64,
    /// Number of the last chained line.
    seq: u64,
    /// Digest of the last line; `None` where an earlier file that is gone would tell.
    prev: Option<[u8; 32]>,
    fragment: Option<Fragment>,
    seen: BTreeMap<String, Seen>,
    chained: u64,
    foreign: u64,
    torn: u64,
}

impl Chain {
    /// Before the first line of the first file.
    #[must_use]
    pub fn begin() -> Chain {
        Chain {
            line: 0,
            seq: 0,
            prev: Some(sha256(GENESIS_TEXT)),
            fragment: None,
            seen: BTreeMap::new(),
            chained: 0,
            foreign: 0,
            torn: 0,
        }
    }

    /// Before the first line of a file whose predecessors are gone.
    #[must_use]
    pub fn resume() -> Chain {
        Chain {
            prev: None,
            ..Chain::begin()
        }
    }

    /// The next file begins: lines are counted anew.
    pub fn next_file(&mut self) {
        self.line = 0;
    }

    /// Number of the last line in this file, from 1; 0 before the first.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Chained lines, lines of programs that do not chain, and fragments that a later line owned up to.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64, u64) {
        (self.chained, self.foreign, self.torn)
    }

    /// How far an identity's events have lines.
    #[must_use]
    pub fn seen(&self, identity: &str) -> Option<Seen> {
        self.seen.get(identity).copied()
    }

    /// Takes the next line, without its line feed. The state follows the line also where it is
    /// faulty.
    ///
    /// # Errors
    ///
    /// The first [`Fault`] of the line.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Taken, (u64, Fault)> {
        self.line += 1;
        let digest = sha256(bytes);
        let before = self.prev.replace(digest);
        let fragment = self.fragment.take();
        let Some(line) = parse::<Line>(bytes) else {
            let foreign = parse::<Foreign>(bytes).is_some() && !is_chained(bytes);
            let lost = fragment.map(|f| f.line);
            if !foreign {
                self.fragment = Some(Fragment {
                    line: self.line,
                    bytes: bytes.len(),
                    sha256: digest,
                });
            } else {
                self.foreign += 1;
            }
            return match lost {
                Some(line) => Err((line, Fault::NotALine)),
                None if foreign => Ok(Taken::Foreign),
                None => Ok(Taken::Fragment),
            };
        };
        let fault = self.check(bytes, &line, before, fragment.as_ref());
        self.chained += 1;
        self.torn += u64::from(fragment.is_some());
        self.seq = line.seq;
        self.note(&line);
        fault.map_or(Ok(Taken::Ours(line)), Err)
    }

    fn check(
        &self,
        bytes: &[u8],
        line: &Line,
        before: Option<[u8; 32]>,
        fragment: Option<&Fragment>,
    ) -> Option<(u64, Fault)> {
        let here = |fault| Some((self.line, fault));
        if let Some(fragment) = fragment
            && !owns_up(line, fragment)
        {
            return Some((fragment.line, Fault::NotALine));
        }
        if own_hash(bytes).as_deref() != Some(line.hash.as_str()) {
            return here(Fault::Changed);
        }
        match before {
            Some(before) if HEXLOWER.encode(&before) != line.prev => return here(Fault::NotNext),
            None if line.tool != ROTATED => return here(Fault::NotNext),
            _ => {}
        }
        let expected = self.seq.saturating_add(1);
        if before.is_some() && line.seq != expected {
            let found = line.seq;
            return here(Fault::Number { expected, found });
        }
        None
    }

    /// Whether the last line is a fragment; gives its number in the file.
    #[must_use]
    pub fn unowned(&self) -> Option<u64> {
        self.fragment.as_ref().map(|fragment| fragment.line)
    }

    fn note(&mut self, line: &Line) {
        if line.tool == ROTATED
            && let Ok(params) = serde_json::from_str::<Value>(&line.params)
            && let Some(all) = params.get("seen").and_then(Value::as_object)
        {
            for (identity, at) in all.iter().take(MAX_IDENTITIES) {
                let number = |n: usize| at.get(n).and_then(Value::as_u64);
                if let (Some(record), Some(lines)) = (number(0), number(1)) {
                    let lines = u32::try_from(lines).unwrap_or(u32::MAX);
                    let record = Seq(record);
                    self.seen
                        .entry(identity.clone())
                        .or_insert(Seen { record, lines });
                }
            }
        }
        let Some(record) = line.record.map(Seq) else {
            return;
        };
        let known = self.seen.contains_key(&line.identity);
        if !known && self.seen.len() >= MAX_IDENTITIES {
            return;
        }
        let seen = self.seen.entry(line.identity.clone());
        let seen = seen.or_insert(Seen { record, lines: 0 });
        if seen.record == record {
            seen.lines = seen.lines.saturating_add(1);
        } else if record > seen.record {
            *seen = Seen { record, lines: 1 };
        }
    }

    /// Writes a line behind the last one, line feed included, and takes it.
    pub fn append(
        &mut self,
        identity: &str,
        at: UnixMillis,
        record: Option<Seq>,
        entry: &Entry,
    ) -> String {
        let prev = self.prev.unwrap_or_else(|| sha256(GENESIS_TEXT));
        let written = Written {
            timestamp: at.iso8601(),
            tool: entry.tool,
            source: entry.source.name(),
            params: entry.params.to_string(),
            pid: entry.pid,
            identity,
            seq: self.seq.saturating_add(1),
            record: record.map(|seq| seq.0),
            prev: HEXLOWER.encode(&prev),
        };
        // Numbers and texts always serialise.
        let text = serde_json::to_string(&written).unwrap_or_default();
        let text = visible_json(&text).into_owned();
        let body = text.strip_suffix('}').unwrap_or(&text);
        let hash = HEXLOWER.encode(&sha256(body.as_bytes()));
        let line = format!("{body}{HASH_MEMBER}{hash}\"}}");
        let _ = self.take(line.as_bytes());
        line + "\n"
    }

    /// The line that owns up to a fragment, if the last line is one.
    pub fn own_up(&mut self, identity: &str, at: UnixMillis, pid: u32) -> Option<String> {
        let fragment = self.fragment.as_ref()?;
        let params = json!({
            "bytes": fragment.bytes, "sha256": HEXLOWER.encode(&fragment.sha256),
        });
        let entry = about_the_file(TORN, params, pid);
        Some(self.append(identity, at, None, &entry))
    }

    /// The first line of a file, when the one before it was set aside under a name.
    pub fn rotate(&mut self, identity: &str, at: UnixMillis, pid: u32, name: &str) -> String {
        let seen: BTreeMap<&String, (u64, u32)> = self
            .seen
            .iter()
            .map(|(identity, seen)| (identity, (seen.record.0, seen.lines)))
            .collect();
        let params = json!({ "before": name, "last": self.seq, "seen": seen });
        self.next_file();
        let entry = about_the_file(ROTATED, params, pid);
        self.append(identity, at, None, &entry)
    }
}

fn about_the_file(tool: &'static str, params: Value, pid: u32) -> Entry {
    Entry {
        tool,
        source: Source::System,
        params,
        pid,
    }
}

fn parse<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// Whether a line has any member that only chained lines have.
fn is_chained(bytes: &[u8]) -> bool {
    let value = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let members = ["identity", "seq", "record", "prev", "hash"];
    members.iter().any(|name| value.get(name).is_some())
}

/// The digest that a line must say of itself.
fn own_hash(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let at = text.rfind(HASH_MEMBER)?;
    // Nothing may stand behind the hash.
    let hash = text.get(at + HASH_MEMBER.len()..)?.strip_suffix("\"}")?;
    (hash.len() == 64).then_some(())?;
    Some(HEXLOWER.encode(&sha256(text.get(..at)?.as_bytes())))
}

fn owns_up(line: &Line, fragment: &Fragment) -> bool {
    let Ok(params) = serde_json::from_str::<Value>(&line.params) else {
        return false;
    };
    line.tool == TORN
        && params.get("bytes").and_then(Value::as_u64) == u64::try_from(fragment.bytes).ok()
        && params.get("sha256").and_then(Value::as_str)
            == Some(HEXLOWER.encode(&fragment.sha256).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u32) -> Entry {
        Entry {
            tool: "bond_message",
            source: Source::User,
            params: json!({ "chars": n }),
            pid: 7,
        }
    }

    fn some(n: u32) -> Vec<String> {
        let mut chain = Chain::begin();
        let line = |n| {
            chain.append(
                "abcdefgh",
                UnixMillis(1),
                Some(Seq(u64::from(n) + 3)),
                &entry(n),
            )
        };
        (0..n).map(line).collect()
    }

    /// The first fault of a file.
    fn fault(lines: &[String]) -> Option<(u64, Fault)> {
        let mut chain = Chain::begin();
        for line in lines {
            if let Err(fault) = chain.take(line.trim_end_matches('\n').as_bytes()) {
                return Some(fault);
            }
        }
        chain.unowned().map(|line| (line, Fault::NotALine))
    }

    #[test]
    fn a_chain_that_nobody_touched_has_no_fault() {
        let lines = some(20);
        assert_eq!(fault(&lines), None);
        assert!(lines[0].contains(&HEXLOWER.encode(&sha256(GENESIS_TEXT))));
    }

    #[test]
    fn every_changed_byte_of_every_line_is_found_and_its_line_is_named() {
        let lines = some(5);
        for at in 0..lines.len() {
            for byte in 0..lines[at].len() - 1 {
                let mut bad = lines.clone();
                let mut bytes = bad[at].clone().into_bytes();
                bytes[byte] = if bytes[byte] == b'x' { b'y' } else { b'x' };
                bad[at] = String::from_utf8(bytes).unwrap();
                let (line, _) = fault(&bad).unwrap_or_else(|| panic!("line {at} byte {byte}"));
                assert_eq!(line, at as u64 + 1, "byte {byte}");
            }
        }
    }

    #[test]
    fn a_line_that_is_gone_moved_doubled_or_cut_is_named() {
        let lines = some(6);
        let mut gone = lines.clone();
        gone.remove(2);
        assert_eq!(fault(&gone), Some((3, Fault::NotNext)));
        let mut moved = lines.clone();
        moved.swap(1, 2);
        assert_eq!(fault(&moved), Some((2, Fault::NotNext)));
        let mut doubled = lines.clone();
        doubled.insert(4, lines[3].clone());
        assert_eq!(fault(&doubled), Some((5, Fault::NotNext)));
        let mut cut = lines.clone();
        cut[5].truncate(40);
        assert_eq!(fault(&cut), Some((6, Fault::NotALine)));
        let mut first = lines;
        first.remove(0);
        assert_eq!(fault(&first), Some((1, Fault::NotNext)));
    }

    #[test]
    fn a_fragment_is_owned_up_to_and_the_chain_goes_on() {
        let mut lines = some(3);
        let mut chain = Chain::begin();
        for line in &lines {
            chain.take(line.trim_end().as_bytes()).unwrap();
        }
        let torn = "{\"timestamp\":\"20".to_owned();
        assert_eq!(chain.take(torn.as_bytes()), Ok(Taken::Fragment));
        lines.push(torn);
        assert_eq!(fault(&lines), Some((4, Fault::NotALine)));
        lines.push(chain.own_up("abcdefgh", UnixMillis(2), 7).unwrap());
        lines.push(chain.append("abcdefgh", UnixMillis(3), Some(Seq(9)), &entry(9)));
        assert_eq!(fault(&lines), None);
        assert_eq!(chain.counts(), (5, 0, 1));
        // Another fragment under the same confession is none.
        lines[3].push('x');
        assert_eq!(fault(&lines), Some((4, Fault::NotALine)));
    }

    #[test]
    fn lines_of_a_program_that_does_not_chain_are_covered_by_the_next_one() {
        let foreign = r#"{"timestamp":"t","tool":"x","source":"user","params":"{}","pid":1}"#;
        let mut chain = Chain::begin();
        let mut lines = vec![foreign.to_owned()];
        assert_eq!(chain.take(foreign.as_bytes()), Ok(Taken::Foreign));
        lines.push(chain.append("abcdefgh", UnixMillis(1), Some(Seq(4)), &entry(1)));
        assert_eq!(fault(&lines), None);
        lines[0] = lines[0].replace("user", "usel");
        assert_eq!(fault(&lines), Some((2, Fault::NotNext)));
    }

    #[test]
    fn a_new_file_goes_on_where_the_old_one_ended() {
        let mut chain = Chain::begin();
        let mut old = vec![];
        for n in 0..3 {
            old.push(chain.append("abcdefgh", UnixMillis(1), Some(Seq(n)), &entry(1)));
        }
        let new = vec![
            chain.rotate("abcdefgh", UnixMillis(2), 7, "audit.log.1"),
            chain.append("abcdefgh", UnixMillis(3), Some(Seq(9)), &entry(9)),
        ];
        let all: Vec<_> = old.into_iter().chain(new.clone()).collect();
        assert_eq!(fault(&all), None);
        // Without the old file only the first line counts as a beginning.
        let mut chain = Chain::resume();
        for line in &new {
            chain.take(line.trim_end().as_bytes()).unwrap();
        }
        let seen = chain.seen("abcdefgh").unwrap();
        assert_eq!((seen.record, seen.lines), (Seq(9), 1));
        let mut chain = Chain::resume();
        chain.take(new[0].trim_end().as_bytes()).unwrap();
        assert_eq!(chain.seen("abcdefgh").unwrap().record, Seq(2));
        let second = new[1].trim_end().as_bytes();
        assert_eq!(Chain::resume().take(second), Err((1, Fault::NotNext)));
    }
}
