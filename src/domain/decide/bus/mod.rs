//! Decisions of a bus.

mod command;
mod index;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

pub use command::{
    BusCommand, BusRefusal, BusReply, DroppedItem, Overflow, QueueLimits, queue_name_ok,
};
pub use index::{Item, Queue, QueueIndex};

use crate::domain::projection::Projection;
use crate::domain::projection::bus::{Drops, Pending, PendingRow, Roster, RosterRow};
use crate::domain::tables::{TableError, TableId, TableReader, decode_row, scan_rows};
use crate::domain::{Decision, Domain, LiveBody, NewEvent, View};
use crate::event::Recorded;
use crate::event::bus::{
    Acked, Announced, BodyLost, BusEvent, DropReason, Dropped, Enqueued, PresenceExpired, Seen,
    SeenAt, Unregistered,
};
use crate::event::kind::StoreKind;
use crate::types::limit::{
    MAX_ACKS_PER_RECORD, MAX_ANNOUNCEMENT_BYTES, MAX_HTTP_BODY_BYTES, MAX_ROSTER_BYTES,
};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Board keys in one record, so that it stays within
/// [`MAX_EVENT_BYTES`](crate::types::limit::MAX_EVENT_BYTES).
const ENTRIES_PER_RECORD: usize = 256;

/// The domain of a broker.
pub struct Bus;

type BusDecision = Result<Result<Decision<BusEvent, BusReply>, BusRefusal>, TableError>;

fn done(events: Vec<BusEvent>, reply: BusReply) -> BusDecision {
    Ok(Ok(Decision {
        events: events.into_iter().map(NewEvent::from).collect(),
        reply,
    }))
}

impl Domain for Bus {
    type Event = BusEvent;
    type Command = BusCommand;
    type Reply = BusReply;
    type Refusal = BusRefusal;
    type Index = QueueIndex;

    const KIND: StoreKind = StoreKind::Bus;

