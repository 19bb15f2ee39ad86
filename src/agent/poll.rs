//! Mail from one relay: long-poll, gate, one commit, then the acknowledgement.
//!
//! A message leaves the bus only after this process has decided about it for good. What cannot be
//! decided now (a broken allowlist, a store that is held, a full mailbox) stays where it is and is
//! asked for again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::core::{ActError, Core, Relay};
use super::pace::{Pace, Taken};
use super::pairing::{self, After, Asked};
use super::random::jitter;
use super::{presence, pump};
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{
    AgentCommand, AgentRefusal, AgentReply, Lease, Receive, Reception, Window,
};
use crate::domain::gate::{self, Outcome, Reject, Untimely};
use crate::domain::machine::outbox::backoff_ms;
use crate::domain::query::agent as query;
use crate::event::agent::{MailKind, MailStatus};
use crate::types::id::{MsgId, PublicKey};
use crate::types::limit::MAX_ACK_KEY_BYTES;
use crate::types::time::Clock as _;
use crate::wire::bond::file_mail::FileMail;
use crate::wire::envelope::{Message, MessageKind, TaskStatus};
use crate::wire::http::client::{ReceivedDelivery, RecvReply};

/// How long a relay is asked to wait for mail.
const WAIT: Duration = Duration::from_secs(25);
/// How many messages a relay may give in one answer.
const BATCH: usize = 32;
/// How a message of our own key is labelled.
const OWN: &str = "self";
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

async fn poll(core: &Arc<Core>, relay: &Relay, lease: &Lease) {
    let mut woke = core.woke.subscribe();
    let mut state = State {
        failures: 0,
        pace: Pace::new(Instant::now()),
    };
    loop {
        tokio::select! {
            // What waits on an old connection, or for a backoff, is given up.
            _ = woke.changed() => state.failures = 0,
            () = turn(core, relay, lease, &mut state) => {}
        }
    }
}

/// What is remembered of a relay between two requests.
struct State {
    failures: u32,
    pace: Pace,
}

/// Asks once, takes in what comes, and pauses as the relay deserves.
async fn turn(core: &Arc<Core>, relay: &Relay, lease: &Lease, state: &mut State) {
    let asked = Instant::now();
    match relay.client.recv(&core.route(), WAIT, BATCH).await {
        Ok(reply) => {
            if state.failures > 0 {
                tracing::info!("receiving from {} again", relay.client.url());
            }
            state.failures = 0;
            relay.answered();
            let took = asked.elapsed();
            let taken = take(core, relay, lease, reply, &mut state.pace).await;
            sleep(state.pace.after(taken, took, Instant::now())).await;
        }
        Err(e) => {
            state.failures = state.failures.saturating_add(1);
            if state.failures == 1 {
                tracing::warn!("cannot receive from {}: {e}", relay.client.url());
            }
            let ms = backoff_ms(state.failures, jitter());
            sleep(Duration::from_millis(ms.min(MAX_FAILURE_MS))).await;
        }
    }
}

/// Takes in what one answer holds.
async fn take(
    core: &Arc<Core>,
    relay: &Relay,
    lease: &Lease,
    reply: RecvReply,
    pace: &mut Pace,
) -> Taken {
    // A relay that gives several messages at a time also takes several acknowledgements.
    let batched = !reply.messages.is_empty();
    let mut deliveries = reply.into_deliveries();
    let given = deliveries.len();
    deliveries.retain(|d| d.ack.len() <= MAX_ACK_KEY_BYTES);
    if deliveries.len() < given {
        relay.complain(format_args!(
            "mail whose key is too long to acknowledge is left alone"
        ));
    }
    let again = pace.all_acknowledged(deliveries.iter().map(|d| d.ack.as_str()));
    let outcomes = match decide(core, relay, lease, &deliveries).await {
        Ok(outcomes) => outcomes,
        Err(e) => vec![Err(e)],
    };
    let settled = settle(&deliveries, outcomes);
    let acknowledged = acknowledge(core, relay, batched, &settled.done).await;
    if acknowledged {
        pace.acknowledged(&settled.done);
    }
    if !settled.answered.is_empty() {
        pump::withdraw(core, settled.answered).await;
    }
    if let Some(reason) = settled.undecided {
        relay.complain(format_args!("mail stays on this relay: {reason}"));
        sleep(UNDECIDED).await;
    }
    Taken {
        deliveries: given,
        news: settled.news,
        acknowledged: acknowledged && !again,
    }
}

