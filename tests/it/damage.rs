//! Damaged stores: `verify` says what is wrong, `repair` saves every record that is whole, and nothing
//! panics. Every region of small stores is flipped, zeroed, overwritten and cut off; frames are
//! exchanged, rows and records taken away and edited. `INTERLINK_LONG=1` tries all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use interlink::domain::Domain;
use interlink::domain::decide::agent::Agent;
use interlink::domain::decide::bus::Bus;
use interlink::domain::projection::bus_rendezvous::{
    RelayMessageKind, RelayMessageRow, RelayPeerRow,
};
use interlink::domain::tables::{TableId, scan_rows};
use interlink::event::kind::StoreKind;
use interlink::store::{
    BaseFound, CopyError, Cut, Location, Mode, OpenOptions, Part, ReadError, Reader, RepairReport,
    Salvage, Store, build, repair, verify,
};
use interlink::testkit::Rng;
use interlink::testkit::sample::bus_command;
use interlink::testkit::sample_agent::agent_history;
use interlink::types::seq::Seq;

use super::support::{START, clock, long, relayed, seed};

/// A part that can be kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kept {
    Meta(String, Vec<u8>),
    Base(TableId, Vec<u8>, Vec<u8>),
    Record(u64, Vec<u8>),
    Body(u64, Vec<u8>),
    Row(TableId, Vec<u8>, Vec<u8>),
}

impl Kept {
    fn part(&self) -> Part<'_> {
        match self {
            Kept::Meta(key, value) => Part::Meta { key, value },
            Kept::Record(seq, frame) => Part::Record {
                seq: Seq(*seq),
                frame,
            },
            Kept::Body(seq, bytes) => Part::Body {
                seq: Seq(*seq),
                bytes,
            },
            Kept::Base(table, key, value) | Kept::Row(table, key, value) => Part::Row {
                table: *table,
                base: matches!(self, Kept::Base(..)),
                key,
                value,
            },
        }
    }
}

pub(crate) fn parts_of(path: &Path) -> Result<Vec<Kept>, ReadError> {
    let reader = Reader::open(path, Mode::Exclusive).map_err(|e| ReadError::Engine {
        reason: e.to_string(),
    })?;
    let mut parts = vec![];
    reader.snapshot()?.parts::<ReadError>(&mut |part| {
        parts.push(match part {
            Part::Meta { key, value } => Kept::Meta(key.into(), value.into()),
            Part::Record { seq, frame } => Kept::Record(seq.0, frame.into()),
            Part::Body { seq, bytes } => Kept::Body(seq.0, bytes.into()),
            Part::Row {
                table,
                base,
                key,
                value,
            } if base => Kept::Base(table, key.into(), value.into()),
            Part::Row {
                table, key, value, ..
            } => Kept::Row(table, key.into(), value.into()),
        });
        Ok(())
    })?;
    Ok(parts)
}

fn frames(parts: &[Kept]) -> BTreeMap<u64, Vec<u8>> {
    let frames = parts.iter().filter_map(|part| match part {
        Kept::Record(seq, frame) => Some((*seq, frame.clone())),
        _ => None,
    });
    frames.collect()
}

/// Writes parts, whatever they say.
pub(crate) fn write(parts: &[Kept], kind: StoreKind, path: &Path) {
    build::<CopyError>(
        path,
        kind,
        |to| parts.iter().try_for_each(|part| to.put(part.part())),
        |_| Ok(()),
    )
    .unwrap();
}

fn verified(path: &Path, kind: StoreKind) -> Result<verify::Report, String> {
    let reader = Reader::open(path, Mode::Exclusive).map_err(|e| e.to_string())?;
    let snapshot = reader.snapshot().map_err(|e| e.to_string())?;
    match kind {
        StoreKind::Bus => verify::verify::<Bus>(&snapshot, |_| {}),
        StoreKind::Agent => verify::verify::<Agent>(&snapshot, |_| {}),
    }
    .map_err(|e| e.to_string())
}

fn repaired(path: &Path, out: &Path) -> Result<RepairReport, String> {
    let _ = fs::remove_file(out);
    let salvage = Salvage::read(path).map_err(|e| e.to_string())?;
    match salvage.kind() {
        StoreKind::Bus => repair::<Bus>(&salvage, out, START),
        StoreKind::Agent => repair::<Agent>(&salvage, out, START),
    }
    .map_err(|e| e.to_string())
}

