//! What may be shown of a log to somebody who should not know who wrote what.
//!
//! Numbers, times and the program's own words stay. Every other text gets a name that is the same
//! wherever the text occurs: `key-1`, `text-7`. That tells who is who within the file and nothing
//! outside of it; lengths and times stay, and may say more than is wanted.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Line;
use crate::types::id::PublicKey;
use crate::types::route;

/// Members whose texts are words of the program.
const WORDS: [&str; 14] = [
    "by", "change", "end", "error", "flow", "kind", "mode", "origin", "question", "role", "status",
    "step", "verdict", "way",
];

/// Records whose `reason` is a word of the program; elsewhere it is a relay's text.
const REASONS: [&str; 6] = [
    "dropped",
    "discarded",
    "pair_conflicted",
    "sessions_forgotten",
    "relay_ended",
    "relay_erased",
];

/// Members with whatever a peer likes.
const FOREIGN: [&str; 1] = ["announcement"];

/// Names for texts.
#[derive(Default)]
pub(super) struct Redactor {
    keys: BTreeMap<String, usize>,
    texts: BTreeMap<String, usize>,
}

impl Redactor {
    /// The line as it may be shown; `None` when it may not.
    pub(super) fn line(&mut self, line: Line) -> Option<Line> {
        match line {
            Line::Record {
                seq,
                at,
                kind,
                event,
                ..
            } => Some(Line::Record {
                seq,
                at,
                event: self.value(&kind, "", event),
                kind,
                frame: None,
            }),
            Line::Body { seq, len, .. } => Some(Line::Body {
                seq,
                len,
                bytes: None,
            }),
            Line::Meta { .. } | Line::BaseRow { .. } | Line::Row { .. } => None,
            end @ Line::End { .. } => Some(end),
        }
    }

    fn value(&mut self, kind: &str, member: &str, value: Value) -> Value {
        match value {
            _ if FOREIGN.contains(&member) => Value::Null,
            Value::String(text) => {
                let word =
                    WORDS.contains(&member) || (member == "reason" && REASONS.contains(&kind));
                if word && is_word(&text) {
                    Value::String(text)
                } else {
                    Value::String(self.name(&text))
                }
            }
            Value::Array(items) => {
                let items = items.into_iter();
                items.map(|item| self.value(kind, member, item)).collect()
            }
            Value::Object(members) => {
                let mut shown = Map::new();
                for (name, value) in members {
                    let value = self.value(kind, &name, value);
                    let name = if is_word(&name) {
                        name
                    } else {
                        self.name(&name)
                    };
                    shown.insert(name, value);
                }
                Value::Object(shown)
            }
            plain => plain,
        }
    }

    fn name(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let (key, session) = route::split(text);
        if key.parse::<PublicKey>().is_ok() {
            let key = numbered(&mut self.keys, key);
            return match session {
                Some(session) => format!("key-{key}#{}", self.name(session)),
                None => format!("key-{key}"),
            };
        }
        format!("text-{}", numbered(&mut self.texts, text))
    }
}

fn numbered(names: &mut BTreeMap<String, usize>, text: &str) -> usize {
    let next = names.len() + 1;
    *names.entry(text.to_owned()).or_insert(next)
}

fn is_word(text: &str) -> bool {
    text.len() <= 40 && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_stable_and_say_nothing() {
        let key = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI";
        let mut redactor = Redactor::default();
        let event = json!({
            "key": key, "to": format!("{key}#office"), "session": "office", "origin": "tool",
            "petname": "Anna", "reason": "busy", "kind": "Tell Ann", "len": 3, "announcement": {"a": 1},
            "entries": [{"entry": key, "x y": 1}],
        });
        let shown = redactor.value("outbox_refused", "", event.clone());
        let text = shown.to_string();
        for secret in [key, "office", "Anna", "busy", "Tell", "x y"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert_eq!(shown["key"], "key-1");
        assert_eq!(
            shown["to"],
            format!("key-1#{}", shown["session"].as_str().unwrap())
        );
        assert_eq!(shown["entries"][0]["entry"], "key-1");
        assert_eq!(
            (&shown["origin"], &shown["len"]),
            (&json!("tool"), &json!(3))
        );
        assert_eq!(redactor.value("outbox_refused", "", event), shown);
        assert_eq!(
            redactor.value("dropped", "reason", json!("overflow")),
            "overflow"
        );
    }
}
