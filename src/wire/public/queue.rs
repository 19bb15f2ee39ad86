//! What stands in a queue of the public bus.

use serde::Deserialize;
use serde_json::Value;

use super::Item;
use crate::types::time::UnixMillis;

/// A message in a queue. What it is, is its receiver's business: a bus knows JSON only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPayload {
    /// The payload as a bus delivers it: JSON, members sorted.
    pub payload: Vec<u8>,
    /// The id that the payload gives itself; empty where it has none.
    pub msg_id: String,
    /// When it arrived.
    pub arrived: UnixMillis,
}

#[derive(Deserialize)]
struct Raw {
    payload: Value,
    ts: u64,
}

/// Reads the value of a row.
///
/// # Errors
///
/// [`ItemError::Shape`](super::ItemError::Shape).
pub fn queued(value: &[u8]) -> Item<QueuedPayload> {
    let raw: Raw = serde_json::from_slice(value)?;
    Ok(QueuedPayload {
        msg_id: raw
            .payload
            .get("msg_id")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        payload: serde_json::to_vec(&raw.payload)?,
        arrived: UnixMillis(raw.ts),
    })
}
