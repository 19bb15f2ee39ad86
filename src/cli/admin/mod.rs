//! `interlink-admin`: the operator's view of stores.
//!
//! Every command reads through one trait, `reader::StoreReader`: over a file when nobody owns it,
//! over the admin endpoint of the bus that owns it otherwise, with the same output. Reading never
//! changes a store; a file that a crash left unrepaired is read through a repaired copy in memory.
//! What does change an identity's store (`operator`) is a record like those of its sessions; before
//! somebody is admitted or revoked the operator is asked (`terminal`).
//!
//! - `locate`: which stores are meant. - `file`, `endpoint`: the two readers.
//! - one file a command; `listing`: what those that list have in common.
//! - `print`: columns, colour, escaping, closed pipes.
//!
//! Standard output carries the answer, standard error what is to be said about it.

mod at;
#[cfg(feature = "agent")]
mod audit;
mod backup;
#[cfg(all(feature = "agent", unix))]
mod bond;
mod care;
mod compact;
mod confirm;
mod demo;
mod doctor;
mod endpoint;
mod error;
mod file;
mod filter;
mod find;
#[cfg(feature = "agent")]
mod forget;
mod held;
#[cfg(feature = "agent")]
mod import;
mod inbox;
mod lines;
mod links;
mod listing;
mod locate;
mod log;
mod manual;
mod migrate;
#[cfg(feature = "agent")]
mod operator;
mod outbox;
mod pages;
#[cfg(feature = "agent")]
mod pair;
#[cfg(feature = "agent")]
mod peers;
mod print;
mod queue;
mod reader;
mod relay;
mod repair;
mod restore;
mod roster;
mod rows;
pub mod schema;
mod sessions;
mod stats;
mod status;
mod summary;
mod tasks;
#[cfg(feature = "agent")]
mod terminal;
mod trace;
mod verify;
mod when;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};

use super::exit::Exit;
use crate::store;
use error::AdminError;
use locate::Target;
use print::Printer;

const PROGRAM: &str = "interlink-admin";

/// Exit code of `verify` when a store is not what its log says.
const DIFFERS: u8 = 8;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  any other failure; doctor found something broken; a demonstration that did not
     prove its point
  2  wrong arguments; an id that fits several; nobody can be asked and --yes is missing
  4  the store is in use and its owner does not answer
  5  the store was written by a newer version
  6  the store is damaged, or is no store
  7  the store is of another kind than the command needs
  8  verify found a difference; a store or its copy is not what its log says; audit
     --verify found a line that was changed, or records without their lines";

/// Inspect the stores of a bus and of identities, also while they are in use.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, after_help = EXIT_CODES)]
struct Args {
    /// A store, or a folder with stores in it [default: $XDG_STATE_HOME/interlink, else
    /// $HOME/.local/state/interlink]
    #[arg(long, value_name = "PATH", env = "INTERLINK_STORE", global = true)]
    store: Option<PathBuf>,

