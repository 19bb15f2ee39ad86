//! `import`: takes over what the public program keeps; or, given a file, hands it to
//! `lines::import`, which makes a new store of an export.
//!
//! Its folder is read and never changed. What would come of it is tried on a copy of the rows in
//! memory first; that is what `--dry-run` shows, and what the operator is asked about: the keys that
//! could write afterwards, by name and fingerprint. Then the same commands go to the store.
//!
//! Nothing that is unread is thrown away: what does not fit in, does not check or cannot be stored is
//! named, stays where it is, and the program ends with 1.
//!
//! - `read`: files to things. - `identity`: what an agent kept. - `queues`: what waits on a bus.
//! - `report`: what is said about it. - `ask`: the question. - `error`: why it stops.

mod ask;
mod error;
mod identity;
mod queues;
mod read;
mod report;

use std::path::{Path, PathBuf};

use super::error::AdminError;
use super::operator::{Relays, Who};
use super::print::Printer;
use super::terminal::Shell;

pub(super) use error::ImportError;
pub(super) use report::Report;

/// What to take over, and from where.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// An export; `-` is standard input. The new store is the one that --store names, or a bus's
    /// usual one; it must not be there yet
    #[arg(value_name = "FILE", required_unless_present = "from_interlink")]
    file: Option<PathBuf>,

    /// Instead: the state folder of the public interlink-mcp (0.10 to 0.13), the one with `mailbox`
    /// and `pairing` in it. What it keeps is taken over into the stores that there are; the other
    /// flags belong to this
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    from_interlink: Option<PathBuf>,

    /// Its list of peers [default: DIR/peers.json, where there is one]
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    from_peers: Option<PathBuf>,

    /// The database of its bus [default: DIR/bus.redb, where there is one]
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    from_bus: Option<PathBuf>,

    /// The store of the bus that gets its mail [default: bus.redb at the usual place, or in the
    /// folder that --store names]
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    bus_store: Option<PathBuf>,

    /// Take over only what an identity kept, or only what waits on the bus
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "file")]
    only: Option<Half>,

    /// Messages that a queue holds: what the bus is started with
    #[arg(
        long,
        value_name = "N",
        env = "INTERLINK_QUEUE_CAP",
        default_value_t = 1024
    )]
    queue_cap: usize,

    #[command(flatten)]
    who: Who,

    #[command(flatten)]
    relays: Relays,

    /// Say what would be done, and change nothing
    #[arg(long, conflicts_with = "file")]
    dry_run: bool,

    #[command(flatten)]
    shell: Shell,

    /// Do not ask: for scripts
    #[arg(long, short, conflicts_with = "file")]
    yes: bool,
}

/// One of the two things that an import is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Half {
    /// Peers, sessions, messages and pairing of an identity
    Identity,
    /// Messages that wait on the bus
    Bus,
}

impl Args {
    fn wants(&self, half: Half) -> bool {
        self.only.is_none_or(|only| only == half)
    }

    /// The public program's folder.
    fn folder(&self) -> &Path {
        self.from_interlink.as_deref().unwrap_or(Path::new(""))
    }

    /// The public bus's file.
    fn bus_file(&self) -> Option<PathBuf> {
        let usual = self.folder().join("bus.redb");
        self.from_bus
            .clone()
            .or_else(|| usual.exists().then_some(usual))
            .filter(|_| self.wants(Half::Bus))
    }
}

pub(super) fn run(args: &Args, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    if let Some(file) = &args.file {
        return super::lines::import::run(file, store, p);
    }
    if !args.folder().is_dir() {
        return Err(ImportError::NoFolder {
            place: args.folder().to_owned(),
        }
        .into());
    }
    let mut report = Report::new(args.folder(), args.dry_run);
    let identity = match args.wants(Half::Identity) {
        true => identity::plan(args, store, &mut report)?,
        false => None,
    };
    let queues = match args.bus_file() {
        Some(file) => queues::plan(args, store, &file, &mut report)?,
        None => None,
    };
    if report.is_empty() {
        return Err(ImportError::NothingThere {
            place: args.folder().to_owned(),
        }
        .into());
    }
    if report.changes() && !args.dry_run {
        if !report.running.is_empty() {
            let sessions = report.running;
            return Err(ImportError::SessionsRun { sessions }.into());
        }
        ask::consent(args, &report)?;
        // What is said from here on is what was done, not what was meant.
        if let Some(identity) = &identity {
            identity::carry_out(args, store, identity, &mut report)?;
        }
        if let Some(queues) = &queues {
            queues::carry_out(queues, &mut report)?;
        }
    }
    report.finish();
    p.code = report.code();
    report.print(p)
}
