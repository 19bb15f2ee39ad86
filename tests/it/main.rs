//! The integration tests: one binary, so that two cores link once.

mod gate_scenarios;
mod keygen;
mod schema_wire;
mod signed_properties;
mod vectors;
