//! When a host is woken.
//!
//! Hosts drop pushes silently, so that a host took a notice proves nothing. A notice counts as
//! followed up only when a reader said so ([`observed`](Notice::observed)); until then it is
//! offered again, by another way if there is one ([`turn`]), first after five minutes at the latest,
//! then every half hour, for as long as mail waits. At most one notice of a session is outstanding;
//! later arrivals join it.
//!
//! ```text
//!            due            accepted                  observed
//! (none) ---------> Reserved ------> Accepted ------------------> observed
//!                    ^  |  ^            |                            |
//!          retry due |  |  +------------+ nobody followed up         |
//!                    |  v failed                                     |
//!                    +- Failed            newer mail: a new notice <-+
//! ```
//!
//! Wall clocks jump: a due time that lies further ahead than its wait ever was counts as passed.

use serde::{Deserialize, Serialize};

use crate::event::agent::NoticePath;
use crate::types::limit::{
    NOTICE_LATER_OFFER_MS, NOTICE_QUEUED_OFFER_MS, NOTICE_RETRY_MS, NOTICE_SECOND_OFFER_MS,
};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// How far a hand-off came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoticePhase {
    /// It began.
    Reserved,
    /// The host took the notice.
    Accepted,
    /// The host did not take it.
    Failed,
}

/// The notice of a session, as the schedule sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How far the last hand-off came.
    pub phase: NoticePhase,
    /// Whether a reader followed it up.
    pub observed: bool,
    /// Position of the newest message that it speaks for.
    pub covered: Seq,
    /// Consecutive hand-offs without success.
    pub attempt: u32,
    /// The way of the last hand-off.
    pub path: NoticePath,
    /// Hand-offs that the host took.
    pub offers: u32,
    /// When to act on it again.
    pub due: UnixMillis,
}

/// What waits for a session's reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Unread messages that are worth waking somebody.
    pub attention: usize,
    /// What is new about pairing.
    pub news: usize,
    /// Position of the newest of them all.
    pub newest: Seq,
}

/// What to do about a session's notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextNotice {
    /// Nothing, until the mailbox changes or a reader acts.
    Idle,
    /// Nothing before this time.
    Wait {
        /// When to look again.
        until: UnixMillis,
    },
    /// Begin a new notice.
    New,
    /// Hand the current one over again.
    Again {
        /// Number of this hand-off since the last success.
        attempt: u32,
    },
}

/// Wait in milliseconds after hand-off number `attempt` (from 1) that failed or never ended.
#[must_use]
pub fn retry_ms(attempt: u32) -> u64 {
    let last = NOTICE_RETRY_MS.len() - 1;
    let at = usize::try_from(attempt.saturating_sub(1)).map_or(last, |i| i.min(last));
    NOTICE_RETRY_MS.get(at).copied().unwrap_or(300_000)
}

/// Wait in milliseconds after the host took hand-off number `offers` (from 1) by `path` and nobody
/// followed.
///
/// What stands in a host's own durable queue is not lost, and a second one would pile up behind it;
/// it is offered again only because a queue can be purged.
#[must_use]
pub const fn offer_ms(path: NoticePath, offers: u32) -> u64 {
    match path {
        NoticePath::HostQueue => NOTICE_QUEUED_OFFER_MS,
        _ if offers <= 1 => NOTICE_SECOND_OFFER_MS,
        _ => NOTICE_LATER_OFFER_MS,
    }
}

/// Wait in milliseconds after a turn began with the notice: the model saw it.
#[must_use]
pub const fn later_offer_ms() -> u64 {
    NOTICE_LATER_OFFER_MS
}

/// Whose turn it is, among the ways that are open now, the best first. `None` when there is none.
///
/// A new notice goes the way that proved to work last, else the best one. One that failed or stays
/// without an answer goes the next way, round and round. So no two ways carry one notice at the
/// same time.
#[must_use]
pub fn turn(
    open: &[NoticePath],
    confirmed: Option<NoticePath>,
    notice: Option<&Notice>,
) -> Option<NoticePath> {
    let first = || {
        let known = confirmed.filter(|path| open.contains(path));
        known.or_else(|| open.first().copied())
    };
    let Some(last) = notice.filter(|notice| !notice.observed) else {
        return first();
    };
    let Some(at) = open.iter().position(|path| *path == last.path) else {
        return first();
    };
    open.get(at + 1).or_else(|| open.first()).copied()
}

/// What to do now.
#[must_use]
pub fn next(notice: Option<&Notice>, waiting: Waiting, now: UnixMillis) -> NextNotice {
    if waiting.attention == 0 && waiting.news == 0 {
        return NextNotice::Idle;
    }
    let Some(notice) = notice else {
        return NextNotice::New;
    };
    if notice.observed {
        return if waiting.newest > notice.covered {
            NextNotice::New
        } else {
            NextNotice::Idle
        };
    }
    let (wait, attempt) = match notice.phase {
        NoticePhase::Accepted => (offer_ms(notice.path, notice.offers), 1),
        NoticePhase::Reserved | NoticePhase::Failed => {
            (retry_ms(notice.attempt), notice.attempt.saturating_add(1))
        }
    };
    let remaining = notice.due.since(now);
    if remaining == 0 || remaining > wait {
        NextNotice::Again { attempt }
    } else {
        NextNotice::Wait { until: notice.due }
    }
}

/// A notice that shall be handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeView {
    /// Its id, 8 lowercase hexadecimal digits.
    pub id: String,
    /// The way to try.
    pub path: NoticePath,
    /// The way that the host took it before without anybody following up, if any.
    pub unanswered: Option<NoticePath>,
    /// Number of this hand-off since the last success, from 1.
    pub attempt: u32,
    /// Hand-offs that the host took before.
    pub offers: u32,
    /// Unread messages that are worth waking somebody.
    pub attention: usize,
    /// What is new about pairing: it is in the pairing lists, not in the mailbox.
    pub news: usize,
}

/// Answer to the question what to do about waking the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeStep {
    /// Nothing, until the mailbox changes or a reader acts.
    Idle,
    /// Nothing before this time.
    Wait {
        /// When to look again.
        until: UnixMillis,
    },
    /// Hand this over; it is reserved.
    Offer(NoticeView),
}
