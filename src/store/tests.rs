//! Tests that need the model checker.

mod model;
