//! How fast a relay is asked, and how often its faults are told.
//!
//! A relay decides what it answers, and when. One that answers at once with nothing, that gives
//! the same mail again after it was acknowledged, or that makes up mail without end must cost
//! this process little: a handful of requests a second, a line of log now and then. One that only
//! brings copies of what another relay brought before is slowed down late, because that is what a
//! catch-up looks like.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pause after an answer that came at once and brought nothing; also the time below which it did.
const EMPTY_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause after several such answers in a row.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Deliveries without news that are taken at full speed: a full queue of a usual bus, twice.
const FREE: u32 = 2048;
/// How many of these come back a second.
const REFILL: u32 = 16;
/// Acknowledged keys that are remembered.
const KEYS: usize = 256;

/// What came of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Deliveries in it.
    pub(super) deliveries: usize,
    /// Deliveries that brought something new.
    pub(super) news: usize,
    /// Whether the relay took the acknowledgements, if there were any.
    pub(super) acknowledged: bool,
}

/// The pace of one relay.
#[derive(Debug)]
pub(super) struct Pace {
    free: u32,
    refilled: Instant,
    /// Answers in a row that were no good.
    idle: u32,
    keys: VecDeque<String>,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace {
            free: FREE,
            refilled: now,
            idle: 0,
            keys: VecDeque::new(),
        }
    }

    /// Remembers what the relay was told to forget.
    pub(super) fn acknowledged(&mut self, keys: &[String]) {
        self.keys.extend(keys.iter().cloned());
        let over = self.keys.len().saturating_sub(KEYS);
        self.keys.drain(..over);
    }

    /// Whether everything in an answer was acknowledged before: the relay ignores that.
    pub(super) fn all_acknowledged<'a>(&self, mut keys: impl Iterator<Item = &'a str>) -> bool {
        !self.keys.is_empty() && keys.all(|key| self.keys.iter().any(|known| known == key))
    }

    /// The pause before the relay is asked again, after an answer that took `took`.
    pub(super) fn after(&mut self, taken: Taken, took: Duration, now: Instant) -> Duration {
        let whole = now.saturating_duration_since(self.refilled).as_secs();
        if whole > 0 {
            let back = u32::try_from(whole)
                .unwrap_or(u32::MAX)
                .saturating_mul(REFILL);
            self.free = self.free.saturating_add(back).min(FREE);
            self.refilled = now;
        }
        if taken.news > 0 {
            self.idle = 0;
            return Duration::ZERO;
        }
        if taken.deliveries == 0 {
            // A wait that ended without mail is what the relay was asked for.
            if took >= EMPTY_PAUSE {
                self.idle = 0;
                return Duration::ZERO;
            }
            return self.idle_pause();
        }
        let cost = u32::try_from(taken.deliveries).unwrap_or(u32::MAX);
        if taken.acknowledged && self.free >= cost {
            self.free -= cost;
            return Duration::ZERO;
        }
        self.idle_pause()
    }

    fn idle_pause(&mut self) -> Duration {
        self.idle = self.idle.saturating_add(1);
        (EMPTY_PAUSE * self.idle).min(MAX_PAUSE)
    }
}

/// Lines of log about what is wrong with a relay's mail: a few at once, then one in a while that
/// says how many were left out.
#[derive(Debug, Default)]
pub struct Complaints(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

/// Lines that are told as they come, before they are held back.
const AT_ONCE: u32 = 5;
/// How long they are held back then.
const HOLD: Duration = Duration::from_secs(60);

impl Complaints {
    /// Whether a line is to be written now; with how many were left out before it.
    pub fn may_say(&self, now: Instant) -> Option<u64> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = held
            .since
            .is_none_or(|since| now.saturating_duration_since(since) >= HOLD);
        if over {
            held.since = Some(now);
            held.said = 0;
        }
        if held.said >= AT_ONCE {
            held.left_out += 1;
            return None;
        }
        held.said += 1;
        Some(std::mem::take(&mut held.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Taken = Taken {
        deliveries: 0,
        news: 0,
        acknowledged: true,
    };

    fn given(deliveries: usize, news: usize) -> Taken {
        Taken {
            deliveries,
            news,
            acknowledged: true,
        }
    }

    #[test]
    fn answers_that_come_at_once_and_empty_are_asked_for_ever_more_slowly() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let pauses: Vec<u64> = (0..7)
            .map(|_| pace.after(NOTHING, Duration::ZERO, start).as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 3, 4, 5, 5, 5]);
        // A relay that waits is asked again at once, and so is one that brings something.
        let waited = Duration::from_secs(25);
        assert_eq!(pace.after(NOTHING, waited, start), Duration::ZERO);
        assert_eq!(
            pace.after(NOTHING, Duration::ZERO, start),
            Duration::from_secs(1)
        );
        assert_eq!(
            pace.after(given(1, 1), Duration::ZERO, start),
            Duration::ZERO
        );
    }

    #[test]
    fn a_catch_up_of_copies_is_fast_and_mail_without_news_for_ever_is_not() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let mut taken = 0;
        while pace.after(given(32, 0), Duration::ZERO, start).is_zero() {
            taken += 32;
            assert!(taken <= 4096, "never slowed down");
        }
        assert!(taken >= 1024, "{taken}");
        // From then on some deliveries a second.
        let later = start + Duration::from_secs(2);
        assert!(pace.after(given(32, 0), Duration::ZERO, later).is_zero());
        assert!(!pace.after(given(32, 0), Duration::ZERO, later).is_zero());
    }

    #[test]
    fn a_relay_that_ignores_acknowledgements_is_known_by_their_keys() {
        let mut pace = Pace::new(Instant::now());
        assert!(!pace.all_acknowledged(["a"].into_iter()));
        pace.acknowledged(&["a".to_owned(), "b".to_owned()]);
        assert!(pace.all_acknowledged(["a", "b"].into_iter()));
        assert!(!pace.all_acknowledged(["a", "c"].into_iter()));
        for n in 0..3 * KEYS {
            pace.acknowledged(&[n.to_string()]);
        }
        assert_eq!(pace.keys.len(), KEYS);
        let refused = Taken {
            acknowledged: false,
            ..given(1, 0)
        };
        assert!(
            !pace
                .after(refused, Duration::ZERO, Instant::now())
                .is_zero()
        );
    }

    #[test]
    fn many_faults_make_few_lines_and_none_is_forgotten() {
        let complaints = Complaints::default();
        let start = Instant::now();
        let said = (0..1000)
            .filter(|_| complaints.may_say(start).is_some())
            .count();
        assert_eq!(said, 5);
        assert_eq!(complaints.may_say(start + HOLD), Some(995));
        assert_eq!(complaints.may_say(start + HOLD), Some(0));
    }
}
