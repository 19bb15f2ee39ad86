//! Decisions of a relay: sessions in which two peers leave messages for each other.
//!
//! The order in which things are refused is part of the interface: session, its age, membership,
//! pace, room. An expired session is wiped by the first wish that meets it.

mod command;
mod index;
mod rows;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use command::{RelayCommand, RelayLimits, RelayRefusal, RelayReply};
pub use index::{Id, RelayIndex, RelayMessage, RelayPeer, RelaySession, SALT_BYTES};
pub(super) use rows::{build, let_go, live_bodies};

use super::{Bus, BusDecision, BusRefusal, BusReply};
use crate::crypto::hash::sha256;
use crate::domain::projection::bus_rendezvous::RelayMessageKind;
use crate::domain::{Decision, NewEvent, View};
use crate::event::bus::BusEvent;
use crate::event::bus_rendezvous::{
    RelayEnd, RelayEnded, RelayErased, RelayErasure, RelayFlow, RelayJoined, RelayLeft,
    RelayOpened, RelaySent, RelayTouched,
};
use crate::types::limit::{
    RELAY_FLOW_MESSAGES, RELAY_PEERS, RELAY_QUEUE, RELAY_SEND_WINDOW_MS, RELAY_SENDS,
};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

type Events = Vec<NewEvent<BusEvent>>;
type Outcome = Result<(Events, RelayReply), RelayRefusal>;

pub(super) fn decide(view: &View<'_, Bus>, command: &RelayCommand) -> BusDecision {
    let index = &view.index.relay;
    let outcome = match command {
        RelayCommand::Open { .. } => open(index, command),
        RelayCommand::Join { .. } => join(index, view.next, command),
        RelayCommand::Send { .. } => send(index, command),
        RelayCommand::Leave { routing, peer, now } => Ok(leave(index, routing, peer, *now)),
        RelayCommand::Touch { session } => {
            let there = index.session(*session).is_some();
            let touched = BusEvent::RelayTouched(RelayTouched { session: *session });
            Ok((
                there.then(|| touched.into()).into_iter().collect(),
                RelayReply::Done,
            ))
        }
        RelayCommand::Fetched {
            session,
            peer,
            until,
        } => Ok((fetched(index, *session, peer, *until), RelayReply::Done)),
        RelayCommand::End { session, now, max } => Ok(end(index, *session, *now, *max)),
        RelayCommand::Lose { message } => Ok((lose(index, *message), RelayReply::Done)),
    };
    Ok(match outcome {
        Ok((events, reply)) => Ok(Decision {
            events,
            reply: BusReply::Relay(reply),
        }),
        Err(refusal) => Err(BusRefusal::Relay(refusal)),
    })
}

/// The body that says who somebody is.
fn identity(salt: &[u8], parts: &[&Id]) -> (Arc<[u8]>, u32, [u8; 32]) {
    let mut bytes = salt.to_vec();
    for part in parts {
        bytes.extend_from_slice(*part);
    }
    let digest = sha256(&bytes);
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    (bytes.into(), len, digest)
}

fn open(index: &RelayIndex, command: &RelayCommand) -> Outcome {
    let RelayCommand::Open {
        routing,
        peer,
        key,
        flow,
        salt,
        now,
        limits,
    } = command
    else {
        return Err(RelayRefusal::Unknown);
    };
    let mut events = vec![];
    let mut sessions = index.len();
    let mut bytes = index.bytes();
    if let Some((at, session)) = index.find(routing) {
        if !session.is_over(*now) {
            return Err(RelayRefusal::Full);
        }
        events.push(wiped(at, session, RelayEnd::Expired));
        sessions -= 1;
        bytes = bytes.saturating_sub(session.bytes);
    }
    let (body, len, sha256) = identity(salt, &[peer, key, routing]);
    if sessions >= limits.sessions || bytes + u64::from(len) > limits.bytes {
        return Err(RelayRefusal::RelayFull { sessions, bytes });
    }
    let flow = *flow;
    events.push(NewEvent {
        event: BusEvent::RelayOpened(RelayOpened { flow, len, sha256 }),
        body: Some(body),
    });
    Ok((events, RelayReply::Opened))
}

/// The session that a wish is about.
enum Met<'a> {
    Alive(Seq, &'a RelaySession),
    /// What wipes it.
    Over(Events),
}

fn meet<'a>(index: &'a RelayIndex, routing: &Id, now: UnixMillis) -> Option<Met<'a>> {
    let (at, session) = index.find(routing)?;
    Some(match session.is_over(now) {
        true => Met::Over(vec![wiped(at, session, RelayEnd::Expired)]),
        false => Met::Alive(at, session),
    })
}

