//! `accept_pair`: what leads to admission. Asking is in `pair_ask`, ending in `pair_end`, looking in
//! `pair_view`.

use crate::agent::core::{ActError, Core};
use crate::agent::ledger::LedgerError;
use crate::agent::mcp::approve::{self, Wish};
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::line::Line;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::Answer;
use crate::agent::mcp::reply::pairing::PairAccepted;
use crate::agent::mcp::server::HostConnection;
use crate::agent::pairing::{Control, PairError, relays};
use crate::agent::peers_file::PeersFileError;
use crate::domain::decide::agent::{
    AcceptPair, AgentCommand, AgentRefusal, AgentReply, PairingCommand, PairingRefusal,
    PairingReply,
};
use crate::domain::query::agent::{self as query, Conflict, Inbound};
use crate::event::agent::{Origin, Question};
use crate::types::id::{MsgId, PublicKey};
use crate::types::route::Route;
use crate::types::text::shell_word;
use crate::types::time::Clock as _;
use crate::wire::envelope::MessageKind;
use crate::wire::peers::Petname;

pub use super::pair_ask::request_pair;
pub use super::pair_end::{cancel_pair_request, reject_pair};
pub use super::pair_view::{list_pair_requests, pair_status};

pub(super) fn invalid<T>(text: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::Invalid(text.into()))
}

pub(super) fn unexpected(reply: &AgentReply) -> ToolError {
    ToolError::Local(format!("unexpected answer: {reply:?}"))
}

impl From<PairError> for ToolError {
    fn from(e: PairError) -> ToolError {
        match e {
            PairError::Act(e) => e.into(),
            e => ToolError::Local(e.to_string()),
        }
    }
}

/// Whom `fingerprint` means.
pub(super) enum Meant {
    Asking(Box<Inbound>),
    Conflict(Conflict),
}

/// Admits somebody if the human agrees; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn accept_pair(
    core: &Core,
    host: &HostConnection,
    a: args::AcceptPair,
) -> Result<Answer<PairAccepted>, ToolError> {
    let text = a.fingerprint.trim().to_owned();
    let petname = match a.petname.as_deref().map(str::trim) {
        Some(name) => Some(Petname::parse(name).map_err(|e| ToolError::Invalid(e.to_string()))?),
        None => None,
    };
    core.await_lease().await?;
    core.peers.ensure(&core.ledger).await?;
    match meant(core, &text).await? {
        Some(Meant::Asking(inbound)) => accept(core, host, &inbound, petname).await,
        Some(Meant::Conflict(conflict)) => resolve(core, host, &conflict, petname).await,
        None => already(core, &text).await,
    }
}

pub(super) async fn meant(core: &Core, text: &str) -> Result<Option<Meant>, ToolError> {
    let wanted = text.to_owned();
    let (mut asking, conflicts) = core
        .ledger
        .read(move |s| Ok((query::matching_inbound(s, &wanted)?, query::conflicts(s)?)))
        .await?;
    if asking.len() > 1 {
        let keys: Vec<String> = asking.iter().map(|i| i.key.to_string()).collect();
        return invalid(format!(
            "several requests have this fingerprint; give the whole key: {}",
            keys.join(", ")
        ));
    }
    if let Some(inbound) = asking.pop() {
        return Ok(Some(Meant::Asking(Box::new(inbound))));
    }
    let fits = |c: &Conflict| {
        c.key.to_string() == text || c.key.fingerprint().as_str() == text || c.row.name == text
    };
    Ok(conflicts.into_iter().find(fits).map(Meant::Conflict))
}

/// Accepting what was accepted is accepting; a peer is one already.
async fn already(core: &Core, text: &str) -> Result<Answer<PairAccepted>, ToolError> {
    let peers = core.ledger.read(|s| Ok(query::peers(s)?)).await?;
    let peer = peers
        .into_iter()
        .find(|p| p.key.to_string() == text || p.key.fingerprint().as_str() == text);
    match peer {
        Some(peer) => Ok(accepted(
            peer.key,
            &peer.petname,
            format!("{} is a peer already.", render::label(&peer.petname)),
        )),
        None => invalid("nobody with this fingerprint or key asks; see list_pair_requests"),
    }
}

fn accepted(key: PublicKey, petname: &str, note: String) -> Answer<PairAccepted> {
    Answer {
        text: note.clone(),
        data: PairAccepted {
            accepted: true,
            key: key.to_string(),
            petname: render::label(petname),
            note,
            command: None,
        },
    }
}

fn not_accepted(key: PublicKey, petname: &str, refusal: approve::Refusal) -> ToolError {
    let data = PairAccepted {
        accepted: false,
        key: key.to_string(),
        petname: render::label(petname),
        note: refusal.note.clone(),
        command: refusal.command,
    };
    ToolError::refused(refusal.note, &data)
}

