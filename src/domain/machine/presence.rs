//! How much of what relays say about presence is believed.
//!
//! An announcement is signed, so nobody can make one up. Two things around it are not: the age that
//! a relay stamps on it, and when it was posted. Whoever has seen an announcement can post it again
//! after its session has closed. So an announcement counts from the first time that it was heard,
//! never from a later one, and from its signed time at the latest, with some room for clocks that
//! differ. Only a newer signature makes a session younger; what its owner said good-bye to stays
//! closed until it signs again.

use serde::{Deserialize, Serialize};

use crate::types::id::SessionId;
use crate::types::limit::{CLOCK_SLACK_MS, LIVE_MS, PRESENCE_RETENTION_MS, SIGHTING_REFRESH_MS};
use crate::types::time::UnixMillis;

/// The newest verified announcement of a session, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// Its signed time.
    pub ts: UnixMillis,
    /// When a relay got it, by our clock; never later than at its first sighting.
    pub at: UnixMillis,
}

/// What is known of whether a session runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Heard within the last minute and a half.
    Live {
        /// Milliseconds since.
        age_ms: u64,
    },
    /// Heard within three days.
    Away {
        /// Milliseconds since.
        age_ms: u64,
    },
    /// It said good-bye and was not heard since.
    Closed,
    /// No relay shows it. Mail waits for it all the same.
    Gone,
    /// No relay could be asked.
    Unknown,
}

impl Presence {
    /// The word that people and scripts see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Presence::Live { .. } => "live",
            Presence::Away { .. } => "away",
            Presence::Closed => "closed",
            Presence::Gone => "gone",
            Presence::Unknown => "unknown",
        }
    }

    /// Milliseconds since it was heard, where that is known.
    #[must_use]
    pub const fn age_ms(self) -> Option<u64> {
        match self {
            Presence::Live { age_ms } | Presence::Away { age_ms } => Some(age_ms),
            _ => None,
        }
    }
}

/// Takes an announcement in that relays show with an age, given the newest that was known.
#[must_use]
pub fn hear(known: Option<Heard>, ts: UnixMillis, age_ms: u64, now: UnixMillis) -> Heard {
    let claimed = now.minus(age_ms);
    let seen = Heard {
        ts,
        at: claimed.min(ts.plus(CLOCK_SLACK_MS)),
    };
    match known {
        // The same one, posted again: the first time counts.
        Some(known) if known.ts == ts => Heard {
            ts,
            at: known.at.min(seen.at),
        },
        Some(known) if known.ts > ts => known,
        _ => seen,
    }
}

/// What a session is, given what was heard of it and up to which signed time it is closed.
#[must_use]
pub fn presence(heard: Heard, closed: Option<UnixMillis>, now: UnixMillis) -> Presence {
    if closed.is_some_and(|closed| heard.ts <= closed) {
        return Presence::Closed;
    }
    match now.since(heard.at) {
        age_ms if age_ms < LIVE_MS => Presence::Live { age_ms },
        age_ms if age_ms < PRESENCE_RETENTION_MS => Presence::Away { age_ms },
        _ => Presence::Gone,
    }
}

/// What a session is whose relays show an older announcement than the known one: the newer one was withdrawn, or never reached these relays. It may be asleep; it is not live.
#[must_use]
pub fn outdated(heard: Heard, closed: Option<UnixMillis>, now: UnixMillis) -> Presence {
    match presence(heard, closed, now) {
        Presence::Live { age_ms } => Presence::Away { age_ms },
        other => other,
    }
}

/// Whether a sighting is worth a record: the first one, the last one (the session is not live any
/// more, so this signature is what a replay would have to beat), and now and then in between. Never
/// one for each heartbeat.
#[must_use]
pub fn is_news(stored: Option<Heard>, heard: Heard, now: UnixMillis) -> bool {
    // A signature from the future would shut out everything until its time has come.
    if heard.ts.since(now) > CLOCK_SLACK_MS {
        return false;
    }
    match stored {
        None => true,
        Some(stored) if stored.ts >= heard.ts => false,
        Some(stored) => {
            now.since(heard.at) >= LIVE_MS || heard.at.since(stored.at) >= SIGHTING_REFRESH_MS
        }
    }
}

/// Whether a message is the good-bye of a session: the text that channel servers send at a clean
/// end. It is ordinary mail on the wire, so what counts is that the sender's key signed it, that it
/// names the session, and that the session is the sender's own.
#[must_use]
pub fn is_goodbye(text: &str, session: &SessionId) -> bool {
    const LONGEST: usize = 1024;
    text.len() <= LONGEST
        && text.starts_with("[interlink]")
        && text.contains(session.as_str())
        && text.to_ascii_lowercase().contains("goodbye")
}