fn join(index: &RelayIndex, next: Seq, command: &RelayCommand) -> Outcome {
    let RelayCommand::Join {
        routing,
        peer,
        key,
        salt,
        now,
        limits,
    } = command
    else {
        return Err(RelayRefusal::Unknown);
    };
    let (at, session) = match meet(index, routing, *now).ok_or(RelayRefusal::Unknown)? {
        Met::Alive(at, session) => (at, session),
        Met::Over(wiped) => return Ok((wiped, RelayReply::Over)),
    };
    let host = session.peer(at).ok_or(RelayRefusal::Unknown)?;
    let joined = |count| RelayReply::Joined {
        host_key: host.key,
        count,
        flow: session.flow,
    };
    if session.member(peer).is_some() {
        return Ok((vec![], joined(session.members.len())));
    }
    if session.members.len() >= RELAY_PEERS {
        return Err(RelayRefusal::Full);
    }
    if session.flow == RelayFlow::Lossless && session.messages.len() >= RELAY_FLOW_MESSAGES {
        return Err(RelayRefusal::TooFast { after_ms: 1000 });
    }
    let (body, len, sha256) = identity(salt, &[peer, key]);
    room(index, session, u64::from(len), limits)?;
    let members: Vec<Seq> = session.members.iter().copied().chain([next]).collect();
    let (pruned, erased) = prune(session, at, &members, &[next]);
    let event = RelayJoined {
        session: at,
        number: session.next,
        len,
        sha256,
        pruned,
        erased,
    };
    let event = NewEvent {
        event: BusEvent::RelayJoined(event),
        body: Some(body),
    };
    Ok((vec![event], joined(members.len())))
}

fn send(index: &RelayIndex, command: &RelayCommand) -> Outcome {
    let RelayCommand::Send {
        routing,
        peer,
        body,
        sha256,
        now,
        limits,
    } = command
    else {
        return Err(RelayRefusal::Unknown);
    };
    let (at, session) = match meet(index, routing, *now).ok_or(RelayRefusal::Unknown)? {
        Met::Alive(at, session) => (at, session),
        Met::Over(wiped) => return Ok((wiped, RelayReply::Over)),
    };
    let from = session.member(peer).ok_or(RelayRefusal::Stranger)?;
    pace(session, peer, body.len(), *now, limits)?;
    room(index, session, body.len() as u64, limits)?;
    let (pruned, erased) = prune(session, at, &session.members, &[from]);
    let event = RelaySent {
        session: at,
        number: session.next,
        from,
        len: u32::try_from(body.len()).unwrap_or(u32::MAX),
        sha256: *sha256,
        pruned,
        erased,
    };
    let event = NewEvent {
        event: BusEvent::RelaySent(event),
        body: Some(Arc::clone(body)),
    };
    Ok((vec![event], RelayReply::Done))
}

fn pace(
    session: &RelaySession,
    peer: &Id,
    len: usize,
    now: UnixMillis,
    limits: &RelayLimits,
) -> Result<(), RelayRefusal> {
    if session.flow == RelayFlow::Lossless {
        let messages = session.messages.len();
        // Senders of such a session come back; nobody is told that it is full.
        let bound = limits.flow_bytes.min(limits.session_bytes);
        let fits = session.bytes + len as u64 <= bound || messages == 0;
        return match fits && messages < RELAY_FLOW_MESSAGES {
            true => Ok(()),
            false => Err(RelayRefusal::TooFast { after_ms: 1000 }),
        };
    }
    // Both peers together send less in that time than what is kept.
    let own = |from: Seq| session.peer(from).is_some_and(|known| known.peer == *peer);
    let recent: Vec<UnixMillis> = session
        .messages
        .values()
        .filter(|m| m.kind == RelayMessageKind::Sent && own(m.from))
        .filter(|m| now.since(m.at) < RELAY_SEND_WINDOW_MS)
        .map(|m| m.at)
        .collect();
    match recent.iter().min().filter(|_| recent.len() >= RELAY_SENDS) {
        None => Ok(()),
        Some(oldest) => Err(RelayRefusal::TooFast {
            after_ms: oldest.plus(RELAY_SEND_WINDOW_MS).since(now),
        }),
    }
}

fn room(
    index: &RelayIndex,
    session: &RelaySession,
    len: u64,
    limits: &RelayLimits,
) -> Result<(), RelayRefusal> {
    let bytes = index.bytes();
    if bytes + len > limits.bytes {
        let sessions = index.len();
        return Err(RelayRefusal::RelayFull { sessions, bytes });
    }
    let bytes = session.bytes;
    if bytes + len > limits.session_bytes {
        return Err(RelayRefusal::SessionFull { bytes });
    }
    Ok(())
}

