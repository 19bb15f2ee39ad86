//! Events, and a history, of relayed sessions.

use std::sync::Arc;

use super::Rng;
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::{BusCommand, BusReply, RelayCommand, RelayLimits};
use crate::event::bus::BusEvent;
use crate::event::bus_rendezvous::{
    RelayEnd, RelayEnded, RelayErased, RelayErasure, RelayFlow, RelayJoined, RelayLeft,
    RelayOpened, RelaySent, RelayTouched,
};
use crate::event::kind::EventKind;
use crate::types::limit::RELAY_TTL_MS;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// Small bounds, so that tests reach them: 4 sessions, 16 KiB in all, 8 KiB in one, 4 KiB in a
/// lossless one.
pub const SMALL_RELAY: RelayLimits = RelayLimits {
    sessions: 4,
    bytes: 16_384,
    session_bytes: 8_192,
    flow_bytes: 4096,
};

fn seqs(rng: &mut Rng) -> Vec<Seq> {
    (0..rng.index(5)).map(|_| Seq(rng.next_u64())).collect()
}

/// An event about relayed sessions; `None` for other kinds.
#[must_use]
pub fn relay_event(kind: EventKind, rng: &mut Rng) -> Option<BusEvent> {
    let session = Seq(rng.next_u64());
    let number = rng.next_u64();
    let len = u32::try_from(rng.below(1 << 22)).unwrap_or(0);
    let mut digest = [0; 32];
    rng.fill(&mut digest);
    let (pruned, erased) = (seqs(rng), seqs(rng));
    Some(match kind {
        EventKind::RelayOpened => BusEvent::RelayOpened(RelayOpened {
            flow: [RelayFlow::Ordinary, RelayFlow::Lossless][rng.index(2)],
            len,
            sha256: digest,
        }),
        EventKind::RelayJoined => BusEvent::RelayJoined(RelayJoined {
            session,
            number,
            len,
            sha256: digest,
            pruned,
            erased,
        }),
        EventKind::RelaySent => BusEvent::RelaySent(RelaySent {
            session,
            number,
            from: Seq(rng.next_u64()),
            len,
            sha256: digest,
            pruned,
            erased,
        }),
        EventKind::RelayLeft => BusEvent::RelayLeft(RelayLeft {
            session,
            member: Seq(rng.next_u64()),
            number,
            pruned,
            erased,
        }),
        EventKind::RelayEnded => BusEvent::RelayEnded(RelayEnded {
            session,
            reason: [
                RelayEnd::Left,
                RelayEnd::Expired,
                RelayEnd::Dropped,
                RelayEnd::Lost,
            ][rng.index(4)],
            pruned,
            erased,
        }),
        EventKind::RelayTouched => BusEvent::RelayTouched(RelayTouched { session }),
        EventKind::RelayErased => BusEvent::RelayErased(RelayErased {
            session,
            reason: [RelayErasure::Fetched, RelayErasure::Lost][rng.index(2)],
            pruned,
            erased,
        }),
        _ => return None,
    })
}

/// Opens a session.
#[must_use]
pub fn relay_open(routing: u8, peer: u8, flow: RelayFlow, now: UnixMillis) -> BusCommand {
    BusCommand::Relay(RelayCommand::Open {
        routing: [routing; 32],
        peer: [peer; 32],
        key: [peer ^ 0x80; 32],
        flow,
        salt: [7; 16],
        now,
        limits: SMALL_RELAY,
    })
}

/// Joins a session.
#[must_use]
pub fn relay_join(routing: u8, peer: u8, now: UnixMillis) -> BusCommand {
    BusCommand::Relay(RelayCommand::Join {
        routing: [routing; 32],
        peer: [peer; 32],
        key: [peer ^ 0x80; 32],
        salt: [7; 16],
        now,
        limits: SMALL_RELAY,
    })
}

