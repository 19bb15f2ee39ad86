//! When a host is woken.
//!
//! Hosts drop pushes silently, so that a host took a notice proves nothing. A notice counts as
//! followed up only when a reader said so ([`observed`](Notice::observed)); until then it is
//! offered again, first after five minutes, then every half hour, for as long as mail waits. At most
//! one notice of a session is outstanding; later arrivals join it.
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
use crate::types::limit::{NOTICE_LATER_OFFER_MS, NOTICE_RETRY_MS, NOTICE_SECOND_OFFER_MS};
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

/// Wait in milliseconds after the host took hand-off number `offers` (from 1) and nobody followed.
#[must_use]
pub const fn offer_ms(offers: u32) -> u64 {
    if offers <= 1 {
        NOTICE_SECOND_OFFER_MS
    } else {
        NOTICE_LATER_OFFER_MS
    }
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
        NoticePhase::Accepted => (offer_ms(notice.offers), 1),
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
