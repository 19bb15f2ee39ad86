//! `pair`: what waits to be paired, and deciding about it without a model.

mod admit;
mod end;
mod list;

use std::path::Path;

pub(super) use admit::Accepted;
pub(super) use end::Done;
pub(super) use list::Listed;

use clap::Subcommand;

use super::error::AdminError;
use super::operator::{Glance, Operator, Relays, Who};
use super::print::Printer;
use super::terminal::Admission;
use crate::domain::query::agent::{self as query, Blocked, Conflict, Inbound, Outbound};
use crate::store::{ReadError, Snapshot};
use crate::types::id::PublicKey;
use end::{Simple, simple};
use list::{list, show};

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    who: Who,

    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Who asks, who was asked, what conflicts, who is blocked
    List,
    /// Everything that waits about one key
    Show(Key),
    /// Admit somebody who asks, and confirm it: asks on the terminal
    Accept(Accept),
    /// Let somebody's request drop; they are not told
    Reject(Key),
    /// Call off a request of this identity
    Cancel(Key),
    /// Admit somebody who accepted, under another name: asks on the terminal
    Resolve(Resolve),
    /// Ignore a key's requests from now on
    Block(Key),
    /// Hear a key's requests again
    Unblock(Key),
}

#[derive(Debug, clap::Args)]
struct Accept {
    /// The public key of whoever asks, as `pair list` shows it, or its fingerprint: the first eight
    /// characters
    #[arg(allow_hyphen_values = true)]
    public_key: String,

    /// What you call the peer [default: what it calls itself, if that can be a name]
    #[arg(long, value_name = "NAME")]
    petname: Option<String>,

    /// What this node calls itself in the confirmation [default: the first characters of its key]
    #[arg(long, value_name = "TEXT", env = "INTERLINK_NAME")]
    name: Option<String>,

    #[command(flatten)]
    relays: Relays,

    #[command(flatten)]
    admission: Admission,
}

#[derive(Debug, clap::Args)]
struct Resolve {
    /// The public key of whoever accepted, as `pair list` shows it, or its fingerprint: the first
    /// eight characters
    #[arg(allow_hyphen_values = true)]
    public_key: String,

    /// What you call the peer
    #[arg(allow_hyphen_values = true)]
    petname: String,

    #[command(flatten)]
    admission: Admission,
}

#[derive(Debug, clap::Args)]
struct Key {
    /// The public key; of one that `pair list` shows, the fingerprint will do: its first eight
    /// characters
    #[arg(allow_hyphen_values = true)]
    public_key: String,
}

/// Everything that waits.
struct Books {
    inbound: Vec<Inbound>,
    outbound: Vec<Outbound>,
    conflicts: Vec<Conflict>,
    blocked: Vec<Blocked>,
}

pub(super) fn run(args: &Args, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    let operator = || Operator::open(&args.who, store);
    match args.what.as_ref().unwrap_or(&What::List) {
        What::List => list(&Glance::open(&args.who, store)?, p),
        What::Show(key) => show(&Glance::open(&args.who, store)?, key, p),
        What::Accept(accept) => admit::accept(&operator()?, accept, p),
        What::Resolve(resolve) => admit::resolve(&operator()?, resolve, p),
        What::Reject(key) => simple(&operator()?, key, Simple::Reject, p),
        What::Cancel(key) => simple(&operator()?, key, Simple::Cancel, p),
        What::Block(key) => simple(&operator()?, key, Simple::Block, p),
        What::Unblock(key) => simple(&operator()?, key, Simple::Unblock, p),
    }
}

fn books(operator: &Operator) -> Result<Books, AdminError> {
    operator.catch_up()?;
    operator.read(read_books)
}

fn read_books(snapshot: &Snapshot) -> Result<Books, ReadError> {
    Ok(Books {
        inbound: query::inbound(snapshot)?,
        outbound: query::outbound(snapshot)?,
        conflicts: query::conflicts(snapshot)?,
        blocked: query::blocked(snapshot)?,
    })
}

/// The one of these keys that a text means: the key itself, or its fingerprint.
fn pick(
    keys: impl Iterator<Item = PublicKey>,
    text: &str,
) -> Result<Option<PublicKey>, AdminError> {
    let mut fitting: Vec<PublicKey> = keys
        .filter(|key| key.to_string() == text || key.fingerprint().as_str() == text)
        .collect();
    fitting.dedup();
    match fitting.as_slice() {
        [] => Ok(None),
        [key] => Ok(Some(*key)),
        _ => Err(AdminError::Ambiguous {
            text: text.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn keys_that_begin_with_a_hyphen_are_keys() {
        use clap::Parser as _;
        for key in ["-yJ8", "-abcdefg", "--abcdef"] {
            for what in ["accept", "reject", "cancel", "block", "unblock"] {
                let line = Line::try_parse_from(["x", what, key, "--key", "k"]).unwrap();
                let read = match line.args.what.as_ref().unwrap() {
                    What::Accept(a) => &a.public_key,
                    What::Reject(k) | What::Cancel(k) | What::Block(k) | What::Unblock(k) => {
                        &k.public_key
                    }
                    other => panic!("{other:?}"),
                };
                assert_eq!(read, key);
            }
            let line = Line::try_parse_from(["x", "resolve", key, "-n", "--yes"]).unwrap();
            assert!(
                matches!(line.args.what, Some(What::Resolve(r)) if r.public_key == key && r.admission.yes)
            );
        }
        for name in ["--key", "-y", "--help"] {
            let line = Line::try_parse_from(["x", "resolve", "--key", "k", "--", "K", name]);
            assert!(matches!(line.unwrap().args.what, Some(What::Resolve(r)) if r.petname == name));
            let named = format!("--petname={name}");
            let line = Line::try_parse_from(["x", "accept", "K", &named, "--key", "k"]);
            assert!(
                matches!(line.unwrap().args.what, Some(What::Accept(a)) if a.petname.as_deref() == Some(name))
            );
        }
    }
}
