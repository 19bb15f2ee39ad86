//! `POST /send`: 202 once the payload is durable in its queue.
//!
//! The payload is stored as it was parsed: members sorted, duplicates collapsed (the last wins).
//! An identical payload that still waits in the same queue is accepted once.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::{ack_key, check_name, json};
use crate::bus::failure::Failure;
use crate::bus::request;
use crate::bus::state::App;
use crate::crypto::hash::sha256;
use crate::domain::decide::bus::{BusCommand, BusReply, DroppedItem};
use crate::wire::http::{DropReason, DroppedMessage, OverflowReply, SendRequest};

pub(in crate::bus) async fn send(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let Posted {
        to,
        payload,
        msg_id,
    } = read(&headers, body).await?;
    let sha256 = sha256(&payload);
    let reply = app
        .commit(BusCommand::Enqueue {
            to: to.clone(),
            payload: payload.into(),
            sha256,
            msg_id,
            limits: app.limits,
        })
        .await?;
    match reply {
        BusReply::Enqueued { dropped, .. } if !dropped.is_empty() => {
            tracing::warn!(
                dropped = dropped.len(),
                "a full queue dropped its oldest mail"
            );
            json(StatusCode::ACCEPTED, &overflow(&to, &dropped))
        }
        _ => Ok(StatusCode::ACCEPTED.into_response()),
    }
}

/// What is kept of a request.
struct Posted {
    to: String,
    payload: Vec<u8>,
    msg_id: String,
}

/// The parsed form can be 50 times as large as its text, so it must be gone before anything waits.
async fn read(headers: &HeaderMap, body: Body) -> Result<Posted, Failure> {
    let SendRequest { to, payload } = request::json(headers, body).await?;
    check_name("to", &to)?;
    let msg_id = payload.get("msg_id").and_then(|id| id.as_str());
    let msg_id = msg_id.unwrap_or_default().to_owned();
    let payload = serde_json::to_vec(&payload).map_err(|e| Failure::internal(e.to_string()))?;
    Ok(Posted {
        to,
        payload,
        msg_id,
    })
}

fn overflow(to: &str, dropped: &[DroppedItem]) -> OverflowReply {
    let dropped = dropped
        .iter()
        .map(|item| DroppedMessage {
            seq: item.seq,
            ack: ack_key(to, item.seq),
            ts: item.at,
        })
        .collect();
    OverflowReply {
        reason: DropReason::Overflow,
        dropped,
    }
}
