//! What is recorded of sealed sessions.
//!
//! None of these carries a lease: a sealed session lives in the memory of the process that opened it,
//! whoever owns the conversation by now, and what happened to it is recorded in any case. A decision
//! about a file names the hash that was shown, and counts once.

use super::{AgentReply, Decided, granted, nothing, refuse};
use crate::domain::projection::agent::{BondRow, BondState, OfferRow, OfferState};
use crate::domain::query::agent as query;
use crate::domain::tables::{TableError, TableReader};
use crate::domain::{Decision, NewEvent};
use crate::event::agent::{
    AgentEvent, BondAdvanced, BondDecided, BondDropped, BondEnd, BondEnded, BondFailed,
    BondFileBlocked, BondFilePlaced, BondFileSent, BondGap, BondHeard, BondMode, BondOffered,
    BondOpened, BondPin, BondRef, BondRole, BondSaid, BondStep, DecidedBy, DropKind, FileWay,
    PeerPrefix, PinStep, Routing, Verdict,
};
use crate::types::id::{PublicKey, SessionId};
use crate::types::limit::{
    MAX_BOND_CALL_BYTES, MAX_BOND_NAME_BYTES, MAX_BOND_OFFER_ID_BYTES, MAX_BOND_RULES,
    MAX_PATH_BYTES, MAX_REASON_BYTES,
};
use crate::types::seq::Seq;
use crate::types::text::visible;

use super::cut;

/// Something about sealed sessions.
#[derive(Clone, Debug)]
pub enum BondCommand {
    /// A session was made or joined. Answer: [`AgentReply::Bond`] with its position.
    Open {
        /// The conversation.
        session: SessionId,
        /// The process that holds it.
        pid: u32,
        /// That process's start time; 0 where it is not known.
        process_start: u64,
        /// Which end.
        role: BondRole,
        /// How it is sealed.
        mode: BondMode,
        /// The beginning of its routing id.
        routing: Routing,
    },
    /// Something happened in a session.
    Tell {
        /// Position of its `bond_opened` record.
        bond: Seq,
        /// The process that writes.
        pid: u32,
        /// What.
        news: BondNews,
    },
    /// Somebody decided about an offered file. The same decision again changes nothing, another one
    /// is refused.
    Decide {
        /// Position of the `bond_offered` record.
        offer: Seq,
        /// The process that writes.
        pid: u32,
        /// SHA-256 of what was shown.
        sha256: [u8; 32],
        /// The decision.
        verdict: Verdict,
        /// Through what it came.
        by: DecidedBy,
    },
    /// An accepted file was written.
    Placed {
        /// Position of the `bond_offered` record.
        offer: Seq,
        /// The process that writes.
        pid: u32,
        /// Where it stands; cut to 4096 bytes.
        path: String,
        /// Its bytes.
        size: u64,
    },
    /// A call failed.
    Failed {
        /// The conversation.
        session: SessionId,
        /// The process.
        pid: u32,
        /// Position of the `bond_opened` record, where there is a session.
        bond: Option<Seq>,
        /// What was called; cut to 64 bytes.
        call: String,
        /// Why it failed; spelled out and cut to 256 bytes.
        reason: String,
    },
}

/// What happened in a sealed session. Texts are spelled out and cut when they are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BondNews {
    /// It went on.
    Advanced {
        /// The step.
        step: BondStep,
        /// The other side's prefix.
        peer: Option<PeerPrefix>,
    },
    /// It is over; a second end changes nothing.
    Ended {
        /// How.
        end: BondEnd,
        /// More about it.
        reason: String,
    },
    /// A text was sent.
    Said {
        /// UTF-16 units.
        chars: u32,
    },
    /// Texts came.
    Heard {
        /// How many.
        messages: u32,
    },
    /// A file was sent.
    FileSent {
        /// Its name.
        name: String,
        /// Its bytes.
        size: u64,
        /// Bytes of all files that were sent in this session.
        total: u64,
        /// UTF-16 units of the note.
        note_chars: u32,
        /// SHA-256 of its bytes, where it was taken.
        sha256: Option<[u8; 32]>,
    },
    /// A file was stopped.
    FileBlocked {
        /// Which way.
        way: FileWay,
        /// Its name; may be empty.
        name: String,
        /// Why, in words of this program.
        reason: String,
        /// The other side's prefix.
        peer: Option<PeerPrefix>,
    },
    /// The other side offers a file.
    Offered {
        /// The offer's id.
        id: String,
        /// The file's name.
        name: String,
        /// Its bytes.
        size: u64,
        /// What kind of file the name says.
        file_type: String,
        /// SHA-256 of its bytes.
        sha256: [u8; 32],
        /// The other side's prefix.
        peer: Option<PeerPrefix>,
        /// Names of the rules that found something.
        rules: Vec<String>,
    },
    /// Something was dropped.
    Dropped {
        /// What kind.
        what: DropKind,
        /// Why, in words of this program.
        reason: String,
        /// How many.
        count: u32,
        /// The other side's prefix.
        peer: Option<PeerPrefix>,
    },
    /// The two sides pin each other.
    Pin {
        /// What happened.
        step: PinStep,
        /// The other side's key, where it proved one.
        key: Option<PublicKey>,
        /// Its name; may be empty.
        name: String,
        /// Through what a decision came.
        by: Option<DecidedBy>,
    },
    /// The relay had let messages go.
    Gap {
        /// How many.
        missed: u64,
    },
}

