//! `request_pair`, `accept_pair`: what leads to admission. Ending is in `pair_end`, looking in
//! `pair_view`.

use std::sync::Arc;

use crate::agent::core::{ActError, Core};
use crate::agent::ledger::LedgerError;
use crate::agent::mcp::approve::{self, Wish};
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::line::{Line, quoted};
use crate::agent::mcp::render;
use crate::agent::mcp::reply::Answer;
use crate::agent::mcp::reply::pairing::{PairAccepted, PairRequested};
use crate::agent::mcp::server::HostConnection;
use crate::agent::pairing::{Control, PairError, relays};
use crate::agent::peers_file::PeersFileError;
use crate::agent::roster::{self, DISCOVER_WAIT, Whom};
use crate::domain::decide::agent::{
    AcceptPair, AgentCommand, AgentRefusal, AgentReply, PairingCommand, PairingRefusal,
    PairingReply, RequestPair,
};
use crate::domain::query::agent::{self as query, Conflict, Inbound};
use crate::event::agent::{Origin, Question};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::route::Route;
use crate::types::time::Clock as _;
use crate::wire::envelope::MessageKind;
use crate::wire::peers::Petname;

pub use super::pair_end::{cancel_pair_request, reject_pair};
pub use super::pair_view::{list_pair_requests, pair_status};

/// The session that is asked.
struct Callee {
    key: PublicKey,
    session: SessionId,
    /// The name that its identity gives itself. Unescaped.
    name: Option<String>,
}

pub(super) fn invalid<T>(text: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::Invalid(text.into()))
}

fn unexpected(reply: &AgentReply) -> ToolError {
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

/// Asks somebody to pair if the human agrees; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn request_pair(
    core: &Arc<Core>,
    host: &HostConnection,
    a: args::RequestPair,
) -> Result<Answer<PairRequested>, ToolError> {
    let target = a.target.trim();
    // The text of a key is no name: a peer that was asked for by its key is called by its fingerprint.
    let by_key: Option<PublicKey> = target.parse().ok();
    let by_key = by_key.map(|key| key.fingerprint().to_string());
    let wanted = a.petname.as_deref().map(str::trim);
    let wanted = wanted.or(by_key.as_deref()).unwrap_or(target);
    core.await_lease().await?;
    core.peers.ensure(&core.ledger).await?;
    let callee = find(core, target).await?;
    let key = callee.key;
    let (peer, asked) = core
        .ledger
        .read(move |s| Ok((query::peer_by_key(s, &key)?, query::outbound_of(s, &key)?)))
        .await?;
    let petname = match &peer {
        Some(peer) => peer.petname.clone(),
        None => Petname::parse(wanted)
            .map_err(|e| ToolError::Invalid(format!("{e}; choose a `petname`")))?
            .to_string(),
    };
    // Nobody is asked about what was agreed to already.
    let agreed = peer.is_some() || asked.as_ref().is_some_and(|a| a.row.name == petname);
    let consented = !agreed;
    let origin = match &asked {
        _ if consented => consent_to_request(core, host, &callee, &petname).await?,
        Some(asked) => asked.row.origin,
        None => Origin::Tool,
    };
    let request_id = asked.map(|asked| asked.row.request_id);
    let (request_id, again) = ask(core, &callee, &petname, (origin, consented), request_id).await?;
    let shown = render::label(&petname);
    let note = format!(
        "Asked {shown} ({key}) to pair{}. It is tried until a relay takes it; their user decides. \
         pair_status tells how far it is.",
        if again { " again" } else { "" }
    );
    Ok(Answer {
        text: note.clone(),
        data: PairRequested {
            requested: true,
            request_id: Some(request_id.to_string()),
            again: Some(again),
            note,
            ..requested(&callee, &petname)
        },
    })
}

