//! The integration tests: one binary, so that two cores link once. `INTERLINK_LONG=1` runs the long
//! versions of the crash tests, `INTERLINK_SEED=n` starts the seeded ones elsewhere.

#[cfg(all(feature = "persist", feature = "cli"))]
mod admin;
#[cfg(all(unix, feature = "agent", feature = "cli", feature = "testkit"))]
mod admin_backup;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod admin_bond;
#[cfg(all(unix, feature = "agent", feature = "cli", feature = "testkit"))]
mod admin_care;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod admin_columns;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod admin_compact;
#[cfg(all(unix, feature = "cli", feature = "testkit"))]
mod admin_history;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod admin_lists;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod admin_pages;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli"
))]
mod admin_peers;
#[cfg(all(
    unix,
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod admin_recording;
#[cfg(all(unix, feature = "agent", feature = "cli", feature = "testkit"))]
mod admin_repair;
#[cfg(all(unix, feature = "cli", feature = "testkit"))]
mod admin_schema;
#[cfg(all(unix, feature = "agent", feature = "cli", feature = "testkit"))]
mod admin_sessions;
#[cfg(all(unix, feature = "cli", feature = "testkit"))]
mod admin_trace;
#[cfg(all(unix, feature = "cli", feature = "testkit"))]
mod admin_world;
mod architecture;
#[cfg(all(unix, feature = "agent", feature = "testkit"))]
mod bond_audit;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli"
))]
mod bond_bus;
#[cfg(all(
    unix,
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod bond_cards;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod bond_consent;
#[cfg(all(feature = "sealed", feature = "testkit"))]
mod bond_core;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod bond_errand;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod bond_hostile;
#[cfg(all(feature = "sealed", feature = "testkit"))]
mod bond_own;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod bond_pin;
#[cfg(all(feature = "agent", feature = "testkit"))]
mod bond_record;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod bond_sessions;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli"
))]
mod bond_spoken;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod bond_support;
#[cfg(all(
    target_os = "linux",
    feature = "bus",
    feature = "cli",
    feature = "testkit",
    feature = "tls"
))]
mod bond_tls;
#[cfg(all(
    unix,
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod bond_wake;
#[cfg(all(feature = "bus", feature = "cli"))]
mod bus_process;
#[cfg(feature = "testkit")]
mod compaction;
mod counters;
#[cfg(feature = "testkit")]
mod damage;
#[cfg(feature = "testkit")]
mod faults;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod flags;
#[cfg(all(
    unix,
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod freeze;
#[cfg(feature = "persist")]
mod gate_scenarios;
#[cfg(feature = "testkit")]
mod golden;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod host_claude;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod host_codex;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod host_doctor;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod host_flags;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli"
))]
mod host_pairing;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod host_pull;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod host_setup;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod host_support;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod hostile_relay;
#[cfg(feature = "bus")]
mod http;
#[cfg(feature = "bus")]
mod http_contract;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod import_public;
#[cfg(feature = "cli")]
mod keygen;
#[cfg(all(
    unix,
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod kill;
mod lexer;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_bounds;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_consent;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_discover;
#[cfg(all(
    unix,
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod mcp_end;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_hardening;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_life;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_messages;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_notices;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli"
))]
mod mcp_pairing;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod mcp_pairing_crash;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_peers;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_protocol;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_public;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_support;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod mcp_tasks;
#[cfg(feature = "testkit")]
mod model_queue;
#[cfg(feature = "testkit")]
mod multiprocess;
#[cfg(feature = "testkit")]
mod pairing;
#[cfg(all(feature = "agent", feature = "bus", feature = "testkit"))]
mod parsers;
#[cfg(feature = "testkit")]
mod power_cut;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod relay_client;
#[cfg(all(feature = "bus", feature = "testkit"))]
mod relay_http;
#[cfg(all(unix, feature = "agent", feature = "bus", feature = "cli"))]
mod relays;
#[cfg(feature = "testkit")]
mod schema_sync;
#[cfg(feature = "identity")]
mod schema_wire;
#[cfg(all(
    unix,
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod secrets;
#[cfg(feature = "identity")]
mod signed_properties;
#[cfg(feature = "testkit")]
mod simulation;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli",
    feature = "testkit"
))]
mod soak;
#[cfg(feature = "testkit")]
mod store_basics;
#[cfg(feature = "testkit")]
mod support;
#[cfg(all(
    target_os = "linux",
    feature = "agent",
    feature = "bus",
    feature = "cli"
))]
mod terminal;
#[cfg(feature = "identity")]
mod vectors;
