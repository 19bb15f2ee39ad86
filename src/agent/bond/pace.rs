//! How often a relay is asked.
//!
//! A relay of ours holds an empty answer back for some seconds, so asking again at once costs
//! nothing; one that answers at once is asked at the pace that such relays expect. Failures double
//! the pause. Jitter keeps two clients of one relay, and many clients after its restart, apart.

use std::time::Duration;

use super::relay::RelayFailure;

/// After an answer that brought something: more may follow.
const BUSY: Duration = Duration::from_millis(150);
/// After an empty answer that the relay held back.
const HELD: Duration = Duration::from_millis(50);
/// After an empty answer that came at once.
const EMPTY: Duration = Duration::from_millis(2_500);
/// An empty answer that took so long was held back.
const HOLDS: Duration = Duration::from_millis(1_000);
/// After the first failure.
const FIRST_FAILURE: Duration = Duration::from_secs(1);
/// After any number of them.
const LONGEST: Duration = Duration::from_secs(30);

/// The pace of one session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    failures: u32,
}

impl Pace {
    /// The pause after an answer. `jitter` is any number.
    pub fn answered(&mut self, messages: usize, took: Duration, jitter: u32) -> Duration {
        self.failures = 0;
        let pause = match (messages, took >= HOLDS) {
            (0, true) => HELD,
            (0, false) => EMPTY,
            _ => BUSY,
        };
        vary(pause, jitter)
    }

    /// The pause after a failure: never shorter than the relay wants.
    pub fn failed(&mut self, failure: &RelayFailure, jitter: u32) -> Duration {
        let pause = FIRST_FAILURE
            .saturating_mul(1 << self.failures.min(5))
            .min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let wanted = Duration::from_millis(failure.retry_after_ms.unwrap_or(0));
        vary(pause, jitter).max(wanted.saturating_add(pause / 10))
    }
}

/// Four fifths to six fifths of it.
fn vary(pause: Duration, jitter: u32) -> Duration {
    let fifths = pause / 5;
    let part = fifths.saturating_mul(2) / 1000;
    (pause - fifths).saturating_add(part.saturating_mul(jitter % 1000))
}

#[cfg(test)]
mod tests {
    use super::super::relay::FailureKind;
    use super::*;

    fn failure(retry_after_ms: Option<u64>) -> RelayFailure {
        RelayFailure {
            kind: FailureKind::Unreachable,
            code: None,
            detail: String::new(),
            retry_after_ms,
        }
    }

    #[test]
    fn a_relay_that_holds_polls_is_asked_again_at_once() {
        let mut pace = Pace::default();
        let ms = Duration::from_millis;
        for jitter in [0, 1, 999, u32::MAX] {
            assert!(pace.answered(0, ms(4_000), jitter) <= ms(60));
            let idle = pace.answered(0, ms(5), jitter);
            assert!((ms(2_000)..=ms(3_000)).contains(&idle), "{idle:?}");
            assert!(pace.answered(3, ms(5), jitter) < ms(200));
        }
    }

    #[test]
    fn failures_double_the_pause_and_the_relays_wish_is_honoured() {
        let mut pace = Pace::default();
        let mut last = Duration::ZERO;
        for _ in 0..5 {
            let pause = pace.failed(&failure(None), 500);
            assert!(pause > last);
            last = pause;
        }
        for _ in 0..50 {
            assert!(pace.failed(&failure(None), 999) <= LONGEST.saturating_mul(2));
        }
        assert!(pace.failed(&failure(Some(45_000)), 0) >= Duration::from_secs(45));
        pace.answered(1, Duration::ZERO, 0);
        assert!(pace.failed(&failure(None), 0) < Duration::from_secs(2));
        assert!(pace.failed(&failure(Some(7_000)), 0) >= Duration::from_secs(7));
    }
}
