//! `peers`: who may write to an identity, and changing that without a model.

use std::path::Path;

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::operator::{Glance, Operator, Who};
use super::print::{Id, Printer, Shown, Style, age, now};
use super::terminal::{Admission, COMPARE, Question, Shell, confirm};
use crate::agent::ledger::LedgerError;
use crate::crypto::sign::decode_public_key;
use crate::domain::decide::agent::{self as decide, AgentCommand, AgentReply};
use crate::domain::query::agent::{self as query, Peer};
use crate::event::agent::Origin;
use crate::types::id::PublicKey;
use crate::wire::peers::Petname;

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
    /// Who may write to this identity
    List,
    /// One peer whole
    Show(Which),
    /// Let a key write to this identity: asks on the terminal
    Add(Add),
    /// End a peer's right to write: asks on the terminal
    Remove(Remove),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Its name here, its public key, or the key's fingerprint
    #[arg(value_name = "PEER", allow_hyphen_values = true)]
    peer: String,
}

#[derive(Debug, clap::Args)]
struct Add {
    /// What you call the peer
    #[arg(allow_hyphen_values = true)]
    petname: String,

    /// Its public key
    #[arg(allow_hyphen_values = true)]
    public_key: String,

    #[command(flatten)]
    admission: Admission,
}

#[derive(Debug, clap::Args)]
struct Remove {
    /// Its name here, its public key, or the key's fingerprint: its first eight characters; `peers
    /// list` shows them
    #[arg(allow_hyphen_values = true)]
    peer: String,

    #[command(flatten)]
    shell: Shell,

    /// Do not ask: for scripts
    #[arg(long, short)]
    yes: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Listed<'a> {
    identity: String,
    peers: Vec<PeerView<'a>>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct PeerView<'a> {
    petname: &'a str,
    key: String,
    origin: &'static str,
    since: u64,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Changed<'a> {
    petname: &'a str,
    key: String,
    changed: bool,
}

pub(super) fn run(args: &Args, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    match &args.what {
        None | Some(What::List) => list(&Glance::open(&args.who, store)?, p),
        Some(What::Show(which)) => show(&Glance::open(&args.who, store)?, which, p),
        Some(What::Add(add)) => self::add(args, add, store, p),
        Some(What::Remove(remove)) => self::remove(&Operator::open(&args.who, store)?, remove, p),
    }
}

fn list(identity: &Glance, p: &mut Printer) -> Result<(), AdminError> {
    let peers = identity.read(|s| Ok(query::peers(s)?))?;
    if p.json {
        let answer = Listed {
            identity: identity.me.to_string(),
            peers: peers.iter().map(view).collect(),
        };
        return Ok(p.json(&answer)?);
    }
    if peers.is_empty() {
        return Ok(p.line(Style::Plain, "nobody")?);
    }
    let now = now();
    let rows: Vec<Vec<String>> = peers
        .iter()
        .map(|peer| {
            vec![
                Shown(&peer.petname).to_string(),
                peer.key.to_string(),
                peer.origin.name().to_owned(),
                age(now, peer.since.0),
            ]
        })
        .collect();
    Ok(p.table(&["NAME", "KEY", "BY", "SINCE"], &rows)?)
}

/// What an identity and one of its peers have to do with each other.
#[derive(Serialize, JsonSchema)]
pub(super) struct PeerShown<'a> {
    identity: String,
    peer: PeerView<'a>,
    fingerprint: String,
    /// Position of the record that admitted it.
    seq: u64,
    /// Messages of it that nobody acknowledged.
    unread: u64,
    /// Messages to it that no relay has.
    unsent: u64,
    /// Sessions of it that were seen announced.
    sessions: Vec<String>,
}

fn show(identity: &Glance, which: &Which, p: &mut Printer) -> Result<(), AdminError> {
    let peers = identity.read(|s| Ok(query::peers(s)?))?;
    let peer = find(&peers, &which.peer)?;
    let shown = identity.read(|s| {
        let mut unread = 0;
        for lease in query::leases(s)? {
            let mails = query::unread(s, &lease.session, usize::MAX)?;
            unread += mails
                .iter()
                .filter(|mail| mail.row.from == peer.key)
                .count() as u64;
        }
        let claims = |known: &query::KnownSession| known.row.claim(&peer.key).is_some();
        let known = query::directory(s)?;
        Ok(PeerShown {
            identity: identity.me.to_string(),
            peer: view(peer),
            fingerprint: peer.key.fingerprint().to_string(),
            seq: peer.seq.0,
            unread,
            unsent: query::outbox_totals(s, &peer.key)?.to_recipient as u64,
            sessions: known
                .iter()
                .filter(|known| claims(known))
                .map(|known| known.session.to_string())
                .collect(),
        })
    })?;
    if p.json {
        return Ok(p.json(&shown)?);
    }
    p.whole_line(Style::Bold, &peer.petname)?;
    p.field("key", &peer.key.to_string())?;
    p.field("fingerprint", &shown.fingerprint)?;
    let since = age(now(), peer.since.0);
    p.field(
        "admitted",
        &format!("{since} ago, by {}", peer.origin.name()),
    )?;
    p.field("record", &shown.seq.to_string())?;
    p.field("unread", &shown.unread.to_string())?;
    p.field("unsent", &shown.unsent.to_string())?;
    let sessions: Vec<String> = shown.sessions.iter().map(|s| Id(s).to_string()).collect();
    p.field("sessions", &sessions.join(" "))?;
    Ok(())
}

fn view(peer: &Peer) -> PeerView<'_> {
    PeerView {
        petname: &peer.petname,
        key: peer.key.to_string(),
        origin: peer.origin.name(),
        since: peer.since.0,
    }
}

