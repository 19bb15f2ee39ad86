//! Decisions of a bus.

mod command;
mod import;
mod index;
mod operator;
mod presence;
mod rendezvous;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

pub use command::{
    BusCommand, BusRefusal, BusReply, DroppedItem, Overflow, QueueLimits, queue_name_ok,
};
pub use import::ImportMessage;
pub use index::{Item, Queue, QueueIndex};
pub use rendezvous::{
    Id as RelayId, RelayCommand, RelayIndex, RelayLimits, RelayMessage, RelayPeer, RelayRefusal,
    RelayReply, RelaySession, SALT_BYTES as RELAY_SALT_BYTES,
};

use presence::{BoardLimits, ENTRIES_PER_RECORD};

use crate::domain::projection::Projection;
use crate::domain::projection::bus::{
    Drops, Pending, PendingRow, PresenceTimeRow, PresenceTimes, Roster, RosterRow,
};
use crate::domain::projection::bus_rendezvous::Rendezvous;
use crate::domain::projection::marks::QueueMarks;
use crate::domain::tables::{TableError, TableId, TableReader, scan_rows};
use crate::domain::{Bodies, Decision, Domain, LiveBody, NewEvent, View};
use crate::event::Recorded;
use crate::event::bus::{Acked, BodyLost, BusEvent, DropReason, Dropped, Enqueued, Seen, SeenAt};
use crate::event::bus_room::relay_event;
use crate::event::kind::StoreKind;
use crate::types::limit::{MAX_ACKS_PER_RECORD, MAX_HINT_BYTES, MAX_HTTP_BODY_BYTES};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// The domain of a broker.
pub struct Bus;

type BusDecision = Result<Result<Decision<BusEvent, BusReply>, BusRefusal>, TableError>;

fn done(events: Vec<BusEvent>, reply: BusReply) -> BusDecision {
    Ok(Ok(Decision {
        events: events.into_iter().map(NewEvent::from).collect(),
        reply,
    }))
}

fn answer(events: Result<Vec<BusEvent>, BusRefusal>) -> BusDecision {
    match events {
        Ok(events) => done(events, BusReply::Done),
        Err(refusal) => Ok(Err(refusal)),
    }
}

impl Domain for Bus {
    type Event = BusEvent;
    type Command = BusCommand;
    type Reply = BusReply;
    type Refusal = BusRefusal;
    type Index = QueueIndex;

    const KIND: StoreKind = StoreKind::Bus;

