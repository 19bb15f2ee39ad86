//! What comes in: first the relay's envelope, then the seal, then the order, then the record.

use serde_json::Value;

use super::super::io::{Action, Delivery, Polled};
use super::super::receive::cut;
use super::super::row::{Dropped, Ending, Row};
use super::super::session::Phase;
use super::super::tell::{AbortReason, Happening, RelayOddity};
use super::super::track::Place;
use super::MAX_PIN_BYTES;
use super::body::{Body, Control};
use super::io::OwnHappening;
use super::send::tell;
use super::session::OwnSession;
use super::stream::Judged;
use crate::types::entropy::Entropy;
use crate::types::secret::Secret;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::code::PeerId;
use crate::wire::bond::own::{self, Hello, Lane, Record};
use crate::wire::bond::own_code;
use crate::wire::bond::packet::CHAT_MAX_UNITS;

/// How often the user hears that something cannot be read.
const MAX_TOLD: u64 = 16;

impl OwnSession {
    pub(super) fn polled(
        &mut self,
        now: UnixMillis,
        polled: Polled,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) {
        if matches!(self.phase, Phase::Opening | Phase::Over(_)) || !self.link.up {
            return;
        }
        if let Some(oldest) = polled.oldest_seq
            && self.track.oldest(oldest) == Place::TooFar
        {
            self.odd(RelayOddity::CursorPush, out);
        }
        let mut messages = polled.messages;
        messages.sort_by_key(|message| message.seq);
        for message in messages {
            let seq = message.seq;
            match self.track.place(seq) {
                // What the relay lost is sent again and what it repeats is known: its own numbers
                // only say from where to ask.
                Place::Old | Place::Next { .. } => {}
                Place::TooFar => {
                    self.odd(RelayOddity::CursorPush, out);
                    continue;
                }
            }
            self.message(now, &message, entropy, out);
            self.track.handled(seq);
            if self.is_over() {
                return;
            }
        }
        if polled.disconnected {
            if self.phase == Phase::Confirmed {
                self.link_lost(now, out);
            } else {
                self.over(Ending::RelayLost, out);
            }
        }
    }

    fn message(
        &mut self,
        now: UnixMillis,
        message: &Delivery,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) {
        if message.from == "system" {
            self.system(now, &message.payload, out);
            return;
        }
        let Some(read) = own::read(&message.payload) else {
            drop_record(Dropped::Undecryptable, out);
            return;
        };
        let sender: Option<PeerId> = message.from.parse().ok();
        if sender == Some(self.me) || read.from == self.role {
            drop_record(Dropped::Reflected, out);
            self.odd(RelayOddity::Reflection, out);
            return;
        }
        match read.body {
            own::Body::Hello(hello) => match self.role {
                Role::Host => self.guest_proof(now, sender, &hello, out),
                Role::Guest => self.host_proof(now, sender, &hello, out),
            },
            own::Body::Refused => {
                // Anybody could say so; whoever can, could as well keep the host's proof back.
                if self.role == Role::Guest && self.phase == Phase::Keyed {
                    self.over(Ending::Aborted(AbortReason::WrongTag), out);
                }
            }
            own::Body::Records(records) => {
                for record in records {
                    self.record(now, &record, entropy, out);
                    if self.is_over() {
                        return;
                    }
                }
            }
        }
    }

