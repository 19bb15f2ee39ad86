//! Who is on the presence board, who gives way on a full one, and which announcements are stale.
//!
//! Giving way must not cost more on a full board than on an empty one: anybody may announce, and
//! with each change one session leaves. So the order by age is kept in memory beside the queues
//! and follows the same records; nothing is scanned.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::{BusDecision, BusRefusal, BusReply, QueueIndex, done, queue_name_ok};
use crate::event::bus::{
    Announced, BusEvent, PresenceExpired, PresenceForgotten, PresenceSigned, SignedAt, Unregistered,
};
use crate::types::limit::{MAX_ANNOUNCEMENT_BYTES, MAX_PRESENCE_TIMES, MAX_ROSTER_BYTES};
use crate::types::time::UnixMillis;

/// Board keys in one record, so that it stays within
/// [`MAX_EVENT_BYTES`](crate::types::limit::MAX_EVENT_BYTES).
pub(super) const ENTRIES_PER_RECORD: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Seat {
    bytes: usize,
    last_seen: UnixMillis,
}

/// The board in memory: sizes and order, no texts.
#[derive(Debug, Default)]
pub(super) struct PresenceIndex {
    seats: BTreeMap<Arc<str>, Seat>,
    by_age: BTreeSet<(UnixMillis, Arc<str>)>,
    bytes: usize,
    times: HashMap<Arc<str>, UnixMillis>,
    by_time: BTreeSet<(UnixMillis, Arc<str>)>,
}

impl PresenceIndex {
    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn has(&self, entry: &str) -> bool {
        self.seats.contains_key(entry)
    }

    fn bytes_of(&self, entry: &str) -> usize {
        self.seats.get(entry).map_or(0, |seat| seat.bytes)
    }

    pub(super) fn announce(&mut self, entry: &str, bytes: usize, last_seen: UnixMillis) {
        self.leave(entry);
        let name: Arc<str> = Arc::from(entry);
        self.bytes += bytes;
        self.by_age.insert((last_seen, Arc::clone(&name)));
        self.seats.insert(name, Seat { bytes, last_seen });
    }

    pub(super) fn seen(&mut self, entry: &str, at: UnixMillis) {
        let Some((name, seat)) = self.seats.get_key_value(entry) else {
            return;
        };
        if at > seat.last_seen {
            let (name, bytes) = (Arc::clone(name), seat.bytes);
            self.announce(&name, bytes, at);
        }
    }

    pub(super) fn leave(&mut self, entry: &str) {
        if let Some((name, seat)) = self.seats.remove_entry(entry) {
            self.bytes = self.bytes.saturating_sub(seat.bytes);
            self.by_age.remove(&(seat.last_seen, name));
        }
    }

    /// Newest signed time that was accepted of a session, as far as it is remembered.
    fn time(&self, entry: &str) -> Option<UnixMillis> {
        self.times.get(entry).copied()
    }

    pub(super) fn signed(&mut self, entry: &str, ts: UnixMillis) {
        let newest = self.time(entry).map_or(ts, |known| known.max(ts));
        self.forget(entry);
        let name: Arc<str> = Arc::from(entry);
        self.by_time.insert((newest, Arc::clone(&name)));
        self.times.insert(name, newest);
    }

    pub(super) fn forget(&mut self, entry: &str) {
        if let Some((name, ts)) = self.times.remove_entry(entry) {
            self.by_time.remove(&(ts, name));
        }
    }

