//! The edge of pairing: what relays bring about it goes to the log, and what the log decides is signed
//! and goes back.
//!
//! A request or an acceptance that passed the gate becomes one command, like any other mail. Two
//! things follow after the commit and outside of it, because they need the world: the file of peers is
//! brought up to the log, and a request of somebody who is admitted already is answered, so that a side
//! which lost the admission gets it back. Such an answer goes only to a session that stands on the
//! roster with the peer's own signature: the route in the request is not signed, and an answer sent
//! wherever it points would let a relay collect them. Looking at the roster waits for relays, so the
//! answers are given by a task of the session (`run`): taking in mail never waits for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::core::{ActError, Core};
use super::lease::Right;
use super::roster::{self, CHOOSE_WAIT, Whom};
use crate::crypto::hash::sha256;
use crate::crypto::sign::SigningIdentity;
use crate::domain::decide::agent::{
    Acceptance, AgentCommand, AgentReply, AnswerKnock, ControlMail, Knock, Lease, PairingCommand,
    PairingReply, TakeAcceptance, TakeKnock,
};
use crate::types::entropy::EntropyError;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::time::{Clock as _, UnixMillis};
use crate::wire::envelope::{Draft, Message, MessageKind};
use crate::wire::pair::PairRequest;

/// Most requests that wait for an answer. What comes beyond is dropped: whoever is not answered asks
/// again.
const MAX_ASKED: usize = 64;
/// Most of one key, so that a peer that floods takes the place of nobody else.
const MAX_ASKED_OF_KEY: usize = 8;

/// A request as it came, for the answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    key: PublicKey,
    request_id: MsgId,
    ts: UnixMillis,
    reply_session: SessionId,
}

/// The command for a request that passed the gate, and what an answer to it needs; `None` for one
/// that cannot be answered.
pub(super) fn knock(
    core: &Core,
    lease: &Lease,
    message: &Message,
) -> Option<(AgentCommand, Asked)> {
    let request = match PairRequest::from_message(message) {
        Ok(request) => request,
        Err(e) => {
            let from = message.from.fingerprint();
            tracing::debug!("a pairing request of {from} is dropped: {e}");
            return None;
        }
    };
    let asked = Asked {
        key: request.key,
        request_id: request.request_id.clone(),
        ts: message.ts,
        reply_session: request.reply_to.session?,
    };
    let command = PairingCommand::TakeKnock(Box::new(TakeKnock {
        lease: lease.clone(),
        own: core.me,
        from: request.key,
        request_id: request.request_id,
        ts: message.ts,
        name: request.name,
        reply_session: asked.reply_session.clone(),
        windows: core.config.windows,
        now: core.clock.now(),
    }));
    Some((command.into(), asked))
}

/// The command for an acceptance that passed the gate.
pub(super) fn acceptance(core: &Core, lease: &Lease, message: &Message) -> AgentCommand {
    PairingCommand::TakeAcceptance(Box::new(TakeAcceptance {
        lease: lease.clone(),
        from: message.from,
        ts: message.ts,
        in_reply_to: message.in_reply_to.clone(),
        windows: core.config.windows,
        now: core.clock.now(),
    }))
    .into()
}

/// What is left to do after a batch of mail was committed.
#[derive(Debug, Default)]
pub(super) struct After {
    /// Somebody was admitted: the file has to follow.
    admitted: bool,
    /// Requests of admitted keys.
    unanswered: Vec<Asked>,
}

impl After {
    /// Learns from the log's answer to one message.
    pub(super) fn learn(
        &mut self,
        from: PublicKey,
        asked: Option<Asked>,
        answer: &Result<AgentReply, ActError>,
    ) {
        let Ok(AgentReply::Pairing(reply)) = answer else {
            return;
        };
        let who = from.fingerprint();
        match reply {
            PairingReply::Knock(knock) => {
                match knock {
                    Knock::Waiting { .. } => tracing::info!("{who} asks to be admitted"),
                    other => tracing::debug!("pairing request of {who}: {other:?}"),
                }
                if matches!(
                    knock,
                    Knock::AlreadyPeer {
                        answered: false,
                        ..
                    }
                ) {
                    self.unanswered.extend(asked);
                }
            }
            PairingReply::Acceptance(Acceptance::Paired { known, knock, .. }) => {
                tracing::info!("{who} accepted; it may write to this identity");
                self.admitted |= !known;
                // Its side still waits for our answer to its own request.
                self.unanswered.extend(knock.as_ref().map(|knock| Asked {
                    key: from,
                    request_id: knock.request_id.clone(),
                    ts: knock.ts,
                    reply_session: knock.reply_session.clone(),
                }));
            }
            PairingReply::Acceptance(other) => tracing::info!("acceptance of {who}: {other:?}"),
            _ => {}
        }
    }

    /// Brings the file up to the log, and leaves the answers to [`run`]. What fails is told and left:
    /// the file follows with the next look at it.
    pub(super) async fn settle(self, core: &Core) {
        if self.admitted
            && let Err(e) = core.peers.follow_log(&core.ledger).await
        {
            tracing::warn!("the peers file: {e}");
        }
        core.asked.add(self.unanswered);
    }
}

/// Requests of admitted keys that wait for an answer; a bounded number.
#[derive(Debug, Default)]
pub struct Backlog {
    waiting: Mutex<VecDeque<Asked>>,
    ring: Notify,
}

