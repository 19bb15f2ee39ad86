//! `GET /healthz`: the process lives. `GET /readyz`: it takes mail. `GET /status`: numbers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::{json, json_text};
use crate::bus::failure::Failure;
use crate::bus::state::App;
use crate::domain::decide::bus::Overflow;
use crate::domain::projection::bus::{DropCounter, DropsRow};
use crate::domain::tables::{TableId, get_row};
use crate::store::{Health, LogSize};
use crate::types::time::millis;
use crate::wire::admin::{RelayNumbers, Status, StatusLimits};

pub(in crate::bus) async fn healthz() -> Response {
    json_text(StatusCode::OK, br#"{"status":"ok"}"#.to_vec())
}

pub(in crate::bus) async fn readyz(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    match app.store.health() {
        Health::ReadWrite => Ok(json_text(StatusCode::OK, br#"{"status":"ok"}"#.to_vec())),
        Health::ReadOnly { reason } => Err(Failure::read_only(&reason)),
    }
}

/// What everybody may know: not where the store is, which names a user and a folder.
pub(in crate::bus) async fn status(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let numbers = Status {
        store: None,
        ..numbers(&app)
    };
    json(StatusCode::OK, &numbers)
}

/// The same for the operator.
pub(in crate::bus) async fn full_status(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    json(StatusCode::OK, &numbers(&app))
}

fn numbers(app: &App) -> Status {
    let (queues, messages, bytes) = app.store.with_index(|index, _| {
        (
            index.queue_count() as u64,
            index.message_count() as u64,
            index.bytes(),
        )
    });
    let (health, read_only_reason) = match app.store.health() {
        Health::ReadWrite => ("read-write", None),
        Health::ReadOnly { reason } => ("read-only", Some(reason)),
    };
    let (base, size) = log(app);
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: millis(app.started.elapsed()),
        queues,
        messages,
        bytes,
        drops: drops(app),
        refused: app.refused.load(Ordering::Relaxed),
        roster: app.board.len() as u64,
        relay: relay(app),
        waiters: app.waiters.count() as u64,
        head: app.store.head().0,
        base,
        records: size.records,
        log_bytes: size.bytes,
        commits: app.store.commits(),
        store: app.store_path.clone(),
        health: health.to_owned(),
        read_only_reason,
        limits: limits(app),
    }
}

fn relay(app: &App) -> RelayNumbers {
    app.store.with_index(|index, _| {
        let relay = index.relay();
        RelayNumbers {
            sessions: relay.len() as u64,
            messages: relay.iter().map(|(_, s)| s.messages.len() as u64).sum(),
            bytes: relay.bytes(),
        }
    })
}

/// Compaction point and size of the log; nothing when the store cannot be read.
fn log(app: &App) -> (u64, LogSize) {
    let read = app.store.snapshot().and_then(|snapshot| {
        let base = snapshot.base()?.0;
        Ok((base, snapshot.log_size()?))
    });
    read.unwrap_or_default()
}

/// Counters of dropped mail; empty when the store cannot be read, which `health` explains.
fn drops(app: &App) -> BTreeMap<String, u64> {
    let Ok(snapshot) = app.store.snapshot() else {
        return BTreeMap::new();
    };
    DropCounter::ALL
        .iter()
        .filter_map(|(counter, name)| {
            let row = get_row::<DropsRow>(&snapshot, TableId::Drops, &counter.key()).ok()?;
            Some(((*name).to_owned(), row.unwrap_or_default().messages))
        })
        .collect()
}

fn limits(app: &App) -> StatusLimits {
    let overflow = match app.limits.overflow {
        Overflow::DropOldest => "drop-oldest",
        Overflow::Refuse => "refuse",
    };
    StatusLimits {
        queue_messages: app.limits.messages.max(1) as u64,
        queue_bytes: app.limits.bytes,
        store_bytes: app.limits.store_bytes,
        queues: app.limits.queues as u64,
        waiters: app.waiters.max() as u64,
        message_ttl_ms: app.message_ttl_ms,
        retain_ms: app.retention.map_or(0, |kept| kept.age_ms),
        retain_bytes: app.retention.map_or(0, |kept| kept.bytes),
        overflow: overflow.to_owned(),
    }
}
