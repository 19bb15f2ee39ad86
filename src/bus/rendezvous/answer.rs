//! Answers: the headers of every response, and each refusal in the words of the wire.

use axum::body::Body;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

use crate::wire::rendezvous::ErrorReply;

const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_TYPE, HeaderValue::from_static("application/json")),
    (
        STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=31536000; includeSubDomains"),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'"),
    ),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Seconds after which it is worth asking a full relay again.
const FULL_RETRY_S: u64 = 60;

/// A request is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    RoutingId,
    Fields,
    MissingBody,
    InvalidBody,
    Unreadable,
    SessionFull,
    Stranger,
    NoSession,
    Endpoint,
    Origin,
    Host,
    Expired,
    TooLarge { max: usize },
    TooFast { after_ms: u64 },
    SlowBody,
    Busy,
    RelayFull,
    Internal,
}

impl Refused {
    fn words(self) -> (u16, &'static str, &'static str) {
        match self {
            Refused::RoutingId => (400, "ERR_INVALID_SESSION_CODE", "Invalid routing ID format"),
            Refused::Fields => (400, "ERR_MISSING_FIELDS", "Missing required fields"),
            Refused::MissingBody => (400, "ERR_MISSING_FIELDS", "Missing body"),
            Refused::InvalidBody => (400, "ERR_MISSING_FIELDS", "Invalid JSON body"),
            Refused::Unreadable => (400, "ERR_MISSING_FIELDS", "The body cannot be read"),
            Refused::SessionFull => (403, "ERR_SESSION_FULL", "Session is full"),
            Refused::Stranger => (403, "ERR_UNAUTHORIZED", "Unauthorized access"),
            Refused::Origin => (403, "ERR_FORBIDDEN", "Web pages may not use this relay"),
            Refused::NoSession => (404, "ERR_SESSION_NOT_FOUND", "Session not found"),
            Refused::Endpoint => (404, "ERR_NOT_FOUND", "Endpoint not found"),
            Refused::SlowBody => (408, "ERR_TIMEOUT", "The body took too long"),
            Refused::Expired => (410, "ERR_SESSION_EXPIRED", "Session expired"),
            Refused::TooLarge { .. } => (413, "ERR_PAYLOAD_TOO_LARGE", "Request payload too large"),
            Refused::Host => (
                421,
                "ERR_MISDIRECTED",
                "This relay does not answer for that host",
            ),
            Refused::TooFast { .. } => (429, "ERR_RATE_LIMIT_EXCEEDED", "Rate limit exceeded"),
            Refused::Internal => (500, "ERR_INTERNAL_ERROR", "An internal error occurred"),
            Refused::Busy => (503, "ERR_BUSY", "The relay is busy"),
            Refused::RelayFull => (503, "ERR_RELAY_FULL", "The relay is full"),
        }
    }

    fn retry_after(self) -> Option<u64> {
        match self {
            Refused::TooFast { after_ms } => Some(after_ms.div_ceil(1000).max(1)),
            Refused::Busy => Some(1),
            Refused::RelayFull => Some(FULL_RETRY_S),
            _ => None,
        }
    }

    pub(super) fn into_response(self) -> Response {
        let (status, code, error) = self.words();
        let retry_after = self.retry_after();
        let reply = ErrorReply {
            error: error.to_owned(),
            code: code.to_owned(),
            max_size: match self {
                Refused::TooLarge { max } => Some(max as u64),
                _ => None,
            },
            retry_after,
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = serde_json::to_vec(&reply).unwrap_or_default();
        let mut response = with_headers(status, text);
        if let Some(seconds) = retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A success with this body.
pub(super) fn ok(reply: &impl Serialize) -> Result<Response, Refused> {
    let text = serde_json::to_vec(reply).map_err(|_| Refused::Internal)?;
    Ok(ok_text(text))
}

/// A success with this JSON text.
pub(super) fn ok_text(text: Vec<u8>) -> Response {
    with_headers(StatusCode::OK, text)
}

fn with_headers(status: StatusCode, text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().extend(HEADERS);
    response
}
