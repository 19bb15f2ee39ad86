//! Reading requests: media type, size, time, shape.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::failure::Failure;
use crate::types::limit::{
    FREE_BODY_BYTES, MAX_BODY_WAIT_MS, MAX_DRAIN_BYTES, MAX_HTTP_BODY_BYTES, MAX_READING_BYTES,
};

/// Room for large bodies, in bytes. Of the process, as memory is.
static ROOM: Semaphore = Semaphore::const_new(MAX_READING_BYTES);

/// Reads a JSON body.
///
/// # Errors
///
/// 415 unless the type is JSON, 413 past [`MAX_HTTP_BODY_BYTES`], 408 when it does not arrive, 400
/// when it is not JSON, 422 when it is JSON of another shape, 503 while too many large bodies arrive.
pub(super) async fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Failure> {
    let bytes = tokio::time::timeout(Duration::from_millis(MAX_BODY_WAIT_MS), read(body))
        .await
        .map_err(|_| Failure::slow_body())?;
    // Judged once the body is read, so that the connection stays usable.
    if !is_json(headers) {
        return Err(Failure::media_type());
    }
    let (bytes, _room) = bytes?;
    serde_json::from_slice(&bytes).map_err(|e| match e.classify() {
        Category::Data => Failure::shape(e.to_string()),
        Category::Io | Category::Syntax | Category::Eof => Failure::bad_request(e.to_string()),
    })
}

/// `application/json` or `application/*+json`, with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(text) = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()) else {
        return false;
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    let Some((kind, subtype)) = essence.split_once('/') else {
        return false;
    };
    let subtype = subtype.to_ascii_lowercase();
    kind.eq_ignore_ascii_case("application")
        && (subtype == "json"
            || subtype
                .strip_suffix("+json")
                .is_some_and(|name| !name.is_empty()))
}

/// The whole body. A body that is too large is read on to a bound and thrown away: a peer that
/// still writes would not see the answer otherwise.
async fn read(mut body: Body) -> Result<(Bytes, Option<SemaphorePermit<'static>>), Failure> {
    let declared = body.size_hint().lower();
    if declared > MAX_DRAIN_BYTES as u64 {
        return Err(Failure::too_large());
    }
    let mut first: Option<Bytes> = None;
    let mut rest: Vec<u8> = vec![];
    let mut seen = 0usize;
    let mut room = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Failure::bad_request(e.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        seen = seen.saturating_add(data.len());
        if seen > MAX_DRAIN_BYTES {
            break;
        }
        if seen > MAX_HTTP_BODY_BYTES || declared > MAX_HTTP_BODY_BYTES as u64 {
            (first, rest, room) = (None, vec![], None);
            continue;
        }
        if room.is_none() && seen > FREE_BODY_BYTES {
            room = Some(large_body()?);
        }
        // The usual body is one frame, which needs no copy.
        match (&first, rest.is_empty()) {
            (None, true) => first = Some(data),
            (Some(bytes), true) => {
                // What is declared is believed once there is room for it.
                let declared = room.as_ref().and_then(|_| usize::try_from(declared).ok());
                rest.reserve(declared.unwrap_or(0).max(seen));
                rest.extend_from_slice(bytes);
                rest.extend_from_slice(&data);
            }
            _ => rest.extend_from_slice(&data),
        }
    }
    if seen > MAX_HTTP_BODY_BYTES {
        return Err(Failure::too_large());
    }
    let bytes = match first {
        Some(bytes) if rest.is_empty() => bytes,
        _ => rest.into(),
    };
    Ok((bytes, room))
}

/// Room for a body of any length that is taken in.
fn large_body() -> Result<SemaphorePermit<'static>, Failure> {
    let bytes = u32::try_from(MAX_HTTP_BODY_BYTES).unwrap_or(u32::MAX);
    ROOM.try_acquire_many(bytes)
        .map_err(|_| Failure::busy("too many large bodies arrive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_media_types_and_no_others() {
        let check = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            is_json(&headers)
        };
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "Application/JSON",
            "application/problem+json",
        ] {
            assert!(check(good), "{good}");
        }
        for bad in ["text/plain", "text/json", "application/+json", "json", ""] {
            assert!(!check(bad), "{bad}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
