//! `add_peer`, `remove_peer`, `list_peers`.

use super::room::Room;
use crate::agent::core::Core;
use crate::agent::ledger::LedgerError;
use crate::agent::mcp::approve::{self, Refusal, Wish};
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::line::Line;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::{Answer, Held, Peer, PeerAdded, PeerRemoved, Peers};
use crate::agent::mcp::server::HostConnection;
use crate::agent::peers_file::PeersFileError;
use crate::crypto::sign::decode_public_key;
use crate::domain::decide::agent::{self as decide, AgentCommand, AgentRefusal, AgentReply};
use crate::domain::query::agent as query;
use crate::event::agent::Question;
use crate::types::id::PublicKey;
use crate::types::time::Clock as _;
use crate::wire::peers::Petname;

/// Admits a key if the human agrees; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn add_peer(
    core: &Core,
    host: &HostConnection,
    a: args::AddPeer,
) -> Result<Answer<PeerAdded>, ToolError> {
    let name = Petname::parse(a.petname.trim()).map_err(|e| ToolError::Invalid(e.to_string()))?;
    let key = decode_public_key(a.key.trim())
        .map_err(|e| ToolError::Local(format!("`key` is not a public key: {e}")))?;
    core.await_lease().await?;
    core.peers.ensure(&core.ledger).await?;
    // Nobody is asked about what cannot be or is already, and nothing is submitted either: the peer
    // may be gone when the command comes to be decided, and then it would admit.
    let wanted = name.to_string();
    let settled = core
        .ledger
        .read(move |s| Ok(decide::settled(s, &wanted, &key)?))
        .await?;
    match settled {
        Some(Ok(())) => return Ok(added(&name, key, false)),
        Some(Err(refusal)) => return Err(LedgerError::Refused(refusal).into()),
        None => {}
    }
    let wish = Wish::Admit {
        key,
        petname: name.as_str(),
        claimed: None,
    };
    let line = Line::of("peers add").name(name.as_str()).key(&key);
    let origin = match approve::consent(core, host, &wish, Question::AddPeer, &line).await {
        Ok(origin) => origin,
        Err(refusal) => return Err(not_added(&name, key, refusal)),
    };
    // The human may have taken a while.
    let lease = core.await_lease().await?;
    let command = AgentCommand::AddPeer {
        petname: name.to_string(),
        key,
        origin,
        lease: Some(lease),
        now: core.clock.now(),
    };
    let reply = core.peers.change(&core.ledger, command).await?;
    let changed = matches!(reply, AgentReply::PeerAdded { changed: true });
    Ok(added(&name, key, changed))
}

fn added(name: &Petname, key: PublicKey, changed: bool) -> Answer<PeerAdded> {
    let text = if changed {
        format!("{name} ({key}) may write to this identity now.")
    } else {
        format!("{name} ({key}) is a peer already.")
    };
    Answer {
        text,
        data: PeerAdded {
            petname: name.to_string(),
            key: key.to_string(),
            changed,
            note: None,
            command: None,
        },
    }
}

fn not_added(name: &Petname, key: PublicKey, refusal: Refusal) -> ToolError {
    let data = PeerAdded {
        petname: name.to_string(),
        key: key.to_string(),
        changed: false,
        note: Some(refusal.note.clone()),
        command: refusal.command,
    };
    ToolError::refused(refusal.note, &data)
}

