//! Words and files, both ways.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{
    AcceptedFile, Coming, Desk, DeskError, Look, OfferView, PATIENCE, SentFile, State, view_of,
};
use crate::agent::bond::arrivals::{Arrivals, Landed};
use crate::agent::bond::file::{self, FileError};
use crate::agent::bond::tell;
use crate::agent::ledger::LedgerError;
use crate::domain::bond::preview;
use crate::domain::decide::agent::{AgentRefusal, BondRefusal};
use crate::domain::machine::bond::{
    Action, Carries, Happening, Input, LocalFile, OfferId, OwnHappening, OwnInput, StepError,
    TransferFailure,
};
use crate::event::agent::{BondMode, DecidedBy, Verdict};
use crate::types::secret::Secret;
use crate::types::time::Clock as _;

/// How long a tool waits for an accepted file; it arrives all the same.
const ARRIVAL: Duration = Duration::from_secs(45);

impl Desk {
    /// Says something; the relay has it when this returns.
    ///
    /// # Errors
    ///
    /// [`DeskError`].
    pub async fn say(self: &Arc<Self>, text: String) -> Result<(), DeskError> {
        let (session, _) = self.spoken_to()?;
        self.post(session, Carries::Chat, Input::Say(text)).await
    }

    /// The session that words and files go to, from here on this one and no other. One between peers
    /// takes nothing but the file that it was opened for: it may have begun since the model looked.
    fn spoken_to(&self) -> Result<(u64, BondMode), DeskError> {
        let state = self.lock();
        let live = state.live.as_ref().ok_or(DeskError::NotConnected)?;
        match &live.errand {
            Some(errand) => Err(DeskError::Errand(errand.name.clone())),
            None => Ok((live.id, live.mode)),
        }
    }

    /// Sends a file; the relay has it when this returns.
    ///
    /// # Errors
    ///
    /// [`DeskError`].
    pub async fn send_file(
        self: &Arc<Self>,
        path: String,
        note: String,
    ) -> Result<SentFile, DeskError> {
        let (session, mode) = self.spoken_to()?;
        // What cannot be sent anyway is not read.
        let may = self.with(session, |live| live.session.may_send(self.clock.now()));
        may.ok_or(DeskError::NotConnected)?
            .map_err(DeskError::Send)?;
        if mode == BondMode::Own {
            return self.send_own(session, path, note).await;
        }
        let config = self.config.clone();
        let opened = tokio::task::spawn_blocking(move || file::open(&config, &path, note))
            .await
            .map_err(|_| DeskError::Thread)??;
        let sent = SentFile {
            name: opened.file.name.clone(),
            size: u64::try_from(opened.file.content.len()).unwrap_or(u64::MAX),
            sha256: opened.sha256,
            told: false,
        };
        self.with(session, |live| live.sending = Some(opened.sha256));
        self.post(session, Carries::File, Input::SendFile(opened.file))
            .await?;
        Ok(sent)
    }

    /// Offers a file in our own mode: it goes once the human at the other end took it. Until then it
    /// is held open, and read only as it goes.
    pub(super) async fn send_own(
        self: &Arc<Self>,
        session: u64,
        path: String,
        note: String,
    ) -> Result<SentFile, DeskError> {
        let config = self.config.clone();
        let held = tokio::task::spawn_blocking(move || file::hold(&config, &path))
            .await
            .map_err(|_| DeskError::Thread)??;
        let sent = SentFile {
            name: held.name().as_str().to_owned(),
            size: held.size(),
            sha256: held.sha256(),
            told: true,
        };
        let offer = Input::Own(OwnInput::OfferFile(LocalFile {
            name: sent.name.clone(),
            size: sent.size,
            sha256: sent.sha256,
            note,
        }));
        let mut state = self.lock();
        let live = state.live.as_mut().filter(|live| live.id == session);
        let live = live.ok_or(DeskError::NotConnected)?;
        let now = self.clock.now();
        let actions = live
            .session
            .step(now, offer, &self.entropy)
            .map_err(judge)?;
        let id = actions.iter().find_map(|action| match action {
            Action::Tell(Happening::Own(OwnHappening::FileQueued { id, .. })) => Some(id.clone()),
            _ => None,
        });
        if let Some(id) = id {
            live.held.insert(id, Arc::new(held));
        }
        self.carry_out(&mut state, actions);
        Ok(sent)
    }

