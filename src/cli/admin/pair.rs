//! `pair`: what waits to be paired, and deciding about it without a model.

use std::path::Path;

use clap::Subcommand;
use serde::Serialize;

use super::error::AdminError;
use super::operator::{self, Operator, Relays, Who};
use super::print::{Printer, Shown, Style, age, now};
use super::terminal::{Admission, COMPARE, Question, confirm};
use crate::agent::clock::OsEntropy;
use crate::agent::pairing::Control;
use crate::crypto::sign::decode_public_key;
use crate::domain::decide::agent::{AcceptPair, AgentReply, PairingCommand, PairingReply};
use crate::domain::projection::agent::Sent;
use crate::domain::query::agent::{self as query, Blocked, Conflict, Inbound, Outbound};
use crate::event::agent::Origin;
use crate::types::id::{MsgId, PublicKey};
use crate::types::route::Route;
use crate::types::time::UnixMillis;
use crate::wire::envelope::MessageKind;
use crate::wire::peers::Petname;

/// What to do.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    who: Who,

    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Who asks, who was asked, what conflicts, who is blocked
    List,
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
    /// The public key of whoever asks, or its first eight characters
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
    /// The public key of whoever accepted, or its first eight characters
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
    /// The public key; where it waits here, its first eight characters will do
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
    if matches!(args.what, What::List) {
        return list(&Operator::look(&args.who, store)?, p);
    }
    let operator = Operator::open(&args.who, store)?;
    match &args.what {
        What::List => list(&operator, p),
        What::Accept(accept) => self::accept(&operator, accept, p),
        What::Resolve(resolve) => self::resolve(&operator, resolve, p),
        What::Reject(key) => simple(&operator, key, Simple::Reject, p),
        What::Cancel(key) => simple(&operator, key, Simple::Cancel, p),
        What::Block(key) => simple(&operator, key, Simple::Block, p),
        What::Unblock(key) => simple(&operator, key, Simple::Unblock, p),
    }
}

fn books(operator: &Operator) -> Result<Books, AdminError> {
    operator.catch_up()?;
    operator.read(|s| {
        Ok(Books {
            inbound: query::inbound(s)?,
            outbound: query::outbound(s)?,
            conflicts: query::conflicts(s)?,
            blocked: query::blocked(s)?,
        })
    })
}

#[derive(Serialize)]
struct Listed {
    identity: String,
    inbound: Vec<InboundView>,
    outbound: Vec<OutboundView>,
    conflicts: Vec<ConflictView>,
    blocked: Vec<BlockedView>,
}

#[derive(Serialize)]
struct InboundView {
    key: String,
    fingerprint: String,
    claimed_name: String,
    petname: Option<String>,
    session: String,
    since: u64,
}

#[derive(Serialize)]
struct OutboundView {
    key: String,
    fingerprint: String,
    petname: String,
    session: String,
    state: &'static str,
    since: u64,
}

#[derive(Serialize)]
struct ConflictView {
    key: String,
    fingerprint: String,
    petname: String,
    reason: &'static str,
    holder: Option<String>,
    since: u64,
}

#[derive(Serialize)]
struct BlockedView {
    key: String,
    since: u64,
}

fn list(operator: &Operator, p: &mut Printer) -> Result<(), AdminError> {
    let books = books(operator)?;
    if p.json {
        return Ok(p.json(&listed(operator, &books))?);
    }
    let now = now();
    let mut empty = true;
    let mut part = |p: &mut Printer, head: [&str; 4], rows: Vec<Vec<String>>| {
        if rows.is_empty() {
            return Ok(());
        }
        if !empty {
            p.line(Style::Plain, "")?;
        }
        empty = false;
        p.table(&head, &rows)
    };
    let row = |key: &PublicKey, name: &str, state: String, at: UnixMillis| {
        let name = Shown(name).to_string();
        vec![key.to_string(), name, state, age(now, at.0)]
    };
    let rows = books.inbound.iter().map(|i| {
        let state = match (&i.petname, &i.holder) {
            (None, _) => "needs --petname",
            (_, Some(_)) => "name is taken, needs --petname",
            _ => "waits for you",
        };
        row(&i.key, &i.row.name, state.to_owned(), i.row.first_at)
    });
    part(p, ["ASKS", "CLAIMS TO BE", "", "SINCE"], rows.collect())?;
    let rows = books.outbound.iter().map(|o| {
        let state = sent_name(o).to_owned();
        row(&o.key, &o.row.name, state, o.row.first_at)
    });
    part(p, ["WAS ASKED", "AS", "STATE", "SINCE"], rows.collect())?;
    let rows = books.conflicts.iter().map(|c| {
        let state = c.row.reason.name().to_owned();
        row(&c.key, &c.row.name, state, c.row.at)
    });
    part(p, ["ACCEPTED", "AS", "BUT", "SINCE"], rows.collect())?;
    let rows = books
        .blocked
        .iter()
        .map(|b| row(&b.key, "", String::new(), b.row.at));
    part(p, ["BLOCKED", "", "", "SINCE"], rows.collect())?;
    if empty {
        p.line(Style::Plain, "nothing waits")?;
    }
    Ok(())
}