impl Backlog {
    /// Puts requests at the end, as far as there is room.
    fn add(&self, requests: Vec<Asked>) {
        if requests.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for asked in requests {
            let of_key = waiting.iter().filter(|a| a.key == asked.key).count();
            if waiting.len() < MAX_ASKED && of_key < MAX_ASKED_OF_KEY {
                waiting.push_back(asked);
            } else {
                let who = asked.key.fingerprint();
                tracing::debug!("too many requests wait; one of {who} is not answered");
            }
        }
        self.ring.notify_one();
    }

    /// Waits for requests and takes them all: one roster serves them.
    async fn take(&self) -> VecDeque<Asked> {
        loop {
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if !waiting.is_empty() {
                    return std::mem::take(&mut *waiting);
                }
            }
            self.ring.notified().await;
        }
    }
}

/// Answers requests of admitted keys, for as long as the session is acted for.
pub(super) async fn run(core: Arc<Core>) {
    loop {
        let requests = core.asked.take().await;
        if let Right::Held(lease) = core.lease.now() {
            answer_all(&core, &lease, requests).await;
        }
    }
}

/// What fails is told and left: whoever was not answered asks again.
async fn answer_all(core: &Arc<Core>, lease: &Lease, requests: VecDeque<Asked>) {
    let roster = match roster::fetch(core, CHOOSE_WAIT, Whom::Known).await {
        Ok(roster) => roster,
        Err(e) => {
            tracing::warn!("peers ask again and are not answered: {e}");
            return;
        }
    };
    for asked in requests {
        let who = asked.key.fingerprint();
        let shown = roster
            .sessions_of(&asked.key)
            .any(|s| s.session.as_ref() == Some(&asked.reply_session));
        if !shown {
            tracing::info!("{who} is a peer and asks from a session that no relay shows");
            continue;
        }
        match answer(core, lease, asked).await {
            Ok(()) => tracing::info!("{who} is a peer and asked again; it is answered"),
            Err(e) => tracing::warn!("{who} is a peer, and its request is not answered: {e}"),
        }
    }
}

async fn answer(core: &Core, lease: &Lease, asked: Asked) -> Result<(), PairError> {
    let now = core.clock.now();
    let mail = Control {
        kind: MessageKind::PairAccept,
        to: asked.key,
        msg_id: MsgId::new_random(&core.entropy)?,
        in_reply_to: Some(asked.request_id.clone()),
        reply_to: core.route(),
        name: core.name.clone(),
        relays: relays(core),
    }
    .sign(&core.identity, now)?;
    let command = PairingCommand::Answer(Box::new(AnswerKnock {
        lease: lease.clone(),
        key: asked.key,
        request_id: asked.request_id,
        knock_ts: asked.ts,
        to_session: asked.reply_session,
        mail,
        now,
    }));
    core.submit(command.into()).await?;
    Ok(())
}

/// The relays that get control mail: all of them.
#[must_use]
pub fn relays(core: &Core) -> Vec<String> {
    let relays = core.relays.iter();
    relays.map(|relay| relay.client.url().to_owned()).collect()
}

/// A pairing message to sign.
#[derive(Clone, Debug)]
pub struct Control {
    /// `PairRequest` or `PairAccept`.
    pub kind: MessageKind,
    /// The other side.
    pub to: PublicKey,
    /// Its id.
    pub msg_id: MsgId,
    /// The request that it answers.
    pub in_reply_to: Option<MsgId>,
    /// Where the other side finds us.
    pub reply_to: Route,
    /// The name that this node gives itself.
    pub name: String,
    /// Relays that shall get it.
    pub relays: Vec<String>,
}

impl Control {
    /// Signs it, ready for the outbox.
    ///
    /// # Errors
    ///
    /// When it cannot be written as JSON.
    pub fn sign(
        self,
        identity: &SigningIdentity,
        now: UnixMillis,
    ) -> Result<ControlMail, serde_json::Error> {
        let draft = Draft {
            to: self.to,
            text: self.name,
            ts: now,
            msg_id: self.msg_id.clone(),
            kind: self.kind,
            task_id: None,
            status: None,
            in_reply_to: self.in_reply_to,
            reply_to: Some(self.reply_to),
        };
        let body = serde_json::to_vec(&Message::sign(identity, draft))?;
        Ok(ControlMail {
            msg_id: self.msg_id,
            ts: now,
            sha256: sha256(&body),
            body: body.into(),
            relays: self.relays,
        })
    }
}

/// A pairing message could not be made or taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// The log did not take it.
    #[error(transparent)]
    Act(#[from] ActError),
    /// No randomness for an id.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// It cannot be written.
    #[error("the message cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(key: u8, id: usize) -> Asked {
        Asked {
            key: PublicKey::from_bytes([key; 32]),
            request_id: MsgId::parse(&format!("m{id}")).unwrap(),
            ts: UnixMillis(1),
            reply_session: SessionId::parse("s").unwrap(),
        }
    }

    #[tokio::test]
    async fn a_flood_of_requests_is_bounded_and_takes_nobody_elses_place() {
        let backlog = Backlog::default();
        backlog.add((0..1_000).map(|id| asked(1, id)).collect());
        backlog.add(vec![asked(2, 0)]);
        let taken = backlog.take().await;
        assert_eq!(taken.len(), MAX_ASKED_OF_KEY + 1);
        assert_eq!(taken.back(), Some(&asked(2, 0)));
        backlog.add((0..=255).map(|key| asked(key, 0)).collect());
        assert_eq!(backlog.take().await.len(), MAX_ASKED);
    }
}