fn add(args: &Args, add: &Add, store: Option<&Path>, p: &mut Printer) -> Result<(), AdminError> {
    let petname = Petname::parse(add.petname.trim()).map_err(|source| AdminError::Petname {
        petname: add.petname.clone(),
        source,
    })?;
    let key = decode_public_key(add.public_key.trim()).map_err(|e| AdminError::NotAKey {
        text: add.public_key.clone(),
        reason: e.to_string(),
    })?;
    let operator = Operator::open(&args.who, store)?;
    operator.prepare()?;
    // What cannot be, or is already, is nothing to ask about, nor to submit: the peer may be gone when
    // the command comes to be decided, and then it would admit.
    match operator.read(|s| Ok(decide::settled(s, petname.as_str(), &key)?))? {
        Some(Ok(())) => return added(&petname, &key, false, p),
        Some(Err(refusal)) => return Err(LedgerError::Refused(refusal).into()),
        None => {}
    }
    let question = Question {
        head: "Let this key write to your agents?",
        key,
        petname: petname.as_str(),
        claimed: None,
        advice: COMPARE,
    };
    if !confirm(&question, add.admission.shell)? {
        return Err(AdminError::NotTyped);
    }
    let command = AgentCommand::AddPeer {
        petname: petname.to_string(),
        key,
        origin: Origin::Admin,
        lease: None,
        now: now(),
    };
    let changed = match operator.change(command)? {
        AgentReply::PeerAdded { changed } => changed,
        _ => true,
    };
    added(&petname, &key, changed, p)
}

fn added(
    petname: &Petname,
    key: &PublicKey,
    changed: bool,
    p: &mut Printer,
) -> Result<(), AdminError> {
    let text = if changed {
        format!("{petname} ({key}) may write to this identity now")
    } else {
        format!("{petname} ({key}) is a peer already")
    };
    told(petname.as_str(), key, changed, &text, p)
}

fn told(
    petname: &str,
    key: &PublicKey,
    changed: bool,
    text: &str,
    p: &mut Printer,
) -> Result<(), AdminError> {
    if p.json {
        return Ok(p.json(&Changed {
            petname,
            key: key.to_string(),
            changed,
        })?);
    }
    Ok(p.whole_line(Style::Plain, text)?)
}

fn remove(operator: &Operator, remove: &Remove, p: &mut Printer) -> Result<(), AdminError> {
    operator.prepare()?;
    let peers = operator.read(|s| Ok(query::peers(s)?))?;
    let peer = find(&peers, &remove.peer)?;
    if remove.yes {
        remove.shell.check()?;
    } else {
        let question = Question {
            head: "End this peer's right to write to your agents?",
            key: peer.key,
            petname: &peer.petname,
            claimed: None,
            advice: "Its messages are refused from then on. It can be admitted again later.",
        };
        if !confirm(&question, remove.shell).map_err(AdminError::Unasked)? {
            return Err(AdminError::NotTyped);
        }
    }
    let command = AgentCommand::RemovePeer {
        petname: peer.petname.clone(),
        key: peer.key,
        origin: Origin::Admin,
        lease: None,
        now: now(),
    };
    let changed = matches!(
        operator.change(command)?,
        AgentReply::PeerRemoved { key: Some(_) }
    );
    let what = if changed {
        "cannot write to this identity any more"
    } else {
        "was removed meanwhile"
    };
    let text = format!("{} ({}) {what}", Shown(&peer.petname), peer.key);
    told(&peer.petname, &peer.key, changed, &text, p)
}

/// The peer that a text means: a key before a name before a fingerprint. A full key is never a name,
/// whatever a hand wrote.
fn find<'a>(peers: &'a [Peer], text: &str) -> Result<&'a Peer, AdminError> {
    let is_key = text.parse::<PublicKey>().is_ok();
    if let Some(peer) = peers.iter().find(|peer| !is_key && peer.petname == text) {
        return Ok(peer);
    }
    let mut meant = peers
        .iter()
        .filter(|peer| peer.key.to_string() == text || peer.key.fingerprint().as_str() == text);
    match (meant.next(), meant.next()) {
        (Some(peer), None) => Ok(peer),
        (Some(_), Some(_)) => Err(AdminError::Ambiguous {
            text: text.to_owned(),
        }),
        _ => Err(AdminError::NoPeer {
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

    fn peer(name: &str, key: PublicKey) -> Peer {
        Peer {
            key,
            petname: name.to_owned(),
            origin: Origin::File,
            since: crate::types::time::UnixMillis(0),
            seq: crate::types::seq::Seq(1),
        }
    }

    #[test]
    fn a_full_key_is_that_key_and_nobodys_name() {
        let key = |n: u8| PublicKey::from_bytes([n; 32]);
        let text = key(1).to_string();
        let both = [peer(&text, key(2)), peer("bob", key(1))];
        assert_eq!(find(&both, &text).unwrap().key, key(1));
        let [one, _] = &both;
        assert!(find(std::slice::from_ref(one), &text).is_err());
    }

    #[test]
    fn keys_that_begin_with_a_hyphen_are_keys() {
        use clap::Parser as _;
        for key in ["-yJ8", "-abcdefg", "--abcdef"] {
            let line = Line::try_parse_from(["x", "add", "-n", key, "--key", "k"]).unwrap();
            assert!(
                matches!(line.args.what, Some(What::Add(a)) if a.public_key == key && !a.admission.yes)
            );
            let line = Line::try_parse_from(["x", "remove", key, "--key", "k"]).unwrap();
            assert!(matches!(line.args.what, Some(What::Remove(r)) if r.peer == key));
        }
    }
}
