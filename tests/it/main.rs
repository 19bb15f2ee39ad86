//! The integration tests: one binary, so that two cores link once.

mod architecture;
#[cfg(feature = "persist")]
mod gate_scenarios;
#[cfg(feature = "cli")]
mod keygen;
mod lexer;
#[cfg(feature = "identity")]
mod schema_wire;
#[cfg(feature = "identity")]
mod signed_properties;
#[cfg(feature = "identity")]
mod vectors;
