//! What runs beside the tools while there is a session: one task asks the relay for news, whether
//! or not anybody calls a tool, another posts, one thing at a time and in order.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::desk::Desk;
use super::files::OutgoingError;
use super::pace::Pace;
use super::relay::{BondRelay, FailureKind, RelayFailure};
use crate::agent::random::jitter;
use crate::crypto::agree::AgreementPublic;
use crate::domain::machine::bond::{
    Delivery, Input, OfferId, OwnInput, Polled, Request, Role, Ticket,
};
use crate::event::agent::BondMode;
use crate::wire::bond::code::{PeerId, RoutingId};
use crate::wire::rendezvous_client::{Opened, PollReply, Said};

/// Longest time between two looks at the clock: for what time alone brings.
const HEARTBEAT: Duration = Duration::from_millis(1_000);

/// Something to be posted.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) ticket: Ticket,
    pub(super) payload: String,
    pub(super) routing: RoutingId,
    pub(super) me: PeerId,
}

/// How the relay is asked for a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) role: Role,
    pub(super) flow: Option<&'static str>,
}

/// Asks the relay for the session.
pub(super) async fn open(
    desk: Arc<Desk>,
    id: u64,
    relay: BondRelay,
    ask: Ask,
    (routing, key, peer): (RoutingId, AgreementPublic, PeerId),
) {
    let (routing, key, peer) = (routing.to_string(), key.to_string(), peer.to_string());
    let open = Opened {
        routing_id: &routing,
        public_key: &key,
        peer_id: &peer,
        flow: ask.flow,
    };
    let (request, answer) = match ask.role {
        Role::Host => {
            let answer = relay.create(&open).await;
            (Request::Create, answer.map(|()| Input::Created))
        }
        Role::Guest => {
            let answer = relay.join(&open).await;
            (
                Request::Join,
                answer.map(|host_key| Input::Joined { host_key }),
            )
        }
    };
    let input = match answer {
        Ok(input) => input,
        Err(e) => {
            let input = failed(request, &e);
            desk.with(id, |live| live.trouble = Some(e.detail));
            input
        }
    };
    desk.feed(id, input);
}

fn failed(request: Request, e: &RelayFailure) -> Input {
    let failure = e.for_session();
    Input::Failed { request, failure }
}

/// What a session is told about a post.
pub(super) fn posted(ticket: Ticket, outcome: &Result<(), RelayFailure>) -> Input {
    match outcome {
        Ok(()) => Input::Posted { ticket },
        Err(e) => failed(Request::Post(ticket), e),
    }
}

/// Posts what the session wants posted. `renewed` counts new connections to the relay.
pub(super) async fn posts(
    desk: Arc<Desk>,
    id: u64,
    mut to_post: mpsc::UnboundedReceiver<Post>,
    mut renewed: watch::Receiver<u64>,
) {
    while let Some(post) = to_post.recv().await {
        renewed.mark_unchanged();
        let Some((relay, mode)) = desk.with(id, |live| (live.relay.clone(), live.mode)) else {
            return;
        };
        let outcome = tokio::select! {
            outcome = send(&relay, &post) => outcome,
            // The old connection may be dead. Our own mode sends again and is not heard twice; for
            // the other, giving up would only mean not to know.
            _ = renewed.changed(), if mode == BondMode::Own => Err(RelayFailure {
                kind: FailureKind::Unreachable,
                code: None,
                detail: "the machine slept meanwhile".to_owned(),
                retry_after_ms: None,
            }),
        };
        desk.posted(id, post.ticket, outcome);
    }
}

pub(super) async fn send(relay: &BondRelay, post: &Post) -> Result<(), RelayFailure> {
    let payload = serde_json::from_str::<&RawValue>(&post.payload).map_err(|_| RelayFailure {
        kind: FailureKind::Nonsense,
        code: None,
        detail: "the message could not be encoded".to_owned(),
        retry_after_ms: None,
    })?;
    let (routing, me) = (post.routing.to_string(), post.me.to_string());
    let said = Said {
        routing_id: &routing,
        from_peer_id: &me,
        encrypted_payload: payload,
    };
    relay.send(&said).await
}

