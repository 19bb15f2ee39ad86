//! `request_pair`: asking somebody.

use std::sync::Arc;

use super::pair::{invalid, unexpected};
use crate::agent::core::{ActError, Core};
use crate::agent::ledger::LedgerError;
use crate::agent::mcp::approve::{self, Wish};
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::line::Line;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::Answer;
use crate::agent::mcp::reply::pairing::PairRequested;
use crate::agent::mcp::server::HostConnection;
use crate::agent::pairing::{Control, PairError, relays};
use crate::agent::roster::{self, DISCOVER_WAIT, Whom};
use crate::domain::decide::agent::{
    AgentRefusal, AgentReply, PairingCommand, PairingRefusal, PairingReply, RequestPair,
};
use crate::domain::query::agent as query;
use crate::event::agent::{Origin, Question};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::time::Clock as _;
use crate::wire::envelope::MessageKind;
use crate::wire::peers::Petname;

/// The session that is asked.
struct Callee {
    key: PublicKey,
    session: SessionId,
    /// The name that its identity gives itself. Unescaped.
    name: Option<String>,
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
                Some(_) => format!("{}\nThen call request_pair again.", refusal.note),
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
