//! How a tool says no.
//!
//! The same three ways as the public program: arguments that do not fit their types are a tool
//! result, arguments that make no sense are "invalid params", trouble of this machine is an
//! internal error that starts with `local state:`.

use rmcp::model::{ErrorCode, ErrorData};
use serde::Serialize;
use serde_json::Value;

use crate::agent::core::ActError;
use crate::agent::directory::ResolveError;
use crate::agent::ledger::LedgerError;
use crate::agent::peers_file::PeersFileError;
use crate::domain::decide::agent::AgentRefusal;
use crate::store::ReadError;

/// A tool could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The caller has to ask otherwise.
    #[error("{0}")]
    Invalid(String),
    /// What was asked for cannot be had now; a result that says so.
    #[error("{0}")]
    Failed(String),
    /// Something of this machine is in the way.
    #[error("local state: {0}")]
    Local(String),
    /// The human has not agreed. Told as a failed result of the tool's own shape, because the model has
    /// to read what the human can do.
    #[error("{text}")]
    Refused {
        /// The text.
        text: String,
        /// The data.
        data: Value,
    },
}

impl ToolError {
    /// A result of a tool that did nothing for want of consent.
    #[must_use]
    pub fn refused(text: String, data: &impl Serialize) -> ToolError {
        match serde_json::to_value(data) {
            Ok(data) => ToolError::Refused { text, data },
            Err(e) => ToolError::Local(format!("the answer cannot be written: {e}")),
        }
    }
}

impl From<ToolError> for ErrorData {
    fn from(e: ToolError) -> ErrorData {
        let code = match e {
            ToolError::Invalid(_) => ErrorCode::INVALID_PARAMS,
            ToolError::Failed(_) | ToolError::Local(_) | ToolError::Refused { .. } => {
                ErrorCode::INTERNAL_ERROR
            }
        };
        ErrorData::new(code, e.to_string(), None)
    }
}

impl From<ActError> for ToolError {
    fn from(e: ActError) -> ToolError {
        match e {
            ActError::Ledger(e) => e.into(),
            e => ToolError::Local(e.to_string()),
        }
    }
}

impl From<LedgerError> for ToolError {
    fn from(e: LedgerError) -> ToolError {
        match e.refusal() {
            // These are about what the caller asked for.
            Some(
                AgentRefusal::MessageTooLarge { .. }
                | AgentRefusal::FieldLength { .. }
                | AgentRefusal::DuplicateMessage { .. }
                | AgentRefusal::Pairing(_),
            ) => ToolError::Invalid(e.to_string()),
            _ => ToolError::Local(e.to_string()),
        }
    }
}

impl From<ReadError> for ToolError {
    fn from(e: ReadError) -> ToolError {
        ToolError::Local(e.to_string())
    }
}

impl From<PeersFileError> for ToolError {
    fn from(e: PeersFileError) -> ToolError {
        ToolError::Local(e.to_string())
    }
}

impl From<ResolveError> for ToolError {
    fn from(e: ResolveError) -> ToolError {
        match e {
            e @ ResolveError::Ask { .. } => ToolError::Invalid(e.to_string()),
            ResolveError::Act(e) => e.into(),
        }
    }
}
