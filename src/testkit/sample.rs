//! Events and commands from a seed.

use std::sync::Arc;

use super::Rng;
use super::sample_rendezvous::relay_command;
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::{BusCommand, Overflow, QueueLimits};
use crate::event::bus::{
    Acked, Announced, BodyLost, BusEvent, Discarded, DropReason, Dropped, Enqueued,
    PresenceExpired, PresenceForgotten, PresenceRemoved, PresenceSigned, QueueImported, Seen,
    SeenAt, SignedAt, Unregistered,
};
use crate::event::kind::{EventKind, StoreKind};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Small bounds, so that tests reach them: 6 messages and 4 KiB a queue, 16 KiB in all.
pub const SMALL_LIMITS: QueueLimits = QueueLimits {
    messages: 6,
    bytes: 4096,
    store_bytes: 16_384,
    queues: 8,
    overflow: Overflow::DropOldest,
};

/// Roomy bounds.
pub const WIDE_LIMITS: QueueLimits = QueueLimits {
    messages: 1 << 20,
    bytes: 1 << 30,
    store_bytes: 1 << 32,
    queues: 1 << 20,
    overflow: Overflow::DropOldest,
};

/// An enqueue command with its digest.
#[must_use]
pub fn enqueue(to: &str, payload: &[u8], limits: QueueLimits) -> BusCommand {
    BusCommand::Enqueue {
        to: to.to_owned(),
        payload: Arc::from(payload),
        sha256: sha256(payload),
        msg_id: String::new(),
        limits,
    }
}

/// A JSON payload of exactly `len` bytes (at least 40) that `n` makes unique.
#[must_use]
pub fn payload(n: u64, len: usize) -> Vec<u8> {
    let mut text = format!("{{\"n\":\"{n:020}\",\"x\":\"");
    while text.len() + 2 < len {
        text.push('x');
    }
    text.push_str("\"}");
    text.into_bytes()
}

fn name(rng: &mut Rng) -> String {
    ["", "a", "peer#s1", "peer#s2", "\u{e9}\u{4e2d}"][rng.index(5)].to_owned()
}

fn seqs(rng: &mut Rng) -> Vec<Seq> {
    (0..rng.index(5)).map(|_| Seq(rng.next_u64())).collect()
}

/// An event of a kind that a bus store holds; `None` for the other store's kinds.
#[must_use]
pub fn bus_event(kind: EventKind, rng: &mut Rng) -> Option<BusEvent> {
    if kind.store() != StoreKind::Bus {
        return None;
    }
    let entry = name(rng);
    let mut digest = [0; 32];
    rng.fill(&mut digest);
    Some(match kind {
        EventKind::Enqueued => BusEvent::Enqueued(Enqueued {
            to: entry,
            len: u32::try_from(rng.below(1 << 21)).unwrap(),
            sha256: digest,
            msg_id: ["", "0f9c1e52-7f11-4d8e-9d6b-0c6c1f0a7b11"][rng.index(2)].to_owned(),
        }),
        EventKind::Acked => BusEvent::Acked(Acked { seqs: seqs(rng) }),
        EventKind::Dropped => BusEvent::Dropped(Dropped {
            seqs: seqs(rng),
            reason: [DropReason::Overflow, DropReason::Expired][rng.index(2)],
        }),
        EventKind::Announced => BusEvent::Announced(Announced {
            entry,
            announcement: payload(rng.next_u64(), 40 + rng.index(60)),
        }),
        EventKind::Seen => BusEvent::Seen(Seen {
            entries: (0..1 + rng.index(3))
                .map(|_| SeenAt {
                    entry: name(rng),
                    at: UnixMillis(rng.next_u64()),
                })
                .collect(),
        }),
        EventKind::Unregistered => BusEvent::Unregistered(Unregistered { entry }),
        EventKind::PresenceExpired => BusEvent::PresenceExpired(PresenceExpired {
            entries: vec![entry, name(rng)],
        }),
        EventKind::BodyLost => BusEvent::BodyLost(BodyLost {
            message: Seq(rng.next_u64()),
        }),
        EventKind::PresenceSigned => BusEvent::PresenceSigned(PresenceSigned {
            entries: (0..1 + rng.index(3))
                .map(|_| SignedAt {
                    entry: name(rng),
                    ts: UnixMillis(rng.next_u64()),
                })
                .collect(),
        }),
        EventKind::PresenceForgotten => BusEvent::PresenceForgotten(PresenceForgotten {
            entries: vec![entry, name(rng)],
        }),
        EventKind::Discarded => BusEvent::Discarded(Discarded { seqs: seqs(rng) }),
        EventKind::PresenceRemoved => BusEvent::PresenceRemoved(PresenceRemoved {
            entries: vec![entry],
        }),
        EventKind::QueueImported => BusEvent::QueueImported(QueueImported {
            number: rng.next_u64(),
            arrived: UnixMillis(rng.next_u64()),
            mark: digest,
        }),
        other => return super::sample_rendezvous::relay_event(other, rng),
    })
}

/// A command to a bus whose log ends near `head` and that relays these sessions: mail of five
/// recipients, presence, relayed sessions; small bounds.
#[must_use]
pub fn bus_command(rng: &mut Rng, head: Seq, sessions: &[Seq], now: UnixMillis) -> BusCommand {
    if rng.chance(35) {
        return relay_command(rng, head, sessions, now);
    }
    let recent = |rng: &mut Rng| Seq(head.0.saturating_sub(rng.below(12)));
    match rng.below(100) {
        0..50 => {
            let n = rng.below(40);
            let len = 40 + rng.index(700);
            let overflow = [Overflow::DropOldest, Overflow::Refuse][usize::from(rng.chance(15))];
            let limits = QueueLimits {
                overflow,
                ..SMALL_LIMITS
            };
            enqueue(&name(rng), &payload(n, len), limits)
        }
        50..75 => BusCommand::Ack {
            me: name(rng),
            seqs: (0..1 + rng.index(4)).map(|_| recent(rng)).collect(),
        },
        75..82 => BusCommand::Announce {
            entry: name(rng),
            announcement: payload(rng.below(5), 60).into(),
            max_entries: 4,
        },
        82..86 => BusCommand::Seen {
            entries: vec![SeenAt {
                entry: name(rng),
                at: now,
            }],
        },
        86..90 => BusCommand::Unregister { entry: name(rng) },
        90..93 => BusCommand::ExpirePresence {
            before: now.minus(rng.below(20_000)),
        },
        93..97 => BusCommand::ExpireMessages {
            before: now.minus(rng.below(20_000)),
            max: 1 + rng.index(5),
        },
        97 => BusCommand::Discard {
            to: name(rng),
            seq: rng.chance(50).then(|| recent(rng)),
            max: 1 + rng.index(5),
        },
        98 => BusCommand::Evict { entry: name(rng) },
        _ => BusCommand::LoseBody { seq: recent(rng) },
    }
}
