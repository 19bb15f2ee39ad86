//! The integration tests: one binary, so that two cores link once.

mod architecture;
mod lexer;