    /// The sessions of a key, in no particular order of age.
    fn of_key<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a Arc<str>, UnixMillis)> {
        let sessions = format!("{key}#");
        // The character after `#` ends the range of `key#...`.
        let end = format!("{key}$");
        let range = (
            Bound::Included(Arc::<str>::from(sessions)),
            Bound::Excluded(Arc::<str>::from(end)),
        );
        self.seats
            .get_key_value(key)
            .into_iter()
            .chain(self.seats.range::<Arc<str>, _>(range))
            .map(|(name, seat)| (name, seat.last_seen))
    }

    /// Adds to `leaving` the sessions that were heard of longest ago, never `entry` itself: at
    /// least `count` of them, and announcements of at least `bytes`.
    fn longest_away(&self, entry: &str, count: usize, bytes: usize, leaving: &mut Vec<String>) {
        let before = leaving.len();
        let mut freed = 0usize;
        for (_, away) in &self.by_age {
            let (first, new) = leaving.split_at(before);
            if new.len() >= count && freed >= bytes {
                break;
            }
            if &**away != entry && !first.iter().any(|gone| **gone == **away) {
                freed += self.bytes_of(away);
                leaving.push(away.to_string());
            }
        }
    }
}

/// Bounds of the board.
pub(super) struct BoardLimits {
    /// Sessions in all.
    pub(super) entries: usize,
    /// Sessions of one key; `None` where keys are not checked, because then they cost nothing.
    pub(super) per_key: Option<usize>,
}

pub(super) fn announce(
    index: &QueueIndex,
    entry: &str,
    announcement: &[u8],
    limits: &BoardLimits,
) -> Result<Vec<BusEvent>, BusRefusal> {
    let board = &index.presence;
    if announcement.len() > MAX_ANNOUNCEMENT_BYTES {
        return Err(BusRefusal::AnnouncementTooLarge {
            len: announcement.len(),
        });
    }
    if !queue_name_ok(entry) {
        return Err(BusRefusal::QueueName);
    }
    let is_new = !board.has(entry);
    let mut leaving = match limits.per_key {
        Some(max) if is_new => over_per_key(board, entry, max),
        _ => vec![],
    };
    let entries = match is_new {
        true => (board.len() + 1 - leaving.len()).saturating_sub(limits.entries.max(1)),
        false => 0,
    };
    let freed: usize = leaving.iter().map(|away| board.bytes_of(away)).sum();
    let others = board.bytes.saturating_sub(board.bytes_of(entry) + freed);
    let bytes = (others + announcement.len()).saturating_sub(MAX_ROSTER_BYTES);
    if entries > 0 || bytes > 0 {
        board.longest_away(entry, entries, bytes, &mut leaving);
    }
    let mut events = presence_expired(&leaving);
    events.push(BusEvent::Announced(Announced {
        entry: entry.to_owned(),
        announcement: announcement.to_vec(),
    }));
    Ok(events)
}

/// The key's own sessions that must leave so that one more fits, longest away first.
fn over_per_key(board: &PresenceIndex, entry: &str, max: usize) -> Vec<String> {
    let key = entry.split('#').next().unwrap_or_default();
    let mut own: Vec<(UnixMillis, &Arc<str>)> = board
        .of_key(key)
        .map(|(name, last_seen)| (last_seen, name))
        .collect();
    let over = (own.len() + 1).saturating_sub(max.max(1));
    if over == 0 {
        return vec![];
    }
    own.sort_unstable();
    own.into_iter()
        .take(over)
        .map(|(_, name)| name.to_string())
        .collect()
}

/// Refuses what was signed no later than something of the session that was accepted before;
/// otherwise the record of its time.
fn newer(board: &PresenceIndex, entry: &str, ts: UnixMillis) -> Result<Vec<BusEvent>, BusRefusal> {
    if let Some(newest) = board.time(entry).filter(|newest| ts <= *newest) {
        return Err(BusRefusal::NotNewer { ts, newest });
    }
    let mut events = vec![];
    if board.time(entry).is_none() {
        let over = (board.times.len() + 1).saturating_sub(MAX_PRESENCE_TIMES);
        let oldest: Vec<String> = board
            .by_time
            .iter()
            .take(over)
            .map(|(_, name)| name.to_string())
            .collect();
        events.extend(presence_forgotten(&oldest));
    }
    events.push(BusEvent::PresenceSigned(PresenceSigned {
        entries: vec![SignedAt {
            entry: entry.to_owned(),
            ts,
        }],
    }));
    Ok(events)
}