/// Revokes a key if the human agrees; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn remove_peer(
    core: &Core,
    host: &HostConnection,
    a: args::RemovePeer,
) -> Result<Answer<PeerRemoved>, ToolError> {
    core.await_lease().await?;
    core.peers.ensure(&core.ledger).await?;
    let petname = a.petname.clone();
    let known = core
        .ledger
        .read(move |s| Ok(query::peer_by_name(s, &petname)?))
        .await?;
    // Nothing is submitted that nobody was asked about: the name may be somebody's by then.
    let Some(peer) = known else {
        return Ok(removed(&a.petname, None));
    };
    let wish = Wish::Revoke {
        key: peer.key,
        petname: &peer.petname,
    };
    let line = Line::of("peers remove").key(&peer.key);
    let origin = match approve::consent(core, host, &wish, Question::RemovePeer, &line).await {
        Ok(origin) => origin,
        Err(refusal) => return Err(not_removed(refusal)),
    };
    // The human may have taken a while.
    let lease = core.await_lease().await?;
    let command = AgentCommand::RemovePeer {
        petname: peer.petname,
        key: peer.key,
        origin,
        lease: Some(lease),
        now: core.clock.now(),
    };
    let reply = core.peers.change(&core.ledger, command).await;
    let key = match reply.map_err(moved)? {
        AgentReply::PeerRemoved { key } => key,
        _ => None,
    };
    Ok(removed(&a.petname, key))
}

/// The human was asked about another peer than the one that would be revoked by now.
fn moved(e: PeersFileError) -> ToolError {
    match &e {
        PeersFileError::Ledger(LedgerError::Refused(
            refusal @ (AgentRefusal::PetnameTaken { .. } | AgentRefusal::KeyKnown { .. }),
        )) => ToolError::Local(format!(
            "the list changed while the user was asked: {refusal}; nothing has changed"
        )),
        _ => e.into(),
    }
}

fn removed(petname: &str, key: Option<PublicKey>) -> Answer<PeerRemoved> {
    let name = render::label(petname);
    let text = match key {
        Some(key) => {
            format!("{name} ({key}) is revoked and cannot write to this identity any more.")
        }
        None => format!("There is no peer {name}."),
    };
    Answer {
        text,
        data: PeerRemoved {
            removed: key.is_some(),
            key: key.map(|key| key.to_string()),
            note: None,
            command: None,
        },
    }
}

fn not_removed(refusal: Refusal) -> ToolError {
    let data = PeerRemoved {
        removed: false,
        key: None,
        note: Some(refusal.note.clone()),
        command: refusal.command,
    };
    ToolError::refused(refusal.note, &data)
}

/// Lists who may write to this identity.
///
/// # Errors
///
/// [`ToolError`].
pub async fn list_peers(core: &Core, _: args::Nothing) -> Result<Answer<Peers>, ToolError> {
    core.peers.ensure(&core.ledger).await?;
    let (peers, held) = core
        .ledger
        .read(|s| Ok((query::peers(s)?, query::held(s)?)))
        .await?;
    let held: Vec<Held> = held
        .iter()
        .map(|(petname, key)| Held {
            petname: render::label(petname),
            key: key.to_string(),
        })
        .collect();
    let mut room = Room::of(core);
    let (held, _) = room.share(4).first_of(held);
    room.less(&held);
    let peers: Vec<Peer> = peers
        .iter()
        .map(|p| Peer {
            petname: render::label(&p.petname),
            key: p.key.to_string(),
            origin: p.origin.name().to_owned(),
            since_ms: p.since.0,
        })
        .collect();
    let (peers, left_out) = room.first_of(peers);
    let mut text = if peers.is_empty() {
        "No peers.".to_owned()
    } else {
        let lines: Vec<String> = peers
            .iter()
            .map(|p| format!("{} \u{2192} {}", p.petname, p.key))
            .collect();
        lines.join("\n")
    };
    if left_out > 0 {
        text.push_str(&format!(
            "\n{left_out} more did not fit; `interlink-admin peers list` shows all."
        ));
    }
    for entry in &held {
        text.push_str(&format!(
            "\nNot admitted, although peers.json was edited so: {} \u{2192} {}. The key had been \
             revoked; the operator admits it with `interlink-admin peers add`.",
            entry.petname, entry.key
        ));
    }
    Ok(Answer {
        text,
        data: Peers {
            peers,
            left_out,
            held,
        },
    })
}
