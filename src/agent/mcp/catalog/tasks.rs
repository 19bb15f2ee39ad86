//! Work that takes more than one message.

use rmcp::model::Tool;

use super::{Call, Effect, Hint, Outcome, describe, run};
use crate::agent::mcp::tool::task;
use crate::agent::mcp::{args, reply};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        describe::<args::CancelTask, reply::Queued>(
            "cancel_task",
            "Withdraw a task",
            "Tell who works on a task that it is withdrawn. That is a wish: the other side decides. \
             For this session the task is over.",
            Effect::Sends,
            Hint::None,
        ),
        describe::<args::ListTasks, reply::Tasks>(
            "list_tasks",
            "List tasks",
            "List the open tasks of this session: those that it works on and those that others work \
             on for it.",
            Effect::Reads,
            Hint::None,
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Outcome {
    let core = call.core;
    Some(match call.name {
        "cancel_task" => run(call, |a| task::cancel_task(core, a)).await,
        "list_tasks" => run(call, |a| task::list_tasks(core, a)).await,
        _ => return None,
    })
}
