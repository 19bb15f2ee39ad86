//! The outbox towards one relay.
//!
//! Each relay has its own pump with its own state and backoff, so a relay that is down or slow
//! delays no other. Towards one relay several recipients are served at a time, each in order: one
//! recipient's trouble is nobody else's.
//!
//! A pump also sends what a session queued whose process is gone. Two siblings that do so at once
//! do no harm: the relay keeps identical posts once, and the receiver reads an id once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::client::{CallError, Sent};
use super::core::{ActError, Core, Relay};
use super::lease::Right;
use super::ledger::LedgerError;
use super::lifecycle::is_alive;
use super::random::jitter;
use crate::crypto::hash::sha256;
use crate::domain::decide::agent::{AgentCommand, AgentRefusal};
use crate::domain::machine::outbox::{RelayGate, backoff_ms};
use crate::domain::projection::agent::{OutboxRow, RelayState, Sent as Delivery};
use crate::domain::query::agent::{self as query, Due, DueAction, DueList, DueQuery, RelayView};
use crate::event::agent::AttemptError;
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::MAX_PAST_STRANGER_MS;
use crate::types::route::Route;
use crate::types::seq::Seq;
use crate::types::time::{Clock as _, UnixMillis};
use crate::wire::envelope::Message;

/// Recipients that one relay is sent mail for at a time, one message each. So many may hang before
/// the others wait, and each gives its place back at its time limit, then backs off.
const IN_FLIGHT: usize = 64;
/// Longest time without a look at the outbox: leases of dead processes change nothing in the log.
const LOOK: Duration = Duration::from_secs(15);
/// Pause after the log did not answer.
const PAUSE: Duration = Duration::from_secs(2);

/// A recipient's queue.
type Place = (PublicKey, SessionId);

/// Sends to one relay, for ever.
pub async fn run(core: Arc<Core>, relay: Arc<Relay>) {
    let mut head = core.ledger.follow();
    let mut jobs: JoinSet<Place> = JoinSet::new();
    let mut busy: BTreeSet<Place> = BTreeSet::new();
    let mut woken = false;
    let mut woke = core.woke.subscribe();
    loop {
        head.mark_unchanged();
        let next = match due(&core, &relay, woken).await {
            Ok(list) => {
                woken = false;
                start(&core, &relay, list.due, &mut jobs, &mut busy);
                list.next
            }
            Err(e) => {
                tracing::debug!("outbox: {e}");
                Some(core.clock.now().plus(crate::types::time::millis(PAUSE)))
            }
        };
        tokio::select! {
            biased;
            Some(done) = jobs.join_next(), if !jobs.is_empty() => match done {
                Ok(place) => {
                    busy.remove(&place);
                }
                Err(e) => {
                    // Which one it was is lost with it; nothing of it was recorded.
                    tracing::error!("sending failed inside: {e}");
                    jobs.abort_all();
                    while jobs.join_next().await.is_some() {}
                    busy.clear();
                }
            },
            () = relay.back.notified() => woken = true,
            // What is on an old connection may hang there: it is sent anew. Copies collapse.
            _ = woke.changed() => {
                jobs.abort_all();
                while jobs.join_next().await.is_some() {}
                busy.clear();
                woken = true;
            }
            changed = head.changed() => if changed.is_err() { return },
            () = sleep(pause(&core, &relay, next)) => {}
        }
    }
}

/// Until when nothing can change by itself.
fn pause(core: &Core, relay: &Relay, next: Option<UnixMillis>) -> Duration {
    let now = core.clock.now();
    let mut pause = LOOK;
    if let RelayGate::Closed { until } = relay.lock().gate(now) {
        pause = pause.min(Duration::from_millis(until.since(now).max(10)));
    } else if let Some(next) = next {
        pause = pause.min(Duration::from_millis(next.since(now).max(10)));
    }
    pause
}

