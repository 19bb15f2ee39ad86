//! A JSON object that somebody else wrote, changed in one member.
//!
//! Configuration files of hosts belong to their users: the order of the members and the text of
//! every value that is not ours stay exactly as they were.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The members of an object, in their order; values as text.
#[derive(Debug, Default)]
pub(super) struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Members, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = vec![];
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        d.deserialize_map(Collect)
    }
}

impl Members {
    /// Reads an object; an empty text counts as an empty one.
    pub(super) fn parse(text: &str) -> Result<Members, serde_json::Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Ok(Members::default());
        }
        serde_json::from_str(text)
    }

    /// The text of a member.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(n, _)| n == name);
        found.map(|(_, raw)| raw.get())
    }

    /// The members of a member that is an object; none when it is absent.
    pub(super) fn object(&self, name: &str) -> Result<Members, serde_json::Error> {
        self.get(name)
            .map_or_else(|| Ok(Members::default()), Members::parse)
    }

    /// Puts a text of JSON in the place of a member, or at the end.
    pub(super) fn set(&mut self, name: &str, text: String) -> Result<(), serde_json::Error> {
        let raw = RawValue::from_string(text)?;
        match self.0.iter_mut().rev().find(|(n, _)| n == name) {
            Some((_, old)) => *old = raw,
            None => self.0.push((name.to_owned(), raw)),
        }
        Ok(())
    }

    /// Its text, for a place `depth` levels deep in a file with two blanks a level.
    pub(super) fn to_text(&self, depth: usize) -> String {
        if self.0.is_empty() {
            return "{}".to_owned();
        }
        let inner = "  ".repeat(depth + 1);
        let members: Vec<String> = self
            .0
            .iter()
            .map(|(name, raw)| format!("{inner}{}: {}", Value::from(name.as_str()), raw.get()))
            .collect();
        format!("{{\n{}\n{}}}", members.join(",\n"), "  ".repeat(depth))
    }
}

/// A value of ours as text, for a place `depth` levels deep.
pub(super) fn pretty(value: &Value, depth: usize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.replace('\n', &format!("\n{}", "  ".repeat(depth)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_keeps_its_order_and_its_text() {
        let text = "{\"z\": [1,\n   2.50],\"a\":{ \"y\" : 1e3 },\"mine\":1}";
        let mut members = Members::parse(text).unwrap();
        members.set("mine", "{\"b\":2}".to_owned()).unwrap();
        members.set("new", "3".to_owned()).unwrap();
        assert_eq!(
            members.to_text(0),
            "{\n  \"z\": [1,\n   2.50],\n  \"a\": { \"y\" : 1e3 },\n  \"mine\": {\"b\":2},\n  \
             \"new\": 3\n}"
        );
        assert_eq!(Members::parse(" \n").unwrap().to_text(0), "{}");
        assert_eq!(members.object("a").unwrap().get("y"), Some("1e3"));
        for bad in ["[]", "7", "{", "{} x", "// comment\n{}"] {
            assert!(Members::parse(bad).is_err(), "{bad}");
        }
    }
}
