//! `POST /announce` and `POST /unregister`: presence comes and goes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::check_name;
use crate::bus::board::Posted;
use crate::bus::failure::Failure;
use crate::bus::request;
use crate::bus::state::App;
use crate::domain::decide::bus::BusCommand;
use crate::types::limit::MAX_ROSTER_ENTRIES;

/// 202. Something new is durable by then; a mere heartbeat is durable within a flush.
pub(in crate::bus) async fn announce(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Failure> {
    let posted = read(&headers, body).await?;
    if app.board.heartbeat(&posted, app.clock.now()) {
        return Ok(StatusCode::ACCEPTED);
    }
    app.commit(BusCommand::Announce {
        entry: posted.entry,
        announcement: posted.text.into(),
        max_entries: MAX_ROSTER_ENTRIES,
    })
    .await?;
    Ok(StatusCode::ACCEPTED)
}

/// 202, also for sessions that are not on the board.
pub(in crate::bus) async fn unregister(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Failure> {
    let entry = read(&headers, body).await?.entry;
    app.commit(BusCommand::Unregister { entry }).await?;
    Ok(StatusCode::ACCEPTED)
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Posted, Failure> {
    let value = request::json(headers, body).await?;
    let posted = Posted::read(value).map_err(|e| Failure::bad_request(e.to_string()))?;
    check_name("pubkey with session_id", &posted.entry)?;
    Ok(posted)
}
