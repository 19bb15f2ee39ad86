//! Two sides of a session of our own mode that pin each other.
//!
//! Each says who it is on a card that it signs for this session and its side of it. A card that comes is
//! a request: it waits, and changes nothing. What admits is the human's word. It is given about the key
//! on the card, or, where no card came yet, about whoever holds the other end of this session: then the
//! first card that proves itself in it is the one that was meant. Whoever agrees answers with its own
//! card. The admission is that of any peer.

use std::sync::{Arc, PoisonError};

use super::errand::Errand;
use super::{Desk, DeskError, Live, State};
use crate::agent::bond::tell;
use crate::agent::core::Core;
use crate::agent::ledger::LedgerError;
use crate::agent::peers_file::PeersFileError;
use crate::domain::decide::agent::{AgentCommand, AgentRefusal, BondNews};
use crate::domain::machine::bond::{Input, OwnInput, Phase};
use crate::domain::query::agent as query;
use crate::event::agent::{BondMode, DecidedBy, Origin, PinStep};
use crate::types::id::PublicKey;
use crate::types::time::Clock as _;
use crate::wire::bond::identity::{MAX_NAME_BYTES, PinCard};
use crate::wire::pair::{claimed_name, claimed_petname};
use crate::wire::peers::Petname;

/// Who the other side says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its key. Proven in this session.
    pub key: PublicKey,
    /// The name that it gives itself: not verified, bounded, everything odd spelled out.
    pub name: String,
}

/// How far two sides are with pinning each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinView {
    /// Which session this is about.
    pub(in crate::agent::bond) session: u64,
    /// The first 12 digits of its routing id.
    pub routing: String,
    /// Words that both sides see alike.
    pub words: Option<String>,
    /// The card that came.
    pub claim: Option<Claim>,
    /// Whether our human agreed and the other side's card is awaited.
    pub asked: bool,
    /// Its name here, once it was pinned in this session.
    pub pinned: Option<String>,
}

/// What became of the human's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinOutcome {
    /// Our card went out; the other side's human decides.
    Asked,
    /// The other side is a peer under this name, and has our card.
    Pinned(Claim, String),
}

/// Our human's word that waits for a card.
struct Agreement {
    petname: Option<Petname>,
    by: DecidedBy,
}

/// What a session knows of it.
#[derive(Default)]
pub(super) struct Pins {
    agreed: Option<Agreement>,
    sent: bool,
    claim: Option<Claim>,
    pinned: Option<String>,
}

const fn origin(by: DecidedBy) -> Origin {
    match by {
        DecidedBy::Form => Origin::Human,
        DecidedBy::Operator => Origin::Admin,
        DecidedBy::Tool => Origin::Tool,
    }
}

/// A session between peers is none to pin anybody in: whose it is, is known.
fn fit(live: Option<&mut Live>) -> Result<&mut Live, DeskError> {
    live.filter(|live| live.mode == BondMode::Own && live.errand.is_none())
        .filter(|live| live.session.phase() == Phase::Confirmed)
        .ok_or(DeskError::NotForPinning)
}

