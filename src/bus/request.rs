//! Reading requests: media type, size, time, shape.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::failure::Failure;
use crate::types::limit::{MAX_BODY_WAIT_MS, MAX_DRAIN_BYTES, MAX_HTTP_BODY_BYTES};

/// Reads a JSON body.
///
/// # Errors
///
/// 415 unless the type is JSON, 413 past [`MAX_HTTP_BODY_BYTES`], 408 when it does not arrive, 400
/// when it is not JSON, 422 when it is JSON of another shape.
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
    let bytes = bytes?;
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
async fn read(mut body: Body) -> Result<Bytes, Failure> {
    let declared = body.size_hint().lower();
    if declared > MAX_DRAIN_BYTES as u64 {
        return Err(Failure::too_large());
    }
    let mut first: Option<Bytes> = None;
    let mut rest: Vec<u8> = vec![];
    let mut seen = 0usize;
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
            (first, rest) = (None, vec![]);
            continue;
        }
        // The usual body is one frame, which needs no copy.
        match (&first, rest.is_empty()) {
            (None, true) => first = Some(data),
            (Some(bytes), true) => {
                rest.reserve(usize::try_from(declared).unwrap_or(0).max(seen));
                rest.extend_from_slice(bytes);
                rest.extend_from_slice(&data);
            }
            _ => rest.extend_from_slice(&data),
        }
    }
    if seen > MAX_HTTP_BODY_BYTES {
        return Err(Failure::too_large());
    }
    Ok(match first {
        Some(bytes) if rest.is_empty() => bytes,
        _ => rest.into(),
    })
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
