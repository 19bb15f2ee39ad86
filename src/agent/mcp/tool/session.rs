//! `get_my_session_id`, `set_summary`.

use std::sync::PoisonError;

use serde_json::json;

use crate::agent::core::Core;
use crate::agent::mcp::args;
use crate::agent::mcp::error::ToolError;
use crate::agent::mcp::render;
use crate::agent::mcp::reply::{Answer, MySession, SummarySet};

/// Longest summary in characters. It is shown in one line of a list.
const MAX_SUMMARY_CHARS: usize = 500;

/// Names this session. Asks nobody.
///
/// # Errors
///
/// None.
pub async fn get_my_session_id(
    core: &Core,
    _: args::Nothing,
) -> Result<Answer<MySession>, ToolError> {
    let session_id = core.session.to_string();
    Ok(Answer {
        text: json!({ "session_id": session_id }).to_string(),
        data: MySession {
            session_id,
            public_key: core.me.to_string(),
        },
    })
}

/// Changes the summary and announces it.
///
/// # Errors
///
/// [`ToolError::Invalid`] when it is too long.
pub async fn set_summary(
    core: &Core,
    a: args::SetSummary,
) -> Result<Answer<SummarySet>, ToolError> {
    let summary = a.summary.trim();
    if summary.chars().count() > MAX_SUMMARY_CHARS {
        return Err(ToolError::Invalid(format!(
            "a summary has at most {MAX_SUMMARY_CHARS} characters"
        )));
    }
    summary.clone_into(&mut core.summary.lock().unwrap_or_else(PoisonError::into_inner));
    core.summary_changed.notify_one();
    Ok(Answer {
        text: format!("Summary set: {}", render::body(summary)),
        data: SummarySet {
            summary: summary.to_owned(),
        },
    })
}
