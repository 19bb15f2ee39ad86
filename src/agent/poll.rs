//! Mail from one relay: long-poll, gate, one commit, then the acknowledgement.
//!
//! A message leaves the bus only after this process has decided about it for good. What cannot be
//! decided now (a broken allowlist, a store that is held, a full mailbox) stays where it is and is
//! asked for again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::clock::jitter;
use super::core::{ActError, Core, Relay};
use super::pairing::{self, After, Asked};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{
    AgentCommand, AgentRefusal, AgentReply, Lease, Receive, Reception, Window,
};
use crate::domain::gate::{self, Outcome, Reject};
use crate::domain::query::agent as query;
use crate::event::agent::{MailKind, MailStatus};
use crate::types::id::Fingerprint;
use crate::types::time::Clock as _;
use crate::wire::envelope::{Message, MessageKind, TaskStatus};
use crate::wire::http::client::{ReceivedDelivery, RecvReply};

/// How long a relay is asked to wait for mail.
const WAIT: Duration = Duration::from_secs(25);
/// How many messages a relay may give in one answer.
const BATCH: usize = 32;
/// Pause after an answer without mail that came at once, and the time below which it did.
const EMPTY_PAUSE: Duration = Duration::from_secs(1);
/// Pause before undecided mail is asked for again.
const UNDECIDED: Duration = Duration::from_secs(2);
/// Longest pause after a failed poll, in milliseconds.
const MAX_FAILURE_MS: u64 = 5_000;

/// Polls one relay for as long as the session is ours.
pub async fn run(core: Arc<Core>, relay: Arc<Relay>) {
    loop {
        let lease = core.lease.held().await;
        tokio::select! {
            () = core.lease.lost(&lease) => {}
            () = poll(&core, &relay, &lease) => {}
        }
    }
}

async fn poll(core: &Core, relay: &Relay, lease: &Lease) {
    let me = core.route();
    let mut failures: u32 = 0;
    loop {
        let asked = Instant::now();
        match relay.client.recv(&me, WAIT, BATCH).await {
            Ok(reply) => {
                if failures > 0 {
                    tracing::info!("receiving from {} again", relay.client.url());
                }
                failures = 0;
                relay.answered();
                if !take(core, relay, lease, reply).await && asked.elapsed() < EMPTY_PAUSE {
                    sleep(EMPTY_PAUSE).await;
                }
            }
            Err(e) => {
                failures = failures.saturating_add(1);
                if failures == 1 {
                    tracing::warn!("cannot receive from {}: {e}", relay.client.url());
                }
                let ms = crate::domain::machine::outbox::backoff_ms(failures, jitter());
                sleep(Duration::from_millis(ms.min(MAX_FAILURE_MS))).await;
            }
        }
    }
}

/// Takes in what one answer holds; false when there was nothing.
async fn take(core: &Core, relay: &Relay, lease: &Lease, reply: RecvReply) -> bool {
    // A relay that gives several messages at a time also takes several acknowledgements.
    let batched = !reply.messages.is_empty();
    let deliveries = reply.into_deliveries();
    if deliveries.is_empty() {
        return false;
    }
    let (done, undecided) = match decide(core, lease, &deliveries).await {
        Ok(outcomes) => settle(&deliveries, outcomes),
        Err(e) => (vec![], Some(e)),
    };
    acknowledge(core, relay, batched, &done).await;
    if let Some(reason) = undecided {
        tracing::warn!("mail stays on {}: {reason}", relay.client.url());
        sleep(UNDECIDED).await;
    }
    true
}

async fn acknowledge(core: &Core, relay: &Relay, batched: bool, keys: &[String]) {
    let me = core.route();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let outcome = match keys.as_slice() {
        [] => Ok(()),
        keys if batched => relay.client.ack_all(&me, keys).await,
        keys => {
            let mut outcome = Ok(());
            for key in keys {
                outcome = relay.client.ack(&me, key).await;
            }
            outcome
        }
    };
    if let Err(e) = outcome {
        // It comes again and is known by then.
        tracing::debug!("acknowledging to {}: {e}", relay.client.url());
    }
}