    fn projections() -> &'static [&'static dyn Projection<BusEvent>] {
        &[
            &Pending,
            &Drops,
            &Roster,
            &PresenceTimes,
            &Rendezvous,
            &QueueMarks,
        ]
    }

    fn decide(view: &View<'_, Self>, command: &BusCommand) -> BusDecision {
        match command {
            BusCommand::Enqueue {
                to,
                payload,
                sha256,
                msg_id,
                limits,
            } => {
                let hint = msg_id_hint(msg_id);
                Ok(enqueue(view, to, payload, (sha256, hint), limits))
            }
            BusCommand::Import(wish) => Ok(import::take(view, wish)),
            BusCommand::Ack { me, seqs } => ack(view.index, me, seqs),
            BusCommand::Announce {
                entry,
                announcement,
                max_entries,
            } => {
                let limits = BoardLimits {
                    entries: *max_entries,
                    per_key: None,
                };
                answer(presence::announce(view.index, entry, announcement, &limits))
            }
            BusCommand::AnnounceSigned {
                entry,
                announcement,
                ts,
                max_entries,
                max_per_key,
            } => {
                let limits = BoardLimits {
                    entries: *max_entries,
                    per_key: Some(*max_per_key),
                };
                let events =
                    presence::announce_signed(view.index, entry, announcement, &limits, *ts);
                answer(events)
            }
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
                done(presence::unregister(view.index, entry), BusReply::Done)
            }
            BusCommand::UnregisterSigned { entry, ts } => {
                answer(presence::unregister_signed(view.index, entry, *ts))
            }
            BusCommand::Signed { entries } => presence::signed(view.index, entries),
            BusCommand::ForgetSigned { before } => presence::forget_times(view.index, *before),
            BusCommand::RemovePresence { entries } => presence::remove(view.index, entries),
            BusCommand::ExpirePresence { before } => presence::expire(view.index, *before),
            BusCommand::ExpireMessages { before, max } => {
                expire_messages(view.index, *before, *max)
            }
            BusCommand::Discard { to, seq, max } => operator::discard(view.index, to, *seq, *max),
            BusCommand::Evict { entry } => operator::evict(view.index, entry),
            BusCommand::Relay(command) => rendezvous::decide(view, command),
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
            BusCommand::Import(wish) => wish.payload.len(),
            BusCommand::Relay(RelayCommand::Send { body, .. }) => body.len(),
            BusCommand::Announce { announcement, .. }
            | BusCommand::AnnounceSigned { announcement, .. } => announcement.len(),
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
        let mut malformed = None;
        scan_rows::<RosterRow>(tables, TableId::Roster, &[], |key, row| {
            match std::str::from_utf8(key) {
                Ok(entry) => {
                    let bytes = row.announcement.len();
                    index.presence.announce(entry, bytes, row.last_seen);
                }
                Err(_) => malformed = Some(TableId::Roster),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        scan_rows::<PresenceTimeRow>(tables, TableId::PresenceTimes, &[], |key, row| {
            match std::str::from_utf8(key) {
                Ok(entry) => index.presence.signed(entry, row.ts),
                Err(_) => malformed = Some(TableId::PresenceTimes),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(table) = malformed {
            return Err(TableError::Key {
                table: table.name(),
            });
        }
        rendezvous::build(&mut index.relay, tables)?;
        Ok(index)
    }

    fn index_bodies(index: &mut QueueIndex, bodies: &dyn Bodies) -> Result<(), TableError> {
        for seq in index.relay.peers() {
            // Without it nobody finds the session, which ends for its age.
            if let Some(body) = bodies.body(seq)? {
                index.relay.body(seq, &body);
            }
        }
        Ok(())
    }

    fn index_body(index: &mut QueueIndex, seq: Seq, body: &[u8]) {
        index.relay.body(seq, body);
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
            BusEvent::Discarded(e) => e.seqs.iter().for_each(|seq| index.remove(*seq)),
            BusEvent::PresenceRemoved(e) => {
                e.entries
                    .iter()
                    .for_each(|entry| index.presence.leave(entry));
            }
            BusEvent::BodyLost(e) => index.remove(e.message),
            BusEvent::Announced(e) => {
                let bytes = e.announcement.len();
                index.presence.announce(&e.entry, bytes, record.at);
            }
            BusEvent::Seen(e) => {
                for seen in &e.entries {
                    index.presence.seen(&seen.entry, seen.at);
                }
            }
            BusEvent::Unregistered(e) => index.presence.leave(&e.entry),
            BusEvent::PresenceExpired(e) => {
                e.entries
                    .iter()
                    .for_each(|entry| index.presence.leave(entry));
            }
            BusEvent::PresenceSigned(e) => {
                for signed in &e.entries {
                    index.presence.signed(&signed.entry, signed.ts);
                }
            }
            BusEvent::PresenceForgotten(e) => {
                e.entries
                    .iter()
                    .for_each(|entry| index.presence.forget(entry));
            }
            BusEvent::QueueImported(_) => {}
            relay_event!() => index.relay.follow(record),
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
            BusEvent::Discarded(e) => &e.seqs,
            BusEvent::BodyLost(e) => std::slice::from_ref(&e.message),
            BusEvent::RelayJoined(e) => &e.erased,
            BusEvent::RelaySent(e) => &e.erased,
            BusEvent::RelayLeft(e) => &e.erased,
            BusEvent::RelayEnded(e) => &e.erased,
            BusEvent::RelayErased(e) => &e.erased,
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
        })?;
        rendezvous::live_bodies(tables, visit)
    }

    fn body_lost(seq: Seq) -> Option<BusEvent> {
        Some(BusEvent::BodyLost(BodyLost { message: seq }))
    }

    fn let_go(tables: &dyn TableReader, lost: &BTreeSet<Seq>) -> Result<Vec<BusEvent>, TableError> {
        let mut lost = lost.clone();
        let mut events = rendezvous::let_go(tables, &mut lost)?;
        events.extend(lost.into_iter().filter_map(Bus::body_lost));
        Ok(events)
    }

    fn nothing() -> BusEvent {
        BusEvent::Seen(Seen { entries: vec![] })
    }
}

/// The id as it may enter the log; nothing for one that is no plain word.
fn msg_id_hint(id: &str) -> &str {
    let plain = id.len() <= MAX_HINT_BYTES && id.bytes().all(|b| b.is_ascii_graphic());
    if plain { id } else { "" }
}

fn enqueue(
    view: &View<'_, Bus>,
    to: &str,
    payload: &Arc<[u8]>,
    (sha256, msg_id): (&[u8; 32], &str),
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
        msg_id: msg_id.to_owned(),
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
