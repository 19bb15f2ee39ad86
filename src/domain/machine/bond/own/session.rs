//! The machine itself: phases, time, and what each input leads to.

use super::super::io::{Action, Failure, Input, OfferId, Request, Ticket};
use super::super::offers::{Offer, Offers};
use super::super::row::{Ending, Row};
use super::super::session::{Phase, Policy, StepError};
use super::super::tell::{AbortReason, Happening, Refusal, RelayOddity};
use super::super::track::Track;
use super::super::{CONFIRM_AGAIN_MS, SESSION_TTL_MS};
use super::files::{Files, Source};
use super::handshake::{Met, Pinned, Start};
use super::io::{OwnInput, TransferFailure};
use super::keys::Keys;
use super::link::Link;
use super::stream::{Inbox, Outbox};
use super::{PROOF_MS, RETRY_MS, SLOW_AFTER_MS};
use crate::crypto::agree::AgreementPublic;
use crate::types::entropy::{Entropy, EntropyError};
use crate::types::secret::Secret;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::code::{PeerId, RoutingId};
use crate::wire::bond::own::Hello;
use crate::wire::bond::own_code::OwnCode;

/// Our proof on its way.
#[derive(Default)]
pub(super) struct Proof {
    /// The message, once there is one.
    pub(super) text: Option<String>,
    /// To be sent as soon as possible.
    pub(super) due: bool,
    /// Not before this time.
    pub(super) not_before: UnixMillis,
}

/// What a message that is on its way to the relay carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Proof,
    Records,
}

