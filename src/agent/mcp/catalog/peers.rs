//! Who may write.

use rmcp::model::Tool;

use super::{Call, Effect, Hint, Outcome, describe, run};
use crate::agent::mcp::tool::peer;
use crate::agent::mcp::{args, reply};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        describe::<args::Nothing, reply::Peers>(
            "list_peers",
            "List peers",
            "List who may write to this identity: local name and public key.",
            Effect::Reads,
            Hint::None,
        ),
        describe::<args::AddPeer, reply::PeerAdded>(
            "add_peer",
            "Admit a peer",
            "Let a public key write to this identity under a local name. The user is asked; where the \
             host cannot ask, the answer is a line for the user's terminal.",
            Effect::Admits,
            Hint::AskUser,
        ),
        describe::<args::RemovePeer, reply::PeerRemoved>(
            "remove_peer",
            "Revoke a peer",
            "End a peer's right to write to this identity. The user is asked, as for add_peer.",
            Effect::Revokes,
            Hint::AskUser,
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Outcome {
    let core = call.core;
    Some(match call.name {
        "add_peer" => run(call, |a| peer::add_peer(core, &call.host, a)).await,
        "remove_peer" => run(call, |a| peer::remove_peer(core, &call.host, a)).await,
        "list_peers" => run(call, |a| peer::list_peers(core, a)).await,
        _ => return None,
    })
}
