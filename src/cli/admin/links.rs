//! What a record is about. Records name messages in two ways: by their id, where a message begins
//! in a store, and by the position of that record, ever after.

use serde_json::Value;

use crate::wire::admin::RecordRow;

/// Ids of the messages that a record names.
pub(super) fn ids(record: &RecordRow) -> Vec<&str> {
    let event = &record.event;
    let mut ids: Vec<&str> = ["msg_id", "request_id"]
        .iter()
        .filter_map(|name| text(event, name))
        .filter(|id| !id.is_empty())
        .collect();
    let items = event.get("items").and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        ids.extend(text(item, "msg_id"));
    }
    ids
}

/// Positions of the records that a record is about, in the same store.
pub(super) fn about(record: &RecordRow) -> Vec<u64> {
    let event = &record.event;
    let mut seqs: Vec<u64> = number(event, "message").into_iter().collect();
    for name in ["seqs", "received", "sent"] {
        seqs.extend(numbers(event, name));
    }
    seqs
}

/// A member that is a list of numbers.
pub(super) fn numbers(event: &Value, name: &str) -> Vec<u64> {
    let list = event.get(name).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .collect()
}

/// A member that is text.
pub(super) fn text<'a>(event: &'a Value, name: &str) -> Option<&'a str> {
    event.get(name).and_then(Value::as_str)
}

/// A member that is a number.
pub(super) fn number(event: &Value, name: &str) -> Option<u64> {
    event.get(name).and_then(Value::as_u64)
}
