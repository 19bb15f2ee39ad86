//! Notices through Codex's own queue of inputs: `codex queue --thread UUID --message TEXT`.
//!
//! Arguments only, no shell. The text becomes a bare message of the user to the model, so it is our
//! own short notice and nothing of a peer. A call that takes too long may have worked: its outcome
//! is unknown, and it is not repeated at once.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use super::{Handoff, notice_text};
use crate::domain::machine::notice::NoticeView;
use crate::types::id::SessionId;

/// Longest time for one hand-off.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest text in bytes that the program takes.
const MAX_TEXT_BYTES: usize = 12_288;

/// Whether a text is a thread id: 36 characters, hexadecimal digits with `-` at 8, 13, 18, 23.
#[must_use]
pub fn is_thread_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Queues a notice.
///
/// # Errors
///
/// [`Handoff`], which says whether trying again makes sense.
pub async fn push(bin: &Path, thread: &SessionId, view: &NoticeView) -> Result<(), Handoff> {
    queue(bin, thread.as_str(), &notice_text(view), LIMIT).await
}

async fn queue(bin: &Path, thread: &str, text: &str, limit: Duration) -> Result<(), Handoff> {
    if text.len() > MAX_TEXT_BYTES || text.contains('\0') {
        return Err(Handoff::lasting(
            "the notice is not a text that codex takes",
        ));
    }
    let args = ["queue", "--thread", thread, "--message", text].map(OsStr::new);
    let mut child = tokio::process::Command::new(bin)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| {
            let reason = format!("{} does not start: {e}", bin.display());
            match e.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Handoff::passing(reason),
                _ => Handoff::lasting(reason),
            }
        })?;
    match tokio::time::timeout(limit, child.wait()).await {
        Ok(Ok(status)) => ended(status),
        Ok(Err(e)) => Err(Handoff::lasting(format!("codex queue: {e}"))),
        Err(_) => {
            let _ = child.kill().await;
            let seconds = limit.as_secs();
            Err(Handoff::lasting(format!(
                "codex queue gave no answer within {seconds} s; whether it queued is not known"
            )))
        }
    }
}

fn ended(status: ExitStatus) -> Result<(), Handoff> {
    if status.success() {
        Ok(())
    } else {
        Err(Handoff::passing(format!("codex queue failed: {status}")))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn thread_ids_are_told_from_other_texts() {
        assert!(is_thread_id("01a2b3c4-0000-7000-8000-00000000000F"));
        for odd in [
            "",
            "01a2b3c4-0000-7000-8000-00000000000",
            "01a2b3c4-0000-7000-8000-00000000000g",
            "01a2b3c40000-7000-8000-00000000000-00",
            "01a2b3c4-0000-7000-8000-0000000000000",
        ] {
            assert!(!is_thread_id(odd), "{odd:?}");
        }
    }

    #[tokio::test]
    async fn a_hand_off_that_never_ends_is_given_up_and_not_repeated_at_once() {
        let limit = Duration::from_millis(50);
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("codex");
        std::fs::write(&bin, "#!/bin/sh\nexec sleep 60\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&bin, mode).unwrap();
        let e = queue(&bin, "t", "x", limit).await.unwrap_err();
        assert!(!e.again, "{e}");
        let e = queue(Path::new("/bin/false"), "t", "x", LIMIT).await;
        assert!(e.unwrap_err().again);
        let e = queue(&dir.path().join("none"), "t", "x", LIMIT).await;
        assert!(!e.unwrap_err().again);
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        for text in ["a\0b", long.as_str()] {
            let e = queue(Path::new("/bin/true"), "t", text, LIMIT).await;
            assert!(!e.unwrap_err().again);
        }
        queue(Path::new("/bin/true"), "t", "x", LIMIT)
            .await
            .unwrap();
    }
}
