//! Notices through Claude Code's local messaging socket.
//!
//! The host tells a model that such a text comes from a teammate who acts for the user. That is more
//! trust than a stranger deserves, so nothing of a peer goes this way: only our own short notice.
//! The frame names the session, and the host drops it when another conversation runs by now.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Handoff, notice_text};
use crate::domain::machine::notice::NoticeView;
use crate::types::id::SessionId;

/// Longest time for one hand-off.
const LIMIT: Duration = Duration::from_secs(3);

/// Where the host listens, and the proof that it started us.
#[derive(Clone, PartialEq, Eq)]
pub struct MessagingSocket {
    /// Absolute path.
    pub path: PathBuf,
    /// The host's token for this session.
    pub token: String,
}

impl fmt::Debug for MessagingSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessagingSocket({}, token hidden)", self.path.display())
    }
}

/// Hands a notice over: two lines of JSON, then the end of writing. The host answers nothing.
///
/// # Errors
///
/// [`Handoff`] when the socket does not take it within three seconds.
pub async fn push(
    socket: &MessagingSocket,
    session: &SessionId,
    view: &NoticeView,
) -> Result<(), Handoff> {
    let auth = json!({ "type": "auth", "token": socket.token });
    let user = json!({
        "type": "user",
        "session_id": session,
        "message": { "role": "user", "content": notice_text(view) },
    });
    let frames = format!("{auth}\n{user}\n");
    match tokio::time::timeout(LIMIT, write(socket, frames.as_bytes())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(Handoff::passing(format!("the messaging socket: {e}"))),
        Err(_) => Err(Handoff::passing("the messaging socket hangs")),
    }
}

#[cfg(unix)]
async fn write(socket: &MessagingSocket, frames: &[u8]) -> std::io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    let mut stream = tokio::net::UnixStream::connect(&socket.path).await?;
    stream.write_all(frames).await?;
    stream.shutdown().await
}

#[cfg(windows)]
async fn write(socket: &MessagingSocket, frames: &[u8]) -> std::io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    let mut pipe = tokio::net::windows::named_pipe::ClientOptions::new().open(&socket.path)?;
    pipe.write_all(frames).await?;
    pipe.shutdown().await
}

#[cfg(not(any(unix, windows)))]
async fn write(_socket: &MessagingSocket, _frames: &[u8]) -> std::io::Result<()> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}
