//! `send_file`: a file to a peer, without a code.

use std::sync::Arc;

use super::bond::known;
use super::bond_file;
use crate::agent::bond::desk::Whom;
use crate::agent::core::Core;
use crate::agent::directory::{Address, Who, resolve};
use crate::agent::mcp::args::bond as args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::Answer;
use crate::agent::mcp::reply::bond::BondSent;
use crate::domain::query::agent as query;
use crate::types::route::Route;

/// Offers a file to a peer: its human decides.
///
/// # Errors
///
/// [`ToolError`].
pub async fn send_file(
    core: &Arc<Core>,
    a: args::FileToPeer,
) -> Result<Answer<BondSent>, ToolError> {
    core.await_lease().await?;
    core.peers.ensure(&core.ledger).await?;
    let address = Address {
        to: a.peer.trim(),
        session: a.session.as_deref(),
        task_id: None,
    };
    let to = resolve(core, address).await?;
    let Who::Peer(petname) = &to.who else {
        return Err(ToolError::Invalid(
            "a file to another session of this identity is on this machine already: say where it is"
                .to_owned(),
        ));
    };
    let key = to.key;
    let speaks = core
        .ledger
        .read(move |s| Ok(query::is_sealed_peer(s, &key)?))
        .await?;
    let shown = render::label(petname);
    if !speaks && !a.anyway.unwrap_or_default() {
        return Err(ToolError::Failed(format!(
            "it is not known that {shown}'s program takes files this way, and another would show a message \
             about it instead. If the user says that it is this program, call again with `anyway`; or meet \
             with a spoken code (bond_connect with `spoken`) and send it there (bond_send). Where that \
             worked once, or the two pinned each other (bond_pin), it is known."
        )));
    }
    let whom = Whom {
        to: Route::new(to.key, to.session),
        petname: petname.clone(),
    };
    let note = a.message.unwrap_or_default();
    let sent = core.bond.hand_over(core, &whom, a.filepath, note).await;
    let sent = known(core, "send_file", sent)?;
    let note = format!(
        "It is offered to {shown}, and goes once their user took it. bond_wait tells what becomes of it; \
         the session ends by itself then, or after half an hour without a decision. Their side is shown \
         the same SHA-256."
    );
    let head = format!("File Offered\nTo: {shown}");
    Ok(bond_file::answer(sent, &head, note))
}