fn listed(operator: &Operator, books: &Books) -> Listed {
    let fingerprint = |key: &PublicKey| key.fingerprint().to_string();
    Listed {
        identity: operator.me.to_string(),
        inbound: books
            .inbound
            .iter()
            .map(|i| InboundView {
                key: i.key.to_string(),
                fingerprint: fingerprint(&i.key),
                claimed_name: i.row.name.clone(),
                petname: i
                    .petname
                    .as_ref()
                    .filter(|_| i.holder.is_none())
                    .map(ToString::to_string),
                session: i.row.session.to_string(),
                since: i.row.first_at.0,
            })
            .collect(),
        outbound: books
            .outbound
            .iter()
            .map(|o| OutboundView {
                key: o.key.to_string(),
                fingerprint: fingerprint(&o.key),
                petname: o.row.name.clone(),
                session: o.row.session.to_string(),
                state: sent_name(o),
                since: o.row.first_at.0,
            })
            .collect(),
        conflicts: books
            .conflicts
            .iter()
            .map(|c| ConflictView {
                key: c.key.to_string(),
                fingerprint: fingerprint(&c.key),
                petname: c.row.name.clone(),
                reason: c.row.reason.name(),
                holder: c.row.holder.map(|key| key.to_string()),
                since: c.row.at.0,
            })
            .collect(),
        blocked: books
            .blocked
            .iter()
            .map(|b| BlockedView {
                key: b.key.to_string(),
                since: b.row.at.0,
            })
            .collect(),
    }
}

const fn sent_name(outbound: &Outbound) -> &'static str {
    match outbound.sent {
        Some(sent) => sent.name(),
        None => Sent::Accepted.name(),
    }
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

fn parse_petname(text: &str) -> Result<Petname, AdminError> {
    Petname::parse(text.trim()).map_err(|source| AdminError::Petname {
        petname: text.to_owned(),
        source,
    })
}

#[derive(Serialize)]
struct Accepted<'a> {
    petname: &'a str,
    key: String,
    changed: bool,
}

fn accept(operator: &Operator, accept: &Accept, p: &mut Printer) -> Result<(), AdminError> {
    let relays = accept.relays.list()?;
    let petname = accept.petname.as_deref().map(parse_petname).transpose()?;
    operator.prepare()?;
    let books = books(operator)?;
    let text = accept.public_key.trim();
    let Some(key) = pick(books.inbound.iter().map(|i| i.key), text)? else {
        return Err(AdminError::NobodyAsks {
            text: text.to_owned(),
        });
    };
    let Some(inbound) = books.inbound.into_iter().find(|i| i.key == key) else {
        return Err(AdminError::NobodyAsks {
            text: text.to_owned(),
        });
    };
    let name = name_for(operator, &inbound, petname)?;
    let question = Question {
        head: "Admit this peer, who asks to write to your agents?",
        key,
        petname: &name,
        claimed: Some(&inbound.row.name),
        advice: COMPARE,
    };
    if !confirm(&question, accept.admission.shell)? {
        return Err(AdminError::NotTyped);
    }
    let now = operator::now();
    let node = accept
        .name
        .as_deref()
        .map(str::trim)
        .filter(|n| !n.is_empty());
    let mail = Control {
        kind: MessageKind::PairAccept,
        to: key,
        msg_id: MsgId::new_random(&OsEntropy)?,
        in_reply_to: Some(inbound.row.request_id.clone()),
        // The session that got the request answers it.
        reply_to: Route::new(operator.me, inbound.row.session.clone()),
        name: node.map_or_else(|| operator.me.fingerprint().to_string(), ToOwned::to_owned),
        relays,
    }
    .sign(&operator.identity, now)?;
    let command = PairingCommand::Accept(Box::new(AcceptPair {
        lease: None,
        key,
        request_id: inbound.row.request_id,
        petname: Some(name),
        origin: Origin::Admin,
        mail,
        now,
    }));
    let (petname, changed) = match operator.change(command.into())? {
        AgentReply::Pairing(PairingReply::Accepted { petname, seq, .. }) => {
            (petname, seq.is_some())
        }
        reply => return Err(AdminError::Unexpected(format!("{reply:?}"))),
    };
    if p.json {
        return Ok(p.json(&Accepted {
            petname: &petname,
            key: key.to_string(),
            changed,
        })?);
    }
    let petname = Shown(&petname);
    let text = format!(
        "{petname} ({key}) may write to this identity now; the confirmation leaves with the next \
         session of this identity that runs"
    );
    Ok(p.whole_line(Style::Plain, &text)?)
}

