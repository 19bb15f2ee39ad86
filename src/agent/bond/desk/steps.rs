//! Feeding the machine, and doing what it asks for.

use std::sync::{Arc, PoisonError};

use super::{Desk, DeskError, Live, State};
use crate::agent::bond::desktop::Notice;
use crate::agent::bond::driver::{self, Post};
use crate::agent::bond::page::Beside;
use crate::agent::bond::relay::RelayFailure;
use crate::agent::bond::tell;
use crate::crypto::agree::AgreementPublic;
use crate::domain::bond::names::EscapedName;
use crate::domain::bond::preview::Offered;
use crate::domain::machine::bond::{
    Action, Ending, Happening, Input, OwnAction, OwnHappening, Phase, Role, Row, Ticket,
};
use crate::event::agent::BondMode;
use crate::system::SystemClock;
use crate::types::time::{Clock as _, UnixMillis};
use crate::wire::bond::code::{PeerId, RoutingId};
use crate::wire::rendezvous_client::Leave;

impl Desk {
    /// Tells the session something; false when it is not there any more, or over.
    pub(in crate::agent::bond) fn feed(self: &Arc<Self>, id: u64, input: Input) -> bool {
        let mut state = self.lock();
        let before = state.news.len();
        let Some(live) = state.live.as_mut().filter(|live| live.id == id) else {
            return false;
        };
        match live.session.step(self.clock.now(), input, &self.entropy) {
            Ok(actions) => self.carry_out(&mut state, actions),
            Err(e) => tracing::warn!("sealed session: {e}"),
        }
        let goes_on = state
            .live
            .as_ref()
            .is_some_and(|live| !live.session.is_over());
        let news = state.news.len() != before;
        drop(state);
        if news || !goes_on {
            self.ring();
        }
        goes_on
    }

    /// Looks at or changes what belongs to a session, if it is still there.
    pub(in crate::agent::bond) fn with<T>(
        &self,
        id: u64,
        f: impl FnOnce(&mut Live) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        state.live.as_mut().filter(|live| live.id == id).map(f)
    }

    /// What became of a post.
    pub(in crate::agent::bond) fn posted(
        self: &Arc<Self>,
        id: u64,
        ticket: Ticket,
        outcome: Result<(), RelayFailure>,
    ) {
        let waiting = self.with(id, |live| {
            live.trouble = outcome.as_ref().err().map(|failure| failure.detail.clone());
            live.posted.remove(&ticket)
        });
        self.feed(id, driver::posted(ticket, &outcome));
        if let Some(waiting) = waiting.flatten() {
            // Whoever waited may have given up.
            let _ = waiting.send(outcome);
        }
    }

