//! Relays lose sessions: they restart, they expire what is quiet, they lie. The keys do not depend
//! on them, so both sides look for each other under the next of a row of routing ids that only they
//! can compute, and the numbering goes on where it was.
//!
//! The host makes the next one; the guest tries the next few and the one it had, in turn.

use super::super::io::{Action, Failure};
use super::io::OwnHappening;
use super::session::OwnSession;
use super::{MAX_BACKOFF_MS, RETRY_MS, SILENCE_MS};
use crate::crypto::agree::AgreementPublic;
use crate::domain::machine::bond::track::Track;
use crate::domain::machine::bond::{Happening, Phase};
use crate::types::entropy::Entropy;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::code::RoutingId;

/// What a guest tries, counted from the last that it was in.
const TRIES: [u64; 12] = [1, 2, 0, 3, 4, 0, 5, 6, 0, 7, 8, 0];

/// The first pause between two attempts.
const BACKOFF_MS: u64 = 500;

/// How we stand with the relay.
pub(super) struct Link {
    /// Messages come and go.
    pub(super) up: bool,
    /// An attempt waits for the relay's answer.
    asking: bool,
    /// The host sits in a session of its own making already and wants to know.
    joining: bool,
    tries: usize,
    not_before: UnixMillis,
    /// The generation that we are in or try.
    generation: u64,
    /// The guest's last one.
    base: u64,
    /// Since when it is up.
    since: UnixMillis,
    /// The host has moved because of silence and does not move for it again.
    moved: bool,
    /// The user was told that it is down.
    pub(super) told: bool,
}

impl Link {
    pub(super) const fn new(now: UnixMillis) -> Link {
        Link {
            up: true,
            asking: false,
            joining: false,
            tries: 0,
            not_before: now,
            generation: 0,
            base: 0,
            since: now,
            moved: false,
            told: false,
        }
    }
}

impl OwnSession {
    /// The relay says that it has no session, or no seat for us.
    pub(super) fn link_lost(&mut self, now: UnixMillis, out: &mut Vec<Action>) {
        if self.phase != Phase::Confirmed || !self.link.up {
            return;
        }
        self.link.up = false;
        self.link.asking = false;
        self.link.joining = false;
        self.link.tries = 0;
        self.link.not_before = now;
        if self.role == Role::Host {
            self.link.generation = self.link.generation.saturating_add(1);
        }
        self.forget_post(now);
        if !self.link.told {
            self.link.told = true;
            out.push(Action::Tell(Happening::Own(OwnHappening::Interrupted)));
        }
    }

    /// The peer was heard.
    pub(super) fn heard(&mut self, now: UnixMillis, out: &mut Vec<Action>) {
        self.alive = now;
        self.link.moved = false;
        if self.link.up && self.link.told {
            self.link.told = false;
            out.push(Action::Tell(Happening::Own(OwnHappening::Resumed)));
        }
    }

    /// Looks for silence, and tries again when it is time.
    pub(super) fn look_for_peer(
        &mut self,
        now: UnixMillis,
        entropy: &dyn Entropy,
        out: &mut Vec<Action>,
    ) {
        if self.phase != Phase::Confirmed {
            return;
        }
        let quiet_since = self.alive.max(self.link.since);
        if self.link.up && now.since(quiet_since) >= SILENCE_MS && !self.link.moved {
            self.link.moved = self.role == Role::Host;
            self.link_lost(now, out);
        }
        if self.link.up || self.link.asking || now < self.link.not_before {
            return;
        }
        // A key is asked for and not used: ours are older than this relay's session.
        let mut unused = [0; 32];
        if entropy.fill(&mut unused).is_err() {
            return;
        }
        if self.role == Role::Guest {
            let step = TRIES.get(self.link.tries % TRIES.len()).unwrap_or(&1);
            self.link.generation = self.link.base.saturating_add(*step);
        }
        let Some(routing) = self.route(self.link.generation) else {
            return;
        };
        self.routing = routing;
        self.link.asking = true;
        let key = AgreementPublic::from_bytes(unused);
        let peer = self.me;
        out.push(if self.role == Role::Host && !self.link.joining {
            Action::Create { routing, key, peer }
        } else {
            Action::Join { routing, key, peer }
        });
    }

    fn route(&self, generation: u64) -> Option<RoutingId> {
        match generation {
            0 => Some(self.first_routing),
            later => {
                let keys = self.keys.as_ref()?;
                Some(RoutingId::from_bytes(keys.route(later)))
            }
        }
    }

    /// The relay has a seat for us again.
    pub(super) fn link_found(&mut self, now: UnixMillis) {
        if self.link.up {
            return;
        }
        self.link.up = true;
        self.link.asking = false;
        self.link.joining = false;
        self.link.since = now;
        self.link.base = self.link.generation;
        self.track = Track::default();
        self.slow = false;
        self.not_before = now;
        self.outbox.again();
        self.control_due = true;
    }

    /// It has not.
    pub(super) fn link_refused(&mut self, now: UnixMillis, failure: Failure) {
        if self.link.up {
            return;
        }
        self.link.asking = false;
        if self.role == Role::Host {
            // Taken: by an attempt of ours whose answer was lost, as nobody else knows the id.
            let next = self.link.joining && failure != Failure::Unreachable;
            self.link.joining = !self.link.joining && failure == Failure::Full;
            if next {
                self.link.generation = self.link.generation.saturating_add(1);
            }
        }
        if !(self.role == Role::Guest && failure == Failure::Unreachable) {
            self.link.tries = self.link.tries.saturating_add(1);
        }
        let shift = u32::try_from(self.link.tries.min(5)).unwrap_or(5);
        let pause = match failure {
            Failure::Limited { retry_after_ms } => retry_after_ms,
            Failure::Unreachable => RETRY_MS,
            _ => (BACKOFF_MS << shift).min(MAX_BACKOFF_MS),
        };
        self.link.not_before = now.plus(pause.min(60_000));
    }
}