/// A sound store to damage.
struct Sound {
    kind: StoreKind,
    name: &'static str,
    file: Vec<u8>,
    parts: Vec<Kept>,
    /// Every record that was ever in it.
    records: BTreeMap<u64, Vec<u8>>,
}

fn bus(path: &Path, seed: u64) {
    let clock = clock();
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    let store = Store::<Bus>::open(options, clock.clone(), None).unwrap();
    let mut rng = Rng::new(seed);
    while store.head() < Seq(70) {
        let command = bus_command(&mut rng, store.head(), &relayed(&store), START);
        let _ = store.submit(command).unwrap().wait();
        clock.advance(rng.below(2_000));
    }
    store.close();
}

fn agent(path: &Path) {
    let options = OpenOptions::shared(Location::File(path.to_owned()));
    let store = Store::<Agent>::open(options, clock(), None).unwrap();
    agent_history(START, &mut |command| {
        store.submit(command).unwrap().wait().unwrap().reply
    });
    store.close();
}

fn compact<D: Domain>(path: &Path) {
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    let store = Store::<D>::open(options, clock(), None).unwrap();
    let until = Seq(store.head().0 * 2 / 3);
    let cut = Cut { until, ..Cut::ALL };
    let done = store.compact(cut, std::time::Duration::from_secs(30));
    assert!(done.unwrap().wait().unwrap().records > 0);
    store.close();
}

fn sound_stores(dir: &Path) -> Vec<Sound> {
    let mut stores = vec![];
    for (kind, name) in [(StoreKind::Bus, "bus"), (StoreKind::Agent, "agent")] {
        let path = dir.join(format!("{name}.redb"));
        match kind {
            StoreKind::Bus => bus(&path, 7),
            StoreKind::Agent => agent(&path),
        }
        let parts = parts_of(&path).unwrap();
        let records = frames(&parts);
        let sound = |name, parts| Sound {
            kind,
            name,
            file: fs::read(&path).unwrap(),
            parts,
            records: records.clone(),
        };
        stores.push(sound(name, parts));
        match kind {
            StoreKind::Bus => compact::<Bus>(&path),
            StoreKind::Agent => compact::<Agent>(&path),
        }
        let parts = parts_of(&path).unwrap();
        let name = match kind {
            StoreKind::Bus => "compacted bus",
            StoreKind::Agent => "compacted agent",
        };
        stores.push(sound(name, parts));
    }
    stores
}

fn contains(file: &[u8], piece: &[u8]) -> bool {
    // Frames begin with the same four bytes, which are rare elsewhere.
    (0..file.len().saturating_sub(piece.len() - 1))
        .filter(|at| file[*at] == piece[0])
        .any(|at| file[at..].starts_with(piece))
}

/// Where a test works.
struct Bench {
    _dir: tempfile::TempDir,
    damaged: PathBuf,
    out: PathBuf,
    /// Repairs that lost something, or nothing, and files of which nothing could be made.
    counts: [usize; 3],
}

impl Bench {
    fn new() -> Bench {
        static QUIET: std::sync::Once = std::sync::Once::new();
        QUIET.call_once(interlink::store::quiet_engine_panics);
        let dir = tempfile::tempdir().unwrap();
        Bench {
            damaged: dir.path().join("damaged.redb"),
            out: dir.path().join("out.redb"),
            _dir: dir,
            counts: [0; 3],
        }
    }

