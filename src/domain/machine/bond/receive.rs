//! What comes in: first the relay's envelope, then the seal, then the packet.

use serde_json::Value;

use super::MAX_NAME_BYTES;
use super::io::{Action, Delivery, OfferId, Polled};
use super::offers::Offer;
use super::row::{Dropped, Ending, Row};
use super::session::{Phase, Session};
use super::tell::{AbortReason, Happening, Refusal, RelayOddity};
use super::track::Place;
use crate::crypto::agree::AgreementPublic;
use crate::crypto::{aead, hash, kdf};
use crate::types::entropy::Entropy;
use crate::types::secret::Secret;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::code::PeerId;
use crate::wire::bond::packet::{self, Body, CHAT_MAX_UNITS, FileBody, Packet};
use crate::wire::bond::sealed;

impl Session {
    /// Handles an answer message by message, in the order of positions. The place moves past a
    /// message only once it is handled.
    pub(super) fn polled(
        &mut self,
        now: UnixMillis,
        polled: Polled,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) {
        if matches!(self.phase, Phase::Opening | Phase::Over(_)) {
            return;
        }
        if self.expired(now) {
            self.over(Ending::Expired, out);
            return;
        }
        if !polled.disconnected {
            self.alive = now;
        }
        if let Some(oldest) = polled.oldest_seq {
            match self.track.oldest(oldest) {
                Place::Old => {}
                Place::TooFar => self.odd(RelayOddity::CursorPush, out),
                Place::Next { missed } => gap(missed, out),
            }
        }
        let mut messages = polled.messages;
        messages.sort_by_key(|message| message.seq);
        for message in messages {
            // Drawn before anything changes: a message that cannot be handled comes again.
            let mut spare = [0; 8];
            if entropy.fill(&mut spare).is_err() {
                return;
            }
            match self.track.place(message.seq) {
                Place::Old => continue,
                Place::TooFar => {
                    self.odd(RelayOddity::CursorPush, out);
                    continue;
                }
                Place::Next { missed } => gap(missed, out),
            }
            let seq = message.seq;
            self.message(now, message, OfferId::from_bytes(spare), out);
            self.track.handled(seq);
            if self.is_over() {
                return;
            }
        }
        if polled.disconnected {
            self.over(Ending::RelayLost, out);
        }
    }

    fn message(&mut self, now: UnixMillis, message: Delivery, id: OfferId, out: &mut Vec<Action>) {
        if message.from == "system" {
            self.system(&message.payload, out);
            return;
        }
        let from: Option<PeerId> = message.from.parse().ok();
        if from == Some(self.me) {
            self.drop_packet(Dropped::Reflected, out);
            self.odd(RelayOddity::Reflection, out);
            return;
        }
        let Some(keys) = &self.keys else {
            self.drop_packet(Dropped::NoKey, out);
            return;
        };
        let packet = sealed::read(&message.payload)
            .ok()
            .and_then(|sealed| aead::open(&keys.seal, &[], &sealed).ok())
            .and_then(|plaintext| packet::read(plaintext.expose()));
        let Some(packet) = packet else {
            self.unreadable(out);
            return;
        };
        if let Err(not_new) = self.replay.accept(now, packet.nonce, packet.timestamp) {
            self.drop_packet(not_new.reason, out);
            // A tag is repeated, a message is lost: the one is told once, the other each time.
            if let Some(clock_difference_ms) = not_new.clock_difference_ms
                && !(matches!(packet.body, Body::KeyConfirm { .. })
                    && std::mem::replace(&mut self.said.stale_tag, true))
            {
                out.push(Action::Tell(Happening::DroppedStale {
                    clock_difference_ms,
                }));
            }
            if not_new.reason == Dropped::Reflected {
                self.odd(RelayOddity::Reflection, out);
            }
            return;
        }
        self.alive = now;
        if self.peer.is_none() {
            self.peer = from;
        }
        let from = from.map_or_else(|| "peer".to_owned(), |from| from.prefix());
        self.packet(packet, from, id, out);
    }

    /// Plaintext of the relay, signed by nobody: believed only where it can do no more than the
    /// relay can do anyway.
    fn system(&mut self, payload: &Value, out: &mut Vec<Action>) {
        let text = |name: &str| payload.get(name).and_then(Value::as_str);
        let who: Option<PeerId> = text("peerId").and_then(|id| id.parse().ok());
        match text("type") {
            Some("peer_joined") if self.role == Role::Host => {
                let key: Option<AgreementPublic> =
                    text("publicKey").and_then(|key| key.parse().ok());
                if let (Some(who), Some(key)) = (who, key)
                    && who != self.me
                {
                    self.peer_joined(who, &key, out);
                }
            }
            Some("disconnect") => {
                let of_the_peer = who != Some(self.me) && self.peer.is_none_or(|p| Some(p) == who);
                let with_a_peer = matches!(self.phase, Phase::Keyed | Phase::Confirmed);
                if with_a_peer && of_the_peer {
                    let peer = who.map_or_else(|| "peer".to_owned(), |who| who.prefix());
                    out.push(Action::Record(Row::PeerDisconnected { peer }));
                    self.over(Ending::PeerGone, out);
                }
            }
            _ => {}
        }
    }

    fn peer_joined(&mut self, who: PeerId, key: &AgreementPublic, out: &mut Vec<Action>) {
        if self.phase == Phase::Waiting {
            self.peer = Some(who);
            self.agree(key, out);
        } else if self.peer != Some(who) && !std::mem::replace(&mut self.said.second_joiner, true) {
            // The key that the relay hands to joiners cannot be replaced while the session is
            // there, and ours is used up. A new code is the way out, and the user hears so.
            out.push(Action::Tell(Happening::SecondJoiner));
        }
    }

