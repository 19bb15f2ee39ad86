//! `reject_pair`, `cancel_pair_request`: what ends without admitting anybody. Nobody is asked.

use super::pair::{Meant, invalid, meant};
use super::pair_view::fitting;
use crate::agent::core::Core;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::reply::Answer;
use crate::agent::mcp::reply::pairing::PairEnded;
use crate::domain::decide::agent::PairingCommand;
use crate::domain::query::agent as query;
use crate::event::agent::Origin;
use crate::types::id::PublicKey;
use crate::types::time::Clock as _;

/// Lets a request drop.
///
/// # Errors
///
/// [`ToolError`].
pub async fn reject_pair(core: &Core, a: args::RejectPair) -> Result<Answer<PairEnded>, ToolError> {
    let text = a.fingerprint.trim().to_owned();
    let lease = core.await_lease().await?;
    let Some(Meant::Asking(inbound)) = meant(core, &text).await? else {
        return Ok(ended(
            None,
            "Nobody with this fingerprint or key asks.".to_owned(),
        ));
    };
    let command = PairingCommand::Reject {
        lease: Some(lease),
        key: inbound.key,
        request_id: Some(inbound.row.request_id.clone()),
        origin: Origin::Tool,
        now: core.clock.now(),
    };
    core.submit(command.into()).await?;
    let note = format!(
        "The request of {} is rejected. They are not told.",
        inbound.key
    );
    Ok(ended(Some(inbound.key), note))
}

fn ended(key: Option<PublicKey>, note: String) -> Answer<PairEnded> {
    Answer {
        text: note.clone(),
        data: PairEnded {
            changed: key.is_some(),
            key: key.map(|key| key.to_string()),
            note,
        },
    }
}

/// Calls a request of ours off.
///
/// # Errors
///
/// [`ToolError`].
pub async fn cancel_pair_request(
    core: &Core,
    a: args::CancelPairRequest,
) -> Result<Answer<PairEnded>, ToolError> {
    let text = a.target.trim().to_owned();
    let lease = core.await_lease().await?;
    let found = core
        .ledger
        .read(move |s| {
            let outbound = query::outbound(s)?.into_iter().map(|o| (o.key, o.row.name));
            let conflicts = query::conflicts(s)?
                .into_iter()
                .map(|c| (c.key, c.row.name));
            let all = outbound.chain(conflicts);
            Ok(fitting(all.collect(), &text))
        })
        .await?;
    let key = match found.as_slice() {
        [] => return Ok(ended(None, "No request of this identity fits.".to_owned())),
        [key] => *key,
        _ => return invalid("several requests fit; give the whole key"),
    };
    let command = PairingCommand::Cancel {
        lease: Some(lease),
        key,
        origin: Origin::Tool,
        now: core.clock.now(),
    };
    core.submit(command.into()).await?;
    let note = format!("The request to {key} is called off; a later acceptance is ignored.");
    Ok(ended(Some(key), note))
}