pub(super) fn announce_signed(
    index: &QueueIndex,
    entry: &str,
    announcement: &[u8],
    limits: &BoardLimits,
    ts: UnixMillis,
) -> Result<Vec<BusEvent>, BusRefusal> {
    let mut events = newer(&index.presence, entry, ts)?;
    events.extend(announce(index, entry, announcement, limits)?);
    Ok(events)
}

pub(super) fn unregister(index: &QueueIndex, entry: &str) -> Vec<BusEvent> {
    if index.presence.has(entry) {
        vec![BusEvent::Unregistered(Unregistered {
            entry: entry.to_owned(),
        })]
    } else {
        vec![]
    }
}

pub(super) fn unregister_signed(
    index: &QueueIndex,
    entry: &str,
    ts: UnixMillis,
) -> Result<Vec<BusEvent>, BusRefusal> {
    if !queue_name_ok(entry) {
        return Err(BusRefusal::QueueName);
    }
    // Also of a session that is not there: what it announced before must not bring it back.
    let mut events = newer(&index.presence, entry, ts)?;
    events.extend(unregister(index, entry));
    Ok(events)
}

/// The times of heartbeats that were only held in memory.
pub(super) fn signed(index: &QueueIndex, entries: &[SignedAt]) -> BusDecision {
    let board = &index.presence;
    let news: Vec<SignedAt> = entries
        .iter()
        .filter(|e| board.has(&e.entry) && board.time(&e.entry).is_none_or(|known| e.ts > known))
        .cloned()
        .collect();
    let events = news
        .chunks(ENTRIES_PER_RECORD)
        .map(|entries| {
            BusEvent::PresenceSigned(PresenceSigned {
                entries: entries.to_vec(),
            })
        })
        .collect();
    done(events, BusReply::Done)
}

pub(super) fn forget_times(index: &QueueIndex, before: UnixMillis) -> BusDecision {
    let entries: Vec<String> = index
        .presence
        .by_time
        .iter()
        .take_while(|(ts, _)| *ts <= before)
        .map(|(_, name)| name.to_string())
        .collect();
    let count = entries.len();
    done(presence_forgotten(&entries), BusReply::Expired { count })
}

pub(super) fn expire(index: &QueueIndex, before: UnixMillis) -> BusDecision {
    let entries: Vec<String> = index
        .presence
        .by_age
        .iter()
        .take_while(|(last_seen, _)| *last_seen <= before)
        .map(|(_, name)| name.to_string())
        .collect();
    let count = entries.len();
    done(presence_expired(&entries), BusReply::Expired { count })
}

/// Takes sessions off the board that should not have been put there.
pub(super) fn remove(index: &QueueIndex, entries: &[String]) -> BusDecision {
    let there: Vec<String> = entries
        .iter()
        .filter(|entry| index.presence.has(entry))
        .cloned()
        .collect();
    let count = there.len();
    done(presence_expired(&there), BusReply::Expired { count })
}

fn presence_expired(entries: &[String]) -> Vec<BusEvent> {
    entries
        .chunks(ENTRIES_PER_RECORD)
        .map(|entries| {
            BusEvent::PresenceExpired(PresenceExpired {
                entries: entries.to_vec(),
            })
        })
        .collect()
}