async fn due(core: &Arc<Core>, relay: &Relay, woken: bool) -> Result<DueList, LedgerError> {
    let now = core.clock.now();
    if matches!(relay.lock().gate(now), RelayGate::Closed { .. }) {
        return Ok(DueList::default());
    }
    let url = relay.client.url().to_owned();
    let core = Arc::clone(core);
    let ledger = Arc::clone(&core.ledger);
    ledger
        .read(move |s| {
            let dead: BTreeSet<SessionId> = query::leases(s)?
                .into_iter()
                .filter(|l| {
                    l.row
                        .holder
                        .is_none_or(|h| !is_alive(h.pid, h.process_start))
                })
                .map(|l| l.session)
                .collect();
            let ours = matches!(core.lease.now(), Right::Held(_));
            let wants =
                |session: &SessionId| (ours && *session == core.session) || dead.contains(session);
            let relays = [RelayView { url: &url, woken }];
            let question = DueQuery {
                now,
                relays: &relays,
                resign_after_ms: core.config.resign_after_ms,
                give_up_after_ms: MAX_PAST_STRANGER_MS,
                future_ms: core.config.windows.future_ms,
                limit: 4 * IN_FLIGHT,
            };
            let mut list = query::outbox_pending(s, &question, &wants)?;
            // The other relays' pumps speak for the other relays.
            list.due
                .retain(|due| due.relay == url || !core.has_relay(&due.relay));
            Ok(list)
        })
        .await
}

fn start(
    core: &Arc<Core>,
    relay: &Arc<Relay>,
    due: Vec<Due>,
    jobs: &mut JoinSet<Place>,
    busy: &mut BTreeSet<Place>,
) {
    for due in due {
        let room = match relay.lock().gate(core.clock.now()) {
            RelayGate::Open => IN_FLIGHT,
            RelayGate::Probe => 1,
            RelayGate::Closed { .. } => 0,
        };
        if jobs.len() >= room {
            return;
        }
        let place = (due.to, due.to_session.clone());
        if !busy.insert(place.clone()) {
            continue;
        }
        let (core, relay) = (Arc::clone(core), Arc::clone(relay));
        jobs.spawn(async move {
            if let Err(e) = act(&core, &relay, &due).await {
                tracing::debug!("message at {}: {e}", due.seq);
                sleep(PAUSE).await;
            }
            place
        });
    }
}

async fn act(core: &Core, relay: &Relay, due: &Due) -> Result<(), ActError> {
    match due.action {
        DueAction::GiveUp => {
            let command = AgentCommand::RecordRefused {
                msg_seq: due.seq,
                relay: due.relay.clone(),
                status: 0,
                reason: "given up here; another relay has it".to_owned(),
                now: core.clock.now(),
            };
            core.submit(command).await.map(drop)
        }
        DueAction::Resign => resign(core, due).await,
        DueAction::Send { attempts } => send(core, relay, due, attempts).await,
    }
}

async fn message(core: &Core, body: Seq) -> Result<Option<Message>, ActError> {
    let bytes = core.ledger.read(move |s| s.body(body)).await?;
    Ok(bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| Message::from_json(&text).ok()))
}

async fn send(core: &Core, relay: &Relay, due: &Due, attempts: u32) -> Result<(), ActError> {
    let (msg_seq, url) = (due.seq, due.relay.clone());
    let Some(message) = message(core, due.body).await? else {
        let command = AgentCommand::RecordRefused {
            msg_seq,
            relay: url,
            status: 0,
            reason: "its text is lost".to_owned(),
            now: core.clock.now(),
        };
        return core.submit(command).await.map(drop);
    };
    let to = Route::new(due.to, due.to_session.clone());
    let began = Instant::now();
    let outcome = relay.client.send(&to, &message).await;
    let now = core.clock.now();
    let command = match outcome {
        Ok(Sent::Accepted { dropped }) => {
            relay.answered();
            AgentCommand::RecordAccepted {
                msg_seq,
                relay: url,
                dropped,
                now,
            }
        }
        Ok(Sent::Refused { status, reason }) => {
            relay.answered();
            tracing::warn!(
                "{url} refused message {}: {reason}",
                message.msg_id.as_str()
            );
            AgentCommand::RecordRefused {
                msg_seq,
                relay: url,
                status,
                reason,
                now,
            }
        }
        Err(e) => {
            let attempt = attempts.saturating_add(1);
            AgentCommand::RecordAttempt {
                msg_seq,
                relay: url,
                attempt,
                error: e.class,
                detail: e.detail.clone(),
                next_at: again_at(relay, &e, attempt, began, now),
                now,
            }
        }
    };
    core.submit(command).await.map(drop)
}