    pub(super) fn carry_out(self: &Arc<Self>, state: &mut State, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Tell(Happening::Own(OwnHappening::Pin(card))) => {
                    self.card_came(state, &card);
                }
                Action::Tell(happening) => self.tell(state, happening),
                Action::Record(row) => {
                    let operator = state.operator_ends;
                    if let Some(live) = state.live.as_mut() {
                        let beside = beside(live, &row, operator);
                        self.scribe.row(live.mode, row, beside);
                    }
                }
                action => {
                    if let Some(live) = state.live.as_mut() {
                        self.request(live, action);
                    }
                }
            }
        }
        if let Some(live) = state.live.as_mut() {
            settle(live);
        }
        self.end_errand(state);
    }

    fn request(self: &Arc<Self>, live: &mut Live, action: Action) {
        let (desk, id, relay) = (Arc::clone(self), live.id, live.relay.clone());
        match action {
            Action::Create { routing, key, peer } => {
                self.open(live, Role::Host, (routing, key, peer));
            }
            Action::Join { routing, key, peer } => {
                self.open(live, Role::Guest, (routing, key, peer));
            }
            Action::Post {
                ticket, payload, ..
            } => {
                let (routing, me) = (live.session.routing(), live.session.me());
                let post = Post {
                    ticket,
                    payload,
                    routing,
                    me,
                };
                if live.session.is_over() {
                    // The last words: they go with the goodbye.
                    live.last.push(post);
                } else {
                    // The receiver ends with the session.
                    let _ = live.posts.send(post);
                }
            }
            Action::Poll { since } => {
                live.poll = Some(since);
                live.wake.notify_one();
            }
            Action::Goodbye => {
                let (routing, me) = (live.session.routing(), live.session.me());
                let last = std::mem::take(&mut live.last);
                let goodbye = async move {
                    for post in last {
                        if let Err(e) = driver::send(&relay, &post).await {
                            tracing::debug!("the last words were not taken: {e}");
                        }
                    }
                    let (routing, me) = (routing.to_string(), me.to_string());
                    let leave = Leave {
                        routing_id: &routing,
                        peer_id: &me,
                    };
                    if let Err(e) = relay.disconnect(&leave).await {
                        tracing::debug!("the relay was not told of the end: {e}");
                    }
                };
                let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
                while leaving.try_join_next().is_some() {}
                leaving.spawn(goodbye);
            }
            Action::Own(OwnAction::StoreChunk {
                id: file,
                offset,
                bytes,
            }) => {
                if let Some(arrivals) = &live.arrivals {
                    arrivals.append(file, offset, bytes);
                }
            }
            Action::Own(OwnAction::FinishFile { id: file }) => {
                if let (Some(arrivals), Some(coming)) = (&live.arrivals, live.coming.get(&file)) {
                    arrivals.finish(file, coming.name.clone(), coming.note.clone());
                }
            }
            Action::Own(OwnAction::DiscardFile { id: file }) => {
                if let Some(arrivals) = &live.arrivals {
                    arrivals.discard(file);
                }
            }
            Action::Own(OwnAction::ReadChunk {
                id: file, offset, ..
            }) => {
                while live.tasks.try_join_next().is_some() {}
                live.tasks.spawn(driver::read(desk, id, file, offset));
            }
            Action::Own(OwnAction::ReleaseFile { id: file }) => drop(live.held.remove(&file)),
            // These are for others.
            _ => {}
        }
    }

    /// Asks the relay for the session, in a role that need not be the machine's.
    fn open(
        self: &Arc<Self>,
        live: &mut Live,
        role: Role,
        ids: (RoutingId, AgreementPublic, PeerId),
    ) {
        let flow = live.session.flow();
        let ask = driver::Ask { role, flow };
        let (desk, relay) = (Arc::clone(self), live.relay.clone());
        live.tasks
            .spawn(driver::open(desk, live.id, relay, ask, ids));
    }

    fn tell(&self, state: &mut State, happening: Happening) {
        if let Some(live) = state.live.as_mut() {
            match &happening {
                Happening::Confirmed { verification } => live.words.clone_from(verification),
                Happening::DroppedStale {
                    clock_difference_ms,
                } => {
                    live.clock_difference_ms = Some(*clock_difference_ms);
                    live.dropped = live.dropped.saturating_add(1);
                }
                Happening::DroppedUnreadable | Happening::DroppedMalformed => {
                    live.dropped = live.dropped.saturating_add(1);
                }
                Happening::FileOffered { from, .. } | Happening::Chat { from, .. } => {
                    live.peer = Some(from.clone());
                }
                Happening::Own(OwnHappening::FileQueued { id, name }) => {
                    live.outgoing.insert(id.clone(), name.clone());
                }
                Happening::FileProgress { id, done, total } => {
                    let who = || match (live.outgoing.get(id), live.coming.get(id)) {
                        (Some(name), _) => Some((EscapedName::of(name).as_str().to_owned(), true)),
                        (None, Some(coming)) => Some((coming.offer.name.clone(), false)),
                        (None, None) => None,
                    };
                    live.moves.progress(id, (*done, *total), who);
                    self.rang_moved();
                }
                Happening::Own(
                    OwnHappening::FileDelivered { id } | OwnHappening::FileReceived { id },
                ) => {
                    live.moves.end(id, true);
                    self.rang_moved();
                }
                Happening::Own(OwnHappening::FileFailed { id, why }) => {
                    live.moves.end(id, false);
                    if let Some(waits) = live.coming.remove(id).and_then(|coming| coming.waits) {
                        let _ = waits.send(Err(DeskError::NotArrived(*why)));
                    }
                }
                Happening::Gap { missed } => live.missed = live.missed.saturating_add(*missed),
                _ => {}
            }
        }
        let now = self.clock.now();
        self.notice(now, state, &happening);
        let about_ours = match (&happening, state.live.as_mut()) {
            (Happening::Own(what), Some(live)) => tell::transfer(now, what, &mut live.outgoing),
            _ => None,
        };
        if let Some(live) = state.live.as_mut() {
            super::errand::learn(live, &happening);
        }
        let offer = match (&happening, &state.live) {
            (Happening::FileOffered { id, .. }, Some(live)) => live.offered.get(id),
            _ => None,
        };
        let offer = offer.map(|(known, _)| known);
        let met = match (&happening, &state.live) {
            (Happening::Confirmed { .. }, Some(live)) => live.errand.as_ref(),
            _ => None,
        };
        if let Some(errand) = met {
            self.note_met(errand);
        }
        let about_ours = about_ours.or_else(|| met.map(|errand| tell::met(now, &errand.name)));
        if let Some(event) = about_ours.or_else(|| tell::event(now, happening, offer)) {
            state.news.push(event);
        }
    }

    fn rang_moved(&self) {
        self.moved
            .send_modify(|times| *times = times.wrapping_add(1));
    }

    /// A word on the desktop.
    fn notice(&self, now: UnixMillis, state: &State, happening: &Happening) {
        let peer = state.live.as_ref().and_then(|live| live.peer.as_deref());
        let notice = match happening {
            Happening::Confirmed { .. } => Notice::Confirmed,
            Happening::FileOffered {
                from, name, size, ..
            } => Notice::File {
                from,
                name,
                size: *size,
            },
            Happening::Chat { from, .. } => Notice::Message { from },
            Happening::PeerGone => Notice::PeerGone {
                from: peer.unwrap_or_default(),
            },
            _ => return,
        };
        self.desktop.tell(now, &notice);
    }
}