/// Sends some JSON of about `len` bytes into a session.
#[must_use]
pub fn relay_send(routing: u8, peer: u8, n: u64, len: usize, now: UnixMillis) -> BusCommand {
    let mut body = vec![7; 16];
    body.extend_from_slice(&super::sample::payload(n, len));
    let body: Arc<[u8]> = body.into();
    BusCommand::Relay(RelayCommand::Send {
        routing: [routing; 32],
        peer: [peer; 32],
        sha256: sha256(&body),
        body,
        now,
        limits: SMALL_RELAY,
    })
}

/// Leaves a session.
#[must_use]
pub fn relay_leave(routing: u8, peer: u8, now: UnixMillis) -> BusCommand {
    BusCommand::Relay(RelayCommand::Leave {
        routing: [routing; 32],
        peer: [peer; 32],
        now,
    })
}

/// A wish to the relay of a bus whose log ends near `head`, with these sessions; three routing ids,
/// three peers, small bounds. Some wishes come so late that sessions are over.
#[must_use]
pub fn relay_command(rng: &mut Rng, head: Seq, sessions: &[Seq], now: UnixMillis) -> BusCommand {
    let recent = |rng: &mut Rng| Seq(head.0.saturating_sub(rng.below(24)));
    // Now and then a position where there is none.
    let session = |rng: &mut Rng| match sessions.get(rng.index(sessions.len() + 1)) {
        Some(session) => *session,
        None => recent(rng),
    };
    let now = match rng.below(20) {
        0 => now.plus(RELAY_TTL_MS),
        _ => now,
    };
    let routing = 0x10 + u8::try_from(rng.below(3)).unwrap_or(0);
    let peer = 0x20 + u8::try_from(rng.below(3)).unwrap_or(0);
    match rng.below(100) {
        0..15 => {
            let flow = [RelayFlow::Ordinary, RelayFlow::Lossless][rng.index(2)];
            relay_open(routing, peer, flow, now)
        }
        15..35 => relay_join(routing, peer, now),
        35..60 => {
            let (n, len) = (rng.below(40), 40 + rng.index(1_200));
            relay_send(routing, peer, n, len, now)
        }
        60..74 => relay_leave(routing, peer, now),
        74..78 => BusCommand::Relay(RelayCommand::Touch {
            session: session(rng),
        }),
        78..92 => BusCommand::Relay(RelayCommand::Fetched {
            session: session(rng),
            peer: [peer; 32],
            until: rng.below(12),
        }),
        92..96 => BusCommand::Relay(RelayCommand::End {
            session: rng.chance(30).then(|| session(rng)),
            now,
            max: 1 + rng.index(3),
        }),
        _ => BusCommand::Relay(RelayCommand::Lose {
            message: recent(rng),
        }),
    }
}

/// Sessions of both flows, in which every kind of event occurs; one is left open. The first
/// command finds an empty log.
pub fn relay_history(now: UnixMillis, run: &mut dyn FnMut(BusCommand) -> BusReply) {
    run(relay_open(1, 0x11, RelayFlow::Ordinary, now));
    run(relay_join(1, 0x12, now));
    for n in 0..3 {
        run(relay_send(1, 0x11, n, 60, now));
        run(relay_send(1, 0x12, n, 80, now));
    }
    run(BusCommand::Relay(RelayCommand::Touch { session: Seq(1) }));
    run(BusCommand::Relay(RelayCommand::Lose { message: Seq(3) }));
    run(relay_leave(1, 0x12, now));
    run(relay_join(1, 0x13, now));
    run(relay_open(2, 0x21, RelayFlow::Lossless, now));
    run(relay_join(2, 0x22, now));
    run(relay_send(2, 0x21, 9, 60, now));
    run(BusCommand::Relay(RelayCommand::Fetched {
        session: Seq(13),
        peer: [0x22; 32],
        until: 2,
    }));
    run(relay_leave(2, 0x21, now));
    run(relay_leave(2, 0x22, now));
}
