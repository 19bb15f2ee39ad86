//! The operator's tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    interlink::cli::admin::main()
}
