//! JSON Schemas of what commands answer with `--json`, generated from the types that write it.
//!
//! The files under `schema/admin/` are these; a test keeps them equal, and checks real answers.

use schemars::{JsonSchema, Schema, schema_for};

use super::reader::{KnownSessionView, OutboxView};
use super::{
    at, backup, compact, lines, log, migrate, repair, restore, stats, status, trace, verify,
};
use crate::wire::admin::QueueRow;

/// What `queue` answers.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "`listing` writes it")]
struct Queues {
    stores: Vec<StoreQueues>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "`listing` writes it")]
struct StoreQueues {
    store: Option<String>,
    queues: Vec<QueueRow>,
}

/// What `outbox` answers.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "`listing` writes it")]
struct Outboxes {
    stores: Vec<StoreOutbox>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "`listing` writes it")]
struct StoreOutbox {
    store: Option<String>,
    messages: Vec<OutboxView>,
}

/// What `sessions list` answers.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "`listing` writes it")]
struct Sessions {
    stores: Vec<StoreSessions>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "`listing` writes it")]
struct StoreSessions {
    store: Option<String>,
    sessions: Vec<KnownSessionView>,
}

/// Name and schema of each answer, sorted by name.
#[must_use]
pub fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("at", schema_for!(at::AtAnswer)),
        ("backup", schema_for!(backup::Answer)),
        ("compact", schema_for!(compact::Answer)),
        ("diff", schema_for!(at::DiffAnswer)),
        ("export", schema_for!(lines::export::Answer)),
        ("import", schema_for!(lines::import::Answer)),
        ("log", schema_for!(log::Line<'_>)),
        ("migrate", schema_for!(migrate::Stores)),
        ("outbox", schema_for!(Outboxes)),
        ("queue", schema_for!(Queues)),
        ("rebuild", schema_for!(migrate::Rebuilt)),
        ("repair", schema_for!(repair::Answer<'_>)),
        ("restore", schema_for!(restore::Answer)),
        ("sessions", schema_for!(Sessions)),
        ("stats", schema_for!(stats::Answer)),
        ("status", schema_for!(status::Answer)),
        ("trace", schema_for!(trace::Answer)),
        ("trace-several", schema_for!(trace::Several)),
        ("verify", schema_for!(verify::Answer)),
    ]
}
