//! Claude Code's messaging socket, as the environment offers it.

use std::path::PathBuf;

use crate::agent::host::MessagingSocket;
use crate::cli::paths;

/// The host's wishes contradict each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum HostError {
    #[error("INTERLINK_CLAUDE_DELIVERY is {0:?}; auto, socket and inbox are possible")]
    Delivery(String),
    #[error(
        "INTERLINK_CLAUDE_DELIVERY=socket, but CLAUDE_CODE_MESSAGING_SOCKET is not set; \
         this version of Claude Code has no such socket: use auto or inbox"
    )]
    NoSocket,
    #[error("CLAUDE_CODE_MESSAGING_SOCKET is {0:?}, not an absolute path")]
    SocketPath(PathBuf),
    #[error("CLAUDE_CODE_MESSAGING_SOCKET is set, but CLAUDE_CODE_MESSAGING_TOKEN is not")]
    NoToken,
}

/// The messaging socket that the host offers and the operator wants.
pub(super) fn messaging_socket(
    env: paths::Env<'_>,
    channels: bool,
) -> Result<Option<MessagingSocket>, HostError> {
    let text = |name: &str| {
        env(name)
            .map(|v| v.to_string_lossy().trim().to_owned())
            .filter(|v| !v.is_empty())
    };
    let wanted = text("INTERLINK_CLAUDE_DELIVERY").unwrap_or_else(|| "auto".to_owned());
    let must = match wanted.to_ascii_lowercase().as_str() {
        "auto" => false,
        "socket" => true,
        "inbox" => return Ok(None),
        _ => return Err(HostError::Delivery(wanted)),
    };
    let Some(path) = text("CLAUDE_CODE_MESSAGING_SOCKET").map(PathBuf::from) else {
        return if must && !channels {
            Err(HostError::NoSocket)
        } else {
            Ok(None)
        };
    };
    let good = if cfg!(windows) {
        path.to_string_lossy().starts_with(r"\\.\pipe\")
    } else {
        path.is_absolute()
    };
    if !good {
        return Err(HostError::SocketPath(path));
    }
    let token = text("CLAUDE_CODE_MESSAGING_TOKEN").ok_or(HostError::NoToken)?;
    Ok(Some(MessagingSocket { path, token }))
}
