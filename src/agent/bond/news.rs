//! What happened in a sealed session, kept until the next answer of a tool takes it along.
//!
//! A peer can write faster than a model asks, so the queue is bounded: past its bounds words are
//! counted instead of kept, and the count is told. What the session itself has to say always finds
//! room, because there is little of it: what may repeat is folded into one event.

use std::collections::VecDeque;

use crate::types::time::UnixMillis;

/// Events that wait at most.
const MAX_EVENTS: usize = 256;
/// Bytes of texts that wait at most.
const MAX_BYTES: usize = 1024 * 1024;
/// Bytes of texts in one answer, beyond its first event.
const ANSWER_BYTES: usize = 24 * 1024;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody came.
    Joined,
    /// The other side proved that it knows the code.
    Confirmed,
    /// Words of the peer.
    Message,
    /// A file waits for the user's decision.
    FileOffered,
    /// The user took a file in a terminal.
    FileAccepted,
    /// The user refused a file in a terminal.
    FileDeclined,
    /// An accepted file is there, after nobody waited for it any more.
    FileArrived,
    /// The other side's human took a file of ours.
    FileTaken,
    /// The other side's human declined a file of ours.
    FileNotTaken,
    /// A file of ours is on the other side's disk.
    FileDelivered,
    /// A file does not move any more.
    FileFailed,
    /// A file was refused before anybody was asked.
    FileRejected,
    /// The peer left.
    PeerLeft,
    /// The relay does not know the session any more.
    RelayLost,
    /// Its time is over.
    Expired,
    /// It was given up.
    Aborted,
    /// The user ended it in a terminal.
    Ended,
    /// The relay threw messages away.
    Gap,
    /// Something could not be trusted.
    Dropped,
    /// The relay behaves oddly.
    RelayOdd,
    /// The relay lost the session or the peer is silent; it goes on by itself.
    Interrupted,
    /// It goes on.
    Resumed,
    /// The other side never got so much.
    Undelivered,
    /// The other side wants to be pinned.
    PinAsked,
    /// It is a peer now.
    Pinned,
    /// The user agreed, but it could not be admitted.
    PinFailed,
    /// So many were not kept.
    More,
}

impl Kind {
    /// The word that a model sees.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Joined => "joined",
            Kind::Confirmed => "confirmed",
            Kind::Message => "message",
            Kind::FileOffered => "file_offered",
            Kind::FileAccepted => "file_accepted",
            Kind::FileDeclined => "file_declined",
            Kind::FileArrived => "file_arrived",
            Kind::FileTaken => "file_taken",
            Kind::FileNotTaken => "file_not_taken",
            Kind::FileDelivered => "file_delivered",
            Kind::FileFailed => "file_failed",
            Kind::FileRejected => "file_rejected",
            Kind::PeerLeft => "peer_left",
            Kind::RelayLost => "relay_lost",
            Kind::Expired => "expired",
            Kind::Aborted => "aborted",
            Kind::Ended => "ended",
            Kind::Gap => "gap",
            Kind::Dropped => "dropped",
            Kind::RelayOdd => "relay_odd",
            Kind::Interrupted => "interrupted",
            Kind::Resumed => "resumed",
            Kind::Undelivered => "undelivered",
            Kind::PinAsked => "pin_asked",
            Kind::Pinned => "pinned",
            Kind::PinFailed => "pin_failed",
            Kind::More => "more",
        }
    }

    /// Whether the peer or the relay can bring about as many as it likes.
    const fn is_theirs(self) -> bool {
        matches!(
            self,
            Kind::Message | Kind::FileOffered | Kind::FileRejected | Kind::Gap | Kind::Dropped
        )
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// When.
    pub at: UnixMillis,
    /// The file that it is about.
    pub transfer: Option<String>,
    /// In words, ready to be shown: a peer's stand between markers.
    pub text: String,
}

/// The events that wait.
#[derive(Debug, Default)]
pub struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    lost: u64,
}

impl Queue {
    /// How many wait, those that were not kept included as one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len().saturating_add(usize::from(self.lost > 0))
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one. The same trouble twice in a row is one event.
    pub fn push(&mut self, event: Event) {
        let repeats = |last: &Event| {
            matches!(event.kind, Kind::Dropped | Kind::Gap | Kind::FileRejected)
                && last.kind == event.kind
                && last.text == event.text
        };
        if let Some(last) = self.events.back_mut().filter(|last| repeats(last)) {
            last.at = event.at;
            return;
        }
        let bytes = self.bytes.saturating_add(event.text.len());
        let full = self.events.len() >= MAX_EVENTS || bytes > MAX_BYTES;
        if full && event.kind.is_theirs() {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        self.bytes = bytes;
        self.events.push_back(event);
    }

    /// Takes out what fits into an answer, oldest first; the rest waits for the next.
    pub fn take(&mut self, now: UnixMillis) -> Vec<Event> {
        let mut out = vec![];
        let mut bytes = 0usize;
        while let Some(event) = self.events.front() {
            bytes = bytes.saturating_add(event.text.len());
            if bytes > ANSWER_BYTES && !out.is_empty() {
                return out;
            }
            self.bytes = self.bytes.saturating_sub(event.text.len());
            out.extend(self.events.pop_front());
        }
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            out.push(Event {
                kind: Kind::More,
                at: now,
                transfer: None,
                text: format!(
                    "{lost} more events came faster than they were fetched and are lost."
                ),
            });
        }
        out
    }

    /// Forgets what a file's offer said, once it is decided.
    pub fn forget_offer(&mut self, transfer: &str) {
        self.events.retain(|event| {
            event.kind != Kind::FileOffered || event.transfer.as_deref() != Some(transfer)
        });
        self.bytes = self.events.iter().map(|event| event.text.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, text: &str) -> Event {
        Event {
            kind,
            at: UnixMillis(1),
            transfer: None,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_flood_of_words_is_counted_and_what_the_session_says_still_finds_room() {
        let mut queue = Queue::default();
        for n in 0..1000 {
            queue.push(event(Kind::Message, &n.to_string()));
        }
        queue.push(event(Kind::PeerLeft, "gone"));
        let mut all = vec![];
        while !queue.is_empty() {
            all.extend(queue.take(UnixMillis(2)));
        }
        assert_eq!(all.len(), MAX_EVENTS + 2);
        assert_eq!(all[MAX_EVENTS].kind, Kind::PeerLeft);
        assert!(all[MAX_EVENTS + 1].text.starts_with("744 more"));
        let long = "x".repeat(MAX_BYTES / 4);
        for _ in 0..9 {
            queue.push(event(Kind::Message, &long));
        }
        assert_eq!(queue.len(), 5);
        assert_eq!(queue.take(UnixMillis(2)).len(), 1);
        assert_eq!(queue.take(UnixMillis(2)).len(), 1);
    }

    #[test]
    fn the_same_trouble_again_is_one_event() {
        let mut queue = Queue::default();
        for _ in 0..9 {
            queue.push(event(Kind::Dropped, "stale"));
        }
        queue.push(event(Kind::Message, "a"));
        queue.push(event(Kind::Message, "a"));
        assert_eq!(queue.take(UnixMillis(2)).len(), 3);
    }
}
