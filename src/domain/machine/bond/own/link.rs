//! Relays lose sessions: they restart, they expire what is quiet, they lie. The keys do not depend
//! on them, so both sides look for each other under the next of a row of routing ids that only they
//! can compute, and the numbering goes on where it was.
//!
//! Both count from the last one where they heard each other. The host makes one of the next four, the
//! guest tries what is around: whoever of the two heard the last word, their windows overlap, however
//! often the relay forgets, and whatever it says to only one of them.

use super::super::io::{Action, Failure};
use super::io::OwnHappening;
use super::session::OwnSession;
use super::{MAX_BACKOFF_MS, SILENCE_MS};
use crate::crypto::agree::AgreementPublic;
use crate::domain::machine::bond::track::Track;
use crate::domain::machine::bond::{Happening, Phase};
use crate::types::entropy::Entropy;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::code::RoutingId;

/// What a host makes, counted from the last where it heard the guest.
const HOST_TRIES: [i64; 4] = [1, 2, 3, 4];

/// What a guest tries, counted from the last where it heard the host. The host may have heard it in
/// one that is up to four further, and it the host likewise.
const GUEST_TRIES: [i64; 13] = [1, 2, 0, 3, 4, -1, 5, -2, 6, -3, 7, -4, 8];

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
    /// Where in the row of attempts.
    step: usize,
    /// Attempts since it went down.
    tries: u32,
    not_before: UnixMillis,
    /// The generation that we are in or try.
    generation: u64,
    /// The last one where the peer was heard.
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
            step: 0,
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

impl Link {
    /// Half a second, a second, and so on.
    fn pause(&self) -> u64 {
        if self.tries == 0 {
            return 0;
        }
        (BACKOFF_MS << self.tries.min(8)).min(MAX_BACKOFF_MS)
    }

    fn candidate(&self, role: Role) -> u64 {
        let row: &[i64] = match role {
            Role::Host => &HOST_TRIES,
            Role::Guest => &GUEST_TRIES,
        };
        let at = self.step.checked_rem(row.len()).unwrap_or(0);
        let ahead = row.get(at).copied().unwrap_or(1);
        self.base.saturating_add_signed(ahead)
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
        // A relay that forgets at once is not asked at once.
        if now.since(self.link.since) >= MAX_BACKOFF_MS {
            self.link.tries = 0;
        }
        self.link.not_before = now.plus(self.link.pause());
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
        if !self.link.up {
            return;
        }
        self.link.base = self.link.generation;
        self.link.step = 0;
        self.link.tries = 0;
        if std::mem::take(&mut self.link.told) {
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
        self.link.generation = self.link.candidate(self.role);
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
        // If it does not last, the next in the row is tried.
        self.link.step = self.link.step.saturating_add(1);
        self.link.tries = self.link.tries.saturating_add(1);
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
        // Taken, perhaps by an attempt of ours whose answer was lost, as nobody else knows the id.
        let joins = self.role == Role::Host && failure == Failure::Full && !self.link.joining;
        self.link.joining = joins;
        if !joins && failure != Failure::Unreachable {
            self.link.step = self.link.step.saturating_add(1);
        }
        self.link.tries = self.link.tries.saturating_add(1);
        let pause = match failure {
            Failure::Limited { retry_after_ms } => retry_after_ms.min(60_000),
            _ => self.link.pause(),
        };
        self.link.not_before = now.plus(pause);
    }
}