fn requested(callee: &Callee, petname: &str) -> PairRequested {
    PairRequested {
        key: callee.key.to_string(),
        fingerprint: callee.key.fingerprint().to_string(),
        petname: render::label(petname),
        session: super::view::shown_session(&callee.session),
        ..PairRequested::default()
    }
}

/// The session that a request goes to.
async fn find(core: &Arc<Core>, target: &str) -> Result<Callee, ToolError> {
    if target.is_empty() {
        return invalid("`target` is empty: give a key, a fingerprint or a name on the roster");
    }
    if target.parse().ok() == Some(core.me) {
        return invalid("that is this identity itself; its own sessions need no pairing");
    }
    let roster = roster::fetch(core, DISCOVER_WAIT, Whom::Everybody).await?;
    let failed: Vec<&str> = roster.failed.iter().map(|f| f.url.as_str()).collect();
    let missing = if failed.is_empty() {
        String::new()
    } else {
        format!(" (no answer from {})", failed.join(", "))
    };
    let nobody = |what: String| {
        invalid(format!(
            "{what}{missing}. Whoever is asked needs a session that runs, or ran in the last days, on \
             a relay that both sides use"
        ))
    };
    let found = match roster.target(target) {
        Ok(found) if found.key == core.me => {
            return invalid("that is this identity itself; its own sessions need no pairing");
        }
        Ok(found) => found,
        Err(e) => return nobody(e.to_string()),
    };
    match found.session {
        Some(session) => Ok(Callee {
            key: found.key,
            session,
            name: found.name,
        }),
        None => nobody("no relay shows a session of this key".to_owned()),
    }
}

async fn consent_to_request(
    core: &Core,
    host: &HostConnection,
    callee: &Callee,
    petname: &str,
) -> Result<Origin, ToolError> {
    let wish = Wish::Request {
        key: callee.key,
        petname,
        claimed: callee.name.as_deref(),
    };
    let line = Line::of("peers add").name(petname).key(&callee.key);
    approve::consent(core, host, &wish, Question::RequestPair, &line)
        .await
        .map_err(|refusal| {
            let note = match &refusal.command {
                Some(_) => format!("{} Then call request_pair again.", refusal.note),
                None => refusal.note,
            };
            let data = PairRequested {
                note: note.clone(),
                command: refusal.command,
                ..requested(callee, petname)
            };
            ToolError::refused(note, &data)
        })
}

/// Signs and queues a request under its id, which another session may have given it meanwhile.
async fn ask(
    core: &Core,
    callee: &Callee,
    petname: &str,
    (origin, agreed): (Origin, bool),
    known: Option<MsgId>,
) -> Result<(MsgId, bool), ToolError> {
    let lease = core.await_lease().await?;
    let mut request_id = match known {
        Some(id) => id,
        None => MsgId::new_random(&core.entropy).map_err(PairError::from)?,
    };
    loop {
        let now = core.clock.now();
        let mail = Control {
            kind: MessageKind::PairRequest,
            to: callee.key,
            msg_id: request_id.clone(),
            in_reply_to: None,
            reply_to: core.route(),
            name: core.name.clone(),
            relays: relays(core),
        }
        .sign(&core.identity, now)
        .map_err(PairError::from)?;
        let wish = PairingCommand::Request(Box::new(RequestPair {
            lease: lease.clone(),
            own: core.me,
            key: callee.key,
            name: petname.to_owned(),
            to_session: callee.session.clone(),
            agreed,
            origin,
            mail,
            now,
        }));
        match core.submit(wish.into()).await {
            Ok(AgentReply::Pairing(PairingReply::Requested { again, .. })) => {
                return Ok((request_id, again));
            }
            Ok(reply) => return Err(unexpected(&reply)),
            Err(ActError::Ledger(LedgerError::Refused(AgentRefusal::Pairing(
                PairingRefusal::KeepsId { request_id: id, .. },
            )))) if id != request_id => request_id = id,
            Err(e) => return Err(e.into()),
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
        .flags(&format!(" --petname={}{relay_flags}", quoted(&name)));
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
