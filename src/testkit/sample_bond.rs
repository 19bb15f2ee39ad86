//! Events and a history of sealed sessions.

use super::Rng;
use super::sample_agent::{digest, key, maybe, session};
use crate::domain::decide::agent::{AgentCommand, AgentReply, BondCommand, BondNews};
use crate::event::agent::{
    AgentEvent, BondAdvanced, BondDecided, BondDropped, BondEnd, BondEnded, BondFailed,
    BondFileBlocked, BondFilePlaced, BondFileSent, BondGap, BondHeard, BondMode, BondOffered,
    BondOpened, BondPin, BondRef, BondRole, BondSaid, BondStep, DecidedBy, DropKind, FileWay,
    PinStep, Verdict,
};
use crate::event::kind::EventKind;
use crate::types::id::{PublicKey, SessionId};
use crate::types::seq::Seq;

const PID: u32 = 4321;
const SHA256: [u8; 32] = [7; 32];

fn peer(rng: &mut Rng) -> Option<[u8; 4]> {
    maybe(rng, |rng| {
        let mut peer = [0; 4];
        rng.fill(&mut peer);
        peer
    })
}

fn of(rng: &mut Rng) -> BondRef {
    let mut routing = [0; 6];
    rng.fill(&mut routing);
    BondRef {
        bond: Seq(rng.next_u64()),
        routing,
        pid: PID,
    }
}

fn role(rng: &mut Rng) -> BondRole {
    [BondRole::Host, BondRole::Guest][rng.index(2)]
}

fn file_event(kind: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    let (of, name, size) = (of(rng), "notes.md".to_owned(), rng.below(1 << 18));
    Some(match kind {
        EventKind::BondFileSent => AgentEvent::BondFileSent(BondFileSent {
            of,
            name,
            size,
            total: rng.next_u64(),
            note_chars: 12,
            sha256: maybe(rng, digest),
        }),
        EventKind::BondFileBlocked => AgentEvent::BondFileBlocked(BondFileBlocked {
            of,
            way: [FileWay::Outgoing, FileWay::Incoming][rng.index(2)],
            name,
            reason: "blocked_type".to_owned(),
            peer: peer(rng),
        }),
        EventKind::BondOffered => AgentEvent::BondOffered(BondOffered {
            of,
            id: "f1".to_owned(),
            name,
            size,
            file_type: "markdown".to_owned(),
            sha256: digest(rng),
            peer: peer(rng),
            rules: vec!["role-marker".to_owned(); rng.index(3)],
        }),
        EventKind::BondDecided => AgentEvent::BondDecided(BondDecided {
            of,
            offer: Seq(rng.next_u64()),
            id: "f1".to_owned(),
            name,
            size,
            sha256: digest(rng),
            peer: peer(rng),
            verdict: [Verdict::Accepted, Verdict::Declined][rng.index(2)],
            by: [DecidedBy::Form, DecidedBy::Operator, DecidedBy::Tool][rng.index(3)],
        }),
        EventKind::BondFilePlaced => AgentEvent::BondFilePlaced(BondFilePlaced {
            of,
            offer: Seq(rng.next_u64()),
            path: "/state/incoming/notes.md".to_owned(),
            size,
        }),
        _ => return None,
    })
}

/// An event of a kind about sealed sessions.
pub(super) fn event(kind: EventKind, rng: &mut Rng) -> Option<AgentEvent> {
    let of = of(rng);
    Some(match kind {
        EventKind::BondOpened => AgentEvent::BondOpened(BondOpened {
            session: session(rng),
            pid: PID,
            process_start: rng.next_u64(),
            role: role(rng),
            mode: [BondMode::Legacy, BondMode::Own][rng.index(2)],
            routing: of.routing,
        }),
        EventKind::BondAdvanced => AgentEvent::BondAdvanced(BondAdvanced {
            of,
            role: role(rng),
            step: [
                BondStep::PeerJoined,
                BondStep::Keyed,
                BondStep::Confirmed,
                BondStep::PeerGone,
                BondStep::RelayLost,
                BondStep::RelayBack,
            ][rng.index(6)],
            peer: peer(rng),
        }),
        EventKind::BondEnded => AgentEvent::BondEnded(BondEnded {
            of,
            end: [
                BondEnd::Tool,
                BondEnd::Operator,
                BondEnd::Aborted,
                BondEnd::Expired,
                BondEnd::Quit,
                BondEnd::RelayLost,
                BondEnd::PeerGone,
            ][rng.index(7)],
            reason: ["", "wrong_tag"][rng.index(2)].to_owned(),
        }),
        EventKind::BondSaid => AgentEvent::BondSaid(BondSaid { of, chars: 17 }),
        EventKind::BondHeard => AgentEvent::BondHeard(BondHeard { of, messages: 2 }),
        EventKind::BondDropped => AgentEvent::BondDropped(BondDropped {
            of,
            what: [
                DropKind::ChatMalformed,
                DropKind::Replay,
                DropKind::Undecryptable,
                DropKind::Other,
            ][rng.index(4)],
            reason: "stale".to_owned(),
            count: 1,
            peer: peer(rng),
        }),
        EventKind::BondPin => AgentEvent::BondPin(BondPin {
            of,
            step: PinStep::ALL[rng.index(PinStep::ALL.len())],
            key: maybe(rng, key),
            name: "ann".to_owned(),
            by: maybe(rng, |_| DecidedBy::Form),
        }),
        EventKind::BondGap => AgentEvent::BondGap(BondGap { of, missed: 3 }),
        EventKind::BondFailed => AgentEvent::BondFailed(BondFailed {
            session: session(rng),
            pid: PID,
            bond: maybe(rng, |rng| Seq(rng.next_u64())),
            call: "bond_send".to_owned(),
            reason: "not confirmed".to_owned(),
        }),
        kind => return file_event(kind, rng),
    })
}