/// An age in words.
#[must_use]
pub fn age_text(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..90 => format!("{s} s"),
        90..5_400 => format!("{} min", s / 60),
        5_400..172_800 => format!("{} h", s / 3600),
        _ => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn is_live(heard: Heard, now: UnixMillis) -> bool {
        matches!(presence(heard, None, now), Presence::Live { .. })
    }

    #[test]
    fn a_heartbeat_makes_a_session_live_for_a_minute_and_a_half() {
        let heard = hear(None, NOW, 0, NOW);
        assert!(is_live(heard, NOW.plus(LIVE_MS - 1)));
        assert_eq!(
            presence(heard, None, NOW.plus(LIVE_MS)),
            Presence::Away { age_ms: LIVE_MS }
        );
        assert_eq!(
            presence(heard, None, NOW.plus(PRESENCE_RETENTION_MS)),
            Presence::Gone
        );
        let next = hear(Some(heard), NOW.plus(30_000), 0, NOW.plus(30_000));
        assert!(is_live(next, NOW.plus(LIVE_MS)));
    }

    #[test]
    fn a_replayed_announcement_revives_nothing() {
        // The last heartbeat, then an hour of silence, then somebody posts it again: the relay
        // says that it heard it just now.
        let last = hear(None, NOW, 0, NOW);
        let later = NOW.plus(3_600_000);
        let replayed = hear(Some(last), NOW, 0, later);
        assert_eq!(replayed, last);
        assert!(!is_live(replayed, later));
        // An older one neither.
        assert_eq!(hear(Some(last), NOW.minus(30_000), 0, later), last);
        // Nor to somebody who never heard of the session.
        assert!(!is_live(hear(None, NOW, 0, later), later));
        assert!(matches!(outdated(last, None, NOW), Presence::Away { .. }));
        // A restart of the session does.
        assert!(is_live(hear(Some(last), later, 0, later), later));
    }

    #[test]
    fn a_good_bye_holds_until_the_session_signs_again() {
        let heard = hear(None, NOW, 0, NOW);
        let closed = Some(NOW.plus(10));
        assert_eq!(presence(heard, closed, NOW), Presence::Closed);
        let back = hear(Some(heard), NOW.plus(20), 0, NOW.plus(20));
        assert!(matches!(
            presence(back, closed, NOW.plus(20)),
            Presence::Live { .. }
        ));
    }

    #[test]
    fn a_good_bye_names_its_session() {
        let session = SessionId::parse("s-1").unwrap();
        for (text, goodbye) in [
            (
                "[interlink] session s-1 is closing. Goodbye; run discover.",
                true,
            ),
            (
                "[interlink] session s-2 is closing. Goodbye; run discover.",
                false,
            ),
            ("session s-1 is closing. Goodbye", false),
            ("[interlink] s-1 says hello", false),
        ] {
            assert_eq!(is_goodbye(text, &session), goodbye, "{text}");
        }
    }

    #[test]
    fn clocks_may_differ_a_little() {
        let behind = hear(None, NOW.minus(CLOCK_SLACK_MS), 0, NOW);
        assert!(is_live(behind, NOW));
        let ahead = hear(None, NOW.plus(CLOCK_SLACK_MS), 0, NOW);
        assert!(is_live(ahead, NOW));
        let far = hear(None, NOW.minus(3_600_000), 0, NOW);
        assert!(!is_live(far, NOW));
    }

    #[test]
    fn heartbeats_are_not_records() {
        let first = hear(None, NOW, 0, NOW);
        assert!(is_news(None, first, NOW));
        let mut records = 0;
        let mut stored = first;
        for beat in 1..=120 {
            let now = NOW.plus(beat * 30_000);
            let heard = hear(Some(stored), now, 0, now);
            if is_news(Some(stored), heard, now) {
                records += 1;
                stored = heard;
            }
        }
        assert_eq!(records, 6, "one in ten minutes");
        // The last one is kept exactly, so that it cannot be played again.
        let last = Heard {
            ts: stored.ts.plus(30_000),
            at: stored.at.plus(30_000),
        };
        assert!(!is_news(Some(stored), last, last.at));
        assert!(is_news(Some(stored), last, last.at.plus(LIVE_MS)));
        assert!(!is_news(Some(last), last, last.at.plus(LIVE_MS)));
        // A clock that runs far ahead does not shut the session out for ever.
        let ahead = hear(None, NOW.plus(3_600_000), 0, NOW);
        assert!(!is_news(None, ahead, NOW));
    }

    #[test]
    fn ages_are_told_in_words() {
        for (ms, text) in [
            (0, "0 s"),
            (89_999, "89 s"),
            (90_000, "1 min"),
            (5_399_000, "89 min"),
            (5_400_000, "1 h"),
            (172_799_000, "47 h"),
            (172_800_000, "2 days"),
        ] {
            assert_eq!(age_text(ms), text);
        }
    }
}
