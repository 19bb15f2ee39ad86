//! What the operator's terminal can do with the session of this process.

use std::sync::Arc;

use super::control::{
    self, Accepted, Failed, Listed, PinState, Pinned, SessionView, Shown, Trouble,
};
use super::desk::{Desk, DeskError, OfferView, PinOutcome, PinView, View};
use super::tell;
use crate::domain::machine::bond::{Ending, OfferId, Phase};
use crate::event::agent::DecidedBy;
use crate::wire::peers::Petname;

/// The operator's side of the desk.
pub(super) struct Operator(pub(super) Arc<Desk>);

impl control::Desk for Operator {
    async fn list(&self) -> Listed {
        let view = self.0.view();
        let offers = view.iter().flat_map(|view| &view.offers).map(offer);
        Listed {
            pid: std::process::id(),
            conversation: view
                .as_ref()
                .map_or_else(String::new, |v| v.conversation.to_string()),
            offers: offers.collect(),
            session: view.as_ref().map(|view| {
                let pin = self.0.pinning().ok();
                session(view, pin.as_ref())
            }),
        }
    }

    async fn show(&self, id: &str) -> Result<Shown, Failed> {
        let id = wanted(id)?;
        let look = self.0.look(&id).ok_or_else(nothing)?;
        Ok(Shown {
            offer: offer(&look.offer),
            note: look.note,
            cut: look.cut,
            preview: look.beginning,
            folder: self.0.incoming().display().to_string(),
        })
    }

    async fn accept(&self, id: &str, sha256: [u8; 32]) -> Result<Accepted, Failed> {
        let id = wanted(id)?;
        let stays = std::future::pending();
        let file = self.0.accept(&id, sha256, DecidedBy::Operator, stays).await;
        let file = file.map_err(|e| trouble(&e))?;
        Ok(Accepted {
            path: file.placed.path.display().to_string(),
            size: file.offer.size,
            sha256: tell::hex(&file.offer.sha256),
        })
    }

    async fn decline(&self, id: &str, sha256: [u8; 32]) -> Result<(), Failed> {
        let id = wanted(id)?;
        let declined = self.0.decline(&id, sha256, DecidedBy::Operator).await;
        declined.map(drop).map_err(|e| trouble(&e))
    }

    async fn pin(
        &self,
        routing: &str,
        key: Option<&str>,
        petname: Option<&str>,
    ) -> Result<Pinned, Failed> {
        let view = self.0.pinning().map_err(|e| trouble(&e))?;
        let now = view.claim.as_ref().map(|claim| claim.key.to_string());
        if view.routing != routing || now.as_deref() != key {
            return Err(trouble(&DeskError::Changed));
        }
        let petname = match petname.map(Petname::parse) {
            Some(Ok(name)) => Some(name),
            Some(Err(e)) => return Err(Failed::new(Trouble::BadRequest, e.to_string())),
            None => None,
        };
        let outcome = self.0.pin(&view, petname, DecidedBy::Operator).await;
        match outcome.map_err(|e| trouble(&e))? {
            PinOutcome::Asked => Ok(Pinned {
                key: None,
                petname: None,
            }),
            PinOutcome::Pinned(claim, name) => {
                self.0.tell_pinned(&claim, &name);
                Ok(Pinned {
                    key: Some(claim.key.to_string()),
                    petname: Some(name),
                })
            }
        }
    }

    async fn end(&self) -> Result<bool, Failed> {
        Ok(self.0.end(true))
    }
}

fn nothing() -> Failed {
    trouble(&DeskError::UnknownTransfer)
}

fn wanted(id: &str) -> Result<OfferId, Failed> {
    OfferId::parse(id).ok_or_else(nothing)
}

fn trouble(e: &DeskError) -> Failed {
    let kind = match e {
        DeskError::UnknownTransfer => Trouble::NoSuchOffer,
        DeskError::Changed => Trouble::OtherBytes,
        DeskError::Deciding | DeskError::Decided => Trouble::DecidedBefore,
        DeskError::NotConnected => Trouble::NoSession,
        DeskError::File(_) => Trouble::NotWritten,
        _ => Trouble::Failed,
    };
    Failed::new(kind, e.to_string())
}

fn pin(view: &PinView) -> PinState {
    let state = match (&view.pinned, &view.claim, view.asked) {
        (Some(_), _, _) => "pinned",
        (None, Some(_), _) => "waiting",
        (None, None, true) => "asked",
        (None, None, false) => "none",
    };
    PinState {
        state: state.to_owned(),
        key: view.claim.as_ref().map(|claim| claim.key.to_string()),
        name: view.claim.as_ref().map(|claim| claim.name.clone()),
        petname: view.pinned.clone(),
    }
}

fn session(view: &View, pinning: Option<&PinView>) -> SessionView {
    let state = match view.phase {
        Phase::Opening | Phase::Waiting => "waiting",
        Phase::Keyed => "keyed",
        Phase::Confirmed => "confirmed",
        Phase::Over(Ending::PeerGone) => "peer_gone",
        Phase::Over(ending) => ending.name(),
    };
    SessionView {
        role: view.role.word().to_owned(),
        mode: view.mode.name().to_owned(),
        state: state.to_owned(),
        routing: view.routing.clone(),
        relay: view.relay.clone(),
        peer: view.peer.clone(),
        verification: view.words.clone(),
        pin: pinning.map(pin),
        opened_at: view.opened_at.0,
        expires_at: view.expires_at.0,
    }
}

fn offer(offer: &OfferView) -> control::OfferView {
    control::OfferView {
        id: offer.id.as_str().to_owned(),
        name: offer.name.clone(),
        size: offer.size,
        file_type: offer.file_type.to_owned(),
        sha256: tell::hex(&offer.sha256),
        from: Some(offer.from.clone()).filter(|from| from.len() == 8),
        findings: offer.findings.clone(),
        at: offer.at.0,
    }
}