    /// Plaintext of the relay: believed only where it can do no more than the relay can anyway.
    fn system(&mut self, now: UnixMillis, payload: &Value, out: &mut Vec<Action>) {
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        let who: Option<PeerId> = text("peerId").and_then(|id| id.parse().ok());
        if who.is_none() || who == Some(self.me) {
            return;
        }
        match text("type") {
            Some("peer_joined") if self.role == Role::Host => {
                if self.phase == Phase::Waiting {
                    self.peer = who;
                    let element = text("publicKey").unwrap_or_default().to_owned();
                    self.meet(now, &element, out);
                } else if self.peer != who && self.phase == Phase::Keyed {
                    self.second_joiner(out);
                }
            }
            Some("disconnect") => {
                let of_the_peer = self.peer.is_none_or(|peer| Some(peer) == who);
                match self.phase {
                    Phase::Keyed if of_the_peer => {
                        let peer = who.map_or_else(String::new, |who| who.prefix());
                        out.push(Action::Record(Row::PeerDisconnected { peer }));
                        self.over(Ending::PeerGone, out);
                    }
                    // A peer that leaves says so under the seal. This one fell out, if it is true.
                    Phase::Confirmed if of_the_peer => self.link_lost(now, out),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The one guess that a session allows.
    fn guest_proof(
        &mut self,
        now: UnixMillis,
        sender: Option<PeerId>,
        hello: &Hello,
        out: &mut Vec<Action>,
    ) {
        if self.phase == Phase::Confirmed {
            if self.proven == Some(*hello) {
                // It has not heard ours.
                self.proof.due = true;
            } else {
                drop_record(Dropped::LateTag, out);
            }
            return;
        }
        let Some(met) = self.met.take() else {
            drop_record(Dropped::NoKey, out);
            return;
        };
        match met.host(hello) {
            Ok((keys, answer)) => {
                self.keys = Some(keys);
                self.proven = Some(*hello);
                self.proof.text = Some(own::write_hello(self.role, &answer));
                self.proof.due = true;
                self.confirmed(now, sender, out);
            }
            Err(_) => {
                self.say_refused(out);
                self.over(Ending::Aborted(AbortReason::WrongTag), out);
            }
        }
    }

    fn host_proof(
        &mut self,
        now: UnixMillis,
        sender: Option<PeerId>,
        hello: &Hello,
        out: &mut Vec<Action>,
    ) {
        let Some(met) = self.met.take() else {
            // A repetition: ours crossed it.
            drop_record(Dropped::Replay, out);
            return;
        };
        match met.guest(hello) {
            Ok(keys) => {
                self.keys = Some(keys);
                self.proof.due = false;
                self.control_due = true;
                self.confirmed(now, sender, out);
            }
            Err(_) => self.over(Ending::Aborted(AbortReason::WrongTag), out),
        }
    }

    fn confirmed(&mut self, now: UnixMillis, sender: Option<PeerId>, out: &mut Vec<Action>) {
        self.phase = Phase::Confirmed;
        self.peer = sender.or(self.peer);
        self.alive = now;
        let verification = self
            .keys
            .as_ref()
            .map(|keys| own_code::spoken(keys.words()));
        out.push(Action::Record(Row::KeyConfirmed {
            peer_role: self.role.other(),
        }));
        out.push(Action::Tell(Happening::Confirmed { verification }));
    }

    fn record(
        &mut self,
        now: UnixMillis,
        record: &Record,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) {
        match record.lane {
            Lane::Data => self.data(now, record, entropy, out),
            Lane::Control => self.control_record(now, record, out),
        }
    }

    fn data(
        &mut self,
        now: UnixMillis,
        record: &Record,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) {
        let Some(keys) = &mut self.keys else {
            drop_record(Dropped::NoKey, out);
            return;
        };
        match self.inbox.judge(record.seq) {
            Judged::Known => {
                // Sent again because our acknowledgement was lost, or replayed: no matter.
                self.control_due = true;
                return;
            }
            Judged::TooFar => {
                drop_record(Dropped::Full, out);
                return;
            }
            Judged::New => {}
        }
        let Some(body) = keys.receive_data.open(record) else {
            self.unreadable(out);
            return;
        };
        self.heard(now, out);
        self.control_due = true;
        self.inbox.hold(record.seq, body);
        while let Some(body) = self.inbox.pop() {
            if let Some(keys) = &mut self.keys {
                keys.receive_data.forward(self.inbox.wants());
            }
            self.deliver(&body, entropy, out);
            if self.is_over() {
                return;
            }
        }
    }

    fn control_record(&mut self, now: UnixMillis, record: &Record, out: &mut Vec<Action>) {
        let Some(keys) = &mut self.keys else {
            drop_record(Dropped::NoKey, out);
            return;
        };
        if record.seq < self.control_seen {
            return;
        }
        let Some(body) = keys.receive_control.open(record) else {
            self.unreadable(out);
            return;
        };
        keys.receive_control.forward(record.seq);
        self.control_seen = record.seq.saturating_add(1);
        self.heard(now, out);
        let Some(control) = Control::read(body.expose()) else {
            drop_record(Dropped::Malformed, out);
            return;
        };
        if !self.outbox.acknowledged(control.wants, control.has) {
            drop_record(Dropped::Malformed, out);
        }
        self.moved(out);
        let chats = self.outbox.chats();
        if chats > self.chats_told {
            self.chats_told = chats;
            tell(OwnHappening::Acknowledged { chats }, out);
        }
        if control.bye {
            let missed = control.sent.saturating_sub(self.inbox.wants());
            if missed > 0 {
                out.push(Action::Record(Row::GapDetected { missed }));
                out.push(Action::Tell(Happening::Gap { missed }));
            }
            let peer = self.from();
            out.push(Action::Record(Row::PeerDisconnected { peer }));
            self.over(Ending::PeerGone, out);
        }
    }

    fn unreadable(&mut self, out: &mut Vec<Action>) {
        drop_record(Dropped::Undecryptable, out);
        self.unreadable = self.unreadable.saturating_add(1);
        if self.unreadable <= MAX_TOLD {
            out.push(Action::Tell(Happening::DroppedUnreadable));
        }
    }

    pub(super) fn from(&self) -> String {
        self.peer
            .map_or_else(|| "peer".to_owned(), |peer| peer.prefix())
    }

    fn deliver(&mut self, body: &Secret<Vec<u8>>, entropy: &dyn Entropy, out: &mut Vec<Action>) {
        match Body::read(body.expose()) {
            Some(Body::Chat(text)) if !text.is_empty() => {
                self.chats = self.chats.saturating_add(1);
                let (text, cut_units) = cut(text, CHAT_MAX_UNITS);
                out.push(Action::Record(Row::ChatReceived { count: self.chats }));
                out.push(Action::Tell(Happening::Chat {
                    from: self.from(),
                    text,
                    cut_units,
                }));
            }
            Some(Body::Offer(offer)) => self.offered(offer, entropy, out),
            Some(Body::Answer(answer)) => self.answered(answer.number, answer.take, out),
            Some(Body::Chunk {
                number,
                offset,
                bytes,
            }) => self.chunk(number, offset, bytes, out),
            Some(Body::Outcome(outcome)) => self.ended(outcome.number, outcome.whole, out),
            Some(Body::Withdraw(withdraw)) => self.withdrawn(withdraw.number, out),
            Some(Body::Pin(bytes)) if bytes.len() <= MAX_PIN_BYTES => {
                tell(OwnHappening::Pin(bytes), out);
            }
            Some(Body::Unknown) => drop_record(Dropped::UnknownType, out),
            Some(Body::Chat(_) | Body::Pin(_)) | None => {
                drop_record(Dropped::Malformed, out);
                out.push(Action::Tell(Happening::DroppedMalformed));
            }
        }
    }
}

pub(super) fn drop_record(reason: Dropped, out: &mut Vec<Action>) {
    out.push(Action::Record(Row::PacketDropped { reason }));
}
