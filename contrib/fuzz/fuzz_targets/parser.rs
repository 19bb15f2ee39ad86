//! One program per parser; its name says which. The parsers and what must hold of them stand with
//! the tests.
#![no_main]

#[path = "../../../tests/it/parsers/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let name = env!("CARGO_BIN_NAME");
    if let Some((_, target)) = targets::ALL.iter().find(|(n, _)| *n == name) {
        target(data);
    }
});