/// What the record of a row holds beside it.
fn beside(live: &mut Live, row: &Row, operator: bool) -> Beside {
    let mut beside = Beside {
        operator,
        ..Beside::default()
    };
    match row {
        Row::OfferReceived { id, .. } => {
            if let Some(offer) = live.session.offer(id) {
                let (id, from, name) = (id.as_str(), &offer.from, &offer.name);
                let mut known = match live.mode {
                    BondMode::Own => {
                        let size = offer.size;
                        Offered::to_come(id, from, name, &offer.note, size, &offer.sha256)
                    }
                    BondMode::Legacy => {
                        let content = offer.content.expose();
                        Offered::of(id, from, name, &offer.note, content, &offer.sha256)
                    }
                };
                // A peer has a name, and it proved that it is the one of that name.
                if let Some(errand) = &live.errand {
                    known.from = Some(format!("\"{}\"", errand.name));
                }
                known.kind.clone_into(&mut beside.file_type);
                beside.rules = known.findings();
                let at = SystemClock.now();
                live.offered.insert(offer.id.clone(), (known, at));
            }
        }
        Row::FileSent { .. } => beside.sha256 = live.sending.take(),
        _ => {}
    }
    beside
}

/// After each step: whoever waits for the opening hears of it; what is over stops.
fn settle(live: &mut Live) {
    let phase = live.session.phase();
    if phase != Phase::Opening
        && let Some(opening) = live.opening.take()
    {
        let outcome = match phase {
            Phase::Over(ending) => Err(why_not_opened(live, ending)),
            _ => Ok(()),
        };
        // Whoever waited may have given up.
        let _ = opening.send(outcome);
    }
    if matches!(phase, Phase::Over(_)) {
        live.tasks.abort_all();
        live.posted.clear();
        live.code = None;
        live.poll = None;
    }
}

fn why_not_opened(live: &Live, ending: Ending) -> String {
    match (&live.trouble, ending) {
        (Some(trouble), Ending::OpenFailed(failure)) => tell::why_not_opened(failure, trouble),
        (_, ending) => tell::why_over(ending).to_owned(),
    }
}