/// Says in the program's own log that the relay is not asked any more, however that came about.
struct Asking(u64);

impl Drop for Asking {
    fn drop(&mut self) {
        tracing::debug!("session {}: the relay is not asked any more", self.0);
    }
}

/// Asks the relay for news until the session is over. One request at a time, and none while the disk
/// is behind with what came. `renewed` counts new connections: then it asks anew, and at once.
pub(super) async fn polls(
    desk: Arc<Desk>,
    id: u64,
    wake: Arc<Notify>,
    mut renewed: watch::Receiver<u64>,
) {
    let _asking = Asking(id);
    let mut pace = Pace::default();
    let mut not_before = Instant::now();
    loop {
        let wanted = desk.with(id, |live| {
            let due = Instant::now() >= not_before;
            let since = if due { live.take_poll() } else { None };
            let relay = live.relay.clone();
            (since, relay, live.session.routing(), live.session.me())
        });
        let Some((since, relay, routing, me)) = wanted else {
            return;
        };
        let Some(since) = since else {
            let now = Instant::now();
            let until = not_before.max(now + Duration::from_millis(20));
            tokio::select! {
                () = tokio::time::sleep_until(until.min(now + HEARTBEAT)) => {
                    if !tick(&desk, id) {
                        return;
                    }
                }
                () = wake.notified(), if now >= not_before => {}
                _ = renewed.changed() => (pace, not_before) = (Pace::default(), now),
            }
            continue;
        };
        let asked = Instant::now();
        let (place, who) = (routing.to_string(), me.to_string());
        let answer = tokio::select! {
            answer = relay.poll(&place, &who, since) => answer,
            _ = renewed.changed() => {
                (pace, not_before) = (Pace::default(), Instant::now());
                desk.with(id, |live| _ = live.poll.get_or_insert(since));
                continue;
            }
        };
        let trouble = answer.as_ref().err().map(|e| e.detail.clone());
        desk.with(id, |live| live.trouble = trouble);
        let (pause, input) = match answer {
            Ok(reply) => {
                let pause = pace.answered(reply.messages.len(), asked.elapsed(), jitter());
                (pause, Input::Polled(polled(reply)))
            }
            Err(e) => (pace.failed(&e, jitter()), failed(Request::Poll, &e)),
        };
        not_before = Instant::now() + pause;
        // A session of our own mode moves when its relay loses it: this answer is about the old place.
        if desk.with(id, |live| live.session.routing() != routing) == Some(true) {
            continue;
        }
        if !desk.feed(id, input) {
            return;
        }
    }
}

/// Reads a piece of a file of ours. The thread that waits for the disk is not the caller's.
pub(super) async fn read(desk: Arc<Desk>, id: u64, file: OfferId, offset: u64) {
    let held = desk.with(id, |live| live.held.get(&file).map(Arc::clone));
    let reading = held
        .flatten()
        .map(|held| tokio::task::spawn_blocking(move || held.piece(offset)));
    let said = match reading {
        Some(piece) => piece.await.ok(),
        None => None,
    };
    let said = match said {
        Some(Ok(bytes)) => OwnInput::ChunkRead {
            id: file,
            offset,
            bytes,
        },
        Some(Err(OutgoingError::Changing)) => OwnInput::Changed { id: file },
        Some(Err(e)) => {
            tracing::warn!("a file that was offered: {e}");
            OwnInput::ReadFailed { id: file }
        }
        None => OwnInput::ReadFailed { id: file },
    };
    desk.feed(id, Input::Own(said));
}

/// A session that waits for the relay's first word lives as well.
fn tick(desk: &Arc<Desk>, id: u64) -> bool {
    desk.feed(id, Input::Tick)
}

fn polled(reply: PollReply) -> Polled {
    let messages = reply.messages.into_iter().filter_map(|message| {
        Some(Delivery {
            from: message.from?,
            seq: message.seq?,
            payload: message.payload,
        })
    });
    Polled {
        messages: messages.collect(),
        oldest_seq: reply.oldest_seq,
        disconnected: reply.disconnected,
    }
}