fn leave(index: &RelayIndex, routing: &Id, peer: &Id, now: UnixMillis) -> (Events, RelayReply) {
    let (at, session) = match meet(index, routing, now) {
        None => return (vec![], RelayReply::Done),
        Some(Met::Over(wiped)) => return (wiped, RelayReply::Over),
        Some(Met::Alive(at, session)) => (at, session),
    };
    let Some(member) = session.member(peer) else {
        return (vec![], RelayReply::Done);
    };
    let members: Vec<Seq> = session
        .members
        .iter()
        .copied()
        .filter(|m| *m != member)
        .collect();
    if members.is_empty() {
        return (vec![wiped(at, session, RelayEnd::Left)], RelayReply::Done);
    }
    let (pruned, erased) = prune(session, at, &members, &[member]);
    let event = RelayLeft {
        session: at,
        member,
        number: session.next,
        pruned,
        erased,
    };
    (vec![BusEvent::RelayLeft(event).into()], RelayReply::Done)
}

/// What gives way for one more message, and the bodies that nothing needs then. `also` are peers
/// that the new message needs.
fn prune(session: &RelaySession, at: Seq, members: &[Seq], also: &[Seq]) -> (Vec<Seq>, Vec<Seq>) {
    let over = match session.flow {
        RelayFlow::Ordinary => (session.messages.len() + 1).saturating_sub(RELAY_QUEUE),
        RelayFlow::Lossless => 0,
    };
    let doomed: Vec<RelayMessage> = session.messages.values().take(over).copied().collect();
    let needed: BTreeSet<Seq> = members.iter().chain(also).copied().chain([at]).collect();
    without(session, &doomed, needed)
}

/// Positions of messages that leave, and of the bodies that nothing needs then.
fn without(
    session: &RelaySession,
    doomed: &[RelayMessage],
    mut needed: BTreeSet<Seq>,
) -> (Vec<Seq>, Vec<Seq>) {
    if doomed.is_empty() {
        return (vec![], vec![]);
    }
    let pruned: BTreeSet<Seq> = doomed.iter().map(|m| m.seq).collect();
    let staying = session
        .messages
        .values()
        .filter(|m| !pruned.contains(&m.seq));
    needed.extend(staying.map(|m| m.from));
    let sent = doomed.iter().filter(|m| m.kind == RelayMessageKind::Sent);
    let unneeded = session.peers.keys().filter(|peer| !needed.contains(peer));
    let erased = sent.map(|m| m.seq).chain(unneeded.copied()).collect();
    (pruned.into_iter().collect(), erased)
}

fn fetched(index: &RelayIndex, at: Seq, peer: &Id, until: u64) -> Events {
    let session = index.session(at);
    let Some(session) = session.filter(|s| s.flow == RelayFlow::Lossless) else {
        return vec![];
    };
    let own = |from: Seq| session.peer(from).is_some_and(|known| known.peer == *peer);
    let doomed: Vec<RelayMessage> = session
        .messages
        .range(..=until)
        .map(|(_, message)| *message)
        .filter(|message| !own(message.from))
        .collect();
    erased(session, at, &doomed, RelayErasure::Fetched)
}

fn erased(
    session: &RelaySession,
    at: Seq,
    doomed: &[RelayMessage],
    reason: RelayErasure,
) -> Events {
    let needed = session.members.iter().copied().chain([at]).collect();
    let (pruned, erased) = without(session, doomed, needed);
    if pruned.is_empty() {
        return vec![];
    }
    let event = RelayErased {
        session: at,
        reason,
        pruned,
        erased,
    };
    vec![BusEvent::RelayErased(event).into()]
}

fn lose(index: &RelayIndex, message: Seq) -> Events {
    let Some((at, session)) = index.holder(message) else {
        return vec![];
    };
    let doomed: Vec<RelayMessage> = session
        .messages
        .values()
        .filter(|m| m.seq == message && m.kind == RelayMessageKind::Sent)
        .copied()
        .collect();
    erased(session, at, &doomed, RelayErasure::Lost)
}

fn end(index: &RelayIndex, one: Option<Seq>, now: UnixMillis, max: usize) -> (Events, RelayReply) {
    let (doomed, reason): (Vec<Seq>, _) = match one {
        Some(at) => (vec![at], RelayEnd::Dropped),
        None => (index.over(now).take(max).collect(), RelayEnd::Expired),
    };
    let events: Events = doomed
        .into_iter()
        .filter_map(|at| Some(wiped(at, index.session(at)?, reason)))
        .collect();
    let count = events.len();
    (events, RelayReply::Ended { count })
}

fn wiped(at: Seq, session: &RelaySession, reason: RelayEnd) -> NewEvent<BusEvent> {
    let messages = session.messages.values();
    let sent = messages
        .clone()
        .filter(|m| m.kind == RelayMessageKind::Sent);
    let bodies = sent.map(|m| m.seq).chain(session.peers.keys().copied());
    let event = RelayEnded {
        session: at,
        reason,
        pruned: messages.map(|m| m.seq).collect(),
        erased: bodies.collect(),
    };
    BusEvent::RelayEnded(event).into()
}
