//! `interlink-keygen`: makes an identity.
//!
//! Scripts read the line `public key : KEY`, so standard output is a contract. The secret goes
//! into the file and nowhere else.
//!
//! Exit codes: 0 made, 1 not made, 2 wrong usage.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::crypto::sign::SigningIdentity;
use crate::keystore::{self, CreateKeyError, Existing};
use crate::types::id::PublicKey;
use crate::types::secret::Secret;

use super::paths::{self, PathsError};

/// Make an identity: a secret key file, and the public key that others know you by.
#[derive(Debug, Parser)]
#[command(name = "interlink-keygen", version)]
struct Args {
    /// Where to write the secret key [default: ~/.config/interlink/id.key]
    #[arg(long, value_name = "PATH", env = "INTERLINK_KEY")]
    out: Option<PathBuf>,

    /// Replace an existing key. The old identity is lost for good
    #[arg(long)]
    force: bool,
}

/// The program: reads the process's arguments, answers with its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let args = match super::args::parse::<Args>() {
        Ok(args) => args,
        // Help and version are errors to clap, with exit code 0.
        Err(e) => {
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "interlink-keygen: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), KeygenError> {
    let path = match args.out {
        Some(path) => path,
        None => paths::key_file(&paths::process_env)?,
    };
    let existing = if args.force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let mut seed = Secret::new([0u8; 32]);
    getrandom::fill(seed.expose_mut())?;
    keystore::create(&path, &seed, existing)?;
    let public = SigningIdentity::from_seed(&seed).public();
    io::stdout()
        .lock()
        .write_all(report(&path, &public).as_bytes())
        .map_err(KeygenError::Output)
}

fn report(path: &Path, public: &PublicKey) -> String {
    format!(
        "secret key : {}\n\
         public key : {public}\n\
         fingerprint: {}\n\
         \n\
         Give the public key to your peer; the secret key stays on this machine.\n\
         Your peer admits you with this entry in peers.json: \
         {{\"your-name\": {{\"key\": \"{public}\"}}}}\n",
        path.display(),
        public.fingerprint(),
    )
}

/// Why there is no new identity.
#[derive(Debug, thiserror::Error)]
enum KeygenError {
    #[error(transparent)]
    Paths(#[from] PathsError),
    #[error("no random bytes for a key: {0}")]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Create(#[from] CreateKeyError),
    #[error("the key was made, but standard output is closed: {0}")]
    Output(io::Error),
}