    /// Judges what the two make of a file.
    fn judge(&mut self, sound: &Sound, file: &[u8], what: &str) {
        let what = format!("{}: {what}", sound.name);
        fs::write(&self.damaged, file).unwrap();
        let proof = verified(&self.damaged, sound.kind);
        let seen = parts_of(&self.damaged);
        assert_eq!(
            fs::read(&self.damaged).unwrap(),
            file,
            "{what}: reading changed it"
        );
        if let (Ok(report), Ok(seen)) = (&proof, &seen) {
            // What was once the whole truth is all that may pass.
            for (seq, frame) in frames(seen) {
                assert_eq!(
                    sound.records.get(&seq),
                    Some(&frame),
                    "{what}: record {seq}"
                );
            }
            let same = |a: &[Kept], b: &[Kept]| {
                let of = |parts: &[Kept]| -> BTreeSet<Kept> {
                    let counts = |p: &&Kept| matches!(p, Kept::Row(..) | Kept::Body(..));
                    parts.iter().filter(counts).cloned().collect()
                };
                of(a) == of(b)
            };
            let newest = frames(seen).keys().next_back() == frames(&sound.parts).keys().next_back();
            let compacted = frames(seen).len() == frames(&sound.parts).len();
            assert!(
                same(seen, &sound.parts) || report.unbuilt > 0 || !newest || !compacted,
                "{what}: verify sees nothing"
            );
        }
        let report = match repaired(&self.damaged, &self.out) {
            Ok(report) => report,
            Err(reason) => {
                assert!(!self.out.exists(), "{what}");
                let any = sound.records.values().any(|frame| contains(file, frame));
                assert!(!any, "{what}: {reason}");
                self.counts[2] += 1;
                return;
            }
        };
        assert_eq!(
            fs::read(&self.damaged).unwrap(),
            file,
            "{what}: repair changed it"
        );
        verified(&self.out, sound.kind).unwrap_or_else(|e| panic!("{what}: {e}"));
        let lost = |seq: u64| {
            let mut spans = report.missing.iter();
            spans.any(|(from, to)| (from.0..=to.0).contains(&seq))
        };
        for (seq, frame) in &sound.records {
            assert!(
                !(lost(*seq) && contains(file, frame)),
                "{what}: record {seq} was there; {report:?}"
            );
        }
        // What was found is used, or said not to be.
        let new = frames(&parts_of(&self.out).unwrap());
        let head = *sound.records.keys().next_back().unwrap();
        // Behind them stands what the repair added.
        let end = report.head.0 - report.added;
        for (seq, frame) in new.iter().filter(|(seq, _)| **seq <= end) {
            assert_eq!(sound.records.get(seq), Some(frame), "{what}: record {seq}");
        }
        if report.is_complete() && proof.is_ok() {
            assert!(report.head.0 <= head, "{what}: {report:?}");
        }
        self.counts[usize::from(!report.is_complete())] += 1;
    }
}

#[test]
fn whatever_happens_to_the_bytes_is_noticed_and_every_whole_record_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(seed());
    for sound in sound_stores(dir.path()) {
        let mut bench = Bench::new();
        bench.judge(&sound, &sound.file, "nothing");
        assert_eq!(bench.counts, [1, 0, 0], "{}", sound.name);
        let used: Vec<usize> = (0..sound.file.len())
            .filter(|at| sound.file[*at] != 0)
            .collect();
        let step = if long() { 61 } else { used.len() / 60 };
        println!(
            "{}: {} bytes, {} used",
            sound.name,
            sound.file.len(),
            used.len()
        );
        let start = rng.index(step);
        for at in used.iter().skip(start).step_by(step).copied() {
            let mut file = sound.file.clone();
            let mask = [1 << rng.below(8), 0xFF, 0x80][rng.index(3)];
            file[at] ^= mask;
            bench.judge(&sound, &file, &format!("byte {at} xor {mask:#x}"));
        }
        let rounds = if long() { 400 } else { 24 };
        for round in 0..rounds {
            let mut file = sound.file.clone();
            let at = used[rng.index(used.len())];
            let len = [16, 300, 4096, 20_000][rng.index(4)].min(file.len() - at);
            let what = match round % 3 {
                0 => {
                    file[at..at + len].fill(0);
                    format!("{len} bytes at {at} zeroed")
                }
                1 => {
                    rng.fill(&mut file[at..at + len]);
                    format!("{len} bytes at {at} overwritten")
                }
                _ => {
                    file.truncate(at);
                    format!("cut off at {at}")
                }
            };
            bench.judge(&sound, &file, &what);
        }
        // Pages that exchanged their places.
        for _ in 0..rounds / 4 {
            let mut file = sound.file.clone();
            let mut page = || used[rng.index(used.len())] / 4096 * 4096;
            let (a, b) = (page(), page());
            if a != b && a.max(b) + 4096 <= file.len() {
                for i in 0..4096 {
                    file.swap(a + i, b + i);
                }
                bench.judge(&sound, &file, &format!("pages at {a} and {b} exchanged"));
            }
        }
        println!(
            "{}: whole, with losses, nothing: {:?}",
            sound.name, bench.counts
        );
        assert!(
            bench.counts[0] > 0 && bench.counts[1] > 0,
            "{:?}",
            bench.counts
        );
    }
}

/// A store with some parts changed.
fn edited(sound: &Sound, dir: &Path, edit: impl FnOnce(&mut Vec<Kept>)) -> PathBuf {
    let mut parts = sound.parts.clone();
    edit(&mut parts);
    let path = dir.join("edited.redb");
    let _ = fs::remove_file(&path);
    write(&parts, sound.kind, &path);
    path
}