/// Why something about sealed sessions is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BondRefusal {
    /// There is no such session.
    #[error("no sealed session at position {bond}")]
    NoSuchBond {
        /// The position.
        bond: Seq,
    },
    /// There is no such offer.
    #[error("no offered file at position {offer}")]
    NoSuchOffer {
        /// The position.
        offer: Seq,
    },
    /// Somebody decided otherwise before.
    #[error("the file was {} before", verdict.name())]
    DecidedBefore {
        /// The decision.
        verdict: Verdict,
    },
    /// The decision is about other bytes than those that were offered.
    #[error("the offered file has another hash than the one that was shown")]
    OtherBytes,
    /// A file that nobody accepted cannot have been written.
    #[error("nobody accepted this file")]
    NotAccepted,
}

pub(super) fn decide(tables: &dyn TableReader, next: Seq, command: &BondCommand) -> Decided {
    match command {
        BondCommand::Open {
            session,
            pid,
            process_start,
            role,
            mode,
            routing,
        } => record(
            next,
            BondOpened {
                session: session.clone(),
                pid: *pid,
                process_start: *process_start,
                role: *role,
                mode: *mode,
                routing: *routing,
            },
        ),
        BondCommand::Tell { bond, pid, news } => {
            let Some(row) = query::bond(tables, *bond)? else {
                return refuse(BondRefusal::NoSuchBond { bond: *bond }.into());
            };
            tell(next, &row, *bond, *pid, news)
        }
        BondCommand::Decide {
            offer,
            pid,
            sha256,
            verdict,
            by,
        } => {
            let row = granted!(offer_at(tables, *offer)?);
            if row.sha256 != *sha256 {
                return refuse(BondRefusal::OtherBytes.into());
            }
            match row.state {
                OfferState::Decided(before, _) if before == *verdict => return unchanged(),
                OfferState::Decided(verdict, _) => {
                    return refuse(BondRefusal::DecidedBefore { verdict }.into());
                }
                OfferState::Pending => {}
            }
            record(
                next,
                BondDecided {
                    of: BondRef {
                        pid: *pid,
                        ..row.of
                    },
                    offer: *offer,
                    id: row.id,
                    name: row.name,
                    size: row.size,
                    sha256: row.sha256,
                    peer: row.peer,
                    verdict: *verdict,
                    by: *by,
                },
            )
        }
        BondCommand::Placed {
            offer,
            pid,
            path,
            size,
        } => {
            let row = granted!(offer_at(tables, *offer)?);
            if !matches!(row.state, OfferState::Decided(Verdict::Accepted, _)) {
                return refuse(BondRefusal::NotAccepted.into());
            }
            let path = cut(path, MAX_PATH_BYTES);
            if row.path.as_deref() == Some(path.as_str()) {
                return unchanged();
            }
            let of = BondRef {
                pid: *pid,
                ..row.of
            };
            let (offer, size) = (*offer, *size);
            record(
                next,
                BondFilePlaced {
                    of,
                    offer,
                    path,
                    size,
                },
            )
        }
        BondCommand::Failed {
            session,
            pid,
            bond,
            call,
            reason,
        } => record(
            next,
            BondFailed {
                session: session.clone(),
                pid: *pid,
                bond: *bond,
                call: shown(call, MAX_BOND_CALL_BYTES),
                reason: shown(reason, MAX_REASON_BYTES),
            },
        ),
    }
}

