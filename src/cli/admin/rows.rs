//! Rows in words.

use serde_json::Value;

use super::print::{Shown, date, short, short_id, time};
use crate::types::id::PublicKey;

/// Members that are times, in Unix milliseconds.
const TIMES: [&str; 14] = [
    "acknowledged_at",
    "at",
    "closed",
    "due",
    "first_at",
    "floor",
    "heard_at",
    "last_seen",
    "next_at",
    "opened",
    "said_at",
    "since",
    "ts",
    "used_at",
];

/// A row's members with their values, spelled out, in one line.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let words: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{} {}", Shown(name), word(name, value)))
                .collect();
            words.join(", ")
        }
        value => word("", value),
    }
}

/// One member's value, spelled out.
pub(super) fn word(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => match number.as_u64() {
            Some(at) if TIMES.contains(&name) && at > 0 => format!("{} {}", date(at), time(at)),
            _ => number.to_string(),
        },
        Value::String(text) => string(name, text),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            let words: Vec<String> = items
                .iter()
                .map(|item| match item {
                    Value::Object(_) => format!("({})", words(item)),
                    item => word(name, item),
                })
                .collect();
            words.join(" ")
        }
        // An alternative with members of its own.
        Value::Object(members) => match members.iter().next() {
            Some((of, inner @ Value::Object(_))) if members.len() == 1 => {
                format!("{} ({})", Shown(of), words(inner))
            }
            _ => format!("({})", words(value)),
        },
    }
}

fn string(name: &str, text: &str) -> String {
    let (key, _) = crate::types::route::split(text);
    if key.parse::<PublicKey>().is_ok() {
        return short(text);
    }
    match name {
        "sha256" => short_id(text),
        _ if text.is_empty() => "\"\"".to_owned(),
        _ => Shown(text).to_string(),
    }
}

/// A key of a table, spelled out; public keys in it by their beginning.
pub(super) fn key(text: &str) -> String {
    let parts: Vec<String> = text.split(" / ").map(short).collect();
    parts.join(" / ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_reads_like_a_sentence_and_acts_on_no_terminal() {
        let own = PublicKey::from_bytes([0; 32]).to_string();
        let row = json!({
            "at": 1_796_049_844_123u64, "from": own, "label": "a\u{1b}[2J", "none": null,
            "state": { "accepted": { "dropped": false } }, "paths": ["socket"], "n": 7,
        });
        assert_eq!(
            words(&row),
            "at 2026-11-30 14:44:04.123, from AAAAAAAA.., label a\\u{1b}[2J, n 7, none -, \
             paths socket, state accepted (dropped no)"
        );
        assert_eq!(key(&format!("s / {own} / 9")), "s / AAAAAAAA.. / 9");
    }
}
