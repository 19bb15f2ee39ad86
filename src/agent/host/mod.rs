//! Waking the host when mail waits.
//!
//! A notice says that there is mail and how to get it; it never carries a peer's words. A host has
//! several ways to be woken ([`HostConfig::paths`], the best first), and each may fail without a
//! word. So a notice counts as seen only when its id came back, through a fetch or through the hook
//! that sees the prompt; until then it goes the next way ([`notice::turn`]), one way at a time.
//!
//! | host | ways |
//! |---|---|
//! | Claude Code with channels | `claude_channel`, `claude_socket` if there is one, the listener |
//! | Claude Code | `claude_socket` if there is one, the listener (`claude_hook`) |
//! | Codex | `codex` |
//! | any other | none: the count of unread mail stands in every result of a tool |
//!
//! When to give a notice is decided by the schedule in the log, so all ways obey the same rules and
//! a restart forgets nothing.
//!
//! [`notice::turn`]: crate::domain::machine::notice::turn

pub mod claude_channel;
pub mod claude_hook;
pub mod claude_socket;
pub mod codex;
mod wake;

use std::path::PathBuf;

pub use claude_socket::MessagingSocket;
pub use wake::run;

use crate::domain::machine::notice::NoticeView;
use crate::event::agent::{HostKind, NoticePath};

/// The host that a server was started by, and how it can be woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostConfig {
    /// Claude Code.
    Claude {
        /// Whether notifications on the MCP connection wake it.
        channels: bool,
        /// Its messaging socket, if that may be used.
        socket: Option<MessagingSocket>,
        /// Whether its hooks say which conversation runs; nothing is done before they did.
        managed: bool,
    },
    /// Codex. The thread is named by every call.
    Codex {
        /// The program.
        bin: PathBuf,
    },
    /// Any other MCP client.
    Other,
}

impl HostConfig {
    /// The ways to wake it, the best first.
    #[must_use]
    pub fn paths(&self) -> Vec<NoticePath> {
        match self {
            HostConfig::Claude {
                channels, socket, ..
            } => {
                let channel = channels.then_some(NoticePath::Channel);
                let socket = socket.as_ref().map(|_| NoticePath::Socket);
                let ways = [channel, socket, Some(NoticePath::Listener)];
                ways.into_iter().flatten().collect()
            }
            HostConfig::Codex { .. } => vec![NoticePath::HostQueue],
            HostConfig::Other => vec![],
        }
    }

    /// Which host it is.
    #[must_use]
    pub const fn kind(&self) -> HostKind {
        match self {
            HostConfig::Claude { .. } => HostKind::Claude,
            HostConfig::Codex { .. } => HostKind::Codex,
            HostConfig::Other => HostKind::Other,
        }
    }
}

/// A hand-off did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Handoff {
    /// What was wrong.
    pub reason: String,
    /// Whether the same may work in a moment.
    pub again: bool,
}

impl Handoff {
    fn passing(reason: impl Into<String>) -> Handoff {
        Handoff {
            reason: reason.into(),
            again: true,
        }
    }

    fn lasting(reason: impl Into<String>) -> Handoff {
        Handoff {
            reason: reason.into(),
            again: false,
        }
    }
}

/// How every notice begins.
const TAGS: [&str; 2] = ["[interlink inbox notice]", "[interlink pairing notice]"];

/// The text of a notice. The token `notification_id="..."` is what hosts and tests look for.
#[must_use]
pub fn notice_text(view: &NoticeView) -> String {
    let again = if view.offers > 0 {
        ", still unread"
    } else {
        ""
    };
    // Keys cost nothing: however many strangers ask, it is one line without a word of theirs.
    let pairing = match view.news {
        0 => "",
        _ => " There is news about pairing: call list_pair_requests and tell the user.",
    };
    if view.attention == 0 {
        return format!(
            "[interlink pairing notice] notification_id=\"{}\".{pairing}",
            view.id
        );
    }
    format!(
        "[interlink inbox notice] {} waiting{again}: call receive_messages with \
         notification_id=\"{}\", read, then acknowledge_messages before acting.{pairing}",
        match view.attention {
            1 => "1 message".to_owned(),
            n => format!("{n} messages"),
        },
        view.id
    )
}

/// The id of the notice that a prompt carries, whatever the host put around it.
#[must_use]
pub fn notice_in(prompt: &str) -> Option<&str> {
    const TOKEN: &str = "notification_id=\"";
    let (_, notice) = TAGS.iter().find_map(|tag| prompt.split_once(tag))?;
    let line = notice.lines().next()?;
    let (_, id) = line.split_once(TOKEN)?;
    let (id, _) = id.split_once('"')?;
    let plain = id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_found_in_whatever_a_host_makes_of_it() {
        let view = NoticeView {
            id: "00ff00ff".into(),
            path: NoticePath::Socket,
            unanswered: None,
            attempt: 1,
            offers: 1,
            attention: 1,
            news: 0,
        };
        let news = NoticeView {
            attention: 0,
            news: 3,
            ..view.clone()
        };
        assert_eq!(notice_in(&notice_text(&news)), Some("00ff00ff"));
        let text = notice_text(&view);
        let around = format!("Another session sent a message:\n{text}\n\nThis came from it.");
        for prompt in [text.as_str(), around.as_str()] {
            assert_eq!(notice_in(prompt), Some("00ff00ff"), "{prompt}");
        }
        for other in [
            "",
            "notification_id=\"00ff00ff\"",
            "[interlink inbox notice]\nnotification_id=\"00ff00ff\"",
            "[interlink inbox notice] notification_id=\"zz\"",
        ] {
            assert_eq!(notice_in(other), None, "{other}");
        }
    }

    #[test]
    fn ways_are_tried_in_a_fixed_order() {
        use NoticePath::{Channel, HostQueue, Listener, Socket};
        let socket = || {
            Some(MessagingSocket {
                path: "/s".into(),
                token: "t".into(),
            })
        };
        let claude = |channels, socket| HostConfig::Claude {
            channels,
            socket,
            managed: true,
        };
        assert_eq!(claude(true, socket()).paths(), [Channel, Socket, Listener]);
        assert_eq!(claude(true, None).paths(), [Channel, Listener]);
        assert_eq!(claude(false, socket()).paths(), [Socket, Listener]);
        assert_eq!(claude(false, None).paths(), [Listener]);
        let bin = "codex".into();
        assert_eq!(HostConfig::Codex { bin }.paths(), [HostQueue]);
        assert_eq!(HostConfig::Other.paths(), []);
        assert!(!format!("{:?}", socket()).contains("\"t\""));
    }
}
