//! One file a route, thin bodies.

pub(super) mod ack;
pub(super) mod admin;
pub(super) mod announce;
pub(super) mod health;
pub(super) mod operator;
pub(super) mod recv;
pub(super) mod roster;
pub(super) mod send;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::failure::Failure;
use crate::domain::decide::bus::queue_name_ok;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A JSON answer from finished text.
fn json_text(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, JSON)], body).into_response()
}

/// A JSON answer.
fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, Failure> {
    let body = serde_json::to_vec(value).map_err(|e| Failure::internal(e.to_string()))?;
    Ok(json_text(status, body))
}

fn check_name(field: &str, name: &str) -> Result<(), Failure> {
    if queue_name_ok(name) {
        Ok(())
    } else {
        Err(Failure::queue_name(field))
    }
}

/// The key by which a message is acknowledged: queue name, NUL, position in 20 digits. Clients
/// treat it as opaque.
fn ack_key(queue: &str, seq: crate::types::seq::Seq) -> String {
    format!("{queue}\0{:020}", seq.0)
}
