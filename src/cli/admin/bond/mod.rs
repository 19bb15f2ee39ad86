//! `bond`: sealed sessions, and the files that wait for the operator's word.
//!
//! What runs is asked through the sockets beside each store (`agent::bond::control`); what ran stands in
//! the rows of the log. No key is needed: who may open the sockets is the operator.

mod act;
mod list;
mod pin;
mod show;

use std::path::{Path, PathBuf};

pub(super) use act::{BondAccepted, BondDeclined, BondEnded};
pub(super) use list::BondStores;
pub(super) use pin::BondPinned;
pub(super) use show::BondShown;

use clap::Subcommand;

use super::audit::agent_store;
use super::error::AdminError;
use super::locate;
use super::print::Printer;
use super::reader::owner;
use super::terminal::{Admission, Shell};
use crate::agent::bond::control::{
    AskError, Failed, Listed, OfferView, Reply, Request, Trouble, ask, folder, sockets,
};
use crate::event::kind::StoreKind;

/// Shortest beginning of an offer's id that is looked for.
const MIN_PREFIX: usize = 4;

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,

    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct Which {
    /// Also sessions and files of the past, from the log: all that are remembered
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Sealed sessions that run, the files that wait, and the last of the past
    List(Which),
    /// One offered file: its hash, what was found in it, its beginning
    Show(Look),
    /// Write a file that waits: asks on the terminal
    Accept(Accept),
    /// Throw a file away that waits; the sender is told with a spoken code only
    Decline(Offer),
    /// Make a peer of the other side of a session of a spoken code: asks on the terminal
    Pin(Pin),
    /// End the sealed session that runs
    End(End),
}

#[derive(Debug, clap::Args)]
struct Offer {
    /// Id of the offer as `bond list` shows it, or the beginning of it
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    id: String,
}

#[derive(Debug, clap::Args)]
struct Look {
    #[command(flatten)]
    offer: Offer,

    #[command(flatten)]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
struct Accept {
    #[command(flatten)]
    offer: Offer,

    #[command(flatten)]
    admission: Admission,
}

#[derive(Debug, clap::Args)]
struct Pin {
    /// What it will be called here; else what it calls itself
    #[arg(long, value_name = "NAME")]
    petname: Option<String>,

    /// Of several sessions that of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    #[command(flatten)]
    admission: Admission,
}

#[derive(Debug, clap::Args)]
struct End {
    /// Of several sessions that of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum BondError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("no file with the id {text:?} waits")]
    NoSuchOffer { text: String },
    #[error("{text:?} fits several files")]
    SeveralFit { text: String },
    #[error("no sealed session runs")]
    NothingRuns,
    #[error(
        "the sides of this session cannot pin each other: it is not confirmed, or of no spoken code"
    )]
    NotForPinning,
    #[error("several sealed sessions run, in the processes {pids}")]
    SeveralRun { pids: String },
    #[error("the server refuses: {text}")]
    Refused { trouble: Trouble, text: String },
    #[error("the server gave another answer than was asked for")]
    OtherAnswer,
}

impl BondError {
    /// What to do next.
    pub(super) const fn next(&self) -> Option<&'static str> {
        match self {
            BondError::NoSuchOffer { .. } => Some(
                "`interlink-admin bond list` shows what waits; a file waits as long as its \
                      process runs",
            ),
            BondError::SeveralFit { .. } => Some("give more of the id"),
            BondError::SeveralRun { .. } => Some("choose one with --pid PID"),
            BondError::Refused {
                trouble: Trouble::OtherBytes,
                ..
            } => Some("look at it again with `interlink-admin bond show ID`"),
            _ => None,
        }
    }

    /// Whether it is the arguments' fault.
    pub(super) const fn is_usage(&self) -> bool {
        matches!(
            self,
            BondError::SeveralFit { .. } | BondError::SeveralRun { .. }
        )
    }
}

impl From<Failed> for BondError {
    fn from(failed: Failed) -> BondError {
        BondError::Refused {
            trouble: failed.trouble,
            text: failed.text,
        }
    }
}

/// A server that runs.
struct Server {
    socket: PathBuf,
    listed: Listed,
}

pub(super) fn run(args: &Args, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    let stores = stores(store)?;
    match &args.what {
        None => list::list(&stores, args.which.all, p),
        Some(What::List(which)) => list::list(&stores, which.all || args.which.all, p),
        Some(What::Show(look)) => {
            // What it shows is not for a model's eyes before the human has decided.
            look.shell.check()?;
            show::show(&stores, &look.offer.id, p)
        }
        Some(What::Accept(accept)) => {
            act::accept(&stores, &accept.offer.id, accept.admission.shell, p)
        }
        Some(What::Decline(offer)) => act::decline(&stores, &offer.id, p),
        Some(What::Pin(args)) => pin::pin(&stores, args, p),
        Some(What::End(end)) => act::end(&stores, end.pid, p),
    }
}

fn stores(store: Option<&Path>) -> Result<Vec<PathBuf>, AdminError> {
    let targets = locate::targets(store)?;
    let found: Vec<PathBuf> = targets.iter().filter_map(agent_store).collect();
    if found.is_empty() {
        let wanted = owner(StoreKind::Agent);
        return Err(AdminError::NoneOfKind { wanted });
    }
    Ok(found)
}

/// The servers of a store that answer. Of one that does not, nothing is said: it may just end.
fn servers(store: &Path) -> Vec<Server> {
    let found = sockets(&folder(store)).into_iter();
    found
        .filter_map(|(_, socket)| match ask(&socket, &Request::List {}) {
            Ok(Reply::Listed(listed)) => Some(Server { socket, listed }),
            _ => None,
        })
        .collect()
}

/// The file that waits which a text means, and the server that has it.
fn find(stores: &[PathBuf], text: &str) -> Result<(PathBuf, OfferView), BondError> {
    let all: Vec<(PathBuf, OfferView)> = stores
        .iter()
        .flat_map(|store| servers(store))
        .flat_map(|server| {
            let socket = server.socket;
            let offers = server.listed.offers.into_iter();
            offers.map(move |offer| (socket.clone(), offer))
        })
        .collect();
    let exact = |offer: &OfferView| offer.id == text;
    let begins = |offer: &OfferView| text.len() >= MIN_PREFIX && offer.id.starts_with(text);
    for way in [&exact as &dyn Fn(&OfferView) -> bool, &begins] {
        let mut fitting = all.iter().filter(|(_, offer)| way(offer));
        match (fitting.next(), fitting.next()) {
            (None, _) => {}
            (Some(found), None) => return Ok(found.clone()),
            (Some(_), Some(_)) => {
                let text = text.to_owned();
                return Err(BondError::SeveralFit { text });
            }
        }
    }
    let text = text.to_owned();
    Err(BondError::NoSuchOffer { text })
}