/// What was told once and need not be told again.
#[derive(Default)]
pub(super) struct Said {
    pub(super) goodbye: bool,
    push: bool,
    reflection: bool,
    second_joiner: bool,
    failure: Option<(&'static str, Failure)>,
}

/// One session in our own mode, from its code to its goodbye.
pub struct OwnSession {
    pub(super) role: Role,
    pub(super) first_routing: RoutingId,
    pub(super) routing: RoutingId,
    pub(super) me: PeerId,
    pub(super) policy: Policy,
    pub(super) phase: Phase,
    pub(super) start: Option<Start>,
    pub(super) met: Option<Met>,
    pub(super) proof: Proof,
    /// The guest's proof that the host took.
    pub(super) proven: Option<Hello>,
    pub(super) keys: Option<Keys>,
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    /// The number of the next control record.
    pub(super) control_next: u64,
    /// The number after the newest control record of the peer.
    pub(super) control_seen: u64,
    pub(super) control_due: bool,
    pub(super) posted_at: UnixMillis,
    pub(super) posting: Option<(Ticket, Load)>,
    pub(super) not_before: UnixMillis,
    /// The relay counts messages.
    pub(super) slow: bool,
    pub(super) files: Files,
    pub(super) offers: Offers,
    pub(super) peer: Option<PeerId>,
    pub(super) track: Track,
    pub(super) link: Link,
    pub(super) chats: u64,
    pub(super) chats_told: u64,
    /// Records that could not be opened.
    pub(super) unreadable: u64,
    pub(super) said: Said,
    born: UnixMillis,
    pub(super) alive: UnixMillis,
    tickets: u64,
}

impl std::fmt::Debug for OwnSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnSession")
            .field("role", &self.role)
            .field("routing", &self.routing)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl OwnSession {
    /// Starts a session with its code, and asks the relay for it. Takes less than a millisecond.
    ///
    /// # Errors
    ///
    /// When there is no randomness to be had.
    pub fn open(
        role: Role,
        code: &OwnCode,
        policy: Policy,
        now: UnixMillis,
        entropy: &dyn Entropy,
    ) -> Result<(OwnSession, Vec<Action>), EntropyError> {
        let start = Start::with_code(role, code, entropy)?;
        OwnSession::begin(role, code.routing(), start, policy, now, entropy)
    }

    /// Starts a session between two identities that have pinned each other: no code, and nobody
    /// else gets in. `routing` is random and known to both; it need not be secret.
    ///
    /// # Errors
    ///
    /// When there is no randomness to be had.
    pub fn open_pinned(
        role: Role,
        routing: RoutingId,
        pinned: Pinned,
        policy: Policy,
        now: UnixMillis,
        entropy: &dyn Entropy,
    ) -> Result<(OwnSession, Vec<Action>), EntropyError> {
        let start = Start::with_identities(role, routing, pinned, entropy)?;
        OwnSession::begin(role, routing, start, policy, now, entropy)
    }

    fn begin(
        role: Role,
        routing: RoutingId,
        start: Start,
        policy: Policy,
        now: UnixMillis,
        entropy: &dyn Entropy,
    ) -> Result<(OwnSession, Vec<Action>), EntropyError> {
        let me = PeerId::generate(entropy)?;
        let (key, peer) = (AgreementPublic::from_bytes(*start.element()), me);
        let ask = match role {
            Role::Host => Action::Create { routing, key, peer },
            Role::Guest => Action::Join { routing, key, peer },
        };
        let session = OwnSession {
            role,
            first_routing: routing,
            routing,
            me,
            policy,
            phase: Phase::Opening,
            start: Some(start),
            met: None,
            proof: Proof::default(),
            proven: None,
            keys: None,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            control_next: 0,
            control_seen: 0,
            control_due: false,
            posted_at: now,
            posting: None,
            not_before: now,
            slow: false,
            files: Files::default(),
            offers: Offers::default(),
            peer: None,
            track: Track::default(),
            link: Link::new(now),
            chats: 0,
            chats_told: 0,
            unreadable: 0,
            said: Said::default(),
            born: now,
            alive: now,
            tickets: 0,
        };
        Ok((session, vec![ask]))
    }

    /// Our end.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Where it stands. A session that looks for its peer again stays confirmed.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether there is nothing left to do for a driver.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// Whether the relay has a seat for us, as far as we know.
    #[must_use]
    pub const fn is_linked(&self) -> bool {
        self.link.up && !self.is_over()
    }

    /// Where the relay files it now.
    #[must_use]
    pub const fn routing(&self) -> RoutingId {
        self.routing
    }

    /// Who we are to the relay.
    #[must_use]
    pub const fn me(&self) -> PeerId {
        self.me
    }

    /// Who the other side is to the relay, as far as the relay said.
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

    /// When it expires if nothing happens: half an hour after the peer was last heard.
    #[must_use]
    pub const fn expires_at(&self) -> UnixMillis {
        match self.phase {
            Phase::Confirmed => self.alive.plus(SESSION_TTL_MS),
            Phase::Keyed => self.alive.plus(PROOF_MS),
            Phase::Opening | Phase::Waiting | Phase::Over(_) => self.born.plus(SESSION_TTL_MS),
        }
    }

    /// The files that wait for consent, oldest first. Their content is empty: it is still with the
    /// peer.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        self.offers.all()
    }

    /// A file that waits for consent.
    #[must_use]
    pub fn offer(&self, id: &OfferId) -> Option<&Offer> {
        self.offers.get(id)
    }

    /// What both sides of a confirmed session know and nobody else: to be signed by whoever wants to
    /// say who it is, here and nowhere else.
    #[must_use]
    pub fn binding(&self) -> Option<[u8; 32]> {
        self.keys.as_ref().map(Keys::binding)
    }

    /// Chats and files of ours that the peer has not acknowledged.
    #[must_use]
    pub fn undelivered(&self) -> (u64, u64) {
        let files = u64::try_from(self.files.out.len()).unwrap_or(u64::MAX);
        (self.outbox.chats_waiting(), files)
    }