fn is_record(part: &Kept) -> bool {
    matches!(part, Kept::Record(..))
}

/// The place of the n-th part of a sort.
fn nth(parts: &[Kept], is: impl Fn(&Kept) -> bool, n: usize) -> usize {
    let mut places = (0..parts.len()).filter(|at| is(&parts[*at]));
    places.nth(n).unwrap()
}

#[test]
fn frames_that_are_exchanged_are_named_and_put_right() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.redb");
    for sound in sound_stores(dir.path()) {
        let path = edited(&sound, dir.path(), |parts| {
            let (a, b) = (nth(parts, is_record, 1), nth(parts, is_record, 4));
            let (Kept::Record(x, first), Kept::Record(y, second)) =
                (parts[a].clone(), parts[b].clone())
            else {
                panic!()
            };
            parts[a] = Kept::Record(x, second);
            parts[b] = Kept::Record(y, first);
        });
        let difference = verified(&path, sound.kind).unwrap_err();
        let named = frames(&sound.parts).keys().nth(1).copied().unwrap();
        assert!(
            difference.contains(&format!("record {named}")),
            "{difference}"
        );
        let report = repaired(&path, &out).unwrap();
        assert!(report.is_complete(), "{}: {report:?}", sound.name);
        assert_eq!(frames(&parts_of(&out).unwrap()), frames(&sound.parts));
    }
}

#[test]
fn rows_that_are_gone_or_edited_are_named_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.redb");
    let is_row = |part: &Kept| matches!(part, Kept::Row(..));
    for sound in sound_stores(dir.path()) {
        let rows = sound.parts.iter().filter(|part| is_row(part)).count();
        for n in 0..rows {
            for gone in [true, false] {
                let mut name = "";
                let path = edited(&sound, dir.path(), |parts| {
                    let at = nth(parts, is_row, n);
                    let Kept::Row(table, key, mut value) = parts.remove(at) else {
                        panic!()
                    };
                    name = table.name();
                    if !gone {
                        value.push(0);
                        parts.push(Kept::Row(table, key, value));
                    }
                });
                let difference = verified(&path, sound.kind).unwrap_err();
                assert!(
                    difference.starts_with(&format!("table {name},")),
                    "{difference}"
                );
                if n % 7 == 0 {
                    let report = repaired(&path, &out).unwrap();
                    assert!(report.is_complete(), "{}: {report:?}", sound.name);
                    assert_eq!(report.rows_changed, 1, "{}", sound.name);
                    let same = |part: &&Kept| !matches!(part, Kept::Meta(..));
                    let (new, old) = (parts_of(&out).unwrap(), &sound.parts);
                    assert!(new.iter().filter(same).eq(old.iter().filter(same)));
                }
            }
        }
    }
}

#[test]
fn a_record_that_is_gone_leaves_a_gap_that_is_folded_away() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.redb");
    for sound in sound_stores(dir.path()) {
        let all: Vec<u64> = frames(&sound.parts).into_keys().collect();
        for n in [0, 2, all.len() / 2, all.len() - 2] {
            let path = edited(&sound, dir.path(), |parts| {
                parts.remove(nth(parts, is_record, n));
            });
            let difference = verified(&path, sound.kind).unwrap_err();
            println!("{} without {}: {difference}", sound.name, all[n]);
            let report = repaired(&path, &out).unwrap();
            assert_eq!(
                report.missing,
                [(Seq(all[n]), Seq(all[n]))],
                "{}",
                sound.name
            );
            assert!(report.base >= Seq(all[n]));
            let last = report.left_out.last().map_or(all[n], |record| record.seq.0);
            assert_eq!(report.base.0, last.max(all[n]));
            let store = Reader::open(&out, Mode::Exclusive).unwrap();
            assert!(store.snapshot().unwrap().head().unwrap().0 >= *all.last().unwrap());
        }
        // The newest ones: their positions are not used again where something speaks of them.
        let path = edited(&sound, dir.path(), |parts| {
            parts.remove(nth(parts, is_record, all.len() - 1));
        });
        assert!(verified(&path, sound.kind).is_err(), "{}", sound.name);
        repaired(&path, &out).unwrap();
    }
}

