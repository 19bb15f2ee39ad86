//! What a channel server is told at its start, checked once.

use std::path::PathBuf;

use super::bond::config::BondConfig;
use super::client::{RelayUrl, RelayUrlError};
use super::connect::Authorities;
use super::host::HostConfig;
use crate::domain::gate::Windows;
use crate::store::Retention;
use crate::types::id::SessionId;
use crate::types::limit::MAX_RELAYS;

/// Everything that a channel server is told.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The allowlist.
    pub peers: PathBuf,
    /// Whether it takes the place of another allowlist that the identity had so far.
    pub adopt_peers: bool,
    /// Where the identity's log lives.
    pub store: StorePlace,
    /// How long records are kept for the operator.
    pub retention: Retention,
    /// How long conversations are kept after they ended, in milliseconds. What is unread or unsent
    /// stays, however old it is.
    pub keep_history_ms: u64,
    /// Who vouches for relays behind `https://`.
    pub authorities: Authorities,
    /// The relays, at least one.
    pub relays: Vec<RelayUrl>,
    /// The node's name; `None` stands for the fingerprint.
    pub name: Option<String>,
    /// The session; `None` when the host names it later.
    pub session: Option<SessionId>,
    /// How far a message's signed time may be from now.
    pub windows: Windows,
    /// Age in milliseconds of a signature at which an unsent message is signed anew.
    pub resign_after_ms: u64,
    /// Who consents to admissions.
    pub consent: Consent,
    /// How `interlink-admin` is told to mean this identity; `None` where that tool cannot reach the
    /// log.
    pub operator: Option<OperatorFlags>,
    /// The host and how it can be woken.
    pub host: HostConfig,
    /// How long a notice may stay unanswered, in milliseconds, when it went a way that never
    /// proved to work and there is another.
    pub notice_patience_ms: u64,
    /// How much of the working directory everybody may see.
    pub share_cwd: ShareCwd,
    /// What sealed sessions are told.
    pub bond: BondConfig,
}

/// What follows a command of `interlink-admin`, ready for a shell: each empty or beginning with a
/// blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorFlags {
    /// For every command: which identity.
    pub identity: String,
    /// For commands that find the identity by its store: which one.
    pub store: String,
    /// For commands that send something: through which relays.
    pub relays: String,
}

/// Who consents to admitting and revoking peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// The human, asked by the host or on a terminal.
    Auto,
    /// Whoever calls the tool.
    Tool,
}

/// How much of the working directory is announced. Announcements are public to whoever can ask a
/// relay, paired or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareCwd {
    /// The whole path, and the name of the repository.
    Full,
    /// Its last part, and the name of the repository.
    #[default]
    Basename,
    /// Nothing.
    None,
}

/// Where an identity's log lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// In memory: gone with the process.
    Memory,
    /// In a file, shared with the identity's other processes.
    Shared(PathBuf),
    /// In a file of this session alone.
    Exclusive(PathBuf),
}

/// Reads a comma-separated list of relays. Duplicates collapse; the order stays.
///
/// # Errors
///
/// [`RelayListError`].
pub fn parse_relays<'a>(
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<RelayUrl>, RelayListError> {
    let mut relays: Vec<RelayUrl> = Vec::new();
    for text in texts {
        let url = RelayUrl::parse(text)?;
        if !relays.contains(&url) {
            relays.push(url);
        }
    }
    match relays.len() {
        0 => Err(RelayListError::Empty),
        n if n > MAX_RELAYS => Err(RelayListError::TooMany),
        _ => Ok(relays),
    }
}

/// Why a list is not a list of relays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RelayListError {
    /// One of them is no address.
    #[error(transparent)]
    Url(#[from] RelayUrlError),
    /// Nothing there.
    #[error("no relay is named; the usual one is http://127.0.0.1:9440")]
    Empty,
    /// Over [`MAX_RELAYS`].
    #[error("at most {MAX_RELAYS} relays can be named")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_addresses_are_normalised_and_collapse() {
        let list = parse_relays([
            "http://127.0.0.1:9440/",
            " http://127.0.0.1:9440",
            "HTTP://Bus.Example:80//",
            "http://[::1]:1",
        ]);
        let texts: Vec<String> = list.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "http://127.0.0.1:9440",
                "http://bus.example",
                "http://[::1]:1"
            ]
        );
    }

    #[test]
    fn what_would_go_wrong_later_is_refused_at_the_start() {
        for bad in [
            "",
            " ",
            "127.0.0.1:9440",
            "https://a/x",
            "ftp://a",
            "http://u@a",
            "http://u:p@a",
            "http://a/x",
            "http://a?x",
            "http://a#x",
            "http://",
        ] {
            assert!(RelayUrl::parse(bad).is_err(), "{bad:?}");
        }
        let secure = RelayUrl::parse("https://A:443");
        assert_eq!(
            secure.map(|url| (url.is_secure(), url.to_string())).ok(),
            cfg!(feature = "tls").then(|| (true, "https://a".to_owned()))
        );
        assert_eq!(parse_relays([]), Err(RelayListError::Empty));
    }
}