impl Desk {
    /// The conversation that uses the session: what is decided in it is written for that one.
    pub fn attach(&self, core: &Arc<Core>) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(core);
    }

    pub(super) fn home(&self) -> Result<Arc<Core>, DeskError> {
        let home = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        home.upgrade().ok_or(DeskError::NoHome)
    }

    /// How far the two sides are.
    ///
    /// # Errors
    ///
    /// [`DeskError::NotForPinning`] where they cannot pin each other.
    pub fn pinning(&self) -> Result<PinView, DeskError> {
        let mut state = self.lock();
        let live = fit(state.live.as_mut())?;
        Ok(PinView {
            session: live.id,
            routing: live.session.routing().prefix(),
            words: live.words.clone(),
            claim: live.pins.claim.clone(),
            asked: live.pins.agreed.is_some(),
            pinned: live.pins.pinned.clone(),
        })
    }

    /// The human agreed about what `shown` says. Admits the key of its card, or lets the first card that
    /// comes be admitted; our card goes out. The admission is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`DeskError`]; nothing has changed then, but where the admission failed the human's word is used
    /// up.
    pub async fn pin(
        self: &Arc<Self>,
        shown: &PinView,
        petname: Option<Petname>,
        by: DecidedBy,
    ) -> Result<PinOutcome, DeskError> {
        let core = self.home()?;
        let claim = {
            let mut state = self.lock();
            let live = state.live.as_mut().filter(|live| live.id == shown.session);
            let live = fit(live)?;
            match (&shown.claim, &live.pins.claim) {
                (Some(shown), Some(now)) if shown == now => Some(shown.clone()),
                // It came while the human was asked about whoever holds the other end.
                (None, Some(now)) => Some(now.clone()),
                (None, None) => None,
                (Some(_), _) => return Err(DeskError::Changed),
            }
        };
        if let Some(claim) = claim {
            let name = self.admit(&core, &claim, petname, by).await?;
            let mut state = self.lock();
            let live = state.live.as_mut().filter(|live| live.id == shown.session);
            if let Some(live) = live {
                live.pins.agreed = None;
                live.pins.pinned = Some(name.clone());
                self.send_card(&mut state, &core)?;
            }
            return Ok(PinOutcome::Pinned(claim, name));
        }
        let mut state = self.lock();
        let live = state.live.as_mut().filter(|live| live.id == shown.session);
        let live = fit(live)?;
        let name = petname.as_ref().map(ToString::to_string);
        live.pins.agreed = Some(Agreement { petname, by });
        self.note_pin(PinStep::Asked, None, &name.unwrap_or_default(), Some(by));
        // Its card may have come between the two looks.
        self.settle_pin(&mut state, &core);
        self.send_card(&mut state, &core)?;
        Ok(PinOutcome::Asked)
    }

    /// For a model that did not see it happen.
    pub fn tell_pinned(&self, claim: &Claim, name: &str) {
        let event = tell::pinned(self.clock.now(), claim, name);
        self.lock().news.push(event);
        self.ring();
    }

    /// The human said no. The card waits as before.
    pub fn pin_declined(&self, shown: &PinView, by: DecidedBy) {
        let claim = shown.claim.as_ref();
        let name = claim.map_or("", |claim| claim.name.as_str());
        self.note_pin(
            PinStep::Declined,
            claim.map(|claim| claim.key),
            name,
            Some(by),
        );
    }

    /// Puts our card on its way, once a session.
    fn send_card(self: &Arc<Self>, state: &mut State, core: &Core) -> Result<(), DeskError> {
        let Some(live) = state.live.as_mut().filter(|live| !live.pins.sent) else {
            return Ok(());
        };
        let binding = live.session.binding().ok_or(DeskError::NotForPinning)?;
        let name = cut(&core.name);
        let card = PinCard::write(&core.identity, &binding, live.session.role(), name, "");
        let input = Input::Own(OwnInput::Pin(card));
        let actions = live
            .session
            .step(self.clock.now(), input, &self.entropy)
            .map_err(super::deals::judge)?;
        live.pins.sent = true;
        self.note_pin(PinStep::Sent, None, "", None);
        self.carry_out(state, actions);
        Ok(())
    }

    /// The other side says who it is.
    pub(super) fn card_came(self: &Arc<Self>, state: &mut State, bytes: &[u8]) {
        let now = self.clock.now();
        let home = self.home().ok();
        let Some(live) = state.live.as_mut() else {
            return;
        };
        let other = live.session.role().other();
        let card = live
            .session
            .binding()
            .and_then(|binding| PinCard::read(bytes, &binding, other).ok())
            .filter(|card| home.as_ref().is_none_or(|core| core.me != card.key))
            .filter(|_| live.errand.is_none());
        let known = live.pins.claim.as_ref();
        let claim = match (card, known) {
            (Some(card), Some(known)) if card.key == known.key => return,
            // What was shown to a human stays what it is.
            (None, _) | (Some(_), Some(_)) => {
                self.note_pin(PinStep::Refused, None, "", None);
                state.news.push(tell::pin_refused(now));
                return;
            }
            (Some(card), None) => Claim {
                key: card.key,
                name: claimed_name(&card.name),
            },
        };
        self.note_pin(PinStep::Received, Some(claim.key), &claim.name, None);
        live.pins.claim = Some(claim.clone());
        match (&live.pins.agreed, home) {
            (Some(_), Some(core)) => self.settle_pin(state, &core),
            _ => state.news.push(tell::pin_asked(now, &claim)),
        }
    }

    /// Where the human's word and the card are both there, the one is carried out for the other.
    fn settle_pin(self: &Arc<Self>, state: &mut State, core: &Arc<Core>) {
        let Some(live) = state.live.as_mut() else {
            return;
        };
        let Some(claim) = live.pins.claim.clone() else {
            return;
        };
        let Some(agreed) = live.pins.agreed.take() else {
            return;
        };
        let (desk, core, session) = (Arc::clone(self), Arc::clone(core), live.id);
        // Not with the session's tasks: the human's word outlives it.
        tokio::spawn(async move {
            let admitted = desk.admit(&core, &claim, agreed.petname, agreed.by).await;
            let now = desk.clock.now();
            let mut state = desk.lock();
            match admitted {
                Ok(name) => {
                    state.news.push(tell::pinned(now, &claim, &name));
                    if let Some(live) = state.live.as_mut().filter(|live| live.id == session) {
                        live.pins.pinned = Some(name);
                    }
                }
                Err(e) => state
                    .news
                    .push(tell::pin_failed(now, &claim, &e.to_string())),
            }
            drop(state);
            desk.ring();
        });
    }

    /// The ordinary admission; gives the name. Somebody who is a peer already keeps the name that it has.
    async fn admit(
        &self,
        core: &Core,
        claim: &Claim,
        petname: Option<Petname>,
        by: DecidedBy,
    ) -> Result<String, DeskError> {
        let key = claim.key;
        let not = |e: &dyn std::fmt::Display| DeskError::NotPinned(e.to_string());
        core.peers.ensure(&core.ledger).await.map_err(|e| not(&e))?;
        let known = core
            .ledger
            .read(move |s| Ok(query::peer_by_key(s, &key)?))
            .await
            .map_err(DeskError::Books)?;
        // Nobody decides about somebody who is a peer already.
        let decided = known.is_none().then_some(by);
        let name = match (known, petname.or_else(|| claimed_petname(&claim.name))) {
            (Some(peer), _) => peer.petname,
            (None, None) => {
                self.note_pin(PinStep::Conflicted, Some(key), &claim.name, None);
                return Err(DeskError::NotPinned(
                    "what it calls itself cannot be a name here; give a `petname`".to_owned(),
                ));
            }
            (None, Some(name)) => {
                let command = AgentCommand::AddPeer {
                    petname: name.to_string(),
                    key,
                    origin: origin(by),
                    lease: Some(core.await_lease().await.map_err(|e| not(&e))?),
                    now: core.clock.now(),
                };
                match core.peers.change(&core.ledger, command).await {
                    Ok(_) => {}
                    Err(e) => {
                        if is_taken(&e) {
                            self.note_pin(PinStep::Conflicted, Some(key), name.as_str(), None);
                        }
                        return Err(not(&e));
                    }
                }
                name.to_string()
            }
        };
        self.note_pin(PinStep::Pinned, Some(key), &name, decided);
        Ok(name)
    }

    /// A peer proved that it is there.
    pub(super) fn note_met(&self, errand: &Errand) {
        self.note_pin(PinStep::Met, Some(errand.key), &errand.name, None);
    }

    fn note_pin(&self, step: PinStep, key: Option<PublicKey>, name: &str, by: Option<DecidedBy>) {
        self.scribe.news(BondNews::Pin {
            step,
            key,
            name: name.to_owned(),
            by,
        });
    }
}

fn is_taken(e: &PeersFileError) -> bool {
    matches!(
        e,
        PeersFileError::Ledger(LedgerError::Refused(AgentRefusal::PetnameTaken { .. }))
    )
}

/// As much of a name as a card may hold.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    name.get(..end).unwrap_or_default()
}
