//! JSON Schemas of what commands answer with `--json`, generated from the types that write it.
//!
//! The files under `schema/admin/` are these; a test keeps them equal, and checks real answers. The
//! answer of `interlink-admin COMMAND SUBCOMMAND` is `COMMAND-SUBCOMMAND`; `list`, which may be left
//! out, is `COMMAND`. `stderr` is what stands beside an answer, a line each.

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema, schema_for};

#[cfg(all(feature = "agent", unix))]
use super::bond;
use super::{
    at, backup, compact, doctor, inbox, lines, log, migrate, outbox, print, queue, reader, relay,
    repair, restore, roster, sessions, stats, status, tasks, trace, verify,
};
#[cfg(feature = "agent")]
use super::{audit, forget, import, outbox::act, pair, peers};
use crate::wire::admin::QueueRow;

/// Name and schema of each answer, sorted by name.
#[must_use]
pub fn all() -> Vec<(&'static str, Schema)> {
    let mut all = vec![
        ("at", schema_for!(at::AtAnswer)),
        ("backup", schema_for!(backup::Answer)),
        ("diff", schema_for!(at::DiffAnswer)),
        ("export", schema_for!(lines::export::Answer)),
        ("import", schema_for!(lines::import::Answer)),
        ("log", schema_for!(log::Line<'_>)),
        ("migrate", schema_for!(migrate::Stores)),
        ("rebuild", schema_for!(migrate::Rebuilt)),
        ("repair", schema_for!(repair::Answer<'_>)),
        ("restore", schema_for!(restore::Answer)),
        ("stats", schema_for!(stats::Answer)),
        ("trace", schema_for!(trace::Answer)),
        ("trace-several", schema_for!(trace::Several)),
        ("compact", schema_for!(compact::Answer)),
        ("doctor", schema_for!(doctor::Report)),
        ("inbox", listing::<inbox::InboxView>("messages")),
        ("inbox-show", schema_for!(inbox::InboxShown)),
        ("outbox", listing::<reader::OutboxView>("messages")),
        ("outbox-show", schema_for!(outbox::OutboxShown)),
        ("queue", listing::<QueueRow>("queues")),
        ("queue-drop", schema_for!(queue::QueueDropped)),
        ("queue-show", schema_for!(queue::EitherShown)),
        ("relay", schema_for!(relay::RelayListed)),
        ("relay-drop", schema_for!(relay::RelayDropped)),
        ("roster", schema_for!(roster::RosterListed)),
        ("roster-remove", schema_for!(roster::RosterRemoved)),
        ("roster-show", schema_for!(roster::RosterShown)),
        ("sessions", listing::<reader::KnownSessionView>("sessions")),
        ("sessions-show", schema_for!(sessions::SessionShown)),
        ("status", schema_for!(status::Answer)),
        ("stderr", schema_for!(print::Beside<'_>)),
        ("tasks", listing::<tasks::TaskView>("tasks")),
        ("tasks-show", schema_for!(tasks::TaskShown)),
        ("verify", schema_for!(verify::Answer)),
    ];
    #[cfg(feature = "agent")]
    all.extend(of_operators());
    #[cfg(all(feature = "agent", unix))]
    all.extend([
        ("bond", schema_for!(bond::BondStores)),
        ("bond-accept", schema_for!(bond::BondAccepted)),
        ("bond-decline", schema_for!(bond::BondDeclined)),
        ("bond-end", schema_for!(bond::BondEnded)),
        ("bond-pin", schema_for!(bond::BondPinned)),
        ("bond-show", schema_for!(bond::BondShown)),
    ]);
    all.sort_by_key(|(name, _)| *name);
    all
}

/// What commands answer that are about one identity.
#[cfg(feature = "agent")]
fn of_operators() -> Vec<(&'static str, Schema)> {
    vec![
        ("audit", schema_for!(audit::AuditLine<'_>)),
        ("audit-verify", schema_for!(audit::Proofs)),
        ("forget-peer", schema_for!(forget::Answer)),
        ("import-from-interlink", schema_for!(import::Report)),
        ("outbox-drop", schema_for!(act::OutboxChanged)),
        ("outbox-retry", schema_for!(act::OutboxChanged)),
        ("pair", schema_for!(pair::Listed)),
        ("pair-accept", schema_for!(pair::Accepted<'_>)),
        ("pair-block", schema_for!(pair::Done)),
        ("pair-cancel", schema_for!(pair::Done)),
        ("pair-reject", schema_for!(pair::Done)),
        ("pair-resolve", schema_for!(pair::Accepted<'_>)),
        ("pair-show", schema_for!(pair::Listed)),
        ("pair-unblock", schema_for!(pair::Done)),
        ("peers", schema_for!(peers::Listed<'_>)),
        ("peers-add", schema_for!(peers::Changed<'_>)),
        ("peers-remove", schema_for!(peers::Changed<'_>)),
        ("peers-show", schema_for!(peers::PeerShown<'_>)),
        ("sessions-clear", schema_for!(sessions::Cleared)),
    ]
}

/// The rows of each store of a kind, as [`Listing`](super::listing::Listing) writes them.
fn listing<R: JsonSchema>(name: &str) -> Schema {
    let mut generator = SchemaGenerator::default();
    let row = generator.subschema_for::<R>();
    let definitions = generator.take_definitions(true);
    json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["stores"],
        "properties": {
            "stores": {
                "description": "One part a store of the kind.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["store", name],
                    "properties": {
                        "store": {
                            "description": "Its path; null for a bus in memory.",
                            "type": ["string", "null"],
                        },
                        name: { "type": "array", "items": row },
                    },
                },
            },
        },
        "$defs": definitions,
    })
}