fn presence_forgotten(entries: &[String]) -> Vec<BusEvent> {
    entries
        .chunks(ENTRIES_PER_RECORD)
        .map(|entries| {
            BusEvent::PresenceForgotten(PresenceForgotten {
                entries: entries.to_vec(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Bus, BusCommand};
    use super::*;
    use crate::domain::tables::{TableError, TableId, TableReader, Visit};
    use crate::domain::{Domain, View};
    use crate::event::Recorded;
    use crate::types::seq::Seq;

    /// Tables that nobody may read.
    struct Shut;

    impl TableReader for Shut {
        fn get(&self, table: TableId, _: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
            panic!("{} is read", table.name())
        }

        fn scan(
            &self,
            table: TableId,
            _: Bound<&[u8]>,
            _: Bound<&[u8]>,
            _: Visit<'_>,
        ) -> Result<(), TableError> {
            panic!("{} is scanned", table.name())
        }
    }

    fn run(index: &mut QueueIndex, at: u64, command: &BusCommand) -> Result<usize, BusRefusal> {
        let view = View {
            tables: &Shut,
            index,
            next: Seq(1),
        };
        let decision = Bus::decide(&view, command).unwrap()?;
        let events = decision.events.len();
        for new in decision.events {
            let record = Recorded {
                seq: Seq(1),
                at: UnixMillis(at),
                event: new.event,
            };
            Bus::index(index, &record);
        }
        Ok(events)
    }

    fn announce(entry: &str, len: usize, max_entries: usize) -> BusCommand {
        BusCommand::Announce {
            entry: entry.to_owned(),
            announcement: Arc::from(vec![b'x'; len]),
            max_entries,
        }
    }

    #[test]
    fn on_a_full_board_one_leaves_for_each_that_comes_and_nothing_is_scanned() {
        let mut index = QueueIndex::default();
        for n in 0..100u64 {
            run(&mut index, n, &announce(&format!("k{n}"), 10, 100)).unwrap();
        }
        // A heartbeat counts: the first is not the longest away any more.
        let seen = crate::event::bus::SeenAt {
            entry: "k0".into(),
            at: UnixMillis(1000),
        };
        run(
            &mut index,
            1000,
            &BusCommand::Seen {
                entries: vec![seen],
            },
        )
        .unwrap();
        for n in 100..150u64 {
            let events = run(&mut index, n, &announce(&format!("k{n}"), 10, 100)).unwrap();
            assert_eq!(events, 2);
        }
        assert_eq!(index.roster_len(), 100);
        assert!(index.on_roster("k0") && !index.on_roster("k50") && index.on_roster("k51"));
        // A change pushes nobody out.
        assert_eq!(run(&mut index, 2000, &announce("k51", 20, 100)), Ok(1));
        assert_eq!(index.roster_len(), 100);
    }

    #[test]
    fn announcements_of_every_length_fit_the_board() {
        let mut index = QueueIndex::default();
        let len = MAX_ANNOUNCEMENT_BYTES;
        let fit = MAX_ROSTER_BYTES / len;
        for n in 0..fit + 3 {
            run(&mut index, n as u64, &announce(&format!("k{n}"), len, 4096)).unwrap();
            assert!(index.presence.bytes <= MAX_ROSTER_BYTES);
        }
        assert_eq!(index.roster_len(), fit);
        assert_eq!(
            run(&mut index, 0, &announce("k", len + 1, 4096)),
            Err(BusRefusal::AnnouncementTooLarge { len: len + 1 })
        );
    }

    #[test]
    fn remembered_times_are_bounded_and_the_oldest_are_forgotten() {
        let mut index = QueueIndex::default();
        let leave = |n: usize, ts: u64| BusCommand::UnregisterSigned {
            entry: format!("k{n}"),
            ts: UnixMillis(ts),
        };
        for n in 0..MAX_PRESENCE_TIMES + 5 {
            run(&mut index, 0, &leave(n, 10 + n as u64)).unwrap();
        }
        assert_eq!(index.presence.times.len(), MAX_PRESENCE_TIMES);
        assert_eq!(index.presence.by_time.len(), MAX_PRESENCE_TIMES);
        assert_eq!(index.presence.time("k4"), None);
        let last = MAX_PRESENCE_TIMES + 4;
        let newest = UnixMillis(10 + last as u64);
        let ts = newest;
        assert_eq!(
            run(&mut index, 0, &leave(last, ts.0)),
            Err(BusRefusal::NotNewer { ts, newest })
        );
        let before = newest.minus(1);
        run(&mut index, 0, &BusCommand::ForgetSigned { before }).unwrap();
        assert_eq!(index.presence.times.len(), 1);
    }
}