/// When to try again; the relay's own backoff when the relay is in trouble.
fn again_at(
    relay: &Relay,
    e: &CallError,
    attempt: u32,
    began: Instant,
    now: UnixMillis,
) -> UnixMillis {
    if !e.is_relay_down() {
        relay.answered();
        return now.plus(backoff_ms(attempt, jitter()));
    }
    // Whoever answers others meanwhile is not down: it is this message that hangs.
    if e.class == AttemptError::Timeout && relay.has_answered_since(began) {
        return now.plus(backoff_ms(attempt, jitter()));
    }
    let mut health = relay.lock();
    if health.failures() == 0 {
        tracing::warn!("relay {} does not take mail: {e}", relay.client.url());
    }
    // Several messages in flight that fail together are one failure of the relay.
    match health.gate(now) {
        RelayGate::Closed { until } => until,
        RelayGate::Open | RelayGate::Probe => health.failed(now, jitter()),
    }
}

async fn resign(core: &Core, due: &Due) -> Result<(), ActError> {
    let Some(old) = message(core, due.body).await? else {
        return Ok(());
    };
    let now = core.clock.now();
    let Ok(new) = old.renewed(&core.identity, now) else {
        return Ok(());
    };
    let Ok(body) = serde_json::to_vec(&new) else {
        return Ok(());
    };
    let command = AgentCommand::Resign {
        msg_seq: due.seq,
        replaces: due.body,
        ts: now,
        sha256: sha256(&body),
        body: body.into(),
        now,
    };
    match core.submit(command).await {
        Err(ActError::Ledger(LedgerError::Refused(AgentRefusal::AlreadyAccepted))) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Stops copies of messages that their recipients have answered: a signed answer (`in_reply_to`)
/// proves that one arrived. Only where some relay took it, so that no message counts as refused
/// that was never known to be taken. Best effort: a copy that is sent all the same is a repeat.
pub async fn withdraw(core: &Core, answered: Vec<(PublicKey, MsgId)>) {
    let urls: Vec<String> = core
        .relays
        .iter()
        .map(|r| r.client.url().to_owned())
        .collect();
    let open = core.ledger.read(move |s| {
        let mut open = vec![];
        for (from, msg_id) in answered {
            let Some(mail) = query::outbox_entry(s, &msg_id)? else {
                continue;
            };
            if mail.row.to == from && mail.row.sent() == Delivery::Accepted {
                let waiting = waiting_at(&mail.row, &urls);
                open.extend(waiting.into_iter().map(|url| (mail.seq, url)));
            }
        }
        Ok(open)
    });
    let commands: Vec<AgentCommand> = open
        .await
        .unwrap_or_default()
        .into_iter()
        .map(|(msg_seq, relay)| AgentCommand::RecordRefused {
            msg_seq,
            relay,
            status: 0,
            reason: "withdrawn: the recipient has answered it".to_owned(),
            now: core.clock.now(),
        })
        .collect();
    if !commands.is_empty() {
        for e in core
            .submit_all(commands)
            .await
            .into_iter()
            .filter_map(Result::err)
        {
            tracing::debug!("withdrawing: {e}");
        }
    }
}

/// The relays that have not answered for good to a message, also those that it does not know yet.
fn waiting_at(row: &OutboxRow, urls: &[String]) -> Vec<String> {
    let is_waiting = |state: &RelayState| matches!(state, RelayState::Waiting { .. });
    let known = row.relays.iter().filter(|r| is_waiting(&r.state));
    let unknown = urls.iter().filter(|url| row.relay(url).is_none());
    known
        .map(|r| r.url.clone())
        .chain(unknown.cloned())
        .collect()
}
