//! `add_peer`, `remove_peer`, `list_peers`.

use crate::agent::core::Core;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::{Answer, Peer, PeerAdded, PeerRemoved, Peers};
use crate::crypto::sign::decode_public_key;
use crate::domain::decide::agent::{AgentCommand, AgentReply};
use crate::domain::query::agent as query;
use crate::event::agent::Origin;
use crate::types::time::Clock as _;
use crate::wire::peers::Petname;

/// Admits a key; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn add_peer(core: &Core, a: args::AddPeer) -> Result<Answer<PeerAdded>, ToolError> {
    let name = Petname::parse(a.petname.trim()).map_err(|e| ToolError::Invalid(e.to_string()))?;
    let key = decode_public_key(a.key.trim())
        .map_err(|e| ToolError::Local(format!("`key` is not a public key: {e}")))?;
    let lease = core.await_lease().await?;
    let command = AgentCommand::AddPeer {
        petname: name.to_string(),
        key,
        origin: Origin::Tool,
        lease: Some(lease),
        now: core.clock.now(),
    };
    let reply = core.peers.change(&core.ledger, command).await?;
    let changed = matches!(reply, AgentReply::PeerAdded { changed: true });
    let text = if changed {
        format!("{name} ({key}) may write to this identity now.")
    } else {
        format!("{name} ({key}) is a peer already.")
    };
    Ok(Answer {
        text,
        data: PeerAdded {
            petname: name.to_string(),
            key: key.to_string(),
            changed,
        },
    })
}

/// Revokes a key; durable when this returns.
///
/// # Errors
///
/// [`ToolError`].
pub async fn remove_peer(
    core: &Core,
    a: args::RemovePeer,
) -> Result<Answer<PeerRemoved>, ToolError> {
    let lease = core.await_lease().await?;
    let command = AgentCommand::RemovePeer {
        petname: a.petname.clone(),
        origin: Origin::Tool,
        lease: Some(lease),
        now: core.clock.now(),
    };
    let name = render::label(&a.petname);
    let (text, key) = match core.peers.change(&core.ledger, command).await? {
        AgentReply::PeerRemoved { key: Some(key) } => (
            format!("{name} ({key}) is revoked and cannot write to this identity any more."),
            Some(key.to_string()),
        ),
        _ => (format!("There is no peer {name}."), None),
    };
    Ok(Answer {
        text,
        data: PeerRemoved {
            removed: key.is_some(),
            key,
        },
    })
}

/// Lists who may write to this identity.
///
/// # Errors
///
/// [`ToolError`].
pub async fn list_peers(core: &Core, _: args::Nothing) -> Result<Answer<Peers>, ToolError> {
    core.peers.ensure(&core.ledger).await?;
    let peers = core.ledger.read(|s| Ok(query::peers(s)?)).await?;
    let peers: Vec<Peer> = peers
        .iter()
        .map(|p| Peer {
            petname: render::label(&p.petname),
            key: p.key.to_string(),
            origin: p.origin.name().to_owned(),
            since_ms: p.since.0,
        })
        .collect();
    let text = if peers.is_empty() {
        "No peers.".to_owned()
    } else {
        let lines: Vec<String> = peers
            .iter()
            .map(|p| format!("{} \u{2192} {}", p.petname, p.key))
            .collect();
        lines.join("\n")
    };
    Ok(Answer {
        text,
        data: Peers { peers },
    })
}
