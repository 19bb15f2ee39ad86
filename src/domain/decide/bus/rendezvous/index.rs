//! Relay sessions in memory: which session a routing id means, who is in it, what waits.
//!
//! It follows the same records as the rows. Who somebody is stands in bodies, which are read at
//! open, and as they are written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::domain::projection::bus_rendezvous::{
    RelayMessageKind, RelayMessageRow, RelayPeerRow, RelaySessionRow,
};
use crate::event::Recorded;
use crate::event::bus::BusEvent;
use crate::event::bus_rendezvous::RelayFlow;
use crate::types::limit::RELAY_TTL_MS;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// 32 bytes that identify something.
pub type Id = [u8; 32];

/// Random bytes in front of a body, so that its digest tells nothing.
pub const SALT_BYTES: usize = 16;

/// Who a peer is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RelayPeer {
    /// Its id on this relay; a credential.
    pub peer: Id,
    /// Its public key.
    pub key: Id,
}

/// A message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayMessage {
    /// Position of its record, and of its body where it has one.
    pub seq: Seq,
    /// The peer that it is from or about.
    pub from: Seq,
    /// What it is.
    pub kind: RelayMessageKind,
    /// When it arrived.
    pub at: UnixMillis,
    /// Length of its body.
    pub len: u32,
    /// SHA-256 of its body.
    pub sha256: [u8; 32],
}

/// A session.
pub struct RelaySession {
    /// What happens to messages that wait.
    pub flow: RelayFlow,
    /// When it was opened.
    pub opened: UnixMillis,
    /// When it was last used, as far as that is recorded.
    pub used_at: UnixMillis,
    /// Number of the next message.
    pub next: u64,
    /// Who is in it.
    pub members: Vec<Seq>,
    /// What waits, by number.
    pub messages: BTreeMap<u64, RelayMessage>,
    /// Bytes of bodies.
    pub bytes: u64,
    pub(super) peers: BTreeMap<Seq, (u32, Option<RelayPeer>)>,
    routing: Option<Id>,
}

impl RelaySession {
    /// Whether nothing happened for too long.
    #[must_use]
    pub const fn is_over(&self, now: UnixMillis) -> bool {
        now.since(self.used_at) >= RELAY_TTL_MS
    }

    /// Who came with the record at a position.
    #[must_use]
    pub fn peer(&self, at: Seq) -> Option<&RelayPeer> {
        self.peers.get(&at)?.1.as_ref()
    }

    /// The member with this peer id.
    #[must_use]
    pub fn member(&self, peer: &Id) -> Option<Seq> {
        let is = |at: &Seq| self.peer(*at).is_some_and(|known| known.peer == *peer);
        self.members.iter().copied().find(is)
    }

    /// Number of the oldest message that is kept.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        let first = self.messages.keys().next().copied();
        first.unwrap_or(self.next)
    }
}

/// Every session that a bus relays.
#[derive(Default)]
pub struct RelayIndex {
    sessions: BTreeMap<Seq, RelaySession>,
    by_routing: HashMap<Id, Seq>,
    by_use: BTreeSet<(UnixMillis, Seq)>,
    at: HashMap<Seq, (Seq, u64)>,
    bytes: u64,
}