/// Why a message was not decided.
#[derive(Debug, thiserror::Error)]
enum Undecided {
    #[error(transparent)]
    Peers(#[from] super::peers_file::PeersFileError),
    #[error(transparent)]
    Act(#[from] ActError),
}

/// The keys of what was decided, and why the rest was not.
fn settle(
    deliveries: &[ReceivedDelivery],
    outcomes: Vec<Result<(), Undecided>>,
) -> (Vec<String>, Option<Undecided>) {
    let mut done = Vec::with_capacity(outcomes.len());
    let mut undecided = None;
    for (delivery, outcome) in deliveries.iter().zip(outcomes) {
        match outcome {
            Ok(()) => done.push(delivery.ack.clone()),
            Err(e) => undecided = undecided.or(Some(e)),
        }
    }
    (done, undecided)
}

/// Decides about deliveries for good, and stores what follows: handed to the log together, so that
/// one commit holds them all. The outcomes are in their order.
async fn decide(
    core: &Core,
    lease: &Lease,
    deliveries: &[ReceivedDelivery],
) -> Result<Vec<Result<(), Undecided>>, Undecided> {
    core.peers.ensure(&core.ledger).await?;
    let messages: Vec<Option<Message>> = deliveries.iter().map(|d| parse(core, d)).collect();
    let asked: Vec<_> = messages
        .iter()
        .map(|m| m.as_ref().map(|m| (m.from, m.msg_id.clone())))
        .collect();
    let known = core
        .ledger
        .read(move |s| {
            let mut known = vec![];
            for (from, id) in asked.iter().flatten() {
                let peer = query::peer_by_key(s, from)?.map(|p| p.petname);
                known.push((peer, query::is_seen(s, from, id)?));
            }
            Ok(known)
        })
        .await
        .map_err(ActError::from)?;
    let mut known = known.into_iter();
    let mut places = vec![];
    let mut commands = vec![];
    for (place, message) in messages.into_iter().enumerate() {
        let Some(message) = message else { continue };
        let Some((peer, seen)) = known.next() else {
            continue;
        };
        let from = message.from;
        if let Some((command, asked)) = gate_one(core, lease, message, peer, seen) {
            places.push((place, from, asked));
            commands.push(command);
        }
    }
    let mut outcomes: Vec<Result<(), Undecided>> = deliveries.iter().map(|_| Ok(())).collect();
    let answers = core.submit_all(commands).await;
    let mut after = After::default();
    for ((place, from, asked), answer) in places.into_iter().zip(answers) {
        after.learn(from, asked, &answer);
        let kept = stored(from.fingerprint(), answer);
        if let (Err(e), Some(outcome)) = (kept, outcomes.get_mut(place)) {
            *outcome = Err(e);
        }
    }
    after.settle(core, lease).await;
    Ok(outcomes)
}

/// The message of a delivery, unless it is none or one of ours.
fn parse(core: &Core, delivery: &ReceivedDelivery) -> Option<Message> {
    let payload = delivery.envelope.as_ref().and_then(|e| e.payload.as_ref());
    let Some(payload) = payload else {
        tracing::warn!("a delivery without a message is dropped");
        return None;
    };
    match Message::from_json(payload.get()) {
        Ok(message) if is_echo(core, &message) => {
            tracing::debug!("a message of this very session came back and is dropped");
            None
        }
        Ok(message) => Some(message),
        Err(e) => {
            tracing::warn!("a delivery that is no message is dropped: {e}");
            None
        }
    }
}

/// What to do about one message; `None`: nothing but let it go.
fn gate_one(
    core: &Core,
    lease: &Lease,
    message: Message,
    peer: Option<String>,
    seen: bool,
) -> Option<(AgentCommand, Option<Asked>)> {
    let decision = gate::decide_verified::<std::convert::Infallible>(
        &core.me,
        &message,
        message.verify(),
        core.clock.now(),
        &core.config.windows,
        |_| Ok(peer),
        |_, _| Ok(seen),
    );
    let Ok(decision) = decision;
    match decision.outcome {
        Outcome::Inline { .. } | Outcome::Reject(Reject::Expired { .. }) => {
            receive(core, lease, message).map(|command| (command, None))
        }
        Outcome::Reject(reason) => {
            reject(&message, &reason);
            None
        }
        Outcome::PairRequest | Outcome::KnownPeerKnock { .. } => {
            pairing::knock(core, lease, &message).map(|(command, asked)| (command, Some(asked)))
        }
        Outcome::PairAccept => Some((pairing::acceptance(core, lease, &message), None)),
    }
}

/// Whether this session sent it: seen before the signature is, as the public program does.
fn is_echo(core: &Core, message: &Message) -> bool {
    message.from == core.me
        && message
            .reply_route()
            .is_some_and(|route| route.session.as_ref() == Some(&core.session))
}

fn reject(message: &Message, reason: &Reject) {
    let from = message.from.fingerprint();
    match reason {
        Reject::Replay => tracing::debug!("message from {from}: {reason}"),
        _ => tracing::warn!("message that claims to be from {from} is dropped: {reason}"),
    }
}

/// One record: the message, its id used up, the route of answers. The decision about the sender
/// and the id is taken again inside it, where no other process can come between.
fn receive(core: &Core, lease: &Lease, message: Message) -> Option<AgentCommand> {
    let body = match serde_json::to_vec(&message) {
        Ok(body) => body,
        Err(e) => {
            tracing::warn!("a message that cannot be written is dropped: {e}");
            return None;
        }
    };
    Some(AgentCommand::Receive(Box::new(Receive {
        lease: lease.clone(),
        own: core.me,
        from: message.from,
        ts: message.ts,
        kind: mail_kind(message.kind),
        status: message.status.map(mail_status),
        reply_to: message.reply_route(),
        msg_id: message.msg_id,
        task_id: message.task_id,
        in_reply_to: message.in_reply_to,
        sha256: sha256(&body),
        body: body.into(),
        window: Window {
            past_ms: core.config.windows.past_peer_ms,
            future_ms: core.config.windows.future_ms,
        },
        now: core.clock.now(),
    })))
}

/// What the log said to one message.
fn stored(fingerprint: Fingerprint, answer: Result<AgentReply, ActError>) -> Result<(), Undecided> {
    match answer {
        Ok(AgentReply::Received(Reception::Stored { seq, .. })) => {
            tracing::debug!("message from {fingerprint} stored at {seq}");
        }
        Ok(AgentReply::Received(Reception::TooOld { recorded })) => {
            if recorded {
                tracing::warn!(
                    "a message from {fingerprint} came too late; it is listed as expired"
                );
            }
        }
        Ok(reply) => tracing::debug!("message from {fingerprint} is dropped: {reply:?}"),
        // Refusals that will not change: nobody could ever read this message.
        Err(ActError::Ledger(e)) if is_final(e.refusal()) => {
            tracing::warn!("a message from {fingerprint} is dropped: {e}");
        }
        Err(e) => return Err(e.into()),
    }
    Ok(())
}

const fn is_final(refusal: Option<&AgentRefusal>) -> bool {
    matches!(
        refusal,
        Some(AgentRefusal::MessageTooLarge { .. } | AgentRefusal::FieldLength { .. })
    )
}

/// The stored twin of a wire word.
#[must_use]
pub const fn mail_kind(kind: MessageKind) -> MailKind {
    match kind {
        MessageKind::Message => MailKind::Message,
        MessageKind::PairRequest => MailKind::PairRequest,
        MessageKind::PairAccept => MailKind::PairAccept,
    }
}

/// The stored twin of a wire word.
#[must_use]
pub const fn mail_status(status: TaskStatus) -> MailStatus {
    match status {
        TaskStatus::Update => MailStatus::Update,
        TaskStatus::NeedsInput => MailStatus::NeedsInput,
        TaskStatus::Result => MailStatus::Result,
        TaskStatus::Failed => MailStatus::Failed,
        TaskStatus::Canceled => MailStatus::Canceled,
    }
}
