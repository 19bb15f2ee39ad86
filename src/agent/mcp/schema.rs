//! JSON Schemas of the tools, in the part of the language that every host understands.
//!
//! Hosts trip over `["string", "null"]`, number formats that JSON Schema does not define, and
//! references. A parameter that may be absent is simply not required.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The schema of a type, as an object.
#[must_use]
pub fn of<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut value = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    simplify(&mut value);
    let mut object = match value {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    object.remove("title");
    object.remove("description");
    object
        .entry("type")
        .or_insert_with(|| Value::from("object"));
    object
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    object
}

/// A result's schema with what any result may carry beside its own.
#[must_use]
pub fn with_notes(mut schema: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let list = serde_json::json!({
            "type": "array",
            "items": of::<super::notes::Note>(),
            "description": "What went wrong with messages of this session since the last answer; \
                            each is told once.",
        });
        properties.insert("notes".to_owned(), list);
        for (name, mut waits, when) in [
            (
                "mail_waits",
                of::<super::notes::MailWaits>(),
                "Set when mail waits for this session.",
            ),
            (
                "pairing_waits",
                of::<super::notes::PairingWaits>(),
                "Set when this session has not seen what is new about pairing.",
            ),
            (
                "bond_waits",
                of::<super::news::BondWaits>(),
                "Set when something happened in the sealed session.",
            ),
        ] {
            waits.insert("description".to_owned(), Value::from(when));
            properties.insert(name.to_owned(), Value::Object(waits));
        }
    }
    schema
}

fn simplify(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(object) => {
            // Not a type of JSON: `uint64` and its like.
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|t| t != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    object.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(variants)) = object.get_mut("enum") {
                variants.retain(|v| !v.is_null());
            }
            if let Some(Value::Array(variants)) = object.get_mut("anyOf") {
                variants.retain(|v| v.get("type").is_none_or(|t| t != "null"));
                if let [Value::Object(one)] = variants.as_slice() {
                    let one = one.clone();
                    object.remove("anyOf");
                    for (key, value) in one {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            object.values_mut().for_each(simplify);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Sample {
        /// Needed.
        a: String,
        /// Optional.
        b: Option<String>,
        c: Option<u32>,
        d: Option<Inner>,
        e: Vec<Inner>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Inner {
        x: bool,
    }

    #[test]
    fn optional_members_are_plain_and_not_required() {
        let schema = Value::Object(of::<Sample>());
        let text = schema.to_string();
        for odd in ["null", "$ref", "$defs", "$schema", "uint32"] {
            assert!(!text.contains(odd), "{odd} in {text}");
        }
        assert_eq!(schema["required"], serde_json::json!(["a", "e"]));
        assert_eq!(schema["properties"]["b"]["type"], "string");
        assert_eq!(schema["properties"]["b"]["description"], "Optional.");
        assert_eq!(schema["properties"]["d"]["type"], "object");
    }
}
