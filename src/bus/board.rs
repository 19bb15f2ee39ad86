//! The presence board: who was heard of, and how long ago.
//!
//! What a session says is durable before it is answered; that it said the same again is not worth
//! a sync. Such heartbeats only refresh this memory, and reach the log together, at most once a
//! flush. The board follows the log (it is changed by committed records, in their order), so it
//! and the stored rows agree but for the age of the last flush.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::crypto::hash::sha256;
use crate::domain::projection::bus::{PresenceTimeRow, RosterRow};
use crate::domain::tables::{TableError, TableId, scan_rows};
use crate::event::Recorded;
use crate::event::bus::{BusEvent, SeenAt, SignedAt};
use crate::event::bus_room::{queue_event, relay_event};
use crate::store::Snapshot;
use crate::types::limit::PRESENCE_RETENTION_MS;
use crate::types::time::UnixMillis;
use crate::wire::announce::{Announcement, ReadAnnouncementError};

/// An announcement cannot be put on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BoardError {
    /// There is no string member `pubkey`.
    #[error("an announcement is a JSON object with a string member `pubkey`")]
    NoKey,
}

/// An announcement as it was posted.
#[derive(Debug)]
pub(super) struct Posted {
    /// Board key: `pubkey#session`, or the bare `pubkey`.
    pub(super) entry: String,
    /// JSON text of an object, without `age_ms`.
    pub(super) text: Vec<u8>,
    /// Digest of what it says, without time and signature.
    content: [u8; 32],
}

impl Posted {
    /// Takes an announcement apart. Nothing is verified: readers believe the signature, not the
    /// bus.
    pub(super) fn read(value: Value) -> Result<Posted, BoardError> {
        let Value::Object(mut members) = value else {
            return Err(BoardError::NoKey);
        };
        // The bus writes this one itself, whenever the board is read.
        members.remove("age_ms");
        let Some(Value::String(key)) = members.get("pubkey") else {
            return Err(BoardError::NoKey);
        };
        let session = members
            .get("session")
            .and_then(|session| session.get("session_id"))
            .and_then(Value::as_str)
            .filter(|session| !session.is_empty());
        let entry = match session {
            Some(session) => format!("{key}#{session}"),
            None => key.clone(),
        };
        let text = Value::Object(members.clone()).to_string().into_bytes();
        members.remove("ts");
        members.remove("sig");
        let content = sha256(Value::Object(members).to_string().as_bytes());
        Ok(Posted {
            entry,
            text,
            content,
        })
    }

    /// When it was signed, if its key signed exactly this.
    ///
    /// # Errors
    ///
    /// [`ReadAnnouncementError`].
    pub(super) fn signed_at(&self) -> Result<UnixMillis, ReadAnnouncementError> {
        let text = String::from_utf8_lossy(&self.text);
        let announcement = Announcement::from_json(&text)?;
        announcement.verify()?;
        Ok(announcement.ts)
    }

    fn from_text(text: &[u8]) -> Option<Posted> {
        Posted::read(serde_json::from_slice(text).ok()?).ok()
    }
}

#[derive(Debug)]
struct Seat {
    text: Vec<u8>,
    content: [u8; 32],
    last_seen: UnixMillis,
    /// Heard of since the last flush.
    dirty: bool,
}

/// What a heartbeat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The session says what it said before; this memory is refreshed.
    Again,
    /// It says something new, which the log has to know.
    News,
    /// It was signed no later than something that was accepted before.
    Stale {
        /// Signed time of that.
        newest: UnixMillis,
    },
}

#[derive(Debug, Default)]
struct Seats {
    seats: HashMap<String, Seat>,
    /// Newest signed times, where signatures are checked: of the log, and of heartbeats that are
    /// on their way there.
    times: HashMap<String, UnixMillis>,
}

/// The board. Its lock is never held across an await.
#[derive(Debug, Default)]
pub(super) struct Board {
    seats: Mutex<Seats>,
    /// Whether signatures are checked.
    verifies: bool,
}

/// Heartbeats that wait for the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Heartbeats {
    /// When each session was heard of.
    pub(super) seen: Vec<SeenAt>,
    /// When it had signed that, where signatures are checked.
    pub(super) signed: Vec<SignedAt>,
}

impl Board {
    /// A board that checks signatures, or one that does not.
    pub(super) fn new(verifies: bool) -> Board {
        Board {
            verifies,
            ..Board::default()
        }
    }

