//! JSON Schemas of what commands answer with `--json`, generated from the types that write it.
//!
//! The files under `schema/admin/` are these; a test keeps them equal, and checks real answers.

use schemars::{Schema, schema_for};

use super::{at, log, stats, trace};

/// Name and schema of each answer, sorted by name.
#[must_use]
pub fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("at", schema_for!(at::AtAnswer)),
        ("diff", schema_for!(at::DiffAnswer)),
        ("log", schema_for!(log::Line<'_>)),
        ("stats", schema_for!(stats::Answer)),
        ("trace", schema_for!(trace::Answer)),
        ("trace-several", schema_for!(trace::Several)),
    ]
}
