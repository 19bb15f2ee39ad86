//! More of `/admin/v1/*`: queues and the board as they are, and what the operator takes away. The
//! same guard as for the rest ([`allowed`](super::admin::allowed)).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use serde::Deserialize;

use super::{check_name, json};
use crate::bus::failure::Failure;
use crate::bus::request;
use crate::bus::state::App;
use crate::domain::decide::bus::{BusCommand, BusReply, RelayCommand, RelayReply};
use crate::store::holdings;
use crate::types::limit::{MAX_ADMIN_ROWS, MAX_EXPIRE_BATCH};
use crate::types::seq::Seq;
use crate::wire::operator::{Discard, EndRelayed, Evict, Removed};

fn query<T: serde::de::DeserializeOwned>(uri: &Uri) -> Result<T, Failure> {
    let Query(query) = Query::try_from_uri(uri).map_err(|e| Failure::bad_request(e.body_text()))?;
    Ok(query)
}

#[derive(Deserialize)]
struct QueuePage {
    to: String,
    #[serde(default)]
    from: u64,
    #[serde(default)]
    limit: Option<usize>,
}

/// Messages of a queue.
pub(in crate::bus) async fn queue(
    State(app): State<Arc<App>>,
    uri: Uri,
) -> Result<Response, Failure> {
    let page: QueuePage = query(&uri)?;
    let limit = page.limit.unwrap_or(MAX_ADMIN_ROWS).min(MAX_ADMIN_ROWS);
    let list = holdings::queue(&app.store.snapshot()?, &page.to, Seq(page.from), limit)?;
    json(StatusCode::OK, &list)
}

#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    body: bool,
}

/// One message.
pub(in crate::bus) async fn message(
    State(app): State<Arc<App>>,
    Path(seq): Path<String>,
    uri: Uri,
) -> Result<Response, Failure> {
    let seq = seq.parse();
    let seq = seq.map_err(|_| Failure::bad_request("a message has a position"))?;
    let whole: Whole = query(&uri)?;
    let found = holdings::message(&app.store.snapshot()?, Seq(seq), whole.body)?;
    json(StatusCode::OK, &found.ok_or_else(Failure::not_found)?)
}

/// The board.
pub(in crate::bus) async fn roster(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    json(StatusCode::OK, &holdings::board(&app.store.snapshot()?)?)
}

/// Takes messages out of a queue.
pub(in crate::bus) async fn discard(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let Discard { to, seq } = request::json(&headers, body).await?;
    check_name("to", &to)?;
    let command = BusCommand::Discard {
        to,
        seq: seq.map(Seq),
        max: MAX_EXPIRE_BATCH,
    };
    remove(&app, command).await
}

/// Takes a session off the board.
pub(in crate::bus) async fn evict(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let Evict { entry } = request::json(&headers, body).await?;
    remove(&app, BusCommand::Evict { entry }).await
}

/// The sessions that are relayed.
pub(in crate::bus) async fn relayed(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    json(StatusCode::OK, &holdings::relayed(&app.store.snapshot()?)?)
}

/// Ends a session that is relayed.
pub(in crate::bus) async fn end_relayed(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let EndRelayed { session } = request::json(&headers, body).await?;
    let wish = RelayCommand::End {
        session: Some(Seq(session)),
        now: app.clock.now(),
        max: 1,
    };
    remove(&app, BusCommand::Relay(wish)).await
}

async fn remove(app: &App, command: BusCommand) -> Result<Response, Failure> {
    let count = match app.commit(command).await? {
        BusReply::Removed { count } | BusReply::Relay(RelayReply::Ended { count }) => count as u64,
        _ => 0,
    };
    tracing::warn!(count, "taken away by the operator");
    json(StatusCode::OK, &Removed { count })
}
