//! The integration tests: one binary, so that two cores link once.

mod architecture;
#[cfg(all(feature = "bus", feature = "cli"))]
mod bus_process;
#[cfg(feature = "persist")]
mod gate_scenarios;
#[cfg(feature = "bus")]
mod http;
#[cfg(feature = "bus")]
mod http_contract;
#[cfg(feature = "cli")]
mod keygen;
mod lexer;
#[cfg(feature = "identity")]
mod schema_wire;
#[cfg(feature = "identity")]
mod signed_properties;
#[cfg(feature = "identity")]
mod vectors;
