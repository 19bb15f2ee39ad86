//! The machine itself: phases, time, and what each input leads to.

use super::io::{Action, Failure, Input, OfferId, Request, Ticket};
use super::offers::{Offer, Offers};
use super::replay::Replay;
use super::row::{Ending, Row};
use super::send::{Outgoing, SendError};
use super::tell::{Happening, Refusal, RelayOddity};
use super::track::Track;
use super::{CONFIRM_AGAIN_MS, MAX_CONFIRM_WAIT_MS, SESSION_TTL_MS};
use crate::crypto::aead::SealKey;
use crate::crypto::agree::EphemeralSecret;
use crate::crypto::kdf::CodeKey;
use crate::types::entropy::{Entropy, EntropyError};
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::code::{Derived, PeerId, RoutingId};

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The relay was asked to make it or to let us in.
    Opening,
    /// The host waits for a guest.
    Waiting,
    /// Both keys are known, the peer is not proven yet.
    Keyed,
    /// The peer proved that it knows the code.
    Confirmed,
    /// Over. Keys are erased; offers stay until the user ends it.
    Over(Ending),
}

/// What the machine does not decide itself.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The largest file, both ways, in bytes.
    pub max_file_bytes: u64,
    /// Whether a file of this name may be offered or sent.
    pub name_rule: fn(&str) -> Result<(), Refusal>,
}