/// Whether the relay took the acknowledgements.
async fn acknowledge(core: &Core, relay: &Relay, batched: bool, keys: &[String]) -> bool {
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
    if let Err(e) = &outcome {
        // It comes again and is known by then.
        tracing::debug!("acknowledging to {}: {e}", relay.client.url());
    }
    outcome.is_ok()
}

/// Why a message was not decided.
#[derive(Debug, thiserror::Error)]
enum Undecided {
    #[error(transparent)]
    Peers(#[from] super::peers_file::PeersFileError),
    #[error(transparent)]
    Act(#[from] ActError),
}

/// What became of a message that was decided about.
enum Done {
    /// Nothing that was not known before, or nothing for us.
    Old,
    /// It is in the log now.
    News {
        /// The message of ours that it answers, and who answers.
        answers: Option<(PublicKey, MsgId)>,
    },
}

/// What became of an answer's deliveries.
#[derive(Default)]
struct Settled {
    /// Keys of what was decided.
    done: Vec<String>,
    /// How many of these brought something new.
    news: usize,
    /// Which messages of ours were answered, and by whom.
    answered: Vec<(PublicKey, MsgId)>,
    /// Why the rest was not decided.
    undecided: Option<Undecided>,
}

fn settle(deliveries: &[ReceivedDelivery], outcomes: Vec<Result<Done, Undecided>>) -> Settled {
    let mut settled = Settled::default();
    let mut keys = deliveries.iter().map(|d| &d.ack);
    for outcome in outcomes {
        let key = keys.next();
        match outcome {
            Ok(done) => {
                settled.done.extend(key.cloned());
                if let Done::News { answers } = done {
                    settled.news += 1;
                    settled.answered.extend(answers);
                }
            }
            Err(e) => settled.undecided = settled.undecided.or(Some(e)),
        }
    }
    settled
}

/// A message on its way into the log.
struct Entering {
    place: usize,
    from: PublicKey,
    msg_id: MsgId,
    in_reply_to: Option<MsgId>,
    command: AgentCommand,
    /// Set for a pairing request.
    asked: Option<Asked>,
}

/// Decides about deliveries for good, and stores what follows: handed to the log together, so that
/// one commit holds them all. The outcomes are in their order.
async fn decide(
    core: &Arc<Core>,
    relay: &Relay,
    lease: &Lease,
    deliveries: &[ReceivedDelivery],
) -> Result<Vec<Result<Done, Undecided>>, Undecided> {
    if deliveries.is_empty() {
        return Ok(vec![]);
    }
    core.peers.ensure(&core.ledger).await?;
    let messages: Vec<Option<Message>> = deliveries.iter().map(|d| parse(core, relay, d)).collect();
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
    let mut entering: Vec<Entering> = vec![];
    let mut goodbyes = vec![];
    for (place, message) in messages.into_iter().enumerate() {
        let Some(message) = message else { continue };
        let Some((peer, seen)) = known.next() else {
            continue;
        };
        let goodbye = presence::goodbye(core, &message);
        let (from, msg_id) = (message.from, message.msg_id.clone());
        let in_reply_to = message.in_reply_to.clone();
        if let Some((command, asked)) = gate_one(core, relay, lease, message, peer, seen) {
            entering.push(Entering {
                place,
                from,
                msg_id,
                in_reply_to,
                command,
                asked,
            });
            goodbyes.extend(goodbye);
        }
    }
    keep_order(&mut entering);
    let mut outcomes: Vec<Result<Done, Undecided>> =
        deliveries.iter().map(|_| Ok(Done::Old)).collect();
    let (commands, rest): (Vec<_>, Vec<_>) = entering
        .into_iter()
        .map(|e| (e.command, (e.place, e.from, e.in_reply_to, e.asked)))
        .unzip();
    let answers = core.submit_all(commands).await;
    let mut after = After::default();
    for ((place, from, in_reply_to, asked), answer) in rest.into_iter().zip(answers) {
        after.learn(from, asked, &answer);
        if let Some(outcome) = outcomes.get_mut(place) {
            *outcome = stored(relay, &from, answer).map(|new| match new {
                true => Done::News {
                    answers: in_reply_to.map(|id| (from, id)),
                },
                false => Done::Old,
            });
        }
    }
    // What a good-bye tells is worth a try, not a message.
    for answer in core.submit_all(goodbyes).await {
        if let Err(e) = answer {
            tracing::debug!("a good-bye is not remembered: {e}");
        }
    }
    after.settle(core).await;
    Ok(outcomes)
}

/// Ties each message to the one before it of the same sender: if that one is refused for now, the
/// later ones wait with it.
fn keep_order(entering: &mut [Entering]) {
    let mut last: HashMap<PublicKey, MsgId> = HashMap::new();
    for e in entering {
        let Some(after) = last.insert(e.from, e.msg_id.clone()) else {
            continue;
        };
        if let AgentCommand::Receive(receive) = &e.command {
            let receive = receive.clone();
            e.command = AgentCommand::ReceiveAfter { after, receive };
        }
    }
}

/// The message of a delivery, unless it is none or one of ours.
fn parse(core: &Core, relay: &Relay, delivery: &ReceivedDelivery) -> Option<Message> {
    let payload = delivery.envelope.as_ref().and_then(|e| e.payload.as_ref());
    let Some(payload) = payload else {
        relay.complain(format_args!("a delivery without a message is dropped"));
        return None;
    };
    match Message::from_json(payload.get()) {
        Ok(message) if is_echo(core, &message) => {
            tracing::debug!("a message of this very session came back and is dropped");
            None
        }
        Ok(message) => Some(message),
        Err(e) => {
            relay.complain(format_args!(
                "a delivery that is no message is dropped: {e}"
            ));
            None
        }
    }
}

/// What to do about one message; `None`: nothing but let it go.
fn gate_one(
    core: &Arc<Core>,
    relay: &Relay,
    lease: &Lease,
    message: Message,
    peer: Option<String>,
    seen: bool,
) -> Option<(AgentCommand, Option<Asked>)> {
    let label = peer.clone();
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
    // A word between programs about a file session is for nobody's inbox; from strangers it is nothing.
    if let (Outcome::Inline { .. }, Some(petname)) = (&decision.outcome, &label)
        && let Some(mail) = FileMail::parse(&message.text)
    {
        core.bond.file_mail(core, &message, petname, mail);
        return None;
    }
    match decision.outcome {
        Outcome::Inline { .. } | Outcome::Reject(Reject::Expired { .. }) => {
            receive(core, lease, message).map(|command| (command, None))
        }
        Outcome::Reject(reason) => {
            reject(core, relay, &message, label, &reason);
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

fn reject(core: &Core, relay: &Relay, message: &Message, label: Option<String>, reason: &Reject) {
    let from = message.from.fingerprint();
    match reason {
        Reject::Replay => tracing::debug!("message from {from}: {reason}"),
        // A clock is wrong, and the sender believes that all is well: the reader has to know.
        Reject::Stale(Untimely::Ahead { by_ms }) if message.kind == MessageKind::Message => {
            let label = label.unwrap_or_else(|| OWN.to_owned());
            if core
                .told
                .note_ahead(message.from, &message.msg_id, label, *by_ms)
            {
                relay.complain(format_args!("message from {from} is dropped: {reason}"));
            }
        }
        _ => relay.complain(format_args!(
            "message that claims to be from {from} is dropped: {reason}"
        )),
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

/// What the log said to one message: whether it is new there.
fn stored(
    relay: &Relay,
    from: &PublicKey,
    answer: Result<AgentReply, ActError>,
) -> Result<bool, Undecided> {
    let fingerprint = from.fingerprint();
    match answer {
        Ok(AgentReply::Received(Reception::Stored { seq, .. })) => {
            tracing::debug!("message from {fingerprint} stored at {seq}");
            return Ok(true);
        }
        Ok(AgentReply::Received(Reception::TooOld { recorded })) => {
            if recorded {
                tracing::warn!(
                    "a message from {fingerprint} came too late; it is listed as expired"
                );
            }
            return Ok(recorded);
        }
        Ok(reply) => tracing::debug!("message from {fingerprint} is dropped: {reply:?}"),
        // Refusals that will not change: nobody could ever read this message.
        Err(ActError::Ledger(e)) if is_final(e.refusal()) => {
            relay.complain(format_args!("a message from {fingerprint} is dropped: {e}"));
        }
        Err(e) => return Err(e.into()),
    }
    Ok(false)
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
