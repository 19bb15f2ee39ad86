//! Makes an identity.

use std::process::ExitCode;

fn main() -> ExitCode {
    interlink::cli::keygen::main()
}