/// The name that somebody gets, before anybody is asked about it.
async fn name_for(
    core: &Core,
    inbound: &Inbound,
    petname: Option<Petname>,
) -> Result<String, ToolError> {
    let key = inbound.key;
    let name = match petname.or_else(|| inbound.petname.clone()) {
        Some(name) => name.to_string(),
        None => {
            return invalid("the claimed name cannot be a petname; choose one as `petname`");
        }
    };
    let wanted = name.clone();
    let (known, holder) = core
        .ledger
        .read(move |s| {
            Ok((
                query::peer_by_key(s, &key)?,
                query::peer_by_name(s, &wanted)?,
            ))
        })
        .await?;
    match (known, holder) {
        (Some(peer), _) => Ok(peer.petname),
        (None, Some(holder)) => invalid(format!(
            "{} is the name of {}; choose another `petname`",
            render::label(&name),
            holder.key
        )),
        (None, None) => Ok(name),
    }
}

async fn accept(
    core: &Core,
    host: &HostConnection,
    inbound: &Inbound,
    petname: Option<Petname>,
) -> Result<Answer<PairAccepted>, ToolError> {
    let key = inbound.key;
    let name = name_for(core, inbound, petname).await?;
    let wish = Wish::Admit {
        key,
        petname: &name,
        claimed: Some(&inbound.row.name),
    };
    let relay_flags = core.config.operator.as_ref().map_or("", |o| &o.relays);
    let line = Line::of("pair accept")
        .key(&key)
        .flags(&format!(" --petname={}{relay_flags}", shell_word(&name)));
    let origin = match approve::consent(core, host, &wish, Question::AcceptPair, &line).await {
        Ok(origin) => origin,
        Err(refusal) => {
            if refusal.declined {
                decline(core, inbound).await?;
            }
            return Err(not_accepted(key, &name, refusal));
        }
    };
    let lease = core.await_lease().await?;
    let now = core.clock.now();
    let mail = Control {
        kind: MessageKind::PairAccept,
        to: key,
        msg_id: MsgId::new_random(&core.entropy).map_err(PairError::from)?,
        in_reply_to: Some(inbound.row.request_id.clone()),
        reply_to: Route::new(core.me, inbound.row.session.clone()),
        name: core.name.clone(),
        relays: relays(core),
    }
    .sign(&core.identity, now)
    .map_err(PairError::from)?;
    let command = PairingCommand::Accept(Box::new(AcceptPair {
        lease: Some(lease),
        key,
        request_id: inbound.row.request_id.clone(),
        petname: Some(name),
        origin,
        mail,
        now,
    }));
    match change(core, command.into()).await? {
        AgentReply::Pairing(PairingReply::Accepted { petname, .. }) => {
            let note = format!(
                "{} ({key}) may write to this identity now. The confirmation is on its way, and is \
                 tried until a relay takes it.",
                render::label(&petname)
            );
            Ok(accepted(key, &petname, note))
        }
        reply => Err(unexpected(&reply)),
    }
}

/// The human's "no" ends the request.
async fn decline(core: &Core, inbound: &Inbound) -> Result<(), ToolError> {
    let lease = core.await_lease().await?;
    let command = PairingCommand::Reject {
        lease: Some(lease),
        key: inbound.key,
        request_id: Some(inbound.row.request_id.clone()),
        origin: Origin::Human,
        now: core.clock.now(),
    };
    match core.submit(command.into()).await {
        // Somebody else decided meanwhile.
        Err(ActError::Ledger(LedgerError::Refused(AgentRefusal::Pairing(
            PairingRefusal::NotPending { .. } | PairingRefusal::RequestChanged { .. },
        )))) => Ok(()),
        outcome => Ok(outcome.map(drop)?),
    }
}

/// A change of the policy; a file that could not follow is told in the log and no failure of it.
async fn change(core: &Core, command: AgentCommand) -> Result<AgentReply, ToolError> {
    match core.peers.change(&core.ledger, command).await {
        Err(PeersFileError::Ledger(e)) => Err(core.judge(e).into()),
        outcome => Ok(outcome?),
    }
}

async fn resolve(
    core: &Core,
    host: &HostConnection,
    conflict: &Conflict,
    petname: Option<Petname>,
) -> Result<Answer<PairAccepted>, ToolError> {
    let key = conflict.key;
    let wanted = petname.map_or_else(|| conflict.row.name.clone(), |name| name.to_string());
    let (name, known) = (wanted.clone(), wanted.clone());
    let holder = core
        .ledger
        .read(move |s| Ok(query::peer_by_name(s, &known)?))
        .await?;
    if let Some(holder) = holder.filter(|holder| holder.key != key) {
        return invalid(format!(
            "{} is the name of {}; choose another `petname`",
            render::label(&wanted),
            holder.key
        ));
    }
    let wish = Wish::Admit {
        key,
        petname: &name,
        claimed: None,
    };
    let line = Line::of("pair resolve").key(&key).name(&name);
    let question = Question::ResolveConflict;
    let origin = match approve::consent(core, host, &wish, question, &line).await {
        Ok(origin) => origin,
        Err(refusal) => return Err(not_accepted(key, &name, refusal)),
    };
    let lease = core.await_lease().await?;
    let command = PairingCommand::ResolveConflict {
        lease: Some(lease),
        key,
        petname: name,
        origin,
        now: core.clock.now(),
    };
    match change(core, command.into()).await? {
        AgentReply::Pairing(PairingReply::Resolved { petname }) => {
            let note = format!(
                "{} ({key}) may write to this identity now.",
                render::label(&petname)
            );
            Ok(accepted(key, &petname, note))
        }
        reply => Err(unexpected(&reply)),
    }
}