fn tell(next: Seq, row: &BondRow, bond: Seq, pid: u32, news: &BondNews) -> Decided {
    let of = BondRef {
        bond,
        routing: row.routing,
        pid,
    };
    let reason = |text: &str| shown(text, MAX_REASON_BYTES);
    let name = |text: &str| shown(text, MAX_BOND_NAME_BYTES);
    let event: AgentEvent = match news {
        BondNews::Advanced { step, peer } => BondAdvanced {
            of,
            role: row.role,
            step: *step,
            peer: *peer,
        }
        .into(),
        BondNews::Ended { .. } if matches!(row.state, BondState::Ended(_)) => return unchanged(),
        BondNews::Ended { end, reason: why } => BondEnded {
            of,
            end: *end,
            reason: reason(why),
        }
        .into(),
        BondNews::Said { chars } => BondSaid { of, chars: *chars }.into(),
        BondNews::Heard { messages } => BondHeard {
            of,
            messages: *messages,
        }
        .into(),
        BondNews::FileSent {
            name: text,
            size,
            total,
            note_chars,
            sha256,
        } => BondFileSent {
            of,
            name: name(text),
            size: *size,
            total: *total,
            note_chars: *note_chars,
            sha256: *sha256,
        }
        .into(),
        BondNews::FileBlocked {
            way,
            name: text,
            reason: why,
            peer,
        } => BondFileBlocked {
            of,
            way: *way,
            name: name(text),
            reason: reason(why),
            peer: *peer,
        }
        .into(),
        BondNews::Offered { .. } => offer(of, news),
        BondNews::Dropped {
            what,
            reason: why,
            count,
            peer,
        } => BondDropped {
            of,
            what: *what,
            reason: reason(why),
            count: *count,
            peer: *peer,
        }
        .into(),
        BondNews::Pin {
            step,
            key,
            name: text,
            by,
        } => BondPin {
            of,
            step: *step,
            key: *key,
            name: name(text),
            by: *by,
        }
        .into(),
        BondNews::Gap { missed } => BondGap {
            of,
            missed: *missed,
        }
        .into(),
    };
    record(next, event)
}

fn offer(of: BondRef, news: &BondNews) -> AgentEvent {
    let mut event = BondOffered {
        of,
        id: String::new(),
        name: String::new(),
        size: 0,
        file_type: String::new(),
        sha256: [0; 32],
        peer: None,
        rules: vec![],
    };
    if let BondNews::Offered {
        id,
        name,
        size,
        file_type,
        sha256,
        peer,
        rules,
    } = news
    {
        event.id = shown(id, MAX_BOND_OFFER_ID_BYTES);
        event.name = shown(name, MAX_BOND_NAME_BYTES);
        event.size = *size;
        event.file_type = shown(file_type, MAX_BOND_CALL_BYTES);
        event.sha256 = *sha256;
        event.peer = *peer;
        let rules = rules.iter().take(MAX_BOND_RULES);
        event.rules = rules.map(|rule| shown(rule, MAX_BOND_CALL_BYTES)).collect();
    }
    event.into()
}

fn offer_at(
    tables: &dyn TableReader,
    offer: Seq,
) -> Result<Result<OfferRow, super::AgentRefusal>, TableError> {
    Ok(query::bond_offer(tables, offer)?.ok_or(BondRefusal::NoSuchOffer { offer }.into()))
}

/// Spelled out, and cut: a backslash that is cut in half is no escape any more, so what is left of
/// one goes too.
fn shown(text: &str, max: usize) -> String {
    let all = visible(text);
    if all.len() <= max {
        return all.into_owned();
    }
    let mut short = cut(&all, max.saturating_sub(2));
    if let Some(at) = short.rfind("\\u{")
        && !short.get(at..).is_some_and(|tail| tail.contains('}'))
    {
        short.truncate(at);
    }
    short.truncate(short.trim_end_matches("\\u").trim_end_matches('\\').len());
    short + ".."
}

fn record(next: Seq, event: impl Into<AgentEvent>) -> Decided {
    Ok(Ok(Decision {
        events: vec![NewEvent::from(event.into())],
        reply: AgentReply::Bond { seq: Some(next) },
    }))
}

fn unchanged() -> Decided {
    nothing(AgentReply::Bond { seq: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_ends_in_no_half_an_escape() {
        let hostile = "\u{202e}".repeat(100);
        for max in 4..40 {
            let text = shown(&hostile, max);
            assert!(text.len() <= max, "{text}");
            let body = text.strip_suffix("..").unwrap();
            assert_eq!(
                body.matches('\\').count(),
                body.matches('}').count(),
                "{text}"
            );
        }
        assert_eq!(shown("a\nb", 64), "a\\u{a}b");
    }
}