/// What stops a step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// What the user wants to send is not sent. Nothing changed.
    #[error(transparent)]
    Send(#[from] SendError),
    /// No such file waits.
    #[error("no file of this id waits")]
    UnknownOffer,
    /// The legacy mode has nothing like it.
    #[error("only a session between two of ours can do this")]
    OwnModeOnly,
    /// No randomness. Nothing changed.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

/// What is needed until the peer's key is known.
pub(super) struct Half {
    pub(super) secret: EphemeralSecret,
    pub(super) code_key: CodeKey,
}

/// What is needed from then on.
pub(super) struct Keys {
    pub(super) seal: SealKey,
    pub(super) own_tag: [u8; 32],
    pub(super) peer_tag: [u8; 32],
}

/// Our confirmation on its way.
#[derive(Default)]
pub(super) struct Confirmation {
    /// To be sent as soon as possible.
    pub(super) due: bool,
    pub(super) in_flight: Option<Ticket>,
    /// Not before this time.
    pub(super) not_before: UnixMillis,
    /// How often the relay took it.
    tries: u32,
}

impl Confirmation {
    /// Whether the relay took it at least once.
    pub(super) const fn taken(&self) -> bool {
        self.tries > 0
    }

    /// The peer has it, whatever the relay answered: it speaks as one who is sure of us.
    pub(super) fn had_effect(&mut self) {
        self.tries = self.tries.max(1);
    }
}

/// What was told once and need not be told again.
#[derive(Default)]
pub(super) struct Said {
    pub(super) stale_tag: bool,
    pub(super) goodbye: bool,
    pub(super) push: bool,
    pub(super) reflection: bool,
    pub(super) second_joiner: bool,
    pub(super) confirmed: bool,
}

/// One session, from its code to its goodbye.
pub struct Session {
    pub(super) role: Role,
    pub(super) routing: RoutingId,
    pub(super) me: PeerId,
    pub(super) policy: Policy,
    pub(super) phase: Phase,
    pub(super) half: Option<Half>,
    pub(super) keys: Option<Keys>,
    pub(super) peer: Option<PeerId>,
    pub(super) track: Track,
    pub(super) replay: Replay,
    pub(super) offers: Offers,
    pub(super) confirmation: Confirmation,
    pub(super) outgoing: Option<Outgoing>,
    pub(super) cooled_from: Option<UnixMillis>,
    pub(super) spent: u64,
    pub(super) chats: u64,
    pub(super) said: Said,
    born: UnixMillis,
    pub(super) alive: UnixMillis,
    tickets: u64,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("role", &self.role)
            .field("routing", &self.routing)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Starts a session with what its code was derived to, and asks the relay for it.
    ///
    /// # Errors
    ///
    /// When there is no randomness to be had.
    pub fn open(
        role: Role,
        derived: Derived,
        policy: Policy,
        now: UnixMillis,
        entropy: &dyn Entropy,
    ) -> Result<(Session, Vec<Action>), EntropyError> {
        let secret = EphemeralSecret::generate(entropy)?;
        let me = PeerId::generate(entropy)?;
        let (routing, key, peer) = (derived.routing, secret.public(), me);
        let ask = match role {
            Role::Host => Action::Create { routing, key, peer },
            Role::Guest => Action::Join { routing, key, peer },
        };
        let session = Session {
            role,
            routing,
            me,
            policy,
            phase: Phase::Opening,
            half: Some(Half {
                secret,
                code_key: derived.code_key,
            }),
            keys: None,
            peer: None,
            track: Track::default(),
            replay: Replay::default(),
            offers: Offers::default(),
            confirmation: Confirmation::default(),
            outgoing: None,
            cooled_from: None,
            spent: 0,
            chats: 0,
            said: Said::default(),
            born: now,
            alive: now,
            tickets: 0,
        };
        Ok((session, vec![ask]))
    }

    /// The same session under other rules for files.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Session {
        self.policy = policy;
        self
    }

    /// Our end.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Where it stands. A host counts as confirmed once the relay took its tag: not earlier may it
    /// send.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match (self.phase, self.role) {
            (Phase::Confirmed, Role::Host) if !self.confirmation.taken() => Phase::Keyed,
            (phase, _) => phase,
        }
    }

    /// Whether there is nothing left to do for a driver. Offers may still wait.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// Where the relay files it.
    #[must_use]
    pub const fn routing(&self) -> RoutingId {
        self.routing
    }

    /// Who we are to the relay.
    #[must_use]
    pub const fn me(&self) -> PeerId {
        self.me
    }

    /// Who the peer is to the relay, as far as the relay said.
    #[must_use]
    pub const fn peer(&self) -> Option<PeerId> {
        self.peer
    }

    /// How many sit in the session, ourselves included, as far as we know.
    #[must_use]
    pub const fn members(&self) -> u8 {
        match self.phase {
            Phase::Keyed | Phase::Confirmed => 2,
            Phase::Opening | Phase::Waiting | Phase::Over(_) => 1,
        }
    }

    /// When it expires if nothing happens.
    #[must_use]
    pub const fn expires_at(&self) -> UnixMillis {
        // A code that is not used up must not live for ever, so polls keep only a confirmed
        // session alive.
        match self.phase {
            Phase::Confirmed => self.alive.plus(SESSION_TTL_MS),
            Phase::Opening | Phase::Waiting | Phase::Keyed | Phase::Over(_) => {
                self.born.plus(SESSION_TTL_MS)
            }
        }
    }

    /// Milliseconds until something may be sent again; 0 when it may be now.
    #[must_use]
    pub fn cooldown_ms(&self, now: UnixMillis) -> u64 {
        self.cooled_from.map_or(0, |from| {
            super::SEND_COOLDOWN_MS.saturating_sub(now.since(from))
        })
    }

    /// The files that wait for consent, oldest first.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        self.offers.all()
    }

    /// A file that waits for consent.
    #[must_use]
    pub fn offer(&self, id: &OfferId) -> Option<&Offer> {
        self.offers.get(id)
    }

    /// Takes one input.
    ///
    /// # Errors
    ///
    /// Only for what the user wants (say, send, accept, decline), and when there is no randomness
    /// for it. The session is then as it was before.
    pub fn step(
        &mut self,
        now: UnixMillis,
        input: Input,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Action>, StepError> {
        let mut out = Vec::new();
        self.rewind(now);
        match input {
            Input::Own(_) => return Err(StepError::OwnModeOnly),
            Input::Say(text) => self.say(now, &text, entropy, &mut out)?,
            Input::SendFile(file) => self.send_file(now, file, entropy, &mut out)?,
            Input::Accepted { id } => {
                let offer = self.offers.remove(&id).ok_or(StepError::UnknownOffer)?;
                out.push(Action::Record(Row::OfferAccepted {
                    id,
                    file: offer.name,
                    size: offer.size,
                }));
            }
            Input::Declined { id } => {
                let offer = self.offers.remove(&id).ok_or(StepError::UnknownOffer)?;
                out.push(Action::Record(Row::OfferDeclined {
                    id,
                    file: offer.name,
                }));
            }
            Input::End => {
                self.over(Ending::User, &mut out);
                self.offers.clear();
            }
            Input::Created => self.created(&mut out),
            Input::Joined { host_key } => self.joined(now, &host_key, entropy, &mut out),
            Input::Polled(polled) => {
                self.polled(now, polled, entropy, &mut out);
                self.settle(now, entropy, &mut out);
            }
            Input::Posted { ticket } => self.posted(now, ticket, &mut out),
            Input::Failed { request, failure } => self.failed(now, request, failure, &mut out),
            Input::Tick => {
                self.settle(now, entropy, &mut out);
                if self.polls() {
                    out.push(Action::Poll {
                        since: self.track.since(),
                    });
                }
            }
        }
        Ok(out)
    }

    /// A clock that was set back starts the spans anew instead of stretching them.
    fn rewind(&mut self, now: UnixMillis) {
        self.born = self.born.min(now);
        self.alive = self.alive.min(now);
        self.cooled_from = self.cooled_from.map(|from| from.min(now));
        let latest = now.plus(MAX_CONFIRM_WAIT_MS);
        self.confirmation.not_before = self.confirmation.not_before.min(latest);
    }

    const fn polls(&self) -> bool {
        match self.phase {
            Phase::Waiting | Phase::Keyed | Phase::Confirmed => true,
            Phase::Opening | Phase::Over(_) => false,
        }
    }

    pub(super) const fn expired(&self, now: UnixMillis) -> bool {
        now.0 >= self.expires_at().0
    }

    /// What time alone brings: expiry, and our confirmation when it is due.
    fn settle(&mut self, now: UnixMillis, entropy: &dyn Entropy, out: &mut Vec<Action>) {
        if self.is_over() {
            return;
        }
        if self.expired(now) {
            self.over(Ending::Expired, out);
            return;
        }
        self.confirm(now, entropy, out);
    }

    fn posted(&mut self, now: UnixMillis, ticket: Ticket, out: &mut Vec<Action>) {
        if self.is_over() {
            return;
        }
        if self.confirmation.in_flight == Some(ticket) {
            self.confirmation.in_flight = None;
            // The host answers a repeated tag; the guest repeats until it hears the host's.
            self.confirmation.due = self.role == Role::Guest && self.phase == Phase::Keyed;
            let doubled = CONFIRM_AGAIN_MS << self.confirmation.tries.min(3);
            self.confirmation.not_before = now.plus(doubled.min(MAX_CONFIRM_WAIT_MS));
            self.confirmation.tries = self.confirmation.tries.saturating_add(1);
            self.alive = now;
            if self.phase == Phase::Confirmed {
                self.tell_confirmed(out);
            }
            return;
        }
        if let Some(outgoing) = self.outgoing.take_if(|outgoing| outgoing.ticket == ticket) {
            self.alive = now;
            self.cooled_from = Some(now);
            out.push(Action::Record(outgoing.row));
        }
    }

    fn failed(
        &mut self,
        now: UnixMillis,
        request: Request,
        failure: Failure,
        out: &mut Vec<Action>,
    ) {
        let call = match request {
            Request::Create => "create",
            Request::Join => "join",
            Request::Post(_) => "send",
            Request::Poll => "poll",
        };
        out.push(Action::Record(Row::CallFailed { call, failure }));
        if self.is_over() {
            return;
        }
        match request {
            Request::Create | Request::Join => {
                if self.phase == Phase::Opening {
                    // A refusal left nothing there; silence may have.
                    self.said.goodbye = failure != Failure::Unreachable;
                    self.over(Ending::OpenFailed(failure), out);
                }
                return;
            }
            Request::Post(ticket) => self.not_posted(now, ticket, failure),
            Request::Poll => {}
        }
        if matches!(failure, Failure::NotAMember | Failure::NoSession) {
            self.over(Ending::RelayLost, out);
        }
    }

    fn not_posted(&mut self, now: UnixMillis, ticket: Ticket, failure: Failure) {
        self.track.not_posted();
        if self.confirmation.in_flight == Some(ticket) {
            self.confirmation.in_flight = None;
            self.confirmation.due = true;
            self.confirmation.not_before = match failure {
                Failure::Limited { retry_after_ms } => {
                    now.plus(retry_after_ms.min(MAX_CONFIRM_WAIT_MS))
                }
                _ => now,
            };
        }
        if let Some(outgoing) = self.outgoing.take_if(|outgoing| outgoing.ticket == ticket) {
            self.spent = self.spent.saturating_sub(outgoing.charged);
        }
    }

    pub(super) const fn ticket(&mut self) -> Ticket {
        self.tickets = self.tickets.saturating_add(1);
        Ticket(self.tickets)
    }

    /// The end, once: says goodbye, tells, records, erases keys. What waits for consent stays.
    pub(super) fn over(&mut self, ending: Ending, out: &mut Vec<Action>) {
        if self.is_over() {
            return;
        }
        self.phase = Phase::Over(ending);
        self.half = None;
        self.keys = None;
        self.outgoing = None;
        self.confirmation = Confirmation::default();
        if !self.said.goodbye {
            self.said.goodbye = true;
            out.push(Action::Goodbye);
        }
        if let Ending::Aborted(reason) = ending {
            out.push(Action::Record(Row::SessionAborted { reason }));
        }
        out.push(Action::Record(Row::SessionEnded { reason: ending }));
        out.push(Action::Tell(match ending {
            Ending::User => Happening::Ended,
            Ending::Aborted(reason) => Happening::Aborted { reason },
            Ending::Expired => Happening::Expired,
            Ending::RelayLost => Happening::RelayLost,
            Ending::PeerGone => Happening::PeerGone,
            Ending::OpenFailed(failure) => Happening::OpenFailed { failure },
        }));
    }

    pub(super) fn odd(&mut self, what: RelayOddity, out: &mut Vec<Action>) {
        let said = match what {
            RelayOddity::CursorPush => &mut self.said.push,
            RelayOddity::Reflection => &mut self.said.reflection,
        };
        if !std::mem::replace(said, true) {
            out.push(Action::Tell(Happening::RelayOdd { what }));
        }
    }
}
