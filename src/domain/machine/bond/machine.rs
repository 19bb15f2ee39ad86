//! What a driver needs of a session, whichever mode its code chose.

use super::io::{Action, Input, OfferId};
use super::offers::Offer;
use super::own::OwnSession;
use super::send::SendError;
use super::session::{Phase, Session, StepError};
use crate::types::entropy::Entropy;
use crate::types::time::UnixMillis;
use crate::wire::bond::Role;
use crate::wire::bond::code::{PeerId, RoutingId};
use crate::wire::bond::own::FLOW;

/// A session of either mode.
///
/// A driver MUST execute the actions of a step in order, and feed an answer to each request that it
/// makes. What is posted before a goodbye is sent before it, although the session is over by then: it
/// is the last word under the seal. Create and join are what they say, whatever the role: in our own
/// mode a host may have to join its own session. It MUST drop the answer to a poll that was asked under another [`Machine::routing`] than
/// the present one: a session in our own mode moves when its relay loses it.
pub trait Machine: Send {
    /// Takes one input.
    ///
    /// # Errors
    ///
    /// Only for what the user wants, and when there is no randomness for it. The session is then as
    /// it was before.
    fn step(
        &mut self,
        now: UnixMillis,
        input: Input,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Action>, StepError>;

    /// Our end.
    fn role(&self) -> Role;

    /// Where it stands.
    fn phase(&self) -> Phase;

    /// Whether there is nothing left to do for a driver. Offers may still wait.
    fn is_over(&self) -> bool {
        matches!(self.phase(), Phase::Over(_))
    }

    /// Where the relay files it now.
    fn routing(&self) -> RoutingId;

    /// Who we are to the relay.
    fn me(&self) -> PeerId;

    /// Who the other side is to the relay, as far as the relay said.
    fn peer(&self) -> Option<PeerId>;

    /// How many sit in the session, ourselves included, as far as we know.
    fn members(&self) -> u8;

    /// When it expires if nothing happens.
    fn expires_at(&self) -> UnixMillis;

    /// The files that wait for consent, oldest first. In our own mode their content is empty.
    fn offers(&self) -> &[Offer];

    /// Whether the user may send something now.
    ///
    /// # Errors
    ///
    /// Why not.
    fn may_send(&self, now: UnixMillis) -> Result<(), SendError>;

    /// What the member `flow` of `/create` and `/join` says; absent for the legacy mode.
    fn flow(&self) -> Option<&'static str>;

    /// What both sides of a confirmed session know and nobody else; `None` before, and in the legacy
    /// mode.
    fn binding(&self) -> Option<[u8; 32]>;

    /// A file that waits for consent.
    fn offer(&self, id: &OfferId) -> Option<&Offer> {
        self.offers().iter().find(|offer| offer.id == *id)
    }
}

macro_rules! machine {
    ($session:ty, $flow:expr, $binding:expr) => {
        impl Machine for $session {
            fn step(
                &mut self,
                now: UnixMillis,
                input: Input,
                entropy: &dyn Entropy,
            ) -> Result<Vec<Action>, StepError> {
                <$session>::step(self, now, input, entropy)
            }

            fn role(&self) -> Role {
                <$session>::role(self)
            }

            fn phase(&self) -> Phase {
                <$session>::phase(self)
            }

            fn routing(&self) -> RoutingId {
                <$session>::routing(self)
            }

            fn me(&self) -> PeerId {
                <$session>::me(self)
            }

            fn peer(&self) -> Option<PeerId> {
                <$session>::peer(self)
            }

            fn members(&self) -> u8 {
                <$session>::members(self)
            }

            fn expires_at(&self) -> UnixMillis {
                <$session>::expires_at(self)
            }

            fn offers(&self) -> &[Offer] {
                <$session>::offers(self)
            }

            fn may_send(&self, now: UnixMillis) -> Result<(), SendError> {
                <$session>::may_send(self, now)
            }

            fn flow(&self) -> Option<&'static str> {
                $flow
            }

            fn binding(&self) -> Option<[u8; 32]> {
                let binding: fn(&$session) -> Option<[u8; 32]> = $binding;
                binding(self)
            }
        }
    };
}

machine!(Session, None, |_| None);
machine!(OwnSession, Some(FLOW), OwnSession::binding);