    /// Whether announcements must be signed.
    pub(super) fn verifies(&self) -> bool {
        self.verifies
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the stored rows; ages go on counting. Returns the sessions that have no place
    /// on a board that checks signatures: they were announced before it did.
    pub(super) fn load(&self, snapshot: &Snapshot) -> Result<Vec<String>, TableError> {
        let mut unsigned = vec![];
        let mut board = self.lock();
        scan_rows::<RosterRow>(snapshot, TableId::Roster, &[], |key, row| {
            let entry = String::from_utf8_lossy(key).into_owned();
            let Some(posted) = Posted::from_text(&row.announcement) else {
                return Ok(ControlFlow::Continue(()));
            };
            if self.verifies {
                match posted.signed_at() {
                    Ok(ts) => board.raise(&entry, ts),
                    Err(_) => {
                        unsigned.push(entry);
                        return Ok(ControlFlow::Continue(()));
                    }
                }
            }
            board.seats.insert(entry, Seat::new(posted, row.last_seen));
            Ok(ControlFlow::Continue(()))
        })?;
        scan_rows::<PresenceTimeRow>(snapshot, TableId::PresenceTimes, &[], |key, row| {
            board.raise(&String::from_utf8_lossy(key), row.ts);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(unsigned)
    }

    /// Follows committed records.
    pub(super) fn follow(&self, records: &[Recorded<BusEvent>]) {
        for record in records {
            match &record.event {
                BusEvent::Announced(e) => {
                    if let Some(posted) = Posted::from_text(&e.announcement) {
                        let seat = Seat::new(posted, record.at);
                        self.lock().seats.insert(e.entry.clone(), seat);
                    }
                }
                BusEvent::Unregistered(e) => {
                    self.lock().seats.remove(&e.entry);
                }
                BusEvent::PresenceExpired(e) => self.lock().leave(&e.entries),
                BusEvent::PresenceRemoved(e) => self.lock().leave(&e.entries),
                BusEvent::PresenceSigned(e) => {
                    let mut board = self.lock();
                    for signed in &e.entries {
                        board.raise(&signed.entry, signed.ts);
                    }
                }
                BusEvent::PresenceForgotten(e) => {
                    let mut board = self.lock();
                    for entry in &e.entries {
                        board.times.remove(entry);
                    }
                }
                queue_event!() | relay_event!() | BusEvent::Seen(_) => {}
            }
        }
    }

    /// Refreshes a session that says what it said before. `signed` is the time under its checked
    /// signature; without one nothing is stale.
    pub(super) fn heartbeat(
        &self,
        posted: &Posted,
        signed: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Heard {
        let mut board = self.lock();
        let newest = board.times.get(&posted.entry).copied();
        if let (Some(ts), Some(newest)) = (signed, newest)
            && ts <= newest
        {
            return Heard::Stale { newest };
        }
        match board.seats.get_mut(&posted.entry) {
            Some(seat) if seat.content == posted.content => {
                seat.text.clone_from(&posted.text);
                seat.last_seen = now;
                seat.dirty = true;
            }
            _ => return Heard::News,
        }
        if let Some(ts) = signed {
            board.raise(&posted.entry, ts);
        }
        Heard::Again
    }

    /// The heartbeats since the last call.
    pub(super) fn take_heard(&self) -> Heartbeats {
        let mut board = self.lock();
        let Seats { seats, times } = &mut *board;
        let mut heard = Heartbeats::default();
        for (entry, seat) in seats.iter_mut().filter(|(_, seat)| seat.dirty) {
            seat.dirty = false;
            heard.seen.push(SeenAt {
                entry: entry.clone(),
                at: seat.last_seen,
            });
            if let Some(ts) = times.get(entry).filter(|_| self.verifies) {
                heard.signed.push(SignedAt {
                    entry: entry.clone(),
                    ts: *ts,
                });
            }
        }
        heard
    }

    /// Gives heartbeats back that did not reach the log.
    pub(super) fn give_back(&self, heard: &Heartbeats) {
        let mut board = self.lock();
        for seen in &heard.seen {
            if let Some(seat) = board.seats.get_mut(&seen.entry) {
                seat.dirty = true;
            }
        }
    }

    /// Newest signed time that was accepted of a session, as far as it is remembered.
    pub(super) fn signed_time(&self, entry: &str) -> Option<UnixMillis> {
        self.lock().times.get(entry).copied()
    }

    /// Whether signed times at or before `before` are remembered.
    pub(super) fn any_signed_before(&self, before: UnixMillis) -> bool {
        self.lock().times.values().any(|ts| *ts <= before)
    }

    /// Whether a session was last heard of at or before `before`.
    pub(super) fn any_older(&self, before: UnixMillis) -> bool {
        self.lock()
            .seats
            .values()
            .any(|seat| seat.last_seen <= before)
    }

    /// Sessions on the board.
    pub(super) fn len(&self) -> usize {
        self.lock().seats.len()
    }

    /// Body of `GET /roster`: the announcements as posted, each with its age.
    pub(super) fn roster(&self, now: UnixMillis) -> Vec<u8> {
        let mut out = b"{\"roster\":[".to_vec();
        let mut first = true;
        for seat in self.lock().seats.values() {
            let age = now.since(seat.last_seen);
            // The text is an object with at least one member.
            let Some(members) = seat.text.strip_prefix(b"{") else {
                continue;
            };
            if age >= PRESENCE_RETENTION_MS {
                continue;
            }
            if !first {
                out.push(b',');
            }
            first = false;
            out.extend_from_slice(format!("{{\"age_ms\":{age},").as_bytes());
            out.extend_from_slice(members);
        }
        out.extend_from_slice(b"]}");
        out
    }
}

impl Seats {
    fn leave(&mut self, entries: &[String]) {
        for entry in entries {
            self.seats.remove(entry);
        }
    }

    fn raise(&mut self, entry: &str, ts: UnixMillis) {
        match self.times.get_mut(entry) {
            Some(newest) => *newest = ts.max(*newest),
            None => {
                self.times.insert(entry.to_owned(), ts);
            }
        }
    }
}

impl Seat {
    fn new(posted: Posted, last_seen: UnixMillis) -> Self {
        Seat {
            text: posted.text,
            content: posted.content,
            last_seen,
            dirty: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::bus::Announced;
    use crate::types::seq::Seq;

    fn post(board: &Board, value: Value, at: u64) {
        let posted = Posted::read(value).unwrap();
        let event = BusEvent::Announced(Announced {
            entry: posted.entry,
            announcement: posted.text,
        });
        let at = UnixMillis(at);
        let seq = Seq(1);
        board.follow(&[Recorded { seq, at, event }]);
    }

    #[test]
    fn keys_are_pubkey_and_session_or_the_bare_pubkey() {
        for (value, entry) in [
            (json!({"pubkey":"k"}), "k"),
            (json!({"pubkey":"k","session":{"session_id":"s"}}), "k#s"),
            (json!({"pubkey":"k","session":{"session_id":""}}), "k"),
            (json!({"pubkey":"k","session":{"session_id":7}}), "k"),
            (json!({"pubkey":"k","session":null}), "k"),
        ] {
            assert_eq!(Posted::read(value).unwrap().entry, entry);
        }
        for value in [json!({}), json!({"pubkey":7}), json!([1]), json!("k")] {
            assert_eq!(Posted::read(value).err(), Some(BoardError::NoKey));
        }
    }

    #[test]
    fn only_time_and_signature_may_differ_in_a_heartbeat() {
        let board = Board::default();
        post(
            &board,
            json!({"pubkey":"k","name":"n","ts":1,"sig":"a"}),
            10,
        );
        let beat = |value| {
            let posted = Posted::read(value).unwrap();
            board.heartbeat(&posted, None, UnixMillis(20)) == Heard::Again
        };
        assert!(beat(
            json!({"pubkey":"k","name":"n","ts":2,"sig":"b","age_ms":5})
        ));
        assert!(!beat(json!({"pubkey":"k","name":"m","ts":2,"sig":"b"})));
        assert!(!beat(json!({"pubkey":"other","name":"n","ts":2,"sig":"b"})));
        let heard = board.take_heard();
        assert_eq!(heard.seen.len(), 1);
        assert!(heard.signed.is_empty());
        assert!(board.take_heard().seen.is_empty());
        board.give_back(&heard);
        assert_eq!(board.take_heard(), heard);
        let roster: Value = serde_json::from_slice(&board.roster(UnixMillis(25))).unwrap();
        assert_eq!(
            roster,
            json!({"roster":[{"pubkey":"k","name":"n","ts":2,"sig":"b","age_ms":5}]})
        );
    }

    #[test]
    fn sessions_of_three_days_are_hidden() {
        let board = Board::default();
        post(&board, json!({"pubkey":"k"}), 0);
        let shown = |now| board.roster(UnixMillis(now)).len() > 13;
        assert!(shown(PRESENCE_RETENTION_MS - 1));
        assert!(!shown(PRESENCE_RETENTION_MS));
        assert!(board.any_older(UnixMillis(0)));
    }
}
