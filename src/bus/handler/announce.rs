//! `POST /announce` and `POST /unregister`: presence comes and goes.
//!
//! By default the bus believes everybody, as the public one does, and readers check. A bus that
//! verifies keeps the board to those who can sign, and takes from each session only what was signed
//! later than all before: nobody can take a session off the board, or bring one back, by playing
//! something again.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::check_name;
use crate::bus::board::{Heard, Posted};
use crate::bus::failure::Failure;
use crate::bus::request;
use crate::bus::state::App;
use crate::domain::decide::bus::{BusCommand, BusRefusal};
use crate::types::limit::{
    MAX_ANNOUNCEMENT_BYTES, MAX_FUTURE_MS, MAX_PAST_PRESENCE_MS, MAX_ROSTER_ENTRIES,
    MAX_SESSIONS_PER_KEY,
};
use crate::types::time::UnixMillis;
use crate::wire::announce::ReadAnnouncementError;

/// 202. Something new is durable by then; a mere heartbeat is durable within a flush.
pub(in crate::bus) async fn announce(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Failure> {
    let posted = read(&headers, body).await?;
    let signed = signed_at(&app, &posted)?;
    match app.board.heartbeat(&posted, signed, app.clock.now()) {
        Heard::Again => return Ok(StatusCode::ACCEPTED),
        Heard::News => {}
        Heard::Stale { newest } => {
            let ts = signed.unwrap_or_default();
            return Err(BusRefusal::NotNewer { ts, newest }.into());
        }
    }
    let (entry, announcement) = (posted.entry, posted.text.into());
    app.commit(match signed {
        None => BusCommand::Announce {
            entry,
            announcement,
            max_entries: MAX_ROSTER_ENTRIES,
        },
        Some(ts) => BusCommand::AnnounceSigned {
            entry,
            announcement,
            ts,
            max_entries: MAX_ROSTER_ENTRIES,
            max_per_key: MAX_SESSIONS_PER_KEY,
        },
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
    let posted = read(&headers, body).await?;
    let signed = signed_at(&app, &posted)?;
    if let (Some(ts), Some(newest)) = (signed, app.board.signed_time(&posted.entry))
        && ts <= newest
    {
        return Err(BusRefusal::NotNewer { ts, newest }.into());
    }
    let entry = posted.entry;
    app.commit(match signed {
        None => BusCommand::Unregister { entry },
        Some(ts) => BusCommand::UnregisterSigned { entry, ts },
    })
    .await?;
    Ok(StatusCode::ACCEPTED)
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Posted, Failure> {
    let value = request::json(headers, body).await?;
    let posted = Posted::read(value).map_err(|e| Failure::bad_request(e.to_string()))?;
    check_name("pubkey with session_id", &posted.entry)?;
    Ok(posted)
}

/// The time under the checked signature, on a bus that verifies.
fn signed_at(app: &App, posted: &Posted) -> Result<Option<UnixMillis>, Failure> {
    if !app.board.verifies() {
        return Ok(None);
    }
    let len = posted.text.len();
    if len > MAX_ANNOUNCEMENT_BYTES {
        return Err(BusRefusal::AnnouncementTooLarge { len }.into());
    }
    let ts = posted.signed_at().map_err(|e| match e {
        ReadAnnouncementError::Shape(e) => Failure::shape(e.to_string()),
        e => Failure::signature(e.to_string()),
    })?;
    let now = app.clock.now();
    if ts.since(now) > MAX_FUTURE_MS || now.since(ts) > MAX_PAST_PRESENCE_MS {
        return Err(Failure::untimely(ts, now));
    }
    Ok(Some(ts))
}