    /// Takes one input.
    ///
    /// # Errors
    ///
    /// Only for what the user wants, and when there is no randomness for it. The session is then as
    /// it was before.
    pub fn step(
        &mut self,
        now: UnixMillis,
        input: Input,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Action>, StepError> {
        let mut out = Vec::new();
        match input {
            Input::Say(text) => self.say(now, text, &mut out)?,
            Input::SendFile(file) => {
                let content = Secret::new(file.content.into_bytes());
                self.offer_content(now, file.name, content, file.note, entropy, &mut out)?;
            }
            Input::Own(OwnInput::OfferContent {
                name,
                content,
                note,
            }) => self.offer_content(now, name, content, note, entropy, &mut out)?,
            Input::Own(OwnInput::OfferFile(local)) => {
                self.offer_file(now, local, Source::Edge, entropy, &mut out)?;
            }
            Input::Own(OwnInput::Pin(bytes)) => self.pin(now, bytes)?,
            Input::Own(OwnInput::Cancel { id }) => self.cancel(&id, &mut out)?,
            Input::Own(OwnInput::ChunkRead { id, offset, bytes }) => {
                self.chunk_read(&id, offset, bytes, &mut out);
            }
            Input::Own(OwnInput::ReadFailed { id }) => self.read_failed(&id, &mut out),
            Input::Own(OwnInput::Changed { id }) => {
                self.withdraw(&id, TransferFailure::Changed, &mut out);
            }
            Input::Own(OwnInput::Stored { id }) => self.stored(&id, &mut out),
            Input::Own(OwnInput::StoreFailed { id }) => self.store_failed(&id, &mut out),
            Input::Accepted { id } => self.accept(&id, &mut out)?,
            Input::Declined { id } => self.decline(&id, &mut out)?,
            Input::End => {
                self.say_bye(&mut out);
                self.over(Ending::User, &mut out);
            }
            Input::Created => self.created(now, &mut out),
            Input::Joined { host_key } => self.joined(now, &host_key, &mut out),
            Input::Polled(polled) => {
                let wanted = self.inbox.wants();
                self.polled(now, polled, entropy, &mut out);
                // The peer is in full swing, and a relay hands out so much at a time.
                if self.inbox.wants() > wanted {
                    self.poll(&mut out);
                }
            }
            Input::Posted { ticket } => self.posted(now, ticket),
            Input::Failed { request, failure } => self.failed(now, request, failure, &mut out),
            Input::Tick => {
                self.settle(now, entropy, &mut out);
                self.poll(&mut out);
                return Ok(out);
            }
        }
        self.settle(now, entropy, &mut out);
        Ok(out)
    }

    fn poll(&self, out: &mut Vec<Action>) {
        let polls = match self.phase {
            Phase::Waiting | Phase::Keyed | Phase::Confirmed => self.link.up,
            Phase::Opening | Phase::Over(_) => false,
        };
        if polls {
            out.push(Action::Poll {
                since: self.track.since(),
            });
        }
    }

    const fn expired(&self, now: UnixMillis) -> bool {
        now.0 >= self.expires_at().0
    }

    /// What time alone brings.
    fn settle(&mut self, now: UnixMillis, entropy: &dyn Entropy, out: &mut Vec<Action>) {
        if self.is_over() {
            return;
        }
        if self.expired(now) {
            self.over(Ending::Expired, out);
            return;
        }
        self.look_for_peer(now, entropy, out);
        self.fill(out);
        self.pump(now, out);
    }

    fn created(&mut self, now: UnixMillis, out: &mut Vec<Action>) {
        if self.role != Role::Host {
            return;
        }
        if self.phase == Phase::Opening {
            self.phase = Phase::Waiting;
            out.push(Action::Record(Row::SessionCreated {
                routing: self.routing.prefix(),
            }));
            out.push(Action::Tell(Happening::Opened));
        } else {
            self.link_found(now);
        }
    }

    fn joined(&mut self, now: UnixMillis, host_key: &str, out: &mut Vec<Action>) {
        if self.phase == Phase::Confirmed {
            self.link_found(now);
            return;
        }
        if self.role != Role::Guest || self.phase != Phase::Opening {
            return;
        }
        out.push(Action::Record(Row::SessionJoined {
            routing: self.routing.prefix(),
        }));
        self.meet(now, host_key, out);
        if let Some(met) = &self.met {
            let hello = met.guest_hello();
            self.proof.text = Some(crate::wire::bond::own::write_hello(self.role, &hello));
            self.proof.due = true;
        }
    }

    /// The peer's element came.
    pub(super) fn meet(&mut self, now: UnixMillis, element: &str, out: &mut Vec<Action>) {
        let Some(start) = self.start.take() else {
            return;
        };
        let met = element
            .parse::<AgreementPublic>()
            .ok()
            .and_then(|element| start.meet(element.as_bytes()).ok());
        let Some(met) = met else {
            self.over(Ending::Aborted(AbortReason::BadKey), out);
            return;
        };
        self.met = Some(met);
        self.alive = now;
        self.phase = Phase::Keyed;
        out.push(Action::Record(Row::KeyExchangeCompleted {
            role: self.role,
        }));
        if self.role == Role::Host {
            out.push(Action::Tell(Happening::PeerJoined));
        }
    }

    fn posted(&mut self, now: UnixMillis, ticket: Ticket) {
        let Some((_, load)) = self.posting.take_if(|(posting, _)| *posting == ticket) else {
            return;
        };
        self.posted_at = now;
        match load {
            Load::Proof => {
                self.proof.due = self.role == Role::Guest && self.phase == Phase::Keyed;
                self.proof.not_before = now.plus(CONFIRM_AGAIN_MS);
            }
            Load::Records => self.outbox.posted(now, true),
        }
    }

    /// A message that was on its way may be lost, and its answer does not count any more.
    pub(super) fn forget_post(&mut self, now: UnixMillis) {
        if self.posting.take().is_some() {
            self.outbox.posted(now, false);
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
        // A search for the peer fails often: one line for each new way.
        if self.said.failure.replace((call, failure)) != Some((call, failure)) {
            out.push(Action::Record(Row::CallFailed { call, failure }));
        }
        if self.is_over() {
            return;
        }
        match request {
            Request::Create | Request::Join if self.phase == Phase::Opening => {
                // A refusal left nothing there; silence may have.
                self.said.goodbye = failure != Failure::Unreachable;
                self.over(Ending::OpenFailed(failure), out);
                return;
            }
            Request::Create | Request::Join => {
                self.link_refused(now, failure);
                return;
            }
            Request::Post(ticket) => self.not_posted(now, ticket, failure),
            Request::Poll => {}
        }
        if matches!(failure, Failure::NotAMember | Failure::NoSession) {
            if self.phase == Phase::Confirmed {
                self.link_lost(now, out);
            } else {
                self.over(Ending::RelayLost, out);
            }
        }
    }

    fn not_posted(&mut self, now: UnixMillis, ticket: Ticket, failure: Failure) {
        let Some((_, load)) = self.posting.take_if(|(posting, _)| *posting == ticket) else {
            return;
        };
        if load == Load::Records {
            self.outbox.posted(now, false);
            self.control_due = true;
        }
        self.not_before = match failure {
            Failure::Limited { retry_after_ms } => {
                self.slow |= retry_after_ms > SLOW_AFTER_MS;
                now.plus(retry_after_ms.min(SESSION_TTL_MS))
            }
            _ => now.plus(RETRY_MS),
        };
    }

    pub(super) const fn ticket(&mut self) -> Ticket {
        self.tickets = self.tickets.saturating_add(1);
        Ticket(self.tickets)
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

    pub(super) fn second_joiner(&mut self, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.said.second_joiner, true) {
            out.push(Action::Tell(Happening::SecondJoiner));
        }
    }

    pub(super) fn blocked(&self, reason: Refusal, from: String, out: &mut Vec<Action>) {
        out.push(Action::Record(Row::InboundBlocked { reason, from }));
        out.push(Action::Tell(Happening::Rejected { why: reason }));
    }
}
