//! From the relay's first answer to the proof: keys, and our tag until it has had its effect.

use super::io::{Action, Carries};
use super::row::{Ending, Row};
use super::session::{Half, Keys, Phase, Session};
use super::tell::{AbortReason, Happening};
use crate::crypto::agree::AgreementPublic;
use crate::crypto::kdf;
use crate::types::entropy::Entropy;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;

impl Session {
    pub(super) fn created(&mut self, out: &mut Vec<Action>) {
        if self.role == Role::Host && self.phase == Phase::Opening {
            self.phase = Phase::Waiting;
            out.push(Action::Record(Row::SessionCreated {
                routing: self.routing.prefix(),
            }));
            out.push(Action::Tell(Happening::Opened));
        }
    }

    pub(super) fn joined(
        &mut self,
        now: UnixMillis,
        host_key: &str,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) {
        if self.role != Role::Guest || self.phase != Phase::Opening {
            return;
        }
        out.push(Action::Record(Row::SessionJoined {
            routing: self.routing.prefix(),
        }));
        match host_key.parse() {
            Ok(host) => self.agree(&host, out),
            Err(_) => self.over(Ending::Aborted(AbortReason::BadKey), out),
        }
        self.confirm(now, entropy, out);
    }

    /// The peer's key is known: uses our half up. The guest's tag is due at once.
    pub(super) fn agree(&mut self, theirs: &AgreementPublic, out: &mut Vec<Action>) {
        let Some(Half { secret, code_key }) = self.half.take() else {
            return;
        };
        let ours = secret.public();
        let transcript = match self.role {
            Role::Host => kdf::transcript(&ours, theirs),
            Role::Guest => kdf::transcript(theirs, &ours),
        };
        let Ok(shared) = secret.agree(theirs) else {
            self.over(Ending::Aborted(AbortReason::BadKey), out);
            return;
        };
        let seal = kdf::session_key(&shared, &code_key, &transcript);
        let tag = |role: Role| kdf::confirmation(&seal, role.word(), &transcript);
        self.keys = Some(Keys {
            own_tag: tag(self.role),
            peer_tag: tag(self.role.other()),
            seal,
        });
        self.phase = Phase::Keyed;
        self.confirmation.due = self.role == Role::Guest;
        out.push(Action::Record(Row::KeyExchangeCompleted {
            role: self.role,
        }));
        if self.role == Role::Host {
            out.push(Action::Tell(Happening::PeerJoined));
        }
    }

    /// Sends our tag if it is due: with a new nonce each time, or a peer that saw the last one
    /// would take it for a replay. Without randomness it stays due.
    pub(super) fn confirm(
        &mut self,
        now: UnixMillis,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) {
        let waiting = &self.confirmation;
        if !waiting.due || waiting.in_flight.is_some() || now < waiting.not_before {
            return;
        }
        if let Ok((ticket, payload)) = self.seal_tag(now, entropy) {
            self.confirmation.in_flight = Some(ticket);
            out.push(Action::Post {
                ticket,
                kind: Carries::Confirmation,
                payload,
            });
        }
    }
}