    fn projections() -> &'static [&'static dyn Projection<BusEvent>] {
        &[&Pending, &Drops, &Roster]
    }

    fn decide(view: &View<'_, Self>, command: &BusCommand) -> BusDecision {
        match command {
            BusCommand::Enqueue {
                to,
                payload,
                sha256,
                limits,
            } => Ok(enqueue(view, to, payload, sha256, limits)),
            BusCommand::Ack { me, seqs } => ack(view.index, me, seqs),
            BusCommand::Announce {
                entry,
                announcement,
                max_entries,
            } => announce(view, entry, announcement, *max_entries),
            BusCommand::Seen { entries } => {
                let known: Vec<SeenAt> = entries
                    .iter()
                    .filter(|seen| view.index.on_roster(&seen.entry))
                    .cloned()
                    .collect();
                let events = known
                    .chunks(ENTRIES_PER_RECORD)
                    .map(|entries| {
                        BusEvent::Seen(Seen {
                            entries: entries.to_vec(),
                        })
                    })
                    .collect();
                done(events, BusReply::Done)
            }
            BusCommand::Unregister { entry } => {
                let events = if view.index.on_roster(entry) {
                    vec![BusEvent::Unregistered(Unregistered {
                        entry: entry.clone(),
                    })]
                } else {
                    vec![]
                };
                done(events, BusReply::Done)
            }
            BusCommand::ExpirePresence { before } => expire_presence(view.tables, *before),
            BusCommand::ExpireMessages { before, max } => {
                expire_messages(view.index, *before, *max)
            }
            BusCommand::LoseBody { seq } => {
                let events = match view.index.recipient(*seq) {
                    Some(_) => vec![BusEvent::BodyLost(BodyLost { message: *seq })],
                    None => vec![],
                };
                done(events, BusReply::Done)
            }
        }
    }

    fn weight(command: &BusCommand) -> usize {
        match command {
            BusCommand::Enqueue { payload, .. } => payload.len(),
            BusCommand::Announce { announcement, .. } => announcement.len(),
            _ => 0,
        }
    }

    fn build_index(tables: &dyn TableReader) -> Result<QueueIndex, TableError> {
        let mut index = QueueIndex::default();
        scan_rows::<PendingRow>(tables, TableId::Pending, &[], |key, row| {
            let seq = Seq::from_key(key).ok_or(TableError::Key {
                table: TableId::Pending.name(),
            })?;
            let item = Item {
                at: row.at,
                len: row.len,
                sha256: row.sha256,
            };
            index.insert(seq, &row.to, item);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut malformed = false;
        scan_rows::<RosterRow>(tables, TableId::Roster, &[], |key, row| {
            match std::str::from_utf8(key) {
                Ok(entry) => index.announce(entry, row.announcement.len()),
                Err(_) => malformed = true,
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if malformed {
            return Err(TableError::Key {
                table: TableId::Roster.name(),
            });
        }
        Ok(index)
    }

    fn index(index: &mut QueueIndex, record: &Recorded<BusEvent>) {
        match &record.event {
            BusEvent::Enqueued(e) => {
                index.insert(
                    record.seq,
                    &e.to,
                    Item {
                        at: record.at,
                        len: e.len,
                        sha256: e.sha256,
                    },
                );
            }
            BusEvent::Acked(e) => e.seqs.iter().for_each(|seq| index.remove(*seq)),
            BusEvent::Dropped(e) => e.seqs.iter().for_each(|seq| index.remove(*seq)),
            BusEvent::BodyLost(e) => index.remove(e.message),
            BusEvent::Announced(e) => index.announce(&e.entry, e.announcement.len()),
            BusEvent::Seen(_) => {}
            BusEvent::Unregistered(e) => index.leave(&e.entry),
            BusEvent::PresenceExpired(e) => e.entries.iter().for_each(|entry| index.leave(entry)),
        }
    }

    fn is_mergeable(event: &BusEvent) -> bool {
        // An ack touches nothing but the row of a message that was durable before the batch.
        matches!(event, BusEvent::Acked(_))
    }

    fn merge(into: &mut BusEvent, next: BusEvent) -> Result<(), BusEvent> {
        match (into, next) {
            (BusEvent::Acked(a), BusEvent::Acked(b))
                if a.seqs.len() + b.seqs.len() <= MAX_ACKS_PER_RECORD =>
            {
                a.seqs.extend(b.seqs);
                Ok(())
            }
            (_, next) => Err(next),
        }
    }

    fn releases(event: &BusEvent) -> &[Seq] {
        match event {
            BusEvent::Acked(e) => &e.seqs,
            BusEvent::Dropped(e) => &e.seqs,
            BusEvent::BodyLost(e) => std::slice::from_ref(&e.message),
            _ => &[],
        }
    }

    fn live_bodies(
        tables: &dyn TableReader,
        visit: &mut dyn FnMut(LiveBody),
    ) -> Result<(), TableError> {
        scan_rows::<PendingRow>(tables, TableId::Pending, &[], |key, row| {
            let seq = Seq::from_key(key).ok_or(TableError::Key {
                table: TableId::Pending.name(),
            })?;
            visit(LiveBody {
                seq,
                len: row.len,
                sha256: row.sha256,
            });
            Ok(ControlFlow::Continue(()))
        })
    }

    fn body_lost(seq: Seq) -> Option<BusEvent> {
        Some(BusEvent::BodyLost(BodyLost { message: seq }))
    }
}

fn enqueue(
    view: &View<'_, Bus>,
    to: &str,
    payload: &Arc<[u8]>,
    sha256: &[u8; 32],
    limits: &QueueLimits,
) -> Result<Decision<BusEvent, BusReply>, BusRefusal> {
    if !queue_name_ok(to) {
        return Err(BusRefusal::QueueName);
    }
    let max = limits
        .bytes
        .min(limits.store_bytes)
        .min(MAX_HTTP_BODY_BYTES as u64);
    let len = payload.len();
    let Some(len32) = u32::try_from(len).ok().filter(|_| len as u64 <= max) else {
        return Err(BusRefusal::PayloadTooLarge { len, max });
    };
    let index = view.index;
    let queue = index.queue(to);
    if let Some(seq) = queue.and_then(|q| q.find(sha256)) {
        let reply = BusReply::Enqueued {
            seq,
            duplicate: true,
            dropped: vec![],
        };
        return Ok(Decision {
            events: vec![],
            reply,
        });
    }
    if queue.is_none() && index.queue_count() >= limits.queues {
        return Err(BusRefusal::TooManyQueues {
            queues: index.queue_count(),
        });
    }
    let dropped = make_room(queue, len as u64, limits)?;
    let freed: u64 = dropped.iter().map(|(_, item)| u64::from(item.len)).sum();
    if index.bytes() - freed + len as u64 > limits.store_bytes {
        return Err(BusRefusal::StoreFull {
            bytes: index.bytes(),
        });
    }
    let mut events = Vec::with_capacity(2);
    let mut seq = view.next;
    // One large message may push out more small ones than a record holds.
    for dropped in dropped.chunks(MAX_ACKS_PER_RECORD) {
        let seqs = dropped.iter().map(|(seq, _)| *seq).collect();
        let reason = DropReason::Overflow;
        events.push(BusEvent::Dropped(Dropped { seqs, reason }).into());
        seq = seq.next();
    }
    let event = Enqueued {
        to: to.to_owned(),
        len: len32,
        sha256: *sha256,
    };
    events.push(NewEvent {
        event: BusEvent::Enqueued(event),
        body: Some(Arc::clone(payload)),
    });
    let dropped = dropped
        .into_iter()
        .map(|(seq, item)| DroppedItem { seq, at: item.at })
        .collect();
    Ok(Decision {
        events,
        reply: BusReply::Enqueued {
            seq,
            duplicate: false,
            dropped,
        },
    })
}

/// The oldest messages of a queue that must go so that one of `len` bytes fits.
fn make_room(
    queue: Option<&Queue>,
    len: u64,
    limits: &QueueLimits,
) -> Result<Vec<(Seq, Item)>, BusRefusal> {
    let Some(queue) = queue else {
        return Ok(vec![]);
    };
    let cap = limits.messages.max(1);
    let mut messages = queue.len();
    let mut bytes = queue.bytes();
    let fits = |messages: usize, bytes: u64| messages < cap && bytes + len <= limits.bytes;
    if fits(messages, bytes) {
        return Ok(vec![]);
    }
    if limits.overflow == Overflow::Refuse {
        return Err(BusRefusal::QueueFull { messages, bytes });
    }
    let mut dropped = vec![];
    for (seq, item) in queue.iter() {
        if fits(messages, bytes) {
            break;
        }
        messages -= 1;
        bytes -= u64::from(item.len);
        dropped.push((seq, *item));
    }
    Ok(dropped)
}

fn ack(index: &QueueIndex, me: &str, seqs: &[Seq]) -> BusDecision {
    let mut seqs = seqs.to_vec();
    seqs.sort_unstable();
    seqs.dedup();
    seqs.retain(|seq| index.recipient(*seq) == Some(me));
    seqs.truncate(MAX_ACKS_PER_RECORD);
    let acked = seqs.len();
    let events = match acked {
        0 => vec![],
        _ => vec![BusEvent::Acked(Acked { seqs })],
    };
    done(events, BusReply::Acked { acked })
}

fn announce(
    view: &View<'_, Bus>,
    entry: &str,
    announcement: &[u8],
    max_entries: usize,
) -> BusDecision {
    if announcement.len() > MAX_ANNOUNCEMENT_BYTES {
        return Ok(Err(BusRefusal::AnnouncementTooLarge {
            len: announcement.len(),
        }));
    }
    if !queue_name_ok(entry) {
        return Ok(Err(BusRefusal::QueueName));
    }
    let entries = match view.index.on_roster(entry) {
        true => 0,
        false => (view.index.roster_len() + 1).saturating_sub(max_entries.max(1)),
    };
    let others = view
        .index
        .roster_bytes()
        .saturating_sub(view.index.announced_bytes(entry));
    let bytes = (others + announcement.len()).saturating_sub(MAX_ROSTER_BYTES);
    let mut events = vec![];
    if entries > 0 || bytes > 0 {
        events = presence_expired(&longest_away(view, entry, entries, bytes)?);
    }
    events.push(BusEvent::Announced(Announced {
        entry: entry.to_owned(),
        announcement: announcement.to_vec(),
    }));
    done(events, BusReply::Done)
}

/// The board keys other than `entry` that were heard of longest ago: at least `count`, and
/// announcements of at least `bytes`.
fn longest_away(
    view: &View<'_, Bus>,
    entry: &str,
    count: usize,
    bytes: usize,
) -> Result<Vec<String>, TableError> {
    let mut by_age = roster_ages(view.tables)?;
    by_age.sort();
    let (mut given_up, mut freed) = (vec![], 0usize);
    for (_, away) in by_age {
        if given_up.len() >= count && freed >= bytes {
            break;
        }
        if away != entry {
            freed += view.index.announced_bytes(&away);
            given_up.push(away);
        }
    }
    Ok(given_up)
}

fn roster_ages(tables: &dyn TableReader) -> Result<Vec<(UnixMillis, String)>, TableError> {
    let mut ages = vec![];
    let mut failed = None;
    tables.scan(
        TableId::Roster,
        Bound::Unbounded,
        Bound::Unbounded,
        &mut |key, value| match decode_row::<RosterRow>(TableId::Roster, value) {
            Ok(row) => {
                ages.push((row.last_seen, String::from_utf8_lossy(key).into_owned()));
                ControlFlow::Continue(())
            }
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        },
    )?;
    failed.map_or(Ok(ages), Err)
}

fn expire_presence(tables: &dyn TableReader, before: UnixMillis) -> BusDecision {
    let entries: Vec<String> = roster_ages(tables)?
        .into_iter()
        .filter(|(last_seen, _)| *last_seen <= before)
        .map(|(_, entry)| entry)
        .collect();
    let count = entries.len();
    done(presence_expired(&entries), BusReply::Expired { count })
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

fn expire_messages(index: &QueueIndex, before: UnixMillis, max: usize) -> BusDecision {
    // Not `take_while`: the clock may have jumped back between two arrivals.
    let seqs: Vec<Seq> = index
        .by_age()
        .filter(|(_, item)| item.at <= before)
        .map(|(seq, _)| seq)
        .take(max.min(MAX_ACKS_PER_RECORD))
        .collect();
    let count = seqs.len();
    let events = match count {
        0 => vec![],
        _ => vec![BusEvent::Dropped(Dropped {
            seqs,
            reason: DropReason::Expired,
        })],
    };
    done(events, BusReply::Expired { count })
}
