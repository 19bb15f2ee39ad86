//! Error bodies: problem documents (RFC 9457, `application/problem+json`).
//!
//! Older clients look at the status code only, so the body is free to help people and newer
//! programs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The media type of a problem document.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// A problem as a server writes it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Problem {
    /// What kind of problem: a URI reference that stays the same for the same kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in a few words, the same for every occurrence.
    pub title: String,
    /// The HTTP status code of the response.
    pub status: u16,
    /// This occurrence, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Extension members.
    #[serde(flatten)]
    pub members: BTreeMap<String, Value>,
}

impl Problem {
    /// A problem of a kind, e.g. `Problem::new(507, "queue-full", "The queue is full")`.
    ///
    /// The kind becomes a relative reference `/problems/<kind>`; it names, it need not resolve.
    #[must_use]
    pub fn new(status: u16, kind: &str, title: &str) -> Problem {
        Problem {
            kind: format!("/problems/{kind}"),
            title: title.to_owned(),
            status,
            detail: None,
            members: BTreeMap::new(),
        }
    }

    /// Says what happened this time.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Problem {
        self.detail = Some(detail.into());
        self
    }

    /// Adds an extension member. The five names of RFC 9457 are not for extensions and are
    /// left out.
    #[must_use]
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Problem {
        if !matches!(name, "type" | "title" | "status" | "detail" | "instance") {
            self.members.insert(name.to_owned(), value.into());
        }
        self
    }
}

/// A problem as a client reads it: every member may be missing or wrong, so every one is optional
/// and the HTTP status code is the one that counts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ReceivedProblem {
    /// What kind of problem.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// The kind in a few words.
    #[serde(default)]
    pub title: Option<String>,
    /// This occurrence.
    #[serde(default)]
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_members_stand_beside_the_standard_ones() {
        let p = Problem::new(507, "queue-full", "The queue is full")
            .detail("1024 of 1024")
            .member("cap", 1024)
            .member("status", 200);
        assert_eq!(
            serde_json::to_value(&p).unwrap(),
            serde_json::json!({
                "type": "/problems/queue-full", "title": "The queue is full", "status": 507,
                "detail": "1024 of 1024", "cap": 1024
            })
        );
    }

    #[test]
    fn a_client_reads_problems_of_other_servers() {
        let p: ReceivedProblem = serde_json::from_str(r#"{"title":"x","status":"odd"}"#).unwrap();
        assert_eq!(p.title.as_deref(), Some("x"));
    }
}
