//! JSON Schemas of everything that travels, generated from the types that read and write it.
//!
//! The files under `schema/wire/` are these; a test keeps them equal.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};

use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::{MAX_MSG_ID_BYTES, MAX_SESSION_ID_BYTES};

use super::{announce, envelope, http, problem};

/// Name and schema of each document, sorted by name. Lengths count characters in a JSON Schema and
/// bytes in this program; the schema's bound is the wider one.
#[must_use]
pub fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("ack-request", schema_for!(http::AckRequest)),
        ("announcement", schema_for!(announce::RawAnnouncement)),
        ("message", schema_for!(envelope::RawMessage)),
        ("overflow-reply", schema_for!(http::OverflowReply)),
        ("problem", schema_for!(problem::Problem)),
        ("recv-query", schema_for!(http::RecvQuery)),
        (
            "recv-reply",
            schema_for!(http::RecvReply<serde_json::Value>),
        ),
        ("roster-reply", schema_for!(http::RosterReply)),
        ("send-request", schema_for!(http::SendRequest)),
    ]
}

impl JsonSchema for PublicKey {
    fn schema_name() -> Cow<'static, str> {
        "PublicKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Ed25519 public key, base64url without padding",
            "pattern": "^[A-Za-z0-9_-]{43}$"
        })
    }
}

impl JsonSchema for SessionId {
    fn schema_name() -> Cow<'static, str> {
        "SessionId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Session id without '#' and control characters",
            "minLength": 1,
            "maxLength": MAX_SESSION_ID_BYTES
        })
    }
}

impl JsonSchema for MsgId {
    fn schema_name() -> Cow<'static, str> {
        "MsgId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Message id, unique per sender",
            "maxLength": MAX_MSG_ID_BYTES
        })
    }
}