/// Peer ids are credentials.
impl std::fmt::Debug for RelayIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayIndex")
            .field("sessions", &self.sessions.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl RelayIndex {
    /// The session that a routing id means now, over or not.
    #[must_use]
    pub fn find(&self, routing: &Id) -> Option<(Seq, &RelaySession)> {
        let at = *self.by_routing.get(routing)?;
        Some((at, self.sessions.get(&at)?))
    }

    /// The session with this number.
    #[must_use]
    pub fn session(&self, at: Seq) -> Option<&RelaySession> {
        self.sessions.get(&at)
    }

    /// Every session, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, &RelaySession)> {
        self.sessions.iter().map(|(at, session)| (*at, session))
    }

    /// The session whose message stands at a position.
    #[must_use]
    pub fn holder(&self, message: Seq) -> Option<(Seq, &RelaySession)> {
        let (at, _) = self.at.get(&message)?;
        Some((*at, self.sessions.get(at)?))
    }

    /// How many sessions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Bytes of bodies in all sessions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sessions that are over, longest first.
    pub fn over(&self, now: UnixMillis) -> impl Iterator<Item = Seq> {
        let over = move |(used_at, _): &&(UnixMillis, Seq)| now.since(*used_at) >= RELAY_TTL_MS;
        self.by_use.iter().take_while(over).map(|(_, at)| *at)
    }

    pub(in crate::domain::decide::bus) fn add_session(&mut self, at: Seq, row: &RelaySessionRow) {
        self.by_use.insert((row.used_at, at));
        let session = RelaySession {
            flow: row.flow,
            opened: row.opened,
            used_at: row.used_at,
            next: row.next,
            members: row.members.clone(),
            messages: BTreeMap::new(),
            bytes: 0,
            peers: BTreeMap::new(),
            routing: None,
        };
        self.sessions.insert(at, session);
    }

    pub(in crate::domain::decide::bus) fn add_peer(&mut self, at: Seq, row: &RelayPeerRow) {
        if let Some(session) = self.sessions.get_mut(&row.session) {
            session.peers.insert(at, (row.len, None));
            session.bytes += u64::from(row.len);
            self.bytes += u64::from(row.len);
            // Number 0: no message has it.
            self.at.entry(at).or_insert((row.session, 0));
        }
    }

    pub(in crate::domain::decide::bus) fn add_message(&mut self, seq: Seq, row: &RelayMessageRow) {
        if let Some(session) = self.sessions.get_mut(&row.session) {
            let message = RelayMessage {
                seq,
                from: row.from,
                kind: row.kind,
                at: row.at,
                len: row.len,
                sha256: row.sha256,
            };
            session.messages.insert(row.number, message);
            session.bytes += u64::from(row.len);
            self.bytes += u64::from(row.len);
            self.at.insert(seq, (row.session, row.number));
        }
    }

    /// The bodies that say who somebody is.
    pub(in crate::domain::decide::bus) fn peers(&self) -> Vec<Seq> {
        let peers = self
            .sessions
            .values()
            .flat_map(|session| session.peers.keys());
        peers.copied().collect()
    }

    /// Reads a body that says who somebody is; others are ignored.
    pub(in crate::domain::decide::bus) fn body(&mut self, at: Seq, body: &[u8]) {
        let Some((session_at, _)) = self.at.get(&at).copied() else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&session_at) else {
            return;
        };
        let Some((_, peer)) = session.peers.get_mut(&at) else {
            return;
        };
        let part = |n: usize| -> Option<Id> {
            let start = SALT_BYTES + n * 32;
            body.get(start..start + 32)?.try_into().ok()
        };
        let (Some(id), Some(key)) = (part(0), part(1)) else {
            return;
        };
        *peer = Some(RelayPeer { peer: id, key });
        if at == session_at
            && let Some(routing) = part(2)
        {
            session.routing = Some(routing);
            self.by_routing.insert(routing, at);
        }
    }

    pub(in crate::domain::decide::bus) fn follow(&mut self, rec: &Recorded<BusEvent>) {
        match &rec.event {
            BusEvent::RelayOpened(e) => {
                self.add_session(rec.seq, &RelaySessionRow::opened(rec, e));
                self.brought(rec);
            }
            BusEvent::RelayJoined(e) => {
                self.forget(e.session, &e.pruned, &e.erased);
                self.touch(e.session, rec.at);
                if let Some(session) = self.sessions.get_mut(&e.session) {
                    session.members.push(rec.seq);
                }
                self.brought(rec);
            }
            BusEvent::RelaySent(e) => {
                self.forget(e.session, &e.pruned, &e.erased);
                self.touch(e.session, rec.at);
                self.brought(rec);
            }
            BusEvent::RelayLeft(e) => {
                self.forget(e.session, &e.pruned, &e.erased);
                if let Some(session) = self.sessions.get_mut(&e.session) {
                    session.members.retain(|member| *member != e.member);
                }
                self.brought(rec);
            }
            BusEvent::RelayEnded(e) => {
                self.forget(e.session, &e.pruned, &e.erased);
                self.end(e.session);
            }
            BusEvent::RelayTouched(e) => self.touch(e.session, rec.at),
            BusEvent::RelayErased(e) => self.forget(e.session, &e.pruned, &e.erased),
            _ => {}
        }
    }

    /// The peer and the message that a record brings.
    fn brought(&mut self, rec: &Recorded<BusEvent>) {
        if let Some(row) = RelayPeerRow::brought_by(rec) {
            self.add_peer(rec.seq, &row);
        }
        if let Some(row) = RelayMessageRow::brought_by(rec) {
            if let Some(session) = self.sessions.get_mut(&row.session) {
                session.next = row.number.saturating_add(1);
            }
            self.add_message(rec.seq, &row);
        }
    }

    fn touch(&mut self, at: Seq, now: UnixMillis) {
        if let Some(session) = self.sessions.get_mut(&at) {
            self.by_use.remove(&(session.used_at, at));
            session.used_at = now;
            self.by_use.insert((now, at));
        }
    }

    fn forget(&mut self, at: Seq, pruned: &[Seq], erased: &[Seq]) {
        let Some(session) = self.sessions.get_mut(&at) else {
            return;
        };
        let mut freed = 0;
        for seq in pruned {
            if let Some((_, number)) = self.at.get(seq).copied()
                && let Some(message) = session.messages.remove(&number)
            {
                freed += u64::from(message.len);
                if session.peers.contains_key(seq) {
                    self.at.insert(*seq, (at, 0));
                } else {
                    self.at.remove(seq);
                }
            }
        }
        for seq in erased {
            if let Some((len, _)) = session.peers.remove(seq) {
                freed += u64::from(len);
                self.at.remove(seq);
            }
        }
        session.bytes = session.bytes.saturating_sub(freed);
        self.bytes = self.bytes.saturating_sub(freed);
    }

    fn end(&mut self, at: Seq) {
        let Some(session) = self.sessions.remove(&at) else {
            return;
        };
        self.by_use.remove(&(session.used_at, at));
        self.bytes = self.bytes.saturating_sub(session.bytes);
        for seq in session.peers.keys() {
            self.at.remove(seq);
        }
        for message in session.messages.values() {
            self.at.remove(&message.seq);
        }
        if let Some(routing) = session.routing
            && self.by_routing.get(&routing) == Some(&at)
        {
            self.by_routing.remove(&routing);
        }
    }
}