    async fn post(
        self: &Arc<Self>,
        session: u64,
        wanted: Carries,
        input: Input,
    ) -> Result<(), DeskError> {
        let answered = {
            let mut state = self.lock();
            let live = state.live.as_mut().filter(|live| live.id == session);
            let live = live.ok_or(DeskError::NotConnected)?;
            let now = self.clock.now();
            let actions = live
                .session
                .step(now, input, &self.entropy)
                .map_err(judge)?;
            let ticket = actions.iter().find_map(|action| match action {
                Action::Post { ticket, kind, .. } if *kind == wanted => Some(*ticket),
                _ => None,
            });
            let own = live.mode == BondMode::Own;
            let (tell, answered) = oneshot::channel();
            if let Some(ticket) = ticket {
                live.posted.insert(ticket, tell);
            }
            self.carry_out(&mut state, actions);
            if own && ticket.is_none() {
                // It is on its way in its turn, until the other side has it.
                return Ok(());
            }
            answered
        };
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(failure))) => Err(DeskError::NotSent(tell::why_not_posted(&failure))),
            Ok(Err(_)) | Err(_) => Err(DeskError::Interrupted),
        }
    }

    /// A file that waits.
    #[must_use]
    pub fn offer(&self, id: &OfferId) -> Option<OfferView> {
        let state = self.lock();
        let live = state.live.as_ref()?;
        view_of(live, live.session.offer(id)?)
    }

    /// What a human sees of a file that waits: never shown to a model.
    #[must_use]
    pub fn look(&self, id: &OfferId) -> Option<Look> {
        let state = self.lock();
        let live = state.live.as_ref()?;
        let offer = live.session.offer(id)?;
        let (known, _) = live.offered.get(id)?;
        let content = offer.content.expose();
        Some(Look {
            offer: view_of(live, offer)?,
            note: offer.note.clone(),
            text: known.for_human(content, &offer.note),
            beginning: preview::preview(known.name.as_str(), content),
            cut: is_cut(content),
        })
    }

    /// Writes an offered file to the disk; it is there when this returns. `sha256` is of the file
    /// that was looked at. Once it is decided, nobody waits for a file of our own mode any longer
    /// when `gone` resolves; it arrives all the same.
    ///
    /// # Errors
    ///
    /// [`DeskError`]; the file waits as before then, where it did.
    pub async fn accept(
        self: &Arc<Self>,
        id: &OfferId,
        sha256: [u8; 32],
        by: DecidedBy,
        gone: impl Future<Output = ()>,
    ) -> Result<AcceptedFile, DeskError> {
        let (session, mode, offer, name, note, content) = {
            let mut state = self.lock();
            let live = state.live.as_mut().ok_or(DeskError::UnknownTransfer)?;
            let offer = live.session.offer(id).ok_or(DeskError::UnknownTransfer)?;
            if offer.sha256 != sha256 {
                return Err(DeskError::Changed);
            }
            if live.deciding.contains(id) || live.coming.contains_key(id) {
                return Err(DeskError::Deciding);
            }
            let copy = Secret::new(offer.content.expose().clone());
            let taken = (
                live.id,
                live.mode,
                view_of(live, offer).ok_or(DeskError::UnknownTransfer)?,
                offer.name.clone(),
                offer.note.clone(),
                copy,
            );
            live.deciding.insert(id.clone());
            taken
        };
        let decision = (id.clone(), sha256, Verdict::Accepted, by);
        let recorded = self.record(decision).await;
        if let Err(e) = recorded {
            self.undecided(session, id);
            return Err(e);
        }
        if mode == BondMode::Own {
            let coming = Coming {
                offer,
                name,
                note,
                by,
                waits: None,
            };
            return self.fetch(session, coming, gone).await;
        }
        let config = self.config.clone();
        let placing = tokio::task::spawn_blocking(move || {
            let placed = file::place(&config, &name, content.expose())?;
            let shown = file::content(&placed, &note, content.expose())?;
            Ok::<_, FileError>((placed, shown))
        });
        let placed = placing.await;
        let mut state = self.lock();
        let live = state.live.as_mut().filter(|live| live.id == session);
        if let Some(live) = live {
            live.deciding.remove(id);
        }
        let (placed, (content, truncated)) = placed.map_err(|_| DeskError::Thread)??;
        self.decided(&mut state, session, Input::Accepted { id: id.clone() });
        let path = placed.path.display().to_string();
        self.scribe.placed(id.clone(), path, offer.size);
        state.news.forget_offer(id.as_str());
        let accepted = AcceptedFile {
            offer,
            placed,
            content,
            truncated,
        };
        if by == DecidedBy::Operator {
            state.news.push(tell::accepted(self.clock.now(), &accepted));
        }
        drop(state);
        self.ring();
        Ok(accepted)
    }

    /// Has an accepted file sent, in our own mode, and waits for it a while.
    async fn fetch(
        self: &Arc<Self>,
        session: u64,
        mut coming: Coming,
        gone: impl Future<Output = ()>,
    ) -> Result<AcceptedFile, DeskError> {
        let id = coming.offer.id.clone();
        let (waits, arrived) = oneshot::channel();
        coming.waits = Some(waits);
        {
            let mut state = self.lock();
            let live = state.live.as_mut().filter(|live| live.id == session);
            let live = live.ok_or(DeskError::UnknownTransfer)?;
            live.deciding.remove(&id);
            if live.arrivals.is_none() {
                let desk = Arc::clone(self);
                live.arrivals = Some(Arrivals::start(
                    self.config.incoming.clone(),
                    Arc::clone(&live.wake),
                    move |id, outcome| desk.landed(session, &id, outcome),
                ));
            }
            live.coming.insert(id.clone(), coming);
            state.news.forget_offer(id.as_str());
            if !self.decided(&mut state, session, Input::Accepted { id: id.clone() }) {
                // It was withdrawn while the decision was written.
                if let Some(live) = state.live.as_mut().filter(|live| live.id == session) {
                    live.coming.remove(&id);
                }
                return Err(DeskError::UnknownTransfer);
            }
        }
        let arrived = tokio::select! {
            arrived = tokio::time::timeout(ARRIVAL, arrived) => arrived,
            () = gone => return Err(DeskError::Arriving),
        };
        match arrived {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(DeskError::NotArrived(TransferFailure::SessionOver)),
            Err(_) => Err(DeskError::Arriving),
        }
    }

    /// An accepted file is on the disk, or will not be.
    fn landed(self: &Arc<Self>, session: u64, id: &OfferId, outcome: Result<Landed, FileError>) {
        let mut state = self.lock();
        let live = state.live.as_mut().filter(|live| live.id == session);
        let Some(coming) = live.and_then(|live| live.coming.remove(id)) else {
            return;
        };
        let id = id.clone();
        let outcome = match outcome {
            Ok(landed) => {
                self.decided(
                    &mut state,
                    session,
                    Input::Own(OwnInput::Stored { id: id.clone() }),
                );
                let path = landed.placed.path.display().to_string();
                self.scribe.placed(id, path, coming.offer.size);
                Ok(AcceptedFile {
                    offer: coming.offer,
                    placed: landed.placed,
                    content: landed.content,
                    truncated: landed.truncated,
                })
            }
            Err(e) => {
                self.decided(
                    &mut state,
                    session,
                    Input::Own(OwnInput::StoreFailed { id }),
                );
                Err(DeskError::File(e))
            }
        };
        let now = self.clock.now();
        let by_operator = coming.by == DecidedBy::Operator;
        if let (Ok(file), true) = (&outcome, by_operator) {
            state.news.push(tell::accepted(now, file));
        }
        let untold = match coming.waits {
            Some(waits) => waits.send(outcome).err(),
            None => Some(outcome),
        };
        match untold {
            Some(Ok(file)) if !by_operator => state.news.push(tell::arrived(now, &file)),
            Some(Err(e)) => state.news.push(tell::not_arrived(now, &e.to_string())),
            _ => {}
        }
        drop(state);
        self.ring();
    }

    /// Drops an offered file.
    ///
    /// # Errors
    ///
    /// [`DeskError`].
    pub async fn decline(
        self: &Arc<Self>,
        id: &OfferId,
        sha256: [u8; 32],
        by: DecidedBy,
    ) -> Result<OfferView, DeskError> {
        let (session, offer) = {
            let mut state = self.lock();
            let live = state.live.as_mut().ok_or(DeskError::UnknownTransfer)?;
            let offer = live
                .session
                .offer(id)
                .and_then(|offer| view_of(live, offer));
            let offer = offer.ok_or(DeskError::UnknownTransfer)?;
            if offer.sha256 != sha256 {
                return Err(DeskError::Changed);
            }
            if !live.deciding.insert(id.clone()) {
                return Err(DeskError::Deciding);
            }
            (live.id, offer)
        };
        let decision = (id.clone(), sha256, Verdict::Declined, by);
        let recorded = self.record(decision).await;
        self.undecided(session, id);
        recorded?;
        let mut state = self.lock();
        self.decided(&mut state, session, Input::Declined { id: id.clone() });
        state.news.forget_offer(id.as_str());
        if by == DecidedBy::Operator {
            state.news.push(tell::declined(self.clock.now(), &offer));
        }
        drop(state);
        self.ring();
        Ok(offer)
    }

    /// Nobody decides about a file any more.
    fn undecided(&self, session: u64, id: &OfferId) {
        self.with(session, |live| live.deciding.remove(id));
    }

    async fn record(
        &self,
        (id, sha256, verdict, by): (OfferId, [u8; 32], Verdict, DecidedBy),
    ) -> Result<(), DeskError> {
        let recorded = self.scribe.decide(&id, sha256, verdict, by).await;
        recorded.map_err(books)
    }

    /// Puts a call on record that failed.
    pub fn failed(&self, call: &str, e: &DeskError) {
        if let Some(reason) = e.name() {
            self.scribe.failed(call, reason);
        }
    }

    /// Tells the machine what became of a file; whether it knows it.
    fn decided(self: &Arc<Self>, state: &mut State, session: u64, input: Input) -> bool {
        let Some(live) = state.live.as_mut().filter(|live| live.id == session) else {
            return false;
        };
        match live.session.step(self.clock.now(), input, &self.entropy) {
            Ok(actions) => {
                self.carry_out(state, actions);
                true
            }
            Err(_) => false,
        }
    }
}

/// Whether a preview leaves something out.
fn is_cut(content: &[u8]) -> bool {
    std::str::from_utf8(content).is_ok_and(|text| {
        let mut lines = text.lines();
        let long = |line: &str| line.chars().nth(preview::PREVIEW_CHARS).is_some();
        lines.by_ref().take(preview::PREVIEW_LINES).any(long) || lines.next().is_some()
    })
}

fn books(e: LedgerError) -> DeskError {
    match e.refusal() {
        Some(AgentRefusal::Bond(BondRefusal::DecidedBefore { .. })) => DeskError::Decided,
        Some(AgentRefusal::Bond(BondRefusal::OtherBytes)) => DeskError::Changed,
        _ => DeskError::Books(e),
    }
}

pub(super) fn judge(e: StepError) -> DeskError {
    match e {
        StepError::Send(e) => DeskError::Send(e),
        StepError::Entropy(e) => DeskError::Entropy(e),
        _ => DeskError::UnknownTransfer,
    }
}
