//! Reading request bodies within their bounds.

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::answer::Refused;
use crate::types::limit::{
    FREE_BODY_BYTES, MAX_BODY_WAIT_MS, MAX_DRAIN_BYTES, MAX_READING_BYTES, MAX_RELAY_SEND_BYTES,
};

/// Room for large bodies, in bytes. Of the process, as memory is.
static ROOM: Semaphore = Semaphore::const_new(MAX_READING_BYTES);

/// A whole body, and the room that it takes.
pub(super) type Whole = (Vec<u8>, Option<SemaphorePermit<'static>>);

/// Reads a body of at most `max` bytes. What is too large is read on to a bound and thrown away: a
/// peer that still writes would not see the answer otherwise.
pub(super) async fn whole(body: Body, max: usize) -> Result<Whole, Refused> {
    let wait = Duration::from_millis(MAX_BODY_WAIT_MS);
    tokio::time::timeout(wait, read(body, max))
        .await
        .map_err(|_| Refused::SlowBody)?
}

async fn read(mut body: Body, max: usize) -> Result<Whole, Refused> {
    let declared = body.size_hint().lower();
    if declared > MAX_DRAIN_BYTES as u64 {
        return Err(Refused::TooLarge { max });
    }
    let mut bytes: Vec<u8> = vec![];
    let mut seen = 0usize;
    let mut room = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refused::Unreadable)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        seen = seen.saturating_add(data.len());
        if seen > MAX_DRAIN_BYTES {
            break;
        }
        if seen > max || declared > max as u64 {
            (bytes, room) = (vec![], None);
            continue;
        }
        if room.is_none() && seen > FREE_BODY_BYTES {
            room = Some(large_body()?);
            bytes.reserve(usize::try_from(declared).unwrap_or(0));
        }
        bytes.extend_from_slice(&data);
    }
    if seen > max {
        return Err(Refused::TooLarge { max });
    }
    Ok((bytes, room))
}

fn large_body() -> Result<SemaphorePermit<'static>, Refused> {
    let bytes = u32::try_from(MAX_RELAY_SEND_BYTES).unwrap_or(u32::MAX);
    ROOM.try_acquire_many(bytes).map_err(|_| Refused::Busy)
}