    /// Answer in JSON; `log` writes one object a line
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What every store holds, and who uses it
    Status,
    /// What stands in the way of the stores, and what to do next
    Doctor,
    /// The records, oldest first
    Log(log::Args),
    /// One message's whole life, across every store; or a task's
    Trace(trace::Args),
    /// Events by kind and minute, how long messages took, how much waited when
    Stats(stats::Args),
    /// What a store was then, table by table
    At(at::AtArgs),
    /// What changed in a store between two points, row by row
    Diff(at::DiffArgs),
    /// What waits on the bus, by recipient; look into a queue, take mail out of it
    Queue(queue::Args),
    /// The sealed sessions that the bus relays; end one
    Relay(relay::Args),
    /// Who is on the presence board of the bus; take somebody off it
    Roster(roster::Args),
    /// What an identity has to send, by message; hurry a message, give one up
    Outbox(outbox::Args),
    /// What an identity received
    Inbox(inbox::Args),
    /// What became of an identity's tasks
    Tasks(tasks::Args),
    /// Prove that the stores are what their logs say
    Verify,
    /// Let the oldest records go, of a running bus or of a closed store
    Compact(compact::Args),
    /// Who asks to write to an identity, and deciding about it
    #[cfg(feature = "agent")]
    Pair(pair::Args),
    /// Who may write to an identity
    #[cfg(feature = "agent")]
    Peers(peers::Args),
    /// Watch one message survive two kills, in a temporary folder
    Demo(demo::Args),
    /// Copy a store to a file, also while it is used
    Backup(backup::Args),
    /// Put a backup into the place of a store that nobody has open
    Restore(restore::Args),
    /// Write a store as lines of JSON
    Export(lines::export::Args),
    /// Make a new store of an export, or take over what the public interlink-mcp keeps
    #[cfg(feature = "agent")]
    Import(import::Args),
    /// Make a new store of an export
    #[cfg(not(feature = "agent"))]
    Import(lines::import::Args),
    /// Make a new store of what can be read of a damaged one
    Repair(repair::Args),
    /// Bring stores of an older format up to this program
    Migrate(migrate::MigrateArgs),
    /// Replace the rows of a store by what its log gives
    Rebuild(migrate::RebuildArgs),
    /// Completions for a shell
    Completions(manual::CompletionsArgs),
    /// The manual as a page for `man`
    Man(manual::ManArgs),
    /// Whose sessions an identity knows; forget one
    Sessions(sessions::Args),
    /// Erase what was exchanged with a key that is not admitted: messages both ways and all that is
    /// remembered of it
    #[cfg(feature = "agent")]
    ForgetPeer(forget::Args),
    /// Sealed sessions, and deciding about the files that are offered in them
    #[cfg(all(feature = "agent", unix))]
    Bond(bond::Args),
    /// What happened in sealed sessions, line by line; with a proof that nobody changed it
    #[cfg(feature = "agent")]
    Audit(audit::Args),
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
    store::quiet_engine_panics();
    let mut printer = Printer::stdout(args.json);
    // The engine may also stop where it is not called: when a handle on a damaged file is dropped.
    let done = catch_unwind(AssertUnwindSafe(|| run(args, &mut printer)));
    let done = done.unwrap_or_else(|panic| Err(care::stopped(&*panic).into()));
    let done = done.and_then(|code| {
        printer.flush()?;
        Ok(code)
    });
    match done {
        Ok(code) => ExitCode::from(code),
        // The reader of our output has seen enough.
        Err(AdminError::Output(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => Exit::Ok.into(),
        Err(e) => {
            report(&e);
            e.exit().into()
        }
    }
}

/// Runs a command; gives its exit code.
fn run(args: Args, printer: &mut Printer) -> Result<u8, AdminError> {
    let store = args.store.as_deref();
    let command = match args.command {
        Command::Demo(demo) => return demo::run(&demo, printer),
        #[cfg(feature = "agent")]
        Command::Pair(pair) => return pair::run(&pair, store, printer).map(|()| printer.code),
        #[cfg(feature = "agent")]
        Command::Peers(peers) => return peers::run(&peers, store, printer).map(|()| printer.code),
        #[cfg(feature = "agent")]
        Command::Sessions(sessions::Args {
            what: Some(sessions::What::Clear(clear)),
        }) => return sessions::clear(&clear, store, printer).map(|()| printer.code),
        #[cfg(feature = "agent")]
        Command::Outbox(outbox::Args {
            what: Some(outbox::What::Retry(act)),
            ..
        }) => return outbox::act::retry(&act, store, printer).map(|()| printer.code),
        #[cfg(feature = "agent")]
        Command::Outbox(outbox::Args {
            what: Some(outbox::What::Drop(act)),
            ..
        }) => return outbox::act::drop(&act, store, printer).map(|()| printer.code),
        #[cfg(all(feature = "agent", unix))]
        Command::Bond(bond) => return bond::run(&bond, store, printer).map(|()| printer.code),
        #[cfg(feature = "agent")]
        Command::Audit(audit) => return audit::run(&audit, store, printer).map(|()| printer.code),
        #[cfg(feature = "agent")]
        Command::ForgetPeer(forget) => {
            return forget::run(&forget, store, printer).map(|()| printer.code);
        }
        Command::Restore(args) => {
            return restore::run(&args, store, printer).map(|()| printer.code);
        }
        #[cfg(feature = "agent")]
        Command::Import(args) => {
            return import::run(&args, store, printer).map(|()| printer.code);
        }
        #[cfg(not(feature = "agent"))]
        Command::Import(args) => {
            return lines::import::run(&args.file, store, printer).map(|()| printer.code);
        }
        Command::Completions(args) => return manual::completions(&args).map(|()| printer.code),
        Command::Man(args) => return manual::man(&args).map(|()| printer.code),
        command => command,
    };
    let targets = locate::targets(store)?;
    match command {
        Command::Status => status::run(&targets, printer),
        Command::Doctor => doctor::run(&targets, printer),
        Command::Log(log) => log::run(&log, &targets, printer),
        Command::Trace(trace) => trace::run(&trace, &targets, printer),
        Command::Stats(stats) => stats::run(&stats, &targets, printer),
        Command::At(args) => at::at(&args, &targets, printer),
        Command::Diff(args) => at::diff(&args, &targets, printer),
        Command::Queue(args) => queue::run(&args, &targets, printer),
        Command::Relay(args) => relay::run(&args, &targets, printer),
        Command::Roster(args) => roster::run(&args, &targets, printer),
        Command::Inbox(args) => inbox::run(&args, &targets, printer),
        Command::Tasks(args) => tasks::run(&args, &targets, printer),
        Command::Outbox(outbox) => outbox::run(&outbox, &targets, printer),
        Command::Verify => verify::run(&targets, printer),
        Command::Compact(args) => compact::run(&args, &targets, printer),
        Command::Sessions(args) => sessions::run(&args, &targets, printer),
        Command::Backup(args) => backup::run(&args, &targets, printer),
        Command::Export(args) => lines::export::run(&args, &targets, printer),
        Command::Repair(args) => repair::run(&args, &targets, printer),
        Command::Migrate(args) => migrate::migrate(&args, &targets, printer),
        Command::Rebuild(args) => migrate::rebuild(&args, &targets, printer),
        Command::Demo(_)
        | Command::Restore(_)
        | Command::Import(_)
        | Command::Completions(_)
        | Command::Man(_) => Ok(()),
        #[cfg(feature = "agent")]
        Command::Pair(_) | Command::Peers(_) | Command::ForgetPeer(_) | Command::Audit(_) => Ok(()),
        #[cfg(all(feature = "agent", unix))]
        Command::Bond(_) => Ok(()),
    }
    .map(|()| printer.code)
}

/// The flag that an interrupt raises; until it is asked for, an interrupt ends the process.
fn interrupt() -> Result<Arc<AtomicBool>, AdminError> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second one ends the process whatever it is doing.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(AdminError::Signals)?;
    }
    Ok(flag)
}