/// The name that somebody gets, before anybody is asked about it.
fn name_for(
    operator: &Operator,
    inbound: &Inbound,
    petname: Option<Petname>,
) -> Result<String, AdminError> {
    let known = operator.read(|s| Ok(query::peer_by_key(s, &inbound.key)?))?;
    if let Some(peer) = known {
        return Ok(peer.petname);
    }
    let chosen = petname.is_some();
    match petname.or_else(|| inbound.petname.clone()) {
        None => Err(AdminError::NameNeeded),
        Some(_) if !chosen && inbound.holder.is_some() => Err(AdminError::NameNeeded),
        Some(name) => Ok(name.to_string()),
    }
}

fn resolve(operator: &Operator, resolve: &Resolve, p: &mut Printer) -> Result<(), AdminError> {
    let petname = parse_petname(&resolve.petname)?;
    operator.prepare()?;
    let books = books(operator)?;
    let text = resolve.public_key.trim();
    let Some(key) = pick(books.conflicts.iter().map(|c| c.key), text)? else {
        return Err(AdminError::NoConflict {
            text: text.to_owned(),
        });
    };
    let question = Question {
        head: "Admit this peer, who accepted your request?",
        key,
        petname: petname.as_str(),
        claimed: None,
        advice: COMPARE,
    };
    if !confirm(&question, resolve.admission.shell)? {
        return Err(AdminError::NotTyped);
    }
    let command = PairingCommand::ResolveConflict {
        lease: None,
        key,
        petname: petname.to_string(),
        origin: Origin::Admin,
        now: operator::now(),
    };
    let petname = match operator.change(command.into())? {
        AgentReply::Pairing(PairingReply::Resolved { petname }) => petname,
        reply => return Err(AdminError::Unexpected(format!("{reply:?}"))),
    };
    if p.json {
        return Ok(p.json(&Accepted {
            petname: &petname,
            key: key.to_string(),
            changed: true,
        })?);
    }
    let text = format!("{} ({key}) may write to this identity now", Shown(&petname));
    Ok(p.whole_line(Style::Plain, &text)?)
}

/// What admits nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Simple {
    Reject,
    Cancel,
    Block,
    Unblock,
}

#[derive(Serialize)]
struct Done {
    key: String,
    changed: bool,
}

fn simple(operator: &Operator, key: &Key, what: Simple, p: &mut Printer) -> Result<(), AdminError> {
    let books = books(operator)?;
    let text = key.public_key.trim();
    let waiting = match what {
        Simple::Reject => pick(books.inbound.iter().map(|i| i.key), text)?,
        Simple::Cancel => {
            let outbound = books.outbound.iter().map(|o| o.key);
            pick(outbound.chain(books.conflicts.iter().map(|c| c.key)), text)?
        }
        Simple::Block => pick(books.inbound.iter().map(|i| i.key), text)?,
        Simple::Unblock => pick(books.blocked.iter().map(|b| b.key), text)?,
    };
    let key = match (waiting, what) {
        (Some(key), _) => key,
        (None, Simple::Reject) => {
            return Err(AdminError::NobodyAsks {
                text: text.to_owned(),
            });
        }
        (None, _) => decode_public_key(text).map_err(|e| AdminError::NotAKey {
            text: text.to_owned(),
            reason: e.to_string(),
        })?,
    };
    let (lease, origin, now) = (None, Origin::Admin, operator::now());
    let (command, yes, no) = match what {
        Simple::Reject => (
            PairingCommand::Reject {
                lease,
                key,
                request_id: None,
                origin,
                now,
            },
            "its request is rejected; it is not told",
            "it does not ask",
        ),
        Simple::Cancel => (
            PairingCommand::Cancel {
                lease,
                key,
                origin,
                now,
            },
            "the request to it is called off",
            "it was not asked",
        ),
        Simple::Block => (
            PairingCommand::Block {
                lease,
                key,
                origin,
                now,
            },
            "its requests are ignored from now on",
            "it is blocked already",
        ),
        Simple::Unblock => (
            PairingCommand::Unblock {
                lease,
                key,
                origin,
                now,
            },
            "its requests are heard again",
            "it is not blocked",
        ),
    };
    let changed = match operator.submit(command.into())? {
        AgentReply::Pairing(PairingReply::Changed { changed }) => changed,
        reply => return Err(AdminError::Unexpected(format!("{reply:?}"))),
    };
    if p.json {
        return Ok(p.json(&Done {
            key: key.to_string(),
            changed,
        })?);
    }
    let text = if changed { yes } else { no };
    Ok(p.whole_line(Style::Plain, &format!("{key}: {text}"))?)
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
                let read = match &line.args.what {
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
                matches!(line.args.what, What::Resolve(r) if r.public_key == key && r.admission.yes)
            );
        }
        for name in ["--key", "-y", "--help"] {
            let line = Line::try_parse_from(["x", "resolve", "--key", "k", "--", "K", name]);
            assert!(matches!(line.unwrap().args.what, What::Resolve(r) if r.petname == name));
            let named = format!("--petname={name}");
            let line = Line::try_parse_from(["x", "accept", "K", &named, "--key", "k"]);
            assert!(
                matches!(line.unwrap().args.what, What::Accept(a) if a.petname.as_deref() == Some(name))
            );
        }
    }
}
