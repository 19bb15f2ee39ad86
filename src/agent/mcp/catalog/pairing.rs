//! How strangers become peers.

use rmcp::model::Tool;

use super::{Call, Effect, Hint, Outcome, describe, run};
use crate::agent::mcp::args;
use crate::agent::mcp::reply::pairing as reply;
use crate::agent::mcp::tool::pair;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        describe::<args::RequestPair, reply::PairRequested>(
            "request_pair",
            "Ask to pair",
            "Ask somebody on the roster to pair. When they accept, both sides can write to each other. \
             The user is asked first; the request survives restarts and outages, and asking again \
             repeats it.",
            Effect::Requests,
            Hint::AskUser,
        ),
        describe::<args::Nothing, reply::PairRequests>(
            "list_pair_requests",
            "List pairing requests",
            "List who asks to be admitted, whom this identity asked, and what is new about pairing. A \
             claimed name proves nothing: show the user the fingerprint.",
            Effect::Reads,
            Hint::None,
        ),
        describe::<args::AcceptPair, reply::PairAccepted>(
            "accept_pair",
            "Accept a pairing request",
            "Admit somebody who asked, or who accepted a request of this identity and needs another \
             name. The user is asked; where the host cannot ask, the answer is a line for the user's \
             terminal.",
            Effect::Admits,
            Hint::AskUser,
        ),
        describe::<args::RejectPair, reply::PairEnded>(
            "reject_pair",
            "Reject a pairing request",
            "Let somebody's pairing request drop. They are not told.",
            Effect::Drops,
            Hint::None,
        ),
        describe::<args::CancelPairRequest, reply::PairEnded>(
            "cancel_pair_request",
            "Cancel a pairing request",
            "Call off a pairing request of this identity: a later acceptance is ignored.",
            Effect::Drops,
            Hint::None,
        ),
        describe::<args::PairStatus, reply::PairStatus>(
            "pair_status",
            "Look up a pairing",
            "Say how far pairing with somebody is.",
            Effect::Reads,
            Hint::None,
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Outcome {
    let (core, host) = (call.core, &call.host);
    Some(match call.name {
        "request_pair" => run(call, |a| pair::request_pair(core, host, a)).await,
        "list_pair_requests" => run(call, |a| pair::list_pair_requests(core, a)).await,
        "accept_pair" => run(call, |a| pair::accept_pair(core, host, a)).await,
        "reject_pair" => run(call, |a| pair::reject_pair(core, a)).await,
        "cancel_pair_request" => run(call, |a| pair::cancel_pair_request(core, a)).await,
        "pair_status" => run(call, |a| pair::pair_status(core, a)).await,
        _ => return None,
    })
}
