//! What admits somebody: the operator is asked on the terminal.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::AdminError;
use super::super::operator::Operator;
use super::super::print::{Printer, Shown, Style, now};
use super::super::terminal::{COMPARE, Question, confirm};
use super::{Accept, Resolve, books, pick};
use crate::agent::pairing::Control;
use crate::agent::random::OsEntropy;
use crate::domain::decide::agent::{AcceptPair, AgentReply, PairingCommand, PairingReply};
use crate::domain::query::agent::{self as query, Inbound};
use crate::event::agent::Origin;
use crate::types::id::MsgId;
use crate::types::route::Route;
use crate::wire::envelope::MessageKind;
use crate::wire::peers::Petname;

fn parse_petname(text: &str) -> Result<Petname, AdminError> {
    Petname::parse(text.trim()).map_err(|source| AdminError::Petname {
        petname: text.to_owned(),
        source,
    })
}

#[derive(Serialize, JsonSchema)]
pub(in crate::cli::admin) struct Accepted<'a> {
    petname: &'a str,
    key: String,
    changed: bool,
}

pub(super) fn accept(
    operator: &Operator,
    accept: &Accept,
    p: &mut Printer,
) -> Result<(), AdminError> {
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
    let now = now();
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

pub(super) fn resolve(
    operator: &Operator,
    resolve: &Resolve,
    p: &mut Printer,
) -> Result<(), AdminError> {
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
        now: now(),
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