/// A history of sealed sessions in which every kind of event occurs, and every refusal is avoided.
pub fn bond_history(run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let mut bond = |command| match run(AgentCommand::Bond(command)) {
        AgentReply::Bond { seq } => seq,
        other => unreachable!("{other:?}"),
    };
    let session = SessionId::parse("s1").unwrap();
    let failed = |call: &str, bond| BondCommand::Failed {
        session: session.clone(),
        pid: PID,
        bond,
        call: call.to_owned(),
        reason: "the relay answered 503".to_owned(),
    };
    bond(failed("bond_connect", None));
    let mut open = |role, mode| {
        bond(BondCommand::Open {
            session: session.clone(),
            pid: PID,
            process_start: 99,
            role,
            mode,
            routing: [0xab; 6],
        })
        .unwrap()
    };
    let host = open(BondRole::Host, BondMode::Legacy);
    let guest = open(BondRole::Guest, BondMode::Own);
    let peer = Some([0x11, 0x22, 0x33, 0x44]);
    let mut tell = |bond_at, news| {
        bond(BondCommand::Tell {
            bond: bond_at,
            pid: PID,
            news,
        })
    };
    for step in [
        BondStep::PeerJoined,
        BondStep::Keyed,
        BondStep::Confirmed,
        BondStep::RelayLost,
        BondStep::RelayBack,
    ] {
        tell(host, BondNews::Advanced { step, peer });
    }
    tell(host, BondNews::Said { chars: 12 });
    tell(host, BondNews::Heard { messages: 2 });
    tell(
        host,
        BondNews::FileSent {
            name: "a\u{202e}b.md".to_owned(),
            size: 700,
            total: 700,
            note_chars: 3,
            sha256: Some(SHA256),
        },
    );
    for (way, name) in [(FileWay::Outgoing, "id_rsa"), (FileWay::Incoming, "")] {
        tell(
            host,
            BondNews::FileBlocked {
                way,
                name: name.to_owned(),
                reason: "blocked_type".to_owned(),
                peer,
            },
        );
    }
    let mut offers = vec![];
    for id in ["f1", "f2"] {
        let offered = BondNews::Offered {
            id: id.to_owned(),
            name: "notes.md".to_owned(),
            size: 5,
            file_type: "markdown".to_owned(),
            sha256: SHA256,
            peer,
            rules: vec!["role-marker".to_owned()],
        };
        offers.push(tell(host, offered).unwrap());
    }
    for what in [
        DropKind::ChatMalformed,
        DropKind::Replay,
        DropKind::Undecryptable,
        DropKind::Other,
    ] {
        tell(
            host,
            BondNews::Dropped {
                what,
                reason: "stale".to_owned(),
                count: 1,
                peer,
            },
        );
    }
    tell(host, BondNews::Gap { missed: 4 });
    let step = BondStep::PeerGone;
    tell(host, BondNews::Advanced { step, peer: None });
    for (at, end) in [
        (host, BondEnd::Tool),
        (host, BondEnd::Expired),
        (guest, BondEnd::Aborted),
    ] {
        let reason = "wrong_tag".to_owned();
        tell(at, BondNews::Ended { end, reason });
    }
    let decisions = [Verdict::Accepted, Verdict::Declined];
    for (offer, verdict) in offers.iter().zip(decisions) {
        for _ in 0..2 {
            bond(BondCommand::Decide {
                offer: *offer,
                pid: PID,
                sha256: SHA256,
                verdict,
                by: DecidedBy::Operator,
            });
        }
    }
    bond(BondCommand::Placed {
        offer: offers[0],
        pid: PID,
        path: "/state/incoming/notes.md".to_owned(),
        size: 5,
    });
    bond(failed("bond_send", Some(host)));
}

/// Two sides of a sealed session pin each other, with every step that there is.
pub fn pin_history(run: &mut dyn FnMut(AgentCommand) -> AgentReply) {
    let mut bond = |command| match run(AgentCommand::Bond(command)) {
        AgentReply::Bond { seq } => seq,
        other => unreachable!("{other:?}"),
    };
    let opened = bond(BondCommand::Open {
        session: SessionId::parse("s1").unwrap(),
        pid: PID,
        process_start: 99,
        role: BondRole::Host,
        mode: BondMode::Own,
        routing: [0xab; 6],
    });
    let peer = PublicKey::from_bytes([0x22; 32]);
    for step in PinStep::ALL {
        let (key, by) = match step {
            PinStep::Asked => (None, Some(DecidedBy::Form)),
            PinStep::Sent | PinStep::Refused => (None, None),
            PinStep::Received | PinStep::Conflicted | PinStep::Met => (Some(peer), None),
            PinStep::Declined | PinStep::Pinned => (Some(peer), Some(DecidedBy::Operator)),
        };
        bond(BondCommand::Tell {
            bond: opened.unwrap(),
            pid: PID,
            news: BondNews::Pin {
                step,
                key,
                name: "an\u{202e}n".to_owned(),
                by,
            },
        });
    }
}