/// Opens every target in turn; a note about how it is read goes to standard error. Of several
/// stores those that cannot be read are told and passed over; gives the exit code for them, 0 when
/// there are none.
fn each(
    targets: &[Target],
    mut f: impl FnMut(&dyn reader::StoreReader) -> Result<(), AdminError>,
) -> Result<u8, AdminError> {
    each_access(targets, |access| f(access.reader()))
}

/// As [`each`], for commands that do more than read.
fn each_access(
    targets: &[Target],
    mut f: impl FnMut(&locate::Access) -> Result<(), AdminError>,
) -> Result<u8, AdminError> {
    let mut code = 0;
    for target in targets {
        let done = target.access().and_then(|access| {
            print::note_source(access.reader().origin());
            f(&access)
        });
        match done {
            Ok(()) => {}
            Err(e) if targets.len() == 1 || matches!(e, AdminError::Output(_)) => return Err(e),
            Err(e) => {
                report(&e);
                code = e.exit().code();
            }
        }
    }
    Ok(code)
}

/// Opens every target for a command that needs them all at once, as [`each`] does.
fn open_all(
    targets: &[Target],
    p: &mut Printer,
) -> Result<Vec<Box<dyn reader::StoreReader>>, AdminError> {
    let mut readers = vec![];
    for target in targets {
        match target.open() {
            Ok(reader) => {
                print::note_source(reader.origin());
                readers.push(reader);
            }
            Err(e) if targets.len() == 1 => return Err(e),
            Err(e) => {
                report(&e);
                p.code = e.exit().code();
            }
        }
    }
    Ok(readers)
}

/// Tells of a failure.
fn report(e: &AdminError) {
    print::failure(PROGRAM, e);
}
