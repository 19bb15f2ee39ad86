//! Everything that goes wrong in a request, as a problem document (RFC 9457).

use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::domain::decide::bus::BusRefusal;
use crate::store::{CommandError, ReadError, SubmitError};
use crate::types::limit::{MAX_HTTP_BODY_BYTES, MAX_QUEUE_NAME_BYTES};
use crate::types::time::UnixMillis;
use crate::wire::problem::{PROBLEM_MEDIA_TYPE, Problem};

/// Seconds after which a caller may come back to a busy bus.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");

/// An answer that is not a success.
#[derive(Debug)]
pub(super) struct Failure {
    problem: Box<Problem>,
    allow: Option<&'static str>,
    retry: bool,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure {
            problem: Box::new(problem),
            allow: None,
            retry: false,
        }
    }
}

impl Failure {
    /// Whether something was refused because a queue or the bus is full.
    pub(super) fn is_want_of_room(&self) -> bool {
        self.problem.status == 507
    }

    fn retry(self) -> Self {
        Failure {
            retry: true,
            ..self
        }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(400, "bad-request", "The request cannot be read")
            .detail(detail)
            .into()
    }

    pub(super) fn shape(detail: impl Into<String>) -> Self {
        Problem::new(422, "wrong-shape", "The JSON has not the expected members")
            .detail(detail)
            .into()
    }

    pub(super) fn media_type() -> Self {
        Problem::new(415, "media-type", "The body must be JSON")
            .detail("send it with content-type: application/json")
            .into()
    }

    pub(super) fn too_large() -> Self {
        Problem::new(413, "too-large", "The body is too large")
            .member("max_bytes", MAX_HTTP_BODY_BYTES)
            .into()
    }

    pub(super) fn slow_body() -> Self {
        Problem::new(408, "slow-body", "The body took too long").into()
    }

    pub(super) fn queue_name(field: &str) -> Self {
        Problem::new(400, "queue-name", "The queue name is not acceptable")
            .detail(format!(
                "{field} must be at most {MAX_QUEUE_NAME_BYTES} bytes without control characters"
            ))
            .into()
    }

    pub(super) fn foreign_ack() -> Self {
        Problem::new(403, "foreign-ack", "The key belongs to another queue")
            .detail("an ack is the key that a receive of the same queue gave")
            .into()
    }

    pub(super) fn origin() -> Self {
        Problem::new(403, "origin", "Web pages may not use this bus")
            .detail("start the bus with --allow-origin to admit an origin")
            .into()
    }

    pub(super) fn host() -> Self {
        Problem::new(421, "host", "This bus does not answer for that host")
            .detail("a bus on a loopback address answers to localhost and loopback addresses only")
            .into()
    }

    pub(super) fn not_found() -> Self {
        Problem::new(404, "not-found", "There is nothing here").into()
    }

    pub(super) fn method(allow: &'static str) -> Self {
        Failure {
            allow: Some(allow),
            ..Problem::new(405, "method", "This path has other methods").into()
        }
    }

    pub(super) fn waiters(max: usize) -> Self {
        Failure::from(
            Problem::new(503, "too-many-waiters", "Too many requests wait for mail")
                .member("max", max),
        )
        .retry()
    }

    pub(super) fn signature(detail: String) -> Self {
        Problem::new(403, "signature", "The announcement is not its key's")
            .detail(detail)
            .into()
    }

    pub(super) fn untimely(ts: UnixMillis, now: UnixMillis) -> Self {
        Problem::new(409, "untimely", "The announcement is of another time")
            .detail("sign it with the present time; check the clocks of both machines")
            .member("ts", ts.0)
            .member("now", now.0)
            .into()
    }

    pub(super) fn admin_token() -> Self {
        Problem::new(403, "admin", "The admin endpoint needs its token")
            .detail("the token is in the file beside the store; only local callers may use it")
            .into()
    }

    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Problem::new(500, "storage", "The storage failed")
            .detail(detail)
            .into()
    }

    pub(super) fn read_only(reason: &str) -> Self {
        Failure::from(
            Problem::new(503, "read-only", "The store takes no writes")
                .detail(format!(
                    "{reason}; restart the bus once the cause is mended"
                ))
                .member("reason", reason),
        )
        .retry()
    }

    pub(super) fn busy(detail: &str) -> Self {
        Failure::from(Problem::new(503, "busy", "The bus is busy").detail(detail)).retry()
    }

    fn closing() -> Self {
        Failure::from(Problem::new(503, "closing", "The bus is shutting down")).retry()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A problem has text members only; if it ever failed, the status code would still count.
        let body = serde_json::to_vec(&self.problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if self.retry {
            headers.insert(RETRY_AFTER, RETRY_AFTER_S);
        }
        response
    }
}

impl From<SubmitError> for Failure {
    fn from(e: SubmitError) -> Self {
        match e {
            SubmitError::Busy => Failure::busy("too much waits for the disk"),
            SubmitError::ReadOnly { reason } => Failure::read_only(&reason),
            SubmitError::Closed => Failure::closing(),
        }
    }
}

impl From<CommandError<BusRefusal>> for Failure {
    fn from(e: CommandError<BusRefusal>) -> Self {
        match e {
            CommandError::Refused(refusal) => refusal.into(),
            CommandError::Inapplicable { reason } => Failure::internal(reason),
            CommandError::ReadOnly { reason } => Failure::read_only(&reason),
            CommandError::Closed => Failure::closing(),
            e @ CommandError::StoreBusy { .. } => Failure::busy(&e.to_string()),
            e @ CommandError::Superseded => Failure::read_only(&e.to_string()),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(e: ReadError) -> Self {
        match e {
            ReadError::Closed => Failure::closing(),
            e @ ReadError::Compacted { .. } => Failure::bad_request(e.to_string()),
            e => Failure::internal(e.to_string()),
        }
    }
}

impl From<BusRefusal> for Failure {
    fn from(refusal: BusRefusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            BusRefusal::Relay(refusal) => {
                Problem::new(409, "relay", "The relay refuses").detail(refusal.to_string())
            }
            BusRefusal::QueueName => Problem::new(400, "queue-name", "Unacceptable queue name"),
            BusRefusal::PayloadTooLarge { max, .. } => {
                Problem::new(413, "too-large", "The payload is too large").member("max_bytes", max)
            }
            BusRefusal::NotNewer { newest, .. } => {
                Problem::new(409, "not-newer", "The session has signed something newer")
                    .member("newest", newest.0)
            }
            BusRefusal::AnnouncementTooLarge { .. } => {
                Problem::new(413, "too-large", "The announcement is too large")
            }
            BusRefusal::QueueFull { messages, bytes } => {
                Problem::new(507, "queue-full", "The queue is full")
                    .member("messages", messages)
                    .member("bytes", bytes)
            }
            BusRefusal::StoreFull { bytes } => {
                Problem::new(507, "store-full", "The bus is full").member("bytes", bytes)
            }
            BusRefusal::TooManyQueues { queues } => {
                Problem::new(507, "too-many-queues", "The bus has too many queues")
                    .member("queues", queues)
            }
        }
        .detail(text)
        .into()
    }
}