/// How many bodies go with a lost one: itself, and all of the relayed session where it said who
/// somebody is there.
fn session_of(sound: &Sound, dir: &Path, lost: Seq) -> usize {
    if sound.kind != StoreKind::Bus {
        return 1;
    }
    let path = dir.join("sound.redb");
    fs::write(&path, &sound.file).unwrap();
    let reader = Reader::open(&path, Mode::Exclusive).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let (mut peers, mut messages) = (BTreeMap::new(), vec![]);
    scan_rows::<RelayPeerRow>(&snapshot, TableId::RelayPeers, &[], |key, row| {
        peers.insert(Seq::from_key(key).unwrap(), row.session);
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    scan_rows::<RelayMessageRow>(&snapshot, TableId::RelayMessages, &[], |_, row| {
        messages.extend((row.kind == RelayMessageKind::Sent).then_some(row.session));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    let Some(session) = peers.get(&lost) else {
        return 1;
    };
    let all = peers.values().chain(&messages);
    all.filter(|of| *of == session).count()
}

#[test]
fn bodies_that_are_gone_or_wrong_are_named_and_their_messages_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.redb");
    let is_body = |part: &Kept| matches!(part, Kept::Body(..));
    let mut ended = 0;
    for sound in sound_stores(dir.path()) {
        let bodies = sound.parts.iter().filter(|part| is_body(part)).count();
        assert!(bodies > 1, "{}", sound.name);
        for n in 0..bodies {
            for gone in [true, false] {
                let mut seq = 0;
                let path = edited(&sound, dir.path(), |parts| {
                    let at = nth(parts, is_body, n);
                    let Kept::Body(position, mut bytes) = parts.remove(at) else {
                        panic!()
                    };
                    seq = position;
                    if !gone {
                        bytes[0] ^= 1;
                        parts.push(Kept::Body(position, bytes));
                    }
                });
                let difference = verified(&path, sound.kind).unwrap_err();
                assert!(
                    difference.starts_with(&format!("body {seq} is ")),
                    "{difference}"
                );
                let report = repaired(&path, &out).unwrap();
                assert_eq!(report.bodies_lost, [Seq(seq)], "{}", sound.name);
                let with_it = session_of(&sound, dir.path(), Seq(seq));
                assert_eq!(report.bodies as usize, bodies - with_it, "{}", sound.name);
                assert_eq!((report.missing, report.added), (vec![], 1));
                ended += usize::from(with_it > 1);
                verified(&out, sound.kind).unwrap();
            }
        }
        let path = edited(&sound, dir.path(), |parts| {
            parts.push(Kept::Body(1_000, vec![1, 2, 3]));
        });
        let difference = verified(&path, sound.kind).unwrap_err();
        assert_eq!(difference, "body 1000 belongs to nothing");
    }
    assert!(ended > 0, "no session was lost with one of its peers");
}

#[test]
fn base_rows_that_are_wrong_or_gone_are_noticed_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.redb");
    let is_base = |part: &Kept| matches!(part, Kept::Base(..));
    for sound in sound_stores(dir.path()) {
        if !sound.parts.iter().any(is_base) {
            continue;
        }
        // Without the note of the compaction point the base rows mean nothing.
        let path = edited(&sound, dir.path(), |parts| {
            parts.retain(|part| !is_base(part));
        });
        assert!(verified(&path, sound.kind).is_err(), "{}", sound.name);
        let report = repaired(&path, &out).unwrap();
        assert_eq!(report.base_found, BaseFound::Whole);
        assert!(report.rows_changed > 0 || !report.left_out.is_empty());
        // A row that does not decode.
        let path = edited(&sound, dir.path(), |parts| {
            for part in parts.iter_mut() {
                if let Kept::Base(_, _, value) = part {
                    value.truncate(value.len() / 2);
                }
            }
        });
        assert!(verified(&path, sound.kind).is_err(), "{}", sound.name);
        let report = repaired(&path, &out).unwrap();
        assert!(
            matches!(report.base_found, BaseFound::Lost { .. }),
            "{}: {:?}",
            sound.name,
            report.base_found
        );
        assert!(!report.is_complete());
    }
}

#[test]
fn what_is_no_store_is_refused_in_words() {
    let bench = Bench::new();
    for file in [
        vec![],
        vec![0; 10_000],
        b"ilg\x01".to_vec(),
        b"hello".repeat(2_000),
    ] {
        fs::write(&bench.damaged, file).unwrap();
        let reason = repaired(&bench.damaged, &bench.out).unwrap_err();
        assert!(
            reason.contains("nothing in it can be recognized"),
            "{reason}"
        );
        assert!(verified(&bench.damaged, StoreKind::Bus).is_err());
    }
}
