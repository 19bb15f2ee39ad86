//! The broker.

use std::process::ExitCode;

fn main() -> ExitCode {
    interlink::cli::bus::main()
}
