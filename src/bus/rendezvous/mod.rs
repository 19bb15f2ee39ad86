//! The relay: a listener of its own, on which two strangers who share a code meet.
//!
//! Its interface is that of the public Covalent Bond 0.1 relay, so that the unmodified client
//! works. It differs from the bus's own in everything (errors, limits, headers), hence a port of
//! its own. The relay learns who talks to whom, when and how much, and nothing else.
//!
//! Sessions are events and rows of the bus's log like everything else; what identifies somebody
//! is erased with its session (`docs/adr/0023-relay-sessions-by-number.md`).

mod address;
mod answer;
mod poll;
mod read;
mod route;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use super::failure::Failure;
use super::guard::Guard;
use super::longpoll::Waiters;
use super::state::App;
use crate::domain::decide::bus::{BusCommand, BusRefusal, BusReply};
use crate::domain::decide::bus::{RelayCommand, RelayLimits, RelayRefusal, RelayReply};
use crate::event::Recorded;
use crate::event::bus::BusEvent;
use crate::store::{CommandError, SubmitError};
use crate::types::limit::{MAX_RELAY_EXPIRE_BATCH, MAX_RELAY_WAITING_BYTES, RELAY_HOLD_MS};
use crate::types::seq::Seq;
use address::Addresses;
use answer::Refused;

/// How a relay runs.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// As [`Config::addr`](super::Config::addr).
    pub addr: String,
    /// Bounds of the sessions.
    pub limits: RelayLimits,
    /// Requests within a minute from one network address, all but `/health`; 0 for any number.
    /// Two clients behind one address poll 24 times a minute.
    pub per_address: usize,
    /// How long a poll without news is held.
    pub hold: Duration,
}

impl RelayConfig {
    /// A relay with the usual bounds.
    #[must_use]
    pub fn new(addr: String) -> RelayConfig {
        RelayConfig {
            addr,
            limits: RelayLimits {
                sessions: 1024,
                bytes: 512 << 20,
                session_bytes: RelayLimits::one_of(512 << 20),
                flow_bytes: 16 << 20,
            },
            per_address: 0,
            hold: Duration::from_millis(RELAY_HOLD_MS),
        }
    }
}

/// What the relay's requests share, beside the store.
pub(super) struct Relay {
    limits: RelayLimits,
    hold: Duration,
    waiters: Arc<Waiters>,
    addresses: Addresses,
    /// Room for messages on their way to the writer.
    line: Semaphore,
}

impl Relay {
    pub(super) fn new(config: Option<&RelayConfig>, max_waiters: usize) -> Relay {
        let none = RelayConfig::new(String::new());
        let config = config.unwrap_or(&none);
        Relay {
            limits: config.limits,
            hold: config.hold,
            waiters: Arc::new(Waiters::new(max_waiters)),
            addresses: Addresses::new(config.per_address),
            line: Semaphore::new(MAX_RELAY_WAITING_BYTES),
        }
    }

    /// For the writer thread.
    pub(super) fn waiters(&self) -> Arc<Waiters> {
        Arc::clone(&self.waiters)
    }
}

/// The name under which the polls of a session wait.
fn bell(session: Seq) -> String {
    session.0.to_string()
}

/// Wakes the polls of the sessions in which something happened.
pub(super) fn wake(waiters: &Waiters, records: &[Recorded<BusEvent>]) {
    let rung = records.iter().filter_map(|record| match &record.event {
        BusEvent::RelayJoined(e) => Some(e.session),
        BusEvent::RelaySent(e) => Some(e.session),
        BusEvent::RelayLeft(e) => Some(e.session),
        BusEvent::RelayEnded(e) => Some(e.session),
        _ => None,
    });
    let names: Vec<String> = rung.map(bell).collect();
    if !names.is_empty() {
        waiters.wake(names.iter().map(String::as_str));
    }
}

/// Answers a request, whatever it is.
pub(super) async fn serve(
    app: Arc<App>,
    guard: Arc<Guard>,
    request: hyper::Request<Incoming>,
    peer: IpAddr,
) -> Response {
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head, Body::new(body));
    match route::answer(&app, &guard, request, peer).await {
        Ok(response) => response,
        Err(refused) => refused.into_response(),
    }
}

/// Ends the sessions that are over.
///
/// # Errors
///
/// What the bus answers when it cannot write.
pub(super) async fn expire(app: &App) -> Result<(), Failure> {
    loop {
        let now = app.clock.now();
        if app
            .store
            .with_index(|index, _| index.relay().over(now).next().is_none())
        {
            return Ok(());
        }
        let wish = RelayCommand::End {
            session: None,
            now,
            max: MAX_RELAY_EXPIRE_BATCH,
        };
        match app.commit(BusCommand::Relay(wish)).await? {
            BusReply::Relay(RelayReply::Ended { count }) if count > 0 => {
                tracing::debug!(count, "relay sessions expired");
            }
            _ => return Ok(()),
        }
    }
}

/// Hands a wish to the writer and waits until it is durable.
async fn commit(app: &App, wish: RelayCommand) -> Result<RelayReply, Refused> {
    let receipt = app
        .store
        .submit(BusCommand::Relay(wish))
        .map_err(|e| match e {
            SubmitError::Busy => Refused::Busy,
            e => storage(&e),
        })?;
    match receipt.await {
        Ok(done) => match done.reply {
            BusReply::Relay(reply) => Ok(reply),
            _ => Err(Refused::Internal),
        },
        Err(CommandError::Refused(BusRefusal::Relay(refusal))) => Err(refused(refusal)),
        Err(e) => Err(storage(&e)),
    }
}

fn refused(refusal: RelayRefusal) -> Refused {
    match refusal {
        RelayRefusal::Full => Refused::SessionFull,
        RelayRefusal::Unknown => Refused::NoSession,
        RelayRefusal::Stranger => Refused::Stranger,
        RelayRefusal::TooFast { after_ms } => Refused::TooFast { after_ms },
        RelayRefusal::SessionFull { bytes } => {
            tracing::warn!(bytes, "a relayed session is full");
            Refused::RelayFull
        }
        RelayRefusal::RelayFull { sessions, bytes } => {
            tracing::warn!(sessions, bytes, "the relay is full");
            Refused::RelayFull
        }
    }
}

fn storage(e: &dyn std::fmt::Display) -> Refused {
    tracing::error!("relay: {e}");
    Refused::Internal
}
