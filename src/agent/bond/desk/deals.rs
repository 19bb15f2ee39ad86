//! Words and files, both ways.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    AcceptedFile, Desk, DeskError, Live, Look, OfferView, PATIENCE, SentFile, State, view_of,
};
use crate::agent::bond::file::{self, FileError};
use crate::agent::bond::tell;
use crate::agent::ledger::LedgerError;
use crate::domain::bond::preview;
use crate::domain::decide::agent::{AgentRefusal, BondRefusal};
use crate::domain::machine::bond::{Action, Carries, Input, OfferId, StepError};
use crate::event::agent::{BondMode, DecidedBy, Verdict};
use crate::types::secret::Secret;
use crate::types::time::Clock as _;

impl Desk {
    /// Says something; the relay has it when this returns.
    ///
    /// # Errors
    ///
    /// [`DeskError`].
    pub async fn say(self: &Arc<Self>, text: String) -> Result<(), DeskError> {
        self.post(Carries::Chat, Input::Say(text)).await
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
        {
            // What cannot be sent anyway is not read.
            let state = self.lock();
            let live = state.live.as_ref().ok_or(DeskError::NotConnected)?;
            if live.mode == BondMode::Own {
                return Err(DeskError::OwnFiles);
            }
            let may = live.session.may_send(self.clock.now());
            may.map_err(DeskError::Send)?;
        }
        let config = self.config.clone();
        let opened = tokio::task::spawn_blocking(move || file::open(&config, &path, note))
            .await
            .map_err(|_| DeskError::Thread)?;
        let opened = match opened {
            Ok(opened) => opened,
            Err(e) => {
                return Err(e.into());
            }
        };
        let sent = SentFile {
            name: opened.file.name.clone(),
            size: u64::try_from(opened.file.content.len()).unwrap_or(u64::MAX),
            sha256: opened.sha256,
        };
        self.with_live(|live| live.sending = Some(opened.sha256));
        self.post(Carries::File, Input::SendFile(opened.file))
            .await?;
        Ok(sent)
    }

    async fn post(self: &Arc<Self>, wanted: Carries, input: Input) -> Result<(), DeskError> {
        let answered = {
            let mut state = self.lock();
            let live = state.live.as_mut().ok_or(DeskError::NotConnected)?;
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
    /// that was looked at.
    ///
    /// # Errors
    ///
    /// [`DeskError`]; the file waits as before then, where it did.
    pub async fn accept(
        self: &Arc<Self>,
        id: &OfferId,
        sha256: [u8; 32],
        by: DecidedBy,
    ) -> Result<AcceptedFile, DeskError> {
        let (session, offer, name, note, content) = {
            let mut state = self.lock();
            let live = state.live.as_mut().ok_or(DeskError::UnknownTransfer)?;
            let offer = live.session.offer(id).ok_or(DeskError::UnknownTransfer)?;
            if offer.sha256 != sha256 {
                return Err(DeskError::Changed);
            }
            if live.mode == BondMode::Own {
                return Err(DeskError::OwnFiles);
            }
            if live.deciding.contains(id) {
                return Err(DeskError::Deciding);
            }
            let copy = Secret::new(offer.content.expose().clone());
            let taken = (
                live.id,
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

    fn with_live(&self, f: impl FnOnce(&mut Live)) {
        if let Some(live) = self.lock().live.as_mut() {
            f(live);
        }
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

    fn decided(self: &Arc<Self>, state: &mut State, session: u64, input: Input) {
        let Some(live) = state.live.as_mut().filter(|live| live.id == session) else {
            return;
        };
        if let Ok(actions) = live.session.step(self.clock.now(), input, &self.entropy) {
            self.carry_out(state, actions);
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

fn judge(e: StepError) -> DeskError {
    match e {
        StepError::Send(e) => DeskError::Send(e),
        StepError::Entropy(e) => DeskError::Entropy(e),
        _ => DeskError::UnknownTransfer,
    }
}