    /// Once: both sides may speak from here on.
    pub(super) fn tell_confirmed(&mut self, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.said.confirmed, true) {
            out.push(Action::Tell(Happening::Confirmed { verification: None }));
        }
    }

    fn packet(&mut self, packet: Packet, from: String, id: OfferId, out: &mut Vec<Action>) {
        let confirmed = self.phase == Phase::Confirmed;
        if confirmed && matches!(packet.body, Body::Chat { .. } | Body::File(_)) {
            // The relay took our tag, though its answer may be lost.
            self.confirmation.had_effect();
            self.tell_confirmed(out);
        }
        match packet.body {
            Body::KeyConfirm { tag } => self.tag(tag, out),
            Body::Unknown => self.drop_packet(Dropped::UnknownType, out),
            Body::Chat { .. } | Body::File(_) if !confirmed => {
                self.over(Ending::Aborted(AbortReason::Unconfirmed), out);
            }
            Body::Chat { content: None } => {
                self.drop_packet(Dropped::Malformed, out);
                out.push(Action::Tell(Happening::DroppedMalformed));
            }
            Body::Chat {
                content: Some(text),
            } => {
                self.chats = self.chats.saturating_add(1);
                let (text, cut_units) = cut(text, CHAT_MAX_UNITS);
                out.push(Action::Record(Row::ChatReceived { count: self.chats }));
                out.push(Action::Tell(Happening::Chat {
                    from,
                    text,
                    cut_units,
                }));
            }
            Body::File(file) => self.file(file, from, id, out),
        }
    }

    fn tag(&mut self, tag: Option<[u8; 32]>, out: &mut Vec<Action>) {
        let Some(keys) = &self.keys else {
            return;
        };
        let is = |expected: &[u8; 32]| tag.is_some_and(|tag| kdf::same(&tag, expected));
        let (right, ours) = (is(&keys.peer_tag), is(&keys.own_tag));
        let confirmed = self.phase == Phase::Confirmed;
        if right && confirmed {
            // The guest repeats itself: it has not heard us.
            if self.role == Role::Host {
                self.confirmation.due = true;
            }
        } else if right {
            self.phase = Phase::Confirmed;
            self.confirmation.due = self.role == Role::Host;
            out.push(Action::Record(Row::KeyConfirmed {
                peer_role: self.role.other(),
            }));
            if self.role == Role::Guest {
                self.tell_confirmed(out);
            }
        } else if ours {
            self.drop_packet(Dropped::Reflected, out);
        } else if confirmed {
            self.drop_packet(Dropped::LateTag, out);
        } else {
            self.over(Ending::Aborted(AbortReason::WrongTag), out);
        }
    }

    fn file(&mut self, file: Option<FileBody>, from: String, id: OfferId, out: &mut Vec<Action>) {
        let file = match self.admit(file) {
            Ok(file) => file,
            Err(reason) => {
                out.push(Action::Record(Row::InboundBlocked { reason, from }));
                out.push(Action::Tell(Happening::Rejected { why: reason }));
                return;
            }
        };
        let content = file.content.into_bytes();
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let sha256 = hash::sha256(&content);
        out.push(Action::Record(Row::OfferReceived {
            id: id.clone(),
            file: file.filename.clone(),
            size,
            sha256,
            from: from.clone(),
        }));
        out.push(Action::Tell(Happening::FileOffered {
            id: id.clone(),
            from: from.clone(),
            name: file.filename.clone(),
            size,
            sha256,
        }));
        self.offers.push(Offer {
            id,
            from,
            name: file.filename,
            note: cut(file.message, CHAT_MAX_UNITS).0,
            content: Secret::new(content),
            size,
            sha256,
        });
    }

    fn admit(&self, file: Option<FileBody>) -> Result<FileBody, Refusal> {
        let file = file.ok_or(Refusal::Malformed)?;
        if file.filename.len() > MAX_NAME_BYTES {
            return Err(Refusal::BadName);
        }
        (self.policy.name_rule)(&file.filename)?;
        let size = u64::try_from(file.content.len()).unwrap_or(u64::MAX);
        if size > self.policy.max_file_bytes {
            return Err(Refusal::TooLarge);
        }
        if !self.offers.has_room() {
            return Err(Refusal::TooManyPending);
        }
        Ok(file)
    }

    /// Before confirmation it means another code or swapped keys; after it, noise of the relay.
    fn unreadable(&mut self, out: &mut Vec<Action>) {
        if self.phase == Phase::Confirmed {
            self.drop_packet(Dropped::Undecryptable, out);
            out.push(Action::Tell(Happening::DroppedUnreadable));
        } else {
            self.over(Ending::Aborted(AbortReason::Decryption), out);
        }
    }

    #[expect(clippy::unused_self, reason = "reads as what it does")]
    fn drop_packet(&self, reason: Dropped, out: &mut Vec<Action>) {
        out.push(Action::Record(Row::PacketDropped { reason }));
    }
}

fn gap(missed: u64, out: &mut Vec<Action>) {
    if missed > 0 {
        out.push(Action::Record(Row::GapDetected { missed }));
        out.push(Action::Tell(Happening::Gap { missed }));
    }
}

/// The first `units` UTF-16 units, no character split, and how many units fell off.
pub(super) fn cut(mut text: String, units: usize) -> (String, usize) {
    let mut used = 0usize;
    let mut at = text.len();
    for (start, c) in text.char_indices() {
        if used.saturating_add(c.len_utf16()) > units {
            at = start;
            break;
        }
        used = used.saturating_add(c.len_utf16());
    }
    let rest = text.get(at..).map_or(0, |rest| rest.encode_utf16().count());
    text.truncate(at);
    (text, rest)
}
