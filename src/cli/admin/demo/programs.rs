//! Where the other programs are: beside this one. `cargo run --bin interlink-admin` builds this
//! one alone; then cargo, which says where it is, builds the others.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{DemoError, io_error};

const BUS: &str = "interlink-bus";
const AGENT: &str = "interlink-mcp";

/// The programs of the demonstration.
pub(super) struct Programs {
    pub(super) bus: PathBuf,
    pub(super) agent: PathBuf,
}

pub(super) fn find() -> Result<Programs, DemoError> {
    let own = std::env::current_exe().map_err(io_error("cannot find this program's file"))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    if let Err(missing) = beside(folder) {
        let Some(cargo) = std::env::var_os("CARGO") else {
            return Err(missing);
        };
        build(Path::new(&cargo), folder)?;
    }
    beside(folder)
}

fn beside(folder: &Path) -> Result<Programs, DemoError> {
    let program = |name: &'static str| {
        let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        if path.is_file() {
            Ok(path)
        } else {
            Err(DemoError::Missing { program: name })
        }
    };
    Ok(Programs {
        bus: program(BUS)?,
        agent: program(AGENT)?,
    })
}

/// Builds with the profile that this program was built with: its folder tells.
fn build(cargo: &Path, folder: &Path) -> Result<(), DemoError> {
    let _ = writeln!(io::stderr().lock(), "building the other programs first");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bin", BUS, "--bin", AGENT]);
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            command.args(["--profile", profile]);
        }
    }
    if let Some(manifest) = std::env::var_os("CARGO_MANIFEST_DIR") {
        command.arg("--manifest-path");
        command.arg(Path::new(&manifest).join("Cargo.toml"));
    }
    // Standard output is ours.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(DemoError::Build {
            reason: status.to_string(),
        }),
        Err(e) => Err(DemoError::Build {
            reason: e.to_string(),
        }),
    }
}
