//! `demo`: one message survives two kills, with real programs in a temporary folder.
//!
//! A bus and the channel servers of two identities are started as processes and spoken to as a
//! host would, over standard input and output. Half-way the bus and one of the channel servers get
//! SIGKILL. What is said at the end is read from the three logs, not from what was intended.
//!
//! - [`programs`]: where the other programs are. - [`mcp`]: the host's side of a channel server.
//! - [`world`]: the processes and the folder. - [`scene`]: what happens.
//! - [`timeline`]: what the logs say about it.

mod mcp;
mod programs;
mod scene;
mod timeline;
mod world;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::error::AdminError;
use super::print::{Printer, Style};
use crate::keystore::CreateKeyError;
use crate::store::{OpenError, ReadError};
use timeline::Moment;

/// How long everything may take.
const BUDGET: Duration = Duration::from_secs(18);

/// Longest sleep between two looks at a condition.
const NAP: Duration = Duration::from_millis(20);

/// How to run it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep the temporary folder, with the three stores and the programs' logs
    #[arg(long)]
    keep: bool,
}

/// The demonstration did not prove its point.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum DemoError {
    #[error("{program} is not beside this program")]
    Missing { program: &'static str },
    #[error("cannot build the other programs: {reason}")]
    Build { reason: String },
    #[error("{what}: {source}")]
    Io {
        what: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Key(#[from] CreateKeyError),
    #[error("no random bytes for a key: {0}")]
    Random(#[from] getrandom::Error),
    #[error("{program} ended by itself ({status}): {last}")]
    Ended {
        program: String,
        status: String,
        last: String,
    },
    #[error("{program} answered {tool} with an error: {reason}")]
    Tool {
        program: String,
        tool: String,
        reason: String,
    },
    #[error("{program} wrote a line that is no answer: {reason}")]
    Protocol { program: String, reason: String },
    #[error("waited in vain: {what}")]
    Late { what: String },
    #[error("not so: {what}")]
    NotSo { what: String },
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl DemoError {
    /// What to do next.
    pub(super) fn next(&self) -> Option<String> {
        match self {
            DemoError::Missing { program } => Some(format!(
                "put {program} beside interlink-admin, or run this from a checkout: \
                 cargo run --release --bin interlink-admin -- demo"
            )),
            DemoError::Build { .. } => Some("try `cargo build --release --bins`".to_owned()),
            DemoError::Interrupted | DemoError::Io { .. } => None,
            _ => Some("the folder is kept; look at the *.log files in it".to_owned()),
        }
    }
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> DemoError {
    move |source| DemoError::Io { what, source }
}

/// When to give up.
#[derive(Clone)]
struct Patience {
    deadline: Instant,
    stop: Arc<AtomicBool>,
}

impl Patience {
    /// Whether to go on waiting for `what`.
    fn check(&self, what: &str) -> Result<(), DemoError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(DemoError::Interrupted);
        }
        if Instant::now() >= self.deadline {
            return Err(DemoError::Late {
                what: what.to_owned(),
            });
        }
        Ok(())
    }

    /// Waits until `f` gives something.
    fn until<T>(
        &self,
        what: &str,
        mut f: impl FnMut() -> Result<Option<T>, DemoError>,
    ) -> Result<T, DemoError> {
        loop {
            if let Some(value) = f()? {
                return Ok(value);
            }
            self.check(what)?;
            std::thread::sleep(NAP);
        }
    }
}

/// What the demonstration found, for scripts.
#[derive(Serialize)]
struct Answer<'a> {
    ok: bool,
    folder: Option<PathBuf>,
    message: &'a str,
    timeline: &'a [Moment],
    proved: &'a [String],
}

/// Runs it; gives the exit code.
pub(super) fn run(args: &Args, p: &mut Printer) -> Result<u8, AdminError> {
    let stop = super::interrupt()?;
    let programs = programs::find()?;
    let folder = tempfile::Builder::new()
        .prefix("interlink-demo-")
        .tempdir()
        .map_err(io_error("cannot make a temporary folder"))?;
    let path = folder.path().to_owned();
    say(p, Style::Dim, &format!("in {}", path.display()))?;
    let began = Instant::now();
    let patience = Patience {
        deadline: began + BUDGET,
        stop,
    };
    let played = scene::play(&programs, &path, &patience, p);
    let interrupted = matches!(&played, Err(AdminError::Demo(DemoError::Interrupted)));
    // Nor is a reader that has seen enough a failure to look into.
    let unread =
        matches!(&played, Err(AdminError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe);
    let kept = args.keep || (played.is_err() && !interrupted && !unread);
    if kept {
        let _ = folder.keep();
        // A failure is told on standard error, and so is where to look.
        if played.is_err() {
            eprintln_path(&path);
        }
    } else if let Err(e) = folder.close() {
        tracing::debug!(%e, "the folder stays");
    }
    let story = played?;
    let folder = kept.then(|| path.clone());
    if p.json {
        p.json(&Answer {
            ok: true,
            folder,
            message: &story.message,
            timeline: &story.timeline,
            proved: &story.proved,
        })?;
        return Ok(0);
    }
    p.line(Style::Plain, "")?;
    for proved in &story.proved {
        p.line(Style::Good, &format!("proved: {proved}"))?;
    }
    let took = super::print::span(crate::types::time::millis(began.elapsed()));
    match folder {
        Some(folder) => {
            p.line(
                Style::Dim,
                &format!("took {took}; the folder is kept. Look into it with"),
            )?;
            let look = format!("interlink-admin --store {} status", folder.display());
            p.whole_line(Style::Plain, &look)?;
        }
        None => p.line(
            Style::Dim,
            &format!("took {took}; everything is cleaned up"),
        )?,
    }
    Ok(0)
}

fn eprintln_path(path: &std::path::Path) {
    use io::Write as _;
    let _ = writeln!(io::stderr().lock(), "kept {}", path.display());
}

/// Tells people what happens, as it happens.
fn say(p: &mut Printer, style: Style, text: &str) -> Result<(), AdminError> {
    if !p.json {
        p.whole_line(style, text)?;
        p.flush()?;
    }
    Ok(())
}
