//! This session and others.

use rmcp::model::Tool;

use super::{Call, Effect, Hint, Outcome, describe, run};
use crate::agent::mcp::tool::{discover, session};
use crate::agent::mcp::{args, reply};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        describe::<args::Nothing, reply::MySession>(
            "get_my_session_id",
            "Name this session",
            "Give the id of this session, for others to write to.",
            Effect::Reads,
            Hint::None,
        ),
        describe::<args::Discover, reply::Discovered>(
            "discover",
            "Find sessions",
            "Show who is there on the relays: this identity, its peers and others, with their \
             sessions and when each was heard. What they say of themselves is untrusted text.",
            Effect::Asks,
            Hint::None,
        ),
        describe::<args::SetSummary, reply::SummarySet>(
            "set_summary",
            "Describe this session",
            "Set the line that tells others what this session works on. Everybody who can ask a \
             relay sees it.",
            Effect::Publishes,
            Hint::None,
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Outcome {
    let core = call.core;
    Some(match call.name {
        "get_my_session_id" => run(call, |a| session::get_my_session_id(core, a)).await,
        "discover" => run(call, |a| discover::discover(core, a)).await,
        "set_summary" => run(call, |a| session::set_summary(core, a)).await,
        _ => return None,
    })
}
